//! Operations that fail, and clients that do.

use bytes::Bytes;

use super::report::{Check, Grade};
use super::run::{Run, Runs};
use super::send::{Ask, Got, Part};
use super::settings::Failing;
use crate::contract::{FailureStorage, Replay};

impl Run {
    pub(super) async fn client_error(&mut self) {
        let mut ask = self
            .operation()
            .with_body(Bytes::from_static(b"{\"probe\":"));
        ask.content_type = Some("application/json".to_owned());
        let first = self.send(&ask).await;
        if !first.is_refusal() {
            let seen = format!("not met: a broken document is answered {}", first.shown());
            return self.row(Check::ClientError, Grade::Unknown, seen);
        }
        let second = self.send(&ask).await;
        let status = first.shown();
        if self.says_replayed(&second) {
            self.facts.failures = FailureStorage::ClientErrors;
            let seen = format!("{status} is stored, and marked");
            return self.row(Check::ClientError, Grade::Good, seen);
        }
        let (grade, seen) = match second.status == first.status {
            true => (Grade::Good, format!("{status} again")),
            false => (Grade::Note, format!("{status}, then {}", second.shown())),
        };
        self.row(Check::ClientError, grade, seen);
    }

    // B120, B121.
    pub(super) async fn server_error(&mut self) {
        let Some(failing) = self.settings.failing.clone() else {
            let seen = "not asked: the probe does not know what fails";
            return self.row(Check::ServerError, Grade::Unknown, seen);
        };
        let failing = |mut ask: Ask| match &failing {
            Failing::Header(name, value) => {
                ask.headers.insert(name.clone(), value.clone());
                ask
            }
            Failing::Body(body) => ask.with_body(body.clone().into()),
        };
        let ask = failing(self.operation());
        let another = failing(self.operation()).with_body(ask.body.clone());
        let (first, counted) = self.watched(self.send(&ask)).await;
        if first.status < 500 {
            let seen = format!("not met: answered {}", first.shown());
            return self.row(Check::ServerError, Grade::Unknown, seen);
        }
        let (second, witnessed) = self.watched(self.send(&ask)).await;
        let control = self.send(&another).await;
        let status = first.shown();
        // A witness that did not see the first failure, which left nothing to be seen, sees no second
        // one either.
        let stored = match witnessed.filter(|_| counted != Some(0)) {
            Some(runs) => Some(runs == 0),
            None if second.body != first.body => Some(false),
            None if control.body != first.body => Some(true),
            None => None,
        };
        let (grade, seen) = match (self.says_replayed(&second), stored) {
            (true, _) => {
                self.facts.failures = FailureStorage::Everything;
                (Grade::Good, format!("{status} is stored, and marked"))
            }
            (false, Some(true)) => {
                self.facts.failures = FailureStorage::Everything;
                let seen = format!("{status} is stored and not marked: every retry is in vain");
                (Grade::Bad, seen)
            }
            (false, Some(false)) => (
                Grade::Good,
                format!("{status} is not stored: it runs again"),
            ),
            (false, None) => {
                let seen = format!("{status} again; whether it is stored does not show");
                (Grade::Unknown, seen)
            }
        };
        self.row(Check::ServerError, grade, seen);
    }

    fn says_replayed(&self, got: &Got) -> bool {
        let first_lies = (self.facts.first.as_ref())
            .is_some_and(|(_, first)| self.marker(first) == Replay::Replayed);
        self.is_marked(got) || (self.marker(got) == Replay::Replayed && !first_lies)
    }

    // B101.
    pub(super) async fn client_gone(&mut self) {
        let ask = self.operation();
        let before = self.witnessed().await;
        if self.send_and_leave(&ask, Part::Whole).await.is_none() {
            let seen = "not asked: only over plain HTTP";
            return self.row(Check::ClientGone, Grade::Unknown, seen);
        }
        tokio::time::sleep(self.settings.overlap).await;
        let Some(got) = self.send_patiently(&ask).await else {
            let seen = format!(
                "the key is stuck for more than {:?}",
                self.settings.patience
            );
            return self.row(Check::ClientGone, Grade::Bad, seen);
        };
        let again = self.send(&ask).await;
        let after = self.witnessed().await;
        let witnessed = before
            .zip(after)
            .map(|(before, after)| after.saturating_sub(before));
        let (grade, seen) = match (witnessed, self.runs(&[got.clone(), again], None)) {
            _ if !got.is_success() => (Grade::Note, format!("then answered {}", got.shown())),
            (Some(runs @ 2..), _) | (_, Runs::Known(runs @ 2..)) => {
                (Grade::Bad, format!("ran {runs} times"))
            }
            _ if self.is_marked(&got) => {
                (Grade::Good, "the repeat gets the stored answer".to_owned())
            }
            (Some(_), _) => (Grade::Good, "ran once".to_owned()),
            _ if self.facts.marks => {
                let seen = "the repeat runs: the first run was given up, or not kept";
                (Grade::Note, seen.to_owned())
            }
            _ => {
                let seen = "the repeat is answered; whether it ran before does not show";
                (Grade::Unknown, seen.to_owned())
            }
        };
        self.row(Check::ClientGone, grade, seen);
    }

    pub(super) async fn cut_request(&mut self) {
        let ask = self.operation();
        if self.send_and_leave(&ask, Part::HalfTheBody).await.is_none() {
            let seen = "not asked: only over plain HTTP";
            return self.row(Check::CutRequest, Grade::Unknown, seen);
        }
        tokio::time::sleep(self.settings.overlap).await;
        let (grade, seen) = match self.send_patiently(&ask).await {
            Some(got) if got.is_success() => {
                let seen = format!("claims nothing: the whole one is answered {}", got.shown());
                (Grade::Good, seen)
            }
            Some(got) => {
                let seen = format!("spoils the key: the whole one is answered {}", got.shown());
                (Grade::Bad, seen)
            }
            None => {
                let seen = format!(
                    "the key is stuck for more than {:?}",
                    self.settings.patience
                );
                (Grade::Bad, seen)
            }
        };
        self.row(Check::CutRequest, grade, seen);
    }
}
