//! For SDKs that decode error bodies and errors by themselves.

use idempotency::{Effect, ErrorKind, Replay, Report, RequestBuilderExt as _, StoppedBy};
use reqwest_middleware::{ClientWithMiddleware, Error};

use super::{our_error, ours, stack};
use crate::support::{Refused, ScriptedServer, Step};

fn transparent(attempts: u32) -> ClientWithMiddleware {
    stack().with(ours(attempts).transparent()).build()
}

#[tokio::test(start_paused = true)]
async fn the_last_answer_is_handed_back_with_the_report() {
    let server = ScriptedServer::always(Step::json(503, &serde_json::json!({"code": "busy"})));
    let request = transparent(3)
        .post(server.url("/orders"))
        .body("x")
        .idempotent();
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(response.url().as_str(), server.url("/orders"));
    let report = Report::of(&response).unwrap().clone();
    assert_eq!(report.stopped_by(), Some(StoppedBy::Attempts));
    assert_eq!(
        (report.attempts().len(), report.replay()),
        (3, Replay::Unknown)
    );
    assert_eq!(
        report.idempotency_key().unwrap().as_str(),
        server.assert_one_operation(3)
    );
    let body: serde_json::Value = response.json().await.unwrap();
    assert_eq!(body["code"], "busy");
}

/// B79, B80: reqwest's own predicates keep working, and the URL with its secrets is gone.
#[tokio::test(start_paused = true)]
async fn a_transport_error_stays_reqwests_without_its_url() {
    let refused = Refused::new();
    let url = refused
        .url("/orders?sig=secret")
        .replace("//", "//u:secret@");
    let error = transparent(2)
        .post(&url)
        .body("x")
        .idempotent()
        .send()
        .await
        .unwrap_err();
    let Error::Reqwest(error) = error else {
        panic!("wrapped: {error:?}");
    };
    assert!(error.is_connect());
    assert_eq!(error.url(), None);
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("secret"), "{shown}");

    let server = ScriptedServer::always(Step::cut_fixed(200, 100, 10));
    let error = transparent(2)
        .post(server.url("/?sig=secret"))
        .idempotent()
        .send()
        .await
        .unwrap_err();
    let Error::Reqwest(error) = error else {
        panic!("wrapped: {error:?}");
    };
    assert_eq!(error.url(), None);
    server.assert_one_operation(2);
}

/// Where there is neither an answer nor an error of the transport's, ours says what happened.
#[tokio::test(start_paused = true)]
async fn what_only_we_know_stays_our_error() {
    let server = ScriptedServer::always(Step::stall_before_headers());
    let error = transparent(2)
        .post(server.url("/orders"))
        .idempotent()
        .send()
        .await
        .unwrap_err();
    let error = our_error(&error);
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Timeout, Effect::Unknown)
    );
    assert_eq!(error.attempts().len(), 2);

    let request = transparent(2)
        .post(server.url("/orders"))
        .header("idempotency-key", "");
    let error = request.send().await.unwrap_err();
    assert_eq!(our_error(&error).kind(), ErrorKind::Key);
    server.assert_hits(2);
}

/// Not transparent: the error is ours, and the last answer is in it.
#[tokio::test(start_paused = true)]
async fn otherwise_the_error_is_ours_inside_the_stacks() {
    let server = ScriptedServer::always(Step::reply(503, &[], "busy"));
    let client = stack().with(ours(2)).build();
    let error = client
        .post(server.url("/orders"))
        .idempotent()
        .send()
        .await
        .unwrap_err();
    assert!(
        error.is_middleware() && !error.is_status(),
        "the stack's predicates cannot see through"
    );
    let error = our_error(&error);
    assert_eq!(
        (error.kind(), error.status()),
        (
            ErrorKind::Status,
            Some(http::StatusCode::SERVICE_UNAVAILABLE)
        )
    );
    assert!(error.response().is_some());
    let plain = Error::middleware(std::io::Error::other("x"));
    assert!(idempotency::Error::from_middleware(&plain).is_none());
}
