//! Where the key travels in a request, and in what form.

use std::borrow::Cow;
use std::time::Duration;

use http::HeaderName;

/// The place of the key in a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Carrier {
    /// A header, by far the most common place.
    Header(HeaderName),
    /// A member of the JSON body, as a JSON pointer (RFC 6901): `/idempotency_key`. A GraphQL
    /// variable is one as well: `/variables/idempotencyKey`.
    JsonPointer(Cow<'static, str>),
    /// A field of a URL-encoded body.
    FormField(Cow<'static, str>),
    /// A parameter of the query.
    QueryParameter(Cow<'static, str>),
}

/// A header that accompanies the key, the same on every attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Companion {
    /// When the first attempt was sent, as an HTTP date. `Repeatability-First-Sent` of OASIS
    /// Repeatable Requests is one.
    FirstSent {
        /// The name of the header.
        header: Cow<'static, str>,
    },
    /// Until when the server shall remember the key, in milliseconds since 1970: the client's own
    /// choice.
    ExpiresAt {
        /// The name of the header.
        header: Cow<'static, str>,
        /// For how long, from the first attempt on.
        keep: Duration,
    },
}

impl Companion {
    pub(super) fn header(&self) -> &str {
        match self {
            Self::FirstSent { header } | Self::ExpiresAt { header, .. } => header,
        }
    }
}

/// How the key is written into its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum KeyEncoding {
    /// As it is: what nearly all deployed servers expect.
    #[default]
    Bare,
    /// As a string of structured fields, in double quotes (RFC 9651, section 3.3.3), as the IETF
    /// draft asks. A server that reads the bare text takes the quotes as part of the key.
    StructuredString,
}

/// Which keys a server takes.
///
/// ```
/// use idempotency::contract::{KeyAlphabet, KeyFormat, UuidForm};
///
/// let format = KeyFormat {
///     max: 32,
///     alphabet: KeyAlphabet::AlphanumericAnd("-_".into()),
///     uuid: UuidForm::Simple,
///     source: "the provider's API reference".into(),
///     ..KeyFormat::default()
/// };
/// assert_eq!(format.min, 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyFormat {
    /// The shortest key, in bytes. Default 1.
    pub min: usize,
    /// The longest key, in bytes. Default 255.
    pub max: usize,
    /// Which characters. Default: all that are visible.
    pub alphabet: KeyAlphabet,
    /// How a key that is a UUID is written. Default: hyphenated.
    pub uuid: UuidForm,
    /// Who says so; shown in the error about a key that does not fit.
    pub source: Cow<'static, str>,
}

impl KeyFormat {
    pub(super) const COMMON: Self = Self {
        min: 1,
        max: super::IdempotencyKey::MAX_LENGTH,
        alphabet: KeyAlphabet::VisibleAscii,
        uuid: UuidForm::Hyphenated,
        source: Cow::Borrowed("the limits that deployed servers share"),
    };
}

impl Default for KeyFormat {
    fn default() -> Self {
        Self::COMMON
    }
}

/// The characters of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyAlphabet {
    /// `0x21..=0x7E`.
    VisibleAscii,
    /// Letters, digits and the characters named here.
    AlphanumericAnd(Cow<'static, str>),
    /// A UUID, if a version is named then of that version.
    Uuid {
        /// The version that is asked for.
        version: Option<u8>,
    },
}

/// How a key that is a UUID is written on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum UuidForm {
    /// 36 characters with hyphens.
    #[default]
    Hyphenated,
    /// 32 hexadecimal digits, for servers whose limit is below 36 characters.
    Simple,
}
