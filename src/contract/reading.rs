//! Reading an answer's body: bounded, lenient, at most once.

use std::borrow::Cow;
use std::cell::OnceCell;

use http::{HeaderMap, header};
use serde_json::Value;

use super::answers::{AnswerRule, Condition};

/// The body of an answer, parsed when somebody first looks into it.
pub(super) struct Body<'b> {
    bytes: &'b [u8],
    parsed: OnceCell<Option<Value>>,
}

/// A larger body is no error document and is not parsed: its tree would take many times the memory.
const LARGEST: usize = 256 * 1024;

impl<'b> Body<'b> {
    pub(super) const fn new(bytes: &'b [u8]) -> Self {
        Self {
            bytes,
            parsed: OnceCell::new(),
        }
    }

    /// What stands at the JSON pointer; `None` also when the body is no JSON, is cut off or is
    /// nested too deeply.
    pub(super) fn pointer(&self, pointer: &str) -> Option<&Value> {
        let root = self.json()?;
        pointer.split('/').skip(1).try_fold(root, child)
    }

    fn json(&self) -> Option<&Value> {
        self.parsed
            .get_or_init(|| {
                let text = self.bytes.trim_ascii_start();
                // HTML from a gateway is the commonest error page and is turned away by its first
                // byte.
                let document = matches!(text.first(), Some(b'{' | b'['));
                if !document || text.len() > LARGEST {
                    return None;
                }
                serde_json::from_slice(text).ok()
            })
            .as_ref()
    }
}

/// One step of a JSON pointer (RFC 6901, section 4). `Value::pointer` allocates twice for each
/// step, and an error answer is asked for a hundred pointers.
fn child<'v>(value: &'v Value, token: &str) -> Option<&'v Value> {
    match value {
        Value::Object(members) if token.contains('~') => {
            members.get(&token.replace("~1", "/").replace("~0", "~"))
        }
        Value::Object(members) => members.get(token),
        // Without a sign and without leading zeros.
        Value::Array(items) if token == "0" || !token.starts_with(['+', '0']) => {
            items.get(token.parse::<usize>().ok()?)
        }
        _ => None,
    }
}

/// What stands at the pointers that were asked for last. Rules that look for different codes in the
/// same places follow each other.
#[derive(Default)]
pub(super) struct Codes<'r> {
    pointers: &'r [Cow<'static, str>],
    found: Vec<&'r Value>,
}

impl<'r> Codes<'r> {
    fn at(&mut self, pointers: &'r [Cow<'static, str>], body: &'r Body<'_>) -> &[&'r Value] {
        if self.pointers != pointers {
            self.pointers = pointers;
            self.found = pointers
                .iter()
                .filter_map(|pointer| body.pointer(pointer))
                .collect();
        }
        &self.found
    }
}

impl AnswerRule {
    pub(super) fn fits<'r>(
        &'r self,
        status: u16,
        headers: &HeaderMap,
        body: &'r Body<'_>,
        codes: &mut Codes<'r>,
    ) -> bool {
        self.statuses.contains(status)
            && match &self.when {
                Condition::Always => true,
                Condition::Code { pointers, values } => codes
                    .at(pointers, body)
                    .iter()
                    .any(|found| values.iter().any(|value| is_code(found, value))),
                Condition::ProblemType { values } => body
                    .pointer("/type")
                    .and_then(Value::as_str)
                    .is_some_and(|found| values.iter().any(|value| is_problem_type(found, value))),
                Condition::Header { name, value } => {
                    headers.get_all(name.as_ref()).iter().any(|found| {
                        value.as_ref().is_none_or(|value| {
                            found
                                .as_bytes()
                                .trim_ascii()
                                .eq_ignore_ascii_case(value.as_bytes())
                        })
                    })
                }
                Condition::ContentType(media) => is_content_type(headers, media),
            }
    }

    pub(super) fn resource(&self, body: &Body<'_>) -> Option<String> {
        match body.pointer(self.resource.as_ref()?)? {
            Value::String(name) => Some(name.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }
}

fn is_code(found: &Value, value: &str) -> bool {
    match found {
        // AWS writes the namespace of a shape before it: `com.amazonaws.sqs#QueueDoesNotExist`.
        Value::String(found) => {
            let name = found.rsplit_once('#').map(|(_, name)| name);
            same_word(found, value) || name.is_some_and(|name| same_word(name, value))
        }
        Value::Number(found) if found.is_u64() || found.is_i64() => found.to_string() == value,
        _ => false,
    }
}

fn is_problem_type(found: &str, value: &str) -> bool {
    if value.contains(':') {
        return found == value;
    }
    let last = found.trim_end_matches('/').rsplit(['/', '#', ':']).next();
    last.is_some_and(|last| same_word(last, value))
}

fn is_content_type(headers: &HeaderMap, media: &str) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .is_some_and(|found| found.trim().eq_ignore_ascii_case(media))
}

/// Equal but for case and separators.
pub(super) fn same_word(a: &str, b: &str) -> bool {
    fn letters(text: &str) -> impl Iterator<Item = u8> {
        text.bytes()
            .filter(|byte| !matches!(byte, b'-' | b'_' | b'.' | b' '))
            .map(|byte| byte.to_ascii_lowercase())
    }
    letters(a).eq(letters(b))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use proptest::prelude::*;

    use crate::contract::{AnswerRule, Condition, Contract, Meaning, Reading, Statuses};

    use super::*;

    fn read(
        contract: &Contract,
        status: u16,
        lines: &[(&'static str, &'static str)],
        body: &[u8],
    ) -> Reading {
        let headers = lines
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect();
        contract.read(StatusCode::from_u16(status).unwrap(), &headers, body)
    }

    #[track_caller]
    fn generic(status: u16, body: &str) -> Meaning {
        read(&Contract::generic(), status, &[], body.as_bytes()).meaning
    }

    #[test]
    fn a_verdict_about_repeating_is_read_from_the_headers_that_the_contract_names() {
        let (generic, stripe) = (Contract::generic(), Contract::stripe());
        let own = "x-should-retry";
        let stripes = "stripe-should-retry";
        for (contract, status, lines, verdict) in [
            (&generic, 500, vec![(own, "false")], Some(false)),
            (&generic, 400, vec![(own, " TRUE ")], Some(true)),
            (&generic, 500, vec![(own, "maybe")], None),
            (&generic, 500, vec![(own, "true"), (own, "true")], None),
            (&generic, 500, vec![(stripes, "true")], None),
            (&generic, 200, vec![(own, "true")], None),
            (&stripe, 500, vec![(stripes, "false")], Some(false)),
            (&stripe, 500, vec![(own, "true")], None),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in &lines {
                headers.append(*name, value.parse().unwrap());
            }
            let reading = contract.read(StatusCode::from_u16(status).unwrap(), &headers, b"");
            assert_eq!(
                reading.should_retry,
                verdict,
                "{} {status} {lines:?}",
                contract.name()
            );
        }
    }

    #[test]
    fn the_first_rule_that_fits_counts_and_own_rules_go_first() {
        let contract = Contract::builder("shop")
            .answer(AnswerRule {
                statuses: Statuses::one(409),
                when: Condition::Header {
                    name: "x-accepted-id".into(),
                    value: None,
                },
                means: Meaning::AlreadyDone,
                resource: None,
            })
            .answer(AnswerRule {
                statuses: Statuses::one(409),
                when: Condition::code(["/errorCode"], ["1409"]),
                means: Meaning::InProgress,
                resource: Some("/id".into()),
            })
            .build()
            .unwrap();
        let accepted = [("x-accepted-id", "")];
        let both = read(&contract, 409, &accepted, br#"{"errorCode":1409,"id":7}"#);
        assert_eq!(
            (both.meaning, both.resource.as_deref()),
            (Meaning::InProgress, Some("7"))
        );
        let one = read(&contract, 409, &accepted, br#"{"errorCode":1409.5}"#);
        assert_eq!(one.meaning, Meaning::AlreadyDone);
        let common = read(
            &contract,
            409,
            &[],
            br#"{"code":"idempotency_in_progress"}"#,
        );
        assert_eq!(common.meaning, Meaning::InProgress);
    }

    #[test]
    fn a_pointer_finds_what_the_rfc_says() {
        // The examples of RFC 6901, section 5, and steps that lead nowhere.
        let text = br#"{"foo":["bar","baz"],"":0,"a/b":1,"m~n":8," ":7,"~1":9}"#;
        let body = Body::new(text);
        for (pointer, found) in [
            ("/foo/0", Some("\"bar\"")),
            ("/foo/1", Some("\"baz\"")),
            ("/", Some("0")),
            ("/a~1b", Some("1")),
            ("/m~0n", Some("8")),
            ("/ ", Some("7")),
            ("/~01", Some("9")),
            ("/foo/00", None),
            ("/foo/+1", None),
            ("/foo/2", None),
            ("/foo/-", None),
            ("/foo/0/0", None),
            ("/bar", None),
        ] {
            let value = body.pointer(pointer).map(Value::to_string);
            assert_eq!(value.as_deref(), found, "{pointer}");
        }
    }

    // B43.
    #[test]
    fn hostile_and_broken_bodies_are_plain() {
        let deep = format!("{}{}", r#"{"error":"#.repeat(50_000), "}".repeat(50_000));
        let arrays = "[".repeat(1_000_000);
        let huge = format!(
            r#"{{"code":"idempotency_key_in_use","pad":"{}"}}"#,
            "x".repeat(LARGEST)
        );
        for body in [
            "<html>502</html>",
            r#"{"error":{"code":"idempotency_key_in_use"#,
            r#"{"error":[]}"#,
            r#"{"error":{"code":{"code":"idempotency_key_in_use"}}}"#,
            r#"["idempotency_key_in_use"]"#,
            "{\"code\":\"\u{0}\"}",
            "{}",
            "null",
            &deep,
            &arrays,
            &huge,
        ] {
            assert_eq!(generic(409, body), Meaning::Plain);
        }
        let latin = b"{\"code\":\"\xe9\"}";
        assert_eq!(
            read(&Contract::generic(), 409, &[], latin).meaning,
            Meaning::Plain
        );
    }

    proptest! {
        #[test]
        fn reading_never_panics(status in 100_u16..1000, body in proptest::collection::vec(any::<u8>(), 0..200)) {
            for contract in [Contract::generic(), Contract::ietf_draft(), Contract::stripe()] {
                prop_assert_eq!(read(&contract, status, &[], &body).meaning == Meaning::InProgress, false);
            }
        }
    }
}
