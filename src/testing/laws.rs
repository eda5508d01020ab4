//! The laws of [`Store`]s, as a suite that any store can be put through.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use async_trait::async_trait;
//! use idempotency::server::MemoryStore;
//! use idempotency::testing::laws::{self, Clock};
//!
//! /// The store reads tokio's clock, and the test moves it.
//! struct Paused;
//!
//! #[async_trait]
//! impl Clock for Paused {
//!     async fn advance(&self, by: Duration) {
//!         tokio::time::advance(by).await;
//!     }
//! }
//!
//! # let mut runtime = tokio::runtime::Builder::new_current_thread();
//! # runtime.enable_time().start_paused(true).build()?.block_on(async {
//! laws::check(Arc::new(MemoryStore::new()), &Paused).await.assert_kept();
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The laws are written down at [`server::store`](crate::server::store). Each check takes slots of
//! its own, so the store may hold other rows and other tests may use it at the same time.

mod bench;
mod claiming;
mod keeping;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::bench::{Bench, Broken};
use self::claiming::{
    apart, blocked, late_owner, leases, mismatch, not_compared, one_of_many, own_claim, taken_over,
};
use self::keeping::{answers, answers_end, completed, released, sweeping};
use crate::server::Store;

/// Makes time pass for a store.
///
/// Move tokio's paused clock, move the times in the rows back, or wait: the suite asks for about
/// two minutes in all.
#[async_trait]
pub trait Clock: Send + Sync {
    /// After this, the store believes that it is so much later.
    async fn advance(&self, by: Duration);
}

/// What the suite found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    findings: Vec<(&'static str, Result<(), String>)>,
}

impl Report {
    /// Whether every law is kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.broken().next().is_none()
    }

    /// The laws that are broken.
    pub fn broken(&self) -> impl Iterator<Item = &'static str> {
        let broken = self.findings.iter().filter(|(_, finding)| finding.is_err());
        broken.map(|(law, _)| *law)
    }

    /// # Panics
    ///
    /// With the whole report, when a law is broken.
    #[track_caller]
    pub fn assert_kept(&self) {
        assert!(self.is_kept(), "the store breaks its laws\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (law, finding) in &self.findings {
            match finding {
                Ok(()) => writeln!(f, "kept    {law}")?,
                Err(how) => writeln!(f, "BROKEN  {law}: {how}")?,
            }
        }
        Ok(())
    }
}

/// Puts a store through all laws, one after the other. A broken law does not keep the others from
/// being checked.
pub async fn check(store: Arc<dyn Store>, clock: &dyn Clock) -> Report {
    let mut findings = Vec::new();
    for (law, check) in LAWS {
        let bench = Bench {
            store: &store,
            clock,
        };
        let finding = check(bench).await.map_err(|Broken(how)| how);
        findings.push((*law, finding));
    }
    Report { findings }
}

type Checked<'a> = Pin<Box<dyn Future<Output = Result<(), Broken>> + Send + 'a>>;
type Law = for<'a> fn(Bench<'a>) -> Checked<'a>;

const LAWS: &[(&str, Law)] = &[
    ("of fifty claims at once one is owned", |b| {
        Box::pin(one_of_many(b))
    }),
    ("a repeated claim is recognised by its owner", |b| {
        Box::pin(own_claim(b))
    }),
    ("another request is a mismatch, running or completed", |b| {
        Box::pin(mismatch(b))
    }),
    ("without a fingerprint nothing is compared", |b| {
        Box::pin(not_compared(b))
    }),
    (
        "a lease holds until it ends, and heartbeats renew it",
        |b| Box::pin(leases(b)),
    ),
    ("a passed lease is taken over by one claim", |b| {
        Box::pin(taken_over(b))
    }),
    ("a passed lease blocks where the terms say so", |b| {
        Box::pin(blocked(b))
    }),
    ("a late owner changes nothing", |b| Box::pin(late_owner(b))),
    ("a completed answer comes back byte for byte", |b| {
        Box::pin(answers(b))
    }),
    ("a completed slot stays completed", |b| {
        Box::pin(completed(b))
    }),
    ("a released slot is free", |b| Box::pin(released(b))),
    ("an answer ends when its time has passed", |b| {
        Box::pin(answers_end(b))
    }),
    ("sweeping removes what has ended and nothing else", |b| {
        Box::pin(sweeping(b))
    }),
    ("scopes do not meet, and keys are their exact bytes", |b| {
        Box::pin(apart(b))
    }),
];
