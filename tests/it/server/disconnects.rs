//! The handler outlives the connection, and the process waits for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use idempotency::server::IdempotencyLayer;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::app::{App, Ask, order};
use super::bed::{Bed, on_both_stores};
use crate::support::Gate;

on_both_stores!(
    when_the_client_goes_away_the_handler_and_the_recording_finish,
    a_claim_outlives_its_connection_and_is_not_left_behind,
);

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

const REQUEST: &str = "POST /orders HTTP/1.1\r\nhost: x\r\nidempotency-key: k-1\r\n\
     content-type: application/json\r\ncontent-length: 14\r\n\r\n{\"amount\":100}";

// B101, B102: both effects happen, once, and the retry is told their answer.
async fn when_the_client_goes_away_the_handler_and_the_recording_finish(bed: Bed) {
    let gate = Gate::new();
    let effects = Arc::new(AtomicU32::new(0));
    let layer = bed.layer();
    let in_flight = layer.in_flight();
    let app = App::new(layer, {
        let (gate, effects) = (gate.clone(), effects.clone());
        move || async move {
            effects.fetch_add(1, Ordering::SeqCst);
            gate.pass().await;
            effects.fetch_add(10, Ordering::SeqCst);
            order(1)
        }
    });
    let address = serve(app.router()).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(REQUEST.as_bytes()).await.unwrap();
    gate.reached().await;
    drop(client);
    // Turns enough for the server to find the connection gone.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    app.send(Ask::post("k-1")).await.assert_in_progress();
    assert_eq!((in_flight.count(), effects.load(Ordering::SeqCst)), (1, 1));
    gate.open();
    in_flight.finished().await;
    assert_eq!((in_flight.count(), effects.load(Ordering::SeqCst)), (0, 11));
    app.send(Ask::post("k-1")).await.assert_order(1, true);
    assert_eq!(app.runs(), 1);
}

// The future that a connection drops may be anywhere, also in the middle of the claim.
async fn a_claim_outlives_its_connection_and_is_not_left_behind(bed: Bed) {
    let layer = bed.layer();
    let in_flight = layer.in_flight();
    let app = App::orders(layer);
    for polls in 1..30 {
        let key = format!("k-{polls}");
        let mut request = Box::pin(app.send(Ask::post(&key)));
        for _ in 0..polls {
            // One poll, and a turn for everybody else.
            let polled = futures_util::poll!(request.as_mut());
            tokio::task::yield_now().await;
            if polled.is_ready() {
                break;
            }
        }
        drop(request);
        in_flight.finished().await;
        // Either nothing had begun, or everything has ended.
        let answer = app.send(Ask::post(&key)).await;
        assert_eq!(answer.status, 201, "after {polls} polls: {answer:?}");
    }
    assert_eq!(app.runs(), 29);
}

#[tokio::test(start_paused = true)]
async fn a_graceful_shutdown_waits_for_operations_without_a_connection() {
    let bed = Bed::memory();
    let gate = Gate::new();
    let layer: IdempotencyLayer<_> = bed.layer();
    let in_flight = layer.in_flight();
    let app = App::gated(layer, &gate);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Gate::new();
    let server = tokio::spawn({
        let (router, stop) = (app.router(), stop.clone());
        async move {
            let serving = axum::serve(listener, router);
            serving
                .with_graceful_shutdown(async move { stop.pass().await })
                .await
                .unwrap();
            in_flight.finished().await;
        }
    });
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(REQUEST.as_bytes()).await.unwrap();
    gate.reached().await;
    drop(client);
    stop.open();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert!(!server.is_finished());
    gate.open();
    server.await.unwrap();
    app.send(Ask::post("k-1")).await.assert_order(1, true);
}
