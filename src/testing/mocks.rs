//! The wiremock server behind the front.

use std::future::Future as _;
use std::ops::Deref;
use std::pin::pin;
use std::task::{Context, Waker};

use wiremock::MockServer;

/// A [`MockServer`] that can be dropped anywhere in a task.
///
/// wiremock verifies by blocking on one of tokio's locks. Inside a task that has used up its cooperative budget the lock never
/// becomes ready, and the drop hangs. (wiremock 0.6.5, tokio 1.54, November 2026.)
#[derive(Debug)]
pub(super) struct Mocks(Option<MockServer>);

impl Mocks {
    pub(super) const fn new(server: MockServer) -> Self {
        Self(Some(server))
    }
}

impl Deref for Mocks {
    type Target = MockServer;

    fn deref(&self) -> &MockServer {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Mocks {
    fn drop(&mut self) {
        let server = self.0.take();
        let dropped = pin!(tokio::task::unconstrained(async move { drop(server) }));
        let done = dropped.poll(&mut Context::from_waker(Waker::noop()));
        debug_assert!(done.is_ready(), "nothing in it waits");
    }
}
