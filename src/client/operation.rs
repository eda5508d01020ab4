//! An operation: a request, its key, what is said of it beyond the request, and its past.

use std::sync::Arc;
use std::time::Duration;

use super::error::ErrorKind;
use super::fault::Fault;
use super::frozen::Frozen;
use super::http_client::Client;
use super::past::Past;
use super::settle::{KeyInUse, Wanted, key_for_all, settle};
use crate::contract::Contract;
use crate::retry::RetryPolicy;

/// Everything of an operation in one place, from the request's beginning on. Every `send` of it shares this.
pub(crate) struct Operation {
    pub(crate) client: Client,
    pub(crate) request: Result<Frozen, Box<Fault>>,
    pub(crate) key: Option<KeyInUse>,
    /// Boxed, for most operations have none.
    pub(crate) overrides: Option<Box<Overrides>>,
    /// What one contract has refused; another may take it.
    refused: Option<Box<(Frozen, Wanted)>>,
    /// The request before the key was written into its body or its query.
    unwritten: Option<Box<Frozen>>,
    past: Past,
    /// The operation that was sent before this changed copy of it was made. They have one past.
    origin: Option<Arc<Self>>,
}

impl Operation {
    #[inline(always)]
    pub(crate) fn new(client: Client, request: Result<Frozen, Box<Fault>>) -> Arc<Self> {
        Arc::new(Self {
            client,
            request,
            key: None,
            overrides: None,
            refused: None,
            unwritten: None,
            past: Past::default(),
            origin: None,
        })
    }

    /// Changes it, or, where a `send` of it is under way, a copy with the same past.
    pub(crate) fn change(this: &mut Arc<Self>, change: impl FnOnce(&mut Self)) {
        if let Some(own) = Arc::get_mut(this) {
            return change(own);
        }
        let mut copy = Self {
            client: this.client.clone(),
            request: this.request.clone(),
            key: this.key.clone(),
            overrides: this.overrides.clone(),
            refused: this.refused.clone(),
            unwritten: this.unwritten.clone(),
            past: Past::default(),
            origin: Some(Arc::clone(this.origin.as_ref().unwrap_or(this))),
        };
        change(&mut copy);
        *this = Arc::new(copy);
    }

    /// What earlier attempts have left behind, those of the operation of which this is a copy too.
    #[inline]
    pub(crate) fn past(&self) -> &Past {
        self.origin
            .as_ref()
            .map_or(&self.past, |origin| &origin.past)
    }

    /// Completes the request, and gives the operation its key in the shape that the contract wants.
    #[inline]
    pub(crate) fn complete(&mut self, wanted: Wanted) {
        let defaults = self.client.default_headers();
        if let Ok(frozen) = &mut self.request
            && !defaults.is_empty()
        {
            frozen.add_defaults(defaults);
        }
        self.settle(wanted.shaped(self.client.contract()));
    }

    fn settle(&mut self, wanted: Wanted) {
        let own = self.overrides.as_ref();
        let own = own.and_then(|own| own.contract.as_ref());
        let contract = own.unwrap_or(self.client.contract());
        let for_all = key_for_all(contract, self.client.default_headers());
        let settled = match &mut self.request {
            Ok(_) if let Some(message) = for_all => {
                Err(Fault::new(ErrorKind::Key, message).of(wanted.asked()))
            }
            Ok(frozen) => {
                if contract.key_header().is_none() {
                    self.unwritten = Some(Box::new(frozen.clone()));
                }
                settle(contract, frozen, &wanted)
            }
            Err(fault) => Err(Fault::clone(fault).of(wanted.asked())),
        };
        match settled {
            Ok(whose) => self.key = whose.key(wanted),
            Err(fault) => {
                self.key = fault.key().cloned();
                let refused = std::mem::replace(&mut self.request, Err(Box::new(fault)));
                self.refused = refused.ok().map(|frozen| Box::new((frozen, wanted)));
            }
        }
    }

    /// Another contract: the key is taken out of where it was written, and written the way this one says.
    pub(crate) fn move_to(&mut self, contract: Contract) {
        let before = self.overrides().contract.replace(contract);
        let unwritten = self.unwritten.take();
        let wanted = match (self.refused.take(), &mut self.request) {
            (Some(refused), _) => {
                let (frozen, wanted) = *refused;
                self.request = Ok(frozen);
                wanted
            }
            (None, Ok(frozen)) if self.key.is_some() => {
                let before = before.as_ref().unwrap_or(self.client.contract());
                match (unwritten, before.key_header()) {
                    (Some(unwritten), _) => *frozen = *unwritten,
                    (None, Some(name)) => {
                        frozen.headers.remove(name);
                    }
                    (None, None) => {}
                }
                Wanted::again(self.key.take())
            }
            _ => return,
        };
        self.settle(if self.is_unsent() {
            wanted.shaped(self.contract())
        } else {
            wanted
        });
    }

    /// Whether nothing has gone out, and nothing that has the key can go out.
    fn is_unsent(&self) -> bool {
        // Who else holds the operation of which this is a copy is a `send`, which may not have begun.
        let origin = self.origin.as_ref();
        origin.is_none_or(|origin| Arc::strong_count(origin) == 1)
            && self.past().first_sent().is_none()
    }

    /// The contract of this operation.
    pub(crate) fn contract(&self) -> &Contract {
        let own = self.overrides.as_ref();
        let own = own.and_then(|own| own.contract.as_ref());
        own.unwrap_or(self.client.contract())
    }

    pub(crate) fn overrides(&mut self) -> &mut Overrides {
        self.overrides.get_or_insert_default()
    }
}

/// What a caller says of an operation beyond the client's own settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    pub(crate) policy: Option<RetryPolicy>,
    pub(crate) contract: Option<Contract>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) stream_answer: bool,
}

impl Overrides {
    /// Nothing beyond the client's settings.
    pub(crate) const NONE: Self = Self {
        policy: None,
        contract: None,
        deadline: None,
        stream_answer: false,
    };
}
