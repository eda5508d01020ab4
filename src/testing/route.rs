//! An operation that the contract server offers.

use std::fmt;

use wiremock::{Match, Request, Respond, ResponseTemplate};

use super::contract_server::ContractServer;
use super::script::Faults;

/// An operation to be mounted on a [`ContractServer`]; made by [`ContractServer::operation`].
#[must_use = "an operation answers nothing until it is mounted"]
pub struct OperationBuilder<'s> {
    server: &'s ContractServer,
    route: Route,
}

/// An operation, mounted.
pub(super) struct Route {
    pub(super) matchers: Vec<Box<dyn Match>>,
    pub(super) responder: Box<dyn Respond>,
    pub(super) faults: Faults,
    pub(super) expected: Option<usize>,
    pub(super) name: Option<String>,
}

/// A mounted operation: its script can be changed while the test goes on.
#[derive(Debug, Clone, Copy)]
pub struct Operation<'s> {
    server: &'s ContractServer,
    route: usize,
}

impl<'s> OperationBuilder<'s> {
    pub(super) fn new(server: &'s ContractServer, matcher: impl Match + 'static) -> Self {
        let route = Route {
            matchers: vec![Box::new(matcher)],
            responder: Box::new(ResponseTemplate::new(201)),
            faults: Faults::none(),
            expected: None,
            name: None,
        };
        Self { server, route }
    }

    /// One more condition that a request of this operation fulfils.
    pub fn and(mut self, matcher: impl Match + 'static) -> Self {
        self.route.matchers.push(Box::new(matcher));
        self
    }

    /// What the operation does when it runs: a template, or wiremock's `Respond`. Default: 201 without a body.
    pub fn respond_with(mut self, responder: impl Respond + 'static) -> Self {
        self.route.responder = Box::new(responder);
        self
    }

    /// What goes wrong, attempt by attempt. Default: nothing.
    pub fn faults(mut self, faults: impl Into<Faults>) -> Self {
        self.route.faults = faults.into();
        self
    }

    /// How many operations shall have been executed here when the server is verified. Default: any number.
    pub fn expect(mut self, operations: usize) -> Self {
        self.route.expected = Some(operations);
        self
    }

    /// A name for reports. Default: method and path of what came.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.route.name = Some(name.into());
        self
    }

    /// Mounts it. Where several operations match a request, the one that was mounted first is taken, and any operation before
    /// an ordinary mock.
    pub fn mount(self) -> Operation<'s> {
        Operation {
            server: self.server,
            route: self.server.mount(self.route),
        }
    }
}

impl Operation<'_> {
    /// Another script, for keys that have not been seen yet; those under way go on in it at their place.
    pub fn set_faults(&self, faults: impl Into<Faults>) {
        self.server.set_faults(self.route, faults.into());
    }

    /// How many operations were executed here, each key once for each time that its effect took place.
    #[must_use]
    pub fn executions(&self) -> usize {
        self.server.executions_on(self.route)
    }
}

impl Route {
    pub(super) fn matches(&self, request: &Request) -> bool {
        self.matchers.iter().all(|matcher| matcher.matches(request))
    }
}

impl fmt::Debug for OperationBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationBuilder")
            .field("name", &self.route.name)
            .field("faults", &self.route.faults)
            .finish_non_exhaustive()
    }
}
