//! Clients and operations as most tests need them, and when their requests arrived.

use std::time::Duration;

use idempotency::{Backoff, Client, IdempotentRequest, RetryPolicy, retry};

use super::arrivals::Arrivals;
use super::wire::Arrival;

/// The wait before every retry under [`steady`].
pub(crate) const PAUSE: Duration = ms(100);

/// Milliseconds.
pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Seconds.
pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// The standard policy with a backoff of exactly [`PAUSE`].
pub(crate) fn steady() -> retry::RetryPolicyBuilder {
    RetryPolicy::builder().backoff(Backoff::constant(PAUSE))
}

/// A client under a policy.
pub(crate) fn client(policy: &RetryPolicy) -> Client {
    Client::builder().policy(policy.clone()).build().unwrap()
}

/// A client under the plain [`steady`] policy.
pub(crate) fn steady_client() -> Client {
    client(&steady().build().unwrap())
}

/// A keyed POST.
pub(crate) fn payment(client: &Client, url: String) -> IdempotentRequest {
    client.post(url).body("amount=100").idempotent()
}

/// When the requests came, in milliseconds after the first.
pub(crate) fn hits_at(server: &Arrivals) -> Vec<u128> {
    let arrivals = server.arrivals();
    let first = arrivals.first().map(|arrival| arrival.at);
    let since = |arrival: &Arrival| (arrival.at - first.unwrap_or(arrival.at)).as_millis();
    arrivals.iter().map(since).collect()
}
