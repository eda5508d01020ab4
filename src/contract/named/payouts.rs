//! Payouts, transfers and treasuries.

use std::sync::OnceLock;

use super::NamedContract;
use super::fact::{Answer, Mark, Set, When, code, days, hours, status};
use crate::contract::{FailureStorage, Meaning, MismatchDetection, Statuses, Window};

#[doc = include_str!("../docs/named/worldpay-payouts.md")]
pub static WORLDPAY_PAYOUTS: NamedContract = NamedContract {
    name: "worldpay-payouts",
    title: "Worldpay Account Payouts",
    facts: &[
        (
            "Worldpay Account Payouts OpenAPI",
            &[Set::Header("Idempotency-Key"), Set::Lengths(1, 35)],
        ),
        (
            "Worldpay Account Payouts OpenAPI: 36 characters do not fit",
            &[Set::SimpleUuid],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/razorpay-payouts.md")]
pub static RAZORPAY_PAYOUTS: NamedContract = NamedContract {
    name: "razorpay-payouts",
    title: "Razorpay, payouts",
    facts: &[
        (
            "razorpay.com/docs/api/x/payout-idempotency",
            &[
                Set::Header("X-Payout-Idempotency"),
                Set::Methods(&["POST"]),
                Set::Lengths(4, 36),
                Set::Alphabet("-_"),
                Set::Mismatch(MismatchDetection::Detected),
            ],
        ),
        (
            "razorpay.com/docs/api/x/payout-idempotency: a failed payout needs a new key",
            &[Set::Failures(FailureStorage::Everything)],
        ),
        (
            "razorpay.com/docs/api/x/payout-idempotency",
            &[Set::Note(
                "a 409 while the first request runs and a 400 for another request have no code of their own",
            )],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/razorpay-transfers.md")]
pub static RAZORPAY_TRANSFERS: NamedContract = NamedContract {
    name: "razorpay-transfers",
    title: "Razorpay, transfers",
    facts: &[
        (
            "razorpay.com/docs/api/x/payout-idempotency",
            &[
                Set::Header("X-Transfer-Idempotency"),
                Set::Methods(&["POST"]),
                Set::Lengths(4, 36),
                Set::Alphabet("-_"),
                Set::Mismatch(MismatchDetection::Detected),
            ],
        ),
        (
            "razorpay.com/docs/api/x/payout-idempotency: a failed payout needs a new key",
            &[Set::Failures(FailureStorage::Everything)],
        ),
        (
            "razorpay.com/docs/api/x/payout-idempotency",
            &[Set::Note(
                "a 409 while the first request runs and a 400 for another request have no code of their own",
            )],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/razorpay-refunds.md")]
pub static RAZORPAY_REFUNDS: NamedContract = NamedContract {
    name: "razorpay-refunds",
    title: "Razorpay, refunds",
    facts: &[
        (
            "razorpay.com/docs/api/x/payout-idempotency",
            &[
                Set::Header("X-Refund-Idempotency"),
                Set::Methods(&["POST"]),
                Set::Lengths(10, 255),
                Set::Alphabet("-_"),
                Set::Mismatch(MismatchDetection::Detected),
            ],
        ),
        (
            "razorpay.com/docs/api/x/payout-idempotency: a failed payout needs a new key",
            &[Set::Failures(FailureStorage::Everything)],
        ),
        (
            "razorpay.com/docs/api/x/payout-idempotency",
            &[Set::Note(
                "a 409 while the first request runs and a 400 for another request have no code of their own",
            )],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/plaid-transfer.md")]
pub static PLAID_TRANSFER: NamedContract = NamedContract {
    name: "plaid-transfer",
    title: "Plaid Transfer, authorizations",
    facts: &[(
        "github.com/plaid/plaid-openapi",
        &[
            Set::JsonPointer("/idempotency_key"),
            Set::Methods(&["POST"]),
            Set::Lengths(1, 50),
            Set::Window(Window::Exactly(hours(48))),
            Set::Note("`/transfer/create` is keyed by its `authorization_id`"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/modern-treasury.md")]
pub static MODERN_TREASURY: NamedContract = NamedContract {
    name: "modern-treasury",
    title: "Modern Treasury",
    facts: &[
        (
            "docs.moderntreasury.com/reference/idempotent-requests",
            &[
                Set::Header("Idempotency-Key"),
                Set::Methods(&["POST"]),
                Set::Window(Window::Exactly(hours(24))),
            ],
        ),
        (
            "docs.moderntreasury.com/reference/idempotent-requests: not even on another route",
            &[Set::Mismatch(MismatchDetection::NotDetected)],
        ),
        (
            "docs.moderntreasury.com/reference/idempotent-requests",
            &[
                Set::Failures(FailureStorage::Nothing),
                Set::Note("a 409 while the first request runs has no code of its own"),
            ],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/increase.md")]
pub static INCREASE: NamedContract = NamedContract {
    name: "increase",
    title: "Increase",
    facts: &[
        (
            "increase.com/documentation/idempotency-keys",
            &[
                Set::Header("Idempotency-Key"),
                Set::Methods(&["POST"]),
                Set::Lengths(1, 200),
                Set::Marker(Mark::Flag("Idempotent-Replayed")),
                Set::Answer(Answer {
                    statuses: Statuses::one(409),
                    when: When::Code(&["/type"], &["idempotency_key_already_used_error"]),
                    means: Meaning::Mismatch,
                    resource: Some("/resource_id"),
                }),
                Set::Mismatch(MismatchDetection::Detected),
            ],
        ),
        (
            "github.com/Increase/increase-python",
            &[Set::ShouldRetry("x-should-retry")],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/column.md")]
pub static COLUMN: NamedContract = NamedContract {
    name: "column",
    title: "Column",
    facts: &[(
        "column.com/docs/workingwithapi/idempotency",
        &[
            Set::Header("Idempotency-Key"),
            Set::Methods(&["POST"]),
            Set::Lengths(1, 255),
            Set::Window(Window::AtLeast(days(30))),
            Set::Failures(FailureStorage::Nothing),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/circle.md")]
pub static CIRCLE: NamedContract = NamedContract {
    name: "circle",
    title: "Circle",
    facts: &[(
        "developers.circle.com/api-reference/idempotent-requests",
        &[
            Set::JsonPointer("/idempotencyKey"),
            Set::Uuid(Some(4)),
            Set::Note("a repeat is answered with the first answer; keys count for one endpoint"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/coinbase-cdp.md")]
pub static COINBASE_CDP: NamedContract = NamedContract {
    name: "coinbase-cdp",
    title: "Coinbase Developer Platform, version 2",
    facts: &[
        (
            "github.com/coinbase/cdp-sdk, openapi.yaml",
            &[Set::Header("X-Idempotency-Key")],
        ),
        (
            "docs.cdp.coinbase.com/api-reference/v2/idempotency",
            &[Set::Uuid(Some(4))],
        ),
        (
            "github.com/coinbase/cdp-sdk, openapi.yaml",
            &[Set::Lengths(1, 128)],
        ),
        (
            "docs.cdp.coinbase.com/api-reference/v2/idempotency",
            &[Set::Window(Window::Exactly(hours(24)))],
        ),
        (
            "github.com/coinbase/cdp-sdk, openapi.yaml",
            &[
                code(
                    Statuses::one(422),
                    &["/errorType"],
                    &["idempotency_error"],
                    Meaning::Mismatch,
                ),
                Set::Mismatch(MismatchDetection::Detected),
                code(
                    Statuses::one(409),
                    &["/errorType"],
                    &["already_exists"],
                    Meaning::InProgress,
                ),
            ],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/flutterwave.md")]
pub static FLUTTERWAVE: NamedContract = NamedContract {
    name: "flutterwave",
    title: "Flutterwave, version 4",
    facts: &[(
        "developer.flutterwave.com/docs/idempotency",
        &[
            Set::Header("X-Idempotency-Key"),
            Set::Methods(&["POST"]),
            Set::Marker(Mark::Flag("X-Idempotency-Cache-Hit")),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/finix.md")]
pub static FINIX: NamedContract = NamedContract {
    name: "finix",
    title: "Finix",
    facts: &[(
        "docs.finix.com, Idempotent Requests",
        &[
            Set::JsonPointer("/idempotency_id"),
            Set::Mismatch(MismatchDetection::Detected),
            Set::Note("a key counts for one endpoint"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/fireblocks.md")]
pub static FIREBLOCKS: NamedContract = NamedContract {
    name: "fireblocks",
    title: "Fireblocks",
    facts: &[
        (
            "developers.fireblocks.com",
            &[
                Set::Header("Idempotency-Key"),
                Set::Methods(&["POST"]),
                Set::Lengths(1, 40),
                Set::Failures(FailureStorage::KeyBurned),
            ],
        ),
        (
            "developers.fireblocks.com: the same key after an internal error; told from other bad requests by what went before",
            &[status(400, Meaning::KeyUnusable)],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/picpay.md")]
pub static PICPAY: NamedContract = NamedContract {
    name: "picpay",
    title: "PicPay",
    facts: &[(
        "developers-business.picpay.com",
        &[
            Set::Header("x-Idempotency-Key"),
            status(208, Meaning::InProgress),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/wizit.md")]
pub static WIZIT: NamedContract = NamedContract {
    name: "wizit",
    title: "Wizit",
    facts: &[(
        "docs.wizit.money",
        &[
            Set::JsonPointer("/requestId"),
            Set::Uuid(None),
            status(412, Meaning::InProgress),
        ],
    )],
    compiled: OnceLock::new(),
};
