//! Small things: the size of a future, the time for a key, for a verdict, and for many attempts.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use http::StatusCode;
use idempotency::retry::{Answer, Outcome, Protection, Situation, assess, decide};
use idempotency::{Backoff, Client, IdempotencyKey, RetryPolicy};

use crate::alloc;
use crate::server::Server;

const CALLS: u32 = 200_000;

pub fn table() {
    println!("| what | figure |");
    println!("|---|---|");
    let client = Client::builder().build().expect("a client");
    let operation = client.post("http://127.0.0.1:9/").body("x").idempotent();
    let future = operation.send();
    println!("| the future of `send` | {} bytes |", size_of_val(&future));
    drop(future);

    let key = median(|| {
        black_box(IdempotencyKey::random());
    });
    println!("| a key | {key:.0} ns |");

    let policy = RetryPolicy::builder()
        .backoff(Backoff::constant(Duration::ZERO))
        .build()
        .expect("a policy");
    let mut delays = policy.backoff().delays();
    let verdict = median(|| {
        let answer = Answer::plain(black_box(StatusCode::BAD_GATEWAY));
        let assessment = assess(Protection::DrawnKey, Outcome::Answer(answer), false);
        let mut situation = Situation::begin(&policy);
        situation.attempts = 1;
        black_box(decide(&policy, &situation, assessment, &mut delays, || {
            true
        }));
    });
    println!("| to assess and decide | {verdict:.0} ns |");
    attempts();
}

/// One operation of 1, 10, 100 and 1000 attempts: no attempt may cost more for those before it.
fn attempts() {
    let server = Server::start();
    let url = format!("http://{}/down", server.addr);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        for attempts in [1, 10, 100, 1000] {
            let policy = RetryPolicy::builder()
                .max_attempts(NonZeroU32::new(attempts).expect("not zero"))
                .backoff(Backoff::constant(Duration::ZERO))
                .no_budget()
                .build()
                .expect("a policy");
            let client = Client::builder().policy(policy).build().expect("a client");
            let send = || client.post(&url).body("x").idempotent().send();
            let _ = send().await;
            let (calls, start) = (alloc::calls(), Instant::now());
            let error = send().await.expect_err("the server is down");
            assert_eq!(error.attempts().len(), attempts as usize);
            let each = start.elapsed() / attempts;
            let calls = (alloc::calls() - calls) as f64 / f64::from(attempts);
            println!(
                "| one of {attempts} attempts | {} µs, {calls:.1} allocations |",
                each.as_micros()
            );
        }
    });
}

/// Nanoseconds a call: the median of eleven rounds.
fn median(mut call: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..11)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                call();
            }
            start.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[5]
}
