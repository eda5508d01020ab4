//! What can be wrong with a contract, or with a key under it.

use std::borrow::Cow;

/// A contract that cannot be built, or a key that does not fit one.
///
/// Values from the contract are shown, a key never is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContractError {
    /// Something that a contract cannot do without is empty.
    #[error("a contract needs {what}")]
    Missing {
        /// What is missing.
        what: &'static str,
    },
    /// A text is not the name of a header, or of one that has another task.
    #[error("`{name}` is not a header name that can serve as {what}")]
    HeaderName {
        /// What the header was to be.
        what: &'static str,
        /// The text.
        name: String,
    },
    /// A text is not a JSON pointer.
    #[error(
        "`{pointer}` is not a JSON pointer for {what}: it starts with `/` and escapes `~` as `~0` (RFC 6901)"
    )]
    Pointer {
        /// What it was to point at.
        what: &'static str,
        /// The text.
        pointer: String,
    },
    /// A method that needs no key and must not carry one.
    #[error("the method {method} is safe: a contract cannot honour a key on it")]
    Method {
        /// The method.
        method: String,
    },
    /// Lengths that no key satisfies.
    #[error("key lengths from {min} to {max} are not within 1 to 255, lowest first")]
    KeyLengths {
        /// The shortest.
        min: usize,
        /// The longest.
        max: usize,
    },
    /// Key characters that are not visible ASCII.
    #[error("the key characters `{characters}` are not all visible ASCII")]
    Alphabet {
        /// The characters.
        characters: String,
    },
    /// A version that UUIDs do not have.
    #[error("there is no UUID version {version}")]
    UuidVersion {
        /// The version.
        version: u8,
    },
    /// UUIDs are asked for, and too little room is given for them.
    #[error("a UUID of {length} characters does not fit key lengths from {min} to {max}")]
    UuidLength {
        /// The length of the form that is asked for.
        length: usize,
        /// The shortest key.
        min: usize,
        /// The longest key.
        max: usize,
    },
    /// A time of zero.
    #[error("{what} is zero")]
    Zero {
        /// Which time.
        what: &'static str,
    },
    /// A status, or a range of them, that does not exist.
    #[error("statuses from {first} to {last} are not within 100 to 599, lowest first")]
    Statuses {
        /// The lowest.
        first: u16,
        /// The highest.
        last: u16,
    },
    /// A word of a replay marker that means both.
    #[error("the replay marker `{header}` has `{word}` both for replayed and for fresh")]
    AmbiguousWord {
        /// The header.
        header: String,
        /// The word.
        word: String,
    },
    /// Only a header can hold a string of structured fields.
    #[error("a key that does not travel in a header cannot be a string of structured fields")]
    EncodingWithoutHeader,

    /// The contract has no header for the key, so there is no header value either.
    #[error("in the contract `{contract}` the key does not travel in a header")]
    NotInHeader {
        /// The name of the contract.
        contract: Cow<'static, str>,
    },
    /// The key is too short or too long.
    #[error(
        "`{contract}` takes keys of {min} to {max} characters ({asked_by}), this one has {length}"
    )]
    KeyLength {
        /// The name of the contract.
        contract: Cow<'static, str>,
        /// The shortest.
        min: usize,
        /// The longest.
        max: usize,
        /// The length of the key in the form in which it would be sent.
        length: usize,
        /// Who says so.
        asked_by: Cow<'static, str>,
    },
    /// The key has a character that the server does not take.
    #[error(
        "`{contract}` takes keys of letters, digits and `{allowed}` ({asked_by}), this one has another character at position {position}"
    )]
    KeyCharacter {
        /// The name of the contract.
        contract: Cow<'static, str>,
        /// What is allowed besides letters and digits.
        allowed: Cow<'static, str>,
        /// Where the first other character is, counted from 0.
        position: usize,
        /// Who says so.
        asked_by: Cow<'static, str>,
    },
    /// The key is not a UUID, or one of another version.
    #[error("`{contract}` takes UUIDs{} ({asked_by}), this key is none", version.map(|v| format!(" of version {v}")).unwrap_or_default())]
    KeyNotUuid {
        /// The name of the contract.
        contract: Cow<'static, str>,
        /// The version that is asked for.
        version: Option<u8>,
        /// Who says so.
        asked_by: Cow<'static, str>,
    },
    /// The key has a double quote and would be sent bare, where servers read it as a quoted string
    /// or refuse it.
    #[error("`{contract}` sends keys without quotes, this one has a double quote in it")]
    KeyQuote {
        /// The name of the contract.
        contract: Cow<'static, str>,
    },
}
