//! What is wrong before the first attempt: named, final, and nothing is sent.

use http::{HeaderMap, HeaderValue, Method};
use idempotency::{
    Client, ClientBuilder, Contract, Effect, Error, ErrorKind, IdempotencyKey, Pending, RetryPolicy,
};
use serde_json::{Value, json};

use crate::support::{ScriptedServer, Step};

fn builder() -> ClientBuilder {
    Client::builder()
        .reqwest(Client::reqwest_defaults().no_proxy())
        .policy(RetryPolicy::immediate(3))
}

fn client() -> Client {
    builder().build().unwrap()
}

/// Nothing was sent, nothing will be, and a retry cannot help.
#[track_caller]
fn assert_refused(error: &Error, kind: ErrorKind) {
    assert_eq!(
        (error.kind(), error.effect()),
        (kind, Effect::NotExecuted),
        "{error:?}"
    );
    assert!(error.attempts().is_empty(), "{error:?}");
    assert!(
        error.is_builder() && error.response().is_none(),
        "{error:?}"
    );
}

/// B72: the error shows the value, without what may be secret in it.
#[tokio::test(start_paused = true)]
async fn a_bad_url_is_named() {
    let client = client();
    let not_http = "the scheme is neither http nor https";
    for (url, shown, why) in [
        ("", "", "relative URL without a base"),
        ("orders", "orders", "relative URL without a base"),
        ("/orders", "/orders", "relative URL without a base"),
        (
            "//host/orders",
            "//host/orders",
            "relative URL without a base",
        ),
        ("http://", "http://", "empty host"),
        ("http:///", "http:///", "empty host"),
        (
            "http://host:port/",
            "http://host:port/",
            "invalid port number",
        ),
        (
            "http://host:65536/",
            "http://host:65536/",
            "invalid port number",
        ),
        (
            "http://ho st/",
            "http://ho st/",
            "invalid international domain name",
        ),
        ("http://[::1/", "http://[::1/", "invalid IPv6 address"),
        (
            "http://1.2.3.256/",
            "http://1.2.3.256/",
            "invalid IPv4 address",
        ),
        ("ftp://host/x", "ftp://host/x", not_http),
        ("localhost:8080", "localhost:8080", not_http),
        ("mailto:a@b", "...@b", not_http),
        ("file:///etc/passwd", "file:///etc/passwd", not_http),
        ("ftp://u:pw@host/x?q=1#f", "ftp://...@host/x", not_http),
        (
            "http://u:pw@host:port/x?q=1",
            "http://...@host:port/x",
            "invalid port number",
        ),
        (
            "http://u:p@w@host:port/",
            "http://...@host:port/",
            "invalid port number",
        ),
        ("orders?q=1", "orders", "relative URL without a base"),
        // A password that should have been encoded and now ends the authority.
        ("http://u:p?w@host/x", "http://...", "invalid port number"),
        ("http://u:p#w@host/x", "http://...", "invalid port number"),
        ("ftp://host?mail=a@b", "ftp://host/", not_http),
        (
            "http://host:port?mail=a@b",
            "http://...",
            "invalid port number",
        ),
        (
            "http://host:port/?mail=a@b",
            "http://host:port/",
            "invalid port number",
        ),
    ] {
        let expected = format!("bad URL {shown:?}: {why}; the operation was not executed");
        for error in [
            client.post(url).send().await.unwrap_err(),
            client
                .post(url.to_owned())
                .idempotent()
                .send()
                .await
                .unwrap_err(),
            client.endpoint(Method::POST, url).unwrap_err(),
        ] {
            assert_refused(&error, ErrorKind::Builder);
            assert_eq!(error.to_string(), expected, "{url:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_url_that_is_no_http_is_named_as_a_value_too() {
    let url: reqwest::Url = "ftp://u:pw@host/x?q=1".parse().unwrap();
    let error = client().post(&url).idempotent().send().await.unwrap_err();
    assert_refused(&error, ErrorKind::Builder);
    assert_eq!(
        error.to_string(),
        r#"bad URL "ftp://...@host/x": the scheme is neither http nor https; the operation was not executed"#
    );
}

/// Not the whole of it, in an error and a log.
#[tokio::test(start_paused = true)]
async fn a_very_long_bad_url_is_cut() {
    let long = "x".repeat(10 * 1024);
    let error = client().post(&long).send().await.unwrap_err();
    let expected = format!(
        "bad URL {:?}: relative URL without a base; the operation was not executed",
        &long[..200]
    );
    assert_eq!(error.to_string(), expected);
    let wide = "\u{e9}".repeat(10 * 1024);
    assert!(
        client()
            .post(&wide)
            .send()
            .await
            .unwrap_err()
            .to_string()
            .len()
            < 1000
    );
}

/// reqwest takes the URL, and finds out when it sends it. Nothing leaves then either.
#[tokio::test(start_paused = true)]
async fn a_url_that_is_too_long_to_send_is_final() {
    let server = ScriptedServer::new([]);
    let url = server.url(&format!("/{}", "x".repeat(70_000)));
    for keyed in [true, false] {
        let request = client().post(&url).body("x");
        let sent = if keyed {
            request.idempotent().send().await
        } else {
            request.send().await
        };
        let error = sent.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Builder, Effect::NotExecuted)
        );
        assert_eq!(error.attempts().len(), 1, "{error:?}");
        assert!(error.to_string().len() < 200);
    }
    assert_eq!(server.connections(), 0);
    let long = ScriptedServer::new([Step::reply(200, &[], "")]);
    let url = long.url(&format!("/{}", "x".repeat(10 * 1024)));
    client().post(&url).idempotent().send().await.unwrap();
}

/// B72, B10
#[tokio::test(start_paused = true)]
async fn a_bad_header_is_final() {
    let server = ScriptedServer::new([]);
    let client = client();
    let post = || client.post(server.url("/orders")).body("x");
    let huge = "x".repeat(70_000);
    for (name, value) in [
        ("x y", "1"),
        ("", "1"),
        ("x\n", "1"),
        ("x\u{e9}", "1"),
        (":path", "1"),
        ("x", "a\nb"),
        ("x", "a\rb"),
        ("x", "\0"),
        ("x", "\u{7f}"),
        (&*huge, "1"),
    ] {
        let error = post().header(name, value).idempotent().send().await;
        let Err(error) = error else {
            panic!("{:.20?}: {:.20?} is no bad header", name, value);
        };
        assert_refused(&error, ErrorKind::Builder);
        assert_eq!(
            error.to_string(),
            "the request could not be built; the operation was not executed"
        );
        assert!(std::error::Error::source(&error).is_some());
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn more_headers_than_a_request_can_have_are_refused() {
    let server = ScriptedServer::new([]);
    let mut request = client().post(server.url("/orders"));
    for number in 0..24_001 {
        request = request.header(format!("x-{number}"), "1");
    }
    let error = request.idempotent().send().await.unwrap_err();
    assert_refused(&error, ErrorKind::Builder);
    assert_eq!(
        error.to_string(),
        "more than 24000 headers: leave `x-24000` out; the operation was not executed"
    );
    assert_eq!(server.connections(), 0);
}

/// Its maps have keys that JSON does not have.
struct Unserializable;

impl serde::Serialize for Unserializable {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([([1], 2)])
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_or_query_that_does_not_serialize_is_final() {
    let server = ScriptedServer::new([]);
    let client = client();
    let post = || client.post(server.url("/orders"));
    for request in [
        post().json(&Unserializable),
        post().form(&Unserializable),
        post().query(&Unserializable),
        post().query(&"no pairs"),
    ] {
        let operation = request.idempotent();
        let error = operation.send().await.unwrap_err();
        assert_refused(&error, ErrorKind::Builder);
        assert_eq!(error.key(), operation.key());
        assert!(
            operation.key().is_some(),
            "a faulty operation has its key all the same"
        );
        let again = operation.send().await.unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
        assert_eq!(
            operation.to_pending().unwrap_err().to_string(),
            error.to_string()
        );
    }
    assert_eq!(server.connections(), 0);
}

/// B20
#[tokio::test(start_paused = true)]
async fn a_length_that_contradicts_the_body_is_refused() {
    let server = ScriptedServer::new([]);
    let client = client();
    for (length, body) in [
        ("1", "xx"),
        ("3", "xx"),
        ("x", "xx"),
        ("-2", "xx"),
        ("+2", "xx"),
        (" 2", "xx"),
        ("1", ""),
    ] {
        let request = client
            .post(server.url("/"))
            .header("content-length", length)
            .body(body);
        let error = request.idempotent().send().await;
        let Err(error) = error else {
            panic!("{length:?} of {body:?}");
        };
        assert_refused(&error, ErrorKind::Builder);
        let expected = format!(
            "the header content-length says {length:?} and the body has {} bytes: leave the header out; the operation was not executed",
            body.len()
        );
        assert_eq!(error.to_string(), expected);
    }
    let twice = client.post(server.url("/")).body("xx");
    let twice = twice
        .header("content-length", "2")
        .header("content-length", "3");
    let error = twice.idempotent().send().await.unwrap_err();
    assert_refused(&error, ErrorKind::Builder);
    assert!(error.to_string().contains(r#"says "3" and"#), "{error}");
    assert_eq!(server.connections(), 0);
    let server = ScriptedServer::new([Step::reply(200, &[], "")]);
    let right = client
        .post(server.url("/"))
        .header("content-length", "2")
        .body("xx");
    right.idempotent().send().await.unwrap();
    assert_eq!(server.bodies(), [b"xx"]);
}

#[test]
fn an_endpoint_refuses_bad_headers_at_once() {
    let endpoint = client()
        .endpoint(Method::POST, "http://host/orders")
        .unwrap();
    let error = endpoint.clone().header("x y", "1").unwrap_err();
    assert_refused(&error, ErrorKind::Builder);
    assert_eq!(
        error.to_string(),
        "bad header name; the operation was not executed"
    );
    let error = endpoint.header("x", "a\nb").unwrap_err();
    assert_refused(&error, ErrorKind::Builder);
    assert_eq!(
        error.to_string(),
        "bad header value for `x`; the operation was not executed"
    );
}

/// B08: one key would serve every operation.
#[test]
fn a_client_refuses_a_key_among_its_default_headers() {
    let mut headers = HeaderMap::new();
    headers.insert("Idempotency-Key", HeaderValue::from_static("k-1"));
    let error = builder().default_headers(headers).build().unwrap_err();
    assert_refused(&error, ErrorKind::Key);
    assert_eq!(
        error.to_string(),
        "the default headers hold `idempotency-key`: a key belongs to one operation, so it cannot be on every request; the operation was not executed"
    );
}

/// B08: so would one that only the operation's own contract reads as a key.
#[tokio::test(start_paused = true)]
async fn an_operation_refuses_a_key_among_the_default_headers() {
    let server = ScriptedServer::new([]);
    let mut headers = HeaderMap::new();
    headers.insert("X-Order-Key", HeaderValue::from_static("k-1"));
    let client = builder().default_headers(headers).build().unwrap();
    let contract = Contract::builder("shop").header("X-Order-Key").build();
    let request = client.post(server.url("/orders")).body("x").idempotent();
    let error = request.contract(contract.unwrap()).send().await;
    let error = error.unwrap_err();
    assert_refused(&error, ErrorKind::Key);
    assert_eq!(
        error.to_string(),
        "the default headers hold `x-order-key`: a key belongs to one operation, so it cannot be on every request; the operation was not executed"
    );
    assert_eq!(server.connections(), 0);
}

#[test]
fn settings_that_reqwest_refuses_are_refused() {
    let agent = reqwest::Client::builder().user_agent("a\nb");
    let error = Client::builder().reqwest(agent).build().unwrap_err();
    assert_refused(&error, ErrorKind::Builder);
    assert_eq!(
        error.to_string(),
        "the HTTP client could not be built; the operation was not executed"
    );
}

/// An operation as it was saved, to be damaged.
fn saved() -> Value {
    let operation = client()
        .post("http://127.0.0.1:1/orders")
        .header("x-tenant", "7")
        .body("amount=100")
        .idempotent_with(IdempotencyKey::parse("k-1").unwrap());
    serde_json::to_value(operation.to_pending().unwrap()).unwrap()
}

/// What can be read back is checked when it is taken up, and nothing is sent. The key may have been sent before it was saved, so
/// nothing is proven.
#[tokio::test(start_paused = true)]
async fn a_saved_operation_with_a_damaged_field_is_refused() {
    for (field, value, message) in [
        (
            "method",
            json!("PO ST"),
            "the saved operation has a bad method",
        ),
        ("method", json!(""), "the saved operation has a bad method"),
        ("url", json!("orders"), "the saved operation has a bad URL"),
        ("url", json!(""), "the saved operation has a bad URL"),
        (
            "url",
            json!("ftp://host/"),
            "the saved operation has a bad URL",
        ),
        (
            "headers",
            json!([["x y", {"text": "1"}]]),
            "the saved operation has a bad header name",
        ),
        (
            "headers",
            json!([["x", {"text": "a\nb"}]]),
            "the saved operation has a bad header value",
        ),
        (
            "headers",
            json!([["x", {"bytes": [0]}]]),
            "the saved operation has a bad header value",
        ),
    ] {
        let mut saved = saved();
        saved[field] = value.clone();
        let pending: Pending = serde_json::from_value(saved).unwrap();
        let operation = client().resume(&pending);
        let error = operation.send().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Builder, Effect::Unknown),
            "{value}"
        );
        assert_eq!(
            error.to_string(),
            format!("{message}; the operation may have been executed")
        );
        assert!(error.attempts().is_empty());
        assert_eq!(error.key(), Some(pending.key()));
    }
}

/// The wrong shape, or a key that is none, is refused when it is read.
#[test]
fn a_saved_operation_of_the_wrong_shape_cannot_be_read() {
    for (field, value) in [
        ("key", json!("")),
        ("key", json!("a b")),
        ("key", json!("x".repeat(256))),
        ("key", json!(7)),
        ("url", json!(7)),
        ("headers", json!({"x": "1"})),
        ("body", json!({"text": 7})),
        ("body", json!({"bytes": [256]})),
        ("first_sent", json!("yesterday")),
    ] {
        let mut saved = saved();
        saved[field] = value.clone();
        assert!(
            serde_json::from_value::<Pending>(saved).is_err(),
            "{field}: {value}"
        );
    }
    for field in ["method", "url", "headers", "key"] {
        let mut saved = saved();
        saved.as_object_mut().unwrap().remove(field);
        assert!(
            serde_json::from_value::<Pending>(saved).is_err(),
            "without {field}"
        );
    }
}

/// A saved operation whose headers hold another key is not sent under two.
#[tokio::test(start_paused = true)]
async fn a_saved_operation_with_another_key_among_its_headers_is_refused() {
    let mut saved = saved();
    saved["headers"] = json!([["idempotency-key", {"text": "k-2"}]]);
    let pending: Pending = serde_json::from_value(saved).unwrap();
    let error = client().resume(&pending).send().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Key, Effect::Unknown)
    );
    assert!(error.attempts().is_empty());
}
