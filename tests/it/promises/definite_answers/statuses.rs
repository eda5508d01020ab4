//! Every status: which are the answer, and what becomes of those that are not.

use idempotency::{Client, Effect, ErrorKind, Replay, RetryPolicy, StoppedBy};

use super::Came;
use crate::support::{ScriptedServer, Step, client, payment};

/// Statuses that are sent again: another attempt may heal them.
const TRANSIENT: [u16; 7] = [408, 425, 429, 500, 502, 503, 504];

fn is_transient(status: u16) -> bool {
    TRANSIENT.contains(&status) || status >= 512
}

/// A server that answers `/404` with 404.
fn echo() -> ScriptedServer {
    ScriptedServer::answering(|arrival| {
        let status = arrival.target[1..].parse().unwrap();
        Step::reply(status, &[("X-Shop", "1")], body(status))
    })
}

fn body(status: u16) -> String {
    match status {
        // RFC 9110, sections 15.3.5 and 15.4.5: no content.
        204 | 304 => String::new(),
        _ => format!("this is {status}"),
    }
}

fn impatient() -> Client {
    client(&RetryPolicy::immediate(4))
}

// B35, B36, B79.
#[tokio::test]
async fn every_status_is_either_the_answer_or_an_error_with_the_last_answer_inside() {
    let server = echo();
    let client = impatient();
    for status in 200..=599 {
        let before = server.hits();
        let result = payment(&client, server.url(&format!("/{status}")))
            .send()
            .await;
        let hits = server.hits() - before;
        let (response, expected) = match result {
            Ok(response) => {
                let replay = if status == 409 {
                    Replay::Unknown
                } else {
                    Replay::Fresh
                };
                assert_eq!(response.replay(), replay, "{status}");
                let limit = (status == 409).then_some(StoppedBy::Attempts);
                assert_eq!(response.report().stopped_by(), limit, "{status}");
                (response, if status == 409 { 4 } else { 1 })
            }
            Err(error) => {
                assert!(is_transient(status), "{status}");
                assert_eq!(error.kind(), ErrorKind::Status, "{status}");
                let effect = match status {
                    425 => Effect::NotExecuted,
                    _ => Effect::Unknown,
                };
                assert_eq!(error.effect(), effect, "{status}");
                assert_eq!(error.status().map(|s| s.as_u16()), Some(status));
                (error.into_response().unwrap(), 4)
            }
        };
        assert_eq!(hits, expected, "{status}");
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["x-shop"], "1", "{status}");
        assert!(response.is_buffered(), "{status}");
        assert_eq!(response.text().await.unwrap(), body(status), "{status}");
    }
}

#[tokio::test]
async fn without_a_key_every_status_is_the_answer_as_in_reqwest() {
    let server = echo();
    let client = impatient();
    for status in 200..=599 {
        let url = server.url(&format!("/{status}"));
        // RFC 8470, section 5.2: 425 is the one status that proves that nothing happened.
        let posts = if status == 425 { 4 } else { 1 };
        let gets = if is_transient(status) { 4 } else { 1 };
        for (request, hits) in [(client.post(&*url), posts), (client.get(&*url), gets)] {
            let before = server.hits();
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), status);
            assert_eq!(server.hits() - before, hits, "{status}");
            assert_eq!(response.text().await.unwrap(), body(status), "{status}");
        }
    }
}

// B43.
#[tokio::test]
async fn an_error_page_of_a_gateway_is_no_reason_to_fail_in_decoding() {
    let page = "<html><h1>502 Bad Gateway</h1></html>";
    let bad_gateway = Step::reply(502, &[("Content-Type", "text/html")], page);
    let server = ScriptedServer::new([
        bad_gateway.clone(),
        bad_gateway.clone(),
        bad_gateway.clone(),
        bad_gateway,
    ]);
    let result = payment(&impatient(), server.url("/payments")).send().await;
    let expected = Came::Nothing(
        ErrorKind::Status,
        Effect::Unknown,
        StoppedBy::Attempts,
        Some(502),
    );
    assert_eq!(Came::to(&result), expected);
    let response = result.unwrap_err().into_response().unwrap();
    assert_eq!(response.headers()["content-type"], "text/html");
    assert_eq!(response.text().await.unwrap(), page);
    server.assert_one_operation(4);
}
