//! What is recognised wherever it is seen: the spellings of the replay marker and the codes of
//! errors.

use super::answers::{AnswerRule, Condition, Meaning, Statuses};
use super::problem;
use super::replay::MarkerRule;

/// All spellings seen on deployed servers, and their neighbours: with and without `x-`,
/// `idempotent` and `idempotency`, `replay` and `replayed`, with and without the inner hyphen.
const FLAGS: &[&str] = &[
    "idempotent-replayed",
    "idempotency-replayed",
    "idempotent-replay",
    "idempotency-replay",
    "idempotentreplayed",
    "idempotencyreplayed",
    "idempotentreplay",
    "idempotencyreplay",
    "x-idempotent-replayed",
    "x-idempotency-replayed",
    "x-idempotent-replay",
    "x-idempotency-replay",
    "x-idempotentreplayed",
    "x-idempotencyreplayed",
    "x-idempotentreplay",
    "x-idempotencyreplay",
    "idempotency-cached",
    "x-idempotency-cached",
    "idempotency-cache-hit",
    "x-idempotency-cache-hit",
    "chargebee-idempotency-replayed",
    "request-idempotency",
];

/// Headers with the words of caches and of states.
const WORDS: &[&str] = &[
    "idempotency-status",
    "x-idempotency-status",
    "idempotency-cache",
    "x-idempotency-cache",
    "x-idempotency-lookup",
];

pub(super) fn common_markers() -> Vec<MarkerRule> {
    let flags = FLAGS.iter().map(|name| MarkerRule::flag(*name));
    let words = WORDS.iter().map(|name| {
        MarkerRule::words(
            *name,
            ["hit", "replayed", "duplicate"],
            ["miss", "processed", "false", "0", "?0"],
        )
    });
    // Worldline: the time of the first request, on every later answer and on no first one.
    let presence = MarkerRule::presence("x-gcs-idempotence-request-timestamp");
    flags.chain(words).chain([presence]).collect()
}

/// Where error bodies carry their machine-readable code.
const CODE_POINTERS: [&str; 20] = [
    "/code",
    "/type",
    "/name",
    "/reason",
    "/error",
    "/error_code",
    "/error_type",
    "/errorCode",
    "/errorType",
    "/error/code",
    "/error/type",
    "/error/reason",
    "/error/errors/0/reason",
    "/errors/0/code",
    "/errors/0/type",
    "/errors/0/reason",
    "/details/0/issue",
    // AWS in JSON, AWS and Alibaba in their older form.
    "/__type",
    "/Code",
    "/Error/Code",
];

const IN_PROGRESS: [&str; 7] = [
    "idempotency_key_in_use",
    "previous_request_in_progress",
    "concurrent_idempotent_requests",
    "idempotency_request_in_progress",
    "idempotent_request_in_progress",
    "idempotency_in_progress",
    "err_idempotency_key_in_progress",
];

const MISMATCH: [&str; 12] = [
    "idempotency_error",
    "idempotent_parameter_mismatch",
    "idempotent_parameter_mismatch_exception",
    "paypal_request_id_previously_used",
    "idempotency_key_reused",
    "err_idempotency_key_reused",
    "invalid_idempotent_request",
    "idempotency_key_mismatch",
    "idempotency_conflict",
    "idempotent_request_error",
    "duplicate_idempotency_key",
    "idempotency_key_conflict",
];

const ALREADY_DONE: [&str; 2] = [
    "transaction_request_idempotency_key_already_exists",
    "idempotency_replay_unavailable",
];

const KEY_UNUSABLE: [&str; 5] = [
    "invalid_idempotency_key",
    "missing_idempotency_key",
    "paypal_request_id_required",
    "ec_qldb_occ_error_retry",
    "idempotency_key_expired",
];

/// Codes and problem types that mean one thing wherever they are seen. Ambiguous ones are left out:
/// `already_exists` is "in progress" at one provider and a business conflict at many.
pub(super) fn common_answers() -> Vec<AnswerRule> {
    let mut rules = Vec::new();
    let mut add = |statuses, when, means, resource: Option<&'static str>| {
        rules.push(AnswerRule {
            statuses,
            when,
            means,
            resource: resource.map(Into::into),
        });
    };
    let code = |values: &[&'static str]| Condition::code(CODE_POINTERS, values.iter().copied());
    let types = |own: &[&'static str], words: &[&'static str]| {
        Condition::problem_type(own.iter().chain(words).copied())
    };
    let client_errors = Statuses::CLIENT_ERRORS;

    // In progress goes first: an error may have the type of all idempotency errors and the code of
    // this one.
    add(
        Statuses::ERRORS,
        types(&[problem::IN_PROGRESS], &IN_PROGRESS),
        Meaning::InProgress,
        None,
    );
    add(
        Statuses::ERRORS,
        code(&IN_PROGRESS),
        Meaning::InProgress,
        None,
    );

    add(
        client_errors,
        types(&[problem::ANSWER_NOT_KEPT], &ALREADY_DONE),
        Meaning::AlreadyDone,
        None,
    );
    add(
        client_errors,
        code(&ALREADY_DONE),
        Meaning::AlreadyDone,
        None,
    );
    // GoCardless: a repeated success is an error that names the resource.
    add(
        client_errors,
        code(&["idempotent_creation_conflict"]),
        Meaning::AlreadyDone,
        Some("/error/errors/0/links/conflicting_resource_id"),
    );

    // Increase: another request under the key; the first one's resource is named.
    add(
        client_errors,
        code(&["idempotency_key_already_used_error"]),
        Meaning::Mismatch,
        Some("/resource_id"),
    );
    add(
        client_errors,
        types(&[problem::KEY_REUSED], &MISMATCH),
        Meaning::Mismatch,
        None,
    );
    add(client_errors, code(&MISMATCH), Meaning::Mismatch, None);

    let own = [
        problem::KEY_MISSING,
        problem::KEY_INVALID,
        problem::SEVERAL_KEYS,
    ];
    add(
        client_errors,
        types(&own, &KEY_UNUSABLE),
        Meaning::KeyUnusable,
        None,
    );
    add(
        client_errors,
        code(&KEY_UNUSABLE),
        Meaning::KeyUnusable,
        None,
    );

    // The store is down and the server refuses rather than run unprotected.
    add(
        Statuses::one(503),
        types(&[problem::STORE_UNAVAILABLE], &["idempotency_unavailable"]),
        Meaning::NotExecuted,
        None,
    );
    rules
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};

    use super::*;
    use crate::contract::{Contract, Reading};

    fn read(status: u16, body: &str) -> Reading {
        let status = StatusCode::from_u16(status).unwrap();
        Contract::generic().read(status, &HeaderMap::new(), body.as_bytes())
    }

    // B39, B41.
    #[test]
    fn the_generic_contract_recognises_what_providers_answer() {
        use Meaning::{AlreadyDone, InProgress, KeyUnusable, Mismatch, NotExecuted, Plain};
        for (status, body, meaning) in [
            (
                409,
                r#"{"error":{"code":"idempotency_key_in_use","type":"idempotency_error"}}"#,
                InProgress,
            ),
            (
                400,
                r#"{"error":{"type":"idempotency_error","message":"Keys for ..."}}"#,
                Mismatch,
            ),
            (
                409,
                r#"{"name":"RESOURCE_CONFLICT","details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}]}"#,
                InProgress,
            ),
            (
                409,
                r#"{"statusCode":409,"name":"concurrent_idempotent_requests"}"#,
                InProgress,
            ),
            (
                409,
                r#"{"statusCode":409,"name":"invalid_idempotent_request"}"#,
                Mismatch,
            ),
            (
                400,
                r#"{"statusCode":400,"name":"invalid_idempotency_key"}"#,
                KeyUnusable,
            ),
            (
                409,
                r#"{"error":{"type":"idempotency_request_in_progress"}}"#,
                InProgress,
            ),
            (
                400,
                r#"{"error":{"type":"idempotency_key_mismatch"}}"#,
                Mismatch,
            ),
            (
                409,
                r#"{"error":"IdempotentRequestInProgress"}"#,
                InProgress,
            ),
            (400, r#"{"error":"IdempotentRequestError"}"#, Mismatch),
            (422, r#"{"errorType":"idempotency_error"}"#, Mismatch),
            (
                400,
                r#"{"errors":[{"code":"IDEMPOTENCY_KEY_REUSED"}]}"#,
                Mismatch,
            ),
            (
                400,
                r#"{"__type":"IdempotentParameterMismatchException"}"#,
                Mismatch,
            ),
            (400, r#"{"Code":"IdempotentParameterMismatch"}"#, Mismatch),
            (
                409,
                r#"{"type":"idempotency_key_already_used_error","resource_id":"a_1"}"#,
                Mismatch,
            ),
            (409, r#"{"code":"IDEMPOTENCY_CONFLICT"}"#, Mismatch),
            (
                409,
                r#"{"code":"idempotency_replay_unavailable"}"#,
                AlreadyDone,
            ),
            (409, r#"{"code":"EC_QLDB_OCC_ERROR_RETRY"}"#, KeyUnusable),
            (
                409,
                r#"{"type":"https://api.example.com/errors/idempotency-request-in-progress"}"#,
                InProgress,
            ),
            (
                409,
                r#"{"type":"urn:problem:idempotency_conflict"}"#,
                Mismatch,
            ),
            (
                400,
                r#"{"type":"https://api.example.com/errors/missing_idempotency_key"}"#,
                KeyUnusable,
            ),
            (
                503,
                r#"{"type":"https://api.example.com/idempotency-unavailable"}"#,
                NotExecuted,
            ),
            // B38, B42: business conflicts and prose have no meaning of their own.
            (409, r#"{"error":"email already registered"}"#, Plain),
            (409, r#"{"errorType":"already_exists"}"#, Plain),
            (429, r#"{"error":{"code":"rate_limit"}}"#, Plain),
            (
                400,
                r#"{"error":{"message":"Keys for idempotent requests can only be used with the same parameters"}}"#,
                Plain,
            ),
            (409, r#"{"type":"about:blank","title":"Conflict"}"#, Plain),
            (409, "", Plain),
            (200, r#"{"code":"idempotency_key_in_use"}"#, Plain),
        ] {
            assert_eq!(read(status, body).meaning, meaning, "{status} {body}");
        }
    }

    #[test]
    fn the_existing_resource_is_handed_over() {
        let gocardless = r#"{"error":{"type":"invalid_state","code":409,"errors":[
            {"reason":"idempotent_creation_conflict","links":{"conflicting_resource_id":"PM1"}}]}}"#;
        let reading = read(409, gocardless);
        assert_eq!(reading.meaning, Meaning::AlreadyDone);
        assert_eq!(reading.resource.as_deref(), Some("PM1"));

        let increase = r#"{"type":"idempotency_key_already_used_error","resource_id":"account_1"}"#;
        let reading = read(409, increase);
        assert_eq!(reading.meaning, Meaning::Mismatch);
        assert_eq!(reading.resource.as_deref(), Some("account_1"));
    }
}
