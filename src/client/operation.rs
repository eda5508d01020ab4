//! What makes a request an operation: its key, and what is said of it beyond the request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use reqwest::Url;
use tokio::time::Instant;

use super::carrier::{self, Gap, Spot};
use super::error::{Error, ErrorKind, Source, What};
use super::frozen::{Frozen, FrozenBody};
use super::past::Past;
use super::report::{Attempt, Log, Report};
use crate::contract::{Contract, IdempotencyKey, KeySource, read_key};
use crate::retry::{Protection, RetryPolicy};

/// The key of an operation, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyInUse {
    pub(crate) key: IdempotencyKey,
    /// Whether it was drawn for this operation, so that nobody else can have used it.
    pub(crate) drawn: bool,
}

/// Which key the caller asked for.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// None: only one that stands in the request already counts.
    Own,
    /// A new one.
    Drawn(IdempotencyKey),
    /// This one.
    Given(IdempotencyKey),
}

impl Wanted {
    pub(crate) fn draw(keys: &KeySource) -> Self {
        Self::Drawn(keys.draw())
    }

    /// As this contract wants it, for an operation that has not been sent.
    pub(crate) fn shaped(self, contract: &Contract) -> Self {
        match self {
            Self::Drawn(key) => Self::Drawn(contract.shape(key, SystemTime::now)),
            other => other,
        }
    }

    /// The key that an operation has already.
    pub(crate) fn again(key: Option<KeyInUse>) -> Self {
        match key {
            None => Self::Own,
            Some(KeyInUse { key, drawn: true }) => Self::Drawn(key),
            Some(KeyInUse { key, drawn: false }) => Self::Given(key),
        }
    }

    pub(crate) fn asked(&self) -> Option<KeyInUse> {
        let (key, drawn) = match self {
            Self::Own => return None,
            Self::Drawn(key) => (key, true),
            Self::Given(key) => (key, false),
        };
        let key = key.clone();
        Some(KeyInUse { key, drawn })
    }
}

/// What was wrong before the first attempt. It can be turned into an error as often as `send` is called.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    kind: ErrorKind,
    message: String,
    key: Option<KeyInUse>,
    /// Whether the request brought a key that cannot be read.
    unreadable: bool,
    source: Option<Arc<reqwest::Error>>,
}

impl Fault {
    pub(crate) fn new(kind: ErrorKind, message: String) -> Self {
        Self {
            kind,
            message,
            key: None,
            unreadable: false,
            source: None,
        }
    }

    /// The request brought something in the place of the key that is none.
    pub(crate) fn unreadable(message: String) -> Self {
        Self {
            unreadable: true,
            ..Self::new(ErrorKind::Key, message)
        }
    }

    pub(crate) fn builder(error: reqwest::Error) -> Self {
        Self {
            source: Some(Arc::new(error.without_url())),
            ..Self::new(
                ErrorKind::Builder,
                "the request could not be built".to_owned(),
            )
        }
    }

    /// The fault of an operation that was to have this key, unless the request brought one of its own.
    pub(crate) fn of(mut self, key: Option<KeyInUse>) -> Self {
        if !self.unreadable {
            self.key = self.key.or(key);
        }
        self
    }

    pub(crate) fn key(&self) -> Option<&KeyInUse> {
        self.key.as_ref()
    }

    pub(crate) fn to_error(&self) -> Error {
        self.to_error_after(&Past::default())
    }

    /// The error of a call that sent nothing, of an operation that may have been sent before.
    pub(crate) fn to_error_after(&self, past: &Past) -> Error {
        // A key that the caller brought may have been sent before: that this call sent nothing proves nothing about it.
        let given = self.unreadable || self.key.as_ref().is_some_and(|key| !key.drawn);
        let effect = past.effect(if given {
            Protection::GivenKey
        } else {
            Protection::DrawnKey
        });
        let report = Report {
            key: self.key.as_ref().map(|key| key.key.clone()),
            ..Report::empty()
        };
        Error::new(self.kind, effect, What::Message(self.message.clone()))
            .with_report(report)
            .with_source(
                self.source
                    .clone()
                    .map(|source| Source::Other(source.into())),
            )
    }
}

/// What makes it safe to send this request again.
pub(crate) fn protection(method: &Method, key: Option<&KeyInUse>) -> Protection {
    match key {
        Some(key) if key.drawn => Protection::DrawnKey,
        Some(_) => Protection::GivenKey,
        None if method.is_idempotent() => Protection::Method,
        None => Protection::None,
    }
}

/// Settles which key the request carries, and puts it there. A request that is refused is left as it was.
///
/// A key that stands in the request already is the caller's and stays, to the letter; it has to be one that the server takes.
pub(crate) fn settle(
    contract: &Contract,
    frozen: &mut Frozen,
    wanted: Wanted,
) -> Result<Option<KeyInUse>, Fault> {
    let asked = wanted.asked();
    let Choice { key, write } =
        choose(contract, frozen, wanted).map_err(|fault| fault.of(asked))?;
    if let Some(length) = frozen.known_length() {
        frozen
            .check_length(length)
            .map_err(|fault| fault.of(key.clone()))?;
    }
    match (write, contract.key_header()) {
        (Write::Header(value), Some(name)) => {
            frozen.headers.insert(name.clone(), value);
        }
        (Write::Fill(gap, text), _) => gap.fill(frozen, &text),
        _ => {}
    }
    Ok(key)
}

/// The key of a request, with what is to be written for it.
struct Choice {
    key: Option<KeyInUse>,
    write: Write,
}

enum Write {
    /// It stands there.
    Nothing,
    Header(HeaderValue),
    Fill(Gap, String),
}

impl Choice {
    const UNKEYED: Self = Self {
        key: None,
        write: Write::Nothing,
    };

    /// The value in the request stays, marked as sensitive.
    fn keep(contract: &Contract, frozen: &Frozen, key: KeyInUse) -> Self {
        let name = contract.key_header();
        let value = name.and_then(|name| frozen.headers.get(name)).cloned();
        let write = value.map_or(Write::Nothing, |mut value| {
            value.set_sensitive(true);
            Write::Header(value)
        });
        let key = Some(key);
        Self { key, write }
    }

    fn write(contract: &Contract, gap: Option<Gap>, key: KeyInUse) -> Result<Self, Fault> {
        let write = match gap {
            None => contract.encode_key(&key.key).map(Write::Header),
            Some(gap) => contract
                .key_text(&key.key)
                .map(|text| Write::Fill(gap, text.into_owned())),
        };
        let write = write.map_err(|error| Fault::new(ErrorKind::Key, error.to_string()))?;
        let key = Some(key);
        Ok(Self { key, write })
    }
}

fn choose(contract: &Contract, frozen: &Frozen, wanted: Wanted) -> Result<Choice, Fault> {
    // RFC 9110, section 9.2.1: a safe method has nothing to protect.
    if frozen.method.is_safe() {
        return Ok(Choice::UNKEYED);
    }
    if !contract.honours(&frozen.method) {
        return match wanted {
            Wanted::Own => Ok(Choice::UNKEYED),
            _ => Err(Fault::new(
                ErrorKind::Contract,
                format!(
                    "the contract `{}` does not honour keys on {}: send it without `idempotent`",
                    contract.name(),
                    frozen.method,
                ),
            )),
        };
    }
    let spot = match carrier::spot(contract, frozen) {
        Ok(spot) => spot,
        // Nobody asked for a key, and a body that cannot hold one holds none.
        Err(fault) if fault.kind == ErrorKind::Contract && matches!(wanted, Wanted::Own) => {
            return Ok(Choice::UNKEYED);
        }
        Err(fault) => return Err(fault),
    };
    let (present, gap) = match spot {
        None => (header_key(contract, frozen)?, None),
        Some(Spot::Taken(key)) => (Some(key), None),
        Some(Spot::Free(gap)) => (None, Some(gap)),
    };
    match (present, wanted.asked()) {
        (None, None) => Ok(Choice::UNKEYED),
        (None, Some(key)) => Choice::write(contract, gap, key),
        // It was written before: by a client whose middlewares the request has come through, or in an earlier life of it. The key
        // stays the one that was asked for, which a UUID in 32 characters does not spell.
        (Some(present), Some(key)) if is_written(contract, &key.key, &present) => {
            Ok(Choice::keep(contract, frozen, key))
        }
        (Some(present), Some(KeyInUse { key, drawn: false })) => Err(Fault::new(
            ErrorKind::Key,
            format!(
                "the request carries the key #{} and was given #{}: an operation has one key",
                present.digest(),
                key.digest(),
            ),
        )),
        (Some(key), _) => {
            let key = KeyInUse { key, drawn: false };
            match contract.check_written(&key.key) {
                Ok(()) => Ok(Choice::keep(contract, frozen, key)),
                Err(error) => Err(Fault::new(ErrorKind::Key, error.to_string()).of(Some(key))),
            }
        }
    }
}

/// Whether what stands in the request is how this contract writes the key.
fn is_written(contract: &Contract, key: &IdempotencyKey, present: &IdempotencyKey) -> bool {
    key == present
        || contract
            .key_text(key)
            .is_ok_and(|text| text == present.as_str())
}

/// Why these default headers will not do under a contract: the key of one operation would be on all of them.
pub(crate) fn key_for_all(contract: &Contract, default_headers: &HeaderMap) -> Option<String> {
    let name = contract.key_header()?;
    default_headers.contains_key(name).then(|| {
        format!(
            "the default headers hold `{name}`: a key belongs to one operation, so it cannot be on every request"
        )
    })
}

fn header_key(contract: &Contract, frozen: &Frozen) -> Result<Option<IdempotencyKey>, Fault> {
    let Some(name) = contract.key_header() else {
        return Ok(None);
    };
    read_key(frozen.headers.get_all(name)).map_err(|error| {
        Fault::unreadable(format!(
            "the request's own `{name}` header is no usable key: {error}"
        ))
    })
}

/// Where jitter comes from.
#[derive(Debug, Default)]
pub(crate) struct Rolls(AtomicU64);

impl Rolls {
    /// A uniformly random number, the next of a sequence where there is a seed.
    pub(crate) fn next(&self, seed: Option<u64>) -> u64 {
        match seed {
            None => fastrand::u64(..),
            Some(seed) => {
                let turn = self.0.fetch_add(1, Ordering::Relaxed);
                fastrand::Rng::with_seed(seed.wrapping_add(turn)).u64(..)
            }
        }
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

/// An operation on its way through a middleware chain, in the caller's extensions.
///
/// It comes there before the first call, and copies of the request share it: they are the same operation, with the same key and
/// the same past.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub(crate) operation: Arc<TicketInner>,
    /// The call under way. A middleware before ours that calls the rest of the chain twice finds it here the second time, and the
    /// call goes on: same attempt list, same deadline. A copy of the request made before it is sent has a call of its own.
    pub(crate) course: Option<Arc<Course>>,
}

#[derive(Debug)]
pub(crate) struct TicketInner {
    /// [`None`] is a new key from the source of the middleware that meets the ticket first.
    wanted: Option<Wanted>,
    pub(crate) overrides: Overrides,
    pub(crate) past: Arc<Past>,
    /// The request to which the key belongs.
    owner: OnceLock<Identity>,
    /// What is wanted, as the contract wants it: the same at every call.
    shaped: OnceLock<Wanted>,
}

impl TicketInner {
    pub(crate) fn wanted(&self, contract: &Contract, keys: &KeySource) -> Wanted {
        self.shaped
            .get_or_init(|| {
                let wanted = self.wanted.clone();
                wanted
                    .unwrap_or_else(|| Wanted::draw(keys))
                    .shaped(contract)
            })
            .clone()
    }
}

impl Ticket {
    pub(crate) fn new(
        wanted: impl Into<Option<Wanted>>,
        overrides: Overrides,
        past: Arc<Past>,
    ) -> Self {
        Self {
            operation: Arc::new(TicketInner {
                wanted: wanted.into(),
                overrides,
                past,
                owner: OnceLock::new(),
                shaped: OnceLock::new(),
            }),
            course: None,
        }
    }

    /// The past of the call under way, or that with which one would begin.
    pub(crate) fn past(&self) -> &Past {
        let course = self.course.as_ref();
        course.map_or(&self.operation.past, |course| &course.past)
    }

    /// The call that this request continues, or a new one, which is left in the ticket. Refuses to lend a key to another request.
    pub(crate) fn call(&mut self, frozen: &Frozen, keyed: bool) -> Result<Arc<Course>, Fault> {
        let identity = Identity::of(frozen);
        if keyed && *self.operation.owner.get_or_init(|| identity.clone()) != identity {
            return Err(Fault::new(
                ErrorKind::Key,
                "the key in these extensions belongs to another request: method, URL or body differ"
                    .to_owned(),
            ));
        }
        if let Some(course) = &self.course
            && *course.identity.get_or_init(|| identity.clone()) == identity
        {
            return Ok(Arc::clone(course));
        }
        // Without a key the caller's extensions are no sign that two requests are one operation.
        let past = if keyed {
            Arc::clone(&self.operation.past)
        } else {
            Arc::new(Past::default())
        };
        let course = Arc::new(Course::begin(past));
        let _ = course.identity.set(identity);
        self.course = Some(Arc::clone(&course));
        Ok(course)
    }
}

/// How one call of an operation has gone so far.
#[derive(Debug)]
pub(crate) struct Course {
    /// The request, once it has come through the middlewares before ours.
    identity: OnceLock<Identity>,
    pub(crate) past: Arc<Past>,
    pub(crate) began: Instant,
    log: Mutex<Log>,
}

impl Course {
    pub(crate) fn begin(past: Arc<Past>) -> Self {
        Self {
            identity: OnceLock::new(),
            past,
            began: Instant::now(),
            log: Mutex::default(),
        }
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

/// What may not change between two calls of the same operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    method: Method,
    url: Url,
    /// [`None`] for a stream, of which only the caller knows what is in it.
    body: Option<Bytes>,
}

impl Identity {
    pub(crate) fn of(frozen: &Frozen) -> Self {
        Self {
            method: frozen.method.clone(),
            url: frozen.url.clone(),
            body: match &frozen.body {
                FrozenBody::None => Some(Bytes::new()),
                FrozenBody::Bytes(bytes) => Some(bytes.clone()),
                FrozenBody::Stream(_) => None,
            },
        }
    }
}
