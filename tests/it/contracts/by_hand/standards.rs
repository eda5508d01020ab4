//! The IETF draft, OASIS Repeatable Requests, SQS FIFO queues.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use idempotency::contract::{Meaning, MismatchDetection, Replay, Window};

use super::{KEY, assert_wire, key, on_the_wire, post};
use crate::contracts::{assert_means, client, named, reading};
use crate::support::{ScriptedServer, Step, header_lines};

// https://www.ietf.org/archive/id/draft-ietf-httpapi-idempotency-key-header-06.txt: the field is an Item whose value is a String
// (RFC 9651, section 3.3.3), so it stands in double quotes.
#[tokio::test]
async fn the_ietf_draft_quotes_the_key() {
    let wire = on_the_wire(named("ietf-draft"), post(r#"{"amount":100}"#)).await;
    let value = format!("\"{KEY}\"");
    assert_wire(
        &wire,
        Some(("idempotency-key", &value)),
        "/x",
        r#"{"amount":100}"#,
    );
}

// The same, "Error Scenarios": 400 without a key, 422 for another payload, 409 while the first request runs, each with a problem
// document whose `type` is the vendor's documentation.
#[test]
fn the_ietf_drafts_errors_are_told_apart_by_their_status() {
    let draft = named("ietf-draft");
    let body = r#"{"type":"https://developer.example.com/idempotency","title":"A request is outstanding"}"#;
    let problem = [("content-type", "application/problem+json")];
    for (status, meaning) in [
        (409, Meaning::InProgress),
        (422, Meaning::Mismatch),
        (400, Meaning::Plain),
        (500, Meaning::Plain),
    ] {
        assert_eq!(reading(&draft, status, &problem, body).meaning, meaning);
        assert_means(&draft, status, body, Meaning::Plain);
    }
    // "No replay marker, no window" is in the draft.
    assert_eq!(draft.window(), Window::Unknown);
    assert!(!draft.marks_replays());
}

// https://docs.oasis-open.org/odata/repeatable-requests/v1.0/cs01: `Repeatability-Request-ID` and `Repeatability-First-Sent`, an
// IMF-fixdate that is the same on every attempt.
#[tokio::test]
async fn oasis_sends_the_time_of_the_first_attempt_with_every_attempt() {
    let server = ScriptedServer::new([
        Step::read_then_close(),
        Step::reply(503, &[("retry-after", "2")], ""),
        Step::reply(201, &[("Repeatability-Result", "accepted")], "{}"),
    ]);
    tokio::time::pause();
    let client = client(named("oasis-repeatable-requests"));
    let before = SystemTime::now();
    let operation = client
        .post(server.url("/x"))
        .body("{}")
        .idempotent_with(key(KEY));
    operation.send().await.unwrap();
    server.assert_hits(3);
    let arrivals = server.arrivals();
    let dates: Vec<_> = arrivals
        .iter()
        .map(|arrival| header_lines(arrival, "repeatability-first-sent"))
        .collect();
    assert_eq!(dates[0].len(), 1);
    assert!(dates.iter().all(|lines| *lines == dates[0]), "{dates:?}");
    let date = httpdate_of(dates[0][0]);
    assert!(date.abs_diff(seconds(before)) <= 2, "{date}");
    for arrival in &arrivals {
        assert_eq!(header_lines(arrival, "repeatability-request-id"), [KEY]);
        assert_eq!(header_lines(arrival, "idempotency-key"), [""; 0]);
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`: the form is checked letter by letter (RFC 9110, section 5.6.7), the time by its parts.
fn httpdate_of(text: &str) -> u64 {
    let parts: Vec<&str> = text.split(' ').collect();
    let [day_name, day, month, year, time, "GMT"] = parts[..] else {
        panic!("{text} is no IMF-fixdate");
    };
    assert!(
        day_name.len() == 4 && day_name.ends_with(',') && day.len() == 2,
        "{text}"
    );
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = MONTHS.find(month).unwrap() / 3 + 1;
    let (year, month, day) = (
        year.parse::<i64>().unwrap(),
        i64::try_from(month).unwrap(),
        day.parse::<i64>().unwrap(),
    );
    // Days since 1970 of a date of the Gregorian calendar.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let clock: Vec<i64> = time.split(':').map(|part| part.parse().unwrap()).collect();
    u64::try_from(days * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2]).unwrap()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap().as_secs()
}

// The same: a server that knows repeatability answers with `Repeatability-Result`, `accepted` or `rejected` in any letter case, and
// must not execute what it cannot honour (501). https://learn.microsoft.com/rest/api/communication/repeatable-requests: 412 for a
// first attempt outside of the tracked window.
#[test]
fn oasis_results_are_no_replay_markers() {
    let oasis = named("oasis-repeatable-requests");
    let with = |status, result| reading(&oasis, status, &[("Repeatability-Result", result)], "");
    assert_eq!(with(412, "rejected").meaning, Meaning::KeyUnusable);
    assert_eq!(with(412, "Rejected").meaning, Meaning::KeyUnusable);
    assert_eq!(with(501, "rejected").meaning, Meaning::NotExecuted);
    assert_eq!(with(201, "accepted").meaning, Meaning::Plain);
    assert_eq!(with(201, "accepted").marker, Replay::Unknown);
    assert_means(&oasis, 412, "", Meaning::Plain);
    assert_means(&oasis, 501, "", Meaning::Plain);
    let five_minutes = Duration::from_secs(300);
    assert_eq!(oasis.window().bound(), Some(five_minutes));
}

// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html, and
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html: the
// parameter, at most 128 alphanumerics and punctuation; 5 minutes; a duplicate is accepted and not delivered.
#[tokio::test]
async fn sqs_carries_the_key_as_the_deduplication_id() {
    let body =
        r#"{"QueueUrl":"https://sqs.example/q.fifo","MessageBody":"paid","MessageGroupId":"g"}"#;
    let wire = on_the_wire(named("sqs-fifo"), post(body)).await;
    assert_wire(
        &wire,
        None,
        "/x",
        r#"{"QueueUrl":"https://sqs.example/q.fifo","MessageBody":"paid","MessageGroupId":"g","MessageDeduplicationId":"8e03978e-40d5-43e8-bc93-6894a57f9324"}"#,
    );
}

#[test]
fn sqs_says_nothing_of_duplicates() {
    let sqs = named("sqs-fifo");
    assert_eq!(sqs.window(), Window::Exactly(Duration::from_secs(300)));
    assert_eq!(sqs.mismatch(), MismatchDetection::NotDetected);
    assert_means(
        &sqs,
        200,
        r#"{"MessageId":"m-1","SequenceNumber":"7"}"#,
        Meaning::Plain,
    );
    assert_means(
        &sqs,
        400,
        r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist"}"#,
        Meaning::Plain,
    );
    assert!(sqs.key_text(&key(&"k".repeat(128))).is_ok());
    assert!(sqs.key_text(&key(&"k".repeat(129))).is_err());
}
