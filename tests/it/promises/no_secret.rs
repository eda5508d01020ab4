//! No secret leaves, no key travels: nothing that we print, trace or put into an error holds one.

use std::error::Error as StdError;
use std::fmt::{Debug, Write as _};
use std::time::Duration;

use http::{HeaderMap, Method};
use idempotency::{
    Client, Error, IdempotencyKey, IdempotencyMiddleware, IdempotentRequest, Pending,
    RequestBuilder, RequestBuilderExt as _, Response, RetryPolicy,
};

use crate::support::{Captured, End, Refused, ScriptedServer, Step};

/// In every secret: user-info, query, fragment, header values, bodies of both sides, and the key.
const SECRET: &str = "hunter2";

fn key() -> IdempotencyKey {
    IdempotencyKey::parse("key-hunter2").unwrap()
}

fn client() -> Client {
    let mut headers = HeaderMap::new();
    headers.insert("x-tenant", SECRET.parse().unwrap());
    Client::builder()
        .reqwest(Client::reqwest_defaults().no_proxy())
        .policy(RetryPolicy::immediate(2))
        .default_headers(headers)
        .build()
        .unwrap()
}

/// A URL with everything that a URL can hide.
fn secret_url(url: &str) -> String {
    let url = url.replace("://", "://u:hunter2@");
    format!("{url}?sig=hunter2#hunter2")
}

fn request(client: &Client, method: Method, url: &str) -> RequestBuilder {
    client
        .request(method, secret_url(url))
        .header("x-api-key", SECRET)
        .body("card=hunter2")
}

/// Both forms of an error and of everything below it.
fn everything(error: &dyn StdError) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(cause) = source {
        write!(text, "\ncaused by {cause} {cause:?} {cause:#?}").unwrap();
        source = cause.source();
    }
    text
}

#[track_caller]
fn assert_silent(text: &str, what: impl Debug) {
    assert!(!text.contains(SECRET), "{what:?} shows a secret:\n{text}");
}

fn faults() -> Vec<Step> {
    let location = [("location", "/other?sig=hunter2")];
    let cookie = [
        ("set-cookie", "session=hunter2"),
        ("www-authenticate", "hunter2"),
    ];
    vec![
        Step::reply(201, &cookie, "iban=hunter2"),
        Step::reply(503, &cookie, "iban=hunter2"),
        Step::reply(401, &cookie, "iban=hunter2"),
        Step::reply(409, &cookie, "{\"error\":\"hunter2\"}"),
        Step::reply(422, &cookie, "{\"error\":\"hunter2\"}"),
        Step::reply(429, &[("retry-after", "3600"), ("x-limit", SECRET)], ""),
        Step::reply(303, &location, ""),
        Step::reply(307, &location, ""),
        Step::reply(
            302,
            &[("location", "ftp://u:hunter2@127.0.0.1/?sig=hunter2")],
            "",
        ),
        Step::reply(
            302,
            &[("location", "http://u:hunter2@127.0.0.1:1/?sig=hunter2")],
            "",
        ),
        Step::read_then_close(),
        Step::read_then_reset(),
        Step::half_status_line(),
        Step::garbage("hunter2"),
        Step::garbage("HTTP/1.1 hunter2\r\n\r\n"),
        Step::raw(
            "HTTP/1.1 200 OK\r\nx: hunter2\r\n: hunter2\r\n\r\n",
            End::Close,
        ),
        Step::raw(
            "HTTP/1.1 200 OK\r\ncontent-length: hunter2\r\n\r\n",
            End::Close,
        ),
        Step::raw(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nhunter2\r\n",
            End::Close,
        ),
        Step::cut_fixed(201, 100, 10),
        Step::cut_chunked(201, &["hunter2"]),
        Step::stall_before_headers(),
        Step::stall_in_body(201, 100, 10),
        Step::reply(
            201,
            &[("content-type", "text/event-stream")],
            "data: hunter2\n\n",
        ),
    ]
}

/// What can be seen of a result, and of what can be made of it.
async fn shown(sent: Result<Response, Error>) -> String {
    let response = match sent {
        Ok(response) => response,
        Err(error) => {
            let mut text = everything(&error);
            write!(text, "{:?}", error.report()).unwrap();
            match error.into_response() {
                Some(response) => response,
                None => return text,
            }
        }
    };
    let mut text = format!("{response:?} {:?}", response.report());
    for attempt in response.attempts() {
        write!(text, "{attempt} {attempt:?}").unwrap();
    }
    let response = match response.error_for_status() {
        Ok(response) => response,
        Err(error) => {
            text += &everything(&error);
            error.into_response().unwrap()
        }
    };
    if let Err(error) = response.json::<()>().await {
        text += &everything(&error);
    }
    text
}

/// What this crate has traced. The lines of the crates below are their own: hyper-util shows the user-info of a redirect.
#[track_caller]
fn assert_traced_silently(traced: &Captured, what: impl Debug) {
    let text = traced.text_of("idempotency");
    assert!(text.contains("event "), "{what:?} was not traced");
    assert_silent(&text, what);
}

/// B80
#[tokio::test(start_paused = true)]
async fn no_failure_shows_a_secret() {
    let client = client();
    let traced = Captured::start();
    for step in faults() {
        let server = ScriptedServer::always(step.clone());
        let url = server.url("/orders");
        for method in [Method::GET, Method::POST] {
            let sent = request(&client, method, &url).send().await;
            assert_silent(&shown(sent).await, &step);
        }
        let operation = request(&client, Method::POST, &url).idempotent_with(key());
        assert_silent(&format!("{operation:?}"), "the operation");
        assert_silent(&shown(operation.send().await).await, &step);
        let streamed = request(&client, Method::POST, &url)
            .idempotent_with(key())
            .stream_answer();
        assert_silent(&shown(streamed.send().await).await, &step);
        assert_traced_silently(&traced, &step);
        assert!(
            traced.text().contains(&key().digest().to_string()),
            "the digest is there"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_request_that_never_went_out_shows_a_secret() {
    let client = client();
    let traced = Captured::start();
    let refused = Refused::new();
    let url = refused.url("/orders");
    let sent = request(&client, Method::POST, &url)
        .idempotent_with(key())
        .send()
        .await;
    let text = shown(sent).await;
    assert_silent(&text, "refused");
    assert!(text.contains(&key().digest().to_string()), "{text}");
    let tls = url.replace("http:", "https:");
    let sent = request(&client, Method::POST, &tls)
        .idempotent()
        .send()
        .await;
    assert_silent(&shown(sent).await, "refused, TLS");
    let name = "http://nope.invalid:1/orders".to_owned();
    drop(request(&client, Method::POST, &name));

    let post = || request(&client, Method::POST, &url);
    let header = "idempotency-key";
    for bad in [
        post().header("x-api-key", "hunter2\n"),
        post().header("hunter2\n", "x"),
        post().header(header, SECRET).header(header, SECRET),
        post().header(header, "\"hunter2"),
        post().header(header, SECRET.repeat(40)),
        post().header("content-length", "1"),
        post().json(&Unserializable),
        client.post("shop.example/?sig=hunter2"),
        client.post("http://u:hunter2@:80/?sig=hunter2"),
        client.post("http://u:hunter2@host:99999/?sig=hunter2#hunter2"),
        client.post("ftp://u:hunter2@host/?sig=hunter2"),
        // A password that should have been encoded and now ends the authority.
        client.post("http://u:hunter2?@host/"),
        client.post("http://u:hunter2#@host/"),
        client.post("http://u:hunter2/@host/"),
        client.post("http:/\\u:hunter2@ho st/"),
    ] {
        assert_silent(&format!("{bad:?}"), "the builder");
        let operation = bad.idempotent_with(key());
        assert_silent(&format!("{operation:?}"), "the operation");
        let error = operation.send().await.unwrap_err();
        // A relative URL has neither user-info nor query before its `?`.
        let text = everything(&error).replace("hunter2.example", "");
        assert_silent(&text, "the error");
        if let Err(error) = operation.to_pending() {
            assert_silent(
                &everything(&error).replace("hunter2.example", ""),
                "no pending",
            );
        }
    }
    assert_traced_silently(&traced, "all of them");
}

/// Its `Serialize` fails, as that of a map with keys that are no strings.
struct Unserializable;

impl serde::Serialize for Unserializable {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(&[SECRET], SECRET)?;
        map.end()
    }
}

#[test]
fn no_value_shows_a_secret() {
    let client = client();
    assert_silent(&format!("{client:?} {client:#?}"), "the client");
    let mut headers = HeaderMap::new();
    headers.insert("x-tenant", SECRET.parse().unwrap());
    let builder = Client::builder().default_headers(headers);
    assert_silent(&format!("{builder:?}"), "the client's builder");
    let url = secret_url("http://127.0.0.1:1/orders");
    let endpoint = client
        .endpoint(Method::POST, &url)
        .unwrap()
        .header("x-api-key", SECRET)
        .unwrap();
    assert_silent(&format!("{endpoint:?}"), "the endpoint");
    let request = endpoint.request().body(SECRET);
    assert_silent(&format!("{request:?}"), "the request");
    let operation: IdempotentRequest = request.idempotent_with(key());
    assert_silent(&format!("{operation:?}"), "the operation");
    let pending: Pending = operation.to_pending().unwrap();
    assert_silent(
        &format!("{pending:?} {pending:#?}"),
        "the pending operation",
    );
    assert_silent(&format!("{:?} {}", key(), key().digest()), "the key");
    let middleware = IdempotencyMiddleware::new().key_source(idempotency::KeySource::fixed(key()));
    assert_silent(&format!("{middleware:?}"), "the middleware");
    let error = endpoint.header("x-api-key", "hunter2\n").unwrap_err();
    assert_silent(&everything(&error), "the endpoint's error");
    let error = pending.with_header("x-api-key", "hunter2\n").unwrap_err();
    assert_silent(&everything(&error), "the pending operation's error");
}

/// A key that is not one does not come back in the error either.
#[test]
fn no_refused_key_is_shown() {
    for text in [
        "hunter2 ",
        "hunter2\n",
        "hunter2\u{e9}",
        &"hunter2".repeat(40),
    ] {
        let error = IdempotencyKey::parse(text).unwrap_err();
        assert_silent(&everything(&error), text.len());
        let json = serde_json::to_string(text).unwrap();
        let error = serde_json::from_str::<IdempotencyKey>(&json).unwrap_err();
        assert_silent(&everything(&error), "as JSON");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_dropped_in_flight_shows_no_secret() {
    let client = client();
    let traced = Captured::start();
    let server = ScriptedServer::always(Step::stall_before_headers());
    let operation = request(&client, Method::POST, &server.url("/orders")).idempotent_with(key());
    let dropped = tokio::time::timeout(Duration::from_secs(1), operation.send()).await;
    assert!(dropped.is_err());
    assert_traced_silently(&traced, "dropped");
    assert!(traced.text().contains(&key().digest().to_string()));
}

/// In somebody else's stack, whose client and whose errors are reqwest's.
#[tokio::test(start_paused = true)]
async fn no_failure_in_a_foreign_stack_shows_a_secret() {
    let traced = Captured::start();
    for transparent in [false, true] {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let ours = IdempotencyMiddleware::new().policy(RetryPolicy::immediate(2));
        let ours = if transparent {
            ours.transparent()
        } else {
            ours
        };
        let stack = reqwest_middleware::ClientBuilder::new(http)
            .with(ours)
            .build();
        for step in faults() {
            let server = ScriptedServer::always(step.clone());
            let request = stack
                .post(secret_url(&server.url("/orders")))
                .header("x-api-key", SECRET)
                .body(SECRET)
                .idempotent_with(key());
            if let Err(error) = request.send().await {
                assert_silent(&everything(&error), &step);
            }
            assert_traced_silently(&traced, &step);
        }
    }
}

/// The header that carries the key is marked: whatever prints headers is told.
#[tokio::test(start_paused = true)]
async fn the_keys_header_is_marked_sensitive() {
    struct Looking;

    #[async_trait::async_trait]
    impl reqwest_middleware::Middleware for Looking {
        async fn handle(
            &self,
            request: reqwest::Request,
            extensions: &mut http::Extensions,
            next: reqwest_middleware::Next<'_>,
        ) -> reqwest_middleware::Result<reqwest::Response> {
            assert!(request.headers()["idempotency-key"].is_sensitive());
            assert_silent(
                &format!("{:?} {extensions:?}", request.headers()),
                "an attempt",
            );
            next.run(request, extensions).await
        }
    }

    let server = ScriptedServer::always(Step::reply(200, &[], ""));
    let client = Client::builder()
        .reqwest(Client::reqwest_defaults().no_proxy())
        .attempt_middleware(Looking)
        .build()
        .unwrap();
    let post = || client.post(server.url("/orders"));
    post().idempotent().send().await.unwrap();
    post().idempotent_with(key()).send().await.unwrap();
    post()
        .header("idempotency-key", key().as_str())
        .send()
        .await
        .unwrap();
    server.assert_hits(3);
}
