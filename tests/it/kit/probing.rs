//! The probe before servers that are good, and bad on purpose. The whole table is what it should be.

use http::{HeaderName, HeaderValue};
use idempotency::testing::{ProbeReport, probe};

use super::bad_server::{BadServer, Ways, Wrong};
use super::in_a_row;

/// Probes as often as was asked for; every time the table has to be the same.
async fn probed(wrong: Wrong, ways: Ways) -> ProbeReport {
    let first = probed_once(wrong, ways).await;
    in_a_row(|| async {
        let again = probed_once(wrong, ways).await;
        assert_eq!(table(&again), table(&first));
    })
    .await;
    first
}

async fn probed_once(wrong: Wrong, ways: Ways) -> ProbeReport {
    let server = BadServer::start(wrong, ways);
    let header = HeaderName::from_static;
    let value = HeaderValue::from_static;
    let report = probe(server.url())
        .header(header("authorization"), value("alice"))
        .other_caller(header("authorization"), value("bob"))
        .failing_header(header("x-fail"), value("1"))
        .run()
        .await
        .unwrap();
    assert!(server.runs() > 10);
    report
}

/// The table without the address, which is another one in every run.
fn table(report: &ProbeReport) -> String {
    let text = report.to_string();
    let (_, rest) = text.split_once("/payments: ").unwrap();
    rest.to_owned()
}

#[track_caller]
fn assert_table(report: &ProbeReport, expected: &str) {
    assert_eq!(table(report), expected.trim_matches('\n'));
}

#[tokio::test]
async fn a_good_server_is_safe() {
    let report = probed(Wrong::Nothing, Ways::default()).await;
    assert_table(
        &report,
        r#"
a retry with the key is safe here

  ok    first request         201
  ok    repeat                replays 201 and its body
  ok    replay marker         `idempotent-replayed: true`
  ok    other body            refused: 422
  note  other query           replays the answer to the first request
  ok    repeat while it runs  told to wait: 409, retry after 0
  ok    two at once           ran once: 1 x 201, 1 x 409
  ok    ten at once           ran once: 1 x 201, 9 x 409
  ok    missing key           required: 400
  ok    empty key             refused: 400
  ok    long key              255 characters are taken, 300 are refused: 400
  ok    quoted and bare       one key in both forms
  ok    two header lines      refused: 400
  ok    binary body           compared: another one is refused, 422
  ok    empty body            protected like others
  ok    4xx answer            400 again
  ok    5xx answer            503 is not stored: it runs again
  ok    another caller        has an operation of its own
  ok    client gone           the repeat gets the stored answer
  ok    request cut off       claims nothing: the whole one is answered 201

the generic contract fits; what was seen, written down:

  Contract::builder("127.0.0.1")
      .mismatch(MismatchDetection::Detected)
      .build()?
"#,
    );
    assert!(report.is_safe());
}

#[tokio::test]
async fn a_server_with_words_of_its_own_gets_a_contract_of_its_own() {
    let ways = Ways {
        own_words: true,
        quoted_only: true,
    };
    let report = probed(Wrong::Nothing, ways).await;
    assert_table(
        &report,
        r#"
a retry with the key is safe here

  ok    first request         201, with the key in quotes
  ok    repeat                replays 201 and its body
  ok    replay marker         `x-shop-source: store`, and `live` on fresh answers
  ok    other body            refused: 400
  note  other query           replays the answer to the first request
  ok    repeat while it runs  told to wait: 423
  ok    two at once           ran once: 1 x 201, 1 x 423
  ok    ten at once           ran once: 1 x 201, 9 x 423
  ok    missing key           required: 400
  ok    empty key             refused: 400
  ok    long key              255 characters are taken, 300 are refused: 400
  ok    quoted and bare       bare refused: 400
  ok    two header lines      refused: 400
  ok    binary body           compared: another one is refused, 400
  ok    empty body            protected like others
  ok    4xx answer            400 again
  ok    5xx answer            503 is not stored: it runs again
  ok    another caller        has an operation of its own
  ok    client gone           the repeat gets the stored answer
  ok    request cut off       claims nothing: the whole one is answered 201

no named contract fits; what was seen, written down:

  Contract::builder("127.0.0.1")
      .encoding(KeyEncoding::StructuredString)
      .marker(MarkerRule::words("x-shop-source", ["store"], ["live"]))
      .answer(AnswerRule { statuses: Statuses::one(400), when: Condition::code(["/code"], ["other_request"]), means: Meaning::Mismatch, resource: None })
      .answer(AnswerRule { statuses: Statuses::one(423), when: Condition::code(["/code"], ["still_busy"]), means: Meaning::InProgress, resource: None })
      .mismatch(MismatchDetection::Detected)
      .build()?
"#,
    );
    assert!(report.is_safe());
}

// B07.
#[tokio::test]
async fn a_server_that_ignores_the_key_is_caught() {
    let report = probed(Wrong::Everything, Ways::default()).await;
    assert_table(
        &report,
        r#"
a retry with the key is NOT safe here

  ok    first request         201
  BAD   repeat                runs again
  ?     replay marker         no replay was seen
  BAD   other body            runs as an operation of its own
  note  other query           runs as an operation of its own
  BAD   repeat while it runs  runs while the first still runs
  BAD   two at once           ran 2 times: 2 x 201
  BAD   ten at once           ran 10 times: 10 x 201
  ok    missing key           required: 400
  ok    empty key             refused: 400
  ok    long key              255 characters are taken, 300 are refused: 400
  note  quoted and bare       the quoted form is another key
  ok    two header lines      refused: 400
  BAD   binary body           another one under the key runs
  BAD   empty body            runs again
  ok    4xx answer            400 again
  ok    5xx answer            503 is not stored: it runs again
  ok    another caller        has an operation of its own
  BAD   client gone           ran 2 times
  ok    request cut off       claims nothing: the whole one is answered 201

no contract fits: the key is not honoured
"#,
    );
    assert!(!report.is_safe());
}

// B83.
#[tokio::test]
async fn a_race_between_looking_and_writing_is_caught() {
    let report = probed(Wrong::CheckThenAct, Ways::default()).await;
    assert_table(
        &report,
        r#"
a retry with the key is NOT safe here

  ok    first request         201
  ok    repeat                replays 201 and its body
  ok    replay marker         `idempotent-replayed: true`
  ok    other body            refused: 422
  note  other query           replays the answer to the first request
  BAD   repeat while it runs  runs while the first still runs
  BAD   two at once           ran 2 times: 2 x 201
  BAD   ten at once           ran 10 times: 10 x 201
  ok    missing key           required: 400
  ok    empty key             refused: 400
  ok    long key              255 characters are taken, 300 are refused: 400
  ok    quoted and bare       one key in both forms
  ok    two header lines      refused: 400
  ok    binary body           compared: another one is refused, 422
  ok    empty body            protected like others
  ok    4xx answer            400 again
  ok    5xx answer            503 is not stored: it runs again
  ok    another caller        has an operation of its own
  ok    client gone           the repeat gets the stored answer
  ok    request cut off       claims nothing: the whole one is answered 201

the generic contract fits; what was seen, written down:

  Contract::builder("127.0.0.1")
      .mismatch(MismatchDetection::Detected)
      .build()?
"#,
    );
}

// B105.
#[tokio::test]
async fn a_replay_of_another_bodys_answer_is_caught() {
    let report = probed(Wrong::ReplaysOtherBodies, Ways::default()).await;
    assert_table(
        &report,
        r#"
a retry with the key is NOT safe here

  ok    first request         201
  ok    repeat                replays 201 and its body
  ok    replay marker         `idempotent-replayed: true`
  BAD   other body            replays the answer to the first request
  note  other query           replays the answer to the first request
  ok    repeat while it runs  told to wait: 409, retry after 0
  ok    two at once           ran once: 1 x 201, 1 x 409
  ok    ten at once           ran once: 1 x 201, 9 x 409
  ok    missing key           required: 400
  ok    empty key             refused: 400
  ok    long key              255 characters are taken, 300 are refused: 400
  ok    quoted and bare       one key in both forms
  ok    two header lines      refused: 400
  BAD   binary body           not compared: another one gets the first one's answer
  ok    empty body            protected like others
  ok    4xx answer            400 again
  ok    5xx answer            503 is not stored: it runs again
  ok    another caller        has an operation of its own
  ok    client gone           the repeat gets the stored answer
  ok    request cut off       claims nothing: the whole one is answered 201

the generic contract fits; what was seen, written down:

  Contract::builder("127.0.0.1")
      .mismatch(MismatchDetection::NotDetected)
      .build()?
"#,
    );
}

// B39.
#[tokio::test]
async fn an_operation_in_progress_that_is_taken_as_new_is_caught() {
    let report = probed(Wrong::InProgressIsNew, Ways::default()).await;
    assert_table(
        &report,
        r#"
a retry with the key is NOT safe here

  ok    first request         201
  ok    repeat                replays 201 and its body
  ok    replay marker         `idempotent-replayed: true`
  ok    other body            refused: 422
  note  other query           replays the answer to the first request
  BAD   repeat while it runs  runs while the first still runs
  BAD   two at once           ran 2 times: 2 x 201
  BAD   ten at once           ran 10 times: 10 x 201
  ok    missing key           required: 400
  ok    empty key             refused: 400
  ok    long key              255 characters are taken, 300 are refused: 400
  ok    quoted and bare       one key in both forms
  ok    two header lines      refused: 400
  ok    binary body           compared: another one is refused, 422
  ok    empty body            protected like others
  ok    4xx answer            400 again
  ok    5xx answer            503 is not stored: it runs again
  ok    another caller        has an operation of its own
  ok    client gone           the repeat gets the stored answer
  ok    request cut off       claims nothing: the whole one is answered 201

the generic contract fits; what was seen, written down:

  Contract::builder("127.0.0.1")
      .mismatch(MismatchDetection::Detected)
      .build()?
"#,
    );
}

// B123.
#[tokio::test]
async fn a_marker_that_is_always_there_is_caught() {
    let report = probed(Wrong::MarkerAlways, Ways::default()).await;
    assert_table(
        &report,
        r#"
a retry with the key is NOT safe here

  BAD   first request         201, and says that it is a replay
  ok    repeat                replays 201 and its body
  BAD   replay marker         `idempotent-replayed: true` stands on fresh answers too: nobody can tell
  ok    other body            refused: 422
  note  other query           replays the answer to the first request
  ok    repeat while it runs  told to wait: 409, retry after 0
  ok    two at once           ran once: 1 x 201, 1 x 409
  ok    ten at once           ran once: 1 x 201, 9 x 409
  ok    missing key           required: 400
  ok    empty key             refused: 400
  ok    long key              255 characters are taken, 300 are refused: 400
  ok    quoted and bare       one key in both forms
  ok    two header lines      refused: 400
  ok    binary body           compared: another one is refused, 422
  ok    empty body            protected like others
  ok    4xx answer            400 again
  ok    5xx answer            503 is not stored: it runs again
  ok    another caller        has an operation of its own
  ?     client gone           the repeat is answered; whether it ran before does not show
  ok    request cut off       claims nothing: the whole one is answered 201

the generic contract fits; what was seen, written down:

  Contract::builder("127.0.0.1")
      .mismatch(MismatchDetection::Detected)
      .build()?
"#,
    );
}

// B123.
#[tokio::test]
async fn a_marker_that_says_false_on_replays_is_caught() {
    let report = probed(Wrong::MarkerFalse, Ways::default()).await;
    assert_table(
        &report,
        r#"
a retry with the key is NOT safe here

  ok    first request         201
  ok    repeat                replays 201 and its body
  BAD   replay marker         `idempotent-replayed: false` says on a replay that it is fresh
  ok    other body            refused: 422
  note  other query           replays the answer to the first request
  ok    repeat while it runs  told to wait: 409, retry after 0
  ok    two at once           ran once: 1 x 201, 1 x 409
  ok    ten at once           ran once: 1 x 201, 9 x 409
  ok    missing key           required: 400
  ok    empty key             refused: 400
  ok    long key              255 characters are taken, 300 are refused: 400
  ok    quoted and bare       one key in both forms
  ok    two header lines      refused: 400
  ok    binary body           compared: another one is refused, 422
  ok    empty body            protected like others
  ok    4xx answer            400 again
  ok    5xx answer            503 is not stored: it runs again
  ok    another caller        has an operation of its own
  ?     client gone           the repeat is answered; whether it ran before does not show
  ok    request cut off       claims nothing: the whole one is answered 201

the generic contract fits; what was seen, written down:

  Contract::builder("127.0.0.1")
      .mismatch(MismatchDetection::Detected)
      .build()?
"#,
    );
}

// B108.
#[tokio::test]
async fn a_replay_to_another_caller_is_caught() {
    let report = probed(Wrong::ReplaysToOtherCallers, Ways::default()).await;
    assert_table(
        &report,
        r#"
a retry with the key is NOT safe here

  ok    first request         201
  ok    repeat                replays 201 and its body
  ok    replay marker         `idempotent-replayed: true`
  ok    other body            refused: 422
  note  other query           replays the answer to the first request
  ok    repeat while it runs  told to wait: 409, retry after 0
  ok    two at once           ran once: 1 x 201, 1 x 409
  ok    ten at once           ran once: 1 x 201, 9 x 409
  ok    missing key           required: 400
  ok    empty key             refused: 400
  ok    long key              255 characters are taken, 300 are refused: 400
  ok    quoted and bare       one key in both forms
  ok    two header lines      refused: 400
  ok    binary body           compared: another one is refused, 422
  ok    empty body            protected like others
  ok    4xx answer            400 again
  ok    5xx answer            503 is not stored: it runs again
  BAD   another caller        gets the first caller's answer
  ok    client gone           the repeat gets the stored answer
  ok    request cut off       claims nothing: the whole one is answered 201

the generic contract fits; what was seen, written down:

  Contract::builder("127.0.0.1")
      .mismatch(MismatchDetection::Detected)
      .build()?
"#,
    );
}

// B120, B121.
#[tokio::test]
async fn a_stored_503_without_a_marker_is_caught() {
    let report = probed(Wrong::Stores503Unmarked, Ways::default()).await;
    assert_table(
        &report,
        r#"
a retry with the key is NOT safe here

  ok    first request         201
  ok    repeat                replays 201 and its body
  ok    replay marker         `idempotent-replayed: true`
  ok    other body            refused: 422
  note  other query           replays the answer to the first request
  ok    repeat while it runs  told to wait: 409, retry after 0
  ok    two at once           ran once: 1 x 201, 1 x 409
  ok    ten at once           ran once: 1 x 201, 9 x 409
  ok    missing key           required: 400
  ok    empty key             refused: 400
  ok    long key              255 characters are taken, 300 are refused: 400
  ok    quoted and bare       one key in both forms
  ok    two header lines      refused: 400
  ok    binary body           compared: another one is refused, 422
  ok    empty body            protected like others
  ok    4xx answer            400 again
  BAD   5xx answer            503 is stored and not marked: every retry is in vain
  ok    another caller        has an operation of its own
  ok    client gone           the repeat gets the stored answer
  ok    request cut off       claims nothing: the whole one is answered 201

the generic contract fits; what was seen, written down:

  Contract::builder("127.0.0.1")
      .failures(FailureStorage::Everything)
      .mismatch(MismatchDetection::Detected)
      .build()?
"#,
    );
}

// B113.
#[tokio::test]
async fn an_answer_without_its_status_is_caught() {
    let report = probed(Wrong::StatusLost, Ways::default()).await;
    assert_table(
        &report,
        r#"
a retry with the key is NOT safe here

  ok    first request         201
  BAD   repeat                replays 200 for 201
  ok    replay marker         `idempotent-replayed: true`
  ok    other body            refused: 422
  note  other query           replays the answer to the first request
  ok    repeat while it runs  told to wait: 409, retry after 0
  ok    two at once           ran once: 1 x 201, 1 x 409
  ok    ten at once           ran once: 1 x 201, 9 x 409
  ok    missing key           required: 400
  ok    empty key             refused: 400
  ok    long key              255 characters are taken, 300 are refused: 400
  ok    quoted and bare       one key in both forms
  ok    two header lines      refused: 400
  ok    binary body           compared: another one is refused, 422
  ok    empty body            protected like others
  ok    4xx answer            400 again
  ok    5xx answer            503 is not stored: it runs again
  ok    another caller        has an operation of its own
  ok    client gone           the repeat gets the stored answer
  ok    request cut off       claims nothing: the whole one is answered 201

the generic contract fits; what was seen, written down:

  Contract::builder("127.0.0.1")
      .mismatch(MismatchDetection::Detected)
      .build()?
"#,
    );
}
