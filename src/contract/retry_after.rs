//! How long the server asks to wait: `Retry-After` and its cousins.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, header};

use super::rate_limit;

const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
const X_MS_RETRY_AFTER_MS: HeaderName = HeaderName::from_static("x-ms-retry-after-ms");

/// A header in which a server asks for a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitHeader {
    /// `Retry-After` (RFC 9110, section 10.2.3): whole seconds or an HTTP date. Decimal seconds,
    /// which the grammar does not know but servers send, are read too.
    RetryAfter,
    /// `retry-after-ms`: milliseconds.
    RetryAfterMs,
    /// `x-ms-retry-after-ms`: milliseconds.
    XMsRetryAfterMs,
    /// `RateLimit` (draft-ietf-httpapi-ratelimit-headers): the reset time `t` in seconds of a quota of which nothing is left
    /// (`r=0`). It counts only where none of the others does.
    RateLimit,
}

impl WaitHeader {
    /// Every header that is known.
    pub const ALL: &'static [Self] = &[
        Self::RetryAfter,
        Self::RetryAfterMs,
        Self::XMsRetryAfterMs,
        Self::RateLimit,
    ];

    fn name(self) -> HeaderName {
        match self {
            Self::RetryAfter => header::RETRY_AFTER,
            Self::RetryAfterMs => RETRY_AFTER_MS,
            Self::XMsRetryAfterMs => X_MS_RETRY_AFTER_MS,
            Self::RateLimit => rate_limit::RATE_LIMIT,
        }
    }
}

/// The wait that an answer asks for.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use http::HeaderMap;
/// use idempotency::contract::{WaitHeader, WaitHint};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("retry-after", "2".parse()?);
/// headers.insert("retry-after-ms", "2500".parse()?);
/// let hint = WaitHint::from_headers(&headers, WaitHeader::ALL).expect("both are valid");
/// assert_eq!(hint.delay(SystemTime::now()), Duration::from_millis(2500));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
///
/// Read without a clock: the caller says what time it is. Where several valid waits stand in one
/// answer, the longest counts, so that no request is sent earlier than any of them asks for. What
/// is not understood is as if it was not there: a negative number, a sign, an exponent, `nan`,
/// `inf`, words, bytes outside ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitHint {
    delta: Option<Duration>,
    until: Option<SystemTime>,
    /// The answer's own `Date`: the server's clock at the moment when it said "until".
    date: Option<SystemTime>,
}

impl WaitHint {
    /// The longest wait that is told apart: 100 years of 365.25 days. Longer ones, of however many
    /// digits, are this one, which every deadline rejects and which no clock arithmetic overflows
    /// on.
    pub const LONGEST: Duration = Duration::from_secs(3_155_760_000);

    /// Reads the wait from the headers of an answer, looking at those in `hints` only. `None` when
    /// none of them holds a valid one.
    #[must_use]
    pub fn from_headers(headers: &HeaderMap, hints: &[WaitHeader]) -> Option<Self> {
        let mut delta: Option<Duration> = None;
        let mut until: Option<SystemTime> = None;
        for hint in hints {
            let scale = match hint {
                WaitHeader::RetryAfter => NANOS_PER_SECOND,
                WaitHeader::RetryAfterMs | WaitHeader::XMsRetryAfterMs => NANOS_PER_MILLISECOND,
                WaitHeader::RateLimit => continue,
            };
            for value in headers.get_all(hint.name()) {
                let Ok(text) = value.to_str() else { continue };
                let text = text.trim_matches([' ', '\t']);
                if let Some(wait) = decimal(text, scale) {
                    delta = delta.max(Some(wait));
                } else if let (WaitHeader::RetryAfter, Ok(date)) =
                    (hint, httpdate::parse_http_date(text))
                {
                    // All three forms of RFC 9110, section 5.6.7, which recipients have to accept.
                    until = until.max(Some(date));
                }
            }
        }
        if delta.is_none() && until.is_none() {
            // "If a response contains both the RateLimit and Retry-After fields, the Retry-After field MUST take precedence"
            // (draft-ietf-httpapi-ratelimit-headers, section 5).
            if !hints.contains(&WaitHeader::RateLimit) {
                return None;
            }
            delta = Some(rate_limit::reset(headers)?.min(Self::LONGEST));
        }
        let date = until.and_then(|_| own_date(headers));
        Some(Self { delta, until, date })
    }

    /// How long to wait from now on; zero when the server asks for no wait or the moment has
    /// passed.
    ///
    /// A date is measured against the answer's own `Date` header where that is present and valid,
    /// so that a clock that differs from the server's does not shorten the wait; otherwise against
    /// `now`. At most [`LONGEST`](Self::LONGEST).
    #[must_use]
    pub fn delay(&self, now: SystemTime) -> Duration {
        let until = self.until.map_or(Duration::ZERO, |until| {
            until
                .duration_since(self.date.unwrap_or(now))
                .unwrap_or(Duration::ZERO)
        });
        self.delta
            .unwrap_or(Duration::ZERO)
            .max(until)
            .min(Self::LONGEST)
    }
}

/// A `Date` counts only when there is exactly one.
fn own_date(headers: &HeaderMap) -> Option<SystemTime> {
    let mut dates = headers.get_all(header::DATE).iter();
    let (Some(date), None) = (dates.next(), dates.next()) else {
        return None;
    };
    httpdate::parse_http_date(date.to_str().ok()?.trim_matches([' ', '\t'])).ok()
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MILLISECOND: u64 = 1_000_000;

/// Reads `1*DIGIT [ "." 1*DIGIT ]` in units of `scale` nanoseconds, rounded up to the next
/// nanosecond.
fn decimal(text: &str, scale: u64) -> Option<Duration> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, digits(fraction)?),
        None => (text, ""),
    };
    let whole = digits(whole)?;

    // Too many digits for u64 is far past the longest wait.
    let whole = whole.parse::<u64>().unwrap_or(u64::MAX);
    let units_per_second = NANOS_PER_SECOND / scale;
    let seconds = whole / units_per_second;
    let nanos = (whole % units_per_second) * scale;

    let mut part = 0;
    let mut place = scale;
    let mut rest = false;
    for digit in fraction.bytes() {
        place /= 10;
        if place == 0 {
            rest |= digit != b'0';
        } else {
            part += u64::from(digit - b'0') * place;
        }
    }
    let nanos = nanos + part + u64::from(rest);
    let wait = Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos));
    Some(wait.min(WaitHint::LONGEST))
}

pub(super) fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    /// Fri, 15 May 2015 15:34:21 GMT.
    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_431_704_061)
    }

    #[track_caller]
    fn delay(lines: &[(&'static str, &str)]) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        WaitHint::from_headers(&headers, WaitHeader::ALL).map(|hint| hint.delay(now()))
    }

    // B45, B46, B47, B50, B51.
    #[test]
    fn retry_after_is_read_in_every_form_that_servers_send() {
        let millis = Duration::from_millis;
        let secs = Duration::from_secs;
        let nanos = Duration::from_nanos;
        for (value, wait) in [
            ("0", Some(secs(0))),
            ("2", Some(secs(2))),
            (" 2 ", Some(secs(2))),
            ("0002", Some(secs(2))),
            ("3600", Some(secs(3600))),
            ("2.0", Some(secs(2))),
            ("1.5", Some(millis(1500))),
            ("0.493", Some(millis(493))),
            ("299.997", Some(millis(299_997))),
            ("0.0", Some(secs(0))),
            ("0.0000000001", Some(nanos(1))),
            ("1.9999999999", Some(secs(2))),
            ("9999999999", Some(WaitHint::LONGEST)),
            ("18446744073709551616", Some(WaitHint::LONGEST)),
            (&"9".repeat(400), Some(WaitHint::LONGEST)),
            (&format!("1.{}", "9".repeat(400)), Some(secs(2))),
            // The three forms of a date, two minutes ahead.
            ("Fri, 15 May 2015 15:36:21 GMT", Some(secs(120))),
            ("Friday, 15-May-15 15:36:21 GMT", Some(secs(120))),
            ("Fri May 15 15:36:21 2015", Some(secs(120))),
            // Past.
            ("Wed, 21 Oct 2009 07:28:00 GMT", Some(secs(0))),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(WaitHint::LONGEST)),
            ("-1", None),
            ("-0", None),
            ("+5", None),
            ("1e5", None),
            ("1e10000", None),
            ("nan", None),
            ("NaN", None),
            ("inf", None),
            ("infinity", None),
            ("", None),
            (".", None),
            (".5", None),
            ("5.", None),
            ("1.2.3", None),
            ("1,5", None),
            ("120, 120", None),
            ("0x10", None),
            ("1_000", None),
            ("5s", None),
            ("soon", None),
            ("-1.5", None),
            ("1.-5", None),
            ("é", None),
            ("٣", None),
            ("Fri, 32 May 2015 15:36:21 GMT", None),
            ("2015-05-15T15:36:21Z", None),
        ] {
            assert_eq!(delay(&[("retry-after", value)]), wait, "{value:?}");
        }
    }

    #[test]
    fn milliseconds_are_read_as_whole_and_decimal_numbers_and_never_as_dates() {
        for name in ["retry-after-ms", "x-ms-retry-after-ms"] {
            for (value, wait) in [
                ("0", Some(Duration::ZERO)),
                ("1500", Some(Duration::from_millis(1500))),
                ("0.5", Some(Duration::from_micros(500))),
                ("1.0000001", Some(Duration::from_nanos(1_000_001))),
                ("18446744073709551616", Some(WaitHint::LONGEST)),
                ("-1", None),
                ("Fri, 15 May 2015 15:36:21 GMT", None),
            ] {
                assert_eq!(delay(&[(name, value)]), wait, "{name}: {value}");
            }
        }
    }

    #[test]
    fn a_date_is_measured_against_the_answers_own_date() {
        let ahead = ("retry-after", "Fri, 15 May 2015 15:36:21 GMT");
        for (date, seconds) in [
            ("Fri, 15 May 2015 15:36:11 GMT", 10),
            ("Fri, 15 May 2015 15:40:00 GMT", 0),
            ("yesterday", 120),
        ] {
            assert_eq!(
                delay(&[ahead, ("date", date)]),
                Some(Duration::from_secs(seconds)),
                "{date}"
            );
        }
        let date = ("date", "Fri, 15 May 2015 15:36:11 GMT");
        assert_eq!(delay(&[ahead, date, date]), Some(Duration::from_secs(120)));
        assert_eq!(
            delay(&[("retry-after", "2"), date]),
            Some(Duration::from_secs(2))
        );
    }

    #[test]
    fn the_longest_valid_wait_counts() {
        let two = ("retry-after", "2");
        let five = ("retry-after", "5");
        assert_eq!(delay(&[two, five]), Some(Duration::from_secs(5)));
        assert_eq!(delay(&[five, two]), Some(Duration::from_secs(5)));
        assert_eq!(
            delay(&[two, ("retry-after", "junk")]),
            Some(Duration::from_secs(2))
        );
        assert_eq!(
            delay(&[two, ("retry-after-ms", "2500")]),
            Some(Duration::from_millis(2500))
        );
        assert_eq!(
            delay(&[two, ("retry-after-ms", "1")]),
            Some(Duration::from_secs(2))
        );
        let date = ("retry-after", "Fri, 15 May 2015 15:34:31 GMT");
        assert_eq!(delay(&[two, date]), Some(Duration::from_secs(10)));
        assert_eq!(
            delay(&[("retry-after", "11"), date]),
            Some(Duration::from_secs(11))
        );
    }

    #[test]
    fn only_the_named_headers_are_read() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after-ms", HeaderValue::from_static("5"));
        assert_eq!(
            WaitHint::from_headers(&headers, &[WaitHeader::RetryAfter]),
            None
        );
        assert_eq!(
            WaitHint::from_headers(&HeaderMap::new(), WaitHeader::ALL),
            None
        );
    }

    proptest! {
        #[test]
        fn reading_never_panics_and_never_exceeds_the_longest(value in ".{0,40}", ms in any::<bool>()) {
            let mut headers = HeaderMap::new();
            let name = if ms { "retry-after-ms" } else { "retry-after" };
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                headers.insert(name, value);
            }
            if let Some(hint) = WaitHint::from_headers(&headers, WaitHeader::ALL) {
                prop_assert!(hint.delay(now()) <= WaitHint::LONGEST);
                prop_assert!(hint.delay(UNIX_EPOCH) <= WaitHint::LONGEST);
            }
        }

        #[test]
        fn a_wait_is_never_shorter_than_asked(whole in 0_u64..1_000_000_000, fraction in "[0-9]{1,20}") {
            let wait = delay(&[("retry-after", &format!("{whole}.{fraction}"))]).unwrap();
            // In units of 10^-20 seconds.
            let asked = u128::from(whole) * 10_u128.pow(20) + format!("{fraction:0<20}").parse::<u128>().unwrap();
            let given = wait.as_nanos() * 10_u128.pow(11);
            prop_assert!(given >= asked);
            prop_assert!(given - asked < 10_u128.pow(11));
        }
    }
}
