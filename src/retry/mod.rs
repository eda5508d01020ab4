//! The retry decision as pure values: facts and elapsed time in, a decision out.
//!
//! Nothing here sends, sleeps, reads a clock or draws a random number. The loop that does (there is one, in the client) hands
//! in what it saw and how long it has been at it, and does what it is told. That is why every rule below can be read as a table
//! and is tested as one.
//!
//! The way through it:
//!
//! 1. [`assess`] says what one attempt meant: an [`Outcome`] under a [`Protection`] becomes an [`Assessment`], which holds the
//!    [`Verdict`] and how far the request got ([`Reach`]).
//! 2. [`decide`] weighs that against the [`RetryPolicy`] and the [`Situation`]: finish, wait so long, or give up because of
//!    one named limit ([`StoppedBy`]).
//!
//! # The gate
//!
//! A POST or PATCH without a key is repeated only when it certainly was not processed. The gate sits in [`assess`], before any
//! policy is looked at, so no policy, hint or contract can lift it (RFC 9110, section 9.2.2).

mod account;
mod accounts;
mod assess;
mod backoff;
mod budget;
mod config;
mod decision;
mod failure;
mod policy;
mod reason;
mod verdict;

pub use assess::assess;
pub use backoff::{Backoff, Delays};
pub use budget::{Origin, RetryBudget};
pub use config::{BackoffConfig, BudgetConfig, InProgressConfig, RetryConfig};
pub use decision::{Decision, Situation, decide};
pub use failure::{Failure, Reach};
pub use policy::{PolicyError, RetryPolicy, RetryPolicyBuilder};
pub use reason::{StoppedBy, WaitReason};
pub use verdict::{Answer, Assessment, Outcome, Protection, Verdict};
