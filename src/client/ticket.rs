//! An operation on its way through a middleware chain.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderName;
use tokio::time::Instant;

use super::error::ErrorKind;
use super::fault::Fault;
use super::frozen::Frozen;
use super::operation::{Operation, Overrides};
use super::past::Past;
use super::report::{Attempt, Log};
use super::settle::{KeyInUse, Wanted};
use crate::contract::{Contract, KeySource};

/// An operation on its way through a middleware chain, in the caller's extensions.
///
/// It comes there before the first call, and copies of the request share it: they are the same operation, with the same key and
/// the same past.
#[derive(Clone)]
pub(crate) struct Ticket {
    pub(crate) operation: Arc<Ticketed>,
    /// The call under way. A middleware before ours that calls the rest of the chain twice finds it here the second time, and the
    /// call goes on: same attempt list, same deadline. A copy of the request made before it is sent has a call of its own.
    call: Option<Arc<Passage>>,
}

/// What all copies of a ticket share.
pub(crate) struct Ticketed {
    whose: Whose,
    /// What is wanted, as the contract wants it: the same at every call.
    shaped: Mutex<Option<Wanted>>,
    /// The first call, whose request is the operation's.
    first: Mutex<Option<Arc<Passage>>>,
}

/// Whose operation it is.
enum Whose {
    /// One of a client of this crate, whose call begins before its middlewares.
    Client {
        operation: Arc<Operation>,
        began: Instant,
    },
    /// One of somebody else's request. No wish is a new key from the source of the middleware that meets the ticket first.
    Foreign { wanted: Option<Wanted>, past: Past },
}

impl Ticketed {
    pub(crate) fn wanted(&self, contract: &Contract, keys: &KeySource) -> Wanted {
        let mut shaped = lock(&self.shaped);
        let shaped = shaped.get_or_insert_with(|| {
            let wanted = match &self.whose {
                Whose::Client { operation, .. } => Wanted::again(operation.key.clone()),
                Whose::Foreign { wanted, .. } => {
                    wanted.clone().unwrap_or_else(|| Wanted::draw(keys))
                }
            };
            wanted.shaped(contract)
        });
        shaped.clone()
    }

    /// Whether there is a key to be lent to a request.
    fn has_key(&self) -> bool {
        match &self.whose {
            Whose::Client { operation, .. } => operation.key.is_some(),
            Whose::Foreign { wanted, .. } => !matches!(wanted, Some(Wanted::Own)),
        }
    }

    pub(crate) fn overrides(&self) -> &Overrides {
        let own = match &self.whose {
            Whose::Client { operation, .. } => operation.overrides.as_deref(),
            Whose::Foreign { .. } => None,
        };
        own.unwrap_or(&Overrides::NONE)
    }

    pub(crate) fn past(&self) -> &Past {
        match &self.whose {
            Whose::Client { operation, .. } => operation.past(),
            Whose::Foreign { past, .. } => past,
        }
    }

    /// When its call began, where that was before the middlewares.
    fn began(&self) -> Option<Instant> {
        match self.whose {
            Whose::Client { began, .. } => Some(began),
            Whose::Foreign { .. } => None,
        }
    }

    /// The attempts of the first call so far.
    pub(crate) fn log(&self) -> Log {
        let first = lock(&self.first).clone();
        first.map(|first| first.log()).unwrap_or_default()
    }
}

impl Ticket {
    fn new(whose: Whose) -> Self {
        Self {
            operation: Arc::new(Ticketed {
                whose,
                shaped: Mutex::new(None),
                first: Mutex::new(None),
            }),
            call: None,
        }
    }

    /// The ticket of a client's operation, whose call began then.
    pub(crate) fn of(operation: Arc<Operation>, began: Instant) -> Self {
        Self::new(Whose::Client { operation, began })
    }

    pub(crate) fn foreign(wanted: Option<Wanted>) -> Self {
        let past = Past::default();
        Self::new(Whose::Foreign { wanted, past })
    }

    /// The past of the call under way, or that with which one would begin.
    pub(crate) fn past(&self) -> &Past {
        match &self.call {
            Some(call) => call.past(&self.operation),
            None => self.operation.past(),
        }
    }

    /// Makes this request part of the call under way, or of a new one, which is left in the ticket. Refuses to lend a key to
    /// another request.
    pub(crate) fn board(&mut self, mut passage: Passage) -> Result<Arc<Passage>, Fault> {
        let operation = &self.operation;
        let lends = passage.key.is_some() && operation.has_key();
        // A request without the key, such as one for a token, is no part of an operation that has one.
        let is_it = lends == operation.has_key();
        let mut first = lock(&operation.first);
        if lends
            && let Some(owner) = &*first
            && !owner.frozen.is_same_request(&passage.frozen)
        {
            return Err(Fault::new(
                ErrorKind::Key,
                "the key in these extensions belongs to another request: method, URL or body differ"
                    .to_owned(),
            ));
        }
        let began = operation.began();
        // A client's operation has one call, also where a middleware has copied the ticket.
        let clients = first.as_ref().filter(|_| is_it && began.is_some());
        let latest = self.call.as_ref();
        let before = latest.and_then(|call| call.before.as_ref());
        let mut calls = latest.into_iter().chain(before).chain(clients);
        if let Some(call) = calls.find(|call| call.goes_on_with(&passage)) {
            // What a middleware before ours has renewed for its second call, such as a token, counts for that call.
            let call = Arc::clone(call);
            passage.beginning = Some(Arc::clone(&call));
            self.call = Some(call);
            return Ok(Arc::new(passage));
        }
        let is_first = is_it && first.is_none();
        // Without a key the caller's extensions are no sign that two requests are one operation.
        passage.past = (!lends && !is_first).then(Past::default);
        passage.began = began.unwrap_or(passage.began);
        passage.before = self.call.take().map(|call| match &call.before {
            Some(before) => Arc::clone(before),
            None => call,
        });
        let passage = Arc::new(passage);
        if is_first {
            *first = Some(Arc::clone(&passage));
        }
        drop(first);
        self.call = Some(Arc::clone(&passage));
        Ok(passage)
    }
}

/// A request with its key that has become part of a call, and how that call has gone so far.
pub(crate) struct Passage {
    pub(crate) frozen: Frozen,
    pub(crate) key: Option<KeyInUse>,
    /// The header that holds it, if one does.
    pub(crate) key_header: Option<HeaderName>,
    began: Instant,
    /// That of this call alone. [`None`] is the operation's.
    past: Option<Past>,
    log: Mutex<Log>,
    /// The passage that began the call, where this one goes on with it.
    beginning: Option<Arc<Self>>,
    /// The first call with this ticket. A middleware that sends a request of its own, for a token, may come back to it.
    before: Option<Arc<Self>>,
}

impl Passage {
    /// A request on its way, not yet part of a call.
    #[inline(always)]
    pub(crate) fn new(frozen: Frozen) -> Self {
        Self {
            frozen,
            key: None,
            key_header: None,
            began: Instant::now(),
            past: None,
            log: Mutex::default(),
            beginning: None,
            before: None,
        }
    }

    /// Whether a request that comes with the same ticket is the same operation.
    fn goes_on_with(&self, other: &Self) -> bool {
        let (own, others) = (self.key.as_ref(), other.key.as_ref());
        own.map(|own| &own.key) == others.map(|others| &others.key)
            && self.frozen.is_same_request(&other.frozen)
    }

    fn beginning(&self) -> &Self {
        self.beginning.as_deref().unwrap_or(self)
    }

    pub(crate) fn began(&self) -> Instant {
        self.beginning().began
    }

    pub(crate) fn past<'a>(&'a self, operation: &'a Ticketed) -> &'a Past {
        let own = self.beginning().past.as_ref();
        own.unwrap_or(operation.past())
    }

    pub(crate) fn log(&self) -> Log {
        lock(&self.beginning().log).clone()
    }

    /// The attempts before this passage.
    pub(crate) fn log_before(&self) -> Log {
        match &self.beginning {
            None => Log::new(),
            Some(beginning) => beginning.log(),
        }
    }

    pub(crate) fn set_log(&self, log: &[Attempt]) {
        *lock(&self.beginning().log) = log.into();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
