//! Safe automatic retries for HTTP operations that must not happen twice.

pub mod contract;
pub mod retry;

mod client;

pub use client::{
    Attempt, Client, ClientBuilder, Effect, Endpoint, Error, ErrorKind, IdempotencyMiddleware,
    IdempotentRequest, IntoUrl, Pending, Report, RequestBuilder, RequestBuilderExt, Response,
    redirect_policy,
};
pub use contract::{Contract, IdempotencyKey, KeyNamespace, KeySource, Replay};
pub use retry::{Backoff, RetryBudget, RetryConfig, RetryPolicy, StoppedBy};
