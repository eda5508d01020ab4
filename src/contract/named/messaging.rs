//! Messages and notifications.

use std::sync::OnceLock;

use super::NamedContract;
use super::fact::{CLIENT_ERRORS, Mark, Set, code, hours, status};
use crate::contract::{FailureStorage, Meaning, MismatchDetection, Statuses, Window};

#[doc = include_str!("../docs/named/resend.md")]
pub static RESEND: NamedContract = NamedContract {
    name: "resend",
    title: "Resend",
    facts: &[
        (
            "resend.com/docs/dashboard/emails/idempotency-keys",
            &[Set::Header("Idempotency-Key"), Set::Methods(&["POST"])],
        ),
        (
            "resend.com/docs/dashboard/emails/idempotency-keys: 256, one more than a key of this crate has",
            &[Set::Lengths(1, 255)],
        ),
        (
            "resend.com/docs/dashboard/emails/idempotency-keys",
            &[
                Set::Window(Window::Exactly(hours(24))),
                code(
                    Statuses::one(409),
                    &["/name"],
                    &["invalid_idempotent_request"],
                    Meaning::Mismatch,
                ),
                Set::Mismatch(MismatchDetection::Detected),
                code(
                    Statuses::one(409),
                    &["/name"],
                    &["concurrent_idempotent_requests"],
                    Meaning::InProgress,
                ),
                code(
                    Statuses::one(400),
                    &["/name"],
                    &["invalid_idempotency_key"],
                    Meaning::KeyUnusable,
                ),
            ],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/line.md")]
pub static LINE: NamedContract = NamedContract {
    name: "line",
    title: "LINE Messaging API",
    facts: &[
        (
            "developers.line.biz/en/docs/messaging-api/retrying-api-request",
            &[
                Set::Header("X-Line-Retry-Key"),
                Set::Methods(&["POST"]),
                Set::Uuid(None),
            ],
        ),
        (
            "developers.line.biz/en/docs/messaging-api/retrying-api-request: the request was accepted before",
            &[status(409, Meaning::AlreadyDone)],
        ),
        (
            "developers.line.biz/en/docs/messaging-api/retrying-api-request",
            &[Set::Note(
                "endpoints that do not take the header answer 400",
            )],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/twilio.md")]
pub static TWILIO: NamedContract = NamedContract {
    name: "twilio",
    title: "Twilio, APIs that take a key",
    facts: &[
        (
            "twilio.com/docs/api/errors/17534",
            &[
                Set::Header("Idempotency-Key"),
                code(CLIENT_ERRORS, &["/code"], &["17534"], Meaning::Mismatch),
                Set::Mismatch(MismatchDetection::Detected),
            ],
        ),
        (
            "twilio.com/docs/api/errors/20500",
            &[Set::Note("the classic messaging and voice APIs take none")],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/knock.md")]
pub static KNOCK: NamedContract = NamedContract {
    name: "knock",
    title: "Knock, workflow triggers",
    facts: &[(
        "github.com/knocklabs/docs",
        &[
            Set::Header("Idempotency-Key"),
            Set::Lengths(1, 255),
            Set::Window(Window::Exactly(hours(24))),
            Set::Marker(Mark::Flag("Idempotent-Replayed")),
            Set::Failures(FailureStorage::Nothing),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/novu.md")]
pub static NOVU: NamedContract = NamedContract {
    name: "novu",
    title: "Novu",
    facts: &[(
        "github.com/novuhq/docs",
        &[
            Set::Header("Idempotency-Key"),
            Set::Methods(&["POST", "PATCH"]),
            Set::Lengths(1, 255),
            Set::Window(Window::Exactly(hours(24))),
            Set::Marker(Mark::Flag("Idempotency-Replay")),
            Set::Marker(Mark::Echo("Idempotency-Key")),
            Set::Mismatch(MismatchDetection::Detected),
            Set::Failures(FailureStorage::Everything),
            Set::Note(
                "another request is a 422, and a first request that still runs a 409 with `Retry-After: 1`, without codes of their own",
            ),
            Set::Note(
                "honoured only where the request is authenticated by an API key, otherwise ignored",
            ),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/telnyx.md")]
pub static TELNYX: NamedContract = NamedContract {
    name: "telnyx",
    title: "Telnyx",
    facts: &[(
        "developers.telnyx.com/docs/development/api-fundamentals/idempotency",
        &[
            Set::Header("Idempotency-Key"),
            Set::Lengths(1, 255),
            Set::Alphabet("_:-"),
            Set::Window(Window::Exactly(hours(24))),
            Set::Mismatch(MismatchDetection::Detected),
            Set::Failures(FailureStorage::Nothing),
            Set::Note("another request is a 422 without a code of its own"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/courier.md")]
pub static COURIER: NamedContract = NamedContract {
    name: "courier",
    title: "Courier",
    facts: &[(
        "courier.com/docs",
        &[
            Set::Header("Idempotency-Key"),
            Set::Methods(&["POST"]),
            Set::Window(Window::AtLeast(hours(24))),
            Set::Failures(FailureStorage::Everything),
            Set::Note(
                "the client may choose for how long, 24 hours to a year: `companion(Companion::ExpiresAt { header: \"x-idempotency-expiration\".into(), keep })`, with the same time in `window`",
            ),
        ],
    )],
    compiled: OnceLock::new(),
};
