//! Keys that are missing, odd, or not their owner's.

use super::report::{Check, Grade};
use super::run::{Run, Runs};
use super::send::{Ask, Got};
use crate::contract::{IdempotencyKey, KeyEncoding, Replay};

impl Run {
    pub(super) async fn missing_key(&mut self) {
        let ask = self.operation().with_keys(&[]);
        let got = self.send(&ask).await;
        let (grade, seen) = match got.is_refusal() {
            true => (Grade::Good, format!("required: {}", got.shown())),
            false => (Grade::Note, format!("not required: {}", got.shown())),
        };
        self.row(Check::MissingKey, grade, seen);
    }

    pub(super) async fn empty_key(&mut self) {
        let keys = [self.written("")];
        let keys = [keys[0].as_str()];
        let (one, another) = (
            self.operation().with_keys(&keys),
            self.operation().with_keys(&keys),
        );
        let (first, second) = (self.send(&one).await, self.send(&another).await);
        let (grade, seen) = match self.is_same_run(&first, &second) {
            _ if first.is_refusal() => (Grade::Good, format!("refused: {}", first.shown())),
            Some(true) => {
                let seen = "taken as a key: one caller gets another's answer";
                (Grade::Bad, seen.to_owned())
            }
            _ => (Grade::Note, format!("runs unprotected: {}", first.shown())),
        };
        self.row(Check::EmptyKey, grade, seen);
    }

    pub(super) async fn long_key(&mut self) {
        let long = |length: usize, end: char| {
            let mut key = IdempotencyKey::random().to_string().replace('-', "");
            while key.len() < length {
                key += "0123456789abcdef";
            }
            key.truncate(length - 1);
            key.push(end);
            key
        };
        let mut longest = None;
        for length in [255, 128, 64, 40] {
            let key = self.written(&long(length, 'x'));
            let ask = self.operation().with_keys(&[&key]);
            if self.send(&ask).await.is_success() {
                longest = Some(length);
                break;
            }
        }
        self.facts.longest_key = longest;
        let common = long(300, 'x');
        let twin = format!("{}y", &common[..299]);
        let asks = [common, twin].map(|key| {
            let key = self.written(&key);
            self.operation().with_keys(&[&key])
        });
        let (first, second) = (self.send(&asks[0]).await, self.send(&asks[1]).await);
        let longest = match longest {
            Some(length) => format!("{length} characters are taken"),
            None => "40 characters are not taken".to_owned(),
        };
        let cut = second.is_success() && self.is_same_run(&first, &second) == Some(true);
        let (grade, above) = match first.is_success() {
            false => (Grade::Good, format!("300 are refused: {}", first.shown())),
            true if cut || second.is_refusal() => {
                (Grade::Bad, "300 are cut: two keys become one".to_owned())
            }
            true => (Grade::Good, "300 too".to_owned()),
        };
        self.row(Check::LongKey, grade, format!("{longest}, {above}"));
    }

    pub(super) async fn quoted_and_bare(&mut self) {
        let key = IdempotencyKey::random();
        let forms = [key.to_string(), format!("\"{key}\"")];
        let (taken, other, name) = match self.facts.encoding {
            KeyEncoding::StructuredString => (&forms[1], &forms[0], "bare"),
            _ => (&forms[0], &forms[1], "quoted"),
        };
        let ask = self.operation();
        let first = self.send(&ask.with_keys(&[taken])).await;
        let second = self.send(&ask.with_keys(&[other])).await;
        let (grade, seen) = match self.is_same_run(&first, &second) {
            _ if second.is_refusal() => {
                (Grade::Good, format!("{name} refused: {}", second.shown()))
            }
            Some(true) => (Grade::Good, "one key in both forms".to_owned()),
            Some(false) => (Grade::Note, format!("the {name} form is another key")),
            None => (
                Grade::Unknown,
                format!("the {name} form is taken: {}", second.shown()),
            ),
        };
        self.row(Check::QuotedAndBare, grade, seen);
    }

    pub(super) async fn two_lines(&mut self) {
        let ask = self.operation();
        let key = ask.keys[0].clone();
        let twice = self.send(&ask.with_keys(&[&key, &key])).await;
        let once = self.send(&ask).await;
        let (grade, seen) = match self.is_same_run(&twice, &once) {
            _ if twice.is_refusal() => (Grade::Good, format!("refused: {}", twice.shown())),
            Some(true) => (Grade::Note, "taken as one key".to_owned()),
            Some(false) => {
                let seen = "taken as another key: the honest retry runs again";
                (Grade::Bad, seen.to_owned())
            }
            None => (Grade::Unknown, format!("taken: {}", twice.shown())),
        };
        self.row(Check::TwoLines, grade, seen);
    }

    pub(super) async fn other_caller(&mut self) {
        let Some((name, value)) = self.settings.other_caller.clone() else {
            let seen = "not asked: the probe has one caller's credentials only";
            return self.row(Check::OtherCaller, Grade::Unknown, seen);
        };
        let ask = self.operation();
        let mut theirs: Ask = ask.clone();
        theirs.headers.insert(name, value);
        let mine = self.send(&ask).await;
        let got = self.send(&theirs).await;
        let (grade, seen) = match self.is_same_run(&mine, &got) {
            _ if matches!(got.status, 401 | 403) => {
                let seen = format!("turned away: {}", got.shown());
                (Grade::Note, seen)
            }
            _ if got.is_refusal() => {
                let seen = format!("refused: {}; the key is taken for everybody", got.shown());
                (Grade::Note, seen)
            }
            Some(true) => (Grade::Bad, "gets the first caller's answer".to_owned()),
            Some(false) => (Grade::Good, "has an operation of its own".to_owned()),
            None => (Grade::Unknown, format!("answered {}", got.shown())),
        };
        self.row(Check::OtherCaller, grade, seen);
    }

    /// Whether two answers came from one run. [`None`] when that does not show.
    pub(super) fn is_same_run(&self, first: &Got, second: &Got) -> Option<bool> {
        if !first.is_success() || !second.is_success() {
            return None;
        }
        if self.is_marked(second) || self.marker(second) == Replay::Replayed && self.facts.marks {
            return Some(true);
        }
        match self.runs(&[first.clone(), second.clone()], None) {
            Runs::Known(runs) => Some(runs <= 1),
            Runs::Unknown => None,
        }
    }
}
