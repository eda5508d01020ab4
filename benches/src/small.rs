//! Small things: the size of a future, the time for a key, for a verdict, and for many attempts.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::time::{Duration, Instant};

use http::StatusCode;
use http_body_util::{BodyExt as _, Empty};
use idempotency::retry::{Answer, Outcome, Protection, Situation, assess, decide};
use idempotency::{
    Backoff, Client, Error, IdempotencyKey, IdempotencyMiddleware, RequestBuilderExt as _,
    RetryPolicy,
};
use reqwest_middleware::{ClientBuilder, Middleware, Next};

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
    attempts_without_exchange();
    attempts();
}

/// Everything about an attempt but its exchange: to make the request, to read the answer or the error, to classify, decide and
/// report.
fn attempts_without_exchange() {
    const ATTEMPTS: u32 = 10_000;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    for (outcome, name) in [
        (Outcomes::Unavailable, "answered with 503"),
        (Outcomes::Reset, "that fails with a reset"),
    ] {
        let policy = RetryPolicy::builder()
            .max_attempts(NonZeroU32::new(ATTEMPTS).expect("not zero"))
            .backoff(Backoff::constant(Duration::ZERO))
            .no_budget()
            .no_deadline()
            .build()
            .expect("a policy");
        let client = ClientBuilder::new(reqwest::Client::new())
            .with(IdempotencyMiddleware::new().policy(policy))
            .with(outcome)
            .build();
        let mut rounds: Vec<f64> = (0..11)
            .map(|_| {
                let start = Instant::now();
                let sent = client.post("http://127.0.0.1:9/").body("x").idempotent();
                let error = runtime
                    .block_on(sent.send())
                    .expect_err("it never succeeds");
                let error = Error::from_middleware(&error).expect("an error of ours");
                assert_eq!(error.attempts().len(), ATTEMPTS as usize, "{error:?}");
                start.elapsed().as_nanos() as f64 / f64::from(ATTEMPTS)
            })
            .collect();
        rounds.sort_by(f64::total_cmp);
        println!(
            "| an attempt {name}, without the exchange | {:.0} ns |",
            rounds[5]
        );
    }
}

/// A server that answers at once, in the place of the transport.
#[derive(Clone, Copy)]
enum Outcomes {
    Unavailable,
    Reset,
}

impl Outcomes {
    async fn next(self) -> reqwest_middleware::Result<reqwest::Response> {
        match self {
            Self::Unavailable => {
                let mut answer = http::Response::new("down");
                *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                Ok(answer.into())
            }
            Self::Reset => {
                let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                let broken = std::future::ready(Some(Err(reset)));
                let body = Empty::<bytes::Bytes>::new().map_err(|never| match never {});
                let mut body = reqwest::Body::wrap(body.with_trailers(broken));
                let frame = body.frame().await.expect("a frame");
                Err(frame.expect_err("it is broken").into())
            }
        }
    }
}

impl Middleware for Outcomes {
    fn handle<'s, 'e, 'n, 'f>(
        &'s self,
        _: reqwest::Request,
        _: &'e mut http::Extensions,
        _: Next<'n>,
    ) -> Pin<Box<dyn Future<Output = reqwest_middleware::Result<reqwest::Response>> + Send + 'f>>
    where
        's: 'f,
        'e: 'f,
        'n: 'f,
    {
        Box::pin(self.next())
    }
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
