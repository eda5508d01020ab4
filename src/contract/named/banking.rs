//! Banks, payouts and payment platforms.

use std::sync::OnceLock;

use super::NamedContract;
use super::fact::{Mark, Set, code, days, hours, minutes, status};
use crate::contract::{FailureStorage, Meaning, MismatchDetection, Statuses, Window};

#[doc = include_str!("../docs/named/moov.md")]
pub static MOOV: NamedContract = NamedContract {
    name: "moov",
    title: "Moov, transfers",
    facts: &[
        (
            "docs.moov.io",
            &[
                Set::Header("X-Idempotency-Key"),
                Set::Lengths(1, 36),
                Set::Window(Window::Forever),
            ],
        ),
        (
            "docs.moov.io: a repeat is a 409",
            &[status(409, Meaning::AlreadyDone)],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/mangopay.md")]
pub static MANGOPAY: NamedContract = NamedContract {
    name: "mangopay",
    title: "Mangopay",
    facts: &[
        (
            "docs.mangopay.com",
            &[
                Set::Header("Idempotency-Key"),
                Set::Methods(&["POST"]),
                Set::Lengths(16, 36),
                Set::Alphabet("-"),
                Set::Window(Window::Exactly(hours(24))),
            ],
        ),
        (
            "docs.mangopay.com: a repeat is blocked; fetch the first answer by its own call",
            &[status(409, Meaning::AlreadyDone)],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/qonto.md")]
pub static QONTO: NamedContract = NamedContract {
    name: "qonto",
    title: "Qonto",
    facts: &[(
        "docs.qonto.com/get-started/general/idempotent-requests",
        &[
            Set::Header("X-Qonto-Idempotency-Key"),
            Set::Window(Window::Exactly(minutes(30))),
            Set::Mismatch(MismatchDetection::NotDetected),
            Set::Failures(FailureStorage::Nothing),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/truelayer.md")]
pub static TRUELAYER: NamedContract = NamedContract {
    name: "truelayer",
    title: "TrueLayer, Payments version 3",
    facts: &[(
        "docs.truelayer.com/docs/add-idempotency-to-your-payments-requests",
        &[
            Set::Header("Idempotency-Key"),
            Set::Window(Window::Exactly(days(30))),
            Set::Mismatch(MismatchDetection::Detected),
            Set::Note("the request is signed, this header included"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/worldline.md")]
pub static WORLDLINE: NamedContract = NamedContract {
    name: "worldline",
    title: "Worldline Direct and Connect",
    facts: &[
        (
            "docs.direct.worldline-solutions.com/integration/api-developer-guide/idempotent-requests",
            &[
                Set::Header("X-GCS-Idempotence-Key"),
                Set::Methods(&["POST"]),
                Set::Lengths(1, 40),
                Set::Window(Window::AtLeast(hours(24))),
                Set::Marker(Mark::Presence("X-GCS-Idempotence-Request-Timestamp")),
            ],
        ),
        (
            "github.com/Worldline-Global-Collect/connect-sdk-python3",
            &[code(
                Statuses::one(409),
                &["/errors/0/code", "/errors/0/errorCode"],
                &["1409"],
                Meaning::InProgress,
            )],
        ),
        (
            "docs.direct.worldline-solutions.com/integration/api-developer-guide/idempotent-requests",
            &[
                Set::Mismatch(MismatchDetection::NotDetected),
                Set::Note("a repeat may carry an updated status"),
            ],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/ppro.md")]
pub static PPRO: NamedContract = NamedContract {
    name: "ppro",
    title: "PPRO",
    facts: &[(
        "developerhub.ppro.com",
        &[
            Set::Header("Request-Idempotency-Key"),
            Set::Methods(&["POST", "PATCH"]),
            Set::Window(Window::Exactly(hours(24))),
            Set::Marker(Mark::Flag("Request-Idempotency")),
            Set::Failures(FailureStorage::Nothing),
            Set::Note("in progress and another request are both a 409"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/interchecks.md")]
pub static INTERCHECKS: NamedContract = NamedContract {
    name: "interchecks",
    title: "Interchecks",
    facts: &[
        (
            "docs-v2.interchecks.com/docs/idempotent-requests",
            &[
                Set::Header("Idempotency-Key"),
                Set::Methods(&["POST"]),
                Set::Window(Window::Exactly(hours(24))),
            ],
        ),
        (
            "docs-v2.interchecks.com/docs/idempotent-requests: the body is the first answer",
            &[status(409, Meaning::AlreadyDone)],
        ),
        (
            "docs-v2.interchecks.com/docs/idempotent-requests",
            &[
                status(102, Meaning::InProgress),
                Set::Note(
                    "HTTP takes a 102 for an interim answer (RFC 9110, section 15.2) and waits on: the attempt runs out of time and is repeated with its key",
                ),
            ],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/smartretry.md")]
pub static SMARTRETRY: NamedContract = NamedContract {
    name: "smartretry",
    title: "SmartRetry",
    facts: &[(
        "smartretry.com",
        &[
            Set::Header("Idempotency-Key"),
            Set::Window(Window::Exactly(hours(24))),
            code(
                Statuses::one(409),
                &["/code", "/error/code", "/errorCode", "/error"],
                &["IDEMPOTENCY_CONFLICT"],
                Meaning::Mismatch,
            ),
            Set::Mismatch(MismatchDetection::Detected),
            code(
                Statuses::one(503),
                &["/code", "/error/code", "/errorCode", "/error"],
                &["RESOURCE_LOCKED"],
                Meaning::InProgress,
            ),
            Set::Failures(FailureStorage::ClientErrors),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/method.md")]
pub static METHOD: NamedContract = NamedContract {
    name: "method",
    title: "Method Financial",
    facts: &[
        (
            "docs.methodfi.com/reference/idempotency",
            &[
                Set::Header("Idempotency-Key"),
                Set::Methods(&["POST"]),
                Set::Lengths(1, 255),
                Set::Failures(FailureStorage::Everything),
            ],
        ),
        (
            "docs.methodfi.com/reference/idempotency: the store of keys is down",
            &[code(
                Statuses::one(503),
                &["/data/error/sub_type", "/error/sub_type", "/sub_type"],
                &["IDEMPOTENCY_UNAVAILABLE"],
                Meaning::NotExecuted,
            )],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/fintoc.md")]
pub static FINTOC: NamedContract = NamedContract {
    name: "fintoc",
    title: "Fintoc",
    facts: &[(
        "docs.fintoc.com",
        &[
            Set::Header("Idempotency-Key"),
            Set::Lengths(1, 255),
            Set::Window(Window::AtLeast(hours(24))),
            Set::Mismatch(MismatchDetection::Detected),
            Set::Failures(FailureStorage::Everything),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/solid.md")]
pub static SOLID: NamedContract = NamedContract {
    name: "solid",
    title: "Solid, version 2",
    facts: &[
        (
            "docs.solidfi.com/v2/api-reference/getting-started/idempotency",
            &[
                Set::Header("Idempotency-Key"),
                Set::Methods(&["POST", "PATCH"]),
                Set::Window(Window::Exactly(hours(24))),
                Set::Mismatch(MismatchDetection::NotDetected),
            ],
        ),
        (
            "docs.solidfi.com/v2/api-reference/getting-started/idempotency: all but 429",
            &[Set::Failures(FailureStorage::Everything)],
        ),
        (
            "docs.solidfi.com/v2/api-reference/getting-started/idempotency: asks for a new key",
            &[code(
                Statuses::one(409),
                &["/code", "/error/code", "/errorCode", "/error_code"],
                &["EC_QLDB_OCC_ERROR_RETRY"],
                Meaning::KeyUnusable,
            )],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/yuno.md")]
pub static YUNO: NamedContract = NamedContract {
    name: "yuno",
    title: "Yuno",
    facts: &[(
        "docs.y.uno",
        &[
            Set::Header("X-Idempotency-Key"),
            Set::Lengths(1, 64),
            Set::Window(Window::Exactly(hours(24))),
            Set::Mismatch(MismatchDetection::NotDetected),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/datatrans.md")]
pub static DATATRANS: NamedContract = NamedContract {
    name: "datatrans",
    title: "Datatrans",
    facts: &[(
        "docs.datatrans.ch",
        &[
            Set::Header("Idempotency-Key"),
            Set::Methods(&["POST"]),
            Set::Window(Window::Exactly(minutes(60))),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/payfacto.md")]
pub static PAYFACTO: NamedContract = NamedContract {
    name: "payfacto",
    title: "Payfacto",
    facts: &[(
        "cd.support.payfacto.com",
        &[
            Set::Header("Idempotency-Key"),
            Set::Methods(&["POST", "PATCH"]),
            Set::Lengths(1, 64),
            Set::Window(Window::Exactly(hours(24))),
            Set::Marker(Mark::Flag("Idempotent-Replayed")),
            code(
                Statuses::one(409),
                &["/code", "/error/code", "/errorCode", "/error"],
                &["IDEMPOTENCY_KEY_REUSED"],
                Meaning::Mismatch,
            ),
            Set::Mismatch(MismatchDetection::Detected),
            Set::Note("a first answer of 201 is replayed as a 200"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/alpaca.md")]
pub static ALPACA: NamedContract = NamedContract {
    name: "alpaca",
    title: "Alpaca",
    facts: &[
        ("docs.alpaca.markets", &[Set::Header("Idempotency-Key")]),
        (
            "docs.alpaca.markets: 128 for now, announced to become 36",
            &[Set::Lengths(1, 36)],
        ),
        (
            "docs.alpaca.markets",
            &[
                Set::Marker(Mark::Flag("Idempotent-Replayed")),
                Set::Mismatch(MismatchDetection::Detected),
                Set::Note("another request under the key is a 422 without a code of its own"),
            ],
        ),
    ],
    compiled: OnceLock::new(),
};
