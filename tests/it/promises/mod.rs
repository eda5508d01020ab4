//! The promises of the crate, one file each.

mod answer_inside;
mod answer_tail;
mod bounded_time;
mod definite_answers;
mod key_window;
mod lost_connections;
mod no_secret;
mod no_storm;
mod no_unsafe_repeat;
mod nothing_hidden;
mod one_key;
mod own_key;
mod pending;
mod reading;
mod replays;
mod server_obeyed;

use idempotency::Attempt;

/// What came of each attempt, and how far it got: `503, maybe processed`. Without numbers and times.
pub(crate) fn story(attempts: &[Attempt]) -> Vec<String> {
    let outcome = |attempt: &Attempt| {
        let line = attempt.to_string();
        let line = line.split("; waited ").next().unwrap();
        let (outcome, _took) = line.rsplit_once(", ").unwrap();
        outcome.split_once(": ").unwrap().1.to_owned()
    };
    attempts.iter().map(outcome).collect()
}
