//! What is stored, and what comes back.

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use futures_util::stream;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use idempotency::contract::problem;
use tower::ServiceExt as _;

use super::app::{Answer, App, Ask};
use super::bed::{Bed, on_both_stores};

on_both_stores!(
    a_replay_has_the_status_the_bytes_and_the_headers_of_the_answer,
    headers_of_the_exchange_and_the_session_are_not_replayed,
    a_header_that_is_asked_for_is_kept_unless_it_must_never_be,
    bodies_and_header_values_are_bytes,
    an_answer_that_is_too_large_passes_and_is_never_run_again,
    a_stream_of_events_passes_and_is_never_run_again,
    an_answer_is_replayed_for_as_long_as_it_is_kept,
);

/// The answer of a handler, and its replay.
async fn twice<H, T>(layer: idempotency::server::IdempotencyLayer<Store>, handler: H) -> [Answer; 2]
where
    H: axum::handler::Handler<T, ()>,
    T: 'static,
{
    let app = App::new(layer, handler);
    let answers = [
        app.send(Ask::post("k-1")).await,
        app.send(Ask::post("k-1")).await,
    ];
    assert_eq!(app.runs(), 1);
    assert_eq!(answers.each_ref().map(Answer::is_replay), [false, true]);
    answers
}

type Store = std::sync::Arc<dyn idempotency::server::Store>;

// B113.
async fn a_replay_has_the_status_the_bytes_and_the_headers_of_the_answer(bed: Bed) {
    let app = App::new(bed.layer(), |body: String| async move {
        let headers = [
            ("location", "/orders/1"),
            ("etag", "\"v1\""),
            ("content-language", "en"),
            ("cache-control", "no-store"),
        ];
        match &*body {
            "201" => (StatusCode::CREATED, headers, "created").into_response(),
            "204" => StatusCode::NO_CONTENT.into_response(),
            "303" => (StatusCode::SEE_OTHER, headers).into_response(),
            "200" => Response::new(Body::empty()),
            _ => (
                StatusCode::NOT_FOUND,
                [("link", "</1>"), ("vary", "accept")],
            )
                .into_response(),
        }
    });
    for body in ["201", "204", "303", "200", "404"] {
        let ask = || Ask::post(body).body(body);
        let fresh = app.send(ask()).await;
        let mut replay = app.send(ask()).await;
        assert_eq!(fresh.status.to_string(), body);
        assert!(replay.is_replay() && !fresh.is_replay());
        replay.headers.remove("idempotent-replayed");
        assert_eq!(replay, fresh);
    }
    assert_eq!(app.runs(), 5);
}

// B114.
async fn headers_of_the_exchange_and_the_session_are_not_replayed(bed: Bed) {
    let transient = [
        ("set-cookie", "s=1"),
        ("date", "Mon, 01 Jan 2024 00:00:00 GMT"),
        ("x-request-id", "r1"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("www-authenticate", "Basic"),
        ("proxy-authenticate", "Basic"),
        ("access-control-allow-origin", "https://a.example"),
        ("traceparent", "00-1-1-01"),
        ("ratelimit-remaining", "3"),
        ("server", "x"),
    ];
    let [fresh, replay] = twice(bed.layer(), move || async move {
        let mut headers = HeaderMap::new();
        for (name, value) in transient {
            headers.append(name, value.parse().unwrap());
        }
        headers.append("link", "</1>".parse().unwrap());
        headers.append("link", "</2>".parse().unwrap());
        (headers, "ok")
    })
    .await;
    for (name, value) in transient {
        assert_eq!(
            fresh.header(name),
            Some(value),
            "the first answer is the handler's"
        );
        assert_eq!(replay.header(name), None, "{name} was replayed");
    }
    let links: Vec<_> = replay.headers.get_all("link").iter().collect();
    assert_eq!(links, ["</1>", "</2>"]);
}

async fn a_header_that_is_asked_for_is_kept_unless_it_must_never_be(bed: Bed) {
    let names = [
        "x-order",
        "set-cookie",
        "access-control-allow-origin",
        "date",
    ];
    let layer = names.into_iter().fold(bed.layer(), |layer, name| {
        layer.keep_header(HeaderName::from_static(name))
    });
    let [_, replay] = twice(layer, || async {
        let headers = [
            ("x-order", "1"),
            ("set-cookie", "s=1"),
            ("access-control-allow-origin", "*"),
            ("date", "Mon, 01 Jan 2024 00:00:00 GMT"),
        ];
        (headers, "ok")
    })
    .await;
    let found = names.map(|name| replay.header(name));
    assert_eq!(found, [Some("1"), None, None, None]);
}

// B112, B117.
async fn bodies_and_header_values_are_bytes(bed: Bed) {
    let latin_1 = HeaderValue::from_bytes(b"caf\xe9").unwrap();
    for bytes in [&b"a\0b"[..], b"\xff\xfe\0A", b"", &[0; 70_000]] {
        let app = App::new(bed.layer(), {
            let latin_1 = latin_1.clone();
            move || async move {
                let mut answer = Response::new(Body::from(bytes));
                answer.headers_mut().insert("content-disposition", latin_1);
                answer
            }
        });
        let ask = || Ask::post(&format!("k-{}", bytes.len()));
        for replayed in [false, true] {
            let answer = app.send(ask()).await;
            assert_eq!(answer.is_replay(), replayed);
            assert_eq!(answer.body, bytes);
            assert_eq!(answer.headers["content-disposition"], latin_1);
        }
    }
}

async fn an_answer_that_is_too_large_passes_and_is_never_run_again(bed: Bed) {
    let app = App::new(bed.layer().answer_limit(8), |body: String| async move {
        match &*body {
            "declared" => Response::new(Body::from("123456789")),
            "streamed" => {
                let chunks = ["12345", "67", "89"].map(Ok::<_, std::io::Error>);
                Response::new(Body::from_stream(stream::iter(chunks)))
            }
            _ => Response::new(Body::from("12345678")),
        }
    });
    for body in ["declared", "streamed"] {
        let ask = || Ask::post(body).body(body);
        let answer = app.send(ask()).await;
        assert_eq!((answer.status, &*answer.body), (200, &b"123456789"[..]));
        for _ in 0..2 {
            let refused = app.send(ask()).await;
            refused.assert_problem(409, problem::ANSWER_NOT_KEPT);
            assert_eq!(refused.header("retry-after"), None);
        }
    }
    let fits = || Ask::post("fits").body("fits");
    assert_eq!(app.send(fits()).await.body, "12345678");
    assert!(app.send(fits()).await.is_replay());
    assert_eq!(app.runs(), 3);
}

async fn a_stream_of_events_passes_and_is_never_run_again(bed: Bed) {
    let app = App::new(bed.layer(), || async {
        let events = stream::iter([Ok::<_, std::io::Error>("data: 1\n\n")]);
        // It never ends; reading it to the end would.
        let events = futures_util::StreamExt::chain(events, stream::pending());
        let headers = [("content-type", "Text/Event-Stream; charset=utf-8")];
        (headers, Body::from_stream(events))
    });
    let request = http::Request::post("/orders").header("idempotency-key", "k-1");
    let request = request.body(Body::empty()).unwrap();
    let answer = app.router().oneshot(request).await.unwrap();
    let first = answer.into_body().frame().await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "data: 1\n\n");
    let again = Ask::post("k-1").without("content-type").body("");
    app.send(again)
        .await
        .assert_problem(409, problem::ANSWER_NOT_KEPT);
    assert_eq!(app.runs(), 1);
}

// B95: the answer's time is another clock than the lease.
async fn an_answer_is_replayed_for_as_long_as_it_is_kept(bed: Bed) {
    let hour = std::time::Duration::from_secs(3600);
    let app = App::orders(bed.layer().keep(hour));
    app.send(Ask::post("k-1")).await.assert_order(1, false);
    bed.advance(hour * 9 / 10).await;
    app.send(Ask::post("k-1")).await.assert_order(1, true);
    bed.advance(hour * 2 / 10).await;
    let other = Ask::post("k-1").body("{}");
    app.send(other).await.assert_order(2, false);
}

#[tokio::test]
async fn trailers_reach_the_first_client() {
    let bed = Bed::memory();
    let handler = || async {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-checksum", HeaderValue::from_static("1"));
        let body = http_body_util::Full::new(Bytes::from("ok"));
        Response::new(Body::new(
            body.with_trailers(std::future::ready(Some(Ok(trailers)))),
        ))
    };
    let app: Router = Router::new().route("/", post(handler).layer(bed.layer()));
    let request = http::Request::post("/").header("idempotency-key", "k-1");
    let request = request.body(Body::empty()).unwrap();
    let answer = app.oneshot(request).await.unwrap();
    let body = answer.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["x-checksum"], "1");
    assert_eq!(body.to_bytes(), "ok");
}
