//! A chain: a client, a shop on PostgreSQL, and a bank that the shop calls. The shop fails after the bank has been paid, and
//! still one order costs one payment.
//!
//! ```text
//! DATABASE_URL=postgres:///shop cargo run --example payments_chain --features postgres
//! ```
//!
//! The shop's own work and its record are one transaction. The bank is elsewhere, so it gets a key that is derived from the
//! order's key and is the same in every run.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use idempotency::reexports::sqlx;
use idempotency::server::{IdempotencyLayer, MemoryStore, Operation, PostgresStore, Scope, Tx};
use idempotency::{Client, RetryPolicy};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::net::TcpListener;

/// The bank: a service of somebody else, with a store of its own.
fn bank(payments: Arc<AtomicU32>) -> Router {
    let pay = move || async move {
        let payment = payments.fetch_add(1, Ordering::SeqCst) + 1;
        (StatusCode::CREATED, Json(json!({ "payment": payment })))
    };
    let layer = IdempotencyLayer::new(MemoryStore::new(), Scope::credential());
    Router::new().route("/payments", post(pay).layer(layer))
}

#[derive(Clone)]
struct Shop {
    client: Client,
    bank: String,
    runs: Arc<AtomicU32>,
}

fn shop(store: PostgresStore, shop: Shop) -> Router {
    let layer = IdempotencyLayer::new(store, Scope::credential()).transactional();
    Router::new()
        .route("/orders", post(create_order).layer(layer))
        .with_state(shop)
}

async fn create_order(
    State(shop): State<Shop>,
    operation: Operation,
    mut tx: Tx,
    Json(order): Json<Value>,
) -> Result<(StatusCode, Json<Value>), StatusCode> {
    let amount = order["amount"]
        .as_i64()
        .ok_or(StatusCode::UNPROCESSABLE_ENTITY)?;
    let insert = sqlx::query("INSERT INTO orders (amount) VALUES ($1)").bind(amount);
    insert
        .execute(&mut *tx)
        .await
        .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;

    let payment = shop
        .client
        .post(format!("{}/payments", shop.bank))
        .bearer_auth("shop");
    let payment = payment
        .json(&json!({ "amount": amount }))
        .idempotent_with(operation.downstream_key("payment"));
    let paid = payment.send().await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    println!(
        "run {}: the bank says {} ({})",
        shop.runs.load(Ordering::SeqCst) + 1,
        paid.status(),
        paid.replay()
    );
    let paid: Value = paid.json().await.map_err(|_| StatusCode::BAD_GATEWAY)?;

    // The first run fails here: the bank is paid, the order is not yet there.
    if shop.runs.fetch_add(1, Ordering::SeqCst) == 0 {
        return Err(StatusCode::INTERNAL_SERVER_ERROR);
    }
    Ok((StatusCode::CREATED, Json(paid)))
}

async fn serve(router: Router) -> Result<String, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(format!("http://{address}"))
}

pub(crate) async fn show(pool: &PgPool) -> Result<(), Box<dyn Error>> {
    let store = PostgresStore::new(pool.clone());
    store.migrate().await?;
    sqlx::query("CREATE TABLE orders (amount bigint NOT NULL)")
        .execute(pool)
        .await?;

    let (payments, runs) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let client = Client::builder()
        .policy(RetryPolicy::immediate(4))
        .build()?;
    let shop_url = serve(shop(
        store,
        Shop {
            client: client.clone(),
            bank: serve(bank(payments.clone())).await?,
            runs: runs.clone(),
        },
    ))
    .await?;

    let order = client
        .post(format!("{shop_url}/orders"))
        .bearer_auth("alice");
    let ordered = order
        .json(&json!({ "amount": 100 }))
        .idempotent()
        .send()
        .await?;
    for attempt in ordered.attempts() {
        println!("{attempt}");
    }
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders")
        .fetch_one(pool)
        .await?;
    println!(
        "{} runs, {orders} order, {} payment",
        runs.load(Ordering::SeqCst),
        payments.load(Ordering::SeqCst)
    );
    assert_eq!(ordered.status(), StatusCode::CREATED);
    assert_eq!(
        (
            runs.load(Ordering::SeqCst),
            orders,
            payments.load(Ordering::SeqCst)
        ),
        (2, 1, 1)
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Ok(url) = std::env::var("DATABASE_URL") else {
        println!(
            "set DATABASE_URL to a PostgreSQL database, such as postgres:///shop, to see the chain at work"
        );
        return Ok(());
    };
    // A schema of its own, so that it can be run on any database and leaves nothing behind.
    let schema = format!("payments_chain_{}", std::process::id());
    let admin = PgPool::connect(&url).await?;
    sqlx::query(AssertSqlSafe(format!("CREATE SCHEMA {schema}")))
        .execute(&admin)
        .await?;
    let options = url
        .parse::<PgConnectOptions>()?
        .options([("search_path", &schema)]);
    let shown = show(&PgPoolOptions::new().connect_with(options).await?).await;
    sqlx::query(AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE")))
        .execute(&admin)
        .await?;
    shown
}
