//! The ways into the loop.

use http::Extensions;
use idempotency::{Client, ClientBuilder, RetryPolicy};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next};

/// How a client reaches the loop. What it promises does not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Straight over reqwest.
    Straight,
    /// Through a chain of middlewares, one before the loop and one after it.
    Chain,
}

impl Way {
    /// All of them.
    pub(crate) const ALL: [Self; 2] = [Self::Straight, Self::Chain];

    /// A client with this policy.
    pub(crate) fn client(self, policy: RetryPolicy) -> Client {
        self.build(Client::builder().policy(policy))
    }

    /// The client that this builder builds.
    pub(crate) fn build(self, builder: ClientBuilder) -> Client {
        let builder = match self {
            Self::Straight => builder,
            Self::Chain => builder.operation_middleware(Pass).attempt_middleware(Pass),
        };
        builder.build().unwrap()
    }
}

/// A middleware that does nothing but be there.
struct Pass;

#[async_trait::async_trait]
impl Middleware for Pass {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        next.run(request, extensions).await
    }
}
