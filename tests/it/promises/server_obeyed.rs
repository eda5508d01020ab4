//! The server is obeyed: what it asks for is a floor, and above the cap the caller gets to know it.

use std::time::{Duration, SystemTime};

use idempotency::contract::WaitHint;
use idempotency::retry::{Backoff, WaitReason};
use idempotency::{Client, Contract, ErrorKind, RetryPolicy, StoppedBy};

use crate::support::{
    PAUSE, ScriptedServer, Step, Way, client, hits_at, ms, payment, secs, steady, steady_client,
    timed,
};

type Lines<'a> = &'a [(&'a str, &'a str)];

/// What an answer with these headers makes the loop wait, and who it says asked for that.
async fn wait_after(
    client: &Client,
    status: u16,
    lines: Lines<'_>,
) -> (Duration, Duration, WaitReason) {
    let server = ScriptedServer::new([Step::reply(status, lines, ""), Step::reply(201, &[], "")]);
    let response = payment(client, server.url("/payments"))
        .send()
        .await
        .unwrap_or_else(|error| panic!("{lines:?}: {error}"));
    server.assert_one_operation(2);
    let (said, why) = response.attempts()[0].wait().unwrap();
    let arrivals = server.arrivals();
    (arrivals[1].at - arrivals[0].at, said, why)
}

#[track_caller]
fn assert_waited(
    waited: (Duration, Duration, WaitReason),
    expected: Duration,
    why: WaitReason,
    lines: Lines<'_>,
) {
    assert_eq!(waited, (expected, expected, why), "{lines:?}");
}

const DATE: (&str, &str) = ("Date", "Fri, 15 May 2015 15:34:21 GMT");

// B45, B46, B47, B50, B54.
#[tokio::test(start_paused = true)]
async fn the_wait_is_the_one_that_the_server_asked_for_in_every_form() {
    let client = steady_client();
    for (lines, wait) in [
        (&[("Retry-After", "2")][..], secs(2)),
        (&[("Retry-After", "0002")], secs(2)),
        (&[("Retry-After", "59")], secs(59)),
        (&[("Retry-After", "2.0")], secs(2)),
        (&[("Retry-After", "1.5")], ms(1500)),
        (&[("Retry-After", "0.493")], ms(493)),
        (&[("retry-after-ms", "1500")], ms(1500)),
        (&[("x-ms-retry-after-ms", "700")], ms(700)),
        // The three forms of a date, measured against the answer's own.
        (
            &[DATE, ("Retry-After", "Fri, 15 May 2015 15:34:31 GMT")],
            secs(10),
        ),
        (
            &[DATE, ("Retry-After", "Friday, 15-May-15 15:34:31 GMT")],
            secs(10),
        ),
        (
            &[DATE, ("Retry-After", "Fri May 15 15:34:31 2015")],
            secs(10),
        ),
        // The longest counts, so that none is cut short.
        (&[("Retry-After", "2"), ("Retry-After", "5")], secs(5)),
        (&[("Retry-After", "5"), ("Retry-After", "2")], secs(5)),
        (
            &[("Retry-After", "2"), ("retry-after-ms", "2500")],
            ms(2500),
        ),
        (&[("Retry-After", "2"), ("Retry-After", "-1")], secs(2)),
    ] {
        let waited = wait_after(&client, 503, lines).await;
        assert_waited(waited, wait, WaitReason::ServerHint, lines);
    }
}

// B45, B46, B50.
#[tokio::test(start_paused = true)]
async fn what_asks_for_no_wait_or_is_not_understood_leaves_the_backoff_in_force() {
    let client = steady_client();
    for lines in [
        &[("Retry-After", "0")][..],
        &[("Retry-After", "0.0")],
        &[("retry-after-ms", "0")],
        // Less than our own wait.
        &[("retry-after-ms", "30")],
        // Past, by either clock.
        &[("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT")],
        &[DATE, ("Retry-After", "Fri, 15 May 2015 15:34:20 GMT")],
        &[("Retry-After", "-1")],
        &[("Retry-After", "-0")],
        &[("Retry-After", "+5")],
        &[("Retry-After", "1e10000")],
        &[("Retry-After", "nan")],
        &[("Retry-After", "inf")],
        &[("Retry-After", "")],
        &[("Retry-After", "soon")],
        &[("Retry-After", "5s")],
        &[("Retry-After", "2015-05-15T15:34:31Z")],
        &[("retry-after-ms", "-5")],
        &[],
    ] {
        let waited = wait_after(&client, 429, lines).await;
        assert_waited(waited, PAUSE, WaitReason::Backoff, lines);
    }
}

// B47, B68.
#[tokio::test(start_paused = true)]
async fn a_date_without_the_servers_clock_is_measured_against_ours() {
    let then = httpdate::fmt_http_date(SystemTime::now() + secs(40));
    let (gap, said, why) = wait_after(&steady_client(), 503, &[("Retry-After", &then)]).await;
    // The date has no fraction of a second, and the test takes some time.
    assert!(gap > secs(30) && gap <= secs(40), "{gap:?}");
    assert!(said <= gap && gap - said < ms(2), "{said:?}, {gap:?}");
    assert_eq!(why, WaitReason::ServerHint);
}

// B54.
#[tokio::test(start_paused = true)]
async fn every_status_that_is_retried_may_ask() {
    let client = steady_client();
    let lines: Lines = &[("Retry-After", "3")];
    for status in [408, 409, 425, 429, 500, 502, 503, 504, 520] {
        let waited = wait_after(&client, status, lines).await;
        assert_waited(waited, secs(3), WaitReason::ServerHint, lines);
    }
}

#[tokio::test(start_paused = true)]
async fn a_get_and_a_chain_obey_as_well() {
    let busy = Step::reply(503, &[("Retry-After", "3")], "");
    for way in Way::ALL {
        let server = ScriptedServer::new([
            busy.clone(),
            Step::reply(200, &[], ""),
            busy.clone(),
            Step::reply(201, &[], ""),
        ]);
        let client = way.client(steady().build().unwrap());
        client.get(server.url("/orders")).send().await.unwrap();
        let operation = payment(&client, server.url("/payments"));
        operation.send().await.unwrap();
        assert_eq!(hits_at(&server), [0, 3000, 3000, 6000]);
    }
}

#[tokio::test(start_paused = true)]
async fn jitter_never_cuts_a_hint_short() {
    let backoff = Backoff::exponential(secs(4), secs(4));
    for seed in 0..20 {
        let policy = steady().backoff(backoff.clone().seeded(seed));
        let client = client(&policy.build().unwrap());
        let (gap, said, why) = wait_after(&client, 503, &[("Retry-After", "2")]).await;
        assert!(gap >= said && said >= secs(2), "{gap:?}, {said:?}");
        let by_hint = why == WaitReason::ServerHint;
        assert_eq!(by_hint, said == secs(2), "{said:?}, {why:?}");
    }
}

/// Asserts that an operation whose first answer asks for a wait stops there and then, and that the caller learns of it.
async fn assert_stops(policy: &RetryPolicy, hint: &str, limit: StoppedBy, said: Duration) {
    let server = ScriptedServer::new([Step::reply(429, &[("Retry-After", hint)], "slow down")]);
    let operation = payment(&client(policy), server.url("/payments"));
    let (result, took) = timed(operation.send()).await;
    let error = result.unwrap_err();
    assert_eq!(took, Duration::ZERO, "{hint}");
    assert_eq!(
        (error.kind(), error.stopped_by()),
        (ErrorKind::Status, Some(limit)),
        "{hint}"
    );
    assert_eq!(error.retry_after(), Some(said), "{hint}");
    assert_eq!(error.attempts()[0].wait(), None, "{hint}");
    let response = error.into_response().unwrap();
    assert_eq!(response.headers()["retry-after"], hint);
    assert_eq!(response.text().await.unwrap(), "slow down");
}

// B51, B53.
#[tokio::test(start_paused = true)]
async fn a_wait_beyond_a_limit_is_not_begun_and_not_cut_short() {
    let standard = steady().build().unwrap();
    let short = steady().deadline(secs(30)).build().unwrap();
    let capped = steady().max_wait(secs(5)).build().unwrap();
    let endless = steady().no_deadline().max_wait(secs(600)).build().unwrap();
    let longest = WaitHint::LONGEST;
    let digits = "9".repeat(400);
    for (policy, hint, limit, said) in [
        (&standard, "60", StoppedBy::Deadline, secs(60)),
        (&standard, "9999999999", StoppedBy::Deadline, longest),
        (
            &standard,
            "18446744073709551616",
            StoppedBy::Deadline,
            longest,
        ),
        (&standard, &*digits, StoppedBy::Deadline, longest),
        (&short, "3600", StoppedBy::Deadline, secs(3600)),
        (&capped, "6", StoppedBy::WaitTooLong, secs(6)),
        (&capped, "5.001", StoppedBy::WaitTooLong, ms(5001)),
        (&endless, "86400", StoppedBy::WaitTooLong, secs(86_400)),
        (&endless, &*digits, StoppedBy::WaitTooLong, longest),
    ] {
        assert_stops(policy, hint, limit, said).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_as_long_as_the_cap_is_obeyed() {
    let capped = client(&steady().max_wait(secs(5)).build().unwrap());
    let lines: Lines = &[("Retry-After", "5")];
    let waited = wait_after(&capped, 503, lines).await;
    assert_waited(waited, secs(5), WaitReason::ServerHint, lines);
}

#[tokio::test(start_paused = true)]
async fn a_definite_answer_is_not_kept_waiting() {
    for status in [200, 201, 301, 400, 404, 501] {
        let server = ScriptedServer::new([Step::reply(status, &[("Retry-After", "9")], "")]);
        let operation = payment(&steady_client(), server.url("/payments"));
        let (result, took) = timed(operation.send()).await;
        let response = result.unwrap();
        assert_eq!((response.status().as_u16(), took), (status, Duration::ZERO));
        assert_eq!(response.report().retry_after(), None, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unkeyed_post_is_not_repeated_and_hands_the_hint_to_the_caller() {
    let server = ScriptedServer::new([Step::reply(503, &[("Retry-After", "9")], "")]);
    let request = steady_client().post(server.url("/payments"));
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 503);
    let report = response.report();
    assert_eq!(report.stopped_by(), Some(StoppedBy::UnsafeWithoutKey));
    assert_eq!(report.retry_after(), Some(secs(9)));
}

#[tokio::test(start_paused = true)]
async fn a_contract_says_which_headers_ask() {
    let deaf = Contract::builder("deaf").wait_headers([]).build().unwrap();
    let client = Client::builder()
        .contract(deaf)
        .policy(steady().build().unwrap())
        .build()
        .unwrap();
    let lines: Lines = &[("Retry-After", "9")];
    let waited = wait_after(&client, 503, lines).await;
    assert_waited(waited, PAUSE, WaitReason::Backoff, lines);
}

#[tokio::test(start_paused = true)]
async fn the_servers_word_on_repeating_beats_its_status() {
    let stripe = Client::builder()
        .contract(Contract::stripe())
        .policy(steady().build().unwrap())
        .build()
        .unwrap();
    for (client, header) in [
        (steady_client(), "X-Should-Retry"),
        (stripe, "Stripe-Should-Retry"),
    ] {
        let lines: Lines = &[(header, "true"), ("Retry-After", "2")];
        let waited = wait_after(&client, 400, lines).await;
        assert_waited(waited, secs(2), WaitReason::ServerHint, lines);

        let server = ScriptedServer::new([Step::reply(503, &[(header, "false")], "")]);
        let operation = payment(&client, server.url("/payments"));
        let error = operation.send().await.unwrap_err();
        assert_eq!(error.stopped_by(), Some(StoppedBy::NotRetryable));
        assert_eq!(error.kind(), ErrorKind::Status);
    }
}
