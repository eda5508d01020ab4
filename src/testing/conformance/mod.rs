//! The conformance probe: what a live server does with keys, found out from outside.

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

pub use propose::Proposal;
pub use report::{Check, Grade, ProbeReport, Row, Verdict};
pub use settings::{Probe, ProbeError, probe};
