//! How long a server remembers a key, and what it remembers of failures.

use std::time::Duration;

use super::retry_after::digits;

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

    /// The window that a server announces as an ISO 8601 duration, such as the `idempotency-key-lifetime` of Apache Iceberg
    /// catalogs: `PT30M`, `P1DT12H`. [`None`] for what is no such duration, for months and years, whose length is not fixed, and
    /// for no time at all.
    ///
    /// ```
    /// use std::time::Duration;
    /// use idempotency::contract::Window;
    ///
    /// let window = Window::advertised("PT30M").expect("a duration");
    /// assert_eq!(window.bound(), Some(Duration::from_secs(1800)));
    /// assert_eq!(Window::advertised("half an hour"), None);
    /// ```
    #[must_use]
    pub fn advertised(duration: &str) -> Option<Self> {
        let text = duration.trim().strip_prefix(['P', 'p'])?;
        let (date, time) = match text.split_once(['T', 't']) {
            Some((_, "")) => return None,
            Some((date, time)) => (date, time),
            None => (text, ""),
        };
        const DATE: &[(u8, u64)] = &[(b'W', 7 * 24 * 60 * 60), (b'D', 24 * 60 * 60)];
        const TIME: &[(u8, u64)] = &[(b'H', 60 * 60), (b'M', 60), (b'S', 1)];
        let seconds = sum(date, DATE)?.checked_add(sum(time, TIME)?)?;
        (seconds > 0).then(|| Self::Advertised(Duration::from_secs(seconds)))
    }

    pub(super) const fn published(&self) -> Option<Duration> {
        match *self {
            Self::AtLeast(time) | Self::Exactly(time) | Self::Advertised(time) => Some(time),
            Self::Unknown | Self::MerchantSet | Self::Forever => None,
        }
    }
}

/// Adds up `1*DIGIT unit` pairs, whose units come in the order of the list. Fractions are cut off: a window is never made longer.
fn sum(text: &str, units: &[(u8, u64)]) -> Option<u64> {
    let mut rest = text;
    let mut units = units.iter();
    let mut seconds = 0_u64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (number, unit) = (&rest[..end], rest.as_bytes()[end].to_ascii_uppercase());
        let (_, length) = units.find(|(known, _)| *known == unit)?;
        let whole = match number.split_once(['.', ',']) {
            Some((whole, fraction)) if unit == b'S' => digits(fraction).and(Some(whole))?,
            Some(_) => return None,
            None => number,
        };
        let count = digits(whole)?.parse::<u64>().ok()?;
        seconds = seconds.checked_add(count.checked_mul(*length)?)?;
        rest = &rest[end + 1..];
    }
    Some(seconds)
}

/// What the server does with a failed first run of the operation.
///
/// It says what an answer of 5xx leads to when the operation is sent again with its key, as the client does:
///
/// | | the repeat after a 5xx |
/// |---|---|
/// | [`Nothing`](Self::Nothing), [`ClientErrors`](Self::ClientErrors), [`ReExecuted`](Self::ReExecuted) | runs the operation again: a retry can heal it |
/// | [`Everything`](Self::Everything) | brings the stored 5xx again. With a replay marker it is the operation's final answer; without one the retries end in an error of unknown effect with that answer in it |
/// | [`KeyBurned`](Self::KeyBurned) | is refused. That refusal says nothing about the first run: after an attempt of unknown outcome it is an error of unknown effect, never an answer |
/// | [`Unknown`](Self::Unknown) | is one of these |
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announced_duration_is_read_and_never_made_longer() {
        for (text, seconds) in [
            ("PT30M", Some(1800)),
            ("pt30m", Some(1800)),
            (" PT1H30M5S ", Some(5405)),
            ("P1D", Some(86_400)),
            ("P2W", Some(1_209_600)),
            ("P1DT12H", Some(129_600)),
            ("PT1.9S", Some(1)),
            ("PT0,5S", None),
            ("PT0S", None),
            ("P", None),
            ("PT", None),
            ("P1DT", None),
            ("", None),
            ("30M", None),
            ("P1M", None),
            ("P1Y", None),
            ("PT1M1H", None),
            ("PT1H1H", None),
            ("PT-5M", None),
            ("-PT5M", None),
            ("PT5", None),
            ("PTM", None),
            ("PT1.5H", None),
            ("PT1.S", None),
            ("PT99999999999999999999S", None),
            ("P99999999999999999W", None),
            ("PTé", None),
        ] {
            let window = Window::advertised(text);
            let expected = seconds.map(|seconds| Window::Advertised(Duration::from_secs(seconds)));
            assert_eq!(window, expected, "{text:?}");
        }
    }
}
