//! Standards, and the platforms that follow them in their own way.

use std::sync::OnceLock;

use super::NamedContract;
use super::fact::{Answer, Set, When, hours, minutes};
use crate::contract::{Meaning, Statuses, Window, problem};

#[doc = include_str!("../docs/named/ietf-draft.md")]
pub static IETF_DRAFT: NamedContract = NamedContract {
    name: "ietf-draft",
    title: "the IETF draft \"The Idempotency-Key HTTP Header Field\"",
    facts: &[
        (
            "draft-ietf-httpapi-idempotency-key-header-06, section Syntax",
            &[Set::QuotedHeader("Idempotency-Key")],
        ),
        (
            "draft-ietf-httpapi-idempotency-key-header-06, abstract and introduction",
            &[Set::Methods(&["POST", "PATCH"])],
        ),
        (
            "draft-ietf-httpapi-idempotency-key-header-06, section Error Scenarios",
            &[
                Set::Otherwise(Answer {
                    statuses: Statuses::one(409),
                    when: When::ContentType(problem::CONTENT_TYPE),
                    means: Meaning::InProgress,
                    resource: None,
                }),
                Set::Otherwise(Answer {
                    statuses: Statuses::one(422),
                    when: When::ContentType(problem::CONTENT_TYPE),
                    means: Meaning::Mismatch,
                    resource: None,
                }),
                Set::Note(
                    "the draft registers no problem type, so the status and the content type decide; a 400, 409 or 422 without a problem document stays plain",
                ),
            ],
        ),
        (
            "draft-ietf-httpapi-idempotency-key-header-06",
            &[Set::Note(
                "revision 07 of October 2025 was not compared; most deployed servers want the bare form",
            )],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/oasis-repeatable-requests.md")]
pub static OASIS: NamedContract = NamedContract {
    name: "oasis-repeatable-requests",
    title: "OASIS Repeatable Requests 1.0",
    facts: &[
        (
            "docs.oasis-open.org/odata/repeatable-requests/v1.0/cs01",
            &[
                Set::Header("Repeatability-Request-ID"),
                Set::FirstSent("Repeatability-First-Sent"),
                Set::Methods(&["POST", "PATCH", "PUT", "DELETE"]),
            ],
        ),
        (
            "github.com/microsoft/api-guidelines, azure/Guidelines.md: the tracked window is at least 5 minutes",
            &[Set::Window(Window::AtLeast(minutes(5)))],
        ),
        (
            "learn.microsoft.com/rest/api/communication/repeatable-requests: first sent outside the tracked window",
            &[Set::Answer(Answer {
                statuses: Statuses::one(412),
                when: When::Header("Repeatability-Result", Some("rejected")),
                means: Meaning::KeyUnusable,
                resource: None,
            })],
        ),
        (
            "docs.oasis-open.org/odata/repeatable-requests/v1.0/cs01, as quoted in github.com/ietf-wg-httpapi/idempotency/issues/31",
            &[Set::Answer(Answer {
                statuses: Statuses::one(501),
                when: When::Header("Repeatability-Result", None),
                means: Meaning::NotExecuted,
                resource: None,
            })],
        ),
        (
            "docs.oasis-open.org/odata/repeatable-requests/v1.0/cs01",
            &[Set::Note(
                "`Repeatability-Result: accepted` says that the contract was honoured, not that the answer is a replay",
            )],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/aip-155.md")]
pub static AIP_155: NamedContract = NamedContract {
    name: "aip-155",
    title: "Google AIP-155, request identification, over JSON",
    facts: &[
        (
            "google.aip.dev/155: a field of the request message; its JSON name",
            &[Set::JsonPointer("/requestId")],
        ),
        (
            "google.aip.dev/155",
            &[
                Set::Lengths(1, 36),
                Set::Note(
                    "where the HTTP rule of a method sends only a part of the message as its body, the field is a query parameter: `to_builder().query_parameter(\"requestId\")`",
                ),
                Set::Note(
                    "a repeat is answered with the earlier success, or with the current state of the resource",
                ),
            ],
        ),
    ],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/uk-open-banking.md")]
pub static UK_OPEN_BANKING: NamedContract = NamedContract {
    name: "uk-open-banking",
    title: "UK Open Banking, read/write API",
    facts: &[(
        "github.com/OpenBankingUK/read-write-api-docs-pub",
        &[
            Set::Header("x-idempotency-key"),
            Set::Lengths(1, 40),
            Set::Window(Window::Exactly(hours(24))),
            Set::Note(
                "only where the endpoint lists the header; a repeat is a 201 with the current state of the resource; wait at least 1 s between duplicates",
            ),
        ],
    )],
    compiled: OnceLock::new(),
};
