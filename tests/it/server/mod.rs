//! The server half: claim, run, record, replay.

mod answers;
mod app;
mod bed;
#[cfg(feature = "postgres")]
mod cluster;
#[cfg(feature = "postgres")]
mod database;
mod disconnects;
mod downstream;
mod failures;
mod keys;
mod leases;
mod observed;
mod one_run;
mod outages;
mod requests;
mod store_laws;
mod sweeping;
mod webhooks;
