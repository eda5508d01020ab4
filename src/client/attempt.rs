//! One attempt: a frozen request in, facts out.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use http::StatusCode;
use http::header::{CONTENT_TYPE, UPGRADE};
use reqwest::Request;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep_until};

use super::body::AttemptBody;
use super::classify;
use super::error::Source;
use super::frozen::Frozen;
use super::job::Job;
use super::past::{Flight, Past};
use super::redirect::Hops;
use super::response::Response;
use super::ticket::Passage;
use crate::contract::Meaning;
use crate::retry::{Answer, Assessment, Failure, Outcome, Verdict, assess};

/// How much of an error is read: enough for a problem document, and for most bodies enough to keep the connection.
const DRAIN: usize = 64 * 1024;
/// For how long: a dead server's error page is not worth the wait for it.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// What sending comes to: an answer of which the head is there, or what the transport or a middleware says.
pub(crate) type Sent = Result<Response, reqwest_middleware::Error>;

/// Where an attempt's request goes: straight to reqwest, or down the rest of a middleware chain.
pub(crate) trait Transport: Send {
    /// The request that middlewares on the way may not change, where there are any.
    fn seal(&self) -> Option<Arc<Passage>>;

    /// The next attempt's request.
    fn request(&mut self, frozen: &Frozen, body: AttemptBody, without_expect: bool) -> Request;

    /// Sends one request and returns at the head of its answer.
    ///
    /// The request is handed on at once, not by the future: that would carry it, through every layer, for the whole attempt.
    fn send(&mut self, request: Request) -> impl Future<Output = Sent> + Send + Unpin;
}

/// How an attempt ended.
pub(crate) struct End {
    pub(crate) assessment: Assessment,
    pub(crate) status: Option<StatusCode>,
    pub(crate) failure: Option<Failure>,
    pub(crate) answer: Option<Response>,
    pub(crate) source: Option<Source>,
}

/// An attempt under way.
pub(crate) struct UnderWay<'a, F> {
    sending: F,
    hops: Option<Hops>,
    flight: Flight<'a>,
    began: Instant,
    ends: Option<Instant>,
    expects_continue: bool,
    /// Whether its body can be sent again.
    repeatable: bool,
}

/// What is left of an attempt that is over.
#[derive(Clone, Copy)]
pub(crate) struct Landed {
    pub(crate) began: Instant,
    pub(crate) repeatable: bool,
    /// Whether another attempt of the same operation had ended unknown, or was under way.
    pub(crate) unknown_before: bool,
    /// Whether another attempt of the same operation may have been processed.
    pub(crate) processed_before: bool,
}

/// Sends the request of an attempt that begins at this moment.
pub(crate) fn set_out<'a, T: Transport>(
    job: &'a Job<'a>,
    transport: &'a mut T,
    body: AttemptBody,
    without_expect: bool,
    began: Instant,
) -> UnderWay<'a, impl Future<Output = Sent> + Send + Unpin + use<'a, T>> {
    let repeatable = !matches!(body, AttemptBody::Once(_));
    let flight = Past::set_out(job, began);
    let mut request = transport.request(job.frozen, body, without_expect);
    job.accompany(&mut request);
    UnderWay {
        hops: Some(Hops::new(&job.frozen.method, job.past, transport.seal())),
        sending: transport.send(request),
        flight,
        began,
        ends: job.attempt_ends(began),
        expects_continue: job.frozen.expects_continue && !without_expect,
        repeatable,
    }
}

impl<F: Future<Output = Sent> + Unpin> UnderWay<'_, F> {
    /// Waits for the answer and reads it, both before the attempt's time is up.
    pub(crate) async fn end(&mut self) -> End {
        let sent = self.exchange().await;
        let response = match self.head(sent) {
            Ok(response) => response,
            Err(end) => return end,
        };
        self.take(response).await
    }

    /// Whether it was sent before, or is sent at the same time, and nobody knows what came of it.
    #[inline]
    fn unknown_before(&self) -> bool {
        self.flight.unknown_before() || self.hops.as_ref().is_some_and(Hops::unknown_before)
    }

    /// The attempt is over.
    pub(crate) fn land(self, end: &End) -> Landed {
        let landed = Landed {
            began: self.began,
            repeatable: self.repeatable,
            unknown_before: self.unknown_before(),
            processed_before: self.flight.processed_before()
                || self.hops.as_ref().is_some_and(Hops::processed_before),
        };
        self.flight.land(end.assessment.reach);
        landed
    }

    /// What sending comes to, unless the time is up before.
    async fn exchange(&mut self) -> Option<Sent> {
        let mut timer = pin!(None);
        poll_fn(|context| {
            let sending = Pin::new(&mut self.sending);
            let sent = Hops::enter(&mut self.hops, || sending.poll(context));
            if let (Poll::Pending, Some(ends)) = (&sent, self.ends) {
                if timer.is_none() {
                    timer.set(Some(unconstrained(sleep_until(ends))));
                }
                if let Some(timer) = timer.as_mut().as_pin_mut() {
                    ready!(timer.poll(context));
                    return Poll::Ready(None);
                }
            }
            sent.map(Some)
        })
        .await
    }

    /// The answer, if one came whose body can be read; else how the attempt ended without.
    fn head(&self, sent: Option<Sent>) -> Result<Response, End> {
        let job = self.flight.job;
        let fail = |failure, direct, source| Err(End::failed(job, failure, direct, source));
        let hops = self.hops.as_ref();
        match sent {
            None => fail(Failure::Timeout, false, None),
            Some(Err(reqwest_middleware::Error::Reqwest(error))) => {
                let failure = classify::sending(&error, &job.frozen.url);
                // The server's verdict on our own certificate can come after the request went out.
                let direct = job.engine.trusted
                    && hops.is_some_and(|hops| hops.is_direct_failure(failure))
                    && (failure != Failure::Certificate || error.is_connect());
                fail(failure, direct, Some(Source::transport(error)))
            }
            Some(Err(error)) if hops.is_some_and(Hops::was_stopped) => {
                let source = Some(Source::middleware(error));
                fail(Failure::Altered, job.engine.trusted, source)
            }
            Some(Err(error)) => {
                let source = Some(Source::middleware(error));
                fail(Failure::Middleware, false, source)
            }
            Some(Ok(response))
                if job.key.is_some() && is_unasked_switch(job, response.status()) =>
            {
                fail(Failure::Malformed, false, None)
            }
            Some(Ok(response)) => Ok(response),
        }
    }

    /// Reads as much of an answer as its meaning needs, and all of it (up to the buffer) where it is the operation's answer.
    async fn take(&mut self, mut response: Response) -> End {
        let job = self.flight.job;
        let status = response.status();
        let keyed = job.key.is_some() && !is_stream(&response);
        let buffered = keyed && !job.overrides.stream_answer;
        if buffered && status.is_success() {
            let limit = job.policy().response_buffer();
            let _ = response.reader().read(limit, self.ends).await;
        } else if buffered || (keyed && is_error(status)) {
            // What an error means stands in its body, also where the caller wants a stream or little of it.
            let _ = response
                .reader()
                .read(DRAIN, self.time_for_error(status))
                .await;
        }
        let mut assessment = self.assess(&mut response);
        if !buffered && matches!(assessment.verdict, Verdict::Retry { .. }) {
            // A little of it, so that the connection can serve the next attempt. Whether that works does not matter.
            let _ = response.reader().read(DRAIN, soon(self.ends)).await;
        }
        if buffered && assessment.verdict == Verdict::Done && !response.is_complete() {
            // In all the time that there is: so far it may have had the short time of an error page only.
            let limit = job.policy().response_buffer();
            if let Err(lost) = response.reader().read(limit, self.ends).await {
                // The answer is definite, but it did not come through: with the key the server can say it again.
                let source = response.reader().source();
                let outcome = Outcome::Failure {
                    failure: lost,
                    direct: false,
                };
                assessment = assess(job.protection, outcome, self.unknown_before());
                return End {
                    assessment,
                    status: Some(status),
                    failure: Some(lost),
                    answer: None,
                    source,
                };
            }
        }
        End {
            assessment,
            status: Some(status),
            failure: None,
            answer: Some(response),
            source: None,
        }
    }

    /// What the answer comes to, as far as it was read.
    fn assess(&self, response: &mut Response) -> Assessment {
        let job = self.flight.job;
        let status = response.status();
        let reading = job
            .contract()
            .read(status, response.headers(), response.so_far());
        let direct = job.engine.trusted && self.hops.as_ref().is_some_and(Hops::is_direct);
        let answer = Answer {
            status,
            meaning: reading.meaning,
            marker: reading.marker,
            should_retry: reading.should_retry,
            conflict_is_final: job.contract().conflict_is_final(),
            expected_continue: self.expects_continue,
            direct,
        };
        response.take_note_of(reading);
        assess(
            job.protection,
            Outcome::Answer(answer),
            self.unknown_before(),
        )
    }

    fn time_for_error(&self, status: StatusCode) -> Option<Instant> {
        if is_impatient(status) {
            soon(self.ends)
        } else {
            self.ends
        }
    }
}

/// RFC 9110, section 15.2.2: 101 is for a client that asked for it. No server has answered an operation with it.
fn is_unasked_switch(job: &Job<'_>, status: StatusCode) -> bool {
    status == StatusCode::SWITCHING_PROTOCOLS && !job.frozen.headers.contains(&UPGRADE)
}

fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

/// Statuses that are settled without their page. Gateways answer with errors whose page never ends.
pub(crate) fn is_impatient(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429)
}

fn soon(ends: Option<Instant>) -> Option<Instant> {
    let soon = Instant::now() + DRAIN_TIME;
    Some(ends.map_or(soon, |ends| ends.min(soon)))
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
            .iter()
            .find(|(name, _)| **name == CONTENT_TYPE)
            .and_then(|(_, value)| value.as_bytes().get(..EVENTS.len()))
            .is_some_and(|start| start.eq_ignore_ascii_case(EVENTS))
}
