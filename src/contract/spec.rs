//! A contract as it is written down, and the check that turns it into one that can be relied on.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderName, Method};

use super::answers::AnswerRule;
use super::carrier::{Carrier, Companion, KeyEncoding, KeyFormat};
use super::check::{check_answer, check_companions, check_format, check_marker, header_name};
use super::markers::Markers;
use super::replay::MarkerRule;
use super::window::{FailureStorage, MismatchDetection, Window};
use super::{ContractError, WaitHeader};

/// Everything that a contract says, not yet checked.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) name: Cow<'static, str>,
    pub(super) carrier: Place,
    pub(super) companions: Vec<Companion>,
    pub(super) encoding: KeyEncoding,
    pub(super) format: KeyFormat,
    pub(super) methods: Vec<Method>,
    pub(super) window: Window,
    pub(super) failures: FailureStorage,
    pub(super) mismatch: MismatchDetection,
    pub(super) markers: Vec<MarkerRule>,
    pub(super) answers: Vec<AnswerRule>,
    pub(super) conflict_is_final: bool,
    pub(super) wait_headers: Vec<WaitHeader>,
    pub(super) should_retry: Vec<Cow<'static, str>>,
    /// Whether the server is known to mark replays, beyond what is recognised everywhere.
    pub(super) marks_replays: bool,
}

/// A [`Carrier`] whose name is not checked yet.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Header(Cow<'static, str>),
    JsonPointer(Cow<'static, str>),
    FormField(Cow<'static, str>),
    QueryParameter(Cow<'static, str>),
}

/// A contract that was checked, arranged for reading.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) spec: Spec,
    pub(super) carrier: Carrier,
    pub(super) companions: Box<[(HeaderName, Companion)]>,
    pub(super) markers: Markers,
    pub(super) should_retry: Box<[HeaderName]>,
    /// The hundreds of statuses about which some rule speaks, as a set of bits.
    pub(super) classes: u8,
}

impl Spec {
    pub(super) fn compile(self) -> Result<Compiled, ContractError> {
        if self.name.is_empty() {
            return Err(ContractError::Missing { what: "a name" });
        }
        if self.methods.is_empty() {
            return Err(ContractError::Missing {
                what: "at least one method",
            });
        }
        if let Some(method) = self.methods.iter().find(|method| method.is_safe()) {
            let method = method.to_string();
            return Err(ContractError::Method { method });
        }
        if self.window.published() == Some(Duration::ZERO) {
            return Err(ContractError::Zero { what: "the window" });
        }
        check_format(&self.format)?;
        let carrier = self.carrier.check()?;
        if self.encoding != KeyEncoding::Bare && !matches!(carrier, Carrier::Header(_)) {
            return Err(ContractError::EncodingWithoutHeader);
        }
        let companions = check_companions(&self.companions, &carrier)?;
        self.markers.iter().try_for_each(check_marker)?;
        self.answers.iter().try_for_each(check_answer)?;
        let should_retry = self
            .should_retry
            .iter()
            .map(|name| header_name("a verdict about repeating", name))
            .collect::<Result<_, _>>()?;

        let classes = self.answers.iter().fold(0, |classes, rule| {
            (rule.statuses.first / 100..=rule.statuses.last / 100)
                .fold(classes, |classes, class| classes | 1 << class)
        });
        let markers = Markers::new(self.markers.iter().cloned());
        Ok(Compiled {
            spec: self,
            carrier,
            companions,
            markers,
            should_retry,
            classes,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::contract::{Condition, Contract, ContractBuilder, Meaning, Statuses};

    fn day() -> Duration {
        Duration::from_secs(24 * 60 * 60)
    }

    #[test]
    fn a_contract_can_say_what_oasis_repeatable_requests_says() {
        let rejected = |status, means| AnswerRule {
            statuses: Statuses::one(status),
            when: Condition::Header {
                name: "repeatability-result".into(),
                value: Some("rejected".into()),
            },
            means,
            resource: None,
        };
        let contract = Contract::builder("repeatable requests")
            .header("Repeatability-Request-ID")
            .companion(Companion::FirstSent {
                header: "Repeatability-First-Sent".into(),
            })
            .methods([Method::POST, Method::PATCH, Method::PUT, Method::DELETE])
            .window(Window::Exactly(Duration::from_secs(300)))
            .answer(rejected(412, Meaning::KeyUnusable))
            .answer(rejected(501, Meaning::NotExecuted))
            .build()
            .unwrap();
        let first_sent = UNIX_EPOCH + Duration::from_millis(1_431_704_061_900);
        let companions: Vec<_> = contract.companion_headers(first_sent).collect();
        assert_eq!(companions.len(), 1);
        assert_eq!(companions[0].0, "repeatability-first-sent");
        assert_eq!(companions[0].1, "Fri, 15 May 2015 15:34:21 GMT");

        let mut headers = http::HeaderMap::new();
        headers.insert("repeatability-result", "Rejected".parse().unwrap());
        let meaning = |status: u16| {
            contract
                .read(status.try_into().unwrap(), &headers, b"")
                .meaning
        };
        assert_eq!(meaning(412), Meaning::KeyUnusable);
        assert_eq!(meaning(501), Meaning::NotExecuted);
        assert_eq!(meaning(400), Meaning::Plain);
        assert_eq!(contract.window().bound(), Some(Duration::from_secs(300)));
    }

    #[test]
    fn companion_headers_survive_any_clock() {
        let contract = Contract::builder("shop")
            .companion(Companion::FirstSent {
                header: "x-first".into(),
            })
            .companion(Companion::ExpiresAt {
                header: "x-until".into(),
                keep: day(),
            })
            .build()
            .unwrap();
        let values = |time| {
            contract
                .companion_headers(time)
                .map(|(_, value)| value)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            values(UNIX_EPOCH),
            ["Thu, 01 Jan 1970 00:00:00 GMT", "86400000"]
        );
        assert_eq!(values(UNIX_EPOCH - day()), values(UNIX_EPOCH));
        let far = UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert_eq!(values(far)[0], "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn every_carrier_can_be_said() {
        let carrier = |builder: ContractBuilder| builder.build().unwrap().carrier().clone();
        let base = || Contract::builder("shop");
        let header = carrier(base().header("X-Shop-Key"));
        assert_eq!(
            header,
            Carrier::Header(HeaderName::from_static("x-shop-key"))
        );
        let pointer = carrier(base().json_pointer("/variables/idempotencyKey"));
        assert_eq!(
            pointer,
            Carrier::JsonPointer("/variables/idempotencyKey".into())
        );
        assert_eq!(
            carrier(base().form_field("ClientToken")),
            Carrier::FormField("ClientToken".into())
        );
        assert_eq!(
            carrier(base().query_parameter("requestId")),
            Carrier::QueryParameter("requestId".into())
        );
    }

    #[test]
    fn the_bound_of_a_window_is_what_may_be_relied_on() {
        let hour = Duration::from_secs(3600);
        for (window, bound) in [
            (Window::Unknown, Some(day())),
            (Window::MerchantSet, Some(day())),
            (Window::AtLeast(hour), Some(hour)),
            (Window::Exactly(hour), Some(hour)),
            (Window::Advertised(hour), Some(hour)),
            (Window::Forever, None),
        ] {
            assert_eq!(window.bound(), bound);
        }
    }
}
