//! The order in which a server's steps are handed out.

use std::collections::VecDeque;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use super::wire::Arrival;

/// Chooses the step for a request that has been read.
pub(super) type Answer<S> = Box<dyn FnMut(&Arrival) -> S + Send>;

/// Where steps come from.
pub(super) enum Source<S> {
    /// Each once, in order. A request after the last is a complaint.
    List(VecDeque<S>),
    /// The same for ever.
    Always(S),
    /// From the request.
    Answer(Answer<S>),
}

/// Steps, one a request, over all connections of a server.
pub(super) struct Script<S> {
    source: Mutex<Source<S>>,
    exhausted: S,
    complaints: Mutex<Vec<&'static str>>,
}

impl<S: Clone> Script<S> {
    /// A script; `exhausted` is played to requests that it does not foresee.
    pub(super) fn new(source: Source<S>, exhausted: S) -> Self {
        Self {
            source: Mutex::new(source),
            exhausted,
            complaints: Mutex::default(),
        }
    }

    /// The next step. `None` where it depends on the request and none has been `read` yet: ask again then.
    pub(super) fn next(&self, read: Option<&Arrival>) -> Option<S> {
        match &mut *self.source.lock().unwrap() {
            Source::List(steps) => Some(
                steps
                    .pop_front()
                    .unwrap_or_else(|| self.complain("unexpected request: the script had ended")),
            ),
            Source::Always(step) => Some(step.clone()),
            Source::Answer(answer) => {
                let arrival = read?;
                // Caught, because the panic of a spawned task would be seen by nobody.
                let step = catch_unwind(AssertUnwindSafe(|| answer(arrival)));
                Some(step.unwrap_or_else(|_| self.complain("the closure that answers panicked")))
            }
        }
    }

    fn complain(&self, what: &'static str) -> S {
        self.complaints.lock().unwrap().push(what);
        self.exhausted.clone()
    }

    /// Fails the test for what could not be told to it earlier. To be called when a server is dropped.
    pub(super) fn settle(&self, seen: &impl Display) {
        let complaints = self.complaints.lock().unwrap();
        if !complaints.is_empty() && !std::thread::panicking() {
            panic!("{}{seen}", complaints.join("; "));
        }
    }
}
