//! Requests that meet each other.

use std::collections::BTreeMap;

use futures_core::future::BoxFuture;
use http::header;

use super::report::{Check, Grade};
use super::run::{Run, Runs};
use super::send::{Ask, Got};

impl Run {
    pub(super) async fn while_running(&mut self) {
        let ask = self.operation();
        let (met, witnessed) = self.watched(self.meet(&ask)).await;
        let Some((first, second)) = met else {
            let seen = format!(
                "not met: the answer came within {:?}",
                self.settings.overlap
            );
            return self.row(Check::WhileRunning, Grade::Unknown, seen);
        };
        if second.is_refusal() || second.status >= 500 {
            let hint = match second.header(header::RETRY_AFTER) {
                Some(wait) => format!(", retry after {wait}"),
                None => String::new(),
            };
            let seen = format!("told to wait: {}{hint}", second.shown());
            self.facts.in_progress = Some(second);
            return self.row(Check::WhileRunning, Grade::Good, seen);
        }
        let (grade, seen) = match self.runs(&[first, second], witnessed) {
            Runs::Known(0 | 1) => (
                Grade::Good,
                "waits, and gets the first one's answer".to_owned(),
            ),
            Runs::Known(_) => (Grade::Bad, "runs while the first still runs".to_owned()),
            Runs::Unknown => (
                Grade::Unknown,
                "accepted; whether it ran does not show".to_owned(),
            ),
        };
        self.row(Check::WhileRunning, grade, seen);
    }

    /// Sends the request, and again while it runs. [`None`] when it was too fast.
    async fn meet(&self, ask: &Ask) -> Option<(Got, Got)> {
        let mut first: BoxFuture<'_, Got> = Box::pin(self.send(ask));
        let early = tokio::time::timeout(self.settings.overlap, &mut first).await;
        if early.is_ok() {
            return None;
        }
        let (first, second) = tokio::join!(first, self.send(ask));
        Some((first, second))
    }

    pub(super) async fn at_once(&mut self, check: Check, count: usize) {
        let ask = self.operation();
        let (answers, witnessed) = self.watched(self.together(&ask, count)).await;
        let runs = self.runs(&answers, witnessed);
        let refused = answers.iter().find(|got| got.is_refusal());
        if let (None, Some(refused)) = (&self.facts.in_progress, refused) {
            self.facts.in_progress = Some(refused.clone());
        }
        let shown = tally(&answers);
        let (grade, seen) = match runs {
            Runs::Known(1) => (Grade::Good, format!("ran once: {shown}")),
            Runs::Known(0) => (Grade::Bad, format!("did not run: {shown}")),
            Runs::Known(runs) => (Grade::Bad, format!("ran {runs} times: {shown}")),
            Runs::Unknown => (
                Grade::Unknown,
                format!("how often it ran does not show: {shown}"),
            ),
        };
        self.row(check, grade, seen);
    }

    async fn together(&self, ask: &Ask, count: usize) -> Vec<Got> {
        let mut open: Vec<BoxFuture<'_, Got>> = (0..count)
            .map(|_| Box::pin(self.send(ask)) as BoxFuture<'_, Got>)
            .collect();
        let mut answers: Vec<Option<Got>> = vec![None; count];
        std::future::poll_fn(|context| {
            for (future, answer) in open.iter_mut().zip(&mut answers) {
                if answer.is_none()
                    && let std::task::Poll::Ready(got) = future.as_mut().poll(context)
                {
                    *answer = Some(got);
                }
            }
            match answers.iter().all(Option::is_some) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
        answers.into_iter().flatten().collect()
    }
}

/// `1 x 201, 9 x 409`.
fn tally(answers: &[Got]) -> String {
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    for got in answers {
        *counts.entry(got.status).or_default() += 1;
    }
    let shown = counts.into_iter().map(|(status, count)| match status {
        0 => format!("{count} x no answer"),
        status => format!("{count} x {status}"),
    });
    shown.collect::<Vec<_>>().join(", ")
}
