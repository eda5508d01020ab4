//! A service on which payments happen once: axum, one protected route, and a webhook receiver.
//!
//! ```text
//! cargo run --example payments_server            # shows what it promises, and ends
//! cargo run --example payments_server -- serve   # listens on 127.0.0.1:3000, or on LISTEN
//! ```
//!
//! Keys and answers are kept in memory, or in the PostgreSQL at `DATABASE_URL`. With curl:
//!
//! ```text
//! curl -i localhost:3000/payments -H 'authorization: Bearer alice' -H 'idempotency-key: k-1' --json '{"amount":100}'
//! ```
//!
//! The same line again gets the same answer, with `idempotent-replayed: true`. Another amount under `k-1` gets 422, another
//! token pays on its own account, and without a key nothing is paid at all.

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use idempotency::Client;
use idempotency::contract::IdempotencyKey;
use idempotency::server::{IdempotencyLayer, KeyFrom, MemoryStore, Scope, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Clone, Serialize, Deserialize)]
struct Payment {
    amount: u64,
    #[serde(default)]
    confirmed: bool,
}

/// What the service has done. A payment's id is its place.
type Payments = Arc<Mutex<Vec<Payment>>>;

/// The service, on any store of keys.
pub(crate) fn service(store: impl Store) -> Router {
    let store: Arc<dyn Store> = Arc::new(store);
    let payments = IdempotencyLayer::new(store.clone(), Scope::credential());
    // The provider's events have their key in the body. Its signature would be verified in front of this.
    let events =
        IdempotencyLayer::new(store, Scope::global()).key_from(KeyFrom::json_pointer("/id"));
    Router::new()
        .route(
            "/payments",
            post(create_payment).layer(payments).get(count_payments),
        )
        .route("/payments/{id}", get(read_payment))
        .route("/webhooks/provider", post(provider_event).layer(events))
        .with_state(Payments::default())
}

async fn create_payment(
    State(payments): State<Payments>,
    Json(payment): Json<Payment>,
) -> Result<impl IntoResponse, impl IntoResponse> {
    charge(payment.amount).await?;
    let mut payments = payments.lock().expect("no handler panics");
    payments.push(payment.clone());
    let location = format!("/payments/{}", payments.len() - 1);
    let headers = [(header::LOCATION, location)];
    Ok::<_, (StatusCode, String)>((StatusCode::CREATED, headers, Json(payment)))
}

/// The bank behind the service takes its time, and fails above a million, before it has done anything. So its failure may
/// free the key, which is what a 5xx does unless the layer is told otherwise.
async fn charge(amount: u64) -> Result<(), (StatusCode, String)> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
    tokio::time::sleep(Duration::from_millis(100)).await;
    match amount {
        0..=1_000_000 => Ok(()),
        _ => Err((
            StatusCode::BAD_GATEWAY,
            format!("call {call} to the bank failed"),
        )),
    }
}

async fn count_payments(State(payments): State<Payments>) -> Json<Value> {
    let count = payments.lock().expect("no handler panics").len();
    Json(json!({ "count": count }))
}

/// The resource, as it is now; the replayed answer to its creation is as it was then.
async fn read_payment(
    State(payments): State<Payments>,
    Path(id): Path<usize>,
) -> Result<Json<Payment>, StatusCode> {
    let payments = payments.lock().expect("no handler panics");
    payments
        .get(id)
        .cloned()
        .map(Json)
        .ok_or(StatusCode::NOT_FOUND)
}

async fn provider_event(State(payments): State<Payments>, Json(event): Json<Value>) -> StatusCode {
    let mut payments = payments.lock().expect("no handler panics");
    let payment = event["payment"]
        .as_u64()
        .and_then(|id| payments.get_mut(usize::try_from(id).ok()?));
    match payment {
        Some(payment) => {
            payment.confirmed = true;
            StatusCode::NO_CONTENT
        }
        None => StatusCode::NOT_FOUND,
    }
}

#[cfg(feature = "postgres")]
async fn store() -> Result<Arc<dyn Store>, Box<dyn Error>> {
    use idempotency::reexports::sqlx::PgPool;
    use idempotency::server::PostgresStore;

    let Ok(url) = std::env::var("DATABASE_URL") else {
        return Ok(Arc::new(MemoryStore::new()));
    };
    let store = PostgresStore::new(PgPool::connect(&url).await?);
    store.migrate().await?;
    Ok(Arc::new(store))
}

#[cfg(not(feature = "postgres"))]
async fn store() -> Result<Arc<dyn Store>, Box<dyn Error>> {
    Ok(Arc::new(MemoryStore::new()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let router = service(store().await?);
    if std::env::args().nth(1).as_deref() == Some("serve") {
        let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
        let listener = TcpListener::bind(&address).await?;
        println!("listening on http://{address}");
        axum::serve(listener, router).await?;
        return Ok(());
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, router).await });
    show(&url).await
}

pub(crate) async fn show(url: &str) -> Result<(), Box<dyn Error>> {
    // Left to itself the client refuses to use one key for two requests; here the server is to show that it does.
    let client = Client::builder().allow_key_reuse().build()?;
    let pay = |amount: u64, key: IdempotencyKey| {
        let request = client.post(format!("{url}/payments")).bearer_auth("alice");
        request
            .json(&json!({ "amount": amount }))
            .idempotent_with(key)
    };
    let key = IdempotencyKey::random();
    let paid = pay(100, key.clone()).send().await?;
    println!(
        "paid:           {} {}",
        paid.status(),
        paid.headers()["location"].to_str()?
    );
    assert_eq!(
        (paid.status(), paid.is_replay()),
        (StatusCode::CREATED, false)
    );

    let again = pay(100, key.clone()).send().await?;
    println!("the same again: {} {}", again.status(), again.replay());
    assert_eq!(
        (again.status(), again.is_replay()),
        (StatusCode::CREATED, true)
    );
    assert_eq!(again.headers()["location"], paid.headers()["location"]);

    let other = pay(200, key).send().await?;
    println!("another amount: {}", other.status());
    assert!(other.is_mismatch());

    // Delivered twice, as webhooks are.
    let location = paid.headers()["location"].to_str()?.to_owned();
    let id: u64 = location.rsplit('/').next().unwrap_or_default().parse()?;
    let event = json!({ "id": format!("evt_{}", IdempotencyKey::random()), "payment": id });
    for replayed in [None, Some("true")] {
        let deliver = reqwest::Client::new().post(format!("{url}/webhooks/provider"));
        let answer = deliver.json(&event).send().await?;
        assert_eq!(answer.status(), StatusCode::NO_CONTENT);
        let marker = answer.headers().get("idempotent-replayed");
        assert_eq!(
            marker.map(|value| value.as_bytes()),
            replayed.map(str::as_bytes)
        );
    }

    // The replay is the answer of then. Who wants to know how things are reads the resource.
    let then: Payment = again.json().await?;
    let now: Payment = client
        .get(format!("{url}{location}"))
        .send()
        .await?
        .json()
        .await?;
    println!("confirmed then: {}, now: {}", then.confirmed, now.confirmed);
    assert!(!then.confirmed && now.confirmed);
    Ok(())
}
