//! The answers with which a contract says what it has to say.

use bytes::Bytes;
use http::{HeaderName, StatusCode, header};
use serde_json::{Map, Value, json};

use super::answer::Answer;
use crate::contract::{Condition, Contract, MarkerRule, Meaning, Problem, Replay, problem};

/// An answer that the contract reads as `meaning`, with a status out of `preferred` where its rules leave the choice.
///
/// `ours` is the document for contracts that have no rule for this.
pub(super) fn answer(
    contract: &Contract,
    meaning: Meaning,
    preferred: &[u16],
    ours: &Problem,
) -> Answer {
    let fallback = document(ours, ours.status.unwrap_or(400));
    let means = |answer: &Answer| {
        let Ok(status) = StatusCode::from_u16(answer.status) else {
            return false;
        };
        contract.read(status, &answer.headers, &answer.body).meaning == meaning
    };
    let common = Contract::generic();
    let rules = || {
        contract
            .answers()
            .iter()
            .filter(|rule| rule.means == meaning)
    };
    // Rules that every contract shares are served best by the document of ours that they know.
    let own = rules()
        .next()
        .is_none_or(|rule| common.answers().contains(rule));
    if own && means(&fallback) {
        return fallback;
    }
    let candidates = rules().map(|rule| {
        let status = preferred
            .iter()
            .find(|status| rule.statuses.contains(**status))
            .copied()
            .unwrap_or(rule.statuses.first);
        shaped(&rule.when, status, ours)
    });
    candidates.into_iter().find(means).unwrap_or(fallback)
}

fn document(problem: &Problem, status: u16) -> Answer {
    let mut problem = problem.clone();
    problem.status = Some(status);
    Answer::new(status).with_body(problem::CONTENT_TYPE, problem.to_bytes())
}

/// An answer that satisfies the condition.
fn shaped(when: &Condition, status: u16, ours: &Problem) -> Answer {
    match when {
        Condition::ProblemType { values } => {
            let mut problem = ours.clone();
            if !values.contains(&ours.type_uri)
                && let Some(first) = values.first()
            {
                problem.type_uri = match first.contains(':') {
                    true => first.clone(),
                    false => format!("https://example.com/problems/{first}").into(),
                };
            }
            document(&problem, status)
        }
        Condition::Code { pointers, values } => {
            let pointer = pointers.first().map_or("", |pointer| pointer.as_ref());
            let value = values.first().map_or("", |value| value.as_ref());
            let body = placed(pointer, json!(value));
            Answer::new(status).with_body("application/json", to_bytes(&body))
        }
        Condition::Header { name, value } => {
            let answer = document(ours, status);
            match name.parse::<HeaderName>() {
                Ok(name) => answer.with(name, value.as_deref().unwrap_or("1")),
                Err(_) => answer,
            }
        }
        Condition::ContentType(media) => {
            let mut answer = document(ours, status);
            answer = answer.with(header::CONTENT_TYPE, media);
            answer
        }
        _ => document(ours, status),
    }
}

/// A document with one value, where the JSON pointer says.
fn placed(pointer: &str, value: Value) -> Value {
    pointer
        .split('/')
        .skip(1)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .fold(value, |inner, token| match token {
            "0" => Value::Array(vec![inner]),
            token => {
                let name = token.replace("~1", "/").replace("~0", "~");
                Value::Object(Map::from_iter([(name, inner)]))
            }
        })
}

fn to_bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

pub(super) fn in_progress(contract: &Contract, retry_after: u64) -> Answer {
    answer(
        contract,
        Meaning::InProgress,
        &[409],
        &Problem::in_progress(),
    )
    .with(header::RETRY_AFTER, &retry_after.to_string())
}

pub(super) fn mismatch(contract: &Contract) -> Answer {
    let problem = Problem::key_reused();
    answer(contract, Meaning::Mismatch, &[422, 409, 400], &problem)
}

pub(super) fn already_done(contract: &Contract) -> Answer {
    let problem = Problem::answer_not_kept();
    answer(contract, Meaning::AlreadyDone, &[409], &problem)
}

pub(super) fn key_unusable(contract: &Contract, problem: &Problem) -> Answer {
    answer(contract, Meaning::KeyUnusable, &[400, 409], problem)
}

pub(super) fn key_missing(contract: &Contract) -> Answer {
    key_unusable(contract, &Problem::key_missing())
}

pub(super) fn burned(contract: &Contract) -> Answer {
    let problem = Problem::key_invalid()
        .with_detail("The first request with this key failed. Send the operation with a new key.");
    key_unusable(contract, &problem)
}

/// The stored answer with the contract's replay marker; unmarked where the contract has none.
pub(super) fn replay(contract: &Contract, stored: &Answer) -> Answer {
    let replayed = |answer: &Answer| {
        StatusCode::from_u16(answer.status).is_ok_and(|status| {
            contract.marker(status, &answer.headers, &answer.body) == Replay::Replayed
        })
    };
    contract
        .markers()
        .iter()
        .filter_map(|rule| marked(rule, stored))
        .find(replayed)
        .unwrap_or_else(|| stored.clone())
}

fn marked(rule: &MarkerRule, stored: &Answer) -> Option<Answer> {
    let mut answer = stored.clone();
    let header = |name: &str| name.parse::<HeaderName>().ok();
    match rule {
        MarkerRule::Flag { header: name } => Some(answer.with(header(name)?, "true")),
        MarkerRule::Words {
            header: name,
            replayed,
            ..
        } => Some(answer.with(header(name)?, replayed.first()?)),
        MarkerRule::Presence { header: name } => Some(answer.with(header(name)?, "1")),
        MarkerRule::Status { status } => {
            answer.status = *status;
            Some(answer)
        }
        MarkerRule::BodyFlag { pointer } => {
            let mut body: Value = serde_json::from_slice(&answer.body).ok()?;
            match body.pointer_mut(pointer) {
                Some(place) => *place = Value::Bool(true),
                None => {
                    let (parent, name) = pointer.rsplit_once('/')?;
                    let members = body.pointer_mut(parent)?.as_object_mut()?;
                    members.insert(name.to_owned(), Value::Bool(true));
                }
            }
            answer.body = to_bytes(&body);
            Some(answer)
        }
        _ => None,
    }
}

/// The answer as it is stored: without what belongs to one connection or one moment (RFC 9110, section 7.6.1).
pub(super) fn stored(mut answer: Answer) -> Answer {
    let mut named: Vec<HeaderName> = Vec::new();
    for value in answer.headers.get_all(header::CONNECTION) {
        let names = value.to_str().unwrap_or_default().split(',');
        named.extend(names.filter_map(|name| name.trim().parse().ok()));
    }
    let never = [
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::TRAILER,
        header::DATE,
        header::SET_COOKIE,
        header::WWW_AUTHENTICATE,
        HeaderName::from_static("keep-alive"),
    ];
    never.into_iter().chain(named).for_each(|name| {
        answer.headers.remove(name);
    });
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_says(contract: &Contract, answer: &Answer, status: u16, meaning: Meaning) {
        assert_eq!(answer.status, status);
        let code = StatusCode::from_u16(status).unwrap();
        let reading = contract.read(code, &answer.headers, &answer.body);
        assert_eq!(reading.meaning, meaning);
    }

    #[test]
    fn every_ready_contract_says_what_it_has_to_say_in_its_own_words() {
        for contract in [
            Contract::generic(),
            Contract::ietf_draft(),
            Contract::stripe(),
        ] {
            assert_says(
                &contract,
                &in_progress(&contract, 1),
                409,
                Meaning::InProgress,
            );
            assert_says(&contract, &mismatch(&contract), 422, Meaning::Mismatch);
            assert_says(
                &contract,
                &key_missing(&contract),
                400,
                Meaning::KeyUnusable,
            );
            assert_says(&contract, &burned(&contract), 400, Meaning::KeyUnusable);
            let replayed = replay(&contract, &Answer::new(201));
            let marker = contract.marker(StatusCode::CREATED, &replayed.headers, b"");
            assert_eq!(marker, Replay::Replayed);
        }
        let stripe = in_progress(&Contract::stripe(), 1);
        assert_eq!(
            stripe.body,
            r#"{"error":{"code":"idempotency_key_in_use"}}"#
        );
    }

    #[test]
    fn a_contract_of_ones_own_is_played_by_its_own_rules() {
        use crate::contract::{AnswerRule, Statuses};
        let contract = Contract::builder("shop")
            .without_markers()
            .marker(MarkerRule::BodyFlag {
                pointer: "/meta/reused".into(),
            })
            .without_answers()
            .answer(AnswerRule {
                statuses: Statuses::one(423),
                when: Condition::code(["/errors/0/code"], ["locked"]),
                means: Meaning::InProgress,
                resource: None,
            })
            .build()
            .unwrap();
        let locked = in_progress(&contract, 2);
        assert_says(&contract, &locked, 423, Meaning::InProgress);
        assert_eq!(locked.body, r#"{"errors":[{"code":"locked"}]}"#);
        assert_eq!(locked.headers["retry-after"], "2");
        let first = Answer::new(200).with_body("application/json", r#"{"meta":{}}"#.into());
        assert_eq!(
            replay(&contract, &first).body,
            r#"{"meta":{"reused":true}}"#
        );
    }
}
