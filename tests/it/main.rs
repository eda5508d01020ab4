//! The crate's integration tests in one binary: modules by promise, helpers in `support`.
#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test, or a server that a test owns, reports a broken assumption"
)]

mod bad_input;
mod bodies;
mod contracts;
mod decision;
mod house;
#[cfg(feature = "testing")]
mod kit;
mod middleware;
mod promises;
#[cfg(all(feature = "server", feature = "testing"))]
mod server;
mod stories;
mod support;
mod support_works;
mod traces;
mod transport;
