//! For a keyed operation `Ok` is a definite answer, and a failed `send` says what is certain all the same.

mod after_unknown;
mod before_sending;
mod conflicts;
mod effects;
mod given_keys;
mod in_progress;
mod later_errors;
mod names;
mod statuses;

use idempotency::{Effect, Error, ErrorKind, Response, StoppedBy};

/// What an operation came to, as far as it decides what the caller does next.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    /// To an answer: status, and the limit that made it one.
    Answer(u16, Option<StoppedBy>),
    /// To none: kind, effect, limit, and the status of the response inside.
    Nothing(ErrorKind, Effect, StoppedBy, Option<u16>),
}

impl Came {
    fn to(result: &Result<Response, Error>) -> Self {
        match result {
            Ok(response) => Self::Answer(response.status().into(), response.report().stopped_by()),
            Err(error) => Self::Nothing(
                error.kind(),
                error.effect(),
                error.stopped_by().expect("a limit ended it"),
                error.response().map(|response| response.status().into()),
            ),
        }
    }
}
