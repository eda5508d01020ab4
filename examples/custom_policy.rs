//! How long, how often, and who decides: policies from code and from a configuration file.
//!
//! ```text
//! cargo run --example custom_policy
//! ```

use std::error::Error;
use std::num::NonZeroU32;
use std::time::Duration;

use idempotency::{Backoff, Client, Effect, ErrorKind, RetryConfig, RetryPolicy, StoppedBy};
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = server().await;
    let client = Client::builder().policy(in_code()?).build()?;

    // A server that is down for maintenance: it asks for an hour, we have a minute. The loop does not sleep in vain and does not
    // come back earlier than it may; the hint is the caller's now.
    let error = client
        .post(format!("{}/maintenance", server.uri()))
        .idempotent()
        .send()
        .await
        .err()
        .ok_or("503 is no answer to an operation")?;
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::Status);
    assert_eq!(error.stopped_by(), Some(StoppedBy::WaitTooLong));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3600)));
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(error.attempts().len(), 1);

    // One setting changed for one operation. The retry budget stays the client's.
    let once = client
        .policy()
        .to_builder()
        .max_attempts(NonZeroU32::MIN)
        .build()?;
    let payment = client
        .post(format!("{}/busy", server.uri()))
        .idempotent()
        .policy(once);
    let error = payment
        .send()
        .await
        .err()
        .ok_or("503 is no answer to an operation")?;
    println!("{error}");
    assert_eq!(error.stopped_by(), Some(StoppedBy::Attempts));

    // The same operation, key and all, with the patience of the client's own policy.
    let payment = payment.policy(client.policy().clone());
    let answer = payment.send().await?;
    assert_eq!(answer.idempotency_key(), error.key());
    for attempt in answer.attempts() {
        println!("{attempt}");
    }
    assert_eq!(answer.status(), 201);

    // A misspelt or senseless setting is found when the file is read, and the error names it.
    assert_eq!(
        from_a_file(r#"{ "deadline": "20s" }"#)?.max_attempts(),
        RetryPolicy::standard().max_attempts()
    );
    for (wrong, message) in [
        (r#"{ "deadlin": "20s" }"#, "unknown field `deadlin`"),
        (
            r#"{ "max_attempts": 0 }"#,
            "`max_attempts` is 0: the first attempt counts, so the least is 1",
        ),
    ] {
        let error = from_a_file(wrong).err().ok_or("accepted")?;
        println!("{error}");
        assert!(error.to_string().starts_with(message));
    }
    Ok(())
}

fn in_code() -> Result<RetryPolicy, Box<dyn Error>> {
    Ok(RetryPolicy::builder()
        .max_attempts(NonZeroU32::MIN.saturating_add(5))
        .attempt_timeout(Duration::from_secs(5))
        .deadline(Duration::from_secs(60))
        .max_wait(Duration::from_secs(20))
        .backoff(Backoff::exponential(
            Duration::from_millis(20),
            Duration::from_secs(2),
        ))
        .build()?)
}

fn from_a_file(text: &str) -> Result<RetryPolicy, Box<dyn Error>> {
    let config: RetryConfig = serde_json::from_str(text)?;
    Ok(config.build()?)
}

/// Under `/busy` two requests get a 503, all later ones a 201.
async fn server() -> MockServer {
    let server = MockServer::start().await;
    let hour = ResponseTemplate::new(503).insert_header("retry-after", "3600");
    Mock::given(path("/maintenance"))
        .respond_with(hour)
        .mount(&server)
        .await;
    Mock::given(path("/busy"))
        .respond_with(ResponseTemplate::new(503))
        .up_to_n_times(2)
        .mount(&server)
        .await;
    Mock::given(path("/busy"))
        .respond_with(ResponseTemplate::new(201))
        .mount(&server)
        .await;
    server
}
