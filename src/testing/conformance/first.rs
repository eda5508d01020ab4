//! The first request, its repeat, and requests that only look like repeats.

use super::report::{Check, Grade};
use super::run::{Run, Runs};
use super::send::{Ask, Got};
use super::settings::ProbeError;
use crate::contract::{KeyEncoding, Replay};

impl Run {
    pub(super) async fn first(&mut self) -> Result<(), ProbeError> {
        let mut ask = self.operation();
        let mut got = self
            .try_send(&ask)
            .await
            .map_err(|error| ProbeError::new("no server answers there").with(error))?;
        if got.is_refusal() && self.facts.encoding == KeyEncoding::Bare {
            self.facts.encoding = KeyEncoding::StructuredString;
            let bare = got;
            ask = self.operation();
            got = self.send(&ask).await;
            if !got.is_success() {
                (self.facts.encoding, got) = (KeyEncoding::Bare, bare);
            }
        }
        if !got.is_success() {
            return Err(ProbeError::new(format!(
                "the first request was answered {}: the probe needs a request that succeeds (credentials, body, content type)",
                got.shown()
            )));
        }
        // The same body under another key: whatever differs now differs from run to run.
        let another = self.operation().with_body(ask.body.clone());
        let other = self.send(&another).await;
        self.facts.answers_differ = other.is_success() && other.body != got.body;
        let form = match self.facts.encoding {
            KeyEncoding::StructuredString => ", with the key in quotes",
            _ => "",
        };
        let seen = format!("{}{form}", got.shown());
        match self.marker(&got) {
            Replay::Replayed => self.row(
                Check::First,
                Grade::Bad,
                format!("{seen}, and says that it is a replay"),
            ),
            _ => self.row(Check::First, Grade::Good, seen),
        }
        self.facts.first = Some((ask, got));
        Ok(())
    }

    /// The first request and its answer.
    pub(super) fn known(&self) -> Option<(Ask, Got)> {
        self.facts.first.clone()
    }

    pub(super) async fn repeat(&mut self) {
        let Some((ask, first)) = self.known() else {
            return;
        };
        let (got, witnessed) = self.watched(self.send_patiently(&ask)).await;
        let Some(got) = got else {
            let seen = format!("in progress for more than {:?}", self.settings.patience);
            return self.row(Check::Repeat, Grade::Bad, seen);
        };
        let ran = match witnessed {
            Some(runs) => Some(runs > 0),
            None if self.marker(&got) == Replay::Replayed => Some(false),
            None if !got.is_success() => Some(false),
            None if self.facts.answers_differ => Some(got.body != first.body),
            None => None,
        };
        let (grade, seen) = match ran {
            Some(true) => (Grade::Bad, "runs again".to_owned()),
            _ if got.is_refusal() => {
                let seen = format!(
                    "{}: not run again, and its answer is not repeated",
                    got.shown()
                );
                (Grade::Note, seen)
            }
            _ if got.status != first.status => {
                let seen = format!("replays {} for {}", got.shown(), first.shown());
                (Grade::Bad, seen)
            }
            _ if got.body != first.body => (Grade::Bad, "replays another body".to_owned()),
            None => {
                let seen = "the same answer; whether it ran again does not show";
                (Grade::Unknown, seen.to_owned())
            }
            Some(false) => match lost_header(&first, &got) {
                Some(name) => (Grade::Bad, format!("replays without `{name}`")),
                None => (Grade::Good, format!("replays {} and its body", got.shown())),
            },
        };
        self.facts.replays = ran == Some(false);
        self.facts.runs_again = ran == Some(true);
        self.facts.replay = Some(got);
        self.row(Check::Repeat, grade, seen);
    }

    pub(super) async fn other_body(&mut self) {
        let Some((ask, first)) = self.known() else {
            return;
        };
        let other = ask.with_body(self.settings.other_body(self.last_operation()));
        let (grade, seen) = self.look_alike(&other, &first).await;
        self.row(Check::OtherBody, grade, seen);
    }

    pub(super) async fn other_query(&mut self) {
        let Some((mut ask, first)) = self.known() else {
            return;
        };
        ask.url.query_pairs_mut().append_pair("probe", "1");
        let (grade, seen) = self.look_alike(&ask, &first).await;
        // A query that means nothing to the server is no other request.
        let grade = match grade {
            Grade::Bad => Grade::Note,
            grade => grade,
        };
        self.row(Check::OtherQuery, grade, seen);
    }

    /// Another request under a used key.
    async fn look_alike(&mut self, ask: &Ask, first: &Got) -> (Grade, String) {
        let (got, witnessed) = self.watched(self.send(ask)).await;
        if got.is_refusal() {
            self.facts.compares = Some(true);
            let grade = match self.is_in_progress(&got) {
                // The client would wait for nothing.
                true => Grade::Bad,
                false => Grade::Good,
            };
            let seen = format!("refused: {}", got.shown());
            self.facts.mismatch.get_or_insert(got);
            return (grade, seen);
        }
        if !got.is_success() {
            return (Grade::Note, format!("answered {}", got.shown()));
        }
        let answers = [first.clone(), got.clone()];
        let ran = match witnessed {
            Some(runs) => Some(runs > 0),
            None if self.marker(&got) == Replay::Replayed => Some(false),
            None => match self.runs(&answers, None) {
                Runs::Known(runs) => Some(runs > 1),
                Runs::Unknown => None,
            },
        };
        match ran {
            Some(true) => (Grade::Bad, "runs as an operation of its own".to_owned()),
            Some(false) => {
                self.facts.compares.get_or_insert(false);
                (
                    Grade::Bad,
                    "replays the answer to the first request".to_owned(),
                )
            }
            None => (
                Grade::Unknown,
                "accepted; whether it ran does not show".to_owned(),
            ),
        }
    }
}

/// A header that belongs to the answer's meaning and is not replayed (RFC 9110, section 8).
fn lost_header(first: &Got, replay: &Got) -> Option<&'static str> {
    ["content-type", "location", "etag"]
        .into_iter()
        .find(|name| first.header(*name) != replay.header(*name))
}
