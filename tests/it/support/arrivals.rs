//! What a server saw, and assertions about it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::wire::{Arrival, header_lines};

/// The requests and connections of one server, in order. Clones share the record.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    record: Arc<Record>,
}

#[derive(Debug)]
struct Record {
    requests: Mutex<Vec<Arrival>>,
    connections: AtomicUsize,
    hits: watch::Sender<usize>,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Self {
            record: Arc::new(Record {
                requests: Mutex::default(),
                connections: AtomicUsize::new(0),
                hits: watch::Sender::new(0),
            }),
        }
    }

    /// Counts a connection and numbers it.
    pub(super) fn accept(&self) -> usize {
        self.record.connections.fetch_add(1, Ordering::SeqCst)
    }

    /// Records a request whose head has been read; returns its index.
    pub(super) fn begin(&self, arrival: Arrival) -> usize {
        let index = {
            let mut requests = self.record.requests.lock().unwrap();
            requests.push(arrival);
            requests.len() - 1
        };
        self.record.hits.send_modify(|hits| *hits += 1);
        index
    }

    /// Adds the body that was read; returns the request as recorded.
    pub(super) fn finish(&self, index: usize, body: Vec<u8>, complete: bool) -> Arrival {
        let mut requests = self.record.requests.lock().unwrap();
        let arrival = &mut requests[index];
        arrival.body = body;
        arrival.complete = complete;
        arrival.clone()
    }

    /// Requests whose head was read. One that a step closed unread shows only in [`connections`](Self::connections).
    pub(crate) fn hits(&self) -> usize {
        self.record.requests.lock().unwrap().len()
    }

    /// Waits until at least `hits` requests have been seen.
    pub(crate) async fn until_hits(&self, hits: usize) {
        let mut seen = self.record.hits.subscribe();
        seen.wait_for(|seen| *seen >= hits).await.unwrap();
    }

    /// Connections that were accepted.
    pub(crate) fn connections(&self) -> usize {
        self.record.connections.load(Ordering::SeqCst)
    }

    /// All requests.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.record.requests.lock().unwrap().clone()
    }

    /// Every request's `Idempotency-Key` lines: no line is an empty list.
    pub(crate) fn keys(&self) -> Vec<Vec<String>> {
        let owned = |arrival: &Arrival| {
            let lines = header_lines(arrival, "idempotency-key");
            lines.into_iter().map(str::to_owned).collect()
        };
        self.arrivals().iter().map(owned).collect()
    }

    /// Every request's body.
    pub(crate) fn bodies(&self) -> Vec<Vec<u8>> {
        self.arrivals().into_iter().map(|hit| hit.body).collect()
    }

    /// Asserts how many requests came.
    ///
    /// # Panics
    ///
    /// With a readable list of the requests.
    #[track_caller]
    pub(crate) fn assert_hits(&self, expected: usize) {
        let hits = self.hits();
        assert!(hits == expected, "{hits} hits, expected {expected}{self}");
    }

    /// Asserts that the requests are `hits` attempts of one operation: one key line each, and the same key, method,
    /// target and body. Returns the key.
    ///
    /// # Panics
    ///
    /// With a readable list of the requests.
    #[track_caller]
    pub(crate) fn assert_one_operation(&self, hits: usize) -> String {
        self.assert_hits(hits);
        let targets = self.arrivals().into_iter().map(|arrival| arrival.target);
        let targets: BTreeSet<_> = targets.collect();
        assert!(targets.len() == 1, "not one target{self}");
        self.assert_one_operation_but_for_targets()
    }

    /// The same for requests of which a server sent some on to other targets of its own.
    ///
    /// # Panics
    ///
    /// With a readable list of the requests.
    #[track_caller]
    pub(crate) fn assert_one_operation_but_for_targets(&self) -> String {
        let arrivals = self.arrivals();
        let first = arrivals.first().expect("an operation has an attempt");
        let keys = header_lines(first, "idempotency-key");
        assert!(keys.len() == 1, "not exactly one key line{self}");
        for other in &arrivals {
            let same = header_lines(other, "idempotency-key") == keys
                && other.method == first.method
                && other.body == first.body;
            assert!(same, "not one operation{self}");
        }
        keys[0].to_owned()
    }
}

/// The readable list that failed assertions print.
impl std::fmt::Display for Arrivals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut list = String::new();
        for (number, arrival) in self.arrivals().iter().enumerate() {
            write!(list, "\n  {number}: {arrival}")?;
        }
        let none = if list.is_empty() { " none" } else { "" };
        write!(
            f,
            "\n{} connections, requests:{none}{list}",
            self.connections()
        )
    }
}
