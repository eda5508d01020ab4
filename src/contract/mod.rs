//! The wire vocabulary that both sides share: keys, contracts, replay markers, wait hints,
//! fingerprints, problems.
//!
//! ```
//! use http::{HeaderMap, StatusCode};
//! use idempotency::contract::{Contract, IdempotencyKey, Meaning, Replay, read_key};
//!
//! // A client writes the key down the way the server's contract says, and a server reads it back.
//! let contract = Contract::generic();
//! let key = IdempotencyKey::random();
//! let value = contract.encode_key(&key)?;
//! assert_eq!(read_key([&value])?, Some(key));
//!
//! // The contract says what an answer means beyond its status.
//! let reading = contract.read(StatusCode::CREATED, &HeaderMap::new(), b"{}");
//! assert_eq!((reading.meaning, reading.marker), (Meaning::Plain, Replay::Unknown));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The pieces:
//!
//! - An [`IdempotencyKey`] names one operation. It is drawn by a [`KeySource`], derived under a
//!   [`KeyNamespace`], or taken from where the application saved it.
//! - A [`Contract`] is what one server promises, as a value: where the key travels, which keys are
//!   taken, for how long they protect ([`Window`]) and what each answer means ([`Meaning`]). Those of
//!   known servers are in [`named`].
//! - [`Replay`] says whether an answer is the stored one of an earlier attempt, in three values:
//!   servers are silent more often than not, and silence proves nothing.
//! - A [`WaitHint`] is the wait that the server asks for.
//! - A [`Fingerprint`] tells whether two requests under one key are the same request, and
//!   [`problem`] has the documents in which a server explains its refusals.
//!
//! Nothing in here does I/O, reads a clock or waits: where the time matters, the caller says what
//! time it is. Everything that comes from the other side is taken leniently and cannot make these
//! functions panic; everything that comes from the application is checked once, where it is made.

mod answers;
mod builder;
mod carrier;
mod check;
#[expect(
    clippy::module_inception,
    reason = "the type is named after the module"
)]
mod contract;
mod encode;
mod error;
mod fingerprint;
mod key;
mod key_field;
mod markers;
pub mod named;
mod namespace;
pub mod problem;
mod rate_limit;
mod reading;
mod recognised;
mod replay;
mod retry_after;
mod source;
mod spec;
mod window;

pub use answers::{AnswerRule, Condition, Meaning, Reading, Statuses, Texts};
pub use builder::ContractBuilder;
pub use carrier::{Carrier, Companion, KeyAlphabet, KeyEncoding, KeyFormat, UuidForm};
pub use contract::Contract;
pub use error::ContractError;
pub use fingerprint::Fingerprint;
pub use key::{IdempotencyKey, KeyDigest, KeyError};
pub use key_field::{KeyReadError, read_key};
pub use named::NamedContract;
pub use namespace::{KeyNamespace, NamespaceError};
pub use problem::Problem;
pub use replay::{MarkerRule, Replay};
pub use retry_after::{WaitHeader, WaitHint};
pub use source::KeySource;
pub use window::{FailureStorage, MismatchDetection, Window};
