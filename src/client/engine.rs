//! What a client and a middleware have in common: the settings, and the way into the loop.

use std::pin::pin;
use std::sync::Arc;

use reqwest::Request;
use reqwest_middleware::Next;
use tokio::time::Instant;

use super::attempt::{Sent, Transport};
use super::error::{Error, ErrorKind};
use super::execute::{Run, execute};
use super::frozen::Frozen;
use super::job::Job;
use super::operation::{Fault, KeyInUse, Overrides, Rolls, protection};
use super::past::Past;
use super::report::Attempt;
use super::response::Response;
use super::reuse::UsedKeys;
use super::trace;
use super::witness::Unmarked;
use crate::contract::{Contract, KeySource};
use crate::retry::RetryPolicy;

/// The settings of a client or a middleware.
#[derive(Clone, Debug, Default)]
pub(crate) struct Engine {
    pub(crate) contract: Contract,
    pub(crate) policy: RetryPolicy,
    pub(crate) keys: KeySource,
    pub(crate) rolls: Arc<Rolls>,
    /// Whether the client is known to carry this crate's redirect policy.
    pub(crate) trusted: bool,
    pub(crate) used: Arc<UsedKeys>,
    /// Whether a caller may use one key for two requests.
    pub(crate) reuse_allowed: bool,
    pub(crate) unmarked: Arc<Unmarked>,
}

impl Engine {
    pub(crate) async fn run<T: Transport>(
        &self,
        frozen: &Arc<Frozen>,
        key: Option<&KeyInUse>,
        overrides: &Overrides,
        past: &Past,
        transport: &mut T,
        (began, log): (Instant, &[Attempt]),
    ) -> Result<Response, Error> {
        use tracing::Instrument as _;

        if let Some(key) = key
            && !key.drawn
            && !self.reuse_allowed
            && !self.used.admit(&key.key, frozen)
        {
            return Err(reused(key));
        }
        let policy = overrides.policy.as_ref().unwrap_or(&self.policy);
        let span = trace::operation(frozen, key.map(|key| &key.key));
        let job = Job {
            frozen,
            key,
            protection: protection(&frozen.method, key),
            contract: overrides.contract.as_ref().unwrap_or(&self.contract),
            policy,
            deadline: overrides.deadline.or(policy.deadline()),
            stream_answer: overrides.stream_answer,
            past,
            rolls: &self.rolls,
            unmarked: &self.unmarked,
            sealed: T::HAS_MIDDLEWARES,
            trusted: self.trusted,
            began,
            span: &span,
        };
        let mut run = Run::new(&job, log);
        let run = pin!(execute(&mut run, transport));
        if span.is_disabled() {
            return run.await;
        }
        run.instrument(span.clone()).await
    }
}

/// The caller has sent the key with another request.
fn reused(key: &KeyInUse) -> Error {
    let message = format!(
        "the key #{} was used before with a different request: another method, URL or body is another operation and needs another key",
        key.key.digest(),
    );
    Fault::new(ErrorKind::Key, message)
        .of(Some(key.clone()))
        .to_error()
}

/// Straight to reqwest.
pub(crate) struct Direct<'a>(pub(crate) &'a reqwest::Client);

impl Transport for Direct<'_> {
    const HAS_MIDDLEWARES: bool = false;

    fn send(&mut self, request: Request) -> impl Future<Output = Sent> + Send {
        let answer = self.0.execute(request);
        async move { Ok(answer.await?) }
    }
}

/// Down the rest of a middleware chain.
pub(crate) struct Chain<'a, 'e> {
    pub(crate) next: Next<'a>,
    /// The caller's extensions, as they were before the first attempt.
    pub(crate) pristine: http::Extensions,
    /// Where the last attempt's extensions go.
    pub(crate) extensions: &'e mut http::Extensions,
}

impl Transport for Chain<'_, '_> {
    const HAS_MIDDLEWARES: bool = true;

    fn send(&mut self, request: Request) -> impl Future<Output = Sent> + Send {
        *self.extensions = self.pristine.clone();
        self.next.clone().run(request, self.extensions)
    }
}
