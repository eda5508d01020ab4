//! The rules that a client keeps, and what is said where it breaks one.

use std::fmt;

use crate::contract::KeyDigest;

/// A rule of the contract that a client can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// An attempt carries no key.
    KeyMissing,
    /// The first attempt carries no key, a later one does.
    KeyMissingOnFirst,
    /// An attempt carries several key lines.
    SeveralKeys,
    /// What stands in the key's place is no key, or not one that the contract takes.
    KeyUnusable,
    /// One attempt quotes the key, another does not.
    QuotingChanged,
    /// The key is quoted where the contract wants it bare.
    QuotedKey,
    /// A repeat carries a new key although the answer told the client to try again.
    NewKeyPerAttempt,
    /// A repeat carries a new key after an answer was lost: the operation can run twice.
    NewKeyAfterLostAnswer,
    /// A repeat has another body.
    BodyChanged,
    /// A repeat has another query.
    QueryChanged,
    /// A repeat goes to another path.
    PathChanged,
    /// A repeat has another method.
    MethodChanged,
    /// A repeat has another content type.
    ContentTypeChanged,
    /// An answer came whole, and the client repeats.
    RetryAfterAnswer,
    /// A business conflict is repeated on and on.
    ConflictRetried,
    /// A repeat comes before the time that the server asked for.
    TooEarly,
    /// A repeat comes when the server has forgotten the key.
    AfterWindow,
    /// An operation was not executed exactly once.
    NotOnce,
    /// Another number of operations was executed than was expected.
    Expected,
}

impl Rule {
    /// The name under which reports speak of it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KeyMissing => "no key",
            Self::KeyMissingOnFirst => "no key on the first attempt",
            Self::SeveralKeys => "the key twice",
            Self::KeyUnusable => "no usable key",
            Self::QuotingChanged => "quoted once and bare once",
            Self::QuotedKey => "a quoted key where a bare one is wanted",
            Self::NewKeyPerAttempt => "a new key per attempt",
            Self::NewKeyAfterLostAnswer => "a new key after a lost answer",
            Self::BodyChanged => "a changed body",
            Self::QueryChanged => "a changed query",
            Self::PathChanged => "a changed path",
            Self::MethodChanged => "a changed method",
            Self::ContentTypeChanged => "a changed content type",
            Self::RetryAfterAnswer => "a retry after the answer had come",
            Self::ConflictRetried => "a business conflict retried",
            Self::TooEarly => "a retry before Retry-After",
            Self::AfterWindow => "a retry after the key's window",
            Self::NotOnce => "not exactly once",
            Self::Expected => "not the expected number of operations",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The operation, as the report names it.
    pub operation: String,
    /// The key's digest, where there is one.
    pub key: Option<KeyDigest>,
    /// What should have come.
    pub expected: String,
    /// What came.
    pub came: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.operation)?;
        if let Some(key) = self.key {
            write!(f, ", key #{key}")?;
        }
        writeln!(f)?;
        writeln!(f, "     expected: {}", self.expected)?;
        write!(f, "     came:     {}", self.came)
    }
}
