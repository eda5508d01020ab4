//! The contract server keeps the contract that it plays.

use std::time::Duration;

use futures_util::FutureExt as _;
use idempotency::Contract;
use idempotency::contract::{
    FailureStorage, IdempotencyKey, MarkerRule, MismatchDetection, Window, problem,
};
use idempotency::testing::Fault::{CommitThenDropReply, Pass, SlowHandler};
use idempotency::testing::{Action, ContractServer, Delivery, Faults, Repeats, Rule};
use wiremock::matchers::{method, path};
use wiremock::{Mock, ResponseTemplate};

use super::raw::Attempt;
use super::{in_a_row, payments};

fn attempt(server: &ContractServer) -> Attempt {
    Attempt::post(server.address(), "/payments").key("k-1")
}

fn problem_type(body: &str) -> String {
    problem::Problem::read(body.as_bytes())
        .unwrap()
        .type_uri
        .into_owned()
}

/// A server on which a client may do what it likes.
fn lenient() -> idempotency::testing::ContractServerBuilder {
    ContractServer::builder()
        .tolerate(Rule::RetryAfterAnswer)
        .tolerate(Rule::BodyChanged)
        .tolerate(Rule::TooEarly)
}

// B113, B114, B117.
#[tokio::test]
async fn a_replay_is_the_first_answer_and_the_marker() {
    let server = lenient().start().await;
    let first = ResponseTemplate::new(201)
        .insert_header("location", "/payments/1")
        .insert_header("etag", "\"v1\"")
        .insert_header("set-cookie", "session=1")
        .set_body_raw(vec![0xff, 0xfe, 0, 0x41], "application/octet-stream");
    server.operation(method("POST")).respond_with(first).mount();
    let fresh = attempt(&server).send();
    let replay = attempt(&server).send();
    assert_eq!(fresh.header("set-cookie"), Some("session=1"));
    assert_eq!(fresh.header("idempotent-replayed"), None);
    assert_eq!(replay.status(), 201);
    assert_eq!(replay.header("location"), Some("/payments/1"));
    assert_eq!(replay.header("etag"), Some("\"v1\""));
    assert_eq!(
        replay.header("content-type"),
        Some("application/octet-stream")
    );
    assert_eq!(replay.header("set-cookie"), None);
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    assert_eq!(replay.body(), fresh.body());
    server.assert_exactly_once();
}

#[tokio::test]
async fn another_body_under_the_key_is_422_and_a_problem() {
    let server = payments(lenient(), Faults::none()).await;
    attempt(&server).send();
    let refused = attempt(&server).body("{}").send();
    assert_eq!(refused.status(), 422);
    assert_eq!(refused.header("content-type"), Some(problem::CONTENT_TYPE));
    assert_eq!(problem_type(refused.body()), problem::KEY_REUSED);
    server.assert_exactly_once();
}

// B83, B86.
#[tokio::test]
async fn while_the_first_runs_a_repeat_waits_and_another_request_is_refused() {
    in_a_row(|| async {
        let slow = SlowHandler(Duration::from_millis(300));
        let server = payments(lenient().retry_after(7), [slow]).await;
        let first = attempt(&server);
        let first = tokio::task::spawn_blocking(move || first.status());
        while server.arrivals().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let waiting = attempt(&server).send();
        assert_eq!(waiting.status(), 409);
        assert_eq!(waiting.header("retry-after"), Some("7"));
        assert_eq!(problem_type(waiting.body()), problem::IN_PROGRESS);
        assert_eq!(attempt(&server).body("{}").status(), 422);
        assert_eq!(first.await.unwrap(), 201);
        assert_eq!(attempt(&server).status(), 201);
        server.assert_exactly_once();
    })
    .await;
}

// B83.
#[tokio::test]
async fn ten_requests_at_once_run_once() {
    in_a_row(|| async {
        let slow = SlowHandler(Duration::from_millis(100));
        let server = payments(ContractServer::builder(), [slow]).await;
        let sent = (0..10).map(|_| {
            let attempt = attempt(&server);
            tokio::task::spawn_blocking(move || attempt.status())
        });
        let mut statuses = Vec::new();
        for sent in sent.collect::<Vec<_>>() {
            statuses.push(sent.await.unwrap());
        }
        statuses.sort_unstable();
        assert_eq!(statuses, [[201].as_slice(), &[409; 9]].concat());
        server.assert_exactly_once();
    })
    .await;
}

#[tokio::test]
async fn a_missing_key_is_400_where_one_is_required() {
    let bare = |server: &ContractServer| Attempt::post(server.address(), "/payments");
    let server = payments(lenient().tolerate(Rule::KeyMissing), Faults::none()).await;
    let refused = bare(&server).send();
    assert_eq!(refused.status(), 400);
    assert_eq!(problem_type(refused.body()), problem::KEY_MISSING);

    let server = payments(lenient().require_key(false), Faults::none()).await;
    assert_eq!(bare(&server).status(), 201);
}

#[tokio::test]
async fn a_key_is_forgotten_when_its_window_ends() {
    let half_an_hour = Window::Exactly(Duration::from_secs(1800));
    let contract = Contract::builder("shop")
        .window(half_an_hour)
        .build()
        .unwrap();
    let builder = lenient().contract(contract).tolerate(Rule::AfterWindow);
    let server = payments(builder, Faults::none()).await;
    let key = IdempotencyKey::parse("k-1").unwrap();
    attempt(&server).send();
    server.advance(Duration::from_secs(1790));
    attempt(&server).send();
    assert_eq!(server.executions_of(&key), 1);
    server.advance(Duration::from_secs(10));
    attempt(&server).send();
    assert_eq!(server.executions_of(&key), 2);
}

#[tokio::test]
async fn failures_are_stored_as_the_contract_says() {
    for (failures, status, runs) in [
        (FailureStorage::Unknown, 500, 3),
        (FailureStorage::Unknown, 404, 1),
        (FailureStorage::ClientErrors, 422, 1),
        (FailureStorage::ClientErrors, 429, 3),
        (FailureStorage::Nothing, 404, 3),
        (FailureStorage::Everything, 500, 1),
        (FailureStorage::KeyBurned, 500, 1),
        (FailureStorage::ReExecuted, 500, 3),
    ] {
        let contract = Contract::builder("shop")
            .failures(failures)
            .build()
            .unwrap();
        let server = lenient().contract(contract).start().await;
        let failed = ResponseTemplate::new(status);
        server
            .operation(method("POST"))
            .respond_with(failed)
            .mount();
        let statuses = [0; 3].map(|_| attempt(&server).status());
        let ran = server
            .arrivals()
            .iter()
            .filter(|a| a.action == Action::Ran)
            .count();
        assert_eq!(ran, runs, "{failures:?} {status}");
        // A failure that is not kept was rolled back: it is no execution.
        let kept = usize::from(runs == 1 && failures != FailureStorage::KeyBurned);
        let key = IdempotencyKey::parse("k-1").unwrap();
        assert_eq!(server.executions_of(&key), kept, "{failures:?} {status}");
        let last = if failures == FailureStorage::KeyBurned {
            400
        } else {
            status
        };
        assert_eq!(statuses, [status, last, last], "{failures:?} {status}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_compare_requests_replays_whatever_comes() {
    let contract = Contract::builder("blind").mismatch(MismatchDetection::NotDetected);
    let server = payments(
        lenient().contract(contract.build().unwrap()),
        Faults::none(),
    )
    .await;
    attempt(&server).send();
    assert_eq!(attempt(&server).body("{}").status(), 201);
    server.assert_exactly_once();
}

#[tokio::test]
async fn repeats_can_be_unmarked_or_already_done() {
    let server = payments(lenient().repeats(Repeats::Unmarked), Faults::none()).await;
    let (first, repeat) = (attempt(&server).send(), attempt(&server).send());
    assert_eq!(repeat.header("idempotent-replayed"), None);
    assert_eq!(
        (first.status(), first.body()),
        (repeat.status(), repeat.body())
    );

    let server = payments(lenient().repeats(Repeats::AlreadyDone), Faults::none()).await;
    attempt(&server).send();
    let repeat = attempt(&server).send();
    assert_eq!(repeat.status(), 409);
    assert_eq!(problem_type(repeat.body()), problem::ANSWER_NOT_KEPT);
}

// B108.
#[tokio::test]
async fn keys_belong_to_the_caller_where_a_scope_is_set() {
    let builder = lenient().scope_header(http::header::AUTHORIZATION);
    let server = payments(builder, Faults::none()).await;
    for caller in ["alice", "bob", "alice"] {
        attempt(&server)
            .line(&format!("authorization: {caller}"))
            .send();
    }
    let actions: Vec<_> = server.arrivals().iter().map(|a| a.action).collect();
    assert_eq!(actions, [Action::Ran, Action::Ran, Action::Replayed]);
    server.assert_exactly_once();
}

#[tokio::test]
async fn keys_travel_where_the_contract_says() {
    let shop = || Contract::builder("shop");
    for (contract, target, body) in [
        (
            shop().json_pointer("/meta/key"),
            "/payments",
            r#"{"meta":{"key":"k-7"}}"#,
        ),
        (shop().form_field("key"), "/payments", "amount=100&key=k-7"),
        (
            shop().query_parameter("requestId"),
            "/payments?requestId=k-7",
            "{}",
        ),
        (shop().header("X-Shop-Key"), "/payments", "{}"),
    ] {
        let server = payments(
            lenient().contract(contract.build().unwrap()),
            Faults::none(),
        )
        .await;
        let attempt = Attempt::post(server.address(), target)
            .line("X-Shop-Key: k-7")
            .body(body);
        assert_eq!([attempt.status(), attempt.status()], [201, 201]);
        let key = IdempotencyKey::parse("k-7").unwrap();
        assert_eq!(server.executions_of(&key), 1);
        server.assert_exactly_once();
    }
}

#[tokio::test]
async fn a_quoted_key_is_another_key_to_a_server_that_reads_the_bare_text() {
    let builder = lenient()
        .tolerate(Rule::QuotingChanged)
        .contract(Contract::stripe());
    let server = payments(builder, Faults::none()).await;
    attempt(&server).send();
    Attempt::post(server.address(), "/payments")
        .key("\"k-1\"")
        .send();
    let key = IdempotencyKey::parse("k-1").unwrap();
    assert_eq!(server.executions_of(&key), 2);
}

// B101.
#[tokio::test]
async fn the_work_goes_on_when_the_client_is_gone() {
    in_a_row(|| async {
        let slow = SlowHandler(Duration::from_millis(100));
        let server = payments(lenient(), [slow]).await;
        let client = reqwest::Client::new();
        let pay = || {
            let url = format!("{}/payments", server.uri());
            client.post(url).header("idempotency-key", "k-1").send()
        };
        let impatient = tokio::time::timeout(Duration::from_millis(50), pay()).await;
        impatient.unwrap_err();
        let paid = loop {
            let came = pay().await.unwrap();
            if came.status() != 409 {
                break came;
            }
        };
        assert_eq!(paid.headers()["idempotent-replayed"], "true");
        assert_eq!(server.arrivals()[0].delivery, Delivery::ClientGone);
        server.assert_exactly_once();
    })
    .await;
}

// B67.
#[tokio::test]
async fn a_client_that_goes_on_after_it_was_cancelled_would_be_seen() {
    let server = payments(
        ContractServer::builder(),
        [idempotency::testing::Fault::Status(503)],
    )
    .await;
    let wait = Duration::from_millis(200);
    let policy = idempotency::RetryPolicy::builder()
        .backoff(idempotency::Backoff::constant(wait))
        .build()
        .unwrap();
    let client = idempotency::Client::builder()
        .policy(policy)
        .build()
        .unwrap();
    let operation = client
        .post(format!("{}/payments", server.uri()))
        .idempotent();
    let sending = tokio::spawn(operation.send());
    while server.arrivals().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    sending.abort();
    assert!(sending.await.unwrap_err().is_cancelled());
    // Nothing says that nothing comes: the second attempt would be there by now.
    tokio::time::sleep(wait * 2).await;
    assert_eq!(server.arrivals().len(), 1);
}

#[tokio::test]
async fn ordinary_mocks_stand_beside_operations() {
    let server = payments(ContractServer::builder(), [CommitThenDropReply, Pass]).await;
    Mock::given(method("GET"))
        .and(path("/health"))
        .respond_with(ResponseTemplate::new(200).set_body_string("fine"))
        .expect(2)
        .mount(server.mocks())
        .await;
    let client = reqwest::Client::new();
    for _ in 0..2 {
        let health = client
            .get(format!("{}/health", server.uri()))
            .send()
            .await
            .unwrap();
        assert_eq!(health.text().await.unwrap(), "fine");
    }
    let unknown = client
        .get(format!("{}/unknown", server.uri()))
        .send()
        .await
        .unwrap();
    assert_eq!(unknown.status(), 404);
    assert!(server.arrivals().is_empty());
}

#[tokio::test]
async fn a_contract_of_ones_own_marks_replays_in_its_own_way() {
    let contract = Contract::builder("shop")
        .without_markers()
        .marker(MarkerRule::words("x-shop-source", ["store"], ["live"]))
        .build()
        .unwrap();
    let server = payments(lenient().contract(contract), Faults::none()).await;
    attempt(&server).send();
    let replay = attempt(&server).send();
    assert_eq!(replay.header("x-shop-source"), Some("store"));
}

#[tokio::test]
async fn a_responder_sees_the_request_as_it_came() {
    let server = ContractServer::start().await;
    let echo = |request: &wiremock::Request| {
        let names: Vec<_> = request.headers.keys().map(|name| name.as_str()).collect();
        assert!(!names.contains(&"x-idempotency-kit-operation"));
        ResponseTemplate::new(200).set_body_bytes(request.body.clone())
    };
    server.operation(method("POST")).respond_with(echo).mount();
    assert_eq!(
        attempt(&server).body("\u{1F980}").send().body(),
        "\u{1F980}"
    );
}

#[tokio::test]
async fn a_script_can_be_changed_in_the_middle_of_a_test() {
    let server = ContractServer::start().await;
    let payments = server.operation(method("POST")).mount();
    assert_eq!(attempt(&server).status(), 201);
    payments.set_faults(Faults::always(idempotency::testing::Fault::Status(503)));
    let second = Attempt::post(server.address(), "/payments").key("k-2");
    assert_eq!(second.status(), 503);
    assert_eq!(payments.executions(), 1);
}

#[tokio::test]
async fn a_server_can_be_dropped_in_a_task_whose_budget_is_used_up() {
    let server = ContractServer::start().await;
    let semaphore = tokio::sync::Semaphore::new(1);
    while semaphore.acquire().now_or_never().is_some() {}
    drop(server);
}

#[tokio::test]
async fn nothing_is_left_behind() {
    in_a_row(|| async {
        let server = payments(
            ContractServer::builder(),
            Faults::always(idempotency::testing::Fault::StallBeforeHeaders),
        )
        .await;
        let address = server.address();
        let stalled = attempt(&server);
        let stalled = tokio::task::spawn_blocking(move || stalled.send());
        while server.arrivals().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(server);
        assert_eq!(stalled.await.unwrap().text, "");
        std::net::TcpListener::bind(address).unwrap();
    })
    .await;
}

#[tokio::test]
async fn methods_that_the_contract_does_not_protect_are_not_judged() {
    let server = payments(ContractServer::builder(), Faults::none()).await;
    server.operation(method("GET")).mount();
    let client = reqwest::Client::new();
    for _ in 0..3 {
        let request = client.get(server.uri()).header("idempotency-key", "k-1");
        assert_eq!(request.send().await.unwrap().status(), 201);
    }
    assert_eq!(server.arrivals().len(), 3);
    server.assert_exactly_once();
}

#[tokio::test]
async fn no_key_and_no_body_is_in_what_debug_prints() {
    let server = payments(ContractServer::builder(), Faults::none()).await;
    let secret = Attempt::post(server.address(), "/payments?token=secret");
    secret.key("secret").body("secret").send();
    let printed = format!("{server:?} {:?}", server.arrivals());
    assert!(!printed.contains("secret"), "{printed}");
    assert!(!server.verify().unwrap().to_string().contains("secret"));
}

#[tokio::test]
async fn a_refusal_lasts_as_long_as_it_says() {
    let server = payments(ContractServer::builder(), Faults::none()).await;
    let mut lasted = Vec::new();
    for _ in 0..3 {
        let began = std::time::Instant::now();
        server.refuse_connections(Duration::from_millis(50));
        while std::net::TcpStream::connect(server.address()).is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        lasted.push(began.elapsed());
    }
    assert!(
        lasted
            .iter()
            .all(|lasted| *lasted >= Duration::from_millis(50)),
        "{lasted:?}"
    );
    // The machine may be busy once, not every time.
    assert!(
        lasted[1..]
            .iter()
            .any(|lasted| *lasted < Duration::from_millis(800)),
        "{lasted:?}"
    );
}

#[tokio::test]
async fn an_answer_without_a_body_can_be_cut_too() {
    let server = ContractServer::start().await;
    let cut = idempotency::testing::Fault::CutAnswer { after: 5 };
    server.operation(method("POST")).faults(cut).mount();
    let came = attempt(&server).send();
    assert_eq!((came.status(), came.body()), (201, ""));
    assert_eq!(came.header("content-length"), Some("1"));
    assert_eq!(attempt(&server).send().header("content-length"), Some("0"));
}

#[test]
fn the_kits_values_can_cross_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<ContractServer>();
    shared::<idempotency::testing::FaultProxy>();
    shared::<idempotency::testing::Arrival>();
    shared::<idempotency::testing::ClientReport>();
    shared::<idempotency::testing::Probe>();
    shared::<idempotency::testing::ProbeReport>();
}
