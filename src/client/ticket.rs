//! An operation on its way through a middleware chain.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::time::Instant;

use super::error::ErrorKind;
use super::fault::Fault;
use super::frozen::Frozen;
use super::operation::{Operation, Overrides};
use super::past::Past;
use super::report::{Attempt, Log};
use super::settle::Wanted;
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
    course: Option<CourseRef>,
}

/// What all copies of a ticket share.
pub(crate) struct Ticketed {
    whose: Whose,
    /// What is wanted, as the contract wants it: the same at every call.
    shaped: OnceLock<Wanted>,
    /// The first call. Most operations have no other, so it needs no room of its own.
    first: OnceLock<Course>,
}

/// Whose operation it is.
enum Whose {
    /// One of a client of this crate.
    Client(Arc<Operation>),
    /// One of somebody else's request. No wish is a new key from the source of the middleware that meets the ticket first.
    Foreign { wanted: Option<Wanted>, past: Past },
}

impl Ticketed {
    fn new(whose: Whose) -> Arc<Self> {
        Arc::new(Self {
            whose,
            shaped: OnceLock::new(),
            first: OnceLock::new(),
        })
    }

    pub(crate) fn wanted(&self, contract: &Contract, keys: &KeySource) -> &Wanted {
        self.shaped.get_or_init(|| {
            let wanted = match &self.whose {
                Whose::Client(operation) => Wanted::again(operation.key.clone()),
                Whose::Foreign { wanted, .. } => {
                    wanted.clone().unwrap_or_else(|| Wanted::draw(keys))
                }
            };
            wanted.shaped(contract)
        })
    }

    /// Whether there is a key to be lent to a request.
    fn has_key(&self) -> bool {
        match &self.whose {
            Whose::Client(operation) => operation.key.is_some(),
            Whose::Foreign { wanted, .. } => !matches!(wanted, Some(Wanted::Own)),
        }
    }

    pub(crate) fn overrides(&self) -> &Overrides {
        let own = match &self.whose {
            Whose::Client(operation) => operation.overrides.as_deref(),
            Whose::Foreign { .. } => None,
        };
        own.unwrap_or(&Overrides::NONE)
    }

    pub(crate) fn past(&self) -> &Past {
        match &self.whose {
            Whose::Client(operation) => operation.past(),
            Whose::Foreign { past, .. } => past,
        }
    }

    pub(crate) fn first(&self) -> &Course {
        self.first.get_or_init(|| Course::begin(None))
    }
}

impl Ticket {
    /// The ticket of a client's operation, whose first call begins now.
    pub(crate) fn of(operation: Arc<Operation>) -> Self {
        let operation = Ticketed::new(Whose::Client(operation));
        operation.first();
        let course = Some(CourseRef::First(Arc::clone(&operation)));
        Self { operation, course }
    }

    pub(crate) fn foreign(wanted: Option<Wanted>) -> Self {
        let past = Past::default();
        Self {
            operation: Ticketed::new(Whose::Foreign { wanted, past }),
            course: None,
        }
    }

    /// The past of the call under way, or that with which one would begin.
    pub(crate) fn past(&self) -> &Past {
        let course = self.course.as_ref();
        course.map_or(self.operation.past(), |course| course.past(&self.operation))
    }

    /// The call that this request continues, or a new one, which is left in the ticket. Refuses to lend a key to another request.
    pub(crate) fn call(&mut self, frozen: Frozen, keyed: bool) -> Result<Boarded, Fault> {
        let operation = &self.operation;
        let lends = keyed && operation.has_key();
        // A request without the key, such as one for a token, is no part of an operation that has one.
        let is_it = lends == operation.has_key();
        let owner = operation.first.get().and_then(|first| first.frozen.get());
        if lends && owner.is_some_and(|owner| !owner.is_same_request(&frozen)) {
            return Err(Fault::new(
                ErrorKind::Key,
                "the key in these extensions belongs to another request: method, URL or body differ"
                    .to_owned(),
            ));
        }
        let under_way = self.course.clone().filter(|course| match course {
            CourseRef::First(_) => is_it,
            CourseRef::Own(_) => true,
        });
        let frozen = match under_way {
            None => frozen,
            Some(course) => match course.take(frozen) {
                Ok(boarded) => return Ok(boarded),
                Err(frozen) => frozen,
            },
        };
        let course = if is_it && operation.first.set(Course::begin(None)).is_ok() {
            CourseRef::First(Arc::clone(operation))
        } else {
            // Without a key the caller's extensions are no sign that two requests are one operation.
            let past = (!lends).then(Past::default);
            CourseRef::Own(Arc::new(Course::begin(past)))
        };
        self.course = Some(course.clone());
        Ok(course.board(frozen))
    }
}

/// A call of an operation: in the ticket, or by itself.
#[derive(Clone)]
pub(crate) enum CourseRef {
    First(Arc<Ticketed>),
    Own(Arc<Course>),
}

impl Deref for CourseRef {
    type Target = Course;

    fn deref(&self) -> &Course {
        match self {
            Self::First(operation) => operation.first(),
            Self::Own(course) => course,
        }
    }
}

/// How one call of an operation has gone so far.
pub(crate) struct Course {
    /// The request, once it has come through the middlewares before ours.
    frozen: OnceLock<Frozen>,
    /// That of this call alone. [`None`] is the operation's.
    past: Option<Past>,
    pub(crate) began: Instant,
    log: Mutex<Log>,
}

impl Course {
    fn begin(past: Option<Past>) -> Self {
        Self {
            frozen: OnceLock::new(),
            past,
            began: Instant::now(),
            log: Mutex::default(),
        }
    }

    pub(crate) fn past<'a>(&'a self, operation: &'a Ticketed) -> &'a Past {
        self.past.as_ref().unwrap_or(operation.past())
    }

    pub(crate) fn log(&self) -> Log {
        self.lock().clone()
    }

    pub(crate) fn set_log(&self, log: &[Attempt]) {
        *self.lock() = log.into();
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CourseRef {
    /// Goes on with this call, if the request is the call's. Returns it if not.
    fn take(self, frozen: Frozen) -> Result<Boarded, Frozen> {
        match self.frozen.get() {
            Some(first) if !first.is_same_request(&frozen) => Err(frozen),
            _ => Ok(self.board(frozen)),
        }
    }

    fn board(self, frozen: Frozen) -> Boarded {
        // What a middleware before ours has renewed for its second call, such as a token, counts for that call.
        let frozen = match self.frozen.set(frozen) {
            Ok(()) => FrozenRef::Of(self.clone()),
            Err(frozen) => FrozenRef::Own(Arc::new(frozen)),
        };
        Boarded {
            course: self,
            frozen,
        }
    }
}

/// A request that has become part of a call.
pub(crate) struct Boarded {
    pub(crate) course: CourseRef,
    pub(crate) frozen: FrozenRef,
}

/// Where that request is kept.
#[derive(Clone)]
pub(crate) enum FrozenRef {
    /// In the call that it began.
    Of(CourseRef),
    Own(Arc<Frozen>),
}

impl Deref for FrozenRef {
    type Target = Frozen;

    fn deref(&self) -> &Frozen {
        match self {
            Self::Of(course) => course
                .frozen
                .get()
                .expect("it was put there before this reference was made"),
            Self::Own(frozen) => frozen,
        }
    }
}
