//! The key in the body or the query: completed once, before the first attempt.

use idempotency::contract::{KeyAlphabet, KeyFormat};
use idempotency::{Client, Contract, Effect, ErrorKind, IdempotentRequest};

use super::{client, key};
use crate::support::{ScriptedServer, Step, header_lines};

pub(super) fn json() -> Contract {
    let builder = Contract::builder("shop").json_pointer("/idempotency_key");
    builder.build().unwrap()
}

pub(super) fn graphql() -> Contract {
    let builder = Contract::builder("graph").json_pointer("/variables/idempotencyKey");
    builder.build().unwrap()
}

pub(super) fn form() -> Contract {
    let builder = Contract::builder("form shop").form_field("ClientToken");
    builder.build().unwrap()
}

pub(super) fn query() -> Contract {
    let builder = Contract::builder("query shop").query_parameter("requestId");
    builder.build().unwrap()
}

/// Lets `operation` meet a lost answer and an answer; returns target and body, which are the same in both attempts.
async fn twice(
    contract: Contract,
    path: &str,
    operation: impl FnOnce(&Client, String) -> IdempotentRequest,
) -> (String, String) {
    let server = ScriptedServer::new([Step::read_then_close(), Step::reply(200, &[], "{}")]);
    let operation = operation(&client(contract), server.url(path));
    operation.send().await.unwrap();
    server.assert_hits(2);
    let [first, second] = &server.arrivals()[..] else {
        unreachable!("two hits");
    };
    assert_eq!((&first.target, &first.body), (&second.target, &second.body));
    for arrival in [first, second] {
        assert_eq!(header_lines(arrival, "idempotency-key"), [""; 0]);
        let length = arrival.body.len().to_string();
        let stated = header_lines(arrival, "content-length");
        assert!(
            stated == [length.as_str()] || stated.is_empty() && length == "0",
            "{stated:?}"
        );
    }
    let body = String::from_utf8(first.body.clone()).unwrap();
    (first.target.clone(), body)
}

fn body(text: &'static str) -> impl FnOnce(&Client, String) -> IdempotentRequest {
    move |client, url| client.post(url).body(text).idempotent_with(key("k-1"))
}

#[tokio::test]
async fn a_json_member_goes_into_the_body_of_every_attempt() {
    for (contract, sent, completed) in [
        (
            json(),
            r#"{"amount":1.50}"#,
            r#"{"amount":1.50,"idempotency_key":"k-1"}"#,
        ),
        (json(), "{}", r#"{"idempotency_key":"k-1"}"#),
        (
            json(),
            r#"{"idempotency_key":null}"#,
            r#"{"idempotency_key":"k-1"}"#,
        ),
        (
            graphql(),
            r#"{"query":"mutation($idempotencyKey: String!) { pay }","variables":{"id":7}}"#,
            r#"{"query":"mutation($idempotencyKey: String!) { pay }","variables":{"id":7,"idempotencyKey":"k-1"}}"#,
        ),
        (
            graphql(),
            r#"{"query":"mutation"}"#,
            r#"{"query":"mutation","variables":{"idempotencyKey":"k-1"}}"#,
        ),
    ] {
        let (_, body) = twice(contract, "/x", body(sent)).await;
        assert_eq!(body, completed);
    }
}

#[tokio::test]
async fn a_request_without_a_body_gets_one_with_its_content_type() {
    let server = ScriptedServer::always(Step::reply(200, &[], ""));
    for (contract, media, completed) in [
        (json(), "application/json", r#"{"idempotency_key":"k-1"}"#),
        (
            form(),
            "application/x-www-form-urlencoded",
            "ClientToken=k-1",
        ),
    ] {
        let operation = client(contract).post(server.url("/x"));
        let operation = operation.idempotent_with(key("k-1"));
        operation.send().await.unwrap();
        let arrival = server.arrivals().pop().unwrap();
        assert_eq!(String::from_utf8_lossy(&arrival.body), completed);
        assert_eq!(header_lines(&arrival, "content-type"), [media]);
    }
}

#[tokio::test]
async fn a_stated_content_length_follows_the_body() {
    let server = ScriptedServer::new([Step::reply(200, &[], "")]);
    let operation = client(json()).post(server.url("/x"));
    let operation = operation.header("content-length", "2").body("{}");
    operation.idempotent_with(key("k-1")).send().await.unwrap();
    let arrival = server.arrivals().pop().unwrap();
    assert_eq!(header_lines(&arrival, "content-length"), ["25"]);
    assert_eq!(arrival.body.len(), 25);
}

#[tokio::test]
async fn a_form_field_and_a_query_parameter_go_to_the_end() {
    let pay = |client: &Client, url: String| {
        let request = client.post(url).form(&[("Action", "RunInstances")]);
        request.idempotent_with(key("k/1&2"))
    };
    let (_, body) = twice(form(), "/x", pay).await;
    assert_eq!(body, "Action=RunInstances&ClientToken=k%2F1%262");
    for (path, target) in [
        ("/x", "/x?requestId=k%2F1%262"),
        ("/x?", "/x?requestId=k%2F1%262"),
        (
            "/x?zone=a%20b&n=1#f",
            "/x?zone=a%20b&n=1&requestId=k%2F1%262",
        ),
    ] {
        let pay = |client: &Client, url: String| client.post(url).idempotent_with(key("k/1&2"));
        let (sent, body) = twice(query(), path, pay).await;
        assert_eq!((sent.as_str(), body.as_str()), (target, ""));
    }
}

#[tokio::test]
async fn a_field_that_the_caller_has_set_wins_and_becomes_the_key() {
    let server = ScriptedServer::always(Step::reply(200, &[], ""));
    let own_json = r#"{ "idempotency_key": "own-1" }"#;
    let cases: [(Contract, &str, &str); 3] = [
        (json(), "/x", own_json),
        (form(), "/x", "a=1&ClientToken=own-1"),
        (query(), "/x?requestId=own-1&a=1", "{}"),
    ];
    for (contract, path, text) in cases {
        let request = || client(contract.clone()).post(server.url(path)).body(text);
        // Whether a key is drawn, given or not asked for.
        let drawn = request().idempotent();
        assert_eq!(drawn.key(), Some(&key("own-1")));
        let response = drawn.send().await.unwrap();
        // Somebody else may have sent it before: nothing says that this answer is fresh.
        assert_eq!(response.replay(), idempotency::Replay::Unknown);
        let given = request().idempotent_with(key("own-1"));
        given.send().await.unwrap();
        let unasked = request().send().await.unwrap();
        assert_eq!(unasked.idempotency_key(), Some(&key("own-1")));
        let other = request().idempotent_with(key("k-2"));
        let error = other.send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Key);
        for arrival in &server.arrivals()[server.hits() - 3..] {
            assert_eq!(arrival.target, path);
            assert_eq!(String::from_utf8_lossy(&arrival.body), text);
        }
    }
    server.assert_hits(9);
}

/// Asserts that nothing is sent, and why.
#[track_caller]
fn assert_refused(
    contract: Contract,
    body: Option<&'static str>,
    path: &str,
    kind: ErrorKind,
    why: &str,
) {
    // A key that the request brought and that cannot be read may have been sent before, by whoever wrote it there.
    let (effect, certain) = match kind {
        ErrorKind::Key => (Effect::Unknown, "may have been executed"),
        _ => (Effect::NotExecuted, "was not executed"),
    };
    let url = format!("http://127.0.0.1:9{path}");
    let mut request = client(contract).post(url);
    if let Some(body) = body {
        request = request.body(body);
    }
    let operation = request.idempotent();
    let error = operation.to_pending().unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.effect(), effect);
    let text = error.to_string();
    assert_eq!(text, format!("{why}; the operation {certain}"));
}

#[test]
fn a_body_that_does_not_take_the_key_is_an_error_before_sending() {
    let shop = "the contract `shop` puts the key into the body, and this body does not take it: it has to be a JSON object: ";
    for (body, why) in [
        ("a=1", "it is no JSON (expected value at line 1 column 1)"),
        ("[{}]", "it is no object"),
        ("\"text\"", "it is no object"),
    ] {
        assert_refused(
            json(),
            Some(body),
            "/x",
            ErrorKind::Contract,
            &format!("{shop}{why}"),
        );
    }
    assert_refused(
        graphql(),
        Some(r#"{"variables":[]}"#),
        "/x",
        ErrorKind::Contract,
        "the contract `graph` puts the key into the body, and this body does not take it: it has to be a JSON object: there is a `variables` in it that is no object",
    );
    assert_refused(
        form(),
        Some("{\"a\":1}"),
        "/x",
        ErrorKind::Contract,
        "the contract `form shop` puts the key into the body, and this body does not take it: it has to be a URL-encoded form: it is not URL-encoded",
    );
}

#[test]
fn a_place_that_holds_no_key_is_an_error_before_sending() {
    let own = |place: &str, why: &str| format!("the request's own {place} is no usable key: {why}");
    let member = "member `/idempotency_key` of the JSON body";
    let none = "an idempotency key has at least 1 character, this one has none: draw one with `IdempotencyKey::random()`";
    for (body, why) in [
        (r#"{"idempotency_key":7}"#, "it is no string"),
        (r#"{"idempotency_key":{"a":1}}"#, "it is no string"),
        (
            r#"{"idempotency_key":"a","idempotency_key":"a"}"#,
            "it stands there twice",
        ),
        (r#"{"idempotency_key":""}"#, none),
    ] {
        assert_refused(json(), Some(body), "/x", ErrorKind::Key, &own(member, why));
    }
    let field = "form field `ClientToken`";
    assert_refused(
        form(),
        Some("ClientToken=a&ClientToken=b"),
        "/x",
        ErrorKind::Key,
        &own(field, "it stands there twice"),
    );
    assert_refused(
        form(),
        Some("ClientToken="),
        "/x",
        ErrorKind::Key,
        &own(field, none),
    );
    let parameter = "query parameter `requestId`";
    assert_refused(
        query(),
        None,
        "/x?requestId=a&requestId=a",
        ErrorKind::Key,
        &own(parameter, "it stands there twice"),
    );
    assert_refused(
        query(),
        None,
        "/x?requestId",
        ErrorKind::Key,
        &own(parameter, none),
    );
}

#[tokio::test]
async fn a_callers_key_that_does_not_fit_is_refused_with_the_limit_and_its_source() {
    let short = |builder: idempotency::contract::ContractBuilder| {
        let format = KeyFormat {
            min: 2,
            max: 8,
            alphabet: KeyAlphabet::AlphanumericAnd("-".into()),
            source: "the shop's reference".into(),
            ..KeyFormat::default()
        };
        builder.key_format(format).build().unwrap()
    };
    let server = ScriptedServer::new([]);
    let header = short(Contract::builder("shop"));
    let body = short(Contract::builder("shop").json_pointer("/key"));
    let too_long = "`shop` takes keys of 2 to 8 characters (the shop's reference), this one has 9; the operation may have been executed";
    let given = |contract: &Contract| client(contract.clone()).post(server.url("/x")).body("{}");
    for operation in [
        given(&header).idempotent_with(key("123456789")),
        given(&body).idempotent_with(key("123456789")),
        given(&header)
            .header("idempotency-key", "123456789")
            .idempotent(),
        client(body.clone())
            .post(server.url("/x"))
            .body(r#"{"key":"123456789"}"#)
            .idempotent(),
    ] {
        let error = operation.send().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Key);
        assert_eq!(error.to_string(), too_long);
    }
    let odd = given(&body).idempotent_with(key("a_b"));
    assert_eq!(
        odd.send().await.unwrap_err().to_string(),
        "`shop` takes keys of letters, digits and `-` (the shop's reference), this one has another character at position 1; the operation may have been executed"
    );
    server.assert_hits(0);
}

#[tokio::test]
async fn a_streamed_body_cannot_be_completed() {
    let server = ScriptedServer::always(Step::reply(200, &[], ""));
    let stream = || reqwest::Body::wrap(http_body_util::Full::<bytes::Bytes>::from("{}"));
    let operation = client(json()).post(server.url("/x")).body(stream());
    let error = operation.idempotent().send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contract);
    assert_eq!(error.effect(), Effect::NotExecuted);
    assert_eq!(
        error.to_string(),
        "the contract `shop` puts the key into the body, and this body does not take it: it is a stream, which cannot be completed: give it as bytes or text; the operation was not executed"
    );
    // The query can be, whatever the body is.
    let operation = client(query()).post(server.url("/x")).body(stream());
    operation.idempotent_with(key("k-1")).send().await.unwrap();
    assert_eq!(server.arrivals()[0].target, "/x?requestId=k-1");
    // And nobody asked for a key here.
    let plain = client(json()).post(server.url("/x")).body(stream());
    plain.send().await.unwrap();
    let plain = client(json()).post(server.url("/x")).body("no JSON");
    let response = plain.send().await.unwrap();
    assert_eq!(response.idempotency_key(), None);
    server.assert_hits(3);
}
