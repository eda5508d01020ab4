//! Stripe, Square, PayPal, Amazon Pay.

use std::time::Duration;

use idempotency::ErrorKind;
use idempotency::contract::{FailureStorage, Meaning, Replay, Window};

use super::{KEY, assert_wire, key, on_the_wire, post};
use crate::contracts::{assert_means, client, named, reading};
use crate::support::{ScriptedServer, header_lines};

// https://docs.stripe.com/api/idempotent_requests: the header, up to 255 characters, at least 24 hours, the stored answer of the
// first run, 500 included.
#[tokio::test]
async fn stripe_takes_a_bare_header_beside_a_form() {
    let wire = on_the_wire(named("stripe"), |client, url| {
        let form = [("amount", "100"), ("currency", "eur")];
        client.post(url).form(&form).idempotent_with(key(KEY))
    })
    .await;
    assert_wire(
        &wire,
        Some(("idempotency-key", KEY)),
        "/x",
        "amount=100&currency=eur",
    );
    let stripe = named("stripe");
    assert_eq!(
        stripe.window(),
        Window::AtLeast(Duration::from_secs(86_400))
    );
    assert_eq!(stripe.failures(), FailureStorage::Everything);
}

// https://docs.stripe.com/error-low-level and https://docs.stripe.com/error-codes: `idempotency_key_in_use`, type
// `idempotency_error`, `lock_timeout`; the limiter stands before the idempotency layer.
#[test]
fn stripes_errors_mean_what_stripe_says() {
    let stripe = named("stripe");
    for (status, body, meaning) in [
        (
            409,
            r#"{"error":{"type":"invalid_request_error","code":"idempotency_key_in_use"}}"#,
            Meaning::InProgress,
        ),
        (
            400,
            r#"{"error":{"type":"idempotency_error","message":"Keys for idempotent requests can only be used with the same parameters they were first used with."}}"#,
            Meaning::Mismatch,
        ),
        (
            429,
            r#"{"error":{"type":"invalid_request_error","code":"rate_limit"}}"#,
            Meaning::NotExecuted,
        ),
        (
            429,
            r#"{"error":{"type":"invalid_request_error","code":"lock_timeout"}}"#,
            Meaning::Plain,
        ),
        (
            402,
            r#"{"error":{"type":"card_error","code":"card_declined"}}"#,
            Meaning::Plain,
        ),
        (
            401,
            r#"{"error":{"type":"invalid_request_error"}}"#,
            Meaning::Plain,
        ),
        (500, r#"{"error":{"type":"api_error"}}"#, Meaning::Plain),
    ] {
        assert_means(&stripe, status, body, meaning);
    }
    // github.com/stripe/stripe-go, `shouldRetry`: the header overrides everything.
    for (value, verdict) in [("true", Some(true)), ("false", Some(false)), ("", None)] {
        let lines = [("Stripe-Should-Retry", value)];
        assert_eq!(reading(&stripe, 400, &lines, "").should_retry, verdict);
    }
    let replay = [("Idempotent-Replayed", "true")];
    assert_eq!(reading(&stripe, 500, &replay, "").marker, Replay::Replayed);
}

// https://github.com/square/connect-api-specification: `idempotency_key` in the body, 45 characters on CreatePayment.
#[tokio::test]
async fn square_carries_the_key_in_the_body() {
    let body = "{\n  \"source_id\": \"cnon:card\",\n  \"amount_money\": {\"amount\": 100, \"currency\": \"EUR\"}\n}";
    let wire = on_the_wire(named("square"), post(body)).await;
    assert_wire(
        &wire,
        None,
        "/x",
        "{\n  \"source_id\": \"cnon:card\",\n  \"amount_money\": {\"amount\": 100, \"currency\": \"EUR\"},\"idempotency_key\":\"8e03978e-40d5-43e8-bc93-6894a57f9324\"\n}",
    );
}

// The same: `INVALID_REQUEST_ERROR` / `IDEMPOTENCY_KEY_REUSED`.
#[tokio::test]
async fn square_names_a_reused_key_and_a_long_one_is_not_sent() {
    let square = named("square");
    let reused = r#"{"errors":[{"category":"INVALID_REQUEST_ERROR","code":"IDEMPOTENCY_KEY_REUSED","detail":"The idempotency key can only be retried with the same request data.","field":"idempotency_key"}]}"#;
    assert_means(&square, 400, reused, Meaning::Mismatch);
    let declined = r#"{"errors":[{"category":"PAYMENT_METHOD_ERROR","code":"CARD_DECLINED"}]}"#;
    assert_means(&square, 402, declined, Meaning::Plain);

    let server = ScriptedServer::new([]);
    let error = client(square)
        .post(server.url("/x"))
        .body("{}")
        .idempotent_with(key(&"k".repeat(46)))
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Key);
    assert_eq!(
        error.to_string(),
        "`square` takes keys of 1 to 45 characters (github.com/square/connect-api-specification: 45 on most endpoints that move money, up to 255 on others), this one has 46; the operation may have been executed"
    );
    server.assert_hits(0);
}

// https://developer.paypal.com/reference/guidelines/idempotency: `PayPal-Request-Id`.
#[tokio::test]
async fn paypal_has_a_header_of_its_own() {
    let wire = on_the_wire(named("paypal"), post(r#"{"intent":"CAPTURE"}"#)).await;
    assert_wire(
        &wire,
        Some(("paypal-request-id", KEY)),
        "/x",
        r#"{"intent":"CAPTURE"}"#,
    );
    assert_eq!(header_lines(&wire, "idempotency-key"), [""; 0]);
}

// https://github.com/paypal/paypal-rest-api-specifications: 409 `PREVIOUS_REQUEST_IN_PROGRESS` (Payments v2),
// `PAYPAL_REQUEST_ID_PREVIOUSLY_USED` (Vault v3), `PAYPAL_REQUEST_ID_REQUIRED` (Orders v2); issues stand in `details`.
#[test]
fn paypals_issues_are_found_in_name_and_details() {
    let paypal = named("paypal");
    for (status, body, meaning) in [
        (
            409,
            r#"{"name":"PREVIOUS_REQUEST_IN_PROGRESS"}"#,
            Meaning::InProgress,
        ),
        (
            409,
            r#"{"name":"RESOURCE_CONFLICT","details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}]}"#,
            Meaning::InProgress,
        ),
        (
            422,
            r#"{"name":"UNPROCESSABLE_ENTITY","details":[{"issue":"PAYPAL_REQUEST_ID_PREVIOUSLY_USED"}]}"#,
            Meaning::Mismatch,
        ),
        (
            400,
            r#"{"name":"INVALID_REQUEST","details":[{"issue":"PAYPAL_REQUEST_ID_REQUIRED"}]}"#,
            Meaning::KeyUnusable,
        ),
        (
            422,
            r#"{"name":"UNPROCESSABLE_ENTITY","details":[{"issue":"INSTRUMENT_DECLINED"}]}"#,
            Meaning::Plain,
        ),
    ] {
        assert_means(&paypal, status, body, meaning);
    }
    // The shortest of the windows that its APIs publish: Vault v3.
    assert_eq!(paypal.window().bound(), Some(Duration::from_secs(3 * 3600)));
}

// https://developer.amazon.com/docs/amazon-pay-api-v2/idempotency.html: at most 32 of `A-Za-z0-9_-`, so a UUID with hyphens does not
// fit; stored indefinitely; another request is a `DuplicateIdempotencyKey` error.
#[tokio::test]
async fn amazon_pay_gets_a_uuid_in_32_characters() {
    let wire = on_the_wire(named("amazon-pay"), post("{}")).await;
    assert_eq!(
        header_lines(&wire, "x-amz-pay-idempotency-key"),
        ["8e03978e40d543e8bc936894a57f9324"]
    );
    let amazon = named("amazon-pay");
    assert_eq!(amazon.window(), Window::Forever);
    let duplicate = r#"{"reasonCode":"DuplicateIdempotencyKey","message":"..."}"#;
    assert_means(&amazon, 400, duplicate, Meaning::Mismatch);
    assert_means(
        &amazon,
        400,
        r#"{"reasonCode":"InvalidParameterValue"}"#,
        Meaning::Plain,
    );

    let wire = on_the_wire(named("amazon-pay"), |client, url| {
        client.post(url).idempotent()
    })
    .await;
    let drawn = header_lines(&wire, "x-amz-pay-idempotency-key");
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    assert!(
        drawn.len() == 1 && drawn[0].len() == 32 && drawn[0].bytes().all(fits),
        "{drawn:?}"
    );
}
