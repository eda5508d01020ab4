//! The test suite of a small payment SDK, to be copied: wiremock for what the API says, the test kit for what the network does.
//!
//! ```text
//! cargo test --example contract_test
//! cargo run --example contract_test
//! ```
//!
//! As a program it shows what a failed check prints, with an SDK that draws a new key for its own retry.

use idempotency::testing::{ContractServer, Fault::CommitThenDropReply};
use idempotency::{Client, RetryPolicy};
use serde::{Deserialize, Serialize};
use wiremock::ResponseTemplate;
use wiremock::matchers::{method, path};

/// The SDK under test.
struct Payments {
    base: String,
    http: Client,
}

#[derive(Serialize)]
struct Charge {
    amount: u64,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Payment {
    id: u64,
}

impl Payments {
    fn new(base: String, policy: RetryPolicy) -> Result<Self, idempotency::Error> {
        let http = Client::builder().policy(policy).build()?;
        Ok(Self { base, http })
    }

    /// One call is one payment, however often it is sent.
    async fn pay(&self, charge: &Charge) -> Result<Payment, idempotency::Error> {
        let url = format!("{}/payments", self.base);
        let answer = self.http.post(url).json(charge).idempotent().send().await?;
        answer.error_for_status()?.json().await
    }

    /// What not to do: the answer may have been lost after the payment was made.
    async fn pay_again_on_failure(&self, charge: &Charge) -> Result<Payment, idempotency::Error> {
        match self.pay(charge).await {
            Err(_) => self.pay(charge).await,
            other => other,
        }
    }
}

fn paid() -> ResponseTemplate {
    ResponseTemplate::new(201).set_body_json(serde_json::json!({ "id": 7 }))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ContractServer::start().await;
    server
        .operation(method("POST"))
        .and(path("/payments"))
        .respond_with(paid())
        .faults([CommitThenDropReply])
        .mount();
    let sdk = Payments::new(server.uri(), RetryPolicy::never())?;
    match sdk.pay_again_on_failure(&Charge { amount: 100 }).await {
        Ok(payment) => println!("the SDK says: payment {}\n", payment.id),
        Err(error) => println!("the SDK says: {error}\n"),
    }
    let report = server
        .verify()
        .expect_err("two keys were drawn for one payment");
    println!("{report}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use idempotency::testing::Fault::{self, CutAnswer, Pass, SlowHandler, Status};
    use idempotency::testing::matchers::{CarriesKey, OneKeyLine, SameKeyAndBodyAsFirst};
    use idempotency::testing::{Faults, Rule};
    use wiremock::{Mock, MockServer};

    use super::*;

    /// Attempts without waits: a test has no time for backoff.
    fn sdk(base: String) -> Payments {
        Payments::new(base, RetryPolicy::immediate(6)).expect("the settings are good")
    }

    async fn server(faults: impl Into<Faults>) -> ContractServer {
        let server = ContractServer::builder().retry_after(0).start().await;
        server
            .operation(method("POST"))
            .and(path("/payments"))
            .respond_with(paid())
            .faults(faults)
            .mount();
        server
    }

    #[tokio::test]
    async fn a_payment_is_made_once_though_its_answer_is_lost() {
        let server = server([
            CommitThenDropReply,
            Status(503),
            CutAnswer { after: 3 },
            Pass,
        ])
        .await;
        let payment = sdk(server.uri())
            .pay(&Charge { amount: 100 })
            .await
            .unwrap();
        assert_eq!(payment, Payment { id: 7 });
        assert_eq!(server.arrivals().len(), 4);
        server.assert_exactly_once();
    }

    #[tokio::test]
    async fn a_slow_payment_is_waited_for() {
        let server = server([SlowHandler(Duration::from_millis(100))]).await;
        sdk(server.uri())
            .pay(&Charge { amount: 100 })
            .await
            .unwrap();
        server.assert_exactly_once();
    }

    #[tokio::test]
    async fn a_limit_is_obeyed() {
        let limited = Fault::answer(429).with_header("retry-after", "1");
        let server = server([limited]).await;
        sdk(server.uri())
            .pay(&Charge { amount: 100 })
            .await
            .unwrap();
        // The server is checked when it is dropped: a retry before its time would fail the test.
    }

    #[tokio::test]
    async fn a_hundred_payments_in_bad_weather_are_made_once_each() {
        let weather = Faults::random(42, [(CommitThenDropReply, 100), (Status(503), 100)]);
        let server = server(weather).await;
        let sdk = Payments::new(server.uri(), RetryPolicy::immediate(20)).unwrap();
        for amount in 0..100 {
            sdk.pay(&Charge { amount }).await.unwrap();
        }
        assert_eq!(server.executions().len(), 100);
        server.assert_exactly_once();
    }

    #[tokio::test]
    async fn a_new_key_for_a_lost_answer_is_caught() {
        let server = server([CommitThenDropReply]).await;
        let sdk = Payments::new(server.uri(), RetryPolicy::never()).unwrap();
        let _ = sdk.pay_again_on_failure(&Charge { amount: 100 }).await;
        let report = server.verify().unwrap_err();
        assert!(report.broke(Rule::NewKeyAfterLostAnswer), "{report}");
    }

    #[tokio::test]
    async fn plain_wiremock_checks_the_wire_too() {
        let server = MockServer::start().await;
        Mock::given(method("POST"))
            .and(CarriesKey::new())
            .and(OneKeyLine::new())
            .and(SameKeyAndBodyAsFirst::new())
            .respond_with(ResponseTemplate::new(503))
            .expect(6)
            .mount(&server)
            .await;
        let failed = sdk(server.uri()).pay(&Charge { amount: 100 }).await;
        assert_eq!(failed.unwrap_err().attempts().len(), 6);
    }
}
