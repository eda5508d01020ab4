//! One attempt: a frozen request in, facts out.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use http::StatusCode;
use http::header::{CONTENT_TYPE, UPGRADE};
use reqwest::Request;
use tokio::time::Instant;

use super::classify;
use super::error::Source;
use super::guard::Seal;
use super::job::Job;
use super::past::Flight;
use super::redirect::{HOPS, Hops};
use super::response::Response;
use crate::contract::Meaning;
use crate::retry::{Answer, Assessment, Failure, Outcome, Verdict, assess};

/// How much of an error is read: enough for a problem document, and for most bodies enough to keep the connection.
const DRAIN: usize = 64 * 1024;
/// For how long: a dead server's error page is not worth the wait for it.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// What sending comes to: the head of an answer, or what the transport or a middleware says.
pub(crate) type Sent = Result<reqwest::Response, reqwest_middleware::Error>;

/// Where an attempt's request goes: straight to reqwest, or down the rest of a middleware chain.
pub(crate) trait Transport: Send {
    /// Whether there are middlewares on the way.
    const HAS_MIDDLEWARES: bool;

    /// Sends one request and returns at the head of its answer.
    ///
    /// The request is handed on at once, not by the future: that would carry it, through every layer, for the whole attempt.
    fn send(&mut self, request: Request) -> impl Future<Output = Sent> + Send;
}

/// How an attempt ended.
pub(crate) struct End {
    pub(crate) assessment: Assessment,
    pub(crate) status: Option<StatusCode>,
    pub(crate) failure: Option<Failure>,
    pub(crate) answer: Option<Response>,
    pub(crate) source: Option<Source>,
}

/// Waits for the answer of a request that is being sent and reads it, both before `ends`.
pub(crate) async fn attempt(
    job: &Job<'_>,
    sending: impl Future<Output = Sent>,
    expected_continue: bool,
    flight: &Flight<'_>,
    ends: Option<Instant>,
) -> End {
    let (sent, hops) = {
        let seal = job
            .sealed
            .then(|| Seal::new(job.frozen, job.key.and_then(|_| job.contract.key_header())));
        let hops = Hops::new(&job.frozen.method, job.past, seal);
        let mut sending = pin!(HOPS.scope(hops, sending));
        let sent = until(ends, sending.as_mut()).await;
        (sent, sending.as_mut().take_value().unwrap_or_default())
    };
    let fail = |failure, direct, source| End::failed(job, failure, direct, source);
    let response = match sent {
        None => return fail(Failure::Timeout, false, None),
        Some(Err(reqwest_middleware::Error::Reqwest(error))) => {
            let failure = classify::sending(&error, &job.frozen.url);
            // The server's verdict on our own certificate can come after the request went out.
            let direct = job.trusted
                && hops.is_direct_failure(failure)
                && (failure != Failure::Certificate || error.is_connect());
            return fail(failure, direct, Some(Source::transport(error)));
        }
        Some(Err(error)) if hops.was_stopped() => {
            return fail(
                Failure::Altered,
                job.trusted,
                Some(Source::middleware(error)),
            );
        }
        Some(Err(error)) => {
            return fail(Failure::Middleware, false, Some(Source::middleware(error)));
        }
        Some(Ok(response)) if job.key.is_some() && is_unasked_switch(job, response.status()) => {
            return fail(Failure::Malformed, false, None);
        }
        Some(Ok(response)) => Response::new(response),
    };
    let sent = SentAs {
        expected_continue,
        direct: job.trusted && hops.is_direct(),
    };
    take(job, flight, response, sent, ends).await
}

/// RFC 9110, section 15.2.2: 101 is for a client that asked for it. No server has answered an operation with it.
fn is_unasked_switch(job: &Job<'_>, status: StatusCode) -> bool {
    status == StatusCode::SWITCHING_PROTOCOLS && !job.frozen.headers.contains_key(UPGRADE)
}

/// What has to be known of a request to read its answer.
#[derive(Clone, Copy)]
struct SentAs {
    expected_continue: bool,
    direct: bool,
}

/// Reads as much of an answer as its meaning needs, and all of it (up to the buffer) where it is the operation's answer.
async fn take(
    job: &Job<'_>,
    flight: &Flight<'_>,
    mut response: Response,
    sent: SentAs,
    ends: Option<Instant>,
) -> End {
    let status = response.status();
    let keyed = job.key.is_some() && !is_stream(&response);
    let buffered = keyed && !job.stream_answer;
    let limit = job.policy.response_buffer();
    if buffered && status.is_success() {
        let _ = response.reader().read(limit, ends).await;
    } else if buffered || (keyed && is_error(status)) {
        // What an error means stands in its body, also where the caller wants a stream or little of it.
        let ends = if is_impatient(status) {
            soon(ends)
        } else {
            ends
        };
        let _ = response.reader().read(DRAIN, ends).await;
    }
    let reading = job
        .contract
        .read(status, response.headers(), response.so_far());
    let mut assessment = assess(
        job.protection,
        Outcome::Answer(Answer {
            status,
            meaning: reading.meaning,
            marker: reading.marker,
            should_retry: reading.should_retry,
            conflict_is_final: job.contract.conflict_is_final(),
            expected_continue: sent.expected_continue,
            direct: sent.direct,
        }),
        flight.unknown_before(),
    );
    if !buffered && matches!(assessment.verdict, Verdict::Retry { .. }) {
        // A little of it, so that the connection can serve the next attempt. Whether that works does not matter.
        let _ = response.reader().read(DRAIN, soon(ends)).await;
    }
    let mut failure = None;
    let mut source = None;
    if buffered
        && is_final(assessment.verdict)
        // In all the time that there is: so far it may have had the short time of an error page only.
        && let Err(lost) = response.reader().read(limit, ends).await
    {
        // The answer is definite, but it did not come through: with the key the server can say it again.
        failure = Some(lost);
        source = response.reader().source();
        let outcome = Outcome::Failure {
            failure: lost,
            direct: false,
        };
        assessment = assess(job.protection, outcome, flight.unknown_before());
    }
    End {
        assessment,
        status: Some(status),
        failure,
        answer: failure.is_none().then(|| {
            response.take_note_of(reading);
            response
        }),
        source,
    }
}

fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

/// Statuses that are settled without their page. Gateways answer with errors whose page never ends.
fn is_impatient(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429)
}

fn soon(ends: Option<Instant>) -> Option<Instant> {
    let soon = Instant::now() + DRAIN_TIME;
    Some(ends.map_or(soon, |ends| ends.min(soon)))
}

fn is_final(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Done)
}

impl End {
    pub(crate) fn failed(
        job: &Job<'_>,
        failure: Failure,
        direct: bool,
        source: Option<Source>,
    ) -> Self {
        Self {
            assessment: assess(
                job.protection,
                Outcome::Failure { failure, direct },
                job.past.is_unknown(),
            ),
            status: None,
            failure: Some(failure),
            answer: None,
            source,
        }
    }

    /// What the contract took the answer for.
    pub(crate) fn meaning(&self) -> Meaning {
        self.answer
            .as_ref()
            .map_or(Meaning::Plain, |answer| answer.reading().meaning)
    }
}

/// An answer whose body must not be waited for: it may never end (101, server-sent events).
fn is_stream(response: &Response) -> bool {
    const EVENTS: &[u8] = b"text/event-stream";
    response.status() == StatusCode::SWITCHING_PROTOCOLS
        || response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.as_bytes().get(..EVENTS.len()))
            .is_some_and(|start| start.eq_ignore_ascii_case(EVENTS))
}

/// The output of a future, unless it takes longer than that.
pub(crate) async fn until<F: Future>(ends: Option<Instant>, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    // Most often it is there already; then there is no need for a timer.
    let now = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
    match (now, ends) {
        (Poll::Ready(output), _) => Some(output),
        (Poll::Pending, Some(ends)) => tokio::time::timeout_at(ends, future).await.ok(),
        (Poll::Pending, None) => Some(future.await),
    }
}
