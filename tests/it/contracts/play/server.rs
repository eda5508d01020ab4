//! A server that keeps to a contract, made from the contract's data.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use http::StatusCode;
use idempotency::Contract;
use idempotency::contract::{
    AnswerRule, Carrier, Condition, FailureStorage, MarkerRule, Meaning, MismatchDetection,
};
use serde_json::{Value, json};

use crate::contracts::headers;
use crate::support::{Arrival, End, ScriptedServer, Step, header_lines};

/// An answer as it is stored and sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    status: u16,
    lines: Vec<(String, String)>,
    pub(super) body: String,
}

impl Sent {
    fn new(status: u16, body: &str) -> Self {
        let body = body.to_owned();
        let lines = Vec::new();
        Self {
            status,
            lines,
            body,
        }
    }

    fn step(&self) -> Step {
        // A status of 1xx ends no exchange.
        if self.status < 200 {
            let raw = format!("HTTP/1.1 {} Wait\r\n\r\n", self.status);
            return Step::raw(raw, End::Close);
        }
        let lines: Vec<_> = self
            .lines
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        Step::reply(self.status, &lines, self.body.clone())
    }

    /// The answer that a rule describes.
    fn of(rule: &AnswerRule) -> Self {
        let mut sent = Self::new(rule.statuses.first, "");
        let mut body = Value::Null;
        match &rule.when {
            Condition::Code { pointers, values } => {
                put(&mut body, &pointers[0], values[0].clone().into_owned())
            }
            Condition::ProblemType { values } => {
                put(&mut body, "/type", values[0].clone().into_owned())
            }
            Condition::Header { name, value } => {
                let value = value.clone().unwrap_or("x".into()).into_owned();
                sent.lines.push((name.clone().into_owned(), value));
            }
            Condition::ContentType(media) => {
                sent.lines
                    .push(("content-type".to_owned(), media.clone().into_owned()));
            }
            _ => {}
        }
        if let Some(pointer) = &rule.resource {
            put(&mut body, pointer, "existing-1".to_owned());
        }
        if !body.is_null() {
            sent.body = body.to_string();
        }
        sent
    }
}

/// Writes a value at a JSON pointer, with whatever is missing on the way.
fn put(value: &mut Value, pointer: &str, text: String) {
    let mut place = value;
    for token in pointer.split('/').skip(1) {
        place = match token {
            "0" => {
                if !place.is_array() {
                    *place = json!([null]);
                }
                &mut place[0]
            }
            name => &mut place[name],
        };
    }
    *place = text.into();
}

/// The rules that are the contract's own, with this meaning.
pub(super) fn own(contract: &Contract, meaning: Meaning) -> Option<Sent> {
    let common = Contract::generic();
    let rules = contract.answers().iter();
    let mut own = rules.filter(|rule| rule.means == meaning && !common.answers().contains(rule));
    let sent = Sent::of(own.next()?);
    let lines: Vec<_> = sent
        .lines
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    let status = StatusCode::from_u16(sent.status).unwrap();
    let read = contract.read(status, &headers(&lines), sent.body.as_bytes());
    assert_eq!(read.meaning, meaning, "{}: {sent:?}", contract.name());
    Some(sent)
}

/// The line with which a server of this contract marks a replay.
fn marker(contract: &Contract) -> Option<(String, String)> {
    let rule = contract
        .markers()
        .iter()
        .find(|rule| !matches!(rule, MarkerRule::Echo { .. }));
    match rule.filter(|_| contract.marks_replays())? {
        MarkerRule::Flag { header } => Some((header.to_string(), "true".to_owned())),
        MarkerRule::Words {
            header, replayed, ..
        } => Some((header.to_string(), replayed[0].to_string())),
        MarkerRule::Presence { header } => Some((header.to_string(), "1730000000000".to_owned())),
        other => panic!("{other:?}"),
    }
}

/// Where the key is in a request, by the contract.
pub(super) fn key_in(contract: &Contract, arrival: &Arrival) -> String {
    let body = String::from_utf8(arrival.body.clone()).unwrap();
    let field = |text: &str, name: &str| {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        let found: Vec<_> = pairs
            .filter(|(field, _)| *field == name)
            .map(|(_, value)| value.to_owned())
            .collect();
        assert_eq!(found.len(), 1, "{text}");
        found[0].clone()
    };
    match contract.carrier() {
        Carrier::Header(name) => {
            let lines = header_lines(arrival, name.as_str());
            assert_eq!(lines.len(), 1, "{arrival}");
            lines[0].trim_matches('"').to_owned()
        }
        Carrier::JsonPointer(pointer) => {
            let body: Value = serde_json::from_str(&body).unwrap();
            body.pointer(pointer).unwrap().as_str().unwrap().to_owned()
        }
        Carrier::FormField(name) => field(&body, name),
        Carrier::QueryParameter(name) => field(arrival.target.split_once('?').unwrap().1, name),
        other => panic!("{other:?}"),
    }
}

/// What becomes of a first request under a key.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum First {
    /// It is done, and the answer is lost.
    Lost,
    /// It is being done while the next two requests come; its answer is lost.
    Running,
    /// It fails with a 500.
    Fails,
}

/// What the server knows: claims and answers by key, and how often it did the operation.
#[derive(Default)]
pub(super) struct Store {
    records: HashMap<String, Record>,
    pub(super) executed: usize,
}

struct Record {
    request: Vec<u8>,
    /// How many requests still find it running.
    running: u32,
    /// [`None`] after a failure that left nothing.
    answer: Option<Sent>,
    burned: bool,
}

/// A server that keeps to the contract.
pub(super) fn server(contract: &Contract, first: First) -> (ScriptedServer, Arc<Mutex<Store>>) {
    let store = Arc::<Mutex<Store>>::default();
    let (shared, contract) = (store.clone(), contract.clone());
    let server = ScriptedServer::answering(move |arrival| {
        let key = key_in(&contract, arrival);
        answer(&contract, first, &mut shared.lock().unwrap(), key, arrival)
    });
    (server, store)
}

fn answer(
    contract: &Contract,
    first: First,
    store: &mut Store,
    key: String,
    arrival: &Arrival,
) -> Step {
    let request = [arrival.target.as_bytes(), &arrival.body].concat();
    let done = Sent::new(201, r#"{"id":"existing-1"}"#);
    let Some(record) = store.records.get_mut(&key) else {
        let failed = first == First::Fails;
        let answer = match (failed, contract.failures()) {
            (false, _) => Some(done),
            (true, FailureStorage::Everything) => Some(Sent::new(500, "{}")),
            (true, _) => None,
        };
        // A failed first run leaves no effect, unless its failure is what is stored for ever.
        store.executed += usize::from(answer.is_some());
        let record = Record {
            request,
            running: if first == First::Running { 2 } else { 0 },
            answer,
            burned: failed && contract.failures() == FailureStorage::KeyBurned,
        };
        store.records.insert(key, record);
        return if failed {
            Step::reply(500, &[], "{}")
        } else {
            Step::read_then_close()
        };
    };
    if record.request != request && contract.mismatch() != MismatchDetection::NotDetected {
        let refused = own(contract, Meaning::Mismatch);
        return refused.unwrap_or_else(|| Sent::new(422, "{}")).step();
    }
    if record.running > 0 {
        record.running -= 1;
        let busy = own(contract, Meaning::InProgress);
        return busy.unwrap_or_else(|| Sent::new(409, "{}")).step();
    }
    if record.burned {
        return own(contract, Meaning::KeyUnusable).unwrap().step();
    }
    let Some(answer) = &mut record.answer else {
        // After a failure the same key runs the operation again.
        record.answer = Some(done.clone());
        store.executed += 1;
        return done.step();
    };
    if let Some(refused) = own(contract, Meaning::AlreadyDone) {
        return refused.step();
    }
    let mut replay = answer.clone();
    replay.lines.extend(marker(contract));
    replay.step()
}
