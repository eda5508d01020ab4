//! The conformance probe: what a live server does with keys, found out from outside.
//!
//! ```
//! use idempotency::testing::{ContractServer, probe};
//! # use wiremock::ResponseTemplate;
//! # use wiremock::matchers::method;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
//! # let paid = AtomicUsize::new(0);
//! # let pay = move |_: &wiremock::Request| {
//! #     ResponseTemplate::new(201).set_body_json(paid.fetch_add(1, SeqCst))
//! # };
//! # use idempotency::testing::Rule;
//! # let server = ContractServer::start().await;
//! # server.operation(method("POST")).respond_with(pay).mount();
//! let report = probe(format!("{}/payments", server.uri())).run().await?;
//! assert!(report.is_safe(), "{report}");
//! println!("{report}");
//! # server.verify().unwrap_err();
//! # Ok(())
//! # }
//! ```

mod bodies;
mod failures;
mod first;
mod keys;
mod marker;
mod propose;
mod races;
mod report;
mod run;
mod send;
mod settings;

pub use propose::{Proposal, named_contracts};
pub use report::{Check, Grade, ProbeReport, Row, Verdict};
pub use settings::{Probe, ProbeError, probe};
