//! Matchers for wiremock that know the contract.
//!
//! They work on any wiremock server. A request that a matcher refuses is answered 404 by wiremock, and the mock's expectation
//! fails.
//!
//! ```
//! use idempotency::testing::matchers::{CarriesKey, KeyForm, OneKeyLine, SameKeyAndBodyAsFirst};
//! use wiremock::matchers::method;
//! use wiremock::{Mock, MockServer, ResponseTemplate};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = MockServer::start().await;
//! Mock::given(method("POST"))
//!     .and(CarriesKey::new())
//!     .and(OneKeyLine::new())
//!     .and(KeyForm::bare())
//!     .and(SameKeyAndBodyAsFirst::new())
//!     .respond_with(ResponseTemplate::new(503))
//!     .expect(3)
//!     .mount(&server)
//!     .await;
//!
//! let policy = idempotency::RetryPolicy::immediate(3);
//! let client = idempotency::Client::builder().policy(policy).build()?;
//! let failed = client.post(server.uri()).body("amount=100").idempotent().send().await;
//! assert_eq!(failed.unwrap_err().attempts().len(), 3);
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::Method;
use wiremock::{Match, Request};

use super::http1::{Framing, RequestHead};
use super::key_seen::KeySeen;
use crate::contract::{Contract, KeyEncoding};

fn key_of(contract: &Contract, request: &Request) -> KeySeen {
    let target = match request.url.query() {
        Some(query) => format!("{}?{query}", request.url.path()),
        None => request.url.path().to_owned(),
    };
    let head = RequestHead {
        raw: Bytes::new(),
        method: request.method.clone(),
        target,
        headers: request.headers.clone(),
        framing: Framing::Length(0),
        keep_alive: true,
    };
    KeySeen::read(contract, &head, &request.body)
}

/// The request carries exactly one key, and one that the contract takes.
#[derive(Debug, Clone, Default)]
pub struct CarriesKey {
    contract: Contract,
}

impl CarriesKey {
    /// A key of the generic contract: `Idempotency-Key`, 1 to 255 visible ASCII characters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A key as this contract has it: in its place, its form and its format.
    #[must_use]
    pub const fn of(contract: Contract) -> Self {
        Self { contract }
    }
}

impl Match for CarriesKey {
    fn matches(&self, request: &Request) -> bool {
        matches!(
            key_of(&self.contract, request),
            KeySeen::One { refused: None, .. }
        )
    }
}

/// The key's header stands in the request once. A request without a key is refused too.
#[derive(Debug, Clone, Default)]
pub struct OneKeyLine {
    contract: Contract,
}

impl OneKeyLine {
    /// One line of `Idempotency-Key`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One key in this contract's place.
    #[must_use]
    pub const fn of(contract: Contract) -> Self {
        Self { contract }
    }
}

impl Match for OneKeyLine {
    fn matches(&self, request: &Request) -> bool {
        !matches!(
            key_of(&self.contract, request),
            KeySeen::None | KeySeen::Several(_)
        )
    }
}

/// The key is quoted, or is not.
#[derive(Debug, Clone)]
pub struct KeyForm {
    contract: Contract,
    quoted: bool,
}

impl KeyForm {
    /// `Idempotency-Key: "k-1"`, the string of structured fields that the IETF draft asks for.
    #[must_use]
    pub fn quoted() -> Self {
        Self {
            contract: Contract::generic(),
            quoted: true,
        }
    }

    /// `Idempotency-Key: k-1`, what nearly all deployed servers expect.
    #[must_use]
    pub fn bare() -> Self {
        Self {
            contract: Contract::generic(),
            quoted: false,
        }
    }

    /// The form that the contract wants, in its header.
    #[must_use]
    pub fn of(contract: Contract) -> Self {
        let quoted = contract.encoding() == KeyEncoding::StructuredString;
        Self { contract, quoted }
    }
}

impl Match for KeyForm {
    fn matches(&self, request: &Request) -> bool {
        matches!(
            key_of(&self.contract, request),
            KeySeen::One { quoted, .. } if quoted == self.quoted
        )
    }
}

/// The key and the request are those of the first request that came here: the same method, target, content type and body.
///
/// It remembers the first request with a key that it is asked about, so it belongs behind the matchers that choose the
/// operation, on a mock of one operation. Without a key nothing matches.
#[derive(Default)]
pub struct SameKeyAndBodyAsFirst {
    contract: Contract,
    first: Mutex<Option<First>>,
}

#[derive(Clone, PartialEq, Eq)]
struct First {
    key: String,
    method: Method,
    target: String,
    content_type: Option<Vec<u8>>,
    body: Vec<u8>,
}

impl SameKeyAndBodyAsFirst {
    /// The key in `Idempotency-Key`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The key in this contract's place.
    #[must_use]
    pub fn of(contract: Contract) -> Self {
        Self {
            contract,
            first: Mutex::default(),
        }
    }
}

impl Match for SameKeyAndBodyAsFirst {
    fn matches(&self, request: &Request) -> bool {
        let KeySeen::One {
            literal: key,
            refused: None,
            ..
        } = key_of(&self.contract, request)
        else {
            return false;
        };
        let content_type = request.headers.get(http::header::CONTENT_TYPE);
        let this = First {
            key,
            method: request.method.clone(),
            target: request.url.to_string(),
            content_type: content_type.map(|value| value.as_bytes().to_vec()),
            body: request.body.clone(),
        };
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        *first.get_or_insert_with(|| this.clone()) == this
    }
}

impl fmt::Debug for SameKeyAndBodyAsFirst {
    /// Without the first request: it holds a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SameKeyAndBodyAsFirst")
            .field("contract", &self.contract.name())
            .finish_non_exhaustive()
    }
}
