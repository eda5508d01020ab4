//! A future whose panic is a value.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

pub(super) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Polls until the end or a panic. Nothing of the handler is used after its panic, so nothing broken
/// can be seen.
pub(super) struct CatchPanic<T>(pub(super) BoxFuture<T>);

impl<T> Future for CatchPanic<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.0.as_mut();
        match catch_unwind(AssertUnwindSafe(|| future.poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(_payload) => Poll::Ready(Err(Panicked)),
        }
    }
}

/// The handler panicked. Its message went to the panic hook, and may hold secrets.
pub(super) struct Panicked;
