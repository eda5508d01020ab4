//! When a quota is there again: the `RateLimit` field of draft-ietf-httpapi-ratelimit-headers.

use std::time::Duration;

use http::{HeaderMap, HeaderName};
use sfv::{BareItem, List, ListEntry, Parser};

pub(super) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The longest time until one of the used-up quotas is there again. [`None`] where no quota is used up, and where the field is
/// not what the draft says, which means as if it was not there (section 5).
///
/// A quota of which something is left asks for no wait: "A client SHOULD NOT exceed the quota units conveyed by the remaining
/// keyword before the time window expressed in the reset keyword."
pub(super) fn reset(headers: &HeaderMap) -> Option<Duration> {
    let mut lines = headers.get_all(RATE_LIMIT).iter().peekable();
    lines.peek()?;
    // Lines of one list are one list (RFC 9651, section 4.2).
    let text = lines.map(|line| line.as_bytes()).collect::<Vec<_>>();
    let list = Parser::new(&text.join(&b", "[..])).parse::<List>().ok()?;
    let mut longest = None;
    for entry in &list {
        let ListEntry::Item(item) = entry else {
            return None;
        };
        if !matches!(item.bare_item, BareItem::String(_) | BareItem::Token(_)) {
            return None;
        }
        let whole = |name: &str| match item.params.get(name) {
            Some(BareItem::Integer(number)) => u64::try_from(i64::from(*number)).ok().map(Some),
            Some(_) => None,
            None => Some(None),
        };
        // `r` is required, `t` is not.
        let (remaining, reset) = (whole("r")??, whole("t")?);
        if let (0, Some(seconds)) = (remaining, reset) {
            longest = longest.max(Some(Duration::from_secs(seconds)));
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;
    use crate::contract::{WaitHeader, WaitHint};

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn a_used_up_quota_asks_for_its_reset_time_and_nothing_else_does() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (value, wait) in [
            (r#""default";r=0;t=30"#, seconds(30)),
            (r#""default";r=0;t=0"#, seconds(0)),
            (r#""default"; t=30; r=0"#, seconds(30)),
            ("default;r=0;t=30", seconds(30)),
            (r#""a";r=0;t=3, "b";r=0;t=9, "c";r=5;t=99"#, seconds(9)),
            (r#""a";r=0;t=3;pk=:cHNzdA==:"#, seconds(3)),
            (r#""default";r=1;t=30"#, None),
            (r#""default";r=0"#, None),
            (r#""default";t=30"#, None),
            (r#""default";r=0;t=-1"#, None),
            (r#""default";r=0;t=1.5"#, None),
            (r#""default";r=0;t="30""#, None),
            (r#""default";r=0;t=30, "b";t=1"#, None),
            (r#""default";r=0;t=30, ("x");r=0"#, None),
            ("7;r=0;t=30", None),
            ("limit=10, remaining=0, reset=30", None),
            ("", None),
            (r#""default";r=0;t=9999999999999999"#, None),
            (
                r#""default";r=0;t=999999999999999"#,
                seconds(999_999_999_999_999),
            ),
            ("é", None),
        ] {
            assert_eq!(reset(&headers(&[("ratelimit", value)])), wait, "{value}");
        }
        let two = headers(&[
            ("ratelimit", r#""a";r=0;t=3"#),
            ("ratelimit", r#""b";r=0;t=4"#),
        ]);
        assert_eq!(reset(&two), seconds(4));
        assert_eq!(reset(&HeaderMap::new()), None);
    }

    #[test]
    fn it_stands_below_every_other_hint() {
        let hint = |lines: &[_], names: &[_]| {
            WaitHint::from_headers(&headers(lines), names)
                .map(|hint| hint.delay(std::time::UNIX_EPOCH).as_secs())
        };
        let limit = ("ratelimit", r#""default";r=0;t=30"#);
        assert_eq!(hint(&[limit], WaitHeader::ALL), Some(30));
        for (other, wait) in [
            (("retry-after", "2"), 2),
            (("retry-after-ms", "3000"), 3),
            (("retry-after", "soon"), 30),
        ] {
            assert_eq!(
                hint(&[limit, other], WaitHeader::ALL),
                Some(wait),
                "{other:?}"
            );
        }
        assert_eq!(hint(&[limit], &[WaitHeader::RetryAfter]), None);
        let far = ("ratelimit", r#""default";r=0;t=999999999999999"#);
        assert_eq!(
            hint(&[far], WaitHeader::ALL),
            Some(WaitHint::LONGEST.as_secs())
        );
    }

    proptest! {
        #[test]
        fn reading_never_panics(value in "[ -~]{0,60}") {
            let _ = reset(&headers(&[("ratelimit", &value)]));
        }
    }
}
