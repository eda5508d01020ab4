//! Writing down the contract of a server that has no ready one.

use std::borrow::Cow;

use http::Method;

use super::answers::AnswerRule;
use super::carrier::{Companion, KeyEncoding, KeyFormat};
use super::contract::Contract;
use super::replay::MarkerRule;
use super::spec::{Place, Spec};
use super::window::{FailureStorage, MismatchDetection, Window};
use super::{ContractError, WaitHeader, named};

/// Builds a [`Contract`]; made by [`Contract::builder`] or [`Contract::to_builder`].
///
/// Whatever is not set is as in the contract that the builder was made from, [`Contract::generic`]
/// for [`Contract::builder`]. Nothing is checked before [`build`](Self::build).
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct ContractBuilder {
    spec: Spec,
}

impl ContractBuilder {
    pub(super) fn new(name: Cow<'static, str>) -> Self {
        let spec = Spec {
            name,
            ..named::generic()
        };
        Self { spec }
    }

    pub(super) const fn from_spec(spec: Spec) -> Self {
        Self { spec }
    }

    /// The name of the contract, for errors and logs.
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.spec.name = name.into();
        self
    }

    /// The key travels in this header.
    pub fn header(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.spec.carrier = Place::Header(name.into());
        self
    }

    /// The key travels in the JSON body, at this JSON pointer (RFC 6901): `/idempotency_key`.
    pub fn json_pointer(mut self, pointer: impl Into<Cow<'static, str>>) -> Self {
        self.spec.carrier = Place::JsonPointer(pointer.into());
        self
    }

    /// The key travels in this field of a URL-encoded body.
    pub fn form_field(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.spec.carrier = Place::FormField(name.into());
        self
    }

    /// The key travels in this parameter of the query.
    pub fn query_parameter(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.spec.carrier = Place::QueryParameter(name.into());
        self
    }

    /// Adds a header that goes along with the key, the same on every attempt.
    pub fn companion(mut self, companion: Companion) -> Self {
        self.spec.companions.push(companion);
        self
    }

    /// How the key is written into its header.
    pub const fn encoding(mut self, encoding: KeyEncoding) -> Self {
        self.spec.encoding = encoding;
        self
    }

    /// Which keys the server takes.
    pub fn key_format(mut self, format: KeyFormat) -> Self {
        self.spec.format = format;
        self
    }

    /// The methods on which the server honours a key, in place of those named so far.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.spec.methods = methods.into_iter().collect();
        self
    }

    /// How long the server remembers a key.
    pub const fn window(mut self, window: Window) -> Self {
        self.spec.window = window;
        self
    }

    /// What the server does with a failed first run.
    pub const fn failures(mut self, failures: FailureStorage) -> Self {
        self.spec.failures = failures;
        self
    }

    /// Whether the server notices one key on two different requests.
    pub const fn mismatch(mut self, mismatch: MismatchDetection) -> Self {
        self.spec.mismatch = mismatch;
        self
    }

    /// Adds a replay marker. It goes before those that are there: where two rules name one header,
    /// this one counts.
    pub fn marker(mut self, rule: MarkerRule) -> Self {
        self.spec.marks_replays |= !matches!(rule, MarkerRule::Echo { .. });
        self.spec.markers.insert(0, rule);
        self
    }

    /// Forgets all replay markers named so far, the common ones included.
    pub fn without_markers(mut self) -> Self {
        self.spec.markers.clear();
        self.spec.marks_replays = false;
        self
    }

    /// Adds a rule about answers, before those that are there. To name several, name the most
    /// special one last.
    pub fn answer(mut self, rule: AnswerRule) -> Self {
        self.spec.answers.insert(0, rule);
        self
    }

    /// Forgets all rules about answers named so far, the common ones included.
    pub fn without_answers(mut self) -> Self {
        self.spec.answers.clear();
        self
    }

    /// A 409 without a recognised meaning is the operation's final answer on this server, never
    /// "still in progress".
    pub const fn conflict_is_final(mut self) -> Self {
        self.spec.conflict_is_final = true;
        self
    }

    /// The headers in which the server asks for a wait, in place of those named so far.
    pub fn wait_headers(mut self, headers: impl IntoIterator<Item = WaitHeader>) -> Self {
        self.spec.wait_headers = headers.into_iter().collect();
        self
    }

    /// The headers in which the server says whether to repeat (`true` or `false`), in place of
    /// those named so far.
    pub fn should_retry_headers<N>(mut self, names: impl IntoIterator<Item = N>) -> Self
    where
        N: Into<Cow<'static, str>>,
    {
        self.spec.should_retry = names.into_iter().map(Into::into).collect();
        self
    }

    /// Checks everything and makes the contract.
    ///
    /// # Errors
    ///
    /// [`ContractError`] with the first value that is not good.
    pub fn build(self) -> Result<Contract, ContractError> {
        self.spec.compile().map(Contract::shared)
    }
}
