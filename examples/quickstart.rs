//! A payment whose first answer is lost on the way.
//!
//! ```text
//! cargo run --example quickstart
//! ```

use std::error::Error;
use std::io;

use idempotency::{Client, Effect};
use serde_json::json;
use wiremock::matchers::{header_exists, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = server_that_loses_its_first_answer().await;

    let client = Client::builder().build()?;
    let payment = client
        .post(format!("{}/payments", server.uri()))
        .json(&json!({ "amount": 100, "currency": "EUR" }))
        .idempotent();
    match payment.send().await {
        Ok(answer) if answer.status().is_success() => {
            for attempt in answer.attempts() {
                println!("{attempt}");
            }
            println!("paid: {} ({})", answer.status(), answer.replay());
            assert!(answer.is_replay());
        }
        Ok(answer) => println!("refused: {}", answer.status()),
        Err(error) if error.effect() == Effect::NotExecuted => println!("not paid: {error}"),
        Err(error) => println!("send the same payment again: {error}"),
    }

    // What the server saw: the same request twice.
    let requests = server.received_requests().await.unwrap_or_default();
    let [first, second] = requests.as_slice() else {
        return Err(format!("{} requests instead of two", requests.len()).into());
    };
    assert_eq!(
        first.headers["idempotency-key"],
        second.headers["idempotency-key"]
    );
    assert_eq!(first.body, second.body);
    Ok(())
}

async fn server_that_loses_its_first_answer() -> MockServer {
    let server = MockServer::start().await;
    let payment = || {
        Mock::given(method("POST"))
            .and(path("/payments"))
            .and(header_exists("idempotency-key"))
    };
    payment()
        .respond_with_err(|_: &wiremock::Request| io::Error::from(io::ErrorKind::ConnectionReset))
        .up_to_n_times(1)
        .mount(&server)
        .await;
    let stored = ResponseTemplate::new(201).insert_header("idempotent-replayed", "true");
    payment().respond_with(stored).mount(&server).await;
    server
}
