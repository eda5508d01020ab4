//! One request: key, owner, body and claim, and then whatever the claim says.

use std::convert::Infallible;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{OriginalUri, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use tokio::time::{Instant, sleep};
use tower_service::Service;
use tracing::Instrument as _;

use super::body::{self, read_request};
use super::layer::Shared;
use super::observe::{self, Outcome};
use super::panics::BoxFuture;
use super::policy::KeyRule;
use super::rejection::{refuse, refuse_for};
use super::run::{Attempted, Job, attempt};
use super::store::{Claim, Slot};
use crate::contract::{Fingerprint, IdempotencyKey, KeyReadError, Problem};

/// The service that [`IdempotencyLayer`](super::IdempotencyLayer) puts round a handler.
#[derive(Clone)]
pub struct IdempotencyService<Inner> {
    inner: Inner,
    shared: Arc<Shared>,
}

impl<Inner> IdempotencyService<Inner> {
    pub(super) fn new(inner: Inner, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }
}

impl<Inner: fmt::Debug> fmt::Debug for IdempotencyService<Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyService")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<Inner> Service<Request> for IdempotencyService<Inner>
where
    Inner: Service<Request, Error = Infallible> + Clone + Send + 'static,
    Inner::Response: IntoResponse,
    Inner::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The clone is not ready, the one that was polled is.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let handler: Handler = Box::new(move |request| {
            Box::pin(async move {
                match inner.call(request).await {
                    Ok(answer) => answer.into_response(),
                    Err(never) => match never {},
                }
            })
        });
        let shared = self.shared.clone();
        Box::pin(async move { Ok(serve(shared, handler, request).await) })
    }
}

/// The inner service, called once.
pub(super) type Handler = Box<dyn FnOnce(Request) -> BoxFuture<Response> + Send>;

async fn serve(shared: Arc<Shared>, handler: Handler, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let settings = &shared.settings;
    let rule = match settings.methods.contains(&head.method) {
        true => (settings.key_rule)(&head),
        false => KeyRule::Ignored,
    };
    if rule == KeyRule::Ignored {
        return handler(Request::from_parts(head, body)).await;
    }
    let span = observe::span(&head);
    async {
        match prepare(&shared, rule, &head, body).await {
            Prepared::Refused(problem) => {
                observe::outcome(Outcome::Refused);
                refuse(&problem)
            }
            Prepared::Unkeyed(body) => {
                observe::outcome(Outcome::Unkeyed);
                handler(Request::from_parts(head, body)).await
            }
            Prepared::Operation { claim, body } => {
                observe::key(&claim.slot.key);
                let job = Job {
                    claim,
                    head,
                    body,
                    handler,
                };
                operate(shared, Box::new(job)).await
            }
        }
    }
    .instrument(span)
    .await
}

enum Prepared {
    Refused(Problem),
    Unkeyed(Body),
    Operation { claim: Claim, body: Bytes },
}

async fn prepare(shared: &Shared, rule: KeyRule, head: &Parts, body: Body) -> Prepared {
    let settings = &shared.settings;
    let from = &settings.key_from;
    let key = match from.in_head(head) {
        Ok(key) => key,
        Err(error) => return unreadable(&error),
    };
    if key.is_none() && !from.is_in_body() {
        return match rule {
            KeyRule::Required => Prepared::Refused(Problem::key_missing()),
            _ => Prepared::Unkeyed(body),
        };
    }
    let body = match read_request(body, settings.request_limit).await {
        body::Request::Whole(body) => body,
        body::Request::TooLarge => return Prepared::Refused(Problem::body_too_large()),
        body::Request::Broken => return Prepared::Refused(Problem::body_incomplete()),
    };
    let key = match key {
        Some(key) => key,
        None => match from.in_body(&body) {
            Ok(Some(key)) => key,
            Ok(None) if rule == KeyRule::Required => {
                return Prepared::Refused(Problem::key_missing());
            }
            Ok(None) => return Prepared::Unkeyed(Body::from(body)),
            Err(error) => return unreadable(&error),
        },
    };
    let Some(slot) = slot(shared, head, key) else {
        tracing::error!("the scope found no owner in a request: is the authentication in front?");
        return Prepared::Refused(Problem::scope_unknown());
    };
    let fingerprint = settings.compare.then(|| fingerprint(head, &body));
    let claim = Claim::new(slot, fingerprint, settings.terms);
    Prepared::Operation { claim, body }
}

fn unreadable(error: &KeyReadError) -> Prepared {
    Prepared::Refused(Problem::key_unreadable(error))
}

fn slot(shared: &Shared, head: &Parts, key: IdempotencyKey) -> Option<Slot> {
    let scope = shared.settings.scope.find(head)?;
    Some(Slot { scope, key })
}

/// The target is the one that the client sent: `nest` shows the inner service a shorter one, and
/// two routes of the same name under two prefixes are two operations.
fn fingerprint(head: &Parts, body: &[u8]) -> Fingerprint {
    let original = head.extensions.get::<OriginalUri>();
    let uri = original.map_or(&head.uri, |original| &original.0);
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let content_type = head.headers.get(CONTENT_TYPE);
    let content_type = content_type.map(http::HeaderValue::as_bytes);
    Fingerprint::of(&head.method, target, content_type, body)
}

/// Claims, and while somebody else is running waits and claims again, as long as that is allowed.
async fn operate(shared: Arc<Shared>, mut job: Box<Job>) -> Response {
    let settings = &shared.settings;
    let give_up = Instant::now() + settings.wait_for_running;
    let mut pause = Duration::from_millis(25);
    loop {
        job = match spawned(&shared, job).await {
            Attempted::Answered(answer) => return answer,
            Attempted::Running(job) => job,
        };
        let left = give_up.saturating_duration_since(Instant::now());
        if left.is_zero() {
            observe::outcome(Outcome::InProgress);
            return refuse_for(&Problem::in_progress(), settings.retry_after);
        }
        sleep(pause.min(left)).await;
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}

/// Claims and runs in a task of its own: when the client goes away its connection drops this
/// future, and neither a claim nor a handler may end half way.
async fn spawned(shared: &Arc<Shared>, job: Box<Job>) -> Attempted {
    let running = shared.in_flight.enter();
    let shared = shared.clone();
    let task = async move {
        let _running = running;
        attempt(&shared, job).await
    };
    match tokio::spawn(task.in_current_span()).await {
        Ok(attempted) => attempted,
        // The runtime is going down, or there is a bug in here: the claim is left to its lease.
        Err(error) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the operation's task ended"
            );
            Attempted::Answered(refuse(&Problem::operation_failed()))
        }
    }
}
