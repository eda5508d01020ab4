//! The examples keep their word, on both stores.

#[path = "../../../examples/payments_chain.rs"]
#[cfg(feature = "postgres")]
#[expect(dead_code, reason = "its `main` is for those who run it")]
mod payments_chain;
#[path = "../../../examples/payments_server.rs"]
#[expect(dead_code, reason = "its `main` is for those who run it")]
mod payments_server;

use axum::Router;
use tokio::net::TcpListener;

use super::bed::{Bed, on_both_stores};

on_both_stores!(the_payments_server_does_what_it_says);

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

async fn the_payments_server_does_what_it_says(bed: Bed) {
    let url = serve(payments_server::service(bed.store.clone())).await;
    payments_server::show(&url).await.unwrap();
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn the_chain_of_payments_pays_once() {
    let Some(database) = super::database::Database::fresh().await else {
        return;
    };
    payments_chain::show(&database.pool(4).await).await.unwrap();
}
