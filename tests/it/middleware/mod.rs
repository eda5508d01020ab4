//! Our middleware in other people's stacks, and other people's middlewares in our clients.

mod answer_bodies;
mod equality;
mod extensions;
mod keys;
mod layers;
mod second_calls;
mod transparent;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Extensions;
use idempotency::{Client, ClientBuilder, Error, IdempotencyMiddleware, RetryPolicy};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientWithMiddleware, Middleware, Next};

type Answer<'a> = Pin<Box<dyn Future<Output = reqwest_middleware::Result<Response>> + Send + 'a>>;

/// A middleware from a closure.
fn layer(
    handle: impl for<'a> Fn(Request, &'a mut Extensions, Next<'a>) -> Answer<'a> + Send + Sync + 'static,
) -> impl Middleware {
    handle
}

/// A middleware that counts how often it runs.
fn counting(count: &Arc<AtomicUsize>) -> impl Middleware {
    let count = Arc::clone(count);
    layer(move |request, extensions, next| {
        count.fetch_add(1, Ordering::SeqCst);
        next.run(request, extensions)
    })
}

fn count(count: &Arc<AtomicUsize>) -> usize {
    count.load(Ordering::SeqCst)
}

/// Somebody else's stack, whose client carries our redirect policy.
fn stack() -> reqwest_middleware::ClientBuilder {
    let http = reqwest::Client::builder()
        .no_proxy()
        .redirect(idempotency::redirect_policy())
        .retry(reqwest::retry::never().max_retries_per_request(0))
        .build()
        .unwrap();
    reqwest_middleware::ClientBuilder::new(http)
}

/// Our middleware, so many attempts without waiting.
fn ours(attempts: u32) -> IdempotencyMiddleware {
    IdempotencyMiddleware::new()
        .policy(RetryPolicy::immediate(attempts))
        .trust_redirects()
}

/// Somebody else's client with nothing but our middleware.
fn foreign(attempts: u32) -> ClientWithMiddleware {
    stack().with(ours(attempts)).build()
}

/// A client of ours to be, so many attempts without waiting.
fn builder(attempts: u32) -> ClientBuilder {
    Client::builder()
        .reqwest(Client::reqwest_defaults().no_proxy())
        .policy(RetryPolicy::immediate(attempts))
}

/// Our error out of the stack's.
#[track_caller]
fn our_error(error: &reqwest_middleware::Error) -> &Error {
    match Error::from_middleware(error) {
        Some(error) => error,
        None => panic!("no error of ours: {error:?}"),
    }
}
