//! What an answer says about the operation, beyond its status.

use std::borrow::Cow;

use super::Replay;

/// What an answer means to the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Meaning {
    /// Nothing in particular: the status speaks for itself.
    #[default]
    Plain,
    /// An earlier attempt under this key is still running. Wait, and ask again with the same key.
    InProgress,
    /// The key was used before with another request. Repeating cannot help.
    Mismatch,
    /// The operation was done under this key before; its answer is not repeated. Final, and not a
    /// failure.
    AlreadyDone,
    /// The server does not take this key: missing, malformed, expired or burned by a failure.
    KeyUnusable,
    /// The server says that this attempt did nothing. Whether repeating makes sense is the status's
    /// affair.
    NotExecuted,
}

/// What is read from one answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Reading {
    /// What the answer means.
    pub meaning: Meaning,
    /// Whether it is a replay, as far as the server says so.
    pub marker: Replay,
    /// What the server says about repeating, where the contract names a header for that and the
    /// answer is an error.
    pub should_retry: Option<bool>,
    /// The resource that an earlier attempt created, where the answer names it.
    pub resource: Option<String>,
}

/// A rule that gives answers a meaning. The first rule that fits counts.
///
/// ```
/// use idempotency::contract::{AnswerRule, Condition, Meaning, Statuses};
///
/// let rule = AnswerRule {
///     statuses: Statuses::one(409),
///     when: Condition::code(["/error/code"], ["order_in_progress"]),
///     means: Meaning::InProgress,
///     resource: None,
/// };
/// assert!(rule.statuses.contains(409));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerRule {
    /// The statuses that it looks at.
    pub statuses: Statuses,
    /// What else must be so.
    pub when: Condition,
    /// What the answer then means.
    pub means: Meaning,
    /// Where the body names the resource that exists already, as a JSON pointer.
    pub resource: Option<Cow<'static, str>>,
}

/// A range of statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Statuses {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

impl Statuses {
    /// 400 to 499.
    pub const CLIENT_ERRORS: Self = Self {
        first: 400,
        last: 499,
    };

    /// 400 to 599.
    pub const ERRORS: Self = Self {
        first: 400,
        last: 599,
    };

    /// A single status.
    #[must_use]
    pub const fn one(status: u16) -> Self {
        Self {
            first: status,
            last: status,
        }
    }

    /// Whether the status is among them.
    #[must_use]
    pub const fn contains(&self, status: u16) -> bool {
        self.first <= status && status <= self.last
    }
}

/// What must be so in an answer, besides its status.
///
/// Codes and words are compared without regard to case and to the separators `-`, `_`, `.` and
/// space, so that one entry covers `idempotency_key_in_use`, `IDEMPOTENCY-KEY-IN-USE` and
/// `IdempotencyKeyInUse`. Of a code with a `#` in it the part behind that is compared too.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// Nothing.
    Always,
    /// One of the values stands at one of the JSON pointers, as a string or a whole number.
    Code {
        /// Where to look (RFC 6901).
        pointers: Texts,
        /// What to look for.
        values: Texts,
    },
    /// The problem document (RFC 9457) has one of these types. A value with a colon is compared as
    /// a whole URI, byte by byte; one without is compared as a word with the last segment of the
    /// URI.
    ProblemType {
        /// The types.
        values: Texts,
    },
    /// A header is there; if a value is given, it has that value, without regard to case.
    Header {
        /// The name.
        name: Cow<'static, str>,
        /// The value, `None` for any.
        value: Option<Cow<'static, str>>,
    },
    /// The content type is this one, parameters aside.
    ContentType(Cow<'static, str>),
}

/// A list of texts, constant or made at run time.
pub type Texts = Cow<'static, [Cow<'static, str>]>;

pub(super) fn texts<T>(items: impl IntoIterator<Item = T>) -> Texts
where
    T: Into<Cow<'static, str>>,
{
    items.into_iter().map(Into::into).collect()
}

impl Condition {
    /// One of `values` at one of the JSON pointers.
    pub fn code<P, V>(
        pointers: impl IntoIterator<Item = P>,
        values: impl IntoIterator<Item = V>,
    ) -> Self
    where
        P: Into<Cow<'static, str>>,
        V: Into<Cow<'static, str>>,
    {
        Self::Code {
            pointers: texts(pointers),
            values: texts(values),
        }
    }

    /// A problem document of one of these types.
    pub fn problem_type<V: Into<Cow<'static, str>>>(values: impl IntoIterator<Item = V>) -> Self {
        Self::ProblemType {
            values: texts(values),
        }
    }

    pub(super) const fn needs_body(&self) -> bool {
        matches!(self, Self::Code { .. } | Self::ProblemType { .. })
    }
}
