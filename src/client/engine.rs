//! What a client and a middleware have in common: the settings, and the way into the loop.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use reqwest::Request;
use reqwest_middleware::Next;
use tokio::time::Instant;

use super::attempt::{Sent, Transport};
use super::body::AttemptBody;
use super::error::{Error, ErrorKind};
use super::execute::Run;
use super::fault::Fault;
use super::frozen::Frozen;
use super::job::Job;
use super::operation::Overrides;
use super::past::Past;
use super::report::Log;
use super::response::Response;
use super::reuse::UsedKeys;
use super::rolls::Rolls;
use super::settle::{KeyInUse, protection};
use super::ticket::{Passage, Ticket};
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

/// One call for an operation.
pub(crate) struct Call<'a> {
    pub(crate) frozen: &'a Frozen,
    pub(crate) key: Option<&'a KeyInUse>,
    pub(crate) overrides: &'a Overrides,
    pub(crate) past: &'a Past,
    /// When it began: now, or earlier where a middleware before ours calls a second time.
    pub(crate) began: Instant,
    pub(crate) now: Instant,
    /// The attempts that went before.
    pub(crate) log: Log,
}

impl Engine {
    /// Refuses a key that the caller has sent with another request.
    pub(crate) fn refuse_reuse(
        &self,
        key: Option<&KeyInUse>,
        frozen: &Frozen,
    ) -> Result<(), Error> {
        match key.filter(|key| !key.drawn && !self.reuse_allowed) {
            Some(key) if !self.used.admit(&key.key, frozen) => Err(reused(key)),
            _ => Ok(()),
        }
    }

    /// The loop for a call, before its first attempt.
    #[inline]
    pub(crate) fn run<'a>(&'a self, call: Call<'a>) -> Run<'a> {
        let job = Job {
            engine: self,
            frozen: call.frozen,
            key: call.key,
            overrides: call.overrides,
            past: call.past,
            protection: protection(&call.frozen.method, call.key),
            began: call.began,
            span: trace::operation(call.frozen, call.key.map(|key| &key.key)),
        };
        Run::new(job, call.log, call.now)
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
    fn seal(&self) -> Option<Arc<Passage>> {
        None
    }

    #[inline(always)]
    fn request(&mut self, frozen: &Frozen, body: AttemptBody, without_expect: bool) -> Request {
        frozen.request(body, without_expect)
    }

    fn send(&mut self, request: Request) -> impl Future<Output = Sent> + Send + Unpin {
        Straight(self.0.execute(request))
    }
}

/// What waits for reqwest.
struct Straight<F>(F);

impl<F> Future for Straight<F>
where
    F: Future<Output = Result<reqwest::Response, reqwest::Error>> + Unpin,
{
    type Output = Sent;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Sent> {
        // Boxed here, once: it goes through many hands.
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll(context)) {
            Ok(response) => Ok(Response::straight(response)),
            Err(error) => Err(reqwest_middleware::Error::Reqwest(error)),
        })
    }
}

/// Down the rest of a middleware chain.
pub(crate) struct Chain<'a, 'n> {
    pub(crate) next: &'a Next<'n>,
    pub(crate) passage: &'a Arc<Passage>,
    /// The request as it came, for the first attempt.
    pub(crate) first: &'a mut Option<Request>,
    pub(crate) pristine: Pristine<'a>,
    pub(crate) ticket: &'a Ticket,
    /// Where the last attempt's extensions go.
    pub(crate) extensions: &'a mut http::Extensions,
}

/// The caller's extensions, as they were before the first attempt.
pub(crate) enum Pristine<'a> {
    /// Nothing but the ticket, and as they were.
    Untouched(&'a Ticket),
    /// Nothing but the ticket.
    Ticket(&'a Ticket),
    All(http::Extensions),
}

impl Transport for Chain<'_, '_> {
    fn seal(&self) -> Option<Arc<Passage>> {
        Some(Arc::clone(self.passage))
    }

    fn request(&mut self, frozen: &Frozen, body: AttemptBody, without_expect: bool) -> Request {
        match self.first.take() {
            Some(request) => request,
            None => frozen.request(body, without_expect),
        }
    }

    fn send(&mut self, request: Request) -> impl Future<Output = Sent> + Send + Unpin {
        self.pristine.lay_out(self.extensions);
        Chained(self.next.clone().run(request, self.extensions))
    }
}

impl Drop for Chain<'_, '_> {
    /// A middleware on the way may have emptied the extensions. Without the ticket a second call would be another operation.
    fn drop(&mut self) {
        if self.extensions.get::<Ticket>().is_none() {
            self.extensions.insert(self.ticket.clone());
        }
    }
}

/// What waits for the rest of a chain.
struct Chained<F>(F);

impl<F> Future for Chained<F>
where
    F: Future<Output = reqwest_middleware::Result<reqwest::Response>> + Unpin,
{
    type Output = Sent;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Sent> {
        let sent = Pin::new(&mut self.0).poll(context);
        sent.map_ok(Response::new)
    }
}

impl<'a> Pristine<'a> {
    pub(crate) fn of(extensions: &http::Extensions, ticket: &'a Ticket) -> Self {
        if extensions.len() == 1 {
            Self::Untouched(ticket)
        } else {
            Self::All(extensions.clone())
        }
    }

    /// Gives an attempt what the caller gave.
    fn lay_out(&mut self, extensions: &mut http::Extensions) {
        match self {
            Self::Untouched(ticket) => *self = Self::Ticket(ticket),
            Self::Ticket(ticket) => {
                extensions.clear();
                extensions.insert(ticket.clone());
            }
            Self::All(pristine) => extensions.clone_from(pristine),
        }
    }
}
