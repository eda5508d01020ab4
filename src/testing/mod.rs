//! What users put into their own tests.

#[cfg(feature = "server")]
pub mod laws;
