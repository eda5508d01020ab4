//! Finding out by itself how a server marks its replays.

use std::borrow::Cow;

use http::HeaderMap;
use serde_json::Value;

use super::report::{Check, Grade};
use super::run::Run;
use super::send::Got;
use crate::contract::{Contract, MarkerRule, Replay};

impl Run {
    pub(super) async fn find_marker(&mut self) {
        let (Some((ask, first)), Some(replay)) = (self.known(), self.facts.replay.clone()) else {
            return;
        };
        let control = self.operation();
        let fresh = self.send(&control).await;
        let lies = self.marker(&first) == Replay::Replayed;
        if lies {
            let name = common_marker(&self.settings.contract, &first).unwrap_or_default();
            let seen = format!("`{name}` stands on fresh answers too: nobody can tell");
            return self.row(Check::Marker, Grade::Bad, seen);
        }
        if self.marker(&replay) == Replay::Fresh {
            let name = common_marker(&self.settings.contract, &replay).unwrap_or_default();
            let seen = format!("`{name}` says on a replay that it is fresh");
            return self.row(Check::Marker, Grade::Bad, seen);
        }
        if !self.facts.replays
            && self.marker(&replay) != Replay::Replayed
            && self.facts.answers_differ
        {
            return self.row(Check::Marker, Grade::Unknown, "no replay was seen");
        }
        let again = self.send(&ask).await;
        if self.marker(&replay) == Replay::Replayed {
            self.facts.marks = true;
            let name = common_marker(&self.settings.contract, &replay);
            let seen = match name {
                Some(name) => format!("`{name}`"),
                None => "as the contract says".to_owned(),
            };
            return self.row(Check::Marker, Grade::Good, seen);
        }
        match detect(&first, &fresh, &replay, &again) {
            Some((rule, seen)) => {
                self.facts.marks = true;
                self.facts.marker = Some(rule);
                self.row(Check::Marker, Grade::Good, seen);
            }
            None => {
                let seen = "none: a replay cannot be told from a fresh answer";
                self.row(Check::Marker, Grade::Note, seen);
            }
        }
    }
}

/// The header line in which the contract reads something about a replay.
fn common_marker(contract: &Contract, got: &Got) -> Option<String> {
    got.headers.iter().find_map(|(name, value)| {
        let alone = HeaderMap::from_iter([(name.clone(), value.clone())]);
        let says = contract.marker(got.code(), &alone, b"");
        (says != Replay::Unknown)
            .then(|| format!("{name}: {}", value.to_str().unwrap_or("not text")))
    })
}

/// Whether an answer is a replay by a rule that was detected.
pub(super) fn says_replayed(rule: &MarkerRule, got: &Got) -> bool {
    Contract::builder("detected")
        .without_markers()
        .marker(rule.clone())
        .build()
        .is_ok_and(|contract| {
            contract.marker(got.code(), &got.headers, &got.body) == Replay::Replayed
        })
}

/// What both replays have and no fresh answer has.
fn detect(first: &Got, fresh: &Got, replay: &Got, again: &Got) -> Option<(MarkerRule, String)> {
    by_header(first, fresh, replay, again)
        .or_else(|| by_flag(first, fresh, replay, again))
        .or_else(|| by_status(first, fresh, replay, again))
}

/// Headers of which every answer has its own.
const PASSING: [&str; 6] = [
    "date",
    "age",
    "expires",
    "set-cookie",
    "content-length",
    "retry-after",
];

fn by_header(first: &Got, fresh: &Got, replay: &Got, again: &Got) -> Option<(MarkerRule, String)> {
    replay.headers.keys().find_map(|name| {
        if PASSING.contains(&name.as_str()) {
            return None;
        }
        let [first, fresh, replay, again] =
            [first, fresh, replay, again].map(|got| got.header(name));
        let (replay, again) = (replay?, again?);
        let text = |text: &str| Cow::Owned(text.to_owned());
        let rule = match (first, fresh) {
            (None, None) if truth(replay) && replay == again => MarkerRule::flag(name.to_string()),
            (None, None) if replay == again => {
                MarkerRule::words(name.to_string(), [text(replay)], [""; 0])
            }
            (None, None) => MarkerRule::presence(name.to_string()),
            (Some(first), Some(fresh)) if first == fresh && replay == again && first != replay => {
                MarkerRule::words(name.to_string(), [text(replay)], [text(first)])
            }
            _ => return None,
        };
        let seen = match first {
            Some(first) => format!("`{name}: {replay}`, and `{first}` on fresh answers"),
            None => format!("`{name}: {replay}`"),
        };
        Some((rule, seen))
    })
}

fn truth(value: &str) -> bool {
    ["true", "1", "?1"]
        .iter()
        .any(|word| value.trim().eq_ignore_ascii_case(word))
}

fn by_status(first: &Got, fresh: &Got, replay: &Got, again: &Got) -> Option<(MarkerRule, String)> {
    let one = replay.status == again.status && first.status == fresh.status;
    (one && replay.status != first.status).then(|| {
        let status = replay.status;
        (
            MarkerRule::Status { status },
            format!("the status {status}"),
        )
    })
}

fn by_flag(first: &Got, fresh: &Got, replay: &Got, again: &Got) -> Option<(MarkerRule, String)> {
    let [first, fresh, replay, again] =
        [first, fresh, replay, again].map(|got| serde_json::from_slice::<Value>(&got.body).ok());
    let (first, fresh, replay, again) = (first?, fresh?, replay?, again?);
    let mut flags = Vec::new();
    true_flags(&replay, &mut String::new(), &mut flags);
    let is = |json: &Value, pointer: &str| json.pointer(pointer) == Some(&Value::Bool(true));
    let pointer = flags
        .into_iter()
        .find(|pointer| is(&again, pointer) && !is(&first, pointer) && !is(&fresh, pointer))?;
    let seen = format!("`true` at `{pointer}` in the body");
    let pointer = pointer.into();
    Some((MarkerRule::BodyFlag { pointer }, seen))
}

fn true_flags(json: &Value, place: &mut String, found: &mut Vec<String>) {
    match json {
        Value::Bool(true) => found.push(place.clone()),
        Value::Object(members) => {
            for (name, member) in members {
                let length = place.len();
                place.push('/');
                place.push_str(&name.replace('~', "~0").replace('/', "~1"));
                true_flags(member, place, found);
                place.truncate(length);
            }
        }
        _ => {}
    }
}
