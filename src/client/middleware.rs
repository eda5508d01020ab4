//! The loop as a middleware, for clients that other people built.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{Extensions, Method};
use reqwest::Request;
use reqwest_middleware::{Middleware, Next};
use tokio::time::Instant;

use super::engine::{Call, Chain, Engine, Pristine};
use super::error::Error;
use super::fault::Fault;
use super::frozen::Frozen;
use super::redirect::Hops;
use super::settle::{Wanted, settle};
use super::ticket::{Passage, Ticket};
use crate::contract::{Contract, IdempotencyKey, KeySource};
use crate::retry::RetryPolicy;

/// Safe retries in a [`reqwest_middleware::ClientWithMiddleware`].
///
/// Requests are keyed by [`RequestBuilderExt::idempotent`], by a key header that they carry already, or all of them by
/// [`key_posts_and_patches`](Self::key_posts_and_patches). Middlewares added before this one run once per operation, those after it
/// once per attempt. One of the former that calls the rest of the chain again with the same extensions, with a fresh access token
/// for example, goes on with the same operation: same key, same deadline, one attempt list. The response carries a [`Report`](crate::Report) in its extensions; an error is this crate's inside
/// reqwest-middleware's ([`Error::from_middleware`](crate::Error::from_middleware)).
///
/// Nothing after this one should send the request again: the list of attempts would not know. [`OperationGuard`](crate::OperationGuard)
/// as the last sees it, and then no such answer is called fresh.
///
/// # Examples
///
/// ```
/// use idempotency::{IdempotencyMiddleware, RequestBuilderExt as _};
///
/// let http = reqwest::Client::builder()
///     .redirect(idempotency::redirect_policy())
///     .retry(reqwest::retry::never().max_retries_per_request(0))
///     .build()?;
/// let client = reqwest_middleware::ClientBuilder::new(http)
///     .with(IdempotencyMiddleware::new().trust_redirects())
///     .build();
/// let request = client.post("https://api.example.com/payments").body("amount=100").idempotent();
/// # let _ = request;
/// # Ok::<(), reqwest::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct IdempotencyMiddleware {
    engine: Engine,
    key_all: bool,
    transparent: bool,
}

impl IdempotencyMiddleware {
    /// With the generic contract and the standard policy.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn from_engine(engine: Engine) -> Self {
        Self {
            engine,
            key_all: false,
            transparent: false,
        }
    }

    /// What the server promises. Default: [`Contract::generic`].
    #[must_use]
    pub fn contract(mut self, contract: Contract) -> Self {
        self.engine.contract = contract;
        self
    }

    /// How operations are retried. Default: [`RetryPolicy::standard`]. The connect timeout is that of the client below.
    #[must_use]
    pub fn policy(mut self, policy: RetryPolicy) -> Self {
        self.engine.policy = policy;
        self
    }

    /// Where keys come from. Default: [`KeySource::random`].
    #[must_use]
    pub fn key_source(mut self, keys: KeySource) -> Self {
        self.engine.keys = keys;
        self
    }

    /// Draws a key for every POST and PATCH that has none, where the contract honours it.
    #[must_use]
    pub fn key_posts_and_patches(mut self) -> Self {
        self.key_all = true;
        self
    }

    /// Hands the last response back whatever it means, with the report in its extensions, and transport errors as
    /// [`reqwest_middleware::Error::Reqwest`] without their URL: for SDKs that decode error bodies and errors by themselves.
    #[must_use]
    pub fn transparent(mut self) -> Self {
        self.transparent = true;
        self
    }

    /// Lets callers use one key for two different requests. Without it such a second request is refused, as by
    /// [`ClientBuilder::allow_key_reuse`](crate::ClientBuilder::allow_key_reuse) described; clones share what they remember.
    #[must_use]
    pub fn allow_key_reuse(mut self) -> Self {
        self.engine.reuse_allowed = true;
        self
    }

    /// States that the client below carries [`redirect_policy`](crate::redirect_policy), and that no middleware after this one
    /// sends requests of its own. Only then is a refused connection proof that nothing was sent.
    #[must_use]
    pub fn trust_redirects(mut self) -> Self {
        self.engine.trusted = true;
        self
    }

    /// The ticket of a request that came without.
    fn ticket(&self, request: &Request) -> Ticket {
        let draw = self.key_all
            && matches!(*request.method(), Method::POST | Method::PATCH)
            && self.engine.contract.honours(request.method());
        Ticket::foreign((!draw).then_some(Wanted::Own))
    }

    /// Makes a request part of its operation: with the operation's key, in the call that it begins or continues.
    fn board(&self, ticket: &mut Ticket, request: &mut Request) -> Result<Arc<Passage>, Error> {
        let mut passage = Passage::new(Frozen::of(request));
        let boarded = self.give_key(ticket, &mut passage);
        let passage = boarded
            .and_then(|()| ticket.board(passage))
            .map_err(|fault| fault.to_error_after(ticket.operation.past()))?;
        self.engine
            .refuse_reuse(passage.key.as_ref(), &passage.frozen)?;
        Ok(passage)
    }

    fn give_key(&self, ticket: &Ticket, passage: &mut Passage) -> Result<(), Fault> {
        let contract = self.contract_of(ticket);
        let wanted = ticket.operation.wanted(contract, &self.engine.keys);
        passage.key = settle(contract, &mut passage.frozen, &wanted)?.key(wanted);
        if passage.key.is_some() {
            passage.key_header = contract.key_header().cloned();
        }
        Ok(())
    }

    fn contract_of<'a>(&'a self, ticket: &'a Ticket) -> &'a Contract {
        let own = ticket.operation.overrides().contract.as_ref();
        own.unwrap_or(&self.engine.contract)
    }

    /// Finds out what a request is, and completes it to be the first attempt's.
    fn receive(&self, request: &mut Request, extensions: &mut Extensions) -> Received {
        let mut new = None;
        let (ticket, is_lost) = match extensions.get_mut::<Ticket>() {
            Some(ticket) => (ticket, false),
            // A middleware between two of this kind may have emptied the extensions.
            None => (new.insert(self.ticket(request)), Hops::is_attempts(request)),
        };
        if is_lost || Hops::inside(ticket.past()) {
            return Received::Attempt;
        }
        let passage = match self.board(ticket, request) {
            Ok(passage) => passage,
            Err(error) => return Received::Refused(error),
        };
        let ticket = ticket.clone();
        if new.is_some() {
            extensions.insert(ticket.clone());
        }
        let is_complete = match (&passage.key, &passage.key_header) {
            // A key in the body or in the query has made another request of it.
            (Some(_), None) => false,
            (_, name) => passage.frozen.complete(request, name.as_ref()),
        };
        Received::Operation(ticket, passage, is_complete)
    }
}

/// What a request is.
enum Received {
    /// An attempt of an operation that another layer of this kind sends.
    Attempt,
    Refused(Error),
    /// With whether the request is complete as the first attempt's.
    Operation(Ticket, Arc<Passage>, bool),
}

impl Middleware for IdempotencyMiddleware {
    // Written out, for what `async` makes of it would carry the request twice.
    fn handle<'s, 'e, 'n, 'f>(
        &'s self,
        request: Request,
        extensions: &'e mut Extensions,
        next: Next<'n>,
    ) -> Pin<Box<dyn Future<Output = Handled> + Send + 'f>>
    where
        's: 'f,
        'e: 'f,
        'n: 'f,
        Self: 'f,
    {
        let mut held = Some(request);
        Box::pin(async move {
            let request = held.as_mut().expect("it was put there above");
            let (ticket, passage) = match self.receive(request, extensions) {
                Received::Operation(ticket, passage, true) => (ticket, passage),
                Received::Operation(ticket, passage, false) => {
                    held = None;
                    (ticket, passage)
                }
                Received::Refused(error) => return error.into_chain(self.transparent),
                Received::Attempt => {
                    let request = held.take().expect("it was put there above");
                    return next.run(request, extensions).await;
                }
            };
            let mut chain = Chain {
                next: &next,
                passage: &passage,
                first: &mut held,
                pristine: Pristine::of(extensions, &ticket),
                ticket: &ticket,
                extensions,
            };
            let mut run = self.engine.run(Call {
                frozen: &passage.frozen,
                key: passage.key.as_ref(),
                overrides: ticket.operation.overrides(),
                past: passage.past(&ticket.operation),
                began: passage.began(),
                now: Instant::now(),
                log: passage.log_before(),
            });
            let result = run.execute(&mut chain).await;
            passage.set_log(match &result {
                Ok(response) => response.attempts(),
                Err(error) => error.attempts(),
            });
            match result {
                Ok(response) => Ok(response.into_reqwest()),
                Err(error) => error.into_chain(self.transparent),
            }
        })
    }
}

type Handled = reqwest_middleware::Result<reqwest::Response>;

/// Keys a request of [`reqwest_middleware`] whose client has the [`IdempotencyMiddleware`].
pub trait RequestBuilderExt: sealed::Sealed {
    /// Makes it an operation, with a key that the middleware draws, once, from its source. A copy of the request has the same.
    ///
    /// The middleware has to be there: without it nothing is keyed and nothing protected.
    #[must_use]
    fn idempotent(self) -> Self;

    /// Makes it an operation with a key that was saved or derived.
    #[must_use]
    fn idempotent_with(self, key: IdempotencyKey) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for reqwest_middleware::RequestBuilder {}
}

impl RequestBuilderExt for reqwest_middleware::RequestBuilder {
    fn idempotent(self) -> Self {
        with(self, None)
    }

    fn idempotent_with(self, key: IdempotencyKey) -> Self {
        with(self, Some(Wanted::Given(key)))
    }
}

fn with(
    builder: reqwest_middleware::RequestBuilder,
    wanted: Option<Wanted>,
) -> reqwest_middleware::RequestBuilder {
    builder.with_extension(Ticket::foreign(wanted))
}
