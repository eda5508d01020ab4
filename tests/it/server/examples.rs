//! The examples keep their word, on both stores.

#[path = "../../../examples/payments_chain.rs"]
#[cfg(feature = "postgres")]
#[expect(dead_code, reason = "its `main` is for those who run it")]
mod payments_chain;
#[path = "../../../examples/payments_server.rs"]
#[expect(dead_code, reason = "its `main` is for those who run it")]
mod payments_server;

use axum::Router;
use http::{HeaderValue, header};
use idempotency::testing::{Check, Grade, ProbeReport, probe};
use tokio::net::TcpListener;

use super::bed::Bed;

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// What the probe finds, row by row.
async fn probed(url: &str) -> ProbeReport {
    let payments = format!("{url}/payments");
    probe(&payments)
        .header(
            header::AUTHORIZATION,
            HeaderValue::from_static("Bearer alice"),
        )
        .other_caller(
            header::AUTHORIZATION,
            HeaderValue::from_static("Bearer bob"),
        )
        .failing_body(r#"{"amount":1000001,"note":"probe {n}"}"#)
        .witness(&payments, "/count")
        .run()
        .await
        .unwrap()
}

async fn the_payments_server_does_what_it_says(bed: Bed) {
    let url = serve(payments_server::service(bed.store.clone())).await;
    payments_server::show(&url).await.unwrap();

    let report = probed(&url).await;
    assert!(report.is_safe(), "{report}");
    let row = report.row(Check::First).unwrap();
    assert_eq!((row.grade, &*row.seen), (Grade::Good, "201"), "{report}");
    assert!(report.proposal.fits.contains(&"generic"), "{report}");
}

#[tokio::test]
async fn the_payments_server_does_what_it_says_in_memory() {
    the_payments_server_does_what_it_says(Bed::memory()).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn the_payments_server_does_what_it_says_on_postgresql() {
    if let Some(bed) = Bed::postgres().await {
        the_payments_server_does_what_it_says(bed).await;
    }
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn the_chain_of_payments_pays_once() {
    let Some(database) = super::database::Database::fresh().await else {
        return;
    };
    payments_chain::show(&database.pool(4).await).await.unwrap();
}
