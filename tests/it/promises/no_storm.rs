//! No retry storm: waits are spread, and all retries to a server share one budget.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use futures_util::future::join_all;
use idempotency::retry::{Backoff, RetryBudget};
use idempotency::{Client, Effect, Error, ErrorKind, Response, RetryPolicy, StoppedBy};
use tokio::time::{Instant, sleep};

use crate::support::{
    Refused, ScriptedServer, Step, Tokens, Way, client, header_lines, hits_at, ms, payment, secs,
    steady,
};

fn dead() -> ScriptedServer {
    ScriptedServer::always(Step::reply(503, &[], "dead"))
}

/// Sends so many operations at the same time.
async fn crowd(
    client: &Client,
    server: &ScriptedServer,
    operations: usize,
) -> Vec<Result<Response, Error>> {
    let send = |_| payment(client, server.url("/payments")).send();
    join_all((0..operations).map(send)).await
}

/// The waits after the first attempts of a crowd that fails at once, in order.
async fn first_waits(policy: &RetryPolicy, operations: usize) -> Vec<Duration> {
    let server = dead();
    let begin = Instant::now();
    let results = crowd(&client(policy), &server, operations).await;
    let errors = results.into_iter().map(Result::unwrap_err);
    let waits = errors.filter_map(|error| Some(error.attempts()[0].wait()?.0));
    let mut waits: Vec<Duration> = waits.collect();
    waits.sort();

    // What the report says is what the server saw: all first hits at once, then each at the end of its wait.
    let arrivals = server.arrivals();
    let mut seconds: Vec<Duration> = arrivals.iter().map(|hit| hit.at - begin).collect();
    let firsts: Vec<Duration> = seconds.drain(..operations).collect();
    assert!(firsts.iter().all(Duration::is_zero), "{firsts:?}");
    seconds.sort();
    assert_eq!(seconds.len(), waits.len());
    for (hit, wait) in seconds.iter().zip(&waits) {
        // The timer ticks in milliseconds and never early.
        assert!(hit >= wait && *hit - *wait < ms(1), "{hit:?}, {wait:?}");
    }
    waits
}

fn two_attempts() -> idempotency::retry::RetryPolicyBuilder {
    RetryPolicy::builder().max_attempts(NonZeroU32::MIN.saturating_add(1))
}

// B61.
#[tokio::test(start_paused = true)]
async fn a_hundred_clients_that_fail_together_do_not_come_back_together() {
    let backoff = Backoff::exponential(secs(1), secs(5)).seeded(7);
    let policy = two_attempts().no_budget().backoff(backoff);
    let waits = first_waits(&policy.build().unwrap(), 100).await;
    assert_eq!(waits.len(), 100);
    assert!(*waits.last().unwrap() <= secs(1), "{waits:?}");
    // Full jitter: as many in each tenth as in any other, give or take what chance does.
    for tenth in 0..10 {
        let within = ms(tenth * 100)..ms(tenth * 100 + 100);
        let count = waits.iter().filter(|wait| within.contains(*wait)).count();
        assert!((3..=20).contains(&count), "tenth {tenth}: {count}");
    }
}

// B61.
#[tokio::test(start_paused = true)]
async fn jitter_is_on_by_default() {
    let policy = two_attempts().no_budget().build().unwrap();
    let waits = first_waits(&policy, 100).await;
    assert!(*waits.last().unwrap() <= ms(100), "{waits:?}");
    let different: BTreeSet<_> = waits.iter().collect();
    assert!(different.len() > 90, "{waits:?}");
    assert!(waits[0] < ms(20) && waits[99] > ms(80), "{waits:?}");
}

// B61.
#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_waits_and_another_gives_others() {
    let waits = async |seed| {
        let server = dead();
        let backoff = Backoff::default().seeded(seed);
        let client = client(&two_attempts().backoff(backoff).build().unwrap());
        let mut waits = Vec::new();
        for _ in 0..5 {
            let error = payment(&client, server.url("/payments")).send().await;
            waits.push(error.unwrap_err().attempts()[0].wait().unwrap().0);
        }
        (waits, hits_at(&server))
    };
    let seven = waits(7).await;
    assert_eq!(seven, waits(7).await);
    assert_ne!(seven, waits(8).await);
    // Operations of one client do not share their waits either.
    let different: BTreeSet<_> = seven.0.iter().collect();
    assert_eq!(different.len(), 5);
}

/// How many of the results the budget ended, each with its real cause.
fn stopped_by_budget(results: &[Result<Response, Error>]) -> usize {
    let errors = results.iter().map(|result| result.as_ref().unwrap_err());
    let stopped = errors.filter(|error| error.stopped_by() == Some(StoppedBy::Budget));
    let check = |error: &Error| {
        assert_eq!(error.kind(), ErrorKind::Status);
        assert_eq!(error.effect(), Effect::Unknown);
        assert_eq!(error.status().unwrap(), 503);
        assert!(error.response().is_some());
    };
    stopped.inspect(|error| check(error)).count()
}

// B61, B62.
#[tokio::test(start_paused = true)]
async fn a_dead_server_gets_a_fifth_more_and_ten_retries_a_second() {
    for way in Way::ALL {
        let server = dead();
        let client = way.client(steady().build().unwrap());
        let results = crowd(&client, &server, 100).await;
        // At once: twenty that a hundred operations earn, ten that a second allows. Those thirty fail again after 100 ms,
        // in which time has earned one retry, and that one again.
        assert_eq!(hits_at(&server).iter().filter(|at| **at == 0).count(), 100);
        server.assert_hits(100 + 30 + 1 + 1);
        assert_eq!(stopped_by_budget(&results), 99, "{way:?}");
        let last = results.into_iter().filter_map(Result::err);
        let last = last.max_by_key(|error| error.attempts().len()).unwrap();
        assert_eq!(last.stopped_by(), Some(StoppedBy::Attempts), "{way:?}");
        assert_eq!(last.attempts().len(), 4, "{way:?}");
    }
}

// B61.
#[tokio::test(start_paused = true)]
async fn a_long_outage_costs_the_server_no_more_than_the_budget() {
    const OPERATIONS: u32 = 300;
    let server = dead();
    let client = client(&budget(20, 1));
    for _ in 0..OPERATIONS / 3 {
        let results = crowd(&client, &server, 3).await;
        assert!(results.iter().all(Result::is_err));
        sleep(ms(100)).await;
    }
    let arrivals = server.arrivals();
    let lasted = arrivals.last().unwrap().at - arrivals[0].at;
    let most = f64::from(OPERATIONS) * 1.2 + 1.0 + lasted.as_secs_f64();
    let hits = f64::from(u32::try_from(server.hits()).unwrap());
    // Without the budget it had been four times as many.
    assert!(
        hits <= most && hits > most * 0.95,
        "{hits} hits in {lasted:?}, {most} allowed"
    );
}

fn budget(extra_load_percent: u32, retries_per_second: u32) -> RetryPolicy {
    let budget = RetryBudget::new(extra_load_percent, retries_per_second);
    steady().budget(budget).build().unwrap()
}

async fn attempts(client: &Client, url: String) -> usize {
    match payment(client, url).send().await {
        Ok(response) => response.attempts().len(),
        Err(error) => error.attempts().len(),
    }
}

#[tokio::test(start_paused = true)]
async fn clones_of_a_client_and_clients_of_one_policy_share_the_budget() {
    let server = dead();
    let policy = budget(0, 2);
    let one = client(&policy);
    let clone = one.clone();
    let other = client(&policy);
    let overriding = client(&budget(0, 0));
    assert_eq!(attempts(&one, server.url("/")).await, 3);
    assert_eq!(attempts(&clone, server.url("/")).await, 1);
    assert_eq!(attempts(&other, server.url("/")).await, 1);
    let request = payment(&overriding, server.url("/")).policy(policy);
    assert_eq!(request.send().await.unwrap_err().attempts().len(), 1);
    // A second later there are two again.
    sleep(secs(1)).await;
    assert_eq!(attempts(&other, server.url("/")).await, 3);
}

#[tokio::test(start_paused = true)]
async fn the_budget_of_one_server_is_not_anothers() {
    let (dead_one, dead_too) = (dead(), dead());
    let client = client(&budget(0, 3));
    assert_eq!(attempts(&client, dead_one.url("/a")).await, 4);
    assert_eq!(attempts(&client, dead_one.url("/b")).await, 1);
    assert_eq!(attempts(&client, dead_too.url("/a")).await, 4);
}

// B62.
#[tokio::test(start_paused = true)]
async fn every_operation_earns_its_percentage_once_however_it_ends() {
    for way in Way::ALL {
        let server = ScriptedServer::answering(|arrival| match &*arrival.target {
            "/fine" => Step::reply(201, &[], ""),
            _ => Step::reply(503, &[], ""),
        });
        let client = way.client(budget(10, 0));
        // Nine that end well, and the one that needs the tenth.
        for _ in 0..9 {
            assert_eq!(attempts(&client, server.url("/fine")).await, 1);
        }
        assert_eq!(attempts(&client, server.url("/dead")).await, 2, "{way:?}");
        for _ in 0..9 {
            assert_eq!(attempts(&client, server.url("/dead")).await, 1, "{way:?}");
        }
        assert_eq!(attempts(&client, server.url("/dead")).await, 2, "{way:?}");
    }
}

// B62.
#[tokio::test(start_paused = true)]
async fn an_operation_that_a_middleware_sends_twice_earns_once() {
    let server = ScriptedServer::answering(|arrival| match &*arrival.target {
        "/refresh" if !header_lines(arrival, "authorization").contains(&"token-1") => {
            Step::reply(401, &[], "")
        }
        "/refresh" => Step::reply(201, &[], ""),
        _ => Step::reply(503, &[], ""),
    });
    let client = Client::builder()
        .policy(budget(20, 0))
        .operation_middleware(Tokens::new())
        .build()
        .unwrap();
    assert_eq!(attempts(&client, server.url("/refresh")).await, 2);
    for _ in 0..2 {
        assert_eq!(attempts(&client, server.url("/refresh")).await, 1);
    }
    // Three and this one have earned four fifths, the next one the last.
    assert_eq!(attempts(&client, server.url("/dead")).await, 1);
    assert_eq!(attempts(&client, server.url("/dead")).await, 2);
}

#[tokio::test(start_paused = true)]
async fn what_was_earned_is_forgotten_after_ten_seconds() {
    let server = ScriptedServer::answering(|arrival| match &*arrival.target {
        "/fine" => Step::reply(201, &[], ""),
        _ => Step::reply(503, &[], ""),
    });
    let client = client(&budget(100, 0));
    for _ in 0..3 {
        attempts(&client, server.url("/fine")).await;
    }
    sleep(secs(12)).await;
    assert_eq!(attempts(&client, server.url("/dead")).await, 2);
}

#[tokio::test(start_paused = true)]
async fn attempts_that_were_never_sent_cost_as_much() {
    let nobody = Refused::new();
    let operation = payment(&client(&budget(0, 2)), nobody.url("/payments"));
    let error = operation.send().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
    assert_eq!(error.stopped_by(), Some(StoppedBy::Budget));
    assert_eq!(error.effect(), Effect::NotExecuted);
    assert_eq!(error.attempts().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn unkeyed_requests_draw_on_the_same_budget() {
    let server = dead();
    let client = client(&budget(0, 3));
    let gotten = client.get(server.url("/orders")).send().await.unwrap();
    assert_eq!(gotten.status(), 503);
    assert_eq!(gotten.attempts().len(), 4);
    assert_eq!(attempts(&client, server.url("/payments")).await, 1);
    let again = client.get(server.url("/orders")).send().await.unwrap();
    assert_eq!(again.report().stopped_by(), Some(StoppedBy::Budget));
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_another_limit_forbids_costs_nothing() {
    let hour = ScriptedServer::always(Step::reply(503, &[("Retry-After", "3600")], ""));
    let client = client(&budget(0, 1));
    for _ in 0..5 {
        let error = payment(&client, hour.url("/")).send().await.unwrap_err();
        assert_eq!(error.stopped_by(), Some(StoppedBy::Deadline));
        assert_eq!(error.attempts().len(), 1);
    }
    let soon = payment(&client, hour.url("/")).deadline(secs(4000));
    let error = soon.send().await.unwrap_err();
    assert_eq!(error.attempts().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_budget_every_attempt_is_made() {
    let server = dead();
    let results = crowd(
        &client(&steady().no_budget().build().unwrap()),
        &server,
        100,
    )
    .await;
    assert_eq!(stopped_by_budget(&results), 0);
    server.assert_hits(400);
}
