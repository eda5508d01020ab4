//! The kit's clock, which a test can move.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time since the server was started: real time, if the clock runs, and what it was moved by.
#[derive(Debug, Clone)]
pub(super) struct KitClock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: Instant,
    runs: bool,
    moved_micros: AtomicU64,
}

impl KitClock {
    pub(super) fn new(runs: bool) -> Self {
        Self(Arc::new(Inner {
            started: Instant::now(),
            runs,
            moved_micros: AtomicU64::new(0),
        }))
    }

    pub(super) fn now(&self) -> Duration {
        let real = match self.0.runs {
            true => self.0.started.elapsed(),
            false => Duration::ZERO,
        };
        real.saturating_add(Duration::from_micros(
            self.0.moved_micros.load(Ordering::SeqCst),
        ))
    }

    pub(super) fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        let moved = |moved: u64| Some(moved.saturating_add(micros));
        let _ = self
            .0
            .moved_micros
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, moved);
    }
}
