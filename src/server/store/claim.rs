//! What a store is asked for, and what it answers.

use std::fmt;
use std::time::Duration;

use uuid::Uuid;

use super::Record;
use crate::contract::{Fingerprint, IdempotencyKey};
use crate::server::ScopeId;

/// One operation of one owner: the key, within its scope.
///
/// `Debug` shows the key's digest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Whose key it is.
    pub scope: ScopeId,
    /// The key.
    pub key: IdempotencyKey,
}

/// The name of one claim. Two claims never share it, so that a late owner is told from its
/// successor, and a repeated claim from a rival.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerToken(Uuid);

impl OwnerToken {
    /// Draws a new one.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// A token that was stored.
    #[must_use]
    pub const fn from_uuid(token: Uuid) -> Self {
        Self(token)
    }

    /// The value to store.
    #[must_use]
    pub const fn uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerToken({})", self.0)
    }
}

/// What happens to a running operation whose owner has stopped renewing its lease: it crashed, or
/// lost the store for longer than the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnLeaseExpired {
    /// The next request with this key runs the operation again. Effects that the dead owner had
    /// already caused happen twice, unless the handler passes its downstream key on, or works in
    /// the transaction of its record.
    #[default]
    Rerun,
    /// It is never run again: every request with this key is told, until the row is swept, that
    /// the outcome is unknown. Somebody has to look.
    Block,
}

/// The times that a claim asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long the claim holds without a heartbeat.
    pub lease: Duration,
    /// How long the answer is kept after completion; how long an abandoned claim is remembered
    /// after its lease.
    pub keep: Duration,
    /// What this claim does with a slot whose owner is gone.
    pub on_expired: OnLeaseExpired,
}

/// A claim on a slot. The same value goes into every call about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// What is claimed.
    pub slot: Slot,
    /// Who claims it.
    pub owner: OwnerToken,
    /// Which request the key belongs to. `None` where requests are not compared.
    pub fingerprint: Option<Fingerprint>,
    /// For how long.
    pub terms: Terms,
}

impl Claim {
    /// A claim of a new owner.
    #[must_use]
    pub fn new(slot: Slot, fingerprint: Option<Fingerprint>, terms: Terms) -> Self {
        Self {
            slot,
            owner: OwnerToken::random(),
            fingerprint,
            terms,
        }
    }
}

/// What a claim is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The slot is ours: run the operation.
    Owned {
        /// 1 for the first owner of the slot, one more for each that took over. A run above 1 may
        /// find effects of the runs before it.
        run: u32,
    },
    /// Another owner holds a live lease.
    Running,
    /// Another owner's lease has passed, and this claim's terms are [`OnLeaseExpired::Block`].
    Abandoned,
    /// The slot belongs to another request.
    Mismatch,
    /// The operation is done.
    Completed(Record),
}

/// Whether a claim is still the slot's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ownership {
    /// It is, and what was asked for is done.
    Held,
    /// It is not: somebody took over, or the slot was freed. Nothing was changed.
    Lost,
}
