//! What the contract server knows, behind one lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderName, StatusCode};

use super::answer::Answer;
use super::arrival::{Action, Arrival, Delivery, Said};
use super::fault::Fault;
use super::http1::RequestHead;
use super::key_seen::KeySeen;
use super::ledger::{Claim, Ledger, Name, Outcome, Owner, Times};
use super::play;
use super::script::{Faults, Place};
use crate::contract::{Contract, FailureStorage, Fingerprint, MismatchDetection, Problem};

/// How the server plays its contract.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) contract: Contract,
    pub(super) require_key: bool,
    pub(super) lease: Duration,
    pub(super) retry_after: u64,
    pub(super) repeats: Repeats,
    pub(super) scope: Option<HeaderName>,
}

/// What a repeat of a finished operation gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Repeats {
    /// The stored answer, with the contract's replay marker where it has one.
    #[default]
    Marked,
    /// The stored answer and nothing that tells it from a fresh one, as many servers do.
    Unmarked,
    /// An error that says that the operation was done before, as some providers do.
    AlreadyDone,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) arrivals: Vec<Arrival>,
    ledger: Ledger,
    places: HashMap<Identity, (usize, Place)>,
}

/// What counts as one operation for its script: a key on a route, or an unkeyed request.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity {
    route: usize,
    scope: String,
    key: Result<String, Fingerprint>,
}

/// A request, read.
pub(super) struct Incoming {
    pub(super) route: usize,
    pub(super) connection: usize,
    pub(super) head: RequestHead,
    pub(super) body: Bytes,
    pub(super) key: KeySeen,
}

/// What an arrival is to meet.
pub(super) struct Turn {
    /// Its place in the list of arrivals.
    pub(super) index: usize,
    pub(super) fault: Fault,
    /// For how long nobody shall listen after it.
    pub(super) refusal: Option<Duration>,
}

/// What the contract says to a request.
pub(super) enum Ruling {
    Answer(Answer),
    Run(Option<Owner>),
}

impl State {
    /// The fault that the next attempt of this operation meets, without taking it.
    pub(super) fn is_next_closed_unread(
        &mut self,
        incoming: &Incoming,
        faults: &Faults,
        settings: &Settings,
    ) -> bool {
        let identity = identity(incoming, settings);
        let fresh = self.places.len();
        let (ordinal, place) = match self.places.get(&identity) {
            Some((ordinal, place)) => (*ordinal, place.count()),
            None => (fresh, 0),
        };
        faults.at(ordinal, place) == Fault::CloseBeforeReading
    }

    pub(super) fn arrive(
        &mut self,
        incoming: &Incoming,
        faults: &Faults,
        settings: &Settings,
        now: Duration,
    ) -> Turn {
        let fresh = self.places.len();
        let (ordinal, place) = self
            .places
            .entry(identity(incoming, settings))
            .or_insert_with(|| (fresh, Place::default()));
        let (fault, refusal) = place.next(faults, *ordinal);
        let same = |earlier: &Arrival| {
            earlier.route == incoming.route
                && earlier.delivery == Delivery::Open
                && earlier.key() == incoming.key.text()
        };
        let arrival = Arrival {
            at: now,
            connection: incoming.connection,
            method: incoming.head.method.clone(),
            target: incoming.head.target.clone(),
            headers: incoming.head.headers.clone(),
            body: incoming.body.clone(),
            action: Action::Nothing,
            status: None,
            delivery: Delivery::Open,
            fault: fault.clone(),
            ended: None,
            key: incoming.key.clone(),
            route: incoming.route,
            scope: scope(incoming, settings),
            said: Said::default(),
            overlapped: self.arrivals.iter().any(same),
            forgotten: false,
            stands: false,
        };
        self.arrivals.push(arrival);
        Turn {
            index: self.arrivals.len() - 1,
            fault,
            refusal,
        }
    }

    /// Applies the contract.
    pub(super) fn rule(
        &mut self,
        index: usize,
        incoming: &Incoming,
        settings: &Settings,
        now: Duration,
    ) -> Ruling {
        let contract = &settings.contract;
        let honoured = contract.honours(&incoming.head.method);
        let refused = |problem: &Problem| {
            let answer = play::key_unusable(contract, problem);
            (Action::KeyRefused, Ruling::Answer(answer))
        };
        let (action, ruling) = match &incoming.key {
            KeySeen::None if honoured && settings.require_key => (
                Action::KeyMissing,
                Ruling::Answer(play::key_missing(contract)),
            ),
            _ if !honoured => (Action::Ran, Ruling::Run(None)),
            KeySeen::None => (Action::Ran, Ruling::Run(None)),
            KeySeen::Several(_) => refused(&Problem::several_keys()),
            KeySeen::Broken(error) => refused(&Problem::key_unreadable(error)),
            KeySeen::One {
                refused: Some(_), ..
            } => refused(&Problem::key_invalid()),
            KeySeen::One { literal, .. } => {
                let name = Name {
                    scope: scope(incoming, settings),
                    key: literal.clone(),
                };
                self.claim(index, name, incoming, settings, now)
            }
        };
        let arrival = &mut self.arrivals[index];
        arrival.action = action;
        arrival.stands = action == Action::Ran;
        ruling
    }

    fn claim(
        &mut self,
        index: usize,
        name: Name,
        incoming: &Incoming,
        settings: &Settings,
        now: Duration,
    ) -> (Action, Ruling) {
        let contract = &settings.contract;
        let times = Times {
            now,
            window: contract.window().bound(),
            lease: settings.lease,
        };
        self.arrivals[index].forgotten = self.ledger.forget(&name, times);
        let compared = contract.mismatch() != MismatchDetection::NotDetected;
        let fingerprint = fingerprint(incoming);
        match self.ledger.claim(name, fingerprint, compared, times) {
            Claim::New(owner) => (Action::Ran, Ruling::Run(Some(owner))),
            Claim::InProgress => (
                Action::InProgress,
                Ruling::Answer(play::in_progress(contract, settings.retry_after)),
            ),
            Claim::Mismatch => (Action::Mismatch, Ruling::Answer(play::mismatch(contract))),
            Claim::Burned => (Action::KeyRefused, Ruling::Answer(play::burned(contract))),
            Claim::Done(answer) => match settings.repeats {
                Repeats::Marked => (
                    Action::Replayed,
                    Ruling::Answer(play::replay(contract, &answer)),
                ),
                Repeats::Unmarked => (Action::Replayed, Ruling::Answer(Answer::clone(&answer))),
                Repeats::AlreadyDone => (
                    Action::AlreadyDone,
                    Ruling::Answer(play::already_done(contract)),
                ),
            },
        }
    }

    /// The server died with the key in its hands.
    pub(super) fn crash(&mut self, index: usize) {
        let arrival = &mut self.arrivals[index];
        if arrival.action == Action::Ran {
            arrival.action = Action::Claimed;
            arrival.stands = false;
        }
    }

    /// Takes down how the run ended. `None`: the responder gave no answer.
    pub(super) fn ran(
        &mut self,
        index: usize,
        owner: Option<&Owner>,
        answer: Option<&Answer>,
        failures: FailureStorage,
    ) {
        let outcome = outcome(answer, failures);
        self.arrivals[index].stands = matches!(outcome, Outcome::Keep(_));
        if let Some(owner) = owner {
            self.ledger.end(owner, outcome);
        }
    }

    /// The client was gone before it had read this answer.
    pub(super) fn unread(&mut self, index: usize, now: Duration) {
        let arrival = &mut self.arrivals[index];
        arrival.delivery = Delivery::ClientGone;
        arrival.ended = Some(now);
    }

    /// Takes down what became of the answer.
    pub(super) fn end(
        &mut self,
        index: usize,
        answer: Option<&Answer>,
        delivery: Delivery,
        contract: &Contract,
        now: Duration,
    ) {
        let arrival = &mut self.arrivals[index];
        arrival.ended = Some(now);
        arrival.delivery = delivery;
        let Some(answer) = answer else { return };
        arrival.status = Some(answer.status);
        let Ok(status) = StatusCode::from_u16(answer.status) else {
            return;
        };
        let reading = contract.read(status, &answer.headers, &answer.body);
        arrival.said = Said {
            meaning: reading.meaning,
            marker: reading.marker,
            should_retry: reading.should_retry,
            wait: contract
                .wait_hint(&answer.headers)
                .map(|hint| hint.delay(SystemTime::now())),
        };
    }
}

fn scope(incoming: &Incoming, settings: &Settings) -> String {
    settings
        .scope
        .as_ref()
        .and_then(|name| incoming.head.headers.get(name))
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .unwrap_or_default()
}

fn identity(incoming: &Incoming, settings: &Settings) -> Identity {
    Identity {
        route: incoming.route,
        scope: scope(incoming, settings),
        key: incoming
            .key
            .text()
            .map(str::to_owned)
            .ok_or_else(|| fingerprint(incoming)),
    }
}

fn fingerprint(incoming: &Incoming) -> Fingerprint {
    let head = &incoming.head;
    let content_type = head.headers.get(http::header::CONTENT_TYPE);
    Fingerprint::of(
        &head.method,
        &head.target,
        content_type.map(|value| value.as_bytes()),
        &incoming.body,
    )
}

/// Answers that speak of the caller or of the moment are never stored: the operation has not begun.
const NEVER_STORED: [u16; 6] = [401, 403, 407, 408, 425, 429];

fn outcome(answer: Option<&Answer>, failures: FailureStorage) -> Outcome {
    let Some(answer) = answer else {
        return Outcome::Release;
    };
    let keep = || Outcome::Keep(Arc::new(play::stored(answer.clone())));
    let status = answer.status;
    if status < 400 {
        return keep();
    }
    if NEVER_STORED.contains(&status) {
        return Outcome::Release;
    }
    match failures {
        FailureStorage::Everything => keep(),
        FailureStorage::KeyBurned => Outcome::Burn,
        FailureStorage::Nothing | FailureStorage::ReExecuted => Outcome::Release,
        _ if status < 500 => keep(),
        _ => Outcome::Release,
    }
}
