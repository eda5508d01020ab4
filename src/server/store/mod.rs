//! Where claims and answers are kept, and the laws that a store keeps.
//!
//! A [`Store`] holds one row for each [`Slot`], which is the key together with its owner. A row is
//! *running* (somebody holds a claim on it) or *completed* (an answer is kept). The laws, each of
//! which the suite in `testing::laws` checks on any store:
//!
//! 1. **One claim.** Of any number of claims on a free slot, at the same time or one after the
//!    other, one is told [`Claimed::Owned`].
//! 2. **A claim knows its owner.** A claim repeated with the same [`OwnerToken`], because the
//!    acknowledgement of the first was lost, is [`Claimed::Owned`] again and not a rival.
//! 3. **The request comes first.** Another fingerprint is [`Claimed::Mismatch`], whether the slot is
//!    running or completed. Without a fingerprint on either side nothing is compared.
//! 4. **Leases end, and not before their time.** Until the lease has passed since the last claim or
//!    heartbeat a rival is told [`Claimed::Running`]. After it the rival takes over and its run
//!    number is one higher, or is told [`Claimed::Abandoned`], as its [`Terms`] say.
//! 5. **A late owner changes nothing.** Once another owner has taken over, or the slot was freed,
//!    heartbeat, complete and release of the old owner are [`Ownership::Lost`] and leave no trace.
//! 6. **Completed is completed.** A completed slot answers every claim with the same bytes, status
//!    and headers, in any process. It cannot be released, and completing it again, by its owner
//!    whose acknowledgement was lost, is [`Ownership::Held`] and changes nothing.
//! 7. **Released is free.** After release the slot is as if it had never been claimed.
//! 8. **Answers end on a clock of their own.** When `keep` has passed since completion the slot is
//!    free, for any fingerprint, whether or not it was swept.
//! 9. **Sweeping removes what has ended** and nothing else, and no more than it was allowed to.
//!    What runs under a live lease is never removed, by sweeping or for want of space.
//! 10. **Scopes do not meet.** The same key under two scopes is two slots.

mod claim;
mod error;
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
mod record;

use std::num::NonZeroU32;
use std::sync::Arc;

use async_trait::async_trait;

pub use claim::{Claim, Claimed, OnLeaseExpired, OwnerToken, Ownership, Slot, Terms};
pub use error::StoreError;
pub use record::Record;

/// A place for claims and answers.
///
/// The [laws](self) say what each method promises. Every method may fail without saying whether it
/// took effect: the layer repeats it with the same claim, and the store recognises it.
///
/// ```
/// use std::num::NonZeroU32;
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use idempotency::server::store::{Claim, Claimed, Ownership, Record, Store, StoreError};
///
/// /// Counts the claims of another store.
/// struct Counting<S>(S, std::sync::atomic::AtomicU32);
///
/// #[async_trait]
/// impl<S: Store> Store for Counting<S> {
///     async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
///         self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
///         self.0.claim(claim).await
///     }
///     async fn heartbeat(&self, claim: &Claim) -> Result<Ownership, StoreError> {
///         self.0.heartbeat(claim).await
///     }
///     async fn complete(&self, claim: &Claim, record: &Record) -> Result<Ownership, StoreError> {
///         self.0.complete(claim, record).await
///     }
///     async fn release(&self, claim: &Claim) -> Result<Ownership, StoreError> {
///         self.0.release(claim).await
///     }
///     async fn sweep(&self, limit: NonZeroU32) -> Result<u32, StoreError> {
///         self.0.sweep(limit).await
///     }
/// }
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store of claims and answers",
    note = "use `MemoryStore` or `PostgresStore`, or implement `Store` and run the laws in `testing::laws` on it"
)]
pub trait Store: Send + Sync + 'static {
    /// Takes the slot for the claim's owner, or says what is there. One atomic step.
    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError>;

    /// Renews the owner's lease: it ends one lease from now.
    async fn heartbeat(&self, claim: &Claim) -> Result<Ownership, StoreError>;

    /// Keeps the answer, from now on for as long as the claim's terms say.
    async fn complete(&self, claim: &Claim, record: &Record) -> Result<Ownership, StoreError>;

    /// Frees the slot: nothing happened under this claim.
    async fn release(&self, claim: &Claim) -> Result<Ownership, StoreError>;

    /// Removes up to `limit` rows whose time has passed, and says how many. As many as `limit`
    /// means that there may be more.
    async fn sweep(&self, limit: NonZeroU32) -> Result<u32, StoreError>;
}

#[async_trait]
impl<S: Store + ?Sized> Store for Arc<S> {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        (**self).claim(claim).await
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Ownership, StoreError> {
        (**self).heartbeat(claim).await
    }

    async fn complete(&self, claim: &Claim, record: &Record) -> Result<Ownership, StoreError> {
        (**self).complete(claim, record).await
    }

    async fn release(&self, claim: &Claim) -> Result<Ownership, StoreError> {
        (**self).release(claim).await
    }

    async fn sweep(&self, limit: NonZeroU32) -> Result<u32, StoreError> {
        (**self).sweep(limit).await
    }
}
