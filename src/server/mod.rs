#![doc = include_str!("../docs/server.md")]

mod body;
mod heartbeat;
mod in_flight;
mod key_from;
mod layer;
mod observe;
mod operation;
mod outcome;
mod panics;
mod patience;
mod policy;
mod rejection;
mod run;
mod scope;
mod service;
pub mod store;
mod sweeper;
#[cfg(feature = "postgres")]
mod transactional;
#[cfg(feature = "postgres")]
mod tx;

pub use in_flight::InFlight;
pub use key_from::KeyFrom;
pub use layer::IdempotencyLayer;
pub use operation::{NoOperation, Operation};
pub use outcome::{Final, NothingHappened};
pub use policy::{KeyRule, OnFailure, OnStoreFailure};
pub use rejection::{REPLAYED, UNPROTECTED};
pub use scope::{Scope, ScopeId};
pub use service::IdempotencyService;
pub use store::memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use store::postgres::PostgresStore;
pub use store::{OnLeaseExpired, Store};
pub use sweeper::Sweeper;
#[cfg(feature = "postgres")]
pub use tx::{NoTransaction, Tx};
