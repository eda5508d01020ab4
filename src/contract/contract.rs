//! What a server promises about idempotency keys, as a value.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::answers::{AnswerRule, Reading};
use super::builder::ContractBuilder;
use super::carrier::{Carrier, Companion, KeyEncoding, KeyFormat};
use super::reading::{Body, Codes, same_word};
use super::spec::{Compiled, Spec};
use super::window::{FailureStorage, MismatchDetection, Window};
use super::{ContractError, MarkerRule, Replay, WaitHeader, WaitHint, named};

/// Where the key travels, which keys are taken, for how long they protect, and what the server's
/// answers mean.
///
/// ```
/// use http::{HeaderMap, StatusCode};
/// use idempotency::contract::{Contract, Meaning};
///
/// let contract = Contract::generic();
/// let body = br#"{"error":{"code":"idempotency_key_in_use"}}"#;
/// let reading = contract.read(StatusCode::CONFLICT, &HeaderMap::new(), body);
/// assert_eq!(reading.meaning, Meaning::InProgress);
/// ```
///
/// Cheap to clone. [`Contract::generic`], the default, fits servers of which nothing is known;
/// [`Contract::builder`] writes down what is known of yours:
///
/// ```
/// use std::time::Duration;
/// use idempotency::contract::{Contract, Window};
///
/// let shop = Contract::builder("shop")
///     .header("X-Shop-Key")
///     .window(Window::Exactly(Duration::from_secs(1800)))
///     .conflict_is_final()
///     .build()?;
/// assert!(shop.conflict_is_final());
/// # Ok::<(), idempotency::contract::ContractError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Contract(Repr);

/// Ready contracts are not counted: a counter that every request of every thread increments is a
/// bottleneck.
#[derive(Debug, Clone)]
enum Repr {
    Ready(&'static Compiled),
    Shared(Arc<Compiled>),
}

static GENERIC: LazyLock<Compiled> = LazyLock::new(|| {
    named::generic()
        .compile()
        .expect("the generic contract is valid, as a test shows")
});

impl Default for Contract {
    /// [`Contract::generic`].
    fn default() -> Self {
        Self::generic()
    }
}

impl Contract {
    #[doc = include_str!("docs/generic.md")]
    #[must_use]
    pub fn generic() -> Self {
        Self(Repr::Ready(&GENERIC))
    }

    #[doc = include_str!("docs/ietf_draft.md")]
    #[must_use]
    pub fn ietf_draft() -> Self {
        named::IETF_DRAFT.contract()
    }

    #[doc = include_str!("docs/stripe.md")]
    #[must_use]
    pub fn stripe() -> Self {
        named::STRIPE.contract()
    }

    /// The contract of that name: `generic`, or one of [`named`](super::named), where each has its table. Case and the
    /// separators `-`, `_`, `.` and space do not matter.
    ///
    /// ```
    /// use idempotency::Contract;
    ///
    /// let contract = Contract::named("SQS_FIFO").expect("a known name");
    /// assert_eq!(contract.name(), "sqs-fifo");
    /// assert!(Contract::named("no-such-provider").is_none());
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if same_word(name, "generic") {
            return Some(Self::generic());
        }
        named::find(name).map(|named| named.contract())
    }

    /// The names that [`named`](Self::named) knows, for tools that let people choose.
    pub fn names() -> impl Iterator<Item = &'static str> {
        std::iter::once("generic").chain(named::all().map(|named| named.name()))
    }

    pub(super) fn ready(compiled: &'static Compiled) -> Self {
        Self(Repr::Ready(compiled))
    }

    /// Starts a contract from the generic one. The name is for errors and logs.
    pub fn builder(name: impl Into<Cow<'static, str>>) -> ContractBuilder {
        ContractBuilder::new(name.into())
    }

    /// Starts a contract from this one.
    pub fn to_builder(&self) -> ContractBuilder {
        ContractBuilder::from_spec(self.spec().clone())
    }

    pub(super) fn shared(compiled: Compiled) -> Self {
        Self(Repr::Shared(Arc::new(compiled)))
    }

    #[inline]
    fn compiled(&self) -> &Compiled {
        match &self.0 {
            Repr::Ready(compiled) => compiled,
            Repr::Shared(compiled) => compiled,
        }
    }

    #[inline]
    fn spec(&self) -> &Spec {
        &self.compiled().spec
    }

    /// The name of the contract.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec().name
    }

    pub(super) fn name_owned(&self) -> Cow<'static, str> {
        self.spec().name.clone()
    }

    /// Where the key travels.
    #[must_use]
    #[inline]
    pub fn carrier(&self) -> &Carrier {
        &self.compiled().carrier
    }

    /// The header in which the key travels, if it travels in one.
    #[must_use]
    #[inline]
    pub fn key_header(&self) -> Option<&HeaderName> {
        match self.carrier() {
            Carrier::Header(name) => Some(name),
            _ => None,
        }
    }

    /// The headers that go along with the key.
    #[inline]
    pub fn companions(&self) -> impl Iterator<Item = &Companion> {
        self.compiled()
            .companions
            .iter()
            .map(|(_, companion)| companion)
    }

    /// The companion headers with their values, for an operation whose first attempt is sent at
    /// `first_sent`. Make them once: every attempt has to carry the same.
    ///
    /// A time before 1970 is taken as 1970, one past the year 9999 as the end of that year.
    pub fn companion_headers(
        &self,
        first_sent: SystemTime,
    ) -> impl Iterator<Item = (&HeaderName, HeaderValue)> {
        let first_sent = first_sent.clamp(UNIX_EPOCH, UNIX_EPOCH + LAST_SECOND);
        self.compiled()
            .companions
            .iter()
            .filter_map(move |(name, companion)| {
                let value = match companion {
                    Companion::FirstSent { .. } => httpdate::fmt_http_date(first_sent),
                    Companion::ExpiresAt { keep, .. } => {
                        let since = first_sent
                            .duration_since(UNIX_EPOCH)
                            .unwrap_or(Duration::ZERO);
                        since.saturating_add(*keep).as_millis().to_string()
                    }
                };
                HeaderValue::try_from(value).ok().map(|value| (name, value))
            })
    }

    /// How the key is written into its header.
    #[must_use]
    #[inline]
    pub fn encoding(&self) -> KeyEncoding {
        self.spec().encoding
    }

    /// Which keys the server takes.
    #[must_use]
    #[inline]
    pub fn key_format(&self) -> &KeyFormat {
        &self.spec().format
    }

    /// Whether the server honours a key on this method.
    #[must_use]
    #[inline]
    pub fn honours(&self, method: &Method) -> bool {
        self.spec().methods.contains(method)
    }

    /// How long the server remembers a key.
    #[must_use]
    #[inline]
    pub fn window(&self) -> Window {
        self.spec().window
    }

    /// This contract with another window, such as one that the server has announced to this client.
    ///
    /// ```
    /// use std::time::Duration;
    /// use idempotency::contract::{Window, named};
    ///
    /// // `GET /v1/config` said `"idempotency-key-lifetime": "PT30M"`.
    /// let window = Window::advertised("PT30M").expect("an ISO 8601 duration");
    /// let catalog = named::ICEBERG_REST.contract().with_window(window)?;
    /// assert_eq!(catalog.window().bound(), Some(Duration::from_secs(1800)));
    /// # Ok::<(), idempotency::contract::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ContractError`] for a window of no time.
    pub fn with_window(&self, window: Window) -> Result<Self, ContractError> {
        self.to_builder().window(window).build()
    }

    /// What the server does with a failed first run.
    #[must_use]
    pub fn failures(&self) -> FailureStorage {
        self.spec().failures
    }

    /// Whether the server notices one key on two different requests.
    #[must_use]
    pub fn mismatch(&self) -> MismatchDetection {
        self.spec().mismatch
    }

    /// Whether a 409 without a recognised meaning is the operation's final answer.
    #[must_use]
    #[inline]
    pub fn conflict_is_final(&self) -> bool {
        self.spec().conflict_is_final
    }

    /// Whether the server is known to mark its replays, by a marker that this contract names. The ones that are recognised
    /// everywhere do not count.
    #[must_use]
    #[inline]
    pub fn marks_replays(&self) -> bool {
        self.spec().marks_replays
    }

    /// The header in which the server echoes the key, if it does. An echo is no proof of a replay.
    #[must_use]
    #[inline]
    pub fn echo_header(&self) -> Option<&HeaderName> {
        self.compiled().markers.echo.as_ref()
    }

    /// The headers in which the server asks for a wait.
    #[must_use]
    pub fn wait_headers(&self) -> &[WaitHeader] {
        &self.spec().wait_headers
    }

    /// The rules about answers. The first that fits counts.
    #[must_use]
    pub fn answers(&self) -> &[AnswerRule] {
        &self.spec().answers
    }

    /// The replay markers. Where two name one header, the first counts.
    #[must_use]
    pub fn markers(&self) -> &[MarkerRule] {
        &self.spec().markers
    }

    /// The wait that an answer asks for.
    #[must_use]
    pub fn wait_hint(&self, headers: &HeaderMap) -> Option<WaitHint> {
        WaitHint::from_headers(headers, self.wait_headers())
    }

    /// Reads what an answer says about the operation.
    ///
    /// The body is looked into only when a rule asks for it, so an empty slice does where
    /// [`needs_body`](Self::needs_body) says no. A body that is cut off, nested beyond reason,
    /// larger than 256 KiB or not JSON leaves the meaning plain; nothing in it can make this panic.
    #[must_use]
    pub fn read(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Reading {
        let compiled = self.compiled();
        let code = status.as_u16();
        let body = Body::new(body);
        let mut reading = Reading {
            marker: compiled.markers.read(code, headers, &body),
            ..Reading::default()
        };
        if code >= 400 {
            reading.should_retry = self.should_retry(headers);
        }
        if self.has_rules(code) {
            let mut codes = Codes::default();
            let mut rules = self.spec().answers.iter();
            if let Some(rule) = rules.find(|rule| rule.fits(code, headers, &body, &mut codes)) {
                reading.meaning = rule.means;
                reading.resource = rule.resource(&body);
            }
        }
        reading
    }

    /// Whether an answer is a replay, as far as the server says so: [`Reading::marker`] alone.
    #[must_use]
    pub fn marker(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Replay {
        self.compiled()
            .markers
            .read(status.as_u16(), headers, &Body::new(body))
    }

    /// Whether [`read`](Self::read) would look into the body of an answer with this status.
    #[must_use]
    pub fn needs_body(&self, status: StatusCode) -> bool {
        let code = status.as_u16();
        self.compiled().markers.need_body()
            || self.has_rules(code)
                && self.spec().answers.iter().any(|rule| {
                    rule.statuses.contains(code)
                        && (rule.when.needs_body() || rule.resource.is_some())
                })
    }

    #[inline]
    fn has_rules(&self, code: u16) -> bool {
        self.compiled()
            .classes
            .checked_shr((code / 100).into())
            .unwrap_or(0)
            & 1
            != 0
    }

    /// The first of the named headers that says `true` or `false` counts; one that stands there
    /// twice says nothing.
    fn should_retry(&self, headers: &HeaderMap) -> Option<bool> {
        self.compiled().should_retry.iter().find_map(|name| {
            let mut values = headers.get_all(name).iter();
            let (Some(value), None) = (values.next(), values.next()) else {
                return None;
            };
            let value = value.as_bytes().trim_ascii();
            if value.eq_ignore_ascii_case(b"true") {
                Some(true)
            } else {
                value.eq_ignore_ascii_case(b"false").then_some(false)
            }
        })
    }
}

/// The last second of the year 9999, the last that an HTTP date can name.
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);
