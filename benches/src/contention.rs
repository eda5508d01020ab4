//! Sixty-four tasks on two threads: throughput against bare reqwest, and the budget and the key generator alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use idempotency::IdempotencyKey;
use idempotency::retry::{Origin, RetryBudget};

use crate::alloc;
use crate::contenders::Contender;
use crate::server::Server;

const TASKS: usize = 64;
const ROUNDS: usize = 201;
const OPERATIONS: usize = 40;
const CALLS: u32 = 20_000;

pub fn table() {
    alloc::stop_counting();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let server = Server::start();
    let url: Arc<str> = format!("http://{}/ok", server.addr).into();
    runtime.block_on(async {
        println!("| 64 in flight, 2 threads | median of ratios of throughput |");
        println!("|---|---|");
        let bare = Arc::new(Contender::new("reqwest", &url));
        for name in ["Client", "Endpoint", "ClientWithMiddleware"] {
            let contender = Arc::new(Contender::new(name, &url));
            let mut ratios = Vec::with_capacity(ROUNDS);
            for round in 0..=ROUNDS {
                let base = throughput(&bare, &url).await;
                let ratio = throughput(&contender, &url).await / base;
                if round > 0 {
                    ratios.push(ratio);
                }
            }
            ratios.sort_by(f64::total_cmp);
            println!("| {name} | {:.3} |", ratios[ROUNDS / 2]);
        }
        let budget = RetryBudget::default();
        let origin = Origin::of("https", "api.example.com", 443);
        let deposit = each(move || budget.deposit(origin, Duration::ZERO)).await;
        println!("| a deposit to one budget, 64 tasks | {deposit:.0} ns |");
        let key = each(|| {
            std::hint::black_box(IdempotencyKey::random());
        })
        .await;
        println!("| a key, 64 tasks | {key:.0} ns |");
    });
}

async fn throughput(contender: &Arc<Contender>, url: &Arc<str>) -> f64 {
    let start = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (contender, url) = (Arc::clone(contender), Arc::clone(url));
            tokio::spawn(async move {
                for _ in 0..OPERATIONS {
                    contender.operation(&url).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task");
    }
    1.0 / start.elapsed().max(Duration::from_nanos(1)).as_secs_f64()
}

/// Nanoseconds of one thread's time for a call.
async fn each(call: impl Fn() + Clone + Send + 'static) -> f64 {
    let start = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let call = call.clone();
            tokio::spawn(async move {
                for _ in 0..CALLS {
                    call();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task");
    }
    start.elapsed().as_nanos() as f64 * 2.0 / (TASKS as f64 * f64::from(CALLS))
}
