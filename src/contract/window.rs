//! How long a server remembers a key, and what it remembers of failures.

use std::time::Duration;

/// How long the server remembers a key, counted from the first time that it saw it.
///
/// Past the window a repeat is a new operation: it happens again. A client therefore stops
/// repeating, and refuses to take up a saved operation, when the [`bound`](Self::bound) has passed
/// since the first attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Window {
    /// Not known.
    #[default]
    Unknown,
    /// Published as a minimum.
    AtLeast(Duration),
    /// Published as a fixed time.
    Exactly(Duration),
    /// The key never expires.
    Forever,
    /// Each customer of the provider sets it, and it is not known here.
    MerchantSet,
    /// The server itself has announced it, for instance in its configuration document.
    Advertised(Duration),
}

impl Window {
    /// What is assumed of a server that publishes nothing: 24 hours, by far the most common
    /// promise.
    pub const ASSUMED: Duration = Duration::from_secs(24 * 60 * 60);

    /// The time after which the key must not be relied on; `None` means never.
    ///
    /// [`Unknown`](Self::Unknown) and [`MerchantSet`](Self::MerchantSet) are taken as
    /// [`ASSUMED`](Self::ASSUMED). Windows of minutes exist: say so on the contract where you know
    /// it.
    #[must_use]
    pub const fn bound(&self) -> Option<Duration> {
        match *self {
            Self::Unknown | Self::MerchantSet => Some(Self::ASSUMED),
            Self::AtLeast(time) | Self::Exactly(time) | Self::Advertised(time) => Some(time),
            Self::Forever => None,
        }
    }

    pub(super) const fn published(&self) -> Option<Duration> {
        match *self {
            Self::AtLeast(time) | Self::Exactly(time) | Self::Advertised(time) => Some(time),
            Self::Unknown | Self::MerchantSet | Self::Forever => None,
        }
    }
}

/// What the server does with a failed first run of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FailureStorage {
    /// Not known.
    #[default]
    Unknown,
    /// Only successes are stored; after a failure the same key runs the operation again.
    Nothing,
    /// Successes and 4xx answers are stored; after a 5xx the same key runs the operation again.
    ClientErrors,
    /// Whatever the first run answered is stored, 5xx included: repeating with the same key repeats
    /// the failure.
    Everything,
    /// After a failure the key is refused; the operation needs a new one.
    KeyBurned,
    /// The server takes up failed or partly failed work again and answers with the new result.
    ReExecuted,
}

/// Whether the server notices one key on two different requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum MismatchDetection {
    /// Not known.
    #[default]
    Unknown,
    /// It answers with an error.
    Detected,
    /// It answers with the first request's answer, whatever the second one says. The client has to
    /// look after itself.
    NotDetected,
}
