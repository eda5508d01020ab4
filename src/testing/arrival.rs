//! What the contract server saw, and what it did about it.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::fault::Fault;
use super::key_seen::KeySeen;
use crate::contract::{KeyDigest, Meaning, Replay};

/// One request to a mounted operation, as it arrived.
///
/// `Debug` shows no header value, query or body: they hold keys and credentials.
#[derive(Clone)]
#[non_exhaustive]
pub struct Arrival {
    /// When it had come, on the server's clock.
    pub at: Duration,
    /// The connection on which it came, counted from 1.
    pub connection: usize,
    /// Its method.
    pub method: Method,
    /// Its path and query.
    pub target: String,
    /// Its headers, every line of them.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// What the server did.
    pub action: Action,
    /// The status of the answer, if there was one to give.
    pub status: Option<u16>,
    /// What became of the answer.
    pub delivery: Delivery,
    /// The fault that this attempt met.
    pub fault: Fault,
    /// When the answer was given, or lost, on the server's clock.
    pub ended: Option<Duration>,
    pub(super) key: KeySeen,
    pub(super) route: usize,
    pub(super) scope: String,
    /// What the answer said, as the contract reads it.
    pub(super) said: Said,
    /// Which requests under the same key were open, with their client still there, when this one came.
    pub(super) overlapped: bool,
    /// Whether the key's window had passed, and the server had forgotten it.
    pub(super) forgotten: bool,
    /// Whether the effect of its run stands: it was not rolled back.
    pub(super) stands: bool,
}

impl Arrival {
    /// The key's text without quotes, where there was one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.text()
    }

    /// The key's digest, where there was one.
    #[must_use]
    pub fn digest(&self) -> Option<KeyDigest> {
        self.key.digest()
    }

    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub(super) fn query(&self) -> Option<&str> {
        self.target.split_once('?').map(|(_, query)| query)
    }
}

impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival")
            .field("at", &self.at)
            .field("connection", &self.connection)
            .field("method", &self.method)
            .field("path", &self.path())
            .field("key", &self.digest())
            .field("action", &self.action)
            .field("status", &self.status)
            .field("delivery", &self.delivery)
            .field("fault", &self.fault)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// What an answer said about the operation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Said {
    pub(super) meaning: Meaning,
    pub(super) marker: Replay,
    pub(super) should_retry: Option<bool>,
    pub(super) wait: Option<Duration>,
}

/// What the contract server did with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// The responder ran.
    Ran,
    /// The stored answer of an earlier attempt was given.
    Replayed,
    /// An earlier attempt was still running.
    InProgress,
    /// The key had been used with another request.
    Mismatch,
    /// The operation had been done, and the contract does not repeat its answer.
    AlreadyDone,
    /// There was no key, and one was required.
    KeyMissing,
    /// There were several keys, or one that the contract does not take.
    KeyRefused,
    /// The key was taken and nothing was done with it.
    Claimed,
    /// Nothing: a fault came first.
    Nothing,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ran => "ran",
            Self::Replayed => "replayed",
            Self::InProgress => "still in progress",
            Self::Mismatch => "refused: another request under this key",
            Self::AlreadyDone => "already done",
            Self::KeyMissing => "refused: no key",
            Self::KeyRefused => "refused: no usable key",
            Self::Claimed => "claimed",
            Self::Nothing => "did nothing",
        })
    }
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Delivery {
    /// The request is still open.
    Open,
    /// The answer was written whole to a client that was there.
    Complete,
    /// A fault took it.
    Lost,
    /// The client had closed before there was an answer.
    ClientGone,
}
