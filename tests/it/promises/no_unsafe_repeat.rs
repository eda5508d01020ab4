//! No key, no unsafe repeat: what may have been processed is sent once, whatever anybody has configured.

use std::time::Duration;

use http::Method;
use idempotency::contract::{AnswerRule, Condition, Meaning, Problem, Statuses};
use idempotency::{
    Backoff, Client, ClientBuilder, Contract, Effect, ErrorKind, Replay, RequestBuilder,
    RetryPolicy, StoppedBy,
};

use super::story;
use crate::support::{Refused, ScriptedServer, Step, Way};

const UNSAFE: [Method; 2] = [Method::POST, Method::PATCH];
const REPEATABLE: [Method; 5] = [
    Method::GET,
    Method::HEAD,
    Method::OPTIONS,
    Method::PUT,
    Method::DELETE,
];

/// Every way in which an answer can be missing after the request went out: what it is called, and the error's kind.
fn losses() -> Vec<(Step, &'static str, ErrorKind)> {
    let closed = "the connection closed before an answer";
    let reset = "the connection was reset before an answer";
    let malformed = "the answer was not valid HTTP";
    vec![
        (Step::read_then_close(), closed, ErrorKind::Connection),
        (Step::read_then_reset(), reset, ErrorKind::Connection),
        (Step::close_before_reading(), reset, ErrorKind::Connection),
        (Step::half_status_line(), closed, ErrorKind::Connection),
        (
            Step::garbage("\u{1}\u{2}\r\n\r\n"),
            malformed,
            ErrorKind::Protocol,
        ),
        (
            Step::stall_before_headers(),
            "no answer within the attempt's time",
            ErrorKind::Timeout,
        ),
    ]
}

/// Policies and contracts that do all that can be configured for a repeat.
fn eager() -> Vec<ClientBuilder> {
    let always = |means| AnswerRule {
        statuses: Statuses {
            first: 100,
            last: 599,
        },
        when: Condition::Always,
        means,
        resource: None,
    };
    let contract = |means| {
        let builder = Contract::builder("eager").answer(always(means));
        builder
            .should_retry_headers(["x-should-retry", "stripe-should-retry"])
            .build()
            .unwrap()
    };
    let policy = RetryPolicy::builder()
        .max_attempts(100.try_into().unwrap())
        .backoff(Backoff::from_fn(|_| Some(Duration::from_millis(1))))
        .no_budget()
        .no_deadline()
        .build()
        .unwrap();
    vec![
        Client::builder(),
        Client::builder().policy(RetryPolicy::immediate(100)),
        Client::builder()
            .policy(policy.clone())
            .contract(contract(Meaning::NotExecuted)),
        Client::builder()
            .policy(policy)
            .contract(contract(Meaning::InProgress)),
        Client::builder().contract(Contract::stripe()),
    ]
}

fn eager_clients() -> impl Iterator<Item = Client> {
    let built = |way: Way| eager().into_iter().map(move |builder| way.build(builder));
    Way::ALL.into_iter().flat_map(built)
}

fn payment(client: &Client, method: &Method, server: &ScriptedServer) -> RequestBuilder {
    let request = client.request(method.clone(), server.url("/payments"));
    if *method == Method::GET || *method == Method::HEAD {
        return request;
    }
    request.body("amount=100")
}

// B13, B25, B33.
#[tokio::test(start_paused = true)]
async fn an_unsafe_request_without_a_key_whose_answer_is_lost_is_sent_once() {
    for client in eager_clients() {
        for method in UNSAFE {
            for (step, failure, kind) in losses() {
                let server = ScriptedServer::new([step]);
                let error = payment(&client, &method, &server).send().await.unwrap_err();
                assert_eq!(
                    error.to_string(),
                    format!(
                        "{failure}; gave up after 1 request: without a key it must not be sent again; the operation may have been executed"
                    )
                );
                assert_eq!((error.kind(), error.effect()), (kind, Effect::Unknown));
                assert_eq!(error.stopped_by(), Some(StoppedBy::UnsafeWithoutKey));
                assert_eq!(
                    story(error.attempts()),
                    [format!("{failure}, maybe processed")]
                );
                assert_eq!((error.key(), error.status()), (None, None));
                assert_eq!(server.connections(), 1);
            }
        }
    }
}

// B13, B33, B34.
#[tokio::test(start_paused = true)]
async fn an_unsafe_request_without_a_key_is_sent_once_whatever_the_answer_says() {
    let hints = [
        ("retry-after", "1"),
        ("x-should-retry", "true"),
        ("stripe-should-retry", "true"),
        ("content-type", "application/problem+json"),
    ];
    let document = |problem: Problem| String::from_utf8(problem.to_bytes().into()).unwrap();
    let unavailable = document(Problem::store_unavailable());
    let running = document(Problem::in_progress());
    for client in eager_clients() {
        for method in UNSAFE {
            for status in [
                400, 408, 409, 417, 422, 429, 500, 501, 502, 503, 504, 511, 599,
            ] {
                for (headers, body) in [
                    (&[][..], ""),
                    (&hints, ""),
                    (&hints, &unavailable),
                    (&hints, &running),
                ] {
                    let server = ScriptedServer::new([Step::reply(status, headers, body)]);
                    let response = payment(&client, &method, &server).send().await.unwrap();
                    assert_eq!(response.status(), status);
                    assert_eq!(response.attempts().len(), 1);
                    assert_eq!(response.replay(), Replay::Unknown);
                    assert!(!response.followed_unknown());
                    assert_eq!(response.text().await.unwrap(), body);
                    server.assert_hits(1);
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_would_be_worth_a_repeat_says_why_there_was_none() {
    for way in Way::ALL {
        for (status, stopped_by, effect) in [
            (500, Some(StoppedBy::UnsafeWithoutKey), Effect::Unknown),
            (504, Some(StoppedBy::UnsafeWithoutKey), Effect::Unknown),
            (408, Some(StoppedBy::UnsafeWithoutKey), Effect::Unknown),
            (429, Some(StoppedBy::UnsafeWithoutKey), Effect::Unknown),
            (409, None, Effect::Answered),
            (422, None, Effect::Answered),
            (501, None, Effect::Answered),
        ] {
            let server = ScriptedServer::new([Step::reply(status, &[], "")]);
            let client = way.client(RetryPolicy::immediate(4));
            let response = payment(&client, &Method::POST, &server)
                .send()
                .await
                .unwrap();
            assert_eq!(response.report().stopped_by(), stopped_by, "{status}");
            let error = response.error_for_status().unwrap_err();
            assert_eq!(
                (error.kind(), error.effect()),
                (ErrorKind::Status, effect),
                "{status}"
            );
        }
    }
}

// B26 and its kind: RFC 8470, section 5.2.
#[tokio::test(start_paused = true)]
async fn too_early_is_repeated_without_a_key() {
    for way in Way::ALL {
        for method in UNSAFE {
            let early = || Step::reply(425, &[], "");
            let server = ScriptedServer::new([early(), early(), Step::reply(201, &[], "")]);
            let client = way.client(RetryPolicy::immediate(4));
            let response = payment(&client, &method, &server).send().await.unwrap();
            assert_eq!(
                story(response.attempts()),
                ["425, not processed", "425, not processed", "201, answered"]
            );
            assert_eq!(server.keys(), [[""; 0]; 3]);
            assert_eq!(server.bodies(), [b"amount=100"; 3]);

            let server = ScriptedServer::always(early());
            let response = payment(&client, &method, &server).send().await.unwrap();
            assert_eq!(response.status(), 425);
            assert_eq!(response.report().stopped_by(), Some(StoppedBy::Attempts));
            server.assert_hits(4);
            let error = response.error_for_status().unwrap_err();
            assert_eq!(error.effect(), Effect::NotExecuted);

            let server =
                ScriptedServer::always(Step::reply(425, &[("x-should-retry", "false")], ""));
            payment(&client, &method, &server).send().await.unwrap();
            server.assert_hits(1);
        }
    }
}

// B33: the connect phase is the one failure that proves it.
#[tokio::test(start_paused = true)]
async fn a_refused_connection_is_repeated_without_a_key_until_somebody_listens() {
    let policy = RetryPolicy::builder()
        .backoff(Backoff::constant(Duration::from_secs(1)))
        .build()
        .unwrap();
    for way in Way::ALL {
        for method in UNSAFE {
            let refused = Refused::new();
            let request = way
                .client(policy.clone())
                .request(method, refused.url("/payments"));
            let sending = tokio::spawn(request.body("amount=100").send());
            tokio::time::sleep(Duration::from_millis(1500)).await;
            let server = ScriptedServer::rising(refused, [Step::reply(201, &[], "")]);
            let response = sending.await.unwrap().unwrap();
            let refusal = "the connection was not made, never sent";
            assert_eq!(
                story(response.attempts()),
                [refusal, refusal, "201, answered"]
            );
            server.assert_hits(1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_always_refused_proves_that_nothing_was_executed() {
    for way in Way::ALL {
        let refused = Refused::new();
        let client = way.client(RetryPolicy::immediate(3));
        let error = client.post(refused.url("/")).send().await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the connection was not made; gave up after 3 requests: all attempts are used up; the operation was not executed"
        );
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Connect, Effect::NotExecuted)
        );
        assert_eq!(error.stopped_by(), Some(StoppedBy::Attempts));
    }
}

// B24: a pooled connection that dies proves nothing.
#[tokio::test(start_paused = true)]
async fn an_unsafe_request_without_a_key_on_a_connection_that_dies_is_sent_once() {
    for way in Way::ALL {
        let server = ScriptedServer::new([Step::keep_alive_then_close_on_next(200, &[], "ok")]);
        let client = way.client(RetryPolicy::immediate(4));
        let first = client.get(server.url("/")).send().await.unwrap();
        assert_eq!(first.text().await.unwrap(), "ok");
        let error = payment(&client, &Method::POST, &server)
            .send()
            .await
            .unwrap_err();
        assert_eq!(
            story(error.attempts()),
            ["the connection closed before an answer, maybe processed"]
        );
        assert_eq!(error.stopped_by(), Some(StoppedBy::UnsafeWithoutKey));
        server.assert_hits(2);
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_method_that_may_be_repeated_is_repeated_without_a_key() {
    for way in Way::ALL {
        let client = way.client(RetryPolicy::immediate(2));
        for method in REPEATABLE {
            let lost = losses().into_iter().map(|(step, ..)| step);
            let lost = lost.chain(
                [408, 425, 429, 500, 502, 503, 504, 599].map(|status| Step::reply(status, &[], "")),
            );
            for step in lost {
                let server = ScriptedServer::new([step.clone(), Step::reply(200, &[], "")]);
                let response = payment(&client, &method, &server).send().await.unwrap();
                assert_eq!(response.status(), 200, "{method} after {step:?}");
                assert_eq!(response.attempts().len(), 2);
                assert!(server.keys().iter().all(Vec::is_empty));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_key_the_last_answer_is_ok_whatever_its_status() {
    for way in Way::ALL {
        let client = way.client(RetryPolicy::immediate(3));
        for (status, hits) in [
            (500, 3),
            (503, 3),
            (408, 3),
            (429, 3),
            (409, 1),
            (501, 1),
            (404, 1),
        ] {
            let server = ScriptedServer::always(Step::reply(status, &[], "why"));
            let response = client.put(server.url("/")).send().await.unwrap();
            assert_eq!(response.status(), status);
            let limit = (hits == 3).then_some(StoppedBy::Attempts);
            assert_eq!(response.report().stopped_by(), limit);
            assert_eq!(response.text().await.unwrap(), "why");
            server.assert_hits(hits);
        }
    }
}

// B32: a server that closes every connection is asked as often as the policy says, on top of nothing.
#[tokio::test(start_paused = true)]
async fn there_is_no_retry_beside_the_policys() {
    for way in Way::ALL {
        for attempts in [1, 3] {
            let client = way.client(RetryPolicy::immediate(attempts));
            for (step, ..) in losses() {
                let server = ScriptedServer::always(step);
                let error = client.put(server.url("/")).send().await.unwrap_err();
                assert_eq!(error.attempts().len(), attempts as usize);
                assert_eq!(server.connections(), attempts as usize);
                let keyed = client
                    .post(server.url("/"))
                    .idempotent()
                    .send()
                    .await
                    .unwrap_err();
                assert_eq!(keyed.attempts().len(), attempts as usize);
                assert_eq!(server.connections(), 2 * attempts as usize);
            }
        }
    }
}
