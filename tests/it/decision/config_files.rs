//! The policy as it stands in a configuration file.

use std::error::Error;

use idempotency::retry::{BackoffConfig, BudgetConfig, InProgressConfig, RetryConfig, RetryPolicy};
use serde_json::json;

use super::policies::described;

fn read(value: serde_json::Value) -> RetryConfig {
    serde_json::from_value(value).unwrap()
}

#[track_caller]
fn assert_refused(value: serde_json::Value, text: &str) {
    let error = read(value).build().unwrap_err();
    assert_eq!(error.to_string(), text);
    assert!(error.source().is_none());
}

#[track_caller]
fn assert_unreadable(value: serde_json::Value, text: &str) {
    let error = serde_json::from_value::<RetryConfig>(value).unwrap_err();
    assert_eq!(error.to_string(), text);
}

#[test]
fn every_setting_reaches_the_policy() {
    let config = read(json!({
        "max_attempts": 7,
        "connect_timeout": "1s",
        "attempt_timeout": "2s",
        "stall_timeout": "3s",
        "deadline": "1m 30s",
        "backoff": { "exponential": { "base": "250ms", "cap": "10s" } },
        "max_wait": "6s",
        "in_progress": { "cap": "7s", "first": "8ms", "max": "9ms" },
        "budget": { "extra_load_percent": 10, "retries_per_second": 11 },
        "request_buffer": 12,
        "response_buffer": 13
    }));
    let said = "attempts 7; connect 1s; attempt 2s; stall 3s; deadline Some(90s); \
                backoff Exponential { base: 250ms, cap: 10s, .. }; longest wait Some(6s); in progress 7s; \
                polls 8ms to 9ms; budget 10 % + 11/s; buffers 12 13";
    assert_eq!(described(&config.build().unwrap()), said);
    assert_eq!(described(&RetryPolicy::try_from(config).unwrap()), said);
}

#[test]
fn what_is_left_out_stays_as_in_the_standard_policy() {
    let standard = described(&RetryPolicy::standard());
    assert_eq!(
        described(&RetryConfig::default().build().unwrap()),
        standard
    );
    let empty_parts = read(json!({ "in_progress": {}, "budget": {} }));
    assert_eq!(described(&empty_parts.build().unwrap()), standard);
    let partly =
        read(json!({ "in_progress": { "max": "20s" }, "budget": { "retries_per_second": 1 } }));
    let partly = partly.build().unwrap();
    assert_eq!(partly.poll_delay(0), super::ms(500));
    assert_eq!(partly.poll_delay(u32::MAX), super::s(20));
    assert_eq!(partly.budget().unwrap().extra_load_percent(), 20);
    assert_eq!(partly.budget().unwrap().retries_per_second(), 1);
}

#[test]
fn a_constant_backoff_and_no_deadline_can_be_written() {
    let config = read(json!({ "backoff": { "constant": "250ms" }, "deadline": "none" }));
    let policy = config.build().unwrap();
    assert_eq!(format!("{:?}", policy.backoff()), "Constant(250ms)");
    assert_eq!(policy.deadline(), None);
}

#[test]
fn a_configuration_survives_being_written_and_read() {
    let mut config = RetryConfig::default();
    assert_eq!(serde_json::to_string(&config).unwrap(), "{}");
    config.max_attempts = Some(7);
    config.connect_timeout = Some("1s".to_owned());
    config.attempt_timeout = Some("2s".to_owned());
    config.stall_timeout = Some("3s".to_owned());
    config.deadline = Some("none".to_owned());
    config.backoff = Some(BackoffConfig::Exponential {
        base: "250ms".to_owned(),
        cap: "10s".to_owned(),
    });
    config.max_wait = Some("6s".to_owned());
    let mut in_progress = InProgressConfig::default();
    in_progress.cap = Some("7s".to_owned());
    in_progress.first = Some("8ms".to_owned());
    in_progress.max = Some("9ms".to_owned());
    config.in_progress = Some(in_progress);
    let mut budget = BudgetConfig::default();
    budget.retries_per_second = 11;
    config.budget = Some(budget);
    config.request_buffer = Some(12);
    config.response_buffer = Some(13);

    let text = serde_json::to_string(&config).unwrap();
    assert_eq!(
        text,
        r#"{"max_attempts":7,"connect_timeout":"1s","attempt_timeout":"2s","stall_timeout":"3s","deadline":"none","#
            .to_owned()
            + r#""backoff":{"exponential":{"base":"250ms","cap":"10s"}},"max_wait":"6s","#
            + r#""in_progress":{"cap":"7s","first":"8ms","max":"9ms"},"#
            + r#""budget":{"extra_load_percent":20,"retries_per_second":11},"#
            + r#""request_buffer":12,"response_buffer":13}"#
    );
    assert_eq!(serde_json::from_str::<RetryConfig>(&text).unwrap(), config);

    config.backoff = Some(BackoffConfig::Constant("5s".to_owned()));
    let text = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<RetryConfig>(&text).unwrap(), config);
}

#[test]
fn a_text_that_is_no_duration_is_refused_under_the_name_of_its_setting() {
    let advice = "which is no duration: write it like \"250ms\", \"3s\" or \"1m 30s\"";
    for setting in [
        "connect_timeout",
        "attempt_timeout",
        "stall_timeout",
        "deadline",
        "max_wait",
    ] {
        for text in ["soon", "", "10", "-1s", "1.5.2s", "99999999999999999999y"] {
            assert_refused(
                json!({ setting: text }),
                &format!("`{setting}` is \"{text}\", {advice}"),
            );
        }
    }
    for part in ["cap", "first", "max"] {
        assert_refused(
            json!({ "in_progress": { part: "later" } }),
            &format!("`in_progress.{part}` is \"later\", {advice}"),
        );
    }
    for (backoff, setting) in [
        (
            json!({ "exponential": { "base": "a bit", "cap": "5s" } }),
            "base",
        ),
        (
            json!({ "exponential": { "base": "5s", "cap": "a bit" } }),
            "cap",
        ),
        (json!({ "constant": "a bit" }), "constant"),
    ] {
        assert_refused(
            json!({ "backoff": backoff }),
            &format!("`backoff.{setting}` is \"a bit\", {advice}"),
        );
    }
}

#[test]
fn a_number_or_duration_that_makes_no_sense_is_refused() {
    assert_refused(
        json!({ "max_attempts": 0 }),
        "`max_attempts` is 0: the first attempt counts, so the least is 1",
    );
    for setting in [
        "connect_timeout",
        "attempt_timeout",
        "stall_timeout",
        "deadline",
    ] {
        let text = format!("`{setting}` is 0s: give it a duration above zero");
        assert_refused(json!({ setting: "0s" }), &text);
    }
    assert_refused(
        json!({ "in_progress": { "first": "0s" } }),
        "`in_progress.first` is 0s: give it a duration above zero",
    );
    assert_refused(
        json!({ "in_progress": { "max": "100ms" } }),
        "`in_progress.first` is 500ms, above `in_progress.max`, which is 100ms: lower the one or raise the other",
    );
    assert_refused(
        json!({ "backoff": { "exponential": { "base": "10s", "cap": "5s" } } }),
        "`backoff.base` is 10s, above `backoff.cap`, which is 5s: lower the one or raise the other",
    );
}

#[test]
fn an_unknown_setting_is_an_error_of_the_parser() {
    assert_unreadable(
        json!({ "dedline": "5s" }),
        "unknown field `dedline`, expected one of `max_attempts`, `connect_timeout`, `attempt_timeout`, \
         `stall_timeout`, `deadline`, `backoff`, `max_wait`, `in_progress`, `budget`, `request_buffer`, \
         `response_buffer`",
    );
    assert_unreadable(
        json!({ "in_progress": { "min": "5s" } }),
        "unknown field `min`, expected one of `cap`, `first`, `max`",
    );
    assert_unreadable(
        json!({ "budget": { "ratio": 1 } }),
        "unknown field `ratio`, expected `extra_load_percent` or `retries_per_second`",
    );
    assert_unreadable(
        json!({ "backoff": { "exponential": { "base": "1s", "cap": "5s", "factor": 2 } } }),
        "unknown field `factor`, expected `base` or `cap`",
    );
    assert_unreadable(
        json!({ "backoff": { "linear": "1s" } }),
        "unknown variant `linear`, expected `exponential` or `constant`",
    );
}

#[test]
fn a_value_of_the_wrong_type_is_an_error_of_the_parser() {
    assert_unreadable(
        json!({ "max_attempts": -1 }),
        "invalid value: integer `-1`, expected u32",
    );
    assert_unreadable(
        json!({ "max_attempts": 4_294_967_296_u64 }),
        "invalid value: integer `4294967296`, expected u32",
    );
    assert_unreadable(
        json!({ "deadline": 5 }),
        "invalid type: integer `5`, expected a string",
    );
    assert_unreadable(
        json!({ "budget": { "extra_load_percent": 0.2 } }),
        "invalid type: floating point `0.2`, expected u32",
    );
}
