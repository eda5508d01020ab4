//! What a client and a middleware have in common: the settings, and the way into the loop.

use std::pin::pin;
use std::sync::Arc;

use reqwest::Request;
use reqwest_middleware::Next;
use tokio::time::Instant;

use super::attempt::{Sent, Transport};
use super::classify;
use super::error::Error;
use super::execute::{Job, execute};
use super::frozen::Frozen;
use super::operation::{KeyInUse, Overrides, Rolls, protection};
use super::past::Past;
use super::redirect::Hops;
use super::report::Attempt;
use super::response::Response;
use super::trace;
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
}

impl Engine {
    pub(crate) async fn run(
        &self,
        frozen: &Frozen,
        key: Option<&KeyInUse>,
        overrides: &Overrides,
        past: &Past,
        transport: &mut impl Transport,
        course: (Instant, Vec<Attempt>),
    ) -> Result<Response, Error> {
        use tracing::Instrument as _;

        let (began, log) = course;
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
            trusted: self.trusted,
            began,
            span: &span,
        };
        let run = pin!(execute(job, transport, log));
        if span.is_disabled() {
            return run.await;
        }
        run.instrument(span.clone()).await
    }
}

/// Straight to reqwest.
pub(crate) struct Direct<'a>(pub(crate) &'a reqwest::Client);

impl Transport for Direct<'_> {
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
    fn send(&mut self, request: Request) -> impl Future<Output = Sent> + Send {
        *self.extensions = self.pristine.clone();
        self.next.clone().run(request, self.extensions)
    }
}

/// The last middleware of our own clients' chains: it sees what really goes out, so that a middleware that sends requests of its
/// own cannot pass a refused connection of those for one of the operation's.
pub(crate) struct Sentinel;

#[async_trait::async_trait]
impl reqwest_middleware::Middleware for Sentinel {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut http::Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        let url = request.url().clone();
        Hops::begin_exchange();
        let result = next.run(request, extensions).await;
        if let Err(reqwest_middleware::Error::Reqwest(error)) = &result {
            Hops::fail_exchange(classify::sending(error, &url));
        }
        result
    }
}
