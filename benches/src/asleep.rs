//! What an operation holds while it sleeps between two attempts.

use std::process::{Command, Stdio};
use std::time::Duration;

use idempotency::{Backoff, RetryPolicy};

use crate::alloc;
use crate::server::Server;

/// Operations asleep: 10 000, and fewer and more of them, to see that nothing grows faster than they do.
const COUNTS: [u64; 5] = [10, 100, 1_000, 10_000, 100_000];
const HOUR: Duration = Duration::from_secs(3600);

pub fn table() {
    println!("| contender | error body | asleep | heap bytes each | open sockets |");
    println!("|---|---|---|---|---|");
    for (contender, counts) in [("Client", &COUNTS[..]), ("reqwest-retry", &COUNTS[3..4])] {
        for (path, body) in [("/down", "4 bytes"), ("/down/large", "256 KiB")] {
            for count in counts {
                // A large page is written a hundred thousand times in vain: ten thousand show it.
                if path == "/down/large" && *count != 10_000 && contender == "Client" {
                    continue;
                }
                if path == "/down/large" && contender == "reqwest-retry" {
                    // It holds the failed response, and with it a socket for each operation.
                    row(contender, body, 500, path);
                    continue;
                }
                row(contender, body, *count, path);
            }
        }
    }
}

fn row(contender: &str, body: &str, count: u64, path: &str) {
    let server = Server::start();
    let this = std::env::current_exe().expect("this program");
    let output = Command::new(this)
        .args([
            "asleep-run",
            contender,
            &count.to_string(),
            path,
            &server.addr,
        ])
        .stdin(Stdio::null())
        .output()
        .expect("this program runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    println!("| {contender} | {body} | {count} | {} |", said.trim());
}

pub fn run(contender: &str, count: &str, path: &str, addr: &str) {
    let count: u64 = count.parse().expect("a number");
    let url = format!("http://{addr}{path}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        match contender {
            "Client" => ours(count, &url).await,
            _ => reqwest_retry(count, &url).await,
        }
    });
}

async fn ours(count: u64, url: &str) {
    let policy = RetryPolicy::builder()
        .backoff(Backoff::constant(HOUR))
        .no_deadline()
        .no_budget()
        .build()
        .expect("a policy");
    let client = idempotency::Client::builder()
        .reqwest(reqwest::Client::builder().pool_max_idle_per_host(0))
        .policy(policy)
        .build()
        .expect("a client");
    measure(count, || {
        let operation = client.post(url).body("amount=100").idempotent();
        let future = operation.send();
        drop(operation);
        tokio::spawn(future);
    })
    .await;
}

async fn reqwest_retry(count: u64, url: &str) {
    let policy = reqwest_retry::policies::ExponentialBackoff::builder()
        .retry_bounds(HOUR, HOUR)
        .jitter(reqwest_retry::Jitter::None)
        .build_with_max_retries(3);
    let client = reqwest_middleware::ClientBuilder::new(
        reqwest::Client::builder()
            .pool_max_idle_per_host(0)
            .build()
            .expect("a client"),
    )
    .with(reqwest_retry::RetryTransientMiddleware::new_with_policy(
        policy,
    ))
    .build();
    measure(count, || {
        let request = client.post(url).body("amount=100");
        tokio::spawn(request.send());
    })
    .await;
}

/// Puts them to sleep one after the other: what is counted is what they hold asleep, not what the rush took.
async fn measure(count: u64, start: impl Fn()) {
    // The first one builds what all share.
    start();
    settle().await;
    let before = alloc::live();
    for _ in 0..count {
        start();
        settle().await;
    }
    let each = alloc::live().saturating_sub(before) / count;
    println!("{each} | {}", sockets());
}

/// Until the operation sleeps: it has nothing to do then but to wait for an hour, so the runtime is idle.
async fn settle() {
    let metrics = tokio::runtime::Handle::current().metrics();
    let mut quiet = 0;
    while quiet < 3 {
        tokio::time::sleep(Duration::from_micros(300)).await;
        quiet = if metrics.global_queue_depth() == 0 {
            quiet + 1
        } else {
            0
        };
    }
}

fn sockets() -> usize {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return 0;
    };
    entries
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}
