//! Named contracts: what is known of real servers, as data.
//!
//! Each static here is one contract, and its documentation is the table of what it sets, with the source of each fact and with what
//! is not known. The table is made from the data itself. Whatever a contract does not set is as in
//! [`Contract::generic`].
//!
//! ```
//! use idempotency::Contract;
//! use idempotency::contract::named;
//!
//! let square = named::SQUARE.contract();
//! assert_eq!(square.name(), "square");
//! // The same, for names that come from configuration.
//! assert_eq!(Contract::named("Square").map(|found| found.name().to_owned()), Some("square".to_owned()));
//! assert!(named::all().count() >= 30);
//! ```
//!
//! Facts age. They were read in November 2026; a provider's own page decides. Where yours differs,
//! [`Contract::to_builder`] changes one of them.

mod banking;
mod clouds;
mod describe;
mod fact;
mod messaging;
mod payments;
mod payouts;
mod platforms;
mod standards;

use std::fmt;
use std::sync::OnceLock;

use http::Method;

use self::fact::{Fact, Lists};
use super::carrier::{KeyEncoding, KeyFormat};
use super::reading::same_word;
use super::recognised::{common_answers, common_markers};
use super::spec::{Compiled, Place, Spec};
use super::window::{FailureStorage, MismatchDetection, Window};
use super::{Contract, WaitHeader};

pub use banking::{
    ALPACA, DATATRANS, FINTOC, INTERCHECKS, MANGOPAY, METHOD, MOOV, PAYFACTO, PPRO, QONTO,
    SMARTRETRY, SOLID, TRUELAYER, WORLDLINE, YUNO,
};
pub use clouds::{
    ALIBABA_CLOUD, AWS_CLIENT_TOKEN, AWS_EC2, AZURE_COMMUNICATION, COMPUTE_ENGINE, ICEBERG_REST,
    ORACLE_OCI, SQS_FIFO,
};
pub use messaging::{COURIER, KNOCK, LINE, NOVU, RESEND, TELNYX, TWILIO};
pub use payments::{
    ADYEN, AMAZON_PAY, CASH_APP_PAY, CHECKOUT_COM, GOCARDLESS, KLARNA, PAYPAL, SQUARE, STRIPE,
    STRIPE_V2, WORLDPAY_XML,
};
pub use payouts::{
    CIRCLE, COINBASE_CDP, COLUMN, FINIX, FIREBLOCKS, FLUTTERWAVE, INCREASE, MODERN_TREASURY,
    PICPAY, PLAID_TRANSFER, RAZORPAY_PAYOUTS, RAZORPAY_REFUNDS, RAZORPAY_TRANSFERS, WIZIT,
    WORLDPAY_PAYOUTS,
};
pub use platforms::{
    CHARGEBEE, EPAY, FISKALY, HYPERLINE, INTEGRATED_FINANCE, LOB, QUICKBOOKS, SHOPIFY, WHOP,
    WORKOS, XERO, ZENDESK, ZUORA,
};
pub use standards::{AIP_155, IETF_DRAFT, OASIS, UK_OPEN_BANKING};

/// The contract of one server, by name.
pub struct NamedContract {
    name: &'static str,
    title: &'static str,
    facts: &'static [Fact],
    compiled: OnceLock<Compiled>,
}

/// All named contracts: standards first, then clouds, then providers.
static ALL: &[&NamedContract] = &[
    &IETF_DRAFT,
    &OASIS,
    &AIP_155,
    &UK_OPEN_BANKING,
    &AZURE_COMMUNICATION,
    &COMPUTE_ENGINE,
    &AWS_CLIENT_TOKEN,
    &AWS_EC2,
    &SQS_FIFO,
    &ALIBABA_CLOUD,
    &ICEBERG_REST,
    &ORACLE_OCI,
    &STRIPE,
    &STRIPE_V2,
    &ADYEN,
    &PAYPAL,
    &SQUARE,
    &CASH_APP_PAY,
    &GOCARDLESS,
    &CHECKOUT_COM,
    &KLARNA,
    &WORLDPAY_XML,
    &AMAZON_PAY,
    &WORLDPAY_PAYOUTS,
    &RAZORPAY_PAYOUTS,
    &RAZORPAY_TRANSFERS,
    &RAZORPAY_REFUNDS,
    &PLAID_TRANSFER,
    &MODERN_TREASURY,
    &INCREASE,
    &COLUMN,
    &CIRCLE,
    &COINBASE_CDP,
    &FLUTTERWAVE,
    &FINIX,
    &FIREBLOCKS,
    &PICPAY,
    &WIZIT,
    &MOOV,
    &MANGOPAY,
    &QONTO,
    &TRUELAYER,
    &WORLDLINE,
    &PPRO,
    &INTERCHECKS,
    &SMARTRETRY,
    &METHOD,
    &FINTOC,
    &SOLID,
    &YUNO,
    &DATATRANS,
    &PAYFACTO,
    &ALPACA,
    &RESEND,
    &LINE,
    &TWILIO,
    &KNOCK,
    &NOVU,
    &TELNYX,
    &COURIER,
    &XERO,
    &SHOPIFY,
    &WORKOS,
    &ZENDESK,
    &CHARGEBEE,
    &ZUORA,
    &HYPERLINE,
    &WHOP,
    &EPAY,
    &FISKALY,
    &INTEGRATED_FINANCE,
    &QUICKBOOKS,
    &LOB,
];

/// All named contracts: standards first, then clouds, then providers.
pub fn all() -> impl Iterator<Item = &'static NamedContract> {
    ALL.iter().copied()
}

pub(super) fn find(name: &str) -> Option<&'static NamedContract> {
    all().find(|named| same_word(named.name, name))
}

impl NamedContract {
    /// The name, as [`Contract::named`] takes it: lower case with hyphens.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whose contract it is, for people.
    #[must_use]
    pub fn title(&self) -> &'static str {
        self.title
    }

    /// The contract.
    #[must_use]
    pub fn contract(&'static self) -> Contract {
        Contract::ready(self.compiled.get_or_init(|| {
            self.spec()
                .compile()
                .expect("the named contracts are valid, as a test shows")
        }))
    }

    /// What is set, row by row: the subject, the value in Markdown, and who says so.
    pub fn facts(&self) -> impl Iterator<Item = (&'static str, String, &'static str)> {
        self.facts
            .iter()
            .flat_map(|(source, sets)| sets.iter().map(|set| (set.subject(), set.value(), *source)))
    }

    /// What is not known and therefore as in [`Contract::generic`].
    pub fn open(&self) -> impl Iterator<Item = &'static str> {
        const ASKED: &[&str] = &[
            "Methods",
            "Keys",
            "Window",
            "Replay marker",
            "In progress",
            "Mismatch",
            "Stored failures",
        ];
        let known = |subject: &str| {
            self.facts()
                .any(|(known, value, _)| known == subject && value != "not known")
        };
        // That a reused key goes unnoticed is an answer to the question what it means.
        let unnoticed = |subject| {
            subject == "Mismatch" && self.spec().mismatch == MismatchDetection::NotDetected
        };
        ASKED
            .iter()
            .copied()
            .filter(move |subject| !known(subject) && !unnoticed(*subject))
    }

    fn spec(&self) -> Spec {
        let mut spec = Spec {
            name: self.name.into(),
            ..generic()
        };
        let mut lists = Lists::default();
        for (source, sets) in self.facts {
            for set in *sets {
                set.apply(source, &mut spec, &mut lists);
            }
        }
        let Lists {
            markers,
            answers,
            otherwise,
        } = lists;
        spec.markers = [markers, spec.markers].concat();
        spec.answers = [answers, spec.answers, otherwise].concat();
        spec
    }
}

impl fmt::Debug for NamedContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedContract").field(&self.name).finish()
    }
}

pub(super) fn generic() -> Spec {
    Spec {
        name: "generic".into(),
        carrier: Place::Header("idempotency-key".into()),
        companions: Vec::new(),
        encoding: KeyEncoding::Bare,
        format: KeyFormat::COMMON,
        methods: vec![Method::POST, Method::PATCH, Method::PUT, Method::DELETE],
        window: Window::Unknown,
        failures: FailureStorage::Unknown,
        mismatch: MismatchDetection::Unknown,
        markers: common_markers(),
        answers: common_answers(),
        conflict_is_final: false,
        wait_headers: WaitHeader::ALL.to_vec(),
        should_retry: vec!["x-should-retry".into()],
        marks_replays: false,
    }
}

#[cfg(test)]
mod tests;
