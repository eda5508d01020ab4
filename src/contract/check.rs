//! Whether the parts of a contract are good, with an error that names the one that is not.

use std::borrow::Cow;

use http::HeaderName;

use super::answers::{AnswerRule, Condition, Statuses};
use super::carrier::{Carrier, Companion, KeyAlphabet, KeyFormat, UuidForm};
use super::replay::{MarkerRule, ambiguous};
use super::spec::Place;
use super::{ContractError, IdempotencyKey};

impl Place {
    pub(super) fn check(&self) -> Result<Carrier, ContractError> {
        let present = |name: &Cow<'static, str>, what| match name.is_empty() {
            true => Err(ContractError::Missing { what }),
            false => Ok(name.clone()),
        };
        match self {
            Self::Header(name) => header_name("the carrier of the key", name).map(Carrier::Header),
            Self::JsonPointer(pointer) => {
                check_pointer("the key", pointer)?;
                Ok(Carrier::JsonPointer(pointer.clone()))
            }
            Self::FormField(name) => {
                present(name, "the name of the form field").map(Carrier::FormField)
            }
            Self::QueryParameter(name) => {
                present(name, "the name of the query parameter").map(Carrier::QueryParameter)
            }
        }
    }
}

/// Headers that frame or authorise the message; a key in one of them breaks the request or shows up
/// where it must not.
const TAKEN: &[&str] = &[
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) fn header_name(what: &'static str, name: &str) -> Result<HeaderName, ContractError> {
    match name.parse::<HeaderName>() {
        Ok(header) if !TAKEN.contains(&header.as_str()) => Ok(header),
        _ => Err(ContractError::HeaderName {
            what,
            name: name.to_owned(),
        }),
    }
}

/// RFC 6901, section 3; the empty pointer, which is the whole document, names no value of use here.
fn check_pointer(what: &'static str, pointer: &str) -> Result<(), ContractError> {
    let escaped = pointer
        .split('~')
        .skip(1)
        .all(|rest| rest.starts_with(['0', '1']));
    if pointer.starts_with('/') && escaped {
        return Ok(());
    }
    let pointer = pointer.to_owned();
    Err(ContractError::Pointer { what, pointer })
}

pub(super) fn check_format(format: &KeyFormat) -> Result<(), ContractError> {
    let (min, max) = (format.min, format.max);
    if min < 1 || max < min || max > IdempotencyKey::MAX_LENGTH {
        return Err(ContractError::KeyLengths { min, max });
    }
    match &format.alphabet {
        KeyAlphabet::VisibleAscii => Ok(()),
        KeyAlphabet::AlphanumericAnd(more) if more.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(())
        }
        KeyAlphabet::AlphanumericAnd(more) => {
            let characters = more.to_string();
            Err(ContractError::Alphabet { characters })
        }
        KeyAlphabet::Uuid {
            version: Some(version),
        } if !(1..=8).contains(version) => Err(ContractError::UuidVersion { version: *version }),
        KeyAlphabet::Uuid { .. } => {
            let length = match format.uuid {
                UuidForm::Hyphenated => uuid::fmt::Hyphenated::LENGTH,
                UuidForm::Simple => uuid::fmt::Simple::LENGTH,
            };
            match (min..=max).contains(&length) {
                true => Ok(()),
                false => Err(ContractError::UuidLength { length, min, max }),
            }
        }
    }
}

pub(super) fn check_companions(
    companions: &[Companion],
    carrier: &Carrier,
) -> Result<Box<[(HeaderName, Companion)]>, ContractError> {
    const WHAT: &str = "a companion of the key";
    let mut checked: Vec<(HeaderName, Companion)> = Vec::new();
    for companion in companions {
        let header = header_name(WHAT, companion.header())?;
        let taken = *carrier == Carrier::Header(header.clone())
            || checked.iter().any(|(other, _)| *other == header);
        if taken {
            let name = header.to_string();
            return Err(ContractError::HeaderName { what: WHAT, name });
        }
        if matches!(companion, Companion::ExpiresAt { keep, .. } if keep.is_zero()) {
            return Err(ContractError::Zero {
                what: "the time for which the key is to be kept",
            });
        }
        checked.push((header, companion.clone()));
    }
    Ok(checked.into())
}

pub(super) fn check_marker(rule: &MarkerRule) -> Result<(), ContractError> {
    if let Some(name) = rule.header() {
        header_name("a replay marker", name)?;
    }
    match rule {
        MarkerRule::Words {
            header,
            replayed,
            fresh,
        } => {
            if replayed
                .iter()
                .chain(fresh.iter())
                .all(|word| word.trim().is_empty())
            {
                return Err(ContractError::Missing {
                    what: "words for a replay marker with words",
                });
            }
            match ambiguous(replayed, fresh) {
                None => Ok(()),
                Some(word) => Err(ContractError::AmbiguousWord {
                    header: header.to_string(),
                    word: word.to_owned(),
                }),
            }
        }
        MarkerRule::Status { status } => check_statuses(Statuses::one(*status)),
        MarkerRule::BodyFlag { pointer } => check_pointer("a replay marker", pointer),
        MarkerRule::Flag { .. } | MarkerRule::Presence { .. } | MarkerRule::Echo { .. } => Ok(()),
    }
}

pub(super) fn check_answer(rule: &AnswerRule) -> Result<(), ContractError> {
    check_statuses(rule.statuses)?;
    if let Some(pointer) = &rule.resource {
        check_pointer("a resource", pointer)?;
    }
    match &rule.when {
        Condition::Always => Ok(()),
        Condition::Code { pointers, values } => {
            if pointers.is_empty() || values.is_empty() {
                return Err(ContractError::Missing {
                    what: "pointers and values for a code",
                });
            }
            pointers
                .iter()
                .try_for_each(|pointer| check_pointer("a code", pointer))
        }
        Condition::ProblemType { values } if values.is_empty() => Err(ContractError::Missing {
            what: "types for a problem document",
        }),
        Condition::ProblemType { .. } => Ok(()),
        Condition::Header { name, .. } => match name.parse::<HeaderName>() {
            Ok(_) => Ok(()),
            Err(_) => Err(ContractError::HeaderName {
                what: "a condition",
                name: name.to_string(),
            }),
        },
        Condition::ContentType(media) if media.trim().is_empty() => Err(ContractError::Missing {
            what: "a content type for a condition on it",
        }),
        Condition::ContentType(_) => Ok(()),
    }
}

fn check_statuses(statuses: Statuses) -> Result<(), ContractError> {
    let Statuses { first, last } = statuses;
    if 100 <= first && first <= last && last <= 599 {
        return Ok(());
    }
    Err(ContractError::Statuses { first, last })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;

    use super::*;
    use crate::contract::{Contract, ContractBuilder, KeyEncoding, Meaning, Window};

    fn format(min: usize, max: usize, alphabet: KeyAlphabet) -> KeyFormat {
        KeyFormat {
            min,
            max,
            alphabet,
            ..KeyFormat::COMMON
        }
    }

    fn rule(statuses: Statuses, when: Condition, resource: Option<&'static str>) -> AnswerRule {
        let means = Meaning::Plain;
        let resource = resource.map(Into::into);
        AnswerRule {
            statuses,
            when,
            means,
            resource,
        }
    }

    #[test]
    fn every_bad_value_is_an_error_that_names_it() {
        let base = || Contract::builder("shop");
        let companion = |header: &'static str| Companion::FirstSent {
            header: header.into(),
        };
        let uuid = |version| KeyAlphabet::Uuid { version };
        let none: [&str; 0] = [];
        let all = Statuses::ERRORS;
        let cases: Vec<(ContractBuilder, &str)> = vec![
            (Contract::builder(""), "a contract needs a name"),
            (
                base().header(""),
                "`` is not a header name that can serve as the carrier of the key",
            ),
            (
                base().header("My Key"),
                "`My Key` is not a header name that can serve as the carrier of the key",
            ),
            (
                base().header("Content-Length"),
                "`Content-Length` is not a header name that can serve as the carrier of the key",
            ),
            (
                base().json_pointer("key"),
                "`key` is not a JSON pointer for the key: it starts with `/` and escapes `~` as `~0` (RFC 6901)",
            ),
            (
                base().json_pointer(""),
                "`` is not a JSON pointer for the key: it starts with `/` and escapes `~` as `~0` (RFC 6901)",
            ),
            (
                base().json_pointer("/a~b"),
                "`/a~b` is not a JSON pointer for the key: it starts with `/` and escapes `~` as `~0` (RFC 6901)",
            ),
            (
                base().form_field(""),
                "a contract needs the name of the form field",
            ),
            (
                base().query_parameter(""),
                "a contract needs the name of the query parameter",
            ),
            (
                base()
                    .query_parameter("k")
                    .encoding(KeyEncoding::StructuredString),
                "a key that does not travel in a header cannot be a string of structured fields",
            ),
            (
                base().companion(companion("a b")),
                "`a b` is not a header name that can serve as a companion of the key",
            ),
            (
                base().companion(companion("Idempotency-Key")),
                "`idempotency-key` is not a header name that can serve as a companion of the key",
            ),
            (
                base()
                    .companion(companion("x-t"))
                    .companion(companion("X-T")),
                "`x-t` is not a header name that can serve as a companion of the key",
            ),
            (
                base().companion(Companion::ExpiresAt {
                    header: "x-t".into(),
                    keep: Duration::ZERO,
                }),
                "the time for which the key is to be kept is zero",
            ),
            (base().methods([]), "a contract needs at least one method"),
            (
                base().methods([Method::POST, Method::GET]),
                "the method GET is safe: a contract cannot honour a key on it",
            ),
            (
                base().window(Window::Exactly(Duration::ZERO)),
                "the window is zero",
            ),
            (
                base().key_format(format(0, 255, KeyAlphabet::VisibleAscii)),
                "key lengths from 0 to 255 are not within 1 to 255, lowest first",
            ),
            (
                base().key_format(format(9, 8, KeyAlphabet::VisibleAscii)),
                "key lengths from 9 to 8 are not within 1 to 255, lowest first",
            ),
            (
                base().key_format(format(1, 256, KeyAlphabet::VisibleAscii)),
                "key lengths from 1 to 256 are not within 1 to 255, lowest first",
            ),
            (
                base().key_format(format(1, 255, KeyAlphabet::AlphanumericAnd("- é".into()))),
                "the key characters `- é` are not all visible ASCII",
            ),
            (
                base().key_format(format(1, 255, uuid(Some(9)))),
                "there is no UUID version 9",
            ),
            (
                base().key_format(format(1, 32, uuid(Some(4)))),
                "a UUID of 36 characters does not fit key lengths from 1 to 32",
            ),
            (
                base().marker(MarkerRule::flag("a:b")),
                "`a:b` is not a header name that can serve as a replay marker",
            ),
            (
                base().marker(MarkerRule::words("x-s", none, none)),
                "a contract needs words for a replay marker with words",
            ),
            (
                base().marker(MarkerRule::words("x-s", ["hit"], ["HIT"])),
                "the replay marker `x-s` has `hit` both for replayed and for fresh",
            ),
            (
                base().marker(MarkerRule::Status { status: 600 }),
                "statuses from 600 to 600 are not within 100 to 599, lowest first",
            ),
            (
                base().marker(MarkerRule::BodyFlag {
                    pointer: "reused".into(),
                }),
                "`reused` is not a JSON pointer for a replay marker: it starts with `/` and escapes `~` as `~0` (RFC 6901)",
            ),
            (
                base().answer(rule(
                    Statuses {
                        first: 499,
                        last: 400,
                    },
                    Condition::Always,
                    None,
                )),
                "statuses from 499 to 400 are not within 100 to 599, lowest first",
            ),
            (
                base().answer(rule(all, Condition::Always, Some("id"))),
                "`id` is not a JSON pointer for a resource: it starts with `/` and escapes `~` as `~0` (RFC 6901)",
            ),
            (
                base().answer(rule(all, Condition::code(["code"], ["x"]), None)),
                "`code` is not a JSON pointer for a code: it starts with `/` and escapes `~` as `~0` (RFC 6901)",
            ),
            (
                base().answer(rule(all, Condition::code(["/code"], none), None)),
                "a contract needs pointers and values for a code",
            ),
            (
                base().answer(rule(all, Condition::problem_type(none), None)),
                "a contract needs types for a problem document",
            ),
            (
                base().answer(rule(all, Condition::ContentType(" ".into()), None)),
                "a contract needs a content type for a condition on it",
            ),
            (
                base().answer(rule(
                    all,
                    Condition::Header {
                        name: "a b".into(),
                        value: None,
                    },
                    None,
                )),
                "`a b` is not a header name that can serve as a condition",
            ),
            (
                base().should_retry_headers(["x y"]),
                "`x y` is not a header name that can serve as a verdict about repeating",
            ),
        ];
        for (builder, message) in cases {
            let error = builder.build().expect_err(message);
            assert_eq!(error.to_string(), message);
        }
    }
}
