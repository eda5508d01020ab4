//! From the end of an attempt to what follows: an answer, an error, or a wait.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::attempt::{End, Landed};
use super::error::{Effect, Error, ErrorKind, What};
use super::execute::Run;
use super::job::since_epoch;
use super::report::{Attempt, Report};
use super::response::{Meta, Response};
use super::trace;
use super::witness::echoes_another_key;
use crate::contract::{Meaning, Replay};
use crate::retry::{Decision, Failure, Protection, Reach, Situation, StoppedBy, Verdict, decide};

/// What follows an attempt.
pub(super) enum Next {
    Return(Result<Response, Error>),
    Wait(Duration),
}

impl Run<'_> {
    pub(super) fn conclude(&mut self, mut end: End, landed: Landed, decided: Instant) -> Next {
        let began = if landed.began == self.job.began {
            Duration::ZERO
        } else {
            landed.began.saturating_duration_since(self.job.began)
        };
        let elapsed = decided.saturating_duration_since(self.job.began);
        let verdict = end.assessment.verdict;
        if !self.polling {
            self.attempts = self.attempts.saturating_add(1);
        }
        if verdict == Verdict::InProgress {
            self.in_progress_since.get_or_insert(elapsed);
        }
        let hint = self.hint(&end);
        let decision = match verdict {
            Verdict::Done => Decision::Finish,
            _ => self.decide(&end, elapsed, hint, landed.repeatable),
        };
        let stopped_by = match decision {
            Decision::GiveUp(limit) => Some(limit),
            _ => None,
        };
        let entry = Attempt {
            number: u32::try_from(self.log.len())
                .unwrap_or(u32::MAX)
                .saturating_add(1),
            poll: self.polling,
            began: began.into(),
            took: elapsed.saturating_sub(began).into(),
            status: end.status,
            failure: end.failure,
            reach: end.assessment.reach,
            wait: match decision {
                Decision::Wait { delay, why } => Some((delay.into(), why)),
                _ => None,
            },
        };
        trace::attempt(&entry, verdict, stopped_by);
        self.log.push(entry);
        match decision {
            Decision::Wait { delay, .. } => {
                self.polling = verdict == Verdict::InProgress;
                self.polls = self.polls.saturating_add(u32::from(self.polling));
                if let Verdict::Retry {
                    without_expect: true,
                    ..
                } = verdict
                {
                    self.without_expect = true;
                }
                Next::Wait(delay)
            }
            Decision::Finish => Next::Return(self.finish(end, None, hint, landed)),
            Decision::GiveUp(limit) => {
                let is_the_answer = matches!(
                    verdict,
                    Verdict::Retry {
                        else_done: true,
                        ..
                    } | Verdict::Never {
                        else_done: true,
                        ..
                    }
                );
                Next::Return(if is_the_answer && end.answer.is_some() {
                    self.finish(end, Some(limit), hint, landed)
                } else {
                    let answer = end.answer.take();
                    Err(self.give_up(end, answer, limit, hint, landed))
                })
            }
        }
    }

    fn decide(
        &mut self,
        end: &End,
        elapsed: Duration,
        hint: Option<Duration>,
        repeatable: bool,
    ) -> Decision {
        let job = &self.job;
        let backoff = job.policy().backoff();
        let retries = matches!(end.assessment.verdict, Verdict::Retry { .. });
        let situation = Situation {
            attempts: self.attempts,
            polls: self.polls,
            elapsed,
            in_progress_since: self.in_progress_since,
            deadline: job.deadline(),
            key_age: self.key_age,
            key_window: job.key_window(),
            repeatable,
            hint,
            roll: if retries {
                job.engine.rolls.next(backoff.seed())
            } else {
                0
            },
        };
        let mut delays = match self.delays.take() {
            Some(delays) => *delays,
            None => backoff.delays(),
        };
        let decision = decide(
            job.policy(),
            &situation,
            end.assessment,
            &mut delays,
            || {
                job.policy().budget().is_none_or(|budget| {
                    budget.withdraw(job.frozen.url.payer(), since_epoch(Instant::now()))
                })
            },
        );
        if delays.keeps_state() {
            self.delays = Some(Box::new(delays));
        }
        decision
    }

    /// What the server asked us to wait. Only looked for where it could matter.
    #[inline]
    fn hint(&self, end: &End) -> Option<Duration> {
        if end.assessment.verdict == Verdict::Done {
            return None;
        }
        let headers = end.answer.as_ref()?.headers();
        let hint = self.job.contract().wait_hint(headers)?;
        Some(hint.delay(SystemTime::now()))
    }

    fn finish(
        &mut self,
        end: End,
        stopped_by: Option<StoppedBy>,
        hint: Option<Duration>,
        landed: Landed,
    ) -> Result<Response, Error> {
        let reach = end.assessment.reach;
        let meaning = end.meaning();
        let Some(answer) = end.answer else {
            // A verdict of "done" is only ever given on an answer.
            return Err(self.error(
                ErrorKind::Connection,
                What::Failure(end.failure.unwrap_or(Failure::Other)),
                StoppedBy::NotRetryable,
            ));
        };
        let effect = match reach {
            _ if self.job.key.is_some() => Effect::Answered,
            Reach::Answered => Effect::Answered,
            _ => self.job.effect(),
        };
        let echo_mismatch = self.witness(&answer, meaning, landed);
        let replay = if echo_mismatch {
            Replay::Unknown
        } else {
            self.replay(&answer, meaning, landed)
        };
        let report = Report {
            echo_mismatch,
            ..self.report(replay, stopped_by, hint, landed.unknown_before)
        };
        Ok(self.response(answer, report, effect, meaning))
    }

    fn give_up(
        &mut self,
        end: End,
        answer: Option<Response>,
        limit: StoppedBy,
        hint: Option<Duration>,
        landed: Landed,
    ) -> Error {
        let effect = self.job.effect();
        let (kind, what) = match (end.failure, end.status) {
            (Some(failure), _) => (ErrorKind::of(failure), What::Failure(failure)),
            (None, Some(status)) if end.assessment.verdict == Verdict::InProgress => {
                (ErrorKind::InProgress, What::Status(status))
            }
            (None, Some(status)) => (ErrorKind::Status, What::Status(status)),
            (None, None) => (ErrorKind::Connection, What::Failure(Failure::Other)),
        };
        let replay = match &answer {
            Some(answer) => answer.reading().marker,
            None => Replay::Unknown,
        };
        let report = self.report(replay, Some(limit), hint, landed.unknown_before);
        let response =
            answer.map(|answer| self.response(answer, report.clone(), effect, Meaning::Plain));
        Error::new(kind, effect, what)
            .with_report(report)
            .with_response(response)
            .with_source(end.source)
    }

    /// Looks whether the server keeps to what its contract says of echoes and markers. Returns whether it echoed another key.
    #[inline]
    fn witness(&self, answer: &Response, meaning: Meaning, landed: Landed) -> bool {
        let (job, headers) = (&self.job, answer.headers());
        let Some(key) = job.key() else {
            return false;
        };
        if job.contract().marks_replays() && meaning == Meaning::Plain {
            let url = &job.frozen.url;
            let marked = answer.reading().marker != Replay::Unknown;
            let host = url.host_str().unwrap_or_default();
            job.engine
                .unmarked
                .note(job.frozen.url.payer(), host, marked, landed.unknown_before);
        }
        let mismatch = echoes_another_key(job.contract(), key, headers);
        if mismatch {
            trace::echo_mismatch(key);
        }
        mismatch
    }

    /// Never a guess: what the server says; else "fresh" where nothing else can have been processed.
    fn replay(&self, answer: &Response, meaning: Meaning, landed: Landed) -> Replay {
        match answer.reading().marker {
            Replay::Unknown if meaning == Meaning::AlreadyDone => Replay::Replayed,
            Replay::Unknown
                if self.job.protection == Protection::DrawnKey && !landed.processed_before =>
            {
                Replay::Fresh
            }
            said => said,
        }
    }

    #[inline]
    fn report(
        &mut self,
        replay: Replay,
        stopped_by: Option<StoppedBy>,
        retry_after: Option<Duration>,
        unknown_before: bool,
    ) -> Report {
        Report {
            key: self.job.key().cloned(),
            attempts: std::mem::take(&mut self.log),
            replay,
            followed_unknown: self.job.key.is_some()
                && unknown_before
                && replay != Replay::Replayed,
            stopped_by,
            buffered: false,
            retry_after,
            echo_mismatch: false,
        }
    }

    #[inline]
    fn response(
        &self,
        mut answer: Response,
        mut report: Report,
        effect: Effect,
        meaning: Meaning,
    ) -> Response {
        report.buffered = answer.is_complete();
        let resource = answer.take_resource();
        answer.complete(Meta {
            report,
            effect,
            mismatch: meaning == Meaning::Mismatch,
            already_done: meaning == Meaning::AlreadyDone,
            resource,
            stall: self.job.policy().stall_timeout(),
        });
        answer
    }

    /// An error that no attempt brought.
    pub(super) fn error(&mut self, kind: ErrorKind, what: What, limit: StoppedBy) -> Error {
        let report = self.closing_report(limit);
        Error::new(kind, self.job.effect(), what).with_report(report)
    }

    pub(super) fn closing_report(&mut self, limit: StoppedBy) -> Report {
        let unknown = self.job.past.is_unknown();
        self.report(Replay::Unknown, Some(limit), None, unknown)
    }
}
