//! Clouds: AWS, Azure, Google, Alibaba, Oracle, and Iceberg catalogs.

use std::sync::OnceLock;

use super::NamedContract;
use super::fact::{Answer, CLIENT_ERRORS, Set, When, code, hours, minutes};
use crate::contract::{FailureStorage, Meaning, MismatchDetection, Statuses, Window};

#[doc = include_str!("../docs/named/azure-communication.md")]
pub static AZURE_COMMUNICATION: NamedContract = NamedContract {
    name: "azure-communication",
    title: "Azure Communication Services (email, rooms)",
    facts: &[(
        "learn.microsoft.com/rest/api/communication/repeatable-requests",
        &[
            Set::Header("Repeatability-Request-ID"),
            Set::FirstSent("Repeatability-First-Sent"),
            Set::Methods(&["POST"]),
            Set::Uuid(None),
            Set::Window(Window::Exactly(minutes(5))),
            Set::Answer(Answer {
                statuses: Statuses::one(412),
                when: When::Header("Repeatability-Result", Some("rejected")),
                means: Meaning::KeyUnusable,
                resource: None,
            }),
            Set::Answer(Answer {
                statuses: Statuses::one(409),
                when: When::Header("Repeatability-Result", Some("accepted")),
                means: Meaning::InProgress,
                resource: None,
            }),
            Set::Answer(Answer {
                statuses: Statuses::one(400),
                when: When::Header("Repeatability-Result", Some("rejected")),
                means: Meaning::Mismatch,
                resource: None,
            }),
            Set::Mismatch(MismatchDetection::Detected),
            Set::Failures(FailureStorage::ClientErrors),
            Set::Note(
                "a client clock that is off by more than the window makes every request a 412",
            ),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/compute-engine.md")]
pub static COMPUTE_ENGINE: NamedContract = NamedContract {
    name: "compute-engine",
    title: "Google Compute Engine",
    facts: &[(
        "cloud.google.com/python/docs/reference/compute, InsertInstanceRequest.request_id",
        &[
            Set::QueryParameter("requestId"),
            Set::Uuid(None),
            Set::Note("the zero UUID is refused"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/aws-client-token.md")]
pub static AWS_CLIENT_TOKEN: NamedContract = NamedContract {
    name: "aws-client-token",
    title: "AWS client tokens, over JSON",
    facts: &[(
        "docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html",
        &[
            Set::JsonPointer("/ClientToken"),
            Set::Lengths(1, 64),
            code(
                CLIENT_ERRORS,
                &["/__type", "/code", "/Code", "/Error/Code"],
                &[
                    "IdempotentParameterMismatch",
                    "IdempotentParameterMismatchException",
                ],
                Meaning::Mismatch,
            ),
            Set::Mismatch(MismatchDetection::Detected),
            Set::Note(
                "services spell the member `ClientToken`, `clientToken`, `ClientRequestToken` or `idempotencyToken`: name yours with `to_builder().json_pointer(..)`",
            ),
            Set::Note("a repeat may carry the updated state; the scope is one region"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/aws-ec2.md")]
pub static AWS_EC2: NamedContract = NamedContract {
    name: "aws-ec2",
    title: "Amazon EC2, query protocol",
    facts: &[(
        "docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html",
        &[
            Set::FormField("ClientToken"),
            Set::Methods(&["POST"]),
            Set::Lengths(1, 64),
            Set::Mismatch(MismatchDetection::Detected),
            Set::Note(
                "errors are XML, which is not read: a mismatch (`IdempotentParameterMismatch`) is a plain 400",
            ),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/sqs-fifo.md")]
pub static SQS_FIFO: NamedContract = NamedContract {
    name: "sqs-fifo",
    title: "Amazon SQS, FIFO queues",
    facts: &[(
        "docs.aws.amazon.com/AWSSimpleQueueService, SendMessage.MessageDeduplicationId",
        &[
            Set::JsonPointer("/MessageDeduplicationId"),
            Set::Methods(&["POST"]),
            Set::Lengths(1, 128),
            Set::Window(Window::Exactly(minutes(5))),
            Set::Mismatch(MismatchDetection::NotDetected),
            Set::Note("a duplicate is accepted with success and not delivered"),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/alibaba-cloud.md")]
pub static ALIBABA_CLOUD: NamedContract = NamedContract {
    name: "alibaba-cloud",
    title: "Alibaba Cloud",
    facts: &[(
        "alibabacloud.com/help/doc-detail/25693.html",
        &[
            Set::QueryParameter("ClientToken"),
            Set::Lengths(1, 64),
            code(
                CLIENT_ERRORS,
                &["/Code"],
                &["IdempotentParameterMismatch"],
                Meaning::Mismatch,
            ),
            Set::Mismatch(MismatchDetection::Detected),
            Set::Note(
                "`SignatureNonce`, `Timestamp` and `Signature` are new on every attempt: sign in a middleware that runs per attempt, in headers",
            ),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/iceberg-rest.md")]
pub static ICEBERG_REST: NamedContract = NamedContract {
    name: "iceberg-rest",
    title: "Apache Iceberg REST catalogs",
    facts: &[(
        "github.com/apache/iceberg, open-api/rest-catalog-open-api.yaml",
        &[
            Set::Header("Idempotency-Key"),
            Set::Uuid(Some(7)),
            Set::Lengths(36, 36),
            Set::Failures(FailureStorage::ClientErrors),
            Set::Note(
                "the server announces its window as `idempotency-key-lifetime` in `GET /v1/config`, and supports keys only where it does: set it with `with_window(Window::advertised(..))`",
            ),
        ],
    )],
    compiled: OnceLock::new(),
};

#[doc = include_str!("../docs/named/oracle-oci.md")]
pub static ORACLE_OCI: NamedContract = NamedContract {
    name: "oracle-oci",
    title: "Oracle Cloud Infrastructure",
    facts: &[(
        "github.com/oracle/oci-python-sdk",
        &[
            Set::Header("opc-retry-token"),
            Set::Lengths(1, 64),
            Set::Window(Window::Exactly(hours(24))),
            Set::Note("a conflicting operation may invalidate the token earlier"),
        ],
    )],
    compiled: OnceLock::new(),
};
