//! A payment that survives a crash: the operation is written down before its first byte leaves.
//!
//! ```text
//! cargo run --example save_the_key_first
//! ```

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use idempotency::{Client, Pending};
use serde_json::json;
use wiremock::matchers::{header, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = slow_server().await;
    // A row of your database, in the transaction that creates the order, does better than a file.
    let file = std::env::temp_dir().join(format!("pending-payment-{}.json", std::process::id()));

    // The process dies while the request is on its way.
    let crash = tokio::time::timeout(Duration::from_millis(200), begin(&server.uri(), &file)).await;
    assert!(crash.is_err());

    let paid = take_up(&file).await?;
    println!("paid: {paid}");
    assert!(!file.exists());

    let requests = server.received_requests().await.unwrap_or_default();
    let [before, after] = requests.as_slice() else {
        return Err(format!("{} requests instead of two", requests.len()).into());
    };
    assert_eq!(
        before.headers["idempotency-key"],
        after.headers["idempotency-key"]
    );
    assert_eq!(before.body, after.body);
    Ok(())
}

async fn begin(server: &str, file: &Path) -> Result<(), Box<dyn Error>> {
    let client = Client::builder().build()?;
    let payment = client
        .post(format!("{server}/payments"))
        .bearer_auth("token of today")
        .json(&json!({ "order": 7, "amount": 100 }))
        .idempotent();
    fs::write(file, serde_json::to_vec(&payment.to_pending()?)?)?;
    payment.send().await?;
    Ok(fs::remove_file(file)?)
}

/// After the restart: same key, same request, a fresh token.
async fn take_up(file: &Path) -> Result<String, Box<dyn Error>> {
    let client = Client::builder().build()?;
    let pending: Pending = serde_json::from_slice(&fs::read(file)?)?;
    let pending = pending.with_header("authorization", "Bearer token of tomorrow")?;
    let answer = client.resume(&pending).send().await?;
    // The marker says that the payment had been made before the crash. Without one it would be `Replay::Unknown`.
    assert!(answer.is_replay());
    let answer = answer.error_for_status()?;
    // Only a definite answer ends the operation.
    fs::remove_file(file)?;
    Ok(answer.text().await?)
}

async fn slow_server() -> MockServer {
    let server = MockServer::start().await;
    let payment = |token| {
        Mock::given(method("POST"))
            .and(path("/payments"))
            .and(header("authorization", token))
    };
    payment("Bearer token of today")
        .respond_with(ResponseTemplate::new(201).set_delay(Duration::from_secs(5)))
        .mount(&server)
        .await;
    let stored = ResponseTemplate::new(201)
        .insert_header("idempotent-replayed", "true")
        .set_body_string("charge ch_7");
    payment("Bearer token of tomorrow")
        .respond_with(stored)
        .mount(&server)
        .await;
    server
}
