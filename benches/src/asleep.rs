//! What an operation holds while it sleeps between two attempts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use idempotency::{Backoff, RetryPolicy};

use crate::alloc;
use crate::server::Server;

/// Operations asleep: 10 000, and fewer and more of them, to see that nothing grows faster than they do.
const COUNTS: [u64; 5] = [10, 100, 1_000, 10_000, 100_000];
const HOUR: Duration = Duration::from_secs(3600);
/// How many are started before all of them are awaited: more would need more sockets than a process may have.
const IN_FLIGHT: u64 = 64;
const TICK: Duration = Duration::from_millis(1);
/// How many ticks without a movement are calm: between two batches, and before memory is counted.
const SHORT: u32 = 2;
const LONG: u32 = 100;

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
            "Client" => ours(count, addr, &url).await,
            _ => reqwest_retry(count, addr, &url).await,
        }
    });
}

async fn ours(count: u64, addr: &str, url: &str) {
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
    measure(count, addr, || {
        let operation = client.post(url).body("amount=100").idempotent();
        let future = operation.send();
        drop(operation);
        tokio::spawn(future);
    })
    .await;
}

async fn reqwest_retry(count: u64, addr: &str, url: &str) {
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
    measure(count, addr, || {
        let request = client.post(url).body("amount=100");
        tokio::spawn(request.send());
    })
    .await;
}

/// Puts them to sleep a few at a time: what is counted is what they hold asleep, not what the rush took.
async fn measure(count: u64, addr: &str, start: impl Fn()) {
    let mut answers = Answers::of(addr);
    // The first one builds what all share.
    start();
    settle(&mut answers, 1, LONG).await;
    let before = alloc::live();
    for started in 1..=count {
        start();
        if started.is_multiple_of(IN_FLIGHT) {
            settle(&mut answers, 1 + started, SHORT).await;
        }
    }
    settle(&mut answers, 1 + count, LONG).await;
    let each = alloc::live().saturating_sub(before) / count;
    drop(answers);
    println!("{each} | {}", sockets());
}

/// Until the server has answered as many as were started, and nobody has taken or given back memory for so long: whoever has
/// its answer has nothing to do but to wait for an hour.
async fn settle(answers: &mut Answers, started: u64, calm: u32) {
    while answers.so_far() < started {
        tokio::time::sleep(TICK).await;
    }
    let mut last = (alloc::calls(), alloc::live());
    let mut quiet = 0;
    while quiet < calm {
        tokio::time::sleep(TICK).await;
        let now = (alloc::calls(), alloc::live());
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
    }
}

/// The server's count of answers to operations, asked over a connection of its own.
struct Answers {
    stream: TcpStream,
    /// Used again: asking must not look like an operation at work.
    read: [u8; 256],
}

impl Answers {
    fn of(addr: &str) -> Self {
        let stream = TcpStream::connect(addr).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Self {
            stream,
            read: [0; 256],
        }
    }

    fn so_far(&mut self) -> u64 {
        self.stream
            .write_all(b"GET /answers HTTP/1.1\r\n\r\n")
            .expect("a server");
        let mut length = 0;
        loop {
            let more = self.stream.read(&mut self.read[length..]);
            length += more.expect("an answer");
            let text = std::str::from_utf8(&self.read[..length]).expect("text");
            // The number has twenty digits: what is shorter is not all of it.
            if let Some((_, number)) = text.split_once("\r\n\r\n")
                && number.len() == 20
            {
                return number.parse().expect("a number");
            }
        }
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
