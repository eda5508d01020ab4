//! What becomes of a key when the handler fails, or says what it did.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::StatusCode;
use idempotency::contract::Problem;
use idempotency::contract::problem;
use idempotency::server::{Final, NothingHappened, OnFailure, REPLAYED};

use super::app::{App, Ask};
use super::bed::{Bed, on_both_stores};

on_both_stores!(
    each_status_is_stored_or_released,
    a_server_error_is_released_held_or_stored_as_the_option_says,
    a_panic_is_answered_and_by_default_not_run_again,
    a_panic_is_released_or_held_where_the_option_says_so,
    a_body_that_fails_is_a_failure_of_the_handler,
    a_handler_can_say_that_nothing_happened_or_that_it_is_final,
    our_own_409_from_further_in_is_not_stored,
);

/// An app whose handler answers with the status in the body.
fn statuses(layer: idempotency::server::IdempotencyLayer<Store>) -> App {
    App::new(layer, |body: String| async move {
        let status: u16 = body.parse().unwrap();
        StatusCode::from_u16(status).unwrap()
    })
}

type Store = std::sync::Arc<dyn idempotency::server::Store>;

fn ask(body: &str) -> Ask {
    Ask::post(body).body(body.to_owned())
}

// B120.
async fn each_status_is_stored_or_released(bed: Bed) {
    let app = statuses(bed.layer());
    for status in 200..600 {
        let body = status.to_string();
        let runs = app.runs();
        assert_eq!(app.send(ask(&body)).await.status, status);
        let again = app.send(ask(&body)).await;
        assert_eq!(again.status, status);
        let stored = !matches!(status, 401 | 403 | 407 | 408 | 425 | 429 | 500..);
        assert_eq!(again.is_replay(), stored, "{status}");
        assert_eq!(app.runs() - runs, if stored { 1 } else { 2 }, "{status}");
    }
}

// B120, B121: a stored failure is marked, so that a client stops.
async fn a_server_error_is_released_held_or_stored_as_the_option_says(bed: Bed) {
    let app = statuses(bed.layer().on_server_error(OnFailure::Store));
    for replayed in [false, true, true] {
        let answer = app.send(ask("503")).await;
        assert_eq!((answer.status, answer.is_replay()), (503, replayed));
    }
    assert_eq!(app.runs(), 1);

    let app = statuses(bed.layer().on_server_error(OnFailure::Hold));
    assert_eq!(app.send(ask("500")).await.status, 500);
    app.send(ask("500")).await.assert_in_progress();
    assert_eq!(app.runs(), 1);
    // Nobody renews the lease.
    bed.advance(bed.lease * 2).await;
    assert_eq!(app.send(ask("500")).await.status, 500);
    assert_eq!(app.runs(), 2);

    let app = statuses(bed.layer().on_server_error(OnFailure::Release));
    for runs in 1..=2 {
        assert_eq!(app.send(ask("502")).await.status, 502);
        assert_eq!(app.runs(), runs);
    }
}

async fn panicking() -> Response {
    panic!("the handler has a bug");
}

// B100: how far it had come is unknown, so it is not run again in silence.
async fn a_panic_is_answered_and_by_default_not_run_again(bed: Bed) {
    let app = App::new(bed.layer(), panicking);
    let answer = app.send(ask("1")).await;
    answer.assert_problem(500, problem::OPERATION_FAILED);
    let mut again = app.send(ask("1")).await;
    assert_eq!(again.headers.remove(REPLAYED).unwrap(), "true");
    assert_eq!(again, answer);
    assert_eq!(app.runs(), 1);
}

async fn a_panic_is_released_or_held_where_the_option_says_so(bed: Bed) {
    let app = App::new(bed.layer().on_panic(OnFailure::Release), panicking);
    for runs in 1..=2 {
        let answer = app.send(ask("1")).await;
        answer.assert_problem(500, problem::OPERATION_FAILED);
        assert_eq!(app.runs(), runs);
    }
    let app = App::new(bed.layer().on_panic(OnFailure::Hold), panicking);
    assert_eq!(app.send(ask("2")).await.status, 500);
    app.send(ask("2")).await.assert_in_progress();
}

async fn a_body_that_fails_is_a_failure_of_the_handler(bed: Bed) {
    let app = App::new(bed.layer(), || async {
        let broken = [
            Ok("half of "),
            Err(std::io::Error::other("rendering failed")),
        ];
        Response::new(Body::from_stream(stream::iter(broken)))
    });
    let answer = app.send(ask("1")).await;
    answer.assert_problem(500, problem::OPERATION_FAILED);
    assert!(app.send(ask("1")).await.is_replay());
    assert_eq!(app.runs(), 1);
}

async fn a_handler_can_say_that_nothing_happened_or_that_it_is_final(bed: Bed) {
    let app = App::new(bed.layer(), |body: String| async move {
        match &*body {
            "nothing" => NothingHappened((StatusCode::OK, "queue full")).into_response(),
            _ => Final((StatusCode::BAD_GATEWAY, "taken, not confirmed")).into_response(),
        }
    });
    for runs in 1..=2 {
        let answer = app.send(ask("nothing")).await;
        assert_eq!((answer.status, answer.is_replay()), (200, false));
        assert_eq!(app.runs(), runs);
    }
    for replayed in [false, true] {
        let answer = app.send(ask("final")).await;
        assert_eq!((answer.status, answer.is_replay()), (502, replayed));
        assert_eq!(answer.body, "taken, not confirmed");
    }
    assert_eq!(app.runs(), 3);
}

async fn our_own_409_from_further_in_is_not_stored(bed: Bed) {
    let app = App::new(bed.layer(), |body: String| async move {
        let problem = match &*body {
            "progress" => Problem::in_progress(),
            _ => Problem::answer_not_kept(),
        };
        let headers = [("content-type", problem::CONTENT_TYPE)];
        (StatusCode::CONFLICT, headers, problem.to_bytes())
    });
    for _ in 0..2 {
        let passed_on = app.send(ask("progress")).await;
        passed_on.assert_problem(409, problem::IN_PROGRESS);
    }
    for replayed in [false, true] {
        assert_eq!(app.send(ask("final")).await.is_replay(), replayed);
    }
    assert_eq!(app.runs(), 3);
}
