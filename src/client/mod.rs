//! The client: over reqwest, with one loop in the middle.

mod attempt;
mod classify;
mod client_builder;
mod endpoint;
mod engine;
mod error;
mod execute;
mod frozen;
mod http_client;
mod idempotent;
mod middleware;
mod operation;
mod past;
mod pending;
mod reader;
mod redirect;
mod report;
mod request;
mod response;
mod stream;
mod trace;
mod url;

pub use client_builder::ClientBuilder;
pub use endpoint::Endpoint;
pub use error::{Effect, Error, ErrorKind};
pub use http_client::Client;
pub use idempotent::IdempotentRequest;
pub use middleware::{IdempotencyMiddleware, RequestBuilderExt};
pub use pending::Pending;
pub use redirect::redirect_policy;
pub use report::{Attempt, Report};
pub use request::RequestBuilder;
pub use response::Response;
pub use url::IntoUrl;
