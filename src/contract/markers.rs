//! The replay markers of a contract, arranged for reading an answer.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};

use super::reading::Body;
use super::{MarkerRule, Replay};

/// The rules of a contract, arranged for reading.
#[derive(Debug)]
pub(super) struct Markers {
    /// Rules with a header, under its name in lower case.
    headers: Box<[(Box<str>, MarkerRule)]>,
    /// For each length of a name, the last characters that names of that length have, as a set of
    /// bits. It turns away nearly every header of an ordinary answer in a handful of instructions;
    /// a look-up for each known spelling would cost more than the rest of reading an answer.
    endings: [u32; LENGTHS],
    statuses: Box<[u16]>,
    pointers: Box<[Cow<'static, str>]>,
    pub(super) echo: Option<HeaderName>,
}

const LENGTHS: usize = 64;

impl Markers {
    pub(super) fn new(rules: impl IntoIterator<Item = MarkerRule>) -> Self {
        let mut headers = Vec::new();
        let mut endings = [0; LENGTHS];
        let mut statuses = Vec::new();
        let mut pointers = Vec::new();
        let mut echo = None;
        for rule in rules {
            match &rule {
                MarkerRule::Status { status } => statuses.push(*status),
                MarkerRule::BodyFlag { pointer } => pointers.push(pointer.clone()),
                MarkerRule::Echo { header } => echo = echo.or_else(|| header.parse().ok()),
                MarkerRule::Flag { header }
                | MarkerRule::Words { header, .. }
                | MarkerRule::Presence { header } => {
                    let name = header.to_ascii_lowercase().into_boxed_str();
                    let (length, ending) = shape(&name);
                    endings[length] |= ending;
                    headers.push((name, rule));
                }
            }
        }
        Self {
            headers: headers.into(),
            endings,
            statuses: statuses.into(),
            pointers: pointers.into(),
            echo,
        }
    }

    pub(super) fn need_body(&self) -> bool {
        !self.pointers.is_empty()
    }

    pub(super) fn read(&self, status: u16, headers: &HeaderMap, body: &Body<'_>) -> Replay {
        let mut said = Said::default();
        for name in headers.keys() {
            let (length, ending) = shape(name.as_str());
            if self.endings[length] & ending != 0 {
                said.add(self.read_header(name, headers));
            }
        }
        if self.statuses.contains(&status) {
            said.add(Replay::Replayed);
        }
        for pointer in &self.pointers {
            said.add(
                match body.pointer(pointer).and_then(|value| value.as_bool()) {
                    Some(true) => Replay::Replayed,
                    Some(false) => Replay::Fresh,
                    None => Replay::Unknown,
                },
            );
        }
        said.conclusion()
    }

    #[cold]
    fn read_header(&self, name: &HeaderName, headers: &HeaderMap) -> Replay {
        let Some((_, rule)) = self
            .headers
            .iter()
            .find(|(known, _)| **known == *name.as_str())
        else {
            return Replay::Unknown;
        };
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(value), None) => rule.read(value),
            _ => Replay::Unknown,
        }
    }
}

fn shape(name: &str) -> (usize, u32) {
    let ending = name.as_bytes().last().copied().unwrap_or(0);
    (name.len().min(LENGTHS - 1), 1 << (ending & 31))
}

/// What all markers of one answer say together.
#[derive(Default)]
struct Said {
    replayed: bool,
    fresh: bool,
}

impl Said {
    fn add(&mut self, replay: Replay) {
        match replay {
            Replay::Replayed => self.replayed = true,
            Replay::Fresh => self.fresh = true,
            Replay::Unknown => {}
        }
    }

    fn conclusion(&self) -> Replay {
        match (self.replayed, self.fresh) {
            (true, false) => Replay::Replayed,
            (false, true) => Replay::Fresh,
            _ => Replay::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, StatusCode};

    use super::*;
    use crate::contract::Contract;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[track_caller]
    fn generic(lines: &[(&'static str, &str)]) -> Replay {
        Contract::generic().marker(StatusCode::OK, &headers(lines), b"")
    }

    // B123.
    #[test]
    fn every_value_of_a_flag_has_one_reading() {
        use Replay::{Fresh, Replayed, Unknown};
        for (value, replay) in [
            ("true", Replayed),
            ("TRUE", Replayed),
            ("True", Replayed),
            (" true ", Replayed),
            ("1", Replayed),
            ("?1", Replayed),
            ("false", Fresh),
            ("FALSE", Fresh),
            ("0", Fresh),
            ("?0", Fresh),
            ("miss", Fresh),
            ("Miss", Fresh),
            ("", Unknown),
            (" ", Unknown),
            ("yes", Unknown),
            ("10", Unknown),
            ("true, true", Unknown),
            ("\"true\"", Unknown),
            ("hit", Unknown),
            ("ignored", Unknown),
            ("accepted", Unknown),
            ("é", Unknown),
        ] {
            assert_eq!(
                generic(&[("idempotent-replayed", value)]),
                replay,
                "{value:?}"
            );
        }
    }

    #[test]
    fn every_spelling_of_the_marker_is_recognised() {
        for name in [
            "Idempotent-Replayed",
            "Idempotency-Replayed",
            "Idempotency-Replay",
            "Idempotent-Replay",
            "IdempotencyReplay",
            "X-Idempotency-Replayed",
            "X-Idempotent-Replayed",
            "X-Idempotency-Replay",
            "X-Idempotent-Replay",
            "X-Idempotency-Cache-Hit",
            "Idempotency-Cached",
            "chargebee-idempotency-replayed",
            "Request-Idempotency",
        ] {
            let name: &'static str = name.to_ascii_lowercase().leak();
            assert_eq!(generic(&[(name, "true")]), Replay::Replayed, "{name}");
            assert_eq!(generic(&[(name, "false")]), Replay::Fresh, "{name}");
        }
        for (name, value, replay) in [
            ("x-idempotency-cache", "HIT", Replay::Replayed),
            ("x-idempotency-cache", "MISS", Replay::Fresh),
            ("x-idempotency-lookup", "hit", Replay::Replayed),
            ("x-idempotency-lookup", "miss", Replay::Fresh),
            ("idempotency-status", "replayed", Replay::Replayed),
            ("idempotency-status", "Duplicate", Replay::Replayed),
            ("idempotency-status", "HIT", Replay::Replayed),
            ("idempotency-status", "ignored", Replay::Unknown),
            ("x-idempotency-status", "replayed", Replay::Replayed),
            ("x-idempotency-status", "processed", Replay::Fresh),
            (
                "x-gcs-idempotence-request-timestamp",
                "1393254026000",
                Replay::Replayed,
            ),
        ] {
            assert_eq!(generic(&[(name, value)]), replay, "{name}: {value}");
        }
    }

    #[test]
    fn what_is_no_marker_says_nothing() {
        assert_eq!(generic(&[]), Replay::Unknown);
        for (name, value) in [
            ("idempotency-key", "true"),
            ("repeatability-result", "accepted"),
            ("x-idempotency-lookups", "hit"),
            ("idempotent-reprayed", "true"),
            ("x-cache", "HIT"),
            ("x-request-id", "1"),
        ] {
            assert_eq!(generic(&[(name, value)]), Replay::Unknown, "{name}");
        }
    }

    #[test]
    fn a_marker_that_stands_there_twice_says_nothing() {
        let marker = ("idempotent-replayed", "true");
        assert_eq!(generic(&[marker, marker]), Replay::Unknown);
        assert_eq!(
            generic(&[marker, ("idempotent-replayed", "false")]),
            Replay::Unknown
        );
        let presence = ("x-gcs-idempotence-request-timestamp", "1");
        assert_eq!(generic(&[presence, presence]), Replay::Unknown);
    }

    #[test]
    fn markers_that_contradict_each_other_say_nothing() {
        let replayed = ("idempotent-replayed", "true");
        assert_eq!(
            generic(&[replayed, ("x-idempotency-lookup", "miss")]),
            Replay::Unknown
        );
        assert_eq!(
            generic(&[replayed, ("x-idempotency-lookup", "hit")]),
            Replay::Replayed
        );
        assert_eq!(
            generic(&[replayed, ("idempotency-status", "ignored")]),
            Replay::Replayed
        );
    }

    #[test]
    fn a_contract_can_name_every_kind_of_marker() {
        let contract = Contract::builder("all kinds")
            .without_markers()
            .marker(MarkerRule::flag("X-Done"))
            .marker(MarkerRule::words("x-state", ["again"], ["first"]))
            .marker(MarkerRule::presence("x-first-seen"))
            .marker(MarkerRule::Status { status: 409 })
            .marker(MarkerRule::BodyFlag {
                pointer: "/meta/reused".into(),
            })
            .marker(MarkerRule::Echo {
                header: "idempotency-key".into(),
            })
            .build()
            .unwrap();
        let read = |status: u16, lines, body: &str| {
            contract.marker(status.try_into().unwrap(), &headers(lines), body.as_bytes())
        };
        assert_eq!(read(200, &[], ""), Replay::Unknown);
        assert_eq!(read(200, &[("x-done", "1")], ""), Replay::Replayed);
        assert_eq!(read(200, &[("x-state", "Again")], ""), Replay::Replayed);
        assert_eq!(read(200, &[("x-state", "first")], ""), Replay::Fresh);
        assert_eq!(
            read(200, &[("x-first-seen", "yesterday")], ""),
            Replay::Replayed
        );
        assert_eq!(read(409, &[], ""), Replay::Replayed);
        assert_eq!(
            read(200, &[], r#"{"meta":{"reused":true}}"#),
            Replay::Replayed
        );
        assert_eq!(
            read(200, &[], r#"{"meta":{"reused":false}}"#),
            Replay::Fresh
        );
        assert_eq!(
            read(200, &[], r#"{"meta":{"reused":"true"}}"#),
            Replay::Unknown
        );
        assert_eq!(read(200, &[], r#"{"meta":"#), Replay::Unknown);
        assert_eq!(
            read(200, &[("idempotency-key", "k-1")], ""),
            Replay::Unknown
        );
        assert_eq!(
            read(200, &[("idempotent-replayed", "true")], ""),
            Replay::Unknown
        );
        assert_eq!(contract.echo_header().unwrap(), "idempotency-key");
        assert!(contract.needs_body(StatusCode::OK));
    }

    #[test]
    fn a_rule_of_the_contract_goes_before_the_common_one_for_the_same_header() {
        let contract = Contract::builder("own words")
            .marker(MarkerRule::words(
                "idempotency-status",
                ["stored"],
                ["live"],
            ))
            .build()
            .unwrap();
        let read = |value| {
            contract.marker(
                StatusCode::OK,
                &headers(&[("idempotency-status", value)]),
                b"",
            )
        };
        assert_eq!(read("stored"), Replay::Replayed);
        assert_eq!(read("live"), Replay::Fresh);
        assert_eq!(read("hit"), Replay::Unknown);
    }

    #[test]
    fn a_marker_with_a_very_long_name_is_found() {
        let name: &'static str = format!("x-{}", "replayed-".repeat(20)).leak();
        let contract = Contract::builder("long")
            .marker(MarkerRule::flag(name))
            .build()
            .unwrap();
        let read = contract.marker(StatusCode::OK, &headers(&[(name, "true")]), b"");
        assert_eq!(read, Replay::Replayed);
    }
}
