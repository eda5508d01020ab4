//! Safe automatic retries for HTTP operations that must not happen twice.
//!
//! ```no_run
//! # async fn pay() -> Result<(), Box<dyn std::error::Error>> {
//! let client = idempotency::Client::builder().build()?;
//! let paid = client
//!     .post("https://api.example.com/payments")
//!     .body("amount=100")
//!     .idempotent()
//!     .send()
//!     .await?;
//! if paid.is_replay() {
//!     println!("an earlier attempt had made the payment; this is its answer");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # The lost answer
//!
//! A request goes out, the connection breaks, and no answer comes. Either the request never arrived, or it arrived, the card was
//! charged, and the answer was lost on the way back. From the client's side the two look the same. Not retrying loses payments;
//! retrying makes some of them twice. No timeout and no number of attempts gets out of this: what is missing is not patience but
//! a name.
//!
//! So the client gives the operation a name, the **idempotency key**, and sends it along with every attempt. A server that keeps
//! the contract stores its answer under that name. When the name comes again it says the same answer once more and does nothing.
//! Then a retry is always safe, and the only way left to do it twice is to use two names.
//!
//! That is where programs go wrong, and what this crate is built around: **the key belongs to the operation, not to the attempt.**
//! [`idempotent`](RequestBuilder::idempotent) draws it once and returns the operation as a value ([`IdempotentRequest`]) with method,
//! URL, headers, body and key fixed. Whatever happens afterwards, an automatic retry, a second `send`, a dropped future, a restart
//! in between ([`Pending`]), it is the same operation with the same key.
//!
//! # The life of a key
//!
//! 1. **Drawn** by `idempotent()`, before anything is sent, and readable then ([`IdempotentRequest::key`]). Or brought along, saved or
//!    derived ([`idempotent_with`](RequestBuilder::idempotent_with)).
//! 2. **Sent** with every attempt, to the byte the same. The loop repeats what may be repeated, obeys the server's `Retry-After`, and
//!    waits where the server says that the operation is still running.
//! 3. **Answered**: `Ok`. The operation is over, whatever the status; the key is spent.
//! 4. Or **not answered**: `Err`. If nothing was executed the key is as good as unused. If that is unknown, the operation has to be
//!    taken up again with this key, or looked up.
//! 5. **Forgotten** by the server, after its window ([`contract::Window`]). From then on the key protects from nothing, and the loop
//!    refuses to send it.
//!
//! # What is certain, and what is not
//!
//! The crate never guesses. Where it does not know, it says so:
//!
//! - `Ok` from an operation with a key is the server's final answer. `Err` carries an [`Effect`]: proven not executed, or unknown.
//! - A [`Replay`] is fresh, replayed or unknown. A missing marker proves nothing.
//! - A POST or PATCH without a key is repeated only when it certainly was not processed: never sent, refused by HTTP/2, or 425. Nothing
//!   can lift this.
//! - Every attempt is in the report ([`Report`]): how it ended, how far it got, how long the loop waited and who asked for that.
//!
//! What the client cannot know is whether the server keeps its side. A server that ignores the key executes every attempt, and no client
//! can see that.
//!
//! # Where to go on
//!
//! | question | page |
//! |---|---|
//! | What do I save, and when may I draw a new key? | [`guide::keys`] |
//! | My provider's header, window and errors | [`guide::contracts`] |
//! | What is retried, how often, how long? | [`guide::retries`] |
//! | What do `Ok`, `Err` and a replay mean? | [`guide::answers`] |
//! | How do I test code that uses this? | [`guide::testing`] |
//! | I have a `reqwest-middleware` stack already | [`IdempotencyMiddleware`] |
//! | I write the server | `server`, with the feature of that name |
//! | The wire vocabulary, without a client | [`contract`] |
//! | The retry decision, without a socket | [`retry`] |
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `json` | yes | `RequestBuilder::json`, `Response::json` |
//! | `form` | yes | `RequestBuilder::form` |
//! | `query` | yes | `RequestBuilder::query` |
//! | `rustls` | yes | TLS by rustls; a refused certificate is told apart and final |
//! | `http2` | yes | HTTP/2; refused streams and GOAWAY are told apart, so that they can be retried without a key |
//! | `native-tls` | no | TLS by the platform's library, which hides why a handshake failed: it is retried, within the limits. Unused where `rustls` is on, unless you ask reqwest for it |
//! | `multipart` | no | `RequestBuilder::multipart` |
//! | `testing` | no | the test kit: a server that keeps the contract and judges its client, faults on the wire, a probe for servers |
//! | `server` | no | the other side of the contract: a layer for axum, and a store in memory |
//! | `postgres` | no | the server's store on PostgreSQL, and one transaction for the work and its record |
//! | `backoff` | no | accepts values of the unmaintained `backoff` crate (RUSTSEC-2025-0012) |
//!
//! # What it does not do
//!
//! - **No exactly-once by itself.** It takes a server that honours keys, such as one with the layer in `server`.
//! - **No retries of streams past a buffer.** A streamed request body above 2 MiB is sent once; of an answer above 2 MiB the rest cannot be
//!   brought back.
//! - **No storage.** A [`Pending`] can be serialized; where to keep it is yours to decide.
//! - **No background work.** Nothing happens while nobody polls the future of `send`.
//! - No hedged requests, no circuit breaker, no rate limiter, no blocking client.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod contract;
pub mod retry;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "testing")]
pub mod testing;

mod client;

pub use client::{
    Attempt, Client, ClientBuilder, Effect, Endpoint, Error, ErrorKind, IdempotencyMiddleware,
    IdempotentRequest, IntoUrl, OperationGuard, Pending, Report, RequestBuilder, RequestBuilderExt,
    Response, redirect_policy,
};
pub use contract::{Contract, IdempotencyKey, KeyNamespace, KeySource, Replay};
pub use retry::{Backoff, RetryBudget, RetryConfig, RetryPolicy, StoppedBy};

pub mod guide {
    //! The guide: how to use it, page by page.
    //!
    //! 1. [`keys`]: one for each operation, and where to save them.
    //! 2. [`contracts`]: what the server promises.
    //! 3. [`retries`]: what is sent again, when, and what ends it.
    //! 4. [`answers`]: what `Ok`, `Err` and a replay mean.
    //! 5. [`testing`]: your own code, with this crate in it.

    #[doc = include_str!("docs/keys.md")]
    pub mod keys {}
    #[doc = include_str!("docs/contracts.md")]
    pub mod contracts {}
    #[doc = include_str!("docs/retries.md")]
    pub mod retries {}
    #[doc = include_str!("docs/answers.md")]
    pub mod answers {}
    #[doc = include_str!("docs/testing.md")]
    pub mod testing {}
}

pub mod reexports {
    //! The crates whose types appear in this one's API, in the versions that it was built with.
    //!
    //! A library on top of this crate can name `idempotency::reexports::reqwest::Body` and need not keep a version of its own in step.
    //! A new major version of one of them is a new major version of this crate.

    #[cfg(feature = "backoff")]
    pub use backoff;
    #[cfg(feature = "postgres")]
    pub use sqlx;
    #[cfg(feature = "testing")]
    pub use wiremock;
    #[cfg(feature = "server")]
    pub use {async_trait, axum};
    pub use {bytes, http, reqwest, reqwest_middleware, uuid};
}

/// The README's examples are tested with the crate's.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
