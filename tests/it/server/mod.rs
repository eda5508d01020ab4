//! The server half: claim, run, record, replay.

mod answers;
mod app;
mod bed;
#[cfg(feature = "postgres")]
mod cluster;
#[cfg(feature = "postgres")]
mod cut_connections;
#[cfg(feature = "postgres")]
mod database;
mod disconnects;
mod downstream;
mod examples;
mod failures;
mod keys;
mod leases;
#[cfg(feature = "postgres")]
mod ledger;
#[cfg(feature = "postgres")]
mod lent_transactions;
mod observed;
mod one_run;
#[cfg(feature = "postgres")]
mod one_transaction;
mod outages;
#[cfg(feature = "postgres")]
mod postgres_store;
#[cfg(feature = "postgres")]
mod process;
#[cfg(feature = "postgres")]
mod processes;
mod requests;
mod store_laws;
mod sweeping;
#[cfg(feature = "postgres")]
mod transaction_rivals;
mod types;
mod webhooks;
