//! An operation: a request with its key, which can be sent again and again.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::error::Error;
use super::operation::Operation;
use super::pending::Pending;
use super::response::Response;
use super::settle::Wanted;
use crate::contract::{Contract, IdempotencyKey};
use crate::retry::RetryPolicy;

/// An operation. "Again" is the same value: [`send`](Self::send) can be called as often as need be, always with the same key.
///
/// # Examples
///
/// ```no_run
/// # async fn pay(client: idempotency::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let payment = client.post("https://api.example.com/payments").body("amount=100").idempotent();
/// // The key can be saved before the first byte leaves.
/// println!("{:?}", payment.key());
/// // A future that was dropped has lost nothing: the operation is still there.
/// let impatient = tokio::time::timeout(std::time::Duration::from_secs(1), payment.send()).await;
/// let response = match impatient {
///     Ok(result) => result?,
///     Err(_) => tokio::spawn(payment.send()).await??,
/// };
/// # let _ = response;
/// # Ok(())
/// # }
/// ```
#[must_use = "an operation does nothing until it is sent"]
pub struct IdempotentRequest(Arc<Operation>);

impl IdempotentRequest {
    /// The operation is complete but for its key.
    pub(crate) fn new(mut operation: Arc<Operation>, wanted: Wanted) -> Self {
        Operation::change(&mut operation, |operation| operation.complete(wanted));
        Self(operation)
    }

    fn change(mut self, change: impl FnOnce(&mut Operation)) -> Self {
        Operation::change(&mut self.0, change);
        self
    }

    /// The operation's key. It does not change. [`None`] on a safe method.
    #[must_use]
    pub fn key(&self) -> Option<&IdempotencyKey> {
        self.0.key.as_ref().map(|key| &key.key)
    }

    /// Another policy for this operation. Its connect timeout does not count: that is the client's.
    pub fn policy(self, policy: RetryPolicy) -> Self {
        self.change(|operation| operation.overrides().policy = Some(policy))
    }

    /// Another deadline for each `send` of this operation.
    pub fn deadline(self, deadline: Duration) -> Self {
        self.change(|operation| operation.overrides().deadline = Some(deadline))
    }

    /// Another contract for this operation. The key stays; it is taken out of where it was written and written the way this contract
    /// says. Only where this contract takes nothing but UUIDs of version 7 a drawn key that was not sent yet becomes one of those.
    pub fn contract(self, contract: Contract) -> Self {
        self.change(|operation| operation.move_to(contract))
    }

    /// When this operation was first sent, in an earlier life of it. From then on its key's window is counted, and every answer
    /// is one that follows an attempt of unknown outcome.
    pub fn first_sent(self, time: SystemTime) -> Self {
        self.0.past().sent_before(time);
        self
    }

    /// Hands the answer out at its head instead of reading it inside the attempt. An answer that is lost in its body is then not
    /// retried. Of an error the beginning is read all the same, since it says what the error means.
    pub fn stream_answer(self) -> Self {
        self.change(|operation| operation.overrides().stream_answer = true)
    }

    /// This operation in a form that can be written down, to be taken up by [`Client::resume`](crate::Client::resume).
    ///
    /// # Errors
    ///
    /// The error that [`send`](Self::send) would give before sending, or
    /// [`ErrorKind::RequestBody`](crate::ErrorKind::RequestBody) for a body that is a stream.
    pub fn to_pending(&self) -> Result<Pending, Error> {
        match &self.0.request {
            Ok(frozen) => Pending::of(&self.0, frozen),
            Err(fault) => Err(fault.to_error_after(self.0.past())),
        }
    }

    /// Sends the operation. The future owns what it needs, so it can be spawned; dropping it stops everything.
    ///
    /// # Errors
    ///
    /// [`Error`] where no definite answer was obtained. Its [`effect`](Error::effect) says what is certain.
    pub fn send(&self) -> impl Future<Output = Result<Response, Error>> + Send + 'static + use<> {
        Arc::clone(&self.0).send()
    }
}

impl fmt::Debug for IdempotentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotentRequest")
            .field("key", &self.key())
            .field("fault", &self.0.request.as_ref().err())
            .finish_non_exhaustive()
    }
}
