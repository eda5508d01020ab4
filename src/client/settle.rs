//! Which key an operation has, and where it stands in the request.

use std::time::SystemTime;

use http::{HeaderMap, HeaderValue, Method};

use super::carrier::{self, Gap, Spot};
use super::error::ErrorKind;
use super::fault::Fault;
use super::frozen::Frozen;
use crate::contract::{Contract, ContractError, IdempotencyKey, KeySource, read_key};
use crate::retry::Protection;

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
    #[inline]
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

    #[inline]
    fn key(&self) -> Option<&IdempotencyKey> {
        match self {
            Self::Own => None,
            Self::Drawn(key) | Self::Given(key) => Some(key),
        }
    }

    pub(crate) fn asked(&self) -> Option<KeyInUse> {
        self.clone().into_asked()
    }

    #[inline]
    fn into_asked(self) -> Option<KeyInUse> {
        let drawn = matches!(self, Self::Drawn(_));
        match self {
            Self::Own => None,
            Self::Drawn(key) | Self::Given(key) => Some(KeyInUse { key, drawn }),
        }
    }
}

/// What makes it safe to send this request again.
#[inline]
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
    wanted: &Wanted,
) -> Result<Whose, Fault> {
    let seen = frozen.look(contract.key_header());
    // The common case, which every operation pays for: a key in a header, and nothing there yet.
    if let (Some(name), Some(key)) = (contract.key_header(), wanted.key())
        && !(seen.key || seen.length || frozen.method.is_safe())
        && contract.honours(&frozen.method)
    {
        let value = contract
            .encode_key(key)
            .map_err(|error| unfit(&error, wanted))?;
        frozen.headers.append(name.clone(), value);
        return Ok(Whose::Wanted);
    }
    let (whose, write) =
        choose(contract, frozen, wanted, seen.key).map_err(|fault| fault.of(wanted.asked()))?;
    if let Some(length) = frozen.known_length().filter(|_| seen.length) {
        frozen
            .check_length(length)
            .map_err(|fault| fault.of(whose.clone().key(wanted.clone())))?;
    }
    match (write, contract.key_header()) {
        (Write::Header(value), Some(name)) => {
            frozen.headers.set(name, value);
        }
        (Write::Fill(gap, text), _) => gap.fill(frozen, &text),
        _ => {}
    }
    Ok(whose)
}

/// The key is none that the server takes.
fn unfit(error: &ContractError, wanted: &Wanted) -> Fault {
    Fault::new(ErrorKind::Key, error.to_string()).of(wanted.asked())
}

/// Which key an operation has.
#[derive(Clone)]
pub(crate) enum Whose {
    /// None.
    Nobodys,
    /// The one that was asked for.
    Wanted,
    /// The one that stood in the request.
    Own(KeyInUse),
}

impl Whose {
    pub(crate) fn key(self, wanted: Wanted) -> Option<KeyInUse> {
        match self {
            Self::Nobodys => None,
            Self::Wanted => wanted.into_asked(),
            Self::Own(key) => Some(key),
        }
    }
}

enum Write {
    /// It stands there.
    Nothing,
    Header(HeaderValue),
    Fill(Gap, String),
}

impl Write {
    /// The value in the request stays, marked as sensitive.
    fn keep(contract: &Contract, frozen: &Frozen) -> Self {
        let name = contract.key_header();
        let value = name.and_then(|name| frozen.headers.get(name)).cloned();
        value.map_or(Self::Nothing, |mut value| {
            value.set_sensitive(true);
            Self::Header(value)
        })
    }

    fn new(contract: &Contract, gap: Option<Gap>, key: &IdempotencyKey) -> Result<Self, Fault> {
        let write = match gap {
            None => contract.encode_key(key).map(Self::Header),
            Some(gap) => contract
                .key_text(key)
                .map(|text| Self::Fill(gap, text.into_owned())),
        };
        write.map_err(|error| Fault::new(ErrorKind::Key, error.to_string()))
    }
}

/// `has_header` says whether the key's header is in the request.
fn choose(
    contract: &Contract,
    frozen: &Frozen,
    wanted: &Wanted,
    has_header: bool,
) -> Result<(Whose, Write), Fault> {
    const UNKEYED: (Whose, Write) = (Whose::Nobodys, Write::Nothing);
    // RFC 9110, section 9.2.1: a safe method has nothing to protect.
    if frozen.method.is_safe() {
        return Ok(UNKEYED);
    }
    if !contract.honours(&frozen.method) {
        return match wanted {
            Wanted::Own => Ok(UNKEYED),
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
        Err(fault) if fault.kind() == ErrorKind::Contract && matches!(wanted, Wanted::Own) => {
            return Ok(UNKEYED);
        }
        Err(fault) => return Err(fault),
    };
    let (present, gap) = match spot {
        None if has_header => (header_key(contract, frozen)?, None),
        None => (None, None),
        Some(Spot::Taken(key)) => (Some(key), None),
        Some(Spot::Free(gap)) => (None, Some(gap)),
    };
    match (present, wanted.key()) {
        (None, None) => Ok(UNKEYED),
        (None, Some(key)) => Ok((Whose::Wanted, Write::new(contract, gap, key)?)),
        // It was written before: by a client whose middlewares the request has come through, or in an earlier life of it. The key
        // stays the one that was asked for, which a UUID in 32 characters does not spell.
        (Some(present), Some(key)) if is_written(contract, key, &present) => {
            Ok((Whose::Wanted, Write::keep(contract, frozen)))
        }
        (Some(present), Some(key)) if matches!(wanted, Wanted::Given(_)) => Err(Fault::new(
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
                Ok(()) => Ok((Whose::Own(key), Write::keep(contract, frozen))),
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
    let name = contract
        .key_header()
        .filter(|_| !default_headers.is_empty())?;
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
