//! The most memory that reading a 2 MiB answer takes.

use std::time::Duration;

use idempotency::RetryPolicy;

use crate::alloc;
use crate::server::{LARGE, Server};

pub fn table() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    println!("| client | answer of 2 MiB | peak bytes | x of the body |");
    println!("|---|---|---|---|");
    runtime.block_on(async {
        for path in ["/large", "/chunked"] {
            let url = format!("http://{}{path}", server.addr);
            let kind = if path == "/large" {
                "of known length"
            } else {
                "chunked"
            };
            let bare = reqwest::Client::new();
            row("reqwest", kind, || async {
                let response = bare.post(&url).send().await.expect("an answer");
                response.bytes().await.expect("a body").len()
            })
            .await;
            let client = idempotency::Client::builder()
                .policy(
                    RetryPolicy::builder()
                        .attempt_timeout(Duration::from_secs(60))
                        .build()
                        .expect("a policy"),
                )
                .build()
                .expect("a client");
            row("Client", kind, || async {
                let response = client
                    .post(&url)
                    .idempotent()
                    .send()
                    .await
                    .expect("an answer");
                assert!(response.is_buffered());
                response.bytes().await.expect("a body").len()
            })
            .await;
        }
    });
}

async fn row<F: Future<Output = usize>>(name: &str, kind: &str, read: impl Fn() -> F) {
    let mut peaks = Vec::new();
    for _ in 0..5 {
        let before = alloc::live();
        alloc::peak_since_last();
        assert_eq!(read().await, LARGE);
        peaks.push(alloc::peak_since_last().saturating_sub(before));
    }
    peaks.sort_unstable();
    let median = peaks[peaks.len() / 2];
    println!(
        "| {name} | {kind} | {median} | {:.2} |",
        median as f64 / LARGE as f64
    );
}
