//! The ready contracts, as data. Each fact has its source in the contract's own documentation.

use std::time::Duration;

use http::Method;

use super::answers::{AnswerRule, Condition, Meaning, Statuses};
use super::carrier::{KeyEncoding, KeyFormat};
use super::recognised::{common_answers, common_markers};
use super::spec::{Place, Spec};
use super::window::{FailureStorage, MismatchDetection, Window};
use super::{WaitHeader, problem};

pub(super) fn generic() -> Spec {
    Spec {
        name: "generic".into(),
        carrier: Place::Header("idempotency-key".into()),
        companions: Vec::new(),
        encoding: KeyEncoding::Bare,
        format: KeyFormat::COMMON,
        methods: vec![Method::POST, Method::PATCH, Method::PUT, Method::DELETE],
        window: Window::Unknown,
        failures: FailureStorage::Unknown,
        mismatch: MismatchDetection::Unknown,
        markers: common_markers(),
        answers: common_answers(),
        conflict_is_final: false,
        wait_headers: WaitHeader::ALL.to_vec(),
        should_retry: vec!["x-should-retry".into()],
    }
}

pub(super) fn ietf_draft() -> Spec {
    let by_status = |status, means| AnswerRule {
        statuses: Statuses::one(status),
        when: Condition::ContentType(problem::CONTENT_TYPE.into()),
        means,
        resource: None,
    };
    let mut answers = common_answers();
    // Section 2.7 of the draft: 409 while the first request runs, 422 for another payload under the
    // same key.
    answers.push(by_status(409, Meaning::InProgress));
    answers.push(by_status(422, Meaning::Mismatch));
    Spec {
        name: "ietf-draft".into(),
        // Section 2.1 of the draft: an Item whose value is a String.
        encoding: KeyEncoding::StructuredString,
        methods: vec![Method::POST, Method::PATCH],
        answers,
        ..generic()
    }
}

pub(super) fn stripe() -> Spec {
    let rule = |statuses, when, means| AnswerRule {
        statuses,
        when,
        means,
        resource: None,
    };
    let mut answers = vec![
        // A lock on the object, met by a request that had begun: unlike the limiter's, this 429
        // proves nothing.
        rule(
            Statuses::one(429),
            Condition::code(["/error/code"], ["lock_timeout"]),
            Meaning::Plain,
        ),
        // The limiter stands before the idempotency layer.
        rule(Statuses::one(429), Condition::Always, Meaning::NotExecuted),
        rule(
            Statuses::one(409),
            Condition::code(["/error/code"], ["idempotency_key_in_use"]),
            Meaning::InProgress,
        ),
        rule(
            Statuses::CLIENT_ERRORS,
            Condition::code(["/error/type"], ["idempotency_error"]),
            Meaning::Mismatch,
        ),
    ];
    answers.extend(common_answers());
    Spec {
        name: "stripe".into(),
        format: KeyFormat {
            source: "docs.stripe.com/api/idempotent_requests".into(),
            ..KeyFormat::COMMON
        },
        methods: vec![Method::POST, Method::DELETE],
        window: Window::AtLeast(Duration::from_secs(24 * 60 * 60)),
        failures: FailureStorage::Everything,
        mismatch: MismatchDetection::Detected,
        answers,
        should_retry: vec!["stripe-should-retry".into()],
        ..generic()
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::contract::problem::Problem;
    use crate::contract::{Contract, Reading};

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

    #[test]
    fn the_generic_contract_recognises_our_own_documents() {
        for (problem, meaning) in [
            (Problem::key_missing(), Meaning::KeyUnusable),
            (Problem::key_invalid(), Meaning::KeyUnusable),
            (Problem::several_keys(), Meaning::KeyUnusable),
            (Problem::in_progress(), Meaning::InProgress),
            (Problem::key_reused(), Meaning::Mismatch),
            (Problem::answer_not_kept(), Meaning::AlreadyDone),
            (Problem::body_too_large(), Meaning::Plain),
            (Problem::store_unavailable(), Meaning::NotExecuted),
        ] {
            let lines = [("content-type", "application/problem+json")];
            let body = problem.to_bytes();
            let reading =
                |contract| read(&contract, problem.status.unwrap(), &lines, &body).meaning;
            assert_eq!(reading(Contract::generic()), meaning, "{problem:?}");
            assert_eq!(reading(Contract::ietf_draft()), meaning, "{problem:?}");
        }
    }

    #[test]
    fn the_drafts_status_counts_only_with_a_problem_document() {
        let draft = Contract::ietf_draft();
        let body = br#"{"type":"https://developer.example.com/idempotency"}"#;
        let problem = [("content-type", "Application/Problem+JSON; charset=utf-8")];
        let meaning = |status, lines| read(&draft, status, lines, body).meaning;
        assert_eq!(meaning(409, &problem), Meaning::InProgress);
        assert_eq!(meaning(422, &problem), Meaning::Mismatch);
        assert_eq!(meaning(400, &problem), Meaning::Plain);
        assert_eq!(
            meaning(409, &[("content-type", "application/json")]),
            Meaning::Plain
        );
        assert_eq!(meaning(409, &[]), Meaning::Plain);
        assert_eq!(
            read(&Contract::generic(), 409, &problem, body).meaning,
            Meaning::Plain
        );
    }

    #[test]
    fn the_stripe_contract_reads_stripes_answers() {
        let stripe = Contract::stripe();
        let meaning = |status, body: &str| read(&stripe, status, &[], body.as_bytes()).meaning;
        assert_eq!(
            meaning(409, r#"{"error":{"code":"idempotency_key_in_use"}}"#),
            Meaning::InProgress
        );
        assert_eq!(
            meaning(400, r#"{"error":{"type":"idempotency_error"}}"#),
            Meaning::Mismatch
        );
        assert_eq!(
            meaning(429, r#"{"error":{"code":"rate_limit"}}"#),
            Meaning::NotExecuted
        );
        assert_eq!(meaning(429, ""), Meaning::NotExecuted);
        assert_eq!(
            meaning(429, r#"{"error":{"code":"lock_timeout"}}"#),
            Meaning::Plain
        );
        assert_eq!(
            meaning(409, r#"{"error":{"code":"lock_timeout"}}"#),
            Meaning::Plain
        );
        assert_eq!(
            meaning(402, r#"{"error":{"code":"card_declined"}}"#),
            Meaning::Plain
        );
    }

    #[test]
    fn the_body_of_a_success_is_never_needed() {
        for contract in [
            Contract::generic(),
            Contract::ietf_draft(),
            Contract::stripe(),
        ] {
            for status in 100..600 {
                let needs = contract.needs_body(StatusCode::from_u16(status).unwrap());
                assert_eq!(needs, status >= 400, "{status}");
            }
            assert!(!contract.needs_body(StatusCode::from_u16(999).unwrap()));
        }
    }
}
