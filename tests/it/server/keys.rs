//! Which keys are keys, and whose they are.

use http::header::AUTHORIZATION;
use idempotency::contract::problem;
use idempotency::server::{IdempotencyLayer, MemoryStore, Scope, ScopeId};

use super::app::{App, Ask};
use super::bed::{Bed, on_both_stores};

on_both_stores!(
    a_malformed_key_is_told_400_and_nothing_is_run_or_stored,
    the_bare_and_the_quoted_form_are_one_key,
    odd_keys_are_keys,
    two_owners_of_one_key_never_meet,
    a_user_of_two_tenants_has_two_keys,
    a_request_without_an_owner_is_told_403,
);

// B08, B10, B110, B111.
async fn a_malformed_key_is_told_400_and_nothing_is_run_or_stored(bed: Bed) {
    let app = App::orders(bed.layer().optional_key());
    let long = "k".repeat(256);
    let huge = "k".repeat(65_536);
    for (line, type_uri) in [
        ("".as_bytes(), problem::KEY_INVALID),
        (b"  ", problem::KEY_INVALID),
        (b"\"\"", problem::KEY_INVALID),
        (b"\"k-1", problem::KEY_INVALID),
        (b"k-1\"", problem::KEY_INVALID),
        (b"a\tb", problem::KEY_INVALID),
        (b"k\xe9", problem::KEY_INVALID),
        (b"k-1, k-1", problem::KEY_INVALID),
        (long.as_bytes(), problem::KEY_INVALID),
        (huge.as_bytes(), problem::KEY_INVALID),
    ] {
        let ask = Ask::post("").header("idempotency-key", line);
        app.send(ask).await.assert_problem(400, type_uri);
    }
    let twice = Ask::post("k-1").header("idempotency-key", "k-1");
    let refused = app.send(twice).await;
    refused.assert_problem(400, problem::SEVERAL_KEYS);
    assert_eq!(app.runs(), 0);
    // The honest retry is the first to be seen.
    app.send(Ask::post("k-1")).await.assert_order(1, false);
}

// B111.
async fn the_bare_and_the_quoted_form_are_one_key(bed: Bed) {
    let app = App::orders(bed.layer());
    app.send(Ask::post("k-1")).await.assert_order(1, false);
    for quoted in ["\"k-1\"", "\"k-1\";p=1", " \"k-1\" "] {
        app.send(Ask::post(quoted)).await.assert_order(1, true);
    }
    app.send(Ask::post(r#""a\"b""#))
        .await
        .assert_order(2, false);
    app.send(Ask::post(r#""a\"b""#)).await.assert_order(2, true);
}

// B110.
async fn odd_keys_are_keys(bed: Bed) {
    let app = App::orders(bed.layer());
    let longest = "k".repeat(255);
    let keys = ["../x", "';DROP", "%00", "$1", "\\", "k,k", &longest];
    for (number, key) in (1..).zip(keys) {
        app.send(Ask::post(key)).await.assert_order(number, false);
        app.send(Ask::post(key)).await.assert_order(number, true);
    }
}

// B108.
async fn two_owners_of_one_key_never_meet(bed: Bed) {
    let layer = IdempotencyLayer::new(bed.store.clone(), Scope::credential());
    let app = App::orders(layer);
    let ask = |credential: &str| Ask::post("k-1").header(AUTHORIZATION.as_str(), credential);
    app.send(ask("Bearer alice")).await.assert_order(1, false);
    app.send(ask("Bearer bob")).await.assert_order(2, false);
    app.send(ask("Bearer alice")).await.assert_order(1, true);
    app.send(ask("Bearer bob")).await.assert_order(2, true);
    // Not even the knowledge that a key was used leaks: another body is another first.
    let other = ask("Bearer eve").body("{}");
    app.send(other).await.assert_order(3, false);
}

#[derive(Clone)]
struct Account {
    tenant: &'static str,
    user: &'static str,
}

fn account_scope() -> Scope {
    Scope::from_fn(|request| {
        let account = request.extensions.get::<Account>()?;
        Some(ScopeId::of([account.tenant, account.user]))
    })
}

// B108.
async fn a_user_of_two_tenants_has_two_keys(bed: Bed) {
    let app = App::orders(IdempotencyLayer::new(bed.store.clone(), account_scope()));
    let ask = |tenant, user| Ask::post("k-1").extension(Account { tenant, user });
    app.send(ask("acme", "alice")).await.assert_order(1, false);
    app.send(ask("umbrella", "alice"))
        .await
        .assert_order(2, false);
    // Names do not run into each other.
    app.send(ask("acm", "ealice")).await.assert_order(3, false);
    app.send(ask("acme", "alice")).await.assert_order(1, true);
}

async fn a_request_without_an_owner_is_told_403(bed: Bed) {
    for scope in [Scope::credential(), account_scope()] {
        let app = App::orders(IdempotencyLayer::new(bed.store.clone(), scope));
        let refused = app.send(Ask::post("k-1")).await;
        refused.assert_problem(403, problem::SCOPE_UNKNOWN);
        assert_eq!(app.runs(), 0);
    }
    let app = App::orders(IdempotencyLayer::new(
        bed.store.clone(),
        Scope::credential(),
    ));
    let two = Ask::post("k-1")
        .header("authorization", "a")
        .header("authorization", "b");
    app.send(two)
        .await
        .assert_problem(403, problem::SCOPE_UNKNOWN);
}

// B107: a correlation id is copied to many calls by proxies, and names none of them.
#[tokio::test]
async fn other_headers_are_not_taken_for_keys() {
    let layer = IdempotencyLayer::new(MemoryStore::new(), Scope::global()).optional_key();
    let app = App::orders(layer);
    for number in 1..=2 {
        let ask = Ask::post("")
            .header("x-request-id", "r1")
            .header("x-correlation-id", "r1");
        app.send(ask).await.assert_order(number, false);
    }
}
