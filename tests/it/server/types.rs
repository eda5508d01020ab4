//! What the types promise to other threads, and what they show of themselves.

use std::fmt::Debug;
use std::sync::Arc;

use idempotency::server::store::{Claim, Claimed, OwnerToken, Record, Slot, StoreError, Terms};
use idempotency::server::{
    Final, IdempotencyLayer, IdempotencyService, InFlight, KeyFrom, MemoryStore, NoOperation,
    NothingHappened, Operation, Scope, ScopeId, Store, Sweeper,
};

#[test]
fn everything_crosses_threads_and_shows_itself() {
    fn crosses<T: Send + Sync + Debug + 'static>() {}
    crosses::<IdempotencyLayer>();
    crosses::<IdempotencyLayer<MemoryStore>>();
    crosses::<IdempotencyService<()>>();
    crosses::<(
        Scope,
        ScopeId,
        KeyFrom,
        InFlight,
        Sweeper,
        Operation,
        NoOperation,
    )>();
    crosses::<(Final<()>, NothingHappened<()>, MemoryStore)>();
    crosses::<(Claim, Claimed, OwnerToken, Record, Slot, StoreError, Terms)>();
    #[cfg(feature = "postgres")]
    crosses::<(
        idempotency::server::PostgresStore,
        idempotency::server::NoTransaction,
    )>();
}

#[cfg(feature = "postgres")]
#[test]
fn a_transaction_can_be_handed_to_another_thread() {
    fn moves<T: Send + Debug + 'static>() {}
    moves::<idempotency::server::Tx>();
}

#[test]
fn a_shared_store_is_a_store() {
    fn is_store(_: &impl Store) {}
    let shared: Arc<dyn Store> = Arc::new(MemoryStore::new());
    is_store(&shared);
    is_store(&Arc::new(MemoryStore::new()));
}

#[test]
fn nothing_shows_a_key_or_a_body() {
    let slot = Slot {
        scope: ScopeId::of(["s3cret-tenant"]),
        key: "s3cret-key".parse().unwrap(),
    };
    let record = Record {
        status: http::StatusCode::OK,
        headers: [(http::header::ETAG, "s3cret-etag".parse().unwrap())]
            .into_iter()
            .collect(),
        body: Some("s3cret-body".into()),
    };
    let layer = IdempotencyLayer::new(MemoryStore::new(), Scope::credential());
    let shown = format!("{slot:?} {record:?} {layer:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("body: Some(11)"), "{shown}");
}
