//! Wall time, as the median of interleaved ratios: a machine that drifts drifts for both.

use std::time::Instant;

use crate::contenders::{Contender, NAMES};
use crate::server::Server;

const ROUNDS: usize = 201;
const OPERATIONS: usize = 300;

pub fn table() {
    let server = Server::start();
    let url = format!("http://{}/ok", server.addr);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    println!("| contender | median of ratios | lowest | highest |");
    println!("|---|---|---|---|");
    runtime.block_on(async {
        let bare = Contender::new("reqwest", &url);
        for name in &NAMES[1..] {
            let contender = Contender::new(name, &url);
            let mut ratios = Vec::with_capacity(ROUNDS);
            for round in 0..=ROUNDS {
                let base = timed(&bare, &url).await;
                let ratio = timed(&contender, &url).await / base;
                // The first round warms up.
                if round > 0 {
                    ratios.push(ratio);
                }
            }
            ratios.sort_by(f64::total_cmp);
            println!(
                "| {name} | {:.3} | {:.3} | {:.3} |",
                ratios[ROUNDS / 2],
                ratios[0],
                ratios[ROUNDS - 1]
            );
        }
    });
}

async fn timed(contender: &Contender, url: &str) -> f64 {
    let start = Instant::now();
    for _ in 0..OPERATIONS {
        contender.operation(url).await;
    }
    start.elapsed().as_secs_f64()
}
