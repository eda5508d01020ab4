//! Where an operation may be sent on to, and what a failure on the way proves.

use http::Method;
use idempotency::retry::{Failure, Reach, StoppedBy};
use idempotency::{Client, Effect, ErrorKind, IdempotencyMiddleware, RequestBuilder, RetryPolicy};
use reqwest_middleware::ClientWithMiddleware;

use super::names::{Lookup, resolving};
use super::{assert_failed, client, facts};
use crate::support::{Refused, ScriptedServer, Step, header_lines};

fn redirect(status: u16, location: &str) -> Step {
    Step::reply(status, &[("location", location)], "")
}

fn request(client: &Client, method: &str, url: &str) -> RequestBuilder {
    client
        .request(method.parse().unwrap(), url)
        .header("x-api-key", "secret")
        .header("content-type", "text/plain")
        .body("amount=100")
}

const UNSAFE: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];

/// Sends it with a key and without one; asserts the answer's status.
async fn assert_answer(client: &Client, method: &str, url: &str, keyed: bool, status: u16) {
    let request = request(client, method, url);
    let response = if keyed {
        request.idempotent().send().await.unwrap()
    } else {
        request.send().await.unwrap()
    };
    assert_eq!(response.status(), status, "{method}, keyed: {keyed}");
    assert_eq!(response.attempts().len(), 1);
}

/// Every unsafe method, with a key and without.
fn unsafe_requests() -> impl Iterator<Item = (&'static str, bool)> {
    let keyed = ["POST", "PATCH"].map(|method| (method, true));
    UNSAFE
        .map(|method| (method, false))
        .into_iter()
        .chain(keyed)
}

/// B74: what would become a GET is the answer instead.
#[tokio::test(start_paused = true)]
async fn a_redirect_that_changes_the_method_is_the_answer() {
    let client = client(4);
    for (method, keyed) in unsafe_requests() {
        for status in [301, 302, 303] {
            let server = ScriptedServer::new([redirect(status, "/orders/1")]);
            assert_answer(&client, method, &server.url("/orders"), keyed, status).await;
            server.assert_hits(1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_redirect_that_keeps_method_and_origin_is_followed_with_the_same_key_and_body() {
    let client = client(4);
    for (method, keyed) in unsafe_requests() {
        for status in [307, 308] {
            let server =
                ScriptedServer::new([redirect(status, "/v2/orders"), Step::reply(201, &[], "")]);
            assert_answer(&client, method, &server.url("/orders"), keyed, 201).await;
            server.assert_hits(2);
            let [first, second] = server.arrivals().try_into().unwrap();
            assert_eq!((&*first.target, &*second.target), ("/orders", "/v2/orders"));
            assert_eq!(
                (&*second.method, &*second.body),
                (method, &b"amount=100"[..])
            );
            assert_eq!(header_lines(&second, "x-api-key"), ["secret"]);
            assert_eq!(header_lines(&second, "content-type"), ["text/plain"]);
            let keys = server.keys();
            assert_eq!(keys[0], keys[1]);
            assert_eq!(keys[0].len(), usize::from(keyed), "{method}");
        }
    }
}

/// B75: neither the key nor any header goes to somebody else.
#[tokio::test(start_paused = true)]
async fn a_redirect_to_another_origin_is_the_answer_and_nothing_goes_there() {
    let client = client(4);
    for (method, keyed) in unsafe_requests() {
        for status in [301, 302, 303, 307, 308] {
            let other = ScriptedServer::new([]);
            let server = ScriptedServer::new([redirect(status, &other.url("/orders"))]);
            assert_answer(&client, method, &server.url("/orders"), keyed, status).await;
            server.assert_hits(1);
            assert_eq!((other.hits(), other.connections()), (0, 0));
        }
    }
}

/// The second hop is judged by its own origin, not by the first one's.
#[tokio::test(start_paused = true)]
async fn a_redirect_to_another_origin_is_not_followed_after_one_to_the_same() {
    let other = ScriptedServer::new([]);
    let server = ScriptedServer::new([redirect(307, "/v2"), redirect(307, &other.url("/orders"))]);
    assert_answer(&client(4), "POST", &server.url("/orders"), true, 307).await;
    server.assert_one_operation_but_for_targets();
    assert_eq!(other.connections(), 0);
}

/// B75: a query is a place for signatures, and the page that one comes from is nobody's business.
#[tokio::test(start_paused = true)]
async fn a_followed_redirect_does_not_tell_where_it_comes_from() {
    let other = ScriptedServer::new([Step::reply(200, &[], "")]);
    let server = ScriptedServer::new([redirect(302, "/here"), redirect(302, &other.url("/there"))]);
    let url = server.url("/orders?sig=secret");
    client(4).get(&url).send().await.unwrap();
    for arrival in server.arrivals().iter().chain(&other.arrivals()) {
        assert_eq!(header_lines(arrival, "referer"), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn safe_methods_are_redirected_as_usual() {
    for status in [301, 302, 303, 307, 308] {
        let other = ScriptedServer::new([Step::reply(200, &[], "there")]);
        let server = ScriptedServer::new([redirect(status, &other.url("/orders/1"))]);
        let response = client(4).get(server.url("/orders")).send().await.unwrap();
        assert_eq!(response.url().as_str(), other.url("/orders/1"));
        assert_eq!(response.text().await.unwrap(), "there");
        other.assert_hits(1);
    }
}

/// The first server may have done the work before it sent us on.
#[tokio::test(start_paused = true)]
async fn a_followed_redirect_whose_target_is_not_reached_is_of_unknown_outcome() {
    let headers = [("location", "/v2/orders"), ("connection", "close")];
    let server = ScriptedServer::always(Step::reply(307, &headers, ""));
    let url = format!("http://shop.invalid:{}/orders", server.addr().port());
    let (client, _) = resolving([Lookup::Finds(server.addr()), Lookup::Fails]);
    let error = request(&client, "POST", &url).send().await.unwrap_err();
    let effect = (ErrorKind::Connect, Effect::Unknown);
    assert_failed(
        &error,
        1,
        Failure::Resolve,
        Reach::MaybeProcessed,
        effect,
        (),
    );
    assert_eq!(error.stopped_by(), Some(StoppedBy::UnsafeWithoutKey));
    server.assert_hits(1);
}

/// B72
#[tokio::test(start_paused = true)]
async fn a_redirect_loop_is_final() {
    let server = ScriptedServer::always(redirect(307, "/orders"));
    for (method, keyed) in [
        ("GET", false),
        ("POST", true),
        ("POST", false),
        ("PUT", false),
    ] {
        let before = server.hits();
        let request = client(4).request(method.parse().unwrap(), server.url("/orders"));
        let error = if keyed {
            request.idempotent().send().await
        } else {
            request.send().await
        }
        .unwrap_err();
        let effect = (ErrorKind::Redirect, Effect::Unknown);
        assert_failed(
            &error,
            1,
            Failure::Redirect,
            Reach::MaybeProcessed,
            effect,
            method,
        );
        assert_eq!(error.stopped_by(), Some(StoppedBy::NotRetryable));
        assert!(error.is_redirect());
        assert_eq!(server.hits() - before, 11, "the request and ten redirects");
    }
}

/// B74: the whole operation again, not its last hop.
#[tokio::test(start_paused = true)]
async fn a_retry_begins_at_the_original_url() {
    let server = ScriptedServer::new([
        redirect(307, "/v2/orders"),
        Step::reply(503, &[], ""),
        redirect(307, "/v3/orders"),
        Step::reply(201, &[], ""),
    ]);
    let operation = request(&client(4), "POST", &server.url("/orders")).idempotent();
    let response = operation.send().await.unwrap();
    assert_eq!(response.url().as_str(), server.url("/v3/orders"));
    let targets: Vec<_> = server
        .arrivals()
        .into_iter()
        .map(|arrival| arrival.target)
        .collect();
    assert_eq!(targets, ["/orders", "/v2/orders", "/orders", "/v3/orders"]);
    server.assert_one_operation_but_for_targets();
}

/// 425 of the redirect's target says nothing of the first server.
#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_followed_redirect_is_of_unknown_outcome() {
    let server = ScriptedServer::new([redirect(307, "/v2"), Step::reply(425, &[], "")]);
    let response = request(&client(4), "POST", &server.url("/orders"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 425);
    assert_eq!(facts(response.attempts()), [(None, Reach::MaybeProcessed)]);
    server.assert_hits(2);
}

/// A redirect that leads nowhere is the answer.
#[tokio::test(start_paused = true)]
async fn a_redirect_without_a_usable_location_is_the_answer() {
    for headers in [
        &[][..],
        &[("location", "http://[")],
        &[("location", "http://")],
        &[("location", "http://a b/")],
        &[("location", "http://999.999.999.999/")],
        &[("location", "http://127.0.0.1:99999/")],
    ] {
        let server = ScriptedServer::new([Step::reply(307, headers, "")]);
        let sent = request(&client(4), "POST", &server.url("/orders"))
            .idempotent()
            .send()
            .await;
        assert_eq!(sent.unwrap().status(), 307, "{headers:?}");
    }
}

/// A client of somebody else's: reqwest's own redirect policy, and a middleware that may or may not trust it.
fn foreign(reqwest: reqwest::ClientBuilder, ours: IdempotencyMiddleware) -> ClientWithMiddleware {
    let never = reqwest::retry::never().max_retries_per_request(0);
    let http = reqwest.no_proxy().retry(never).build().unwrap();
    reqwest_middleware::ClientBuilder::new(http)
        .with(ours.policy(RetryPolicy::immediate(3)))
        .build()
}

async fn failure(request: reqwest_middleware::RequestBuilder) -> idempotency::Error {
    let error = request.send().await.unwrap_err();
    match error {
        reqwest_middleware::Error::Middleware(error) => error.downcast().unwrap(),
        other => panic!("no error of ours: {other:?}"),
    }
}

/// Measured: a followed 303 whose target refuses the connection looks exactly like a request that was never sent.
#[tokio::test(start_paused = true)]
async fn on_a_foreign_client_a_refused_connection_is_of_unknown_outcome() {
    let refused = Refused::new();
    let server = ScriptedServer::new([redirect(303, &refused.url("/orders/1"))]);
    let client = foreign(reqwest::Client::builder(), IdempotencyMiddleware::new());
    let error = failure(client.post(server.url("/orders")).body("x")).await;
    let effect = (ErrorKind::Connect, Effect::Unknown);
    assert_failed(
        &error,
        1,
        Failure::Connect,
        Reach::MaybeProcessed,
        effect,
        "followed",
    );
    assert_eq!(error.stopped_by(), Some(StoppedBy::UnsafeWithoutKey));
    server.assert_hits(1);

    // Not even where nothing was sent at all: the two cannot be told apart.
    let error = failure(client.post(refused.url("/orders")).body("x")).await;
    assert_failed(
        &error,
        1,
        Failure::Connect,
        Reach::MaybeProcessed,
        effect,
        "direct",
    );
}

/// reqwest calls a redirect to a scheme that it does not know an error of the *request*, long after it was sent.
#[tokio::test(start_paused = true)]
async fn on_a_foreign_client_a_redirect_to_another_scheme_is_of_unknown_outcome() {
    for trusting in [false, true] {
        let server = ScriptedServer::new([redirect(303, "ftp://127.0.0.1/orders/1")]);
        let mut ours = IdempotencyMiddleware::new();
        let mut reqwest = reqwest::Client::builder();
        if trusting {
            ours = ours.trust_redirects();
            reqwest = reqwest.redirect(idempotency::redirect_policy());
        }
        let client = foreign(reqwest, ours);
        let sent = client.post(server.url("/orders")).body("x").send().await;
        if trusting {
            assert_eq!(sent.unwrap().status(), 303);
        } else {
            let error = sent.unwrap_err();
            let error = idempotency::Error::from_middleware(&error).unwrap();
            assert_eq!(error.effect(), Effect::Unknown, "{error:?}");
            assert_eq!(facts(error.attempts())[0].1, Reach::MaybeProcessed);
        }
        server.assert_hits(1);
    }
    // A GET is followed there, by our policy too, and ends the same way.
    let server = ScriptedServer::new([redirect(302, "ftp://127.0.0.1/orders/1")]);
    let error = client(4)
        .get(server.url("/orders"))
        .send()
        .await
        .unwrap_err();
    assert_eq!(
        facts(error.attempts())[0].1,
        Reach::MaybeProcessed,
        "{error:?}"
    );
    server.assert_hits(1);
}

#[tokio::test(start_paused = true)]
async fn a_foreign_client_that_carries_the_policy_can_prove_that_nothing_was_sent() {
    let refused = Refused::new();
    let reqwest = || reqwest::Client::builder().redirect(idempotency::redirect_policy());
    let client = foreign(reqwest(), IdempotencyMiddleware::new().trust_redirects());
    let error = failure(client.post(refused.url("/orders")).body("x")).await;
    let effect = (ErrorKind::Connect, Effect::NotExecuted);
    assert_failed(
        &error,
        3,
        Failure::Connect,
        Reach::NeverSent,
        effect,
        "trusted",
    );

    let server = ScriptedServer::new([redirect(303, &refused.url("/orders/1"))]);
    let response = client
        .post(server.url("/orders"))
        .body("x")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 303);

    // A GET may be redirected: the failure of its second hop is not the first one's.
    let server = ScriptedServer::always(redirect(302, &refused.url("/orders/1")));
    let error = failure(client.get(server.url("/orders"))).await;
    assert_eq!(
        facts(error.attempts()),
        vec![(Some(Failure::Connect), Reach::MaybeProcessed); 3]
    );
}

/// What is not sent through the loop is redirected as reqwest does.
#[tokio::test(start_paused = true)]
async fn outside_of_the_loop_the_policy_is_reqwests_own() {
    let server = ScriptedServer::new([redirect(303, "/orders/1"), Step::reply(200, &[], "")]);
    let http = reqwest::Client::builder()
        .no_proxy()
        .redirect(idempotency::redirect_policy())
        .build()
        .unwrap();
    let answer = http.post(server.url("/orders")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(server.arrivals()[1].method, Method::GET.as_str());
}
