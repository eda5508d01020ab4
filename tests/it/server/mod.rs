//! The server half: claim, run, record, replay.

mod bed;
#[cfg(feature = "postgres")]
mod cluster;
#[cfg(feature = "postgres")]
mod database;
mod store_laws;
