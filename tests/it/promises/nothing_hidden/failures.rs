//! One error of every kind, made on the wire.

use std::convert::Infallible;
use std::num::NonZeroU32;

use bytes::Bytes;
use futures_util::stream;
use http::Extensions;
use http_body::Frame;
use http_body_util::StreamBody;
use idempotency::{Client, Contract, Error, KeySource, Response, RetryPolicy};
use reqwest::{Body, Request};
use reqwest_middleware::{Middleware, Next};

use crate::support::{
    H2Server, H2Step, Handshake, Refused, ScriptedServer, Step, TlsServer, client, ms, payment,
    steady,
};

/// The key of all these operations.
pub(super) const KEY: &str = "order-17";

/// Two attempts, so that messages can say how many.
fn twice() -> RetryPolicy {
    let two = NonZeroU32::MIN.saturating_add(1);
    steady().max_attempts(two).build().unwrap()
}

fn fixed() -> idempotency::ClientBuilder {
    let keys = KeySource::fixed(KEY.parse().unwrap());
    Client::builder().policy(twice()).key_source(keys)
}

fn two() -> Client {
    fixed().build().unwrap()
}

async fn against(step: Step) -> Error {
    let server = ScriptedServer::always(step);
    let operation = payment(&two(), server.url("/payments"));
    operation.send().await.unwrap_err()
}

async fn answered(step: Step) -> Response {
    let server = ScriptedServer::always(step);
    let operation = payment(&two(), server.url("/payments"));
    operation.send().await.unwrap()
}

pub(super) async fn builder() -> Error {
    let request = two().post("http://127.0.0.1/").header("bad", "a\nb");
    request.idempotent().send().await.unwrap_err()
}

pub(super) async fn key() -> Error {
    let request = two()
        .post("http://127.0.0.1/")
        .header("Idempotency-Key", "another");
    let given = request.idempotent_with(KEY.parse().unwrap());
    given.send().await.unwrap_err()
}

pub(super) async fn contract() -> Error {
    let put = two().put("http://127.0.0.1/").idempotent();
    let put = put.contract(Contract::ietf_draft());
    put.send().await.unwrap_err()
}

pub(super) async fn request_body() -> Error {
    let frames: [Result<Frame<Bytes>, _>; 1] = [Err("the file was removed")];
    let body = Body::wrap(StreamBody::new(stream::iter(frames)));
    let request = two().post("http://127.0.0.1/").body(body);
    request.idempotent().send().await.unwrap_err()
}

pub(super) async fn late_body() -> Error {
    let frames = stream::pending::<Result<Frame<Bytes>, Infallible>>();
    let request = two()
        .post("http://127.0.0.1/")
        .body(Body::wrap(StreamBody::new(frames)));
    request.idempotent().send().await.unwrap_err()
}

pub(super) async fn connect() -> Error {
    let nobody = Refused::new();
    let operation = payment(&two(), nobody.url("/payments"));
    operation.send().await.unwrap_err()
}

pub(super) async fn certificate() -> Error {
    let server = TlsServer::new([Handshake::Expired]);
    let operation = payment(&two(), server.url("/payments"));
    operation.send().await.unwrap_err()
}

pub(super) async fn refused() -> Error {
    let server = H2Server::always(H2Step::refuse_stream());
    let http2 = Client::reqwest_defaults().http2_prior_knowledge();
    let client = fixed().reqwest(http2).build().unwrap();
    let operation = payment(&client, server.url("/payments"));
    operation.send().await.unwrap_err()
}

pub(super) async fn timeout() -> Error {
    against(Step::stall_before_headers()).await
}

pub(super) async fn deadline() -> Error {
    let server = ScriptedServer::always(Step::stall_before_headers());
    let operation = payment(&two(), server.url("/payments")).deadline(ms(500));
    operation.send().await.unwrap_err()
}

pub(super) async fn connection() -> Error {
    against(Step::read_then_close()).await
}

pub(super) async fn protocol() -> Error {
    against(Step::garbage("SSH-2.0-server\r\n\r\n")).await
}

/// Only requests that carry no operation are redirected so far.
pub(super) async fn redirect() -> Error {
    let server = ScriptedServer::always(Step::reply(302, &[("Location", "/again")], ""));
    let request = two().get(server.url("/again"));
    request.send().await.unwrap_err()
}

pub(super) async fn middleware() -> Error {
    struct Broken;

    #[async_trait::async_trait]
    impl Middleware for Broken {
        async fn handle(
            &self,
            _: Request,
            _: &mut Extensions,
            _: Next<'_>,
        ) -> reqwest_middleware::Result<reqwest::Response> {
            Err(reqwest_middleware::Error::middleware(std::fmt::Error))
        }
    }

    let client = fixed().attempt_middleware(Broken).build().unwrap();
    let operation = payment(&client, "http://127.0.0.1/".to_owned());
    operation.send().await.unwrap_err()
}

pub(super) async fn status() -> Error {
    against(Step::reply(503, &[], "busy")).await
}

pub(super) async fn budget() -> Error {
    let server = ScriptedServer::always(Step::reply(503, &[], "busy"));
    let none = idempotency::RetryBudget::new(0, 0);
    let policy = twice().to_builder().budget(none).build().unwrap();
    let operation = payment(&client(&policy), server.url("/payments"));
    operation.send().await.unwrap_err()
}

pub(super) async fn error_for_status() -> Error {
    let response = answered(Step::reply(404, &[], "")).await;
    response.error_for_status().unwrap_err()
}

pub(super) async fn in_progress() -> Error {
    let in_use = r#"{"error":{"code":"idempotency_key_in_use"}}"#;
    against(Step::reply(409, &[("Retry-After", "3600")], in_use)).await
}

pub(super) async fn mismatch() -> Error {
    let reused = r#"{"error":{"type":"idempotency_error"}}"#;
    let response = answered(Step::reply(400, &[], reused)).await;
    response.error_for_status().unwrap_err()
}

pub(super) async fn decode() -> Error {
    let response = answered(Step::reply(201, &[], "<html>")).await;
    response.json::<serde_json::Value>().await.unwrap_err()
}

pub(super) async fn body() -> Error {
    let server = ScriptedServer::always(Step::cut_fixed(201, 100, 40));
    let small = twice().to_builder().response_buffer(10).build().unwrap();
    let operation = payment(&client(&small), server.url("/payments"));
    operation.send().await.unwrap().bytes().await.unwrap_err()
}
