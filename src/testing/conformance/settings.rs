//! What the probe is to ask, and how.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use reqwest::Url;

use super::report::{Check, ProbeReport};
use super::run::Run;
use crate::contract::Contract;

/// Prepares a probe of the operation at this address: what the server there does with keys, found out from outside.
///
/// ```
/// use idempotency::testing::probe;
/// # use idempotency::testing::ContractServer;
/// # use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
/// # use wiremock::{ResponseTemplate, matchers::method};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let paid = AtomicUsize::new(0);
/// # let pay = move |_: &wiremock::Request| {
/// #     ResponseTemplate::new(201).set_body_json(paid.fetch_add(1, SeqCst))
/// # };
/// # let server = ContractServer::start().await;
/// # server.operation(method("POST")).respond_with(pay).mount();
/// # let url = format!("{}/payments", server.uri());
/// let report = probe(url).run().await?;
/// assert!(report.is_safe(), "{report}");
/// assert!(report.proposal.fits.contains(&"generic"));
/// // A table for a person.
/// println!("{report}");
/// # // The probe breaks every rule on purpose.
/// # server.verify().unwrap_err();
/// # Ok(())
/// # }
/// ```
///
/// The address is taken as text and checked by [`Probe::run`]. **The probe runs the operation**, some forty times: point it at
/// a test system.
pub fn probe(url: impl Into<String>) -> Probe {
    Probe {
        url: url.into(),
        method: Method::POST,
        headers: HeaderMap::new(),
        content_type: "application/json".to_owned(),
        body: r#"{"amount":100,"note":"probe {n}"}"#.to_owned(),
        other_caller: None,
        failing: None,
        witness: None,
        contract: Contract::generic(),
        overlap: Duration::from_millis(50),
        patience: Duration::from_secs(5),
        timeout: Duration::from_secs(30),
        progress: None,
    }
}

/// A probe in the making; made by [`probe`].
#[derive(Clone)]
#[must_use = "a probe asks nothing until it is run"]
pub struct Probe {
    pub(super) url: String,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) content_type: String,
    pub(super) body: String,
    pub(super) other_caller: Option<(HeaderName, HeaderValue)>,
    pub(super) failing: Option<Failing>,
    pub(super) witness: Option<(String, String)>,
    pub(super) contract: Contract,
    pub(super) overlap: Duration,
    pub(super) patience: Duration,
    pub(super) timeout: Duration,
    pub(super) progress: Option<Progress>,
}

pub(super) type Progress = Arc<dyn Fn(usize, usize, Check) + Send + Sync>;

/// What makes the operation fail with a 5xx.
#[derive(Debug, Clone)]
pub(super) enum Failing {
    Header(HeaderName, HeaderValue),
    Body(String),
}

impl Probe {
    /// The method. Default: POST.
    pub fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    /// A header of every request, such as credentials.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// The body of a request that succeeds; `{n}` in it becomes another number in every operation. Default:
    /// `{"amount":100,"note":"probe {n}"}` as JSON.
    pub fn body(mut self, content_type: impl Into<String>, body: impl Into<String>) -> Self {
        (self.content_type, self.body) = (content_type.into(), body.into());
        self
    }

    /// Where the key travels. Only headers are probed; the encoding is found out. Default: [`Contract::generic`].
    pub fn contract(mut self, contract: Contract) -> Self {
        self.contract = contract;
        self
    }

    /// A header that makes a request another caller's, in place of the one of the same name: another `Authorization`.
    pub fn other_caller(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.other_caller = Some((name, value));
        self
    }

    /// A header with which the operation fails with a 5xx.
    pub fn failing_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.failing = Some(Failing::Header(name, value));
        self
    }

    /// A body with which the operation fails with a 5xx.
    pub fn failing_body(mut self, body: impl Into<String>) -> Self {
        self.failing = Some(Failing::Body(body.into()));
        self
    }

    /// Where a GET tells how often the operation was executed: a number in a JSON document, at this JSON pointer. Without it
    /// the probe compares answers, and cannot tell two runs that answer alike.
    pub fn witness(mut self, url: impl Into<String>, pointer: impl Into<String>) -> Self {
        self.witness = Some((url.into(), pointer.into()));
        self
    }

    /// How long after the first request a second one is sent to meet it running. Default: 50 ms.
    pub const fn overlap(mut self, overlap: Duration) -> Self {
        self.overlap = overlap;
        self
    }

    /// How long an operation may stay in progress before it counts as stuck. Default: 5 s.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The time for one request. Default: 30 s.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Called when a check begins, with its number, the number of all, and the check.
    pub fn on_check(
        mut self,
        progress: impl Fn(usize, usize, Check) + Send + Sync + 'static,
    ) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Runs all checks.
    ///
    /// # Errors
    ///
    /// [`ProbeError`] when there is nothing to probe: a bad address, a key that does not travel in a header, no server, or no
    /// request that succeeds.
    pub async fn run(self) -> Result<ProbeReport, ProbeError> {
        let url = self.url.parse::<Url>();
        let url = url.map_err(|error| ProbeError::new(format!("`{}`: {error}", self.url)))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ProbeError::new(format!("`{url}` is no HTTP address")));
        }
        if self.contract.key_header().is_none() {
            let name = self.contract.name();
            return Err(ProbeError::new(format!(
                "the key of `{name}` does not travel in a header: only headers are probed"
            )));
        }
        Run::new(self, url)?.all().await
    }

    /// The body of the `n`th operation.
    pub(super) fn body_of(&self, n: usize) -> Bytes {
        self.body.replace("{n}", &n.to_string()).into()
    }

    /// Another body than that of the `n`th operation.
    pub(super) fn other_body(&self, n: usize) -> Bytes {
        let other = self.body_of(n + 1_000_000);
        match other == self.body_of(n) {
            // White space is another body to whoever compares bytes, and still the same kind of document.
            true => [&other[..], b" "].concat().into(),
            false => other,
        }
    }
}

impl fmt::Debug for Probe {
    /// Without header values: they are credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe")
            .field("method", &self.method)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("contract", &self.contract.name())
            .finish_non_exhaustive()
    }
}

/// Why a server cannot be probed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ProbeError {
    message: String,
    source: Option<reqwest::Error>,
}

impl ProbeError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            source: None,
        }
    }

    pub(super) fn with(mut self, source: reqwest::Error) -> Self {
        self.source = Some(source.without_url());
        self
    }
}
