//! Who holds which key, and what was answered under it: the store of the contract server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::answer::Answer;
use crate::contract::Fingerprint;

/// A key, and the caller whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) scope: String,
    pub(super) key: String,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: HashMap<Name, Entry>,
    claims: u64,
}

#[derive(Debug)]
struct Entry {
    fingerprint: Fingerprint,
    first_seen: Duration,
    state: State,
}

#[derive(Debug)]
enum State {
    Running { owner: u64, lease_ends: Duration },
    Done(Arc<Answer>),
    Burned,
}

/// What a key's owner holds: only it can end the claim.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    name: Name,
    token: u64,
}

#[derive(Debug)]
pub(super) enum Claim {
    New(Owner),
    InProgress,
    Mismatch,
    Done(Arc<Answer>),
    Burned,
}

/// How a run ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Keep(Arc<Answer>),
    Release,
    Burn,
}

/// How long things are remembered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) now: Duration,
    pub(super) window: Option<Duration>,
    pub(super) lease: Duration,
}

impl Ledger {
    /// Forgets the key if its window has passed; says whether it had.
    pub(super) fn forget(&mut self, name: &Name, times: Times) -> bool {
        let passed = |entry: &Entry| {
            let age = times.now.saturating_sub(entry.first_seen);
            times.window.is_some_and(|window| age >= window)
        };
        let expired = self.entries.get(name).is_some_and(passed);
        if expired {
            self.entries.remove(name);
        }
        expired
    }

    /// Claims the key. The fingerprint is compared before anything else: a client that sent another request would wait for
    /// nothing.
    pub(super) fn claim(
        &mut self,
        name: Name,
        fingerprint: Fingerprint,
        compared: bool,
        times: Times,
    ) -> Claim {
        self.claims += 1;
        let owner = Owner {
            name: name.clone(),
            token: self.claims,
        };
        let running = State::Running {
            owner: self.claims,
            lease_ends: times.now.saturating_add(times.lease),
        };
        let Some(entry) = self.entries.get_mut(&name) else {
            let entry = Entry {
                fingerprint,
                first_seen: times.now,
                state: running,
            };
            self.entries.insert(name, entry);
            return Claim::New(owner);
        };
        if compared && entry.fingerprint != fingerprint {
            return Claim::Mismatch;
        }
        match &entry.state {
            State::Done(answer) => Claim::Done(Arc::clone(answer)),
            State::Burned => Claim::Burned,
            State::Running { lease_ends, .. } if times.now < *lease_ends => Claim::InProgress,
            State::Running { .. } => {
                entry.state = running;
                Claim::New(owner)
            }
        }
    }

    /// Ends a claim, unless its owner has lost it in the meantime.
    pub(super) fn end(&mut self, owner: &Owner, outcome: Outcome) {
        let Some(entry) = self.entries.get_mut(&owner.name) else {
            return;
        };
        if !matches!(entry.state, State::Running { owner: token, .. } if token == owner.token) {
            return;
        }
        match outcome {
            Outcome::Keep(answer) => entry.state = State::Done(answer),
            Outcome::Burn => entry.state = State::Burned,
            Outcome::Release => {
                self.entries.remove(&owner.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn name() -> Name {
        Name {
            scope: String::new(),
            key: "k-1".to_owned(),
        }
    }

    fn at(seconds: u64) -> Times {
        Times {
            now: Duration::from_secs(seconds),
            window: Some(Duration::from_secs(100)),
            lease: Duration::from_secs(10),
        }
    }

    fn claim(ledger: &mut Ledger, body: &[u8], times: Times) -> Claim {
        let fingerprint = Fingerprint::of(&Method::POST, "/", None, body);
        ledger.forget(&name(), times);
        ledger.claim(name(), fingerprint, true, times)
    }

    fn won(claim: Claim) -> Owner {
        match claim {
            Claim::New(owner) => owner,
            other => panic!("the claim was not won: {other:?}"),
        }
    }

    // B84, B86, B98.
    #[test]
    fn an_owner_that_lost_its_lease_can_neither_finish_nor_release() {
        let mut ledger = Ledger::default();
        let late = won(claim(&mut ledger, b"a", at(0)));
        assert!(matches!(claim(&mut ledger, b"a", at(9)), Claim::InProgress));
        assert!(matches!(claim(&mut ledger, b"b", at(9)), Claim::Mismatch));
        let next = won(claim(&mut ledger, b"a", at(10)));
        ledger.end(&late, Outcome::Release);
        assert!(matches!(
            claim(&mut ledger, b"a", at(11)),
            Claim::InProgress
        ));
        ledger.end(&late, Outcome::Keep(Arc::new(Answer::new(500))));
        ledger.end(&next, Outcome::Keep(Arc::new(Answer::new(201))));
        match claim(&mut ledger, b"a", at(12)) {
            Claim::Done(answer) => assert_eq!(answer.status, 201),
            other => panic!("the answer was not kept: {other:?}"),
        }
    }

    #[test]
    fn a_key_is_forgotten_when_its_window_has_passed_since_it_was_first_seen() {
        let mut ledger = Ledger::default();
        let owner = won(claim(&mut ledger, b"a", at(0)));
        ledger.end(&owner, Outcome::Keep(Arc::new(Answer::new(201))));
        assert!(matches!(claim(&mut ledger, b"a", at(99)), Claim::Done(_)));
        won(claim(&mut ledger, b"a", at(100)));
    }
}
