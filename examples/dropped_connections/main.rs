//! Sixteen payments over connections that break: once through a plain retry loop, once through this crate.
//!
//! ```text
//! cargo run --example dropped_connections            # or: -- 42, for another order of events
//! ```
//!
//! A payment server on loopback ([`bank`]) keeps the contract of idempotency keys. It also cuts connections: before it has done
//! anything, after it has charged the card, in the middle of the answer, and while it is still charging. Both clients meet the
//! same cuts. The exit code is 1 if this crate charges a card twice or loses a payment.

mod bank;
mod screen;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use bank::{Bank, Cut};
use idempotency::{Backoff, Client, Effect, Replay, RetryPolicy};
use screen::Screen;
use serde_json::json;

const ATTEMPTS: u32 = 4;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let seed = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 7,
    };
    let payments = plan(seed);
    let screen = Screen::start();

    screen.act("1. A retry loop over plain reqwest: four attempts, no key");
    let bank = Bank::open(&payments, &screen).await?;
    for payment in &payments {
        screen.payment(payment);
        pay_in_a_loop(bank.url(), payment, &screen).await;
    }
    let plain = bank.tally(&payments);

    screen.act("2. The same payments through idempotency::Client: four attempts, one key each");
    let bank = Bank::open(&payments, &screen).await?;
    let client = client()?;
    for payment in &payments {
        screen.payment(payment);
        pay_idempotently(&client, bank.url(), payment, &screen).await?;
    }
    let ours = bank.tally(&payments);

    let exact = ours.duplicated == 0 && ours.lost == 0;
    screen.closing_table(&plain, &ours);
    screen.verdict(match exact {
        true => "Through idempotency::Client every payment was made exactly once.",
        false => "FAILED: idempotency::Client charged a card twice or lost a payment.",
    });
    Ok(ExitCode::from(u8::from(!exact)))
}

async fn pay_in_a_loop(url: &str, payment: &Payment, screen: &Screen) {
    let http = reqwest::Client::new();
    for _ in 0..ATTEMPTS {
        let request = http.post(url).json(&payment.body());
        let answer = async { request.send().await?.error_for_status()?.text().await };
        match answer.await {
            Ok(_) => return screen.attempt("201"),
            Err(error) if error.is_request() => screen.attempt("error: no answer"),
            Err(_) => screen.attempt("error: the answer broke off"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    screen.remark("The loop gives up. Was it paid? Nobody knows, so nobody dares to pay again.");
}

async fn pay_idempotently(
    client: &Client,
    url: &str,
    payment: &Payment,
    screen: &Screen,
) -> Result<(), idempotency::Error> {
    let operation = client.post(url).json(&payment.body()).idempotent();
    let mut sends = 1;
    loop {
        match operation.send().await {
            Ok(answer) => {
                screen.append(match answer.replay() {
                    Replay::Fresh => ", fresh",
                    Replay::Replayed => ", replayed",
                    Replay::Unknown => ", not marked",
                });
                return answer.error_for_status().map(drop);
            }
            // Nobody knows whether it was paid. The operation still has its key, so sending it again is safe.
            Err(error) if error.effect() == Effect::Unknown && sends < 3 => {
                sends += 1;
                screen.remark(
                    "All attempts used up, effect unknown. The same operation is sent again.",
                );
            }
            Err(error) => return Err(error),
        }
    }
}

fn client() -> Result<Client, Box<dyn Error>> {
    let ms = Duration::from_millis;
    let policy = RetryPolicy::builder()
        .backoff(Backoff::exponential(ms(20), ms(100)))
        .in_progress_polling(ms(50), ms(200))
        // An hour's bad luck happens here within a second, which the budget against retry storms would rightly stop.
        .no_budget()
        .build()?;
    Ok(Client::builder().policy(policy).build()?)
}

struct Payment {
    number: usize,
    cents: u32,
    /// What happens to its first request, its second, and so on. After the last of them nothing does.
    cuts: &'static [Cut],
}

impl Payment {
    fn body(&self) -> serde_json::Value {
        json!({ "payment": self.number, "cents": self.cents })
    }
}

fn plan(seed: u64) -> Vec<Payment> {
    use Cut::{AfterTheCharge, BeforeTheCharge, InMidAnswer, WhileCharging};
    let mut deck: [&[Cut]; 16] = [
        &[],
        &[],
        &[],
        &[],
        &[],
        &[],
        &[BeforeTheCharge],
        &[BeforeTheCharge],
        &[AfterTheCharge],
        &[AfterTheCharge],
        &[InMidAnswer],
        &[InMidAnswer, AfterTheCharge],
        &[AfterTheCharge, InMidAnswer],
        &[BeforeTheCharge, AfterTheCharge],
        &[WhileCharging],
        // Down for longer than a client tries.
        &[BeforeTheCharge; 5],
    ];
    let mut random = fastrand::Rng::with_seed(seed);
    random.shuffle(&mut deck);
    let payment = |(index, cuts)| Payment {
        number: index + 1,
        cents: random.u32(500..10_000),
        cuts,
    };
    deck.into_iter().enumerate().map(payment).collect()
}
