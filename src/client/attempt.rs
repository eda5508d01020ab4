//! One attempt: a frozen request in, facts out.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{CONTENT_TYPE, EXPECT};
use reqwest::Request;
use tokio::time::Instant;

use super::classify::{Phase, classify};
use super::error::Source;
use super::execute::Job;
use super::past::Flight;
use super::redirect::{HOPS, Hops};
use super::response::{Kept, preallocation};
use crate::contract::{Meaning, Reading};
use crate::retry::{Answer, Assessment, Failure, Outcome, Verdict, assess};

/// How much of a losing answer is read: enough for a problem document, and for most bodies enough to keep the connection.
const DRAIN: usize = 64 * 1024;
/// For how long: a dead server's error page is not worth the wait for it.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Where an attempt's request goes: straight to reqwest, or down the rest of a middleware chain.
pub(crate) trait Transport: Send {
    /// Sends one request and returns at the head of its answer.
    fn send(
        &mut self,
        request: Request,
    ) -> impl Future<Output = Result<reqwest::Response, reqwest_middleware::Error>> + Send;
}

/// How an attempt ended.
pub(crate) struct End {
    pub(crate) assessment: Assessment,
    pub(crate) status: Option<StatusCode>,
    pub(crate) failure: Option<Failure>,
    pub(crate) answer: Option<Taken>,
    pub(crate) source: Option<Source>,
}

/// An answer, as far as it was read.
pub(crate) struct Taken {
    pub(crate) reader: Reader,
    pub(crate) reading: Reading,
    /// Whether any of the body was to be read inside the attempt.
    pub(crate) buffered: bool,
}

/// Sends the request and reads the answer, both before `ends`.
pub(crate) async fn attempt(
    job: &Job<'_>,
    transport: &mut impl Transport,
    request: Request,
    flight: &Flight<'_>,
    ends: Option<Instant>,
) -> End {
    let expected_continue = request.headers().contains_key(EXPECT);
    let (sent, direct) = {
        let mut sending = pin!(HOPS.scope(Hops::new(&job.frozen.method), transport.send(request)));
        let sent = until(ends, sending.as_mut()).await;
        let hops = sending.as_mut().take_value();
        (
            sent,
            job.trusted && hops.is_none_or(|hops| hops.is_direct()),
        )
    };
    let fail = |failure, direct, source| End::failed(job, failure, direct, source);
    let response = match sent {
        None => return fail(Failure::Timeout, direct, None),
        Some(Err(reqwest_middleware::Error::Reqwest(error))) => {
            let failure = classify(&error, Phase::Sending);
            return fail(failure, direct, Some(Source::transport(error)));
        }
        Some(Err(error)) => {
            return fail(Failure::Middleware, false, Some(Source::middleware(error)));
        }
        Some(Ok(response)) => response,
    };
    let head = Head {
        response,
        expected_continue,
        direct,
    };
    take(job, flight, head, ends).await
}

/// The head of an answer, and what has to be known of the request to read it.
struct Head {
    response: reqwest::Response,
    expected_continue: bool,
    direct: bool,
}

/// Reads as much of an answer as its meaning needs, and all of it (up to the buffer) where it is the operation's answer.
async fn take(job: &Job<'_>, flight: &Flight<'_>, head: Head, ends: Option<Instant>) -> End {
    let Head {
        response,
        expected_continue,
        direct,
    } = head;
    let status = response.status();
    let buffered = job.key.is_some() && !job.stream_answer && !is_stream(&response);
    let limit = job.policy.response_buffer();
    let mut reader = Reader::new(response);

    let mut lost = None;
    if buffered && status.is_success() {
        lost = reader.read(limit, ends).await.err();
    } else if buffered {
        // Gateways answer with an error whose page never ends: what the status says does not wait for it.
        let soon = Instant::now() + DRAIN_TIME;
        let ends = if status.is_server_error() {
            Some(ends.map_or(soon, |ends| ends.min(soon)))
        } else {
            ends
        };
        lost = reader.read(limit.min(DRAIN), ends).await.err();
    }
    let reading = job
        .contract
        .read(status, reader.response.headers(), reader.so_far());
    let mut assessment = assess(
        job.protection,
        Outcome::Answer(Answer {
            status,
            meaning: reading.meaning,
            marker: reading.marker,
            should_retry: reading.should_retry,
            conflict_is_final: job.contract.conflict_is_final(),
            expected_continue,
            direct,
        }),
        flight.unknown_before(),
    );
    let is_lost = !buffered && matches!(assessment.verdict, Verdict::Retry { .. });
    if is_lost {
        // A little of it, so that the connection can serve the next attempt. Whether that works does not matter.
        let soon = Instant::now() + DRAIN_TIME;
        let ends = ends.map_or(soon, |ends| ends.min(soon));
        let _ = reader.read(DRAIN, Some(ends)).await;
    }
    let mut failure = None;
    let mut source = None;
    if buffered && is_final(assessment.verdict) {
        if lost.is_none() {
            lost = reader.read(limit, ends).await.err();
        }
        if let Some(loss) = lost {
            // The answer is definite, but it did not come through: with the key the server can say it again.
            failure = Some(loss.failure());
            source = loss.source();
            assessment = assess(
                job.protection,
                Outcome::Failure {
                    failure: failure.unwrap_or(Failure::Truncated),
                    direct: false,
                },
                flight.unknown_before(),
            );
        }
    }
    End {
        assessment,
        status: Some(status),
        failure,
        answer: failure.is_none().then_some(Taken {
            reader,
            reading,
            buffered,
        }),
        source,
    }
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
            .map_or(Meaning::Plain, |taken| taken.reading.meaning)
    }
}

/// An answer whose body must not be waited for: it may never end (101, server-sent events).
fn is_stream(response: &reqwest::Response) -> bool {
    const EVENTS: &[u8] = b"text/event-stream";
    response.status() == StatusCode::SWITCHING_PROTOCOLS
        || response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.as_bytes().get(..EVENTS.len()))
            .is_some_and(|start| start.eq_ignore_ascii_case(EVENTS))
}

/// A response and what was read of its body.
pub(crate) struct Reader {
    pub(crate) response: reqwest::Response,
    first: Bytes,
    /// Everything, where there was more than one chunk.
    all: BytesMut,
    complete: bool,
}

/// How reading ended early.
enum Loss {
    Time,
    Transport(reqwest::Error),
}

impl Loss {
    fn failure(&self) -> Failure {
        match self {
            Self::Time => Failure::Stalled,
            Self::Transport(error) => classify(error, Phase::Reading),
        }
    }

    fn source(self) -> Option<Source> {
        match self {
            Self::Time => None,
            Self::Transport(error) => Some(Source::transport(error)),
        }
    }
}

impl Reader {
    fn new(response: reqwest::Response) -> Self {
        Self {
            response,
            first: Bytes::new(),
            all: BytesMut::new(),
            complete: false,
        }
    }

    /// Reads until the end, or until more than `limit` bytes are there.
    async fn read(&mut self, limit: usize, ends: Option<Instant>) -> Result<(), Loss> {
        while !self.complete && self.so_far().len() <= limit {
            match until(ends, self.response.chunk()).await {
                None => return Err(Loss::Time),
                Some(Err(error)) => return Err(Loss::Transport(error)),
                Some(Ok(None)) => self.complete = true,
                Some(Ok(Some(chunk))) => self.push(chunk),
            }
        }
        Ok(())
    }

    fn push(&mut self, chunk: Bytes) {
        if self.so_far().is_empty() {
            self.first = chunk;
            return;
        }
        if self.all.is_empty() {
            let rest = self.response.content_length().unwrap_or(0);
            self.all
                .reserve(preallocation(rest).max(chunk.len()) + self.first.len());
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.all.extend_from_slice(&chunk);
    }

    pub(crate) fn so_far(&self) -> &[u8] {
        if self.all.is_empty() {
            &self.first
        } else {
            &self.all
        }
    }

    /// The response, and what was read of it.
    pub(crate) fn into_parts(self, buffered: bool) -> (reqwest::Response, Kept) {
        let read = if self.all.is_empty() {
            self.first
        } else {
            self.all.freeze()
        };
        let kept = match (buffered, self.complete) {
            (_, true) => Kept::Complete(read),
            (false, false) if read.is_empty() => Kept::Live,
            (_, false) => Kept::Prefix(read),
        };
        (self.response, kept)
    }
}

/// The output of a future, unless it takes longer than that.
pub(crate) async fn until<F: Future>(ends: Option<Instant>, future: F) -> Option<F::Output> {
    match ends {
        Some(ends) => tokio::time::timeout_at(ends, future).await.ok(),
        None => Some(future.await),
    }
}
