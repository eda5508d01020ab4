//! Bodies that are no text, or none.

use bytes::Bytes;

use super::report::{Check, Grade};
use super::run::Run;

impl Run {
    // B106.
    pub(super) async fn binary_body(&mut self) {
        let mut ask = self.operation().with_body(Bytes::from_static(&[0, 1]));
        ask.content_type = Some("application/octet-stream".to_owned());
        let first = self.send(&ask).await;
        if !first.is_success() {
            let seen = format!("not taken: {}", first.shown());
            return self.row(Check::BinaryBody, Grade::Note, seen);
        }
        let other = ask.with_body(Bytes::from_static(&[0, 2]));
        let second = self.send(&other).await;
        let (grade, seen) = match self.is_same_run(&first, &second) {
            _ if second.is_refusal() => {
                let seen = format!("compared: another one is refused, {}", second.shown());
                (Grade::Good, seen)
            }
            Some(true) => {
                let seen = "not compared: another one gets the first one's answer";
                (Grade::Bad, seen.to_owned())
            }
            Some(false) => (Grade::Bad, "another one under the key runs".to_owned()),
            None => (
                Grade::Unknown,
                format!("another one is answered {}", second.shown()),
            ),
        };
        self.row(Check::BinaryBody, grade, seen);
    }

    pub(super) async fn empty_body(&mut self) {
        let mut ask = self.operation().with_body(Bytes::new());
        ask.content_type = None;
        let first = self.send(&ask).await;
        if !first.is_success() {
            let seen = format!("not taken: {}", first.shown());
            return self.row(Check::EmptyBody, Grade::Note, seen);
        }
        let second = self.send(&ask).await;
        let (grade, seen) = match self.is_same_run(&first, &second) {
            Some(true) => (Grade::Good, "protected like others".to_owned()),
            Some(false) => (Grade::Bad, "runs again".to_owned()),
            None => (
                Grade::Unknown,
                format!("the repeat is answered {}", second.shown()),
            ),
        };
        self.row(Check::EmptyBody, grade, seen);
    }
}
