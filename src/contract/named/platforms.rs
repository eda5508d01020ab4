//! Messaging, billing and other services.

use std::sync::OnceLock;

use super::NamedContract;
use super::fact::{Mark, Set, code, hours, minutes, status};
use crate::contract::{FailureStorage, Meaning, MismatchDetection, Statuses, Window};

#[doc = include_str!("../docs/named/xero.md")]
pub static XERO: NamedContract = NamedContract {
    name: "xero",
    title: "Xero",
    facts: &[(
        "github.com/XeroAPI/Xero-OpenAPI",
        &[Set::Header("Idempotency-Key"), Set::Lengths(1, 128)],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/shopify.md")]
pub static SHOPIFY: NamedContract = NamedContract {
    name: "shopify",
    title: "Shopify, GraphQL Admin API",
    facts: &[(
        "shopify.dev/docs/api/usage/idempotent-requests",
        &[
            Set::JsonPointer("/variables/idempotencyKey"),
            Set::Methods(&["POST"]),
            Set::Note(
                "the mutation has to declare the variable and pass it on: `@idempotent(key: $idempotencyKey)`",
            ),
            Set::Note("errors are in a 200, in `userErrors`; their codes are not verified"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/workos.md")]
pub static WORKOS: NamedContract = NamedContract {
    name: "workos",
    title: "WorkOS",
    facts: &[
        (
            "github.com/workos/workos-node",
            &[Set::Header("Idempotency-Key"), Set::Methods(&["POST"])],
        ),
        (
            "workos.com/docs",
            &[Set::Window(Window::Exactly(hours(24)))],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/zendesk.md")]
pub static ZENDESK: NamedContract = NamedContract {
    name: "zendesk",
    title: "Zendesk, creating tickets",
    facts: &[(
        "github.com/cloudbees-oss/zendesk-java-client",
        &[
            Set::Header("Idempotency-Key"),
            Set::Methods(&["POST"]),
            Set::Lengths(1, 255),
            Set::Marker(Mark::Words("x-idempotency-lookup", &["hit"], &["miss"])),
            code(
                Statuses::one(400),
                &["/error"],
                &["IdempotentRequestError"],
                Meaning::Mismatch,
            ),
            Set::Mismatch(MismatchDetection::Detected),
            Set::Note(
                "secondary texts give a window of 2 hours, and 24 hours would be assumed: the shorter is not verified, set it with `with_window`",
            ),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/chargebee.md")]
pub static CHARGEBEE: NamedContract = NamedContract {
    name: "chargebee",
    title: "Chargebee",
    facts: &[(
        "apidocs.chargebee.com; github.com/chargebee/chargebee-node",
        &[
            Set::Header("chargebee-idempotency-key"),
            Set::Methods(&["POST"]),
            Set::Lengths(1, 100),
            Set::Window(Window::Exactly(minutes(30))),
            Set::Marker(Mark::Flag("chargebee-idempotency-replayed")),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/zuora.md")]
pub static ZUORA: NamedContract = NamedContract {
    name: "zuora",
    title: "Zuora",
    facts: &[(
        "developer.zuora.com",
        &[
            Set::Header("Idempotency-Key"),
            Set::Methods(&["POST", "PATCH"]),
            Set::Lengths(1, 254),
            Set::Window(Window::Exactly(hours(24))),
            Set::Mismatch(MismatchDetection::Detected),
            Set::Failures(FailureStorage::Everything),
            Set::Note(
                "another request is a 422, and a first request that still runs a 409, without codes of their own",
            ),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/hyperline.md")]
pub static HYPERLINE: NamedContract = NamedContract {
    name: "hyperline",
    title: "Hyperline",
    facts: &[(
        "docs.hyperline.co/api-reference/docs/idempotent-requests",
        &[
            Set::Header("Idempotency-Key"),
            Set::Methods(&["POST", "PUT", "PATCH"]),
            Set::Lengths(16, 255),
            Set::Window(Window::Exactly(hours(24))),
            status(417, Meaning::Mismatch),
            Set::Mismatch(MismatchDetection::Detected),
            Set::Failures(FailureStorage::Nothing),
            Set::Note("a first request that still runs is a 409 without a code of its own"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/whop.md")]
pub static WHOP: NamedContract = NamedContract {
    name: "whop",
    title: "Whop",
    facts: &[(
        "docs.whop.com/developer/api/idempotency",
        &[
            Set::Header("Idempotency-Key"),
            Set::Methods(&["POST"]),
            Set::Lengths(1, 255),
            Set::Window(Window::Exactly(hours(24))),
            Set::Marker(Mark::Flag("Idempotent-Replayed")),
            code(
                Statuses::one(400),
                &["/error/code", "/error/type"],
                &["idempotency_key_mismatch"],
                Meaning::Mismatch,
            ),
            Set::Mismatch(MismatchDetection::Detected),
            code(
                Statuses::one(409),
                &["/error/code", "/error/type"],
                &["idempotency_request_in_progress"],
                Meaning::InProgress,
            ),
            Set::Failures(FailureStorage::ClientErrors),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/epay.md")]
pub static EPAY: NamedContract = NamedContract {
    name: "epay",
    title: "ePay.eu",
    facts: &[(
        "docs.epay.eu/guides/idempotency-keys",
        &[
            Set::Header("Idempotency-Key"),
            Set::Window(Window::Exactly(hours(24))),
            Set::Marker(Mark::Flag("Idempotent-Replayed")),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/fiskaly.md")]
pub static FISKALY: NamedContract = NamedContract {
    name: "fiskaly",
    title: "fiskaly, unified API",
    facts: &[(
        "developer.fiskaly.com/blog/unified-api-idempotency-transparency",
        &[
            Set::Header("X-Idempotency-Key"),
            Set::Methods(&["POST", "PATCH"]),
            Set::Marker(Mark::Flag("X-Idempotency-Replayed")),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/integrated-finance.md")]
pub static INTEGRATED_FINANCE: NamedContract = NamedContract {
    name: "integrated-finance",
    title: "integrated.finance",
    facts: &[(
        "developer.integrated.finance/changelog",
        &[
            Set::Header("X-Idempotency-Key"),
            Set::Methods(&["POST"]),
            Set::Marker(Mark::Words(
                "X-Idempotency-Status",
                &["replayed"],
                &["processed"],
            )),
            Set::Mismatch(MismatchDetection::Detected),
            Set::Note("another request is a 400 without a code of its own"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/quickbooks.md")]
pub static QUICKBOOKS: NamedContract = NamedContract {
    name: "quickbooks",
    title: "Intuit QuickBooks Online",
    facts: &[(
        "blogs.intuit.com/2015/04/06/15346",
        &[
            Set::QueryParameter("requestid"),
            Set::Lengths(1, 50),
            Set::Note("36 characters in batches; keys count for one company"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/lob.md")]
pub static LOB: NamedContract = NamedContract {
    name: "lob",
    title: "Lob",
    facts: &[
        (
            "github.com/lob/lob-openapi",
            &[
                Set::QueryParameter("idempotency_key"),
                Set::Methods(&["POST"]),
            ],
        ),
        (
            "github.com/lob/lob-openapi: 256, one more than a key of this crate has",
            &[Set::Lengths(1, 255)],
        ),
        (
            "github.com/lob/lob-openapi",
            &[
                Set::Window(Window::Exactly(hours(24))),
                Set::Note(
                    "the header `Idempotency-Key` is the other way; a request with both is refused",
                ),
            ],
        ),
    ],
    compiled: OnceLock::new(),
};
