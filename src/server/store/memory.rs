//! A store in the memory of one process.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{
    Claim, Claimed, OnLeaseExpired, OwnerToken, Ownership, Record, Slot, Store, StoreError,
};
use crate::contract::Fingerprint;

/// Claims and answers in the memory of **one process**: for tests, and for services that run as a
/// single process and may forget everything when it ends.
///
/// ```
/// use idempotency::server::{IdempotencyLayer, MemoryStore, Scope};
///
/// let layer = IdempotencyLayer::new(MemoryStore::new(), Scope::global());
/// ```
///
/// **Two of them protect nothing from each other.** A retry that reaches another replica, or the
/// same one after a restart, finds no claim and runs the operation again. Within a process make one
/// and share it ([`Arc<MemoryStore>`](std::sync::Arc) is a store too): a new one for each route or
/// each `Router` is a new memory. Services with several processes take a shared store such as
/// `PostgresStore`.
///
/// It is bounded: beyond 10 000 rows or 64 MiB of answers ([`bounded`](Self::bounded) sets other
/// limits) the oldest answers are dropped before their time. What is running is never dropped; when
/// there is nothing else left, claims fail and the layer answers 503.
///
/// Times are tokio's, so a paused clock moves it.
pub struct MemoryStore {
    rows: Mutex<Rows>,
    max_rows: usize,
    max_bytes: usize,
}

#[derive(Default)]
struct Rows {
    rows: HashMap<Slot, Row>,
    /// The completed rows, oldest first.
    answered: BTreeMap<u64, Slot>,
    bytes: usize,
    next: u64,
}

struct Row {
    owner: OwnerToken,
    fingerprint: Option<Fingerprint>,
    run: u32,
    ends: Instant,
    state: State,
}

enum State {
    Running { lease_ends: Instant },
    Completed { record: Record, place: u64 },
}

/// There is no room for another claim.
#[derive(Debug, thiserror::Error)]
#[error("the memory store is full of running operations")]
struct Full;

impl MemoryStore {
    /// A store of up to 10 000 rows and 64 MiB of answers.
    #[must_use]
    pub fn new() -> Self {
        Self::bounded(10_000, 64 * 1024 * 1024)
    }

    /// A store with other limits. An answer larger than `bytes` is remembered without its body.
    #[must_use]
    pub fn bounded(rows: usize, bytes: usize) -> Self {
        Self {
            rows: Mutex::default(),
            max_rows: rows.max(1),
            max_bytes: bytes,
        }
    }

    /// The number of rows, running and completed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().rows.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        // Nothing in here panics between two changes that belong together.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.lock();
        f.debug_struct("MemoryStore")
            .field("rows", &rows.rows.len())
            .field("bytes", &rows.bytes)
            .finish_non_exhaustive()
    }
}

impl Rows {
    fn remove(&mut self, slot: &Slot) {
        if let Some(row) = self.rows.remove(slot)
            && let State::Completed { record, place } = row.state
        {
            self.bytes -= record.size();
            self.answered.remove(&place);
        }
    }

    fn remove_oldest_answer(&mut self) -> bool {
        let Some((_, slot)) = self.answered.first_key_value() else {
            return false;
        };
        let slot = slot.clone();
        self.remove(&slot);
        true
    }

    fn sweep(&mut self, limit: usize, now: Instant) -> usize {
        let ended: Vec<_> = self
            .rows
            .iter()
            .filter(|(_, row)| row.ends <= now)
            .map(|(slot, _)| slot.clone())
            .take(limit)
            .collect();
        for slot in &ended {
            self.remove(slot);
        }
        ended.len()
    }

    /// The row that this claim still owns and has not completed.
    fn held(&mut self, claim: &Claim) -> Option<&mut Row> {
        self.rows
            .get_mut(&claim.slot)
            .filter(|row| row.owner == claim.owner && matches!(row.state, State::Running { .. }))
    }
}

/// A time so far away that it cannot be said is a time that does not come.
fn after(now: Instant, duration: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    now + duration.min(FAR)
}

fn running(claim: &Claim, now: Instant) -> (State, Instant) {
    let lease_ends = after(now, claim.terms.lease);
    let ends = after(lease_ends, claim.terms.keep);
    (State::Running { lease_ends }, ends)
}

#[async_trait]
impl Store for MemoryStore {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let now = Instant::now();
        let mut rows = self.lock();
        if rows
            .rows
            .get(&claim.slot)
            .is_some_and(|row| row.ends <= now)
        {
            rows.remove(&claim.slot);
        }
        let Some(row) = rows.rows.get_mut(&claim.slot) else {
            while rows.rows.len() >= self.max_rows {
                if !rows.remove_oldest_answer() && rows.sweep(usize::MAX, now) == 0 {
                    return Err(StoreError::new(Full));
                }
            }
            let (state, ends) = running(claim, now);
            let row = Row {
                owner: claim.owner,
                fingerprint: claim.fingerprint,
                run: 1,
                ends,
                state,
            };
            rows.rows.insert(claim.slot.clone(), row);
            return Ok(Claimed::Owned { run: 1 });
        };
        if let (Some(theirs), Some(ours)) = (row.fingerprint, claim.fingerprint)
            && theirs != ours
        {
            return Ok(Claimed::Mismatch);
        }
        let lease_ends = match &row.state {
            State::Completed { record, .. } => return Ok(Claimed::Completed(record.clone())),
            State::Running { lease_ends } => *lease_ends,
        };
        if row.owner != claim.owner {
            if lease_ends > now {
                return Ok(Claimed::Running);
            }
            if claim.terms.on_expired == OnLeaseExpired::Block {
                return Ok(Claimed::Abandoned);
            }
            row.owner = claim.owner;
            row.run += 1;
        }
        (row.state, row.ends) = running(claim, now);
        Ok(Claimed::Owned { run: row.run })
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Ownership, StoreError> {
        let mut rows = self.lock();
        let Some(row) = rows.held(claim) else {
            return Ok(Ownership::Lost);
        };
        (row.state, row.ends) = running(claim, Instant::now());
        Ok(Ownership::Held)
    }

    async fn complete(&self, claim: &Claim, record: &Record) -> Result<Ownership, StoreError> {
        let mut rows = self.lock();
        let place = rows.next;
        let Some(row) = rows.held(claim) else {
            let row = rows.rows.get(&claim.slot);
            return Ok(match row.is_some_and(|row| row.owner == claim.owner) {
                true => Ownership::Held,
                false => Ownership::Lost,
            });
        };
        let mut record = record.clone();
        if record.size() > self.max_bytes {
            record.body = None;
        }
        let size = record.size();
        row.state = State::Completed { record, place };
        row.ends = after(Instant::now(), claim.terms.keep);
        rows.next += 1;
        rows.bytes += size;
        rows.answered.insert(place, claim.slot.clone());
        while rows.bytes > self.max_bytes && rows.answered.len() > 1 {
            rows.remove_oldest_answer();
        }
        Ok(Ownership::Held)
    }

    async fn release(&self, claim: &Claim) -> Result<Ownership, StoreError> {
        let mut rows = self.lock();
        if rows.held(claim).is_none() {
            return Ok(Ownership::Lost);
        }
        rows.remove(&claim.slot);
        Ok(Ownership::Held)
    }

    async fn sweep(&self, limit: NonZeroU32) -> Result<u32, StoreError> {
        let limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let removed = self.lock().sweep(limit, Instant::now());
        Ok(u32::try_from(removed).unwrap_or(u32::MAX))
    }
}
