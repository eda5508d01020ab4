//! What the tests share: servers that misbehave on purpose, and ways to look at what happened.
//!
//! Every server listens on loopback, on a port that the system chose, inside the runtime of the test: under a paused
//! clock it shares that clock. Nothing here sleeps for real, and nothing outlives the value that started it.
//!
//! | helper | for |
//! |---|---|
//! | [`ScriptedServer`] | HTTP/1.1 faults, byte by byte, one [`Step`] a request |
//! | [`H2Server`] | HTTP/2 refusals, resets and GOAWAY, one [`H2Step`] a stream |
//! | [`TlsServer`] | certificates and handshakes that fail, one [`Handshake`] a connection |
//! | [`Refused`] | an address at which nobody listens, or not yet |
//! | [`Arrivals`] | what a server saw, and assertions about it; every server derefs to it |
//! | [`Gate`] | holding an answer until the test says so |
//! | [`Captured`] | the tracing spans and events of a test |
//! | [`payment`], [`client`], [`steady`] | an operation, a client, and a policy without jitter |
//! | [`hits_at`] | when requests came |
//! | [`Tokens`] | a middleware that refreshes an access token |
//! | [`timed`] | how long something took on tokio's clock |
//! | [`Way`] | a client with and without middlewares round the loop |

mod arrivals;
mod calls;
mod clock;
mod gate;
mod h2_script;
mod h2_server;
mod http1;
mod refused;
mod script;
mod scripted;
mod step;
mod tls;
mod tokens;
mod trace;
mod ways;
mod wire;

pub(crate) use arrivals::Arrivals;
pub(crate) use calls::{PAUSE, client, hits_at, ms, payment, secs, steady, steady_client};
pub(crate) use clock::timed;
pub(crate) use gate::Gate;
pub(crate) use h2_script::H2Step;
pub(crate) use h2_server::H2Server;
pub(crate) use refused::Refused;
pub(crate) use scripted::ScriptedServer;
pub(crate) use step::{End, Step};
pub(crate) use tls::{Handshake, TlsServer};
pub(crate) use tokens::Tokens;
pub(crate) use trace::Captured;
pub(crate) use ways::Way;
pub(crate) use wire::{Arrival, header_lines};
