//! Payment providers.

use std::sync::OnceLock;

use super::NamedContract;
use super::fact::{Answer, CLIENT_ERRORS, Mark, Set, When, code, days, hours, status};
use crate::contract::{FailureStorage, Meaning, MismatchDetection, Statuses, Window};

#[doc = include_str!("../docs/named/stripe.md")]
pub static STRIPE: NamedContract = NamedContract {
    name: "stripe",
    title: "Stripe, API version 1",
    facts: &[
        (
            "docs.stripe.com/api/idempotent_requests",
            &[Set::Header("Idempotency-Key")],
        ),
        (
            "github.com/stripe/stripe-go: the SDK sends a key on all writes",
            &[Set::Methods(&["POST", "DELETE"])],
        ),
        (
            "docs.stripe.com/api/idempotent_requests",
            &[
                Set::Lengths(1, 255),
                Set::Window(Window::AtLeast(hours(24))),
            ],
        ),
        (
            "docs.stripe.com/error-low-level: met by a request that had begun, so it proves nothing",
            &[code(
                Statuses::one(429),
                &["/error/code"],
                &["lock_timeout"],
                Meaning::Plain,
            )],
        ),
        (
            "docs.stripe.com/error-low-level: the limiter stands before the idempotency layer",
            &[status(429, Meaning::NotExecuted)],
        ),
        (
            "docs.stripe.com/error-low-level",
            &[
                code(
                    Statuses::one(409),
                    &["/error/code"],
                    &["idempotency_key_in_use"],
                    Meaning::InProgress,
                ),
                code(
                    CLIENT_ERRORS,
                    &["/error/type"],
                    &["idempotency_error"],
                    Meaning::Mismatch,
                ),
            ],
        ),
        (
            "docs.stripe.com/api/idempotent_requests",
            &[Set::Mismatch(MismatchDetection::Detected)],
        ),
        (
            "docs.stripe.com/api/idempotent_requests: once the endpoint had begun",
            &[Set::Failures(FailureStorage::Everything)],
        ),
        (
            "github.com/stripe/stripe-go",
            &[
                Set::Marker(Mark::Echo("Idempotency-Key")),
                Set::ShouldRetry("Stripe-Should-Retry"),
            ],
        ),
        (
            "docs.stripe.com/api/idempotent_requests",
            &[Set::Note(
                "`Idempotent-Replayed: true` is recognised as everywhere; the status of a mismatch is not in this text",
            )],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/stripe-v2.md")]
pub static STRIPE_V2: NamedContract = NamedContract {
    name: "stripe-v2",
    title: "Stripe, API version 2",
    facts: &[
        (
            "docs.stripe.com/api-v2-overview",
            &[Set::Header("Idempotency-Key")],
        ),
        (
            "github.com/stripe/stripe-go: the SDK sends a key on all writes",
            &[Set::Methods(&["POST", "DELETE"])],
        ),
        (
            "docs.stripe.com/api/idempotent_requests",
            &[Set::Lengths(1, 255)],
        ),
        (
            "docs.stripe.com/api-v2-overview",
            &[
                Set::Window(Window::Exactly(days(30))),
                Set::Failures(FailureStorage::ReExecuted),
            ],
        ),
        (
            "github.com/stripe/stripe-go",
            &[Set::ShouldRetry("Stripe-Should-Retry")],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/adyen.md")]
pub static ADYEN: NamedContract = NamedContract {
    name: "adyen",
    title: "Adyen",
    facts: &[
        (
            "docs.adyen.com/development-resources/api-idempotency",
            &[
                Set::Header("Idempotency-Key"),
                Set::Methods(&["POST"]),
                Set::Lengths(1, 64),
            ],
        ),
        (
            "docs.adyen.com/development-resources/api-idempotency says 31 days, later secondary texts 7: the shorter is set",
            &[Set::Window(Window::AtLeast(days(7)))],
        ),
        (
            "docs.adyen.com/development-resources/api-idempotency",
            &[Set::Marker(Mark::Echo("Idempotency-Key"))],
        ),
        (
            "Adyen Checkout OpenAPI, requestedTestErrorResponseCode",
            &[Set::ShouldRetry("transient-error")],
        ),
        (
            "Adyen Checkout OpenAPI, requestedTestErrorResponseCode: all but transient errors",
            &[Set::Failures(FailureStorage::Everything)],
        ),
        (
            "docs.adyen.com/development-resources/api-idempotency",
            &[Set::Note(
                "keys are kept per company account and not across regional endpoints",
            )],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/paypal.md")]
pub static PAYPAL: NamedContract = NamedContract {
    name: "paypal",
    title: "PayPal REST APIs",
    facts: &[
        (
            "developer.paypal.com/reference/guidelines/idempotency",
            &[Set::Header("PayPal-Request-Id"), Set::Methods(&["POST"])],
        ),
        (
            "github.com/paypal/paypal-rest-api-specifications, Orders v2",
            &[Set::Lengths(1, 108)],
        ),
        (
            "github.com/paypal/paypal-rest-api-specifications: 3 hours in Vault v3, the shortest; 6 hours in Orders v2, 72 hours in Subscriptions, 30 days in Payouts, 45 days in Payments v2",
            &[Set::Window(Window::AtLeast(hours(3)))],
        ),
        (
            "github.com/paypal/paypal-rest-api-specifications, Payments v2",
            &[code(
                Statuses::one(409),
                &["/name", "/details/0/issue"],
                &["PREVIOUS_REQUEST_IN_PROGRESS"],
                Meaning::InProgress,
            )],
        ),
        (
            "github.com/paypal/paypal-rest-api-specifications, Vault v3",
            &[code(
                CLIENT_ERRORS,
                &["/name", "/details/0/issue"],
                &["PAYPAL_REQUEST_ID_PREVIOUSLY_USED"],
                Meaning::Mismatch,
            )],
        ),
        (
            "github.com/paypal/paypal-rest-api-specifications, Orders v2",
            &[code(
                CLIENT_ERRORS,
                &["/name", "/details/0/issue"],
                &["PAYPAL_REQUEST_ID_REQUIRED"],
                Meaning::KeyUnusable,
            )],
        ),
        (
            "developer.paypal.com/reference/guidelines/idempotency",
            &[Set::Note(
                "a repeat is answered with the latest state, not with a copy of the first answer",
            )],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/square.md")]
pub static SQUARE: NamedContract = NamedContract {
    name: "square",
    title: "Square",
    facts: &[
        (
            "github.com/square/connect-api-specification",
            &[Set::JsonPointer("/idempotency_key")],
        ),
        (
            "github.com/square/connect-api-specification: 45 on most endpoints that move money, up to 255 on others",
            &[Set::Lengths(1, 45)],
        ),
        (
            "github.com/square/connect-api-specification",
            &[code(
                CLIENT_ERRORS,
                &["/errors/0/code"],
                &["IDEMPOTENCY_KEY_REUSED"],
                Meaning::Mismatch,
            )],
        ),
        (
            "developer.squareup.com/docs/build-basics/common-api-patterns/idempotency",
            &[
                Set::Mismatch(MismatchDetection::Detected),
                Set::Note("a repeat is answered with the first successful answer"),
            ],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/cash-app-pay.md")]
pub static CASH_APP_PAY: NamedContract = NamedContract {
    name: "cash-app-pay",
    title: "Cash App Pay",
    facts: &[(
        "developers.cash.app, API fundamentals, Idempotency",
        &[
            Set::JsonPointer("/idempotency_key"),
            Set::Lengths(1, 64),
            code(
                CLIENT_ERRORS,
                &["/errors/0/code"],
                &["IDEMPOTENCY_KEY_REUSED"],
                Meaning::Mismatch,
            ),
            Set::Note("a key counts for one endpoint and not across `X-Region`"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/gocardless.md")]
pub static GOCARDLESS: NamedContract = NamedContract {
    name: "gocardless",
    title: "GoCardless",
    facts: &[
        (
            "gocardless.com/blog/idempotency-keys",
            &[Set::Header("Idempotency-Key")],
        ),
        (
            "github.com/gocardless/gocardless-pro-python",
            &[
                Set::Methods(&["POST"]),
                Set::Answer(Answer {
                    statuses: Statuses::one(409),
                    when: When::Code(
                        &["/error/errors/0/reason"],
                        &["idempotent_creation_conflict"],
                    ),
                    means: Meaning::AlreadyDone,
                    resource: Some("/error/errors/0/links/conflicting_resource_id"),
                }),
            ],
        ),
        (
            "gocardless.com/blog/idempotency-keys",
            &[Set::Failures(FailureStorage::Nothing)],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/checkout-com.md")]
pub static CHECKOUT_COM: NamedContract = NamedContract {
    name: "checkout-com",
    title: "Checkout.com",
    facts: &[
        (
            "checkout.com/docs/payments/manage-payments/retry-a-payment",
            &[Set::Header("Cko-Idempotency-Key")],
        ),
        (
            "checkout.com/docs/payments/manage-payments/retry-a-payment: the default, adjustable in production",
            &[Set::Window(Window::Exactly(hours(24)))],
        ),
        (
            "checkout.com/docs/payments/manage-payments/retry-a-payment",
            &[Set::Failures(FailureStorage::Nothing)],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/klarna.md")]
pub static KLARNA: NamedContract = NamedContract {
    name: "klarna",
    title: "Klarna",
    facts: &[(
        "docs.klarna.com/api/escalation-and-retry-policy",
        &[
            Set::Header("Klarna-Idempotency-Key"),
            Set::Methods(&["POST", "PATCH"]),
            Set::Window(Window::Exactly(hours(24))),
            Set::Mismatch(MismatchDetection::NotDetected),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/worldpay-xml.md")]
pub static WORLDPAY_XML: NamedContract = NamedContract {
    name: "worldpay-xml",
    title: "Worldpay, WPG XML",
    facts: &[
        (
            "developer.worldpay.com/docs/wpg/idempotency",
            &[Set::Header("Idempotency-Key"), Set::Methods(&["POST"])],
        ),
        (
            "developer.worldpay.com/docs/wpg/idempotency: 1 to 365 days",
            &[Set::Window(Window::MerchantSet)],
        ),
        (
            "developer.worldpay.com/docs/wpg/idempotency",
            &[
                Set::Note(
                    "errors are XML, which is not read; code 9 covers in progress, invalid key and not enabled",
                ),
                Set::Note(
                    "where the store of keys cannot be reached the request is processed all the same",
                ),
            ],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/amazon-pay.md")]
pub static AMAZON_PAY: NamedContract = NamedContract {
    name: "amazon-pay",
    title: "Amazon Pay, API version 2",
    facts: &[
        (
            "developer.amazon.com/docs/amazon-pay-api-v2/idempotency.html",
            &[
                Set::Header("x-amz-pay-idempotency-key"),
                Set::Methods(&["POST"]),
                Set::Lengths(1, 32),
                Set::Alphabet("-_"),
            ],
        ),
        (
            "developer.amazon.com/docs/amazon-pay-api-v2/idempotency.html: 36 characters do not fit",
            &[Set::SimpleUuid],
        ),
        (
            "developer.amazon.com/docs/amazon-pay-api-v2/idempotency.html",
            &[Set::Window(Window::Forever)],
        ),
        (
            "developer.amazon.com/docs/amazon-pay-api-v2/idempotency.html; its place in the body is not documented there",
            &[code(
                CLIENT_ERRORS,
                &["/reasonCode", "/code", "/error/code"],
                &["DuplicateIdempotencyKey"],
                Meaning::Mismatch,
            )],
        ),
        (
            "developer.amazon.com/docs/amazon-pay-api-v2/idempotency.html",
            &[Set::Mismatch(MismatchDetection::Detected)],
        ),
    ],
    compiled: OnceLock::new(),
};
