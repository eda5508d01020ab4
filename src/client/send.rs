//! One `send` of an operation by a client: straight to the server, or through the caller's middlewares.

use std::sync::Arc;
use std::time::Duration;

use reqwest_middleware::ClientWithMiddleware;
use tokio::time::Instant;

use super::body::FrozenBody;
use super::engine::{Call, Direct};
use super::error::{Effect, Error};
use super::frozen::Frozen;
use super::operation::{Operation, Overrides};
use super::report::{Log, Report};
use super::response::{Meta, Response};
use super::settle::{KeyInUse, protection};
use super::ticket::{Ticket, Ticketed};

impl Operation {
    /// Sends it. The future owns what it needs.
    pub(crate) async fn send(self: Arc<Self>) -> Result<Response, Error> {
        let frozen = match &self.request {
            Ok(frozen) => frozen,
            Err(fault) => return Err(fault.to_error_after(self.past())),
        };
        if let Some(chain) = self.client.chain() {
            // Boxed: those who have no middlewares need not carry the room for them.
            return Box::pin(self.through(chain, frozen)).await;
        }
        let engine = self.client.engine();
        engine.refuse_reuse(self.key.as_ref(), frozen)?;
        let began = Instant::now();
        let mut run = engine.run(Call {
            frozen,
            key: self.key.as_ref(),
            overrides: self.overrides.as_deref().unwrap_or(&Overrides::NONE),
            past: self.past(),
            began,
            now: began,
            log: Log::new(),
        });
        let mut direct = Direct(self.client.http());
        run.execute(&mut direct).await
    }

    async fn through(
        self: &Arc<Self>,
        chain: &ClientWithMiddleware,
        frozen: &Frozen,
    ) -> Result<Response, Error> {
        let key = self.key.as_ref();
        let overrides = self.overrides.as_deref().unwrap_or(&Overrides::NONE);
        let policy = overrides.policy.as_ref().unwrap_or(self.client.policy());
        let stall = policy.stall_timeout();
        let began = Instant::now();
        let ticket = Ticket::of(Arc::clone(self), began);
        let ticketed = Arc::clone(&ticket.operation);
        // The chain takes a request once; a stream that could be sent again has to be read for that before it enters.
        let limit = match (&frozen.body, key) {
            (FrozenBody::Stream(_), Some(_)) => Some(policy.request_buffer()),
            _ => None,
        };
        let deadline = overrides.deadline.or(policy.deadline());
        let deadline = deadline.and_then(|deadline| began.checked_add(deadline));
        let body = match frozen.body.next(limit, deadline).await {
            Ok(body) => body,
            Err(fault) => {
                let effect = self.past().effect(protection(&frozen.method, key));
                let report = Report {
                    stopped_by: Some(fault.stopped_by()),
                    followed_unknown: key.is_some() && self.past().is_unknown(),
                    ..outer(key, &ticketed)
                };
                return Err(fault.into_error(effect, report));
            }
        };
        let mut extensions = http::Extensions::new();
        extensions.insert(ticket);
        let request = frozen.request(body, false);
        match chain
            .execute_with_extensions(request, &mut extensions)
            .await
        {
            Ok(response) => Ok(adopt(response, stall, || outer(key, &ticketed))),
            Err(error) => Err(Error::out_of_chain(error, || outer(key, &ticketed))),
        }
    }
}

/// The report for what a middleware of the caller's has answered or failed with by itself: what is known from outside of the loop.
fn outer(key: Option<&KeyInUse>, ticketed: &Ticketed) -> Report {
    Report {
        key: key.map(|key| key.key.clone()),
        attempts: ticketed.log(),
        ..Report::empty()
    }
}

/// A response that came out of a middleware chain. Where a middleware answered by itself there is no report in it.
fn adopt(
    mut response: reqwest::Response,
    stall: Duration,
    report: impl FnOnce() -> Report,
) -> Response {
    let meta = response.extensions_mut().remove::<Meta>();
    let meta = meta.unwrap_or_else(|| Meta {
        report: report(),
        effect: Effect::Unknown,
        mismatch: false,
        already_done: false,
        resource: None,
        stall,
    });
    let mut response = Response::new(response);
    response.complete(meta);
    response
}
