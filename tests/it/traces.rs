//! What a log and a trace get to see, with the names of OpenTelemetry's HTTP conventions.

use std::time::Duration;

use idempotency::{Client, IdempotencyKey, RequestBuilderExt as _, RetryPolicy};
use tracing::level_filters::LevelFilter;
use tracing::{Instrument as _, Level};

use crate::support::{Captured, ScriptedServer, Step};

const OURS: &str = "idempotency";
const SPAN: &str = "idempotent_operation";

fn client(attempts: u32) -> Client {
    Client::builder()
        .reqwest(Client::reqwest_defaults().no_proxy())
        .policy(RetryPolicy::immediate(attempts))
        .build()
        .unwrap()
}

fn key() -> IdempotencyKey {
    IdempotencyKey::parse("order-4711").unwrap()
}

/// The fields of every attempt's event that have a value, without the text.
fn attempts(traced: &Captured) -> Vec<Vec<(&'static str, String)>> {
    let events = traced.events_of(OURS).into_iter();
    events
        .map(|event| {
            assert_eq!(
                (event.level, event.field("message")),
                (Level::DEBUG, Some("attempt ended"))
            );
            let names = event.names().into_iter().filter(|name| *name != "message");
            names
                .map(|name| (name, event.field(name).unwrap().to_owned()))
                .collect()
        })
        .collect()
}

fn fields(expected: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    expected
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_one_span() {
    let traced = Captured::start();
    let server = ScriptedServer::new([
        Step::reply(503, &[], ""),
        Step::reply(503, &[], ""),
        Step::reply(200, &[], ""),
    ]);
    let operation = client(3)
        .post(server.url("/orders?x=1"))
        .idempotent_with(key());
    let caller = tracing::info_span!("checkout");
    operation.send().instrument(caller).await.unwrap();

    let spans = traced.spans_named(SPAN);
    let [span] = &spans[..] else {
        panic!("not one span: {spans:?}");
    };
    assert_eq!(span.level, Level::INFO);
    assert_eq!(span.field("http.request.method"), Some("POST"));
    assert_eq!(span.field("server.address"), Some("127.0.0.1"));
    assert_eq!(
        span.field("server.port"),
        Some(&*server.addr().port().to_string())
    );
    assert_eq!(
        span.field("idempotency.key"),
        Some(&*key().digest().to_string())
    );
    assert_eq!(traced.spans()[span.parent.unwrap()].name, "checkout");
    let events = traced.events_of(OURS);
    assert_eq!(events.len(), 3);
    for event in events {
        assert_eq!(traced.spans()[event.span.unwrap()].name, SPAN);
    }
}

/// B81
#[tokio::test(start_paused = true)]
async fn every_attempt_is_an_event_that_says_how_it_ended_and_what_follows() {
    let traced = Captured::start();
    let server = ScriptedServer::new([
        Step::after(
            Duration::from_millis(30),
            Step::reply(503, &[("retry-after", "2")], ""),
        ),
        Step::read_then_close(),
        Step::cut_fixed(201, 20, 10),
        Step::reply(409, &[("retry-after", "1")], ""),
        Step::reply(201, &[], ""),
    ]);
    let operation = client(9).post(server.url("/orders")).body("x").idempotent();
    operation.send().await.unwrap();
    let verdict = "idempotency.verdict";
    let reach = ("idempotency.reach", "maybe processed");
    let at_once = ("idempotency.attempt_ms", "0");
    let backoff = [
        ("idempotency.wait_ms", "0"),
        ("idempotency.wait_reason", "backoff"),
    ];
    let status = "http.response.status_code";
    let resend = "http.request.resend_count";
    let expected = [
        // OpenTelemetry counts resends, so the first attempt has no count.
        fields(&[
            (status, "503"),
            ("error.type", "503"),
            (verdict, "retry"),
            reach,
            ("idempotency.attempt_ms", "30"),
            ("idempotency.wait_ms", "2000"),
            ("idempotency.wait_reason", "the server's hint"),
        ]),
        fields(&[
            (resend, "1"),
            ("error.type", "connection_closed"),
            (verdict, "retry"),
            reach,
            at_once,
            backoff[0],
            backoff[1],
        ]),
        fields(&[
            (status, "201"),
            (resend, "2"),
            ("error.type", "truncated_answer"),
            (verdict, "retry"),
            reach,
            at_once,
            backoff[0],
            backoff[1],
        ]),
        fields(&[
            (status, "409"),
            (resend, "3"),
            ("error.type", "409"),
            (verdict, "in_progress"),
            reach,
            at_once,
            ("idempotency.wait_ms", "1000"),
            ("idempotency.wait_reason", "in progress, the server's hint"),
        ]),
        fields(&[
            (status, "201"),
            (resend, "4"),
            (verdict, "done"),
            ("idempotency.reach", "answered"),
            at_once,
        ]),
    ];
    assert_eq!(attempts(&traced), expected);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_not_followed_by_another_says_why() {
    let last = |traced: &Captured| attempts(traced).pop().unwrap();
    let because = "idempotency.not_retried_because";
    let server = ScriptedServer::always(Step::reply(503, &[], ""));
    for (attempts, keyed, reason) in [
        (2, true, "all attempts are used up"),
        (2, false, "without a key it must not be sent again"),
    ] {
        let traced = Captured::start();
        let request = client(attempts).post(server.url("/orders")).body("x");
        if keyed {
            request.idempotent().send().await.unwrap_err();
        } else {
            request.send().await.unwrap();
        }
        let event = last(&traced);
        assert!(event.contains(&(because, reason.to_owned())), "{event:?}");
        assert!(
            event.iter().all(|field| field.0 != "idempotency.wait_ms"),
            "{event:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_dropped_in_flight_leaves_an_event_in_its_span() {
    let server = ScriptedServer::always(Step::stall_before_headers());
    for keyed in [true, false] {
        let traced = Captured::start();
        let request = client(3).post(server.url("/orders")).body("x");
        let send = async {
            if keyed {
                request.idempotent_with(key()).send().await
            } else {
                request.send().await
            }
        };
        let sent = tokio::time::timeout(Duration::from_secs(1), send).await;
        assert!(sent.is_err());
        let events = traced.events_of(OURS);
        let [event] = &events[..] else {
            panic!("not one event: {events:?}");
        };
        assert_eq!(event.level, Level::WARN);
        assert_eq!(
            event.field("message"),
            Some("dropped with an attempt in flight: its outcome is unknown")
        );
        let digest = keyed.then(|| key().digest().to_string());
        assert_eq!(event.field("idempotency.key").map(str::to_owned), digest);
        assert_eq!(traced.spans()[event.span.unwrap()].name, SPAN);
    }
}

/// Dropped between two attempts nothing is in flight, and nothing is unknown that was not before.
#[tokio::test(start_paused = true)]
async fn an_operation_dropped_between_attempts_leaves_no_event() {
    let server = ScriptedServer::always(Step::reply(503, &[("retry-after", "10")], ""));
    let traced = Captured::start();
    let operation = client(3).post(server.url("/orders")).idempotent();
    let sent = tokio::time::timeout(Duration::from_secs(1), operation.send()).await;
    assert!(sent.is_err());
    assert_eq!(attempts(&traced).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_wants_is_not_emitted() {
    let server = ScriptedServer::always(Step::reply(503, &[], ""));
    for (level, spans, events) in [
        (LevelFilter::OFF, 0, 0),
        (LevelFilter::WARN, 0, 0),
        (LevelFilter::INFO, 1, 0),
        (LevelFilter::DEBUG, 1, 2),
    ] {
        let traced = Captured::start_at(level);
        let operation = client(2).post(server.url("/orders")).idempotent();
        operation.send().await.unwrap_err();
        let seen = (traced.spans_named(SPAN).len(), traced.events_of(OURS).len());
        assert_eq!(seen, (spans, events), "{level}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_key_names_none() {
    let server = ScriptedServer::always(Step::reply(200, &[], ""));
    let traced = Captured::start();
    client(2).get(server.url("/orders")).send().await.unwrap();
    let spans = traced.spans_named(SPAN);
    assert_eq!(spans[0].field("http.request.method"), Some("GET"));
    assert_eq!(spans[0].field("idempotency.key"), None);
}

/// In somebody else's stack it is the same span.
#[tokio::test(start_paused = true)]
async fn the_middleware_traces_as_the_client_does() {
    let server = ScriptedServer::new([Step::reply(503, &[], ""), Step::reply(200, &[], "")]);
    let traced = Captured::start();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let ours = idempotency::IdempotencyMiddleware::new().policy(RetryPolicy::immediate(2));
    let stack = reqwest_middleware::ClientBuilder::new(http)
        .with(ours)
        .build();
    stack
        .post(server.url("/orders"))
        .idempotent_with(key())
        .send()
        .await
        .unwrap();
    assert_eq!(traced.spans_named(SPAN).len(), 1);
    assert_eq!(attempts(&traced).len(), 2);
}
