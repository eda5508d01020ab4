//! Clients that break the contract on purpose. Each is caught by name, and the whole report is what it should be.

use idempotency::Contract;
use idempotency::testing::Fault::{CommitThenDropReply, Pass, Status};
use idempotency::testing::{ContractServer, ContractServerBuilder, Fault, Faults, Rule};
use wiremock::ResponseTemplate;
use wiremock::matchers::method;

use super::payments;
use super::raw::Attempt;

fn stopped() -> ContractServerBuilder {
    ContractServer::builder().stopped_clock()
}

fn attempt(server: &ContractServer) -> Attempt {
    Attempt::post(server.address(), "/payments")
}

#[track_caller]
fn assert_report(server: &ContractServer, expected: &str) {
    let report = server.verify().unwrap_err().to_string();
    assert_eq!(report, expected.trim_matches('\n'));
}

// B01.
#[tokio::test]
async fn a_new_key_per_attempt_is_caught() {
    let server = payments(stopped(), [Status(503), Pass]).await;
    attempt(&server).key("k-1").send();
    attempt(&server).key("k-2").send();
    assert_report(
        &server,
        r#"
the client breaks the contract `generic`: 1 finding

  1. a new key per attempt: POST /payments, key #ab846092
     expected: the key #7c35c5a1 again, since attempt 1 had no final answer
     came:     the same request with the new key #ab846092

POST /payments, key #7c35c5a1: not executed
  attempt 1      +0 ms  answered 503 before any work
POST /payments, key #ab846092: not executed
  attempt 1      +0 ms  answered 503 before any work"#,
    );
}

// B04, B05.
#[tokio::test]
async fn a_lost_answer_reported_as_a_failure_and_a_new_key_is_caught() {
    let server = payments(stopped(), [CommitThenDropReply]).await;
    assert_eq!(attempt(&server).key("k-1").status(), 0);
    assert_eq!(attempt(&server).key("k-2").status(), 0);
    assert_eq!(attempt(&server).key("k-2").status(), 201);
    assert_report(
        &server,
        r#"
the client breaks the contract `generic`: 1 finding

  1. a new key after a lost answer: POST /payments, key #ab846092
     expected: the key #7c35c5a1 again, since an answer was lost
     came:     the same request with the new key #ab846092; it ran a second time

POST /payments, key #7c35c5a1: executed once
  attempt 1      +0 ms  ran, 201; answer lost: the connection was closed before it
POST /payments, key #ab846092: executed once
  attempt 1      +0 ms  ran, 201; answer lost: the connection was closed before it
  attempt 2      +0 ms  replayed, 201
"#,
    );
}

// B13.
#[tokio::test]
async fn no_key_on_the_first_attempt_is_caught() {
    let server = payments(stopped().require_key(false), [CommitThenDropReply]).await;
    attempt(&server).send();
    server.advance(std::time::Duration::from_millis(20));
    attempt(&server).key("k-1").send();
    attempt(&server).key("k-1").send();
    assert_report(
        &server,
        r#"
the client breaks the contract `generic`: 1 finding

  1. no key on the first attempt: POST /payments, key #7c35c5a1
     expected: the key on every attempt, the first included
     came:     attempt 1 without a key, attempt 2 with one

POST /payments, key #7c35c5a1: executed 2 times
  attempt 1      +0 ms  ran, 201; answer lost: the connection was closed before it; no key
  attempt 2     +20 ms  ran, 201; answer lost: the connection was closed before it
  attempt 3     +20 ms  replayed, 201
"#,
    );
}

#[tokio::test]
async fn no_key_at_all_is_caught() {
    let server = payments(stopped(), Faults::none()).await;
    assert_eq!(attempt(&server).status(), 400);
    assert_report(
        &server,
        r#"
the client breaks the contract `generic`: 1 finding

  1. no key: POST /payments
     expected: an idempotency key
     came:     attempt 1 without one

POST /payments, no key: not executed
  attempt 1      +0 ms  refused: no key, 400
"#,
    );
}

// B14, B15, B18, B19.
#[tokio::test]
async fn a_changed_body_is_caught() {
    let server = payments(stopped(), [CommitThenDropReply]).await;
    attempt(&server).key("k-1").send();
    let came = attempt(&server).key("k-1").body("").send();
    assert_eq!(came.status(), 422);
    assert_report(
        &server,
        r#"
the client breaks the contract `generic`: 1 finding

  1. a changed body: POST /payments, key #7c35c5a1
     expected: the body of attempt 1 on every attempt
     came:     another body on attempt 2

POST /payments, key #7c35c5a1: executed once
  attempt 1      +0 ms  ran, 201; answer lost: the connection was closed before it
  attempt 2      +0 ms  refused: another request under this key, 422
"#,
    );
}

#[tokio::test]
async fn a_changed_query_is_caught() {
    let server = payments(stopped(), [CommitThenDropReply]).await;
    let with_query =
        |query: &str| Attempt::post(server.address(), &format!("/payments?{query}")).key("k-1");
    with_query("attempt=1").send();
    assert_eq!(with_query("attempt=2").status(), 422);
    assert_report(
        &server,
        r#"
the client breaks the contract `generic`: 1 finding

  1. a changed query: POST /payments, key #7c35c5a1
     expected: the query of attempt 1 on every attempt
     came:     another query on attempt 2

POST /payments, key #7c35c5a1: executed once
  attempt 1      +0 ms  ran, 201; answer lost: the connection was closed before it
  attempt 2      +0 ms  refused: another request under this key, 422
"#,
    );
}

// B06, B08.
#[tokio::test]
async fn the_key_twice_is_caught() {
    let server = payments(stopped(), Faults::none()).await;
    let came = attempt(&server).key("k-1").key("k-1").send();
    assert_eq!(came.status(), 400);
    assert_eq!(
        came.header("content-type"),
        Some("application/problem+json")
    );
    assert_report(
        &server,
        r#"
the client breaks the contract `generic`: 1 finding

  1. the key twice: POST /payments
     expected: one key line
     came:     2 of them on attempt 1

POST /payments, several keys: not executed
  attempt 1      +0 ms  refused: no usable key, 400; 2 key lines
"#,
    );
}

// B111.
#[tokio::test]
async fn a_key_quoted_once_and_bare_once_is_caught() {
    let server = payments(stopped(), [CommitThenDropReply]).await;
    attempt(&server).key("k-1").send();
    attempt(&server).key("\"k-1\"").send();
    assert_report(
        &server,
        r#"
the client breaks the contract `generic`: 1 finding

  1. quoted once and bare once: POST /payments, key #7c35c5a1
     expected: the key in the same bytes on every attempt
     came:     bare on attempt 1, quoted on attempt 2

POST /payments, key #7c35c5a1: executed 2 times
  attempt 1      +0 ms  ran, 201; answer lost: the connection was closed before it
  attempt 2      +0 ms  ran, 201; key quoted
"#,
    );
}

// B38, B41.
#[tokio::test]
async fn a_business_conflict_retried_for_ever_is_caught() {
    let server = stopped().start().await;
    let exists = ResponseTemplate::new(409).set_body_string("already registered");
    server
        .operation(method("POST"))
        .respond_with(exists)
        .mount();
    for _ in 0..5 {
        assert_eq!(attempt(&server).key("k-1").status(), 409);
    }
    assert_report(
        &server,
        r#"
the client breaks the contract `generic`: 1 finding

  1. a business conflict retried: POST /payments, key #7c35c5a1
     expected: no attempt after the conflict 409 to attempt 2
     came:     3 more attempts

POST /payments, key #7c35c5a1: executed once
  attempt 1      +0 ms  ran, 409
  attempt 2      +0 ms  replayed, 409
  attempt 3      +0 ms  replayed, 409
  attempt 4      +0 ms  replayed, 409
  attempt 5      +0 ms  replayed, 409
"#,
    );
}

#[tokio::test]
async fn a_conflict_that_is_never_marked_is_patience_only_so_often() {
    let builder = stopped().repeats(idempotency::testing::Repeats::Unmarked);
    let server = builder.start().await;
    let exists = ResponseTemplate::new(409);
    server
        .operation(method("POST"))
        .respond_with(exists)
        .mount();
    for _ in 0..11 {
        attempt(&server).key("k-1").send();
    }
    assert!(!server.verify().unwrap().broke(Rule::ConflictRetried));
    attempt(&server).key("k-1").send();
    assert!(server.verify().unwrap_err().broke(Rule::ConflictRetried));
}

// B53, B54.
#[tokio::test]
async fn a_retry_before_retry_after_is_caught() {
    let busy = Fault::answer(503).with_header("retry-after", "2").times(2);
    let server = payments(stopped(), [busy]).await;
    attempt(&server).key("k-1").send();
    server.advance(std::time::Duration::from_millis(1900));
    attempt(&server).key("k-1").send();
    server.advance(std::time::Duration::from_millis(2000));
    attempt(&server).key("k-1").send();
    assert_report(
        &server,
        r#"
the client breaks the contract `generic`: 1 finding

  1. a retry before Retry-After: POST /payments, key #7c35c5a1
     expected: no attempt 2 within 2 s of the answer to attempt 1
     came:     it came after 1.900 s

POST /payments, key #7c35c5a1: executed once
  attempt 1      +0 ms  answered 503 before any work; retry after 2 s
  attempt 2   +1.900 s  answered 503 before any work; retry after 2 s
  attempt 3   +3.900 s  ran, 201
"#,
    );
}

#[tokio::test]
async fn a_retry_after_the_answer_had_come_is_caught() {
    let server = payments(stopped(), [Status(503)]).await;
    for status in [503, 201, 201, 201] {
        assert_eq!(attempt(&server).key("k-1").status(), status);
    }
    assert_report(
        &server,
        r#"
the client breaks the contract `generic`: 1 finding

  1. a retry after the answer had come: POST /payments, key #7c35c5a1
     expected: no attempt after the answer 201 to attempt 2
     came:     2 more attempts

POST /payments, key #7c35c5a1: executed once
  attempt 1      +0 ms  answered 503 before any work
  attempt 2      +0 ms  ran, 201
  attempt 3      +0 ms  replayed, 201
  attempt 4      +0 ms  replayed, 201
"#,
    );
}

// B12.
#[tokio::test]
async fn a_retry_after_the_keys_window_is_caught() {
    let server = payments(stopped(), [CommitThenDropReply]).await;
    attempt(&server).key("k-1").send();
    server.advance(std::time::Duration::from_secs(24 * 60 * 60));
    assert_eq!(attempt(&server).key("k-1").status(), 201);
    assert_report(
        &server,
        r#"
the client breaks the contract `generic`: 1 finding

  1. a retry after the key's window: POST /payments, key #7c35c5a1
     expected: no attempt later than 24 h after the first
     came:     attempt 2 after 24 h: the server had forgotten the key

POST /payments, key #7c35c5a1: executed 2 times
  attempt 1      +0 ms  ran, 201; answer lost: the connection was closed before it
  attempt 2      +24 h  ran, 201
"#,
    );
}

#[tokio::test]
async fn a_key_that_is_none_is_caught() {
    let server = payments(stopped(), Faults::none()).await;
    assert_eq!(attempt(&server).key("").status(), 400);
    assert_report(
        &server,
        r#"
the client breaks the contract `generic`: 1 finding

  1. no usable key: POST /payments
     expected: a key that `generic` takes
     came:     another text on attempt 1: it is empty

POST /payments, no usable key: not executed
  attempt 1      +0 ms  refused: no usable key, 400
"#,
    );
}

#[tokio::test]
async fn a_quoted_key_where_a_bare_one_is_wanted_is_caught() {
    let server = payments(stopped().contract(Contract::stripe()), Faults::none()).await;
    attempt(&server).key("\"k-1\"").send();
    assert_report(
        &server,
        r#"
the client breaks the contract `stripe`: 1 finding

  1. a quoted key where a bare one is wanted: POST /payments, key #7c35c5a1
     expected: a bare key, as `stripe` has it
     came:     a quoted one on attempt 1

POST /payments, key #7c35c5a1: executed once
  attempt 1      +0 ms  ran, 201; key quoted
"#,
    );
}

#[tokio::test]
async fn a_bare_key_where_a_quoted_one_is_wanted_is_caught() {
    let server = payments(stopped().contract(Contract::ietf_draft()), Faults::none()).await;
    assert_eq!(attempt(&server).key("k-1").status(), 400);
    assert_report(
        &server,
        r#"
the client breaks the contract `ietf-draft`: 1 finding

  1. no usable key: POST /payments, key #7c35c5a1
     expected: a key that `ietf-draft` takes
     came:     another text on attempt 1: it is not quoted

POST /payments, key #7c35c5a1: not executed
  attempt 1      +0 ms  refused: no usable key, 400
"#,
    );
}

#[tokio::test]
async fn an_operation_that_never_ran_is_not_exactly_once() {
    let server = payments(stopped(), Faults::always(Status(503))).await;
    attempt(&server).key("k-1").send();
    let failure = std::panic::AssertUnwindSafe(|| server.assert_exactly_once());
    let failure = std::panic::catch_unwind(failure).unwrap_err();
    assert_eq!(
        failure.downcast_ref::<String>().unwrap().as_str(),
        r#"the client breaks the contract `generic`: 1 finding

  1. not exactly once: POST /payments, key #7c35c5a1
     expected: 1 execution
     came:     0 executions in 1 attempt

POST /payments, key #7c35c5a1: not executed
  attempt 1      +0 ms  answered 503 before any work"#,
    );
}

#[tokio::test]
#[should_panic(expected = "1. no key: POST /payments")]
async fn a_server_that_is_dropped_fails_the_test_with_its_report() {
    let server = payments(stopped(), Faults::none()).await;
    attempt(&server).send();
}

#[tokio::test]
#[should_panic(expected = "the test's own failure")]
async fn a_test_that_fails_already_keeps_its_own_failure() {
    let server = payments(stopped(), Faults::none()).await;
    attempt(&server).send();
    panic!("the test's own failure");
}

#[tokio::test]
async fn a_rule_can_be_tolerated() {
    let builder = stopped().tolerate(Rule::RetryAfterAnswer);
    let server = payments(builder, Faults::none()).await;
    for _ in 0..2 {
        attempt(&server).key("k-1").send();
    }
    server.assert_exactly_once();
}

#[tokio::test]
async fn an_expected_number_of_operations_is_checked() {
    let server = stopped().start().await;
    server
        .operation(method("POST"))
        .named("payments")
        .expect(2)
        .mount();
    attempt(&server).key("k-1").send();
    assert_report(
        &server,
        r#"
the client breaks the contract `generic`: 1 finding

  1. not the expected number of operations: payments
     expected: 2 executions
     came:     1 execution

payments, key #7c35c5a1: executed once
  attempt 1      +0 ms  ran, 201
"#,
    );
}
