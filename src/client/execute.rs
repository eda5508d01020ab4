//! The loop. The only one: the client and the middleware both call it.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use super::attempt::{Transport, set_out};
use super::body::AttemptBody;
use super::conclude::Next;
use super::error::{Error, ErrorKind, What};
use super::job::{Job, since_epoch};
use super::report::Log;
use super::response::Response;
use crate::retry::{Delays, StoppedBy};

/// The loop's memory.
pub(crate) struct Run<'a> {
    pub(super) job: Job<'a>,
    pub(super) log: Log,
    /// When the next attempt begins.
    pub(super) now: Instant,
    pub(super) attempts: u32,
    pub(super) polls: u32,
    /// Whether the attempt under way asks after an operation in progress.
    pub(super) polling: bool,
    pub(super) in_progress_since: Option<Duration>,
    pub(super) key_age: Duration,
    /// Those of a backoff that keeps state, from the first retry on.
    pub(super) delays: Option<Box<Delays>>,
    pub(super) without_expect: bool,
}

#[expect(
    clippy::manual_async_fn,
    reason = "an `async fn` would hold its arguments twice, and every sleeping operation with it"
)]
impl<'a> Run<'a> {
    /// `log` has the attempts that went before.
    #[inline]
    pub(crate) fn new(job: Job<'a>, log: Log, now: Instant) -> Self {
        let count = |poll| {
            let counted = log.iter().filter(|attempt| attempt.poll == poll).count();
            u32::try_from(counted).unwrap_or(u32::MAX)
        };
        Self {
            key_age: match job.key_window() {
                Some(_) => job.past.key_age(),
                // Nobody asks how old it is.
                None => Duration::ZERO,
            },
            job,
            // What went before counts: else a middleware before ours that retries would multiply the attempts.
            attempts: count(false),
            polls: count(true),
            log,
            now,
            polling: false,
            in_progress_since: None,
            delays: None,
            without_expect: false,
        }
    }

    /// Sends the operation until there is an answer or a limit.
    pub(crate) fn execute<'r>(
        &'r mut self,
        transport: &'r mut impl Transport,
    ) -> impl Future<Output = Result<Response, Error>> + Send + 'r {
        async move {
            if self.job.span.is_none() {
                return self.repeat(transport).await;
            }
            self.repeat_in_span(transport).await
        }
    }

    /// Boxed: who does not trace need not carry the room for it.
    fn repeat_in_span<'r>(
        &'r mut self,
        transport: &'r mut impl Transport,
    ) -> Pin<Box<dyn Future<Output = Result<Response, Error>> + Send + 'r>> {
        let span = self.job.span.as_deref().cloned();
        let span = span.unwrap_or_else(Span::none);
        Box::pin(self.repeat(transport).instrument(span))
    }

    fn repeat<'r>(
        &'r mut self,
        transport: &'r mut impl Transport,
    ) -> impl Future<Output = Result<Response, Error>> + Send + 'r {
        async move {
            self.begin()?;
            loop {
                let body = match self.job.frozen.body.at_hand() {
                    Some(body) => body,
                    None => {
                        let body = Box::pin(self.read_body()).await?;
                        self.now = Instant::now();
                        body
                    }
                };
                let mut attempt =
                    set_out(&self.job, transport, body, self.without_expect, self.now);
                let end = attempt.end().await;
                let landed = attempt.land(&end);
                let decided = Instant::now();
                let delay = match self.conclude(end, landed, decided) {
                    Next::Return(result) => return result,
                    Next::Wait(delay) => delay,
                };
                // The losing answer is gone by now: an operation that sleeps holds no connection and no error page.
                if !delay.is_zero() {
                    // A timer would round no wait up to its next tick.
                    match decided.checked_add(delay) {
                        Some(end) => tokio::time::sleep_until(end).await,
                        None => tokio::time::sleep(delay).await,
                    }
                }
                self.now = Instant::now();
            }
        }
    }

    fn begin(&mut self) -> Result<(), Error> {
        self.refuse_forgotten_key()?;
        // A second call by a middleware before ours is the same operation.
        if !self.log.is_empty() {
            return self.refuse_late_call();
        }
        let job = &self.job;
        if let Some(budget) = job.policy().budget() {
            budget.deposit(job.frozen.url.payer(), since_epoch(job.began));
        }
        Ok(())
    }

    /// A key that the server may have forgotten protects from nothing: a repeat could be a second execution.
    fn refuse_forgotten_key(&mut self) -> Result<(), Error> {
        match self.job.key_window() {
            Some(window) if self.key_age >= window => {
                let message = format!(
                    "the key was first sent {:?} ago and `{}` remembers keys for {window:?}: look the operation up instead",
                    self.key_age,
                    self.job.contract().name(),
                );
                Err(self.error(ErrorKind::Key, What::Message(message), StoppedBy::KeyWindow))
            }
            _ => Ok(()),
        }
    }

    /// A middleware before ours may take its time before it calls again. Without time for an answer nothing is sent.
    fn refuse_late_call(&mut self) -> Result<(), Error> {
        match self.job.deadline_at() {
            Some(deadline) if self.now >= deadline => Err(self.error(
                ErrorKind::Timeout,
                What::Message("the deadline passed before the operation was sent again".to_owned()),
                StoppedBy::Deadline,
            )),
            _ => Ok(()),
        }
    }

    /// The next attempt's body out of the caller's stream. Its length is known once it is buffered, before anything was sent.
    async fn read_body(&mut self) -> Result<AttemptBody, Error> {
        let frozen = self.job.frozen;
        let read = frozen
            .body
            .next(self.job.body_limit(), self.job.deadline_at());
        let body = read.await.map_err(|fault| {
            let report = self.closing_report(fault.stopped_by());
            fault.into_error(self.job.effect(), report)
        })?;
        if let AttemptBody::Bytes(bytes) = &body {
            let checked = frozen.check_length(bytes.len());
            checked.map_err(|fault| fault.of(self.job.key.cloned()).to_error())?;
        }
        Ok(body)
    }
}
