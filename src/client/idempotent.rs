//! An operation: a request with its key, which can be sent again and again.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::error::{Error, ErrorKind};
use super::frozen::Frozen;
use super::http_client::Client;
use super::operation::{Fault, KeyInUse, Overrides, Wanted, key_for_all, settle};
use super::past::Past;
use super::pending::Pending;
use super::response::Response;
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
pub struct IdempotentRequest {
    client: Client,
    frozen: Result<Arc<Frozen>, Box<Fault>>,
    /// What one contract has refused; another may take it.
    refused: Option<(Arc<Frozen>, Wanted)>,
    /// The request before the key was written into its body or its query.
    unwritten: Option<Arc<Frozen>>,
    key: Option<KeyInUse>,
    /// Boxed, for most operations have none.
    overrides: Option<Box<Overrides>>,
    past: Arc<Past>,
}

impl IdempotentRequest {
    pub(crate) fn new(client: Client, frozen: Result<Frozen, Fault>, wanted: Wanted) -> Self {
        let mut new = Self {
            key: None,
            frozen: frozen.map(Arc::new).map_err(Box::new),
            refused: None,
            unwritten: None,
            overrides: None,
            past: Arc::new(Past::default()),
            client,
        };
        let wanted = wanted.shaped(new.client.contract());
        new.settle(wanted);
        new
    }

    fn settle(&mut self, wanted: Wanted) {
        let contract = self.effective_contract().clone();
        let contract = &contract;
        if contract.key_header().is_none() {
            self.unwritten = self.frozen.as_ref().ok().map(Arc::clone);
        }
        let for_all = key_for_all(contract, self.client.default_headers());
        let settled = match &mut self.frozen {
            Ok(_) if let Some(message) = for_all => {
                Err(Fault::new(ErrorKind::Key, message).of(wanted.asked()))
            }
            Ok(frozen) => settle(contract, Arc::make_mut(frozen), wanted.clone()),
            Err(fault) => Err(Fault::clone(fault).of(wanted.asked())),
        };
        match settled {
            Ok(key) => self.key = key,
            Err(fault) => {
                self.key = fault.key().cloned();
                let refused = std::mem::replace(&mut self.frozen, Err(Box::new(fault)));
                self.refused = refused.ok().map(|frozen| (frozen, wanted));
            }
        }
    }

    fn overrides(&mut self) -> &mut Overrides {
        self.overrides.get_or_insert_default()
    }

    fn effective_contract(&self) -> &Contract {
        let own = self
            .overrides
            .as_ref()
            .and_then(|own| own.contract.as_ref());
        own.unwrap_or(self.client.contract())
    }

    /// The operation's key. It does not change. [`None`] on a safe method.
    #[must_use]
    pub fn key(&self) -> Option<&IdempotencyKey> {
        self.key.as_ref().map(|key| &key.key)
    }

    /// Another policy for this operation. Its connect timeout does not count: that is the client's.
    pub fn policy(mut self, policy: RetryPolicy) -> Self {
        self.overrides().policy = Some(policy);
        self
    }

    /// Another deadline for each `send` of this operation.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.overrides().deadline = Some(deadline);
        self
    }

    /// Another contract for this operation. The key stays; it is taken out of where it was written and written the way this contract
    /// says. Only where this contract takes nothing but UUIDs of version 7 a drawn key that was not sent yet becomes one of those.
    pub fn contract(mut self, contract: Contract) -> Self {
        let before = self.overrides().contract.replace(contract.clone());
        let unwritten = self.unwritten.take();
        let wanted = match (self.refused.take(), &mut self.frozen) {
            (Some((frozen, wanted)), _) => {
                self.frozen = Ok(frozen);
                wanted
            }
            (None, Ok(frozen)) if self.key.is_some() => {
                let before = before.as_ref().unwrap_or(self.client.contract());
                match (unwritten, before.key_header()) {
                    (Some(unwritten), _) => *frozen = unwritten,
                    (None, Some(name)) => {
                        Arc::make_mut(frozen).headers.remove(name);
                    }
                    (None, None) => {}
                }
                Wanted::again(self.key.take())
            }
            _ => return self,
        };
        self.settle(match self.past.first_sent() {
            None => wanted.shaped(&contract),
            Some(_) => wanted,
        });
        self
    }

    /// When this operation was first sent, in an earlier life of it. From then on its key's window is counted, and every answer
    /// is one that follows an attempt of unknown outcome.
    pub fn first_sent(self, time: SystemTime) -> Self {
        self.past.sent_before(time);
        self
    }

    /// Hands the answer out at its head instead of reading it inside the attempt. An answer that is lost in its body is then not
    /// retried. Of an error the beginning is read all the same, since it says what the error means.
    pub fn stream_answer(mut self) -> Self {
        self.overrides().stream_answer = true;
        self
    }

    /// This operation in a form that can be written down, to be taken up by [`Client::resume`].
    ///
    /// # Errors
    ///
    /// The error that [`send`](Self::send) would give before sending, or
    /// [`ErrorKind::RequestBody`](crate::ErrorKind::RequestBody) for a body that is a stream.
    pub fn to_pending(&self) -> Result<Pending, Error> {
        let contract = self.effective_contract();
        match &self.frozen {
            Ok(frozen) => Pending::of(frozen, self.key.as_ref(), &self.past, contract),
            Err(fault) => Err(fault.to_error()),
        }
    }

    /// Sends the operation. The future owns what it needs, so it can be spawned; dropping it stops everything.
    ///
    /// # Errors
    ///
    /// [`Error`] where no definite answer was obtained. Its [`effect`](Error::effect) says what is certain.
    pub fn send(&self) -> impl Future<Output = Result<Response, Error>> + Send + 'static + use<> {
        let client = self.client.clone();
        let frozen = self.frozen.clone();
        let key = self.key.clone();
        let overrides = self.overrides.clone();
        let past = Arc::clone(&self.past);
        async move {
            let frozen = match &frozen {
                Ok(frozen) => frozen,
                Err(fault) => return Err(fault.to_error()),
            };
            let overrides = overrides.as_deref().unwrap_or(&Overrides::NONE);
            client.execute(frozen, key.as_ref(), overrides, &past).await
        }
    }
}

impl fmt::Debug for IdempotentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotentRequest")
            .field("key", &self.key())
            .field("fault", &self.frozen.as_ref().err())
            .finish_non_exhaustive()
    }
}
