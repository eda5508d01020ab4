//! An operation that was written down is taken up again as the same request.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::HeaderValue;
use idempotency::contract::{Companion, KeyEncoding};
use idempotency::{
    Client, Contract, Effect, ErrorKind, IdempotencyKey, IdempotentRequest, Pending, Replay,
    RequestBuilder, RetryPolicy, StoppedBy,
};

use super::story;
use crate::bodies::streamed;
use crate::support::{Arrival, Refused, ScriptedServer, Step, Way, header_lines};

/// Written down, and read again by another process.
fn saved(operation: &IdempotentRequest) -> Pending {
    let text = serde_json::to_string(&operation.to_pending().unwrap()).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn client() -> Client {
    Way::Straight.client(RetryPolicy::immediate(2))
}

/// The header lines of a request in an order of their own.
fn sorted(arrival: &Arrival) -> Vec<(String, String)> {
    let mut headers = arrival.headers.clone();
    headers.sort();
    headers
}

// B04.
#[tokio::test(start_paused = true)]
async fn an_operation_that_was_written_down_goes_out_as_the_same_request() {
    for way in Way::ALL {
        for body in [&b"amount=100"[..], &[0, 255, 13, 10], b""] {
            let server = ScriptedServer::always(Step::reply(201, &[], ""));
            let operation = client()
                .patch(server.url("/payments/7?b=2&a=%20"))
                .header("content-type", "application/octet-stream")
                .header("x-trace", "one")
                .header("x-trace", "two")
                .header("x-latin", HeaderValue::from_bytes(b"caf\xe9").unwrap())
                .bearer_auth("old")
                .body(Bytes::copy_from_slice(body))
                .idempotent();
            let pending = saved(&operation)
                .with_header("authorization", "Bearer old")
                .unwrap();
            assert_eq!(Some(pending.key()), operation.key());
            assert_eq!(pending.first_sent(), None);
            let resumed = way.client(RetryPolicy::immediate(2)).resume(&pending);
            assert_eq!(resumed.key(), operation.key());
            operation.send().await.unwrap();
            resumed.send().await.unwrap();
            server.assert_one_operation(2);
            let [first, second] = &server.arrivals()[..] else {
                panic!("two hits")
            };
            assert_eq!(sorted(first), sorted(second));
            assert_eq!(header_lines(second, "x-trace"), ["one", "two"]);
            assert_eq!(second.body, body);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_are_left_out_and_given_anew() {
    type WithCredentials = fn(RequestBuilder) -> RequestBuilder;
    let server = ScriptedServer::always(Step::reply(201, &[], ""));
    let with_user = server.url("/").replace("http://", "http://user:s3cret@");
    for (url, credentials) in [
        (
            server.url("/"),
            (|request| request.bearer_auth("s3cret")) as WithCredentials,
        ),
        (server.url("/"), |request| {
            request.basic_auth("user", Some("s3cret"))
        }),
        (with_user, |request| request),
    ] {
        let operation = credentials(client().post(url).header("x-own", "1")).idempotent();
        let text = serde_json::to_string(&operation.to_pending().unwrap()).unwrap();
        assert!(
            !text.contains("s3cret") && !text.contains("authorization"),
            "{text}"
        );
        let pending: Pending = serde_json::from_str(&text).unwrap();
        client().resume(&pending).send().await.unwrap();
        let fresh = pending.with_header("Authorization", "Bearer new").unwrap();
        let fresh = fresh.with_header("Authorization", "Bearer newer").unwrap();
        client().resume(&fresh).send().await.unwrap();
    }
    for two in server.arrivals().chunks(2) {
        let [bare, fresh] = two else {
            panic!("an even number of hits")
        };
        assert_eq!(header_lines(bare, "authorization"), [""; 0]);
        assert_eq!(header_lines(fresh, "authorization"), ["Bearer newer"]);
        assert_eq!(header_lines(fresh, "x-own"), ["1"]);
    }
    let pending = saved(&client().post(server.url("/")).idempotent());
    for (name, value, message) in [
        (
            "a b",
            "c",
            "bad header name \"a b\"; the operation was not executed",
        ),
        (
            "x-own",
            "s3cret\n",
            "bad value for `x-own`; the operation was not executed",
        ),
    ] {
        let error = pending.clone().with_header(name, value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Builder);
        assert_eq!(
            error.to_string().replace("bad header value", "bad value"),
            message
        );
    }
}

/// What was sent in one form is sent in this form again, whatever the contract of the client that takes it up.
#[tokio::test(start_paused = true)]
async fn the_key_keeps_the_form_in_which_it_was_sent() {
    let quoting = Contract::builder("shop")
        .header("X-Shop-Key")
        .encoding(KeyEncoding::StructuredString)
        .build()
        .unwrap();
    let server = ScriptedServer::always(Step::reply(201, &[], ""));
    let request = || client().post(server.url("/"));
    let key = IdempotencyKey::parse("k-1").unwrap();
    for (operation, header, line) in [
        (
            request().header("Idempotency-Key", "\"k-1\"").idempotent(),
            "idempotency-key",
            "\"k-1\"",
        ),
        (
            request()
                .idempotent_with(key.clone())
                .contract(Contract::ietf_draft()),
            "idempotency-key",
            "\"k-1\"",
        ),
        (
            request()
                .idempotent_with(key.clone())
                .contract(quoting.clone()),
            "x-shop-key",
            "\"k-1\"",
        ),
        (
            request().idempotent_with(key.clone()),
            "idempotency-key",
            "k-1",
        ),
    ] {
        let pending = saved(&operation);
        for contract in [Contract::generic(), Contract::ietf_draft(), quoting.clone()] {
            let resumed = Client::builder()
                .contract(contract)
                .build()
                .unwrap()
                .resume(&pending);
            assert_eq!(resumed.key(), Some(&key));
            resumed.send().await.unwrap();
            let arrivals = server.arrivals();
            let last = arrivals.last().unwrap();
            assert_eq!(header_lines(last, header), [line]);
        }
    }
}

// B04, B05.
#[tokio::test(start_paused = true)]
async fn nothing_is_proven_of_an_operation_that_was_taken_up() {
    for way in Way::ALL {
        let server = ScriptedServer::new([
            Step::read_then_close(),
            Step::reply(201, &[], ""),
            Step::reply(201, &[], ""),
            Step::reply(201, &[("idempotent-replayed", "false")], ""),
        ]);
        let operation = way
            .client(RetryPolicy::immediate(1))
            .post(server.url("/"))
            .idempotent();
        let unsent = saved(&operation);
        let before = SystemTime::now();
        operation.send().await.unwrap_err();
        let sent = saved(&operation);
        let first_sent = sent.first_sent().unwrap();
        assert!(before <= first_sent && first_sent <= SystemTime::now());

        let resume = |pending| way.client(RetryPolicy::immediate(1)).resume(pending);
        let unmarked = resume(&sent).send().await.unwrap();
        assert_eq!(
            (unmarked.replay(), unmarked.followed_unknown()),
            (Replay::Unknown, true)
        );
        // Who wrote it down before the first byte may have sent it afterwards.
        let unmarked = resume(&unsent).send().await.unwrap();
        assert_eq!(
            (unmarked.replay(), unmarked.followed_unknown()),
            (Replay::Unknown, false)
        );
        let marked = resume(&sent).send().await.unwrap();
        assert_eq!(
            (marked.replay(), marked.followed_unknown()),
            (Replay::Fresh, true)
        );
        server.assert_one_operation(4);

        let refused = Refused::new();
        let nowhere = saved(&client().post(refused.url("/")).idempotent());
        let error = resume(&nowhere).send().await.unwrap_err();
        assert_eq!(
            story(error.attempts()),
            ["the connection was not made, never sent"]
        );
        assert_eq!(error.effect(), Effect::Unknown);
        assert_eq!(error.key(), Some(nowhere.key()));
    }
}

#[tokio::test(start_paused = true)]
async fn companions_of_the_key_are_those_of_the_first_time_it_was_sent() {
    let keep = Duration::from_secs(60);
    let contract = Contract::builder("shop")
        .companion(Companion::FirstSent {
            header: "repeatability-first-sent".into(),
        })
        .companion(Companion::ExpiresAt {
            header: "x-expires".into(),
            keep,
        })
        .build()
        .unwrap();
    for way in Way::ALL {
        let server = ScriptedServer::new([Step::read_then_close(), Step::reply(201, &[], "")]);
        let builder = Client::builder().policy(RetryPolicy::immediate(2));
        let client = way.build(builder.contract(contract.clone()));
        let first = SystemTime::now() - Duration::from_secs(3600);
        client
            .post(server.url("/"))
            .idempotent()
            .first_sent(first)
            .send()
            .await
            .unwrap();
        let expires = first.duration_since(SystemTime::UNIX_EPOCH).unwrap() + keep;
        for arrival in server.arrivals() {
            let sent = header_lines(&arrival, "repeatability-first-sent");
            assert_eq!(sent, [httpdate::fmt_http_date(first)]);
            let until = header_lines(&arrival, "x-expires");
            assert_eq!(until, [expires.as_millis().to_string()]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_written_down_says_why() {
    let client = client();
    let safe = client
        .get("http://127.0.0.1/")
        .idempotent()
        .to_pending()
        .unwrap_err();
    assert_eq!(safe.kind(), ErrorKind::Contract);
    assert_eq!(
        safe.to_string(),
        "a safe method has no key to take it up with; the operation may have been executed"
    );
    let streamed = client
        .post("http://127.0.0.1/")
        .body(streamed(["amount=100"]));
    let streamed = streamed.idempotent().to_pending().unwrap_err();
    assert_eq!(streamed.kind(), ErrorKind::RequestBody);
    assert_eq!(
        streamed.to_string(),
        "a body that is a stream cannot be written down; the operation may have been executed"
    );
    let faulty = client.post("payments").idempotent();
    let (written, sent) = (
        faulty.to_pending().unwrap_err(),
        faulty.send().await.unwrap_err(),
    );
    assert_eq!(written.to_string(), sent.to_string());
    assert_eq!(written.kind(), ErrorKind::Builder);
}

/// The form in which it is kept outlives the process, so it must not change by accident.
#[tokio::test(start_paused = true)]
async fn the_saved_form_is_json_that_can_be_read_later() {
    let kept = serde_json::json!({
        "method": "POST",
        "url": "http://127.0.0.1/payments?a=1",
        "headers": [
            ["content-type", {"text": "text/plain"}],
            ["x-latin", {"bytes": [99, 97, 102, 233]}],
            ["idempotency-key", {"text": "k-1"}],
        ],
        "body": {"text": "amount=100"},
        "key": "k-1",
        "first_sent": {"secs_since_epoch": 1_700_000_000, "nanos_since_epoch": 7},
    });
    let first_sent = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 7);
    let operation = client()
        .post("http://127.0.0.1/payments?a=1")
        .header("content-type", "text/plain")
        .header("x-latin", HeaderValue::from_bytes(b"caf\xe9").unwrap())
        .body("amount=100")
        .idempotent_with(IdempotencyKey::parse("k-1").unwrap())
        .first_sent(first_sent);
    let pending = operation.to_pending().unwrap();
    assert_eq!(serde_json::to_value(&pending).unwrap(), kept);
    assert_eq!(
        serde_json::from_value::<Pending>(kept.clone()).unwrap(),
        pending
    );

    // Damaged since, it is an error and no request.
    for (field, value, message) in [
        ("method", "P T", "the saved operation has a bad method"),
        ("url", "payments", "the saved operation has a bad URL"),
    ] {
        let mut damaged = kept.clone();
        damaged[field] = value.into();
        let pending: Pending = serde_json::from_value(damaged).unwrap();
        let error = client().resume(&pending).send().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Builder, Effect::Unknown)
        );
        assert_eq!(
            error.to_string(),
            format!("{message}; the operation may have been executed")
        );
        assert_eq!(error.stopped_by(), None::<StoppedBy>);
    }
}
