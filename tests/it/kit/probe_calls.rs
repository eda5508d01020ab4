//! The probe as a library call: its typed report, its proposal, its errors.

use http::{HeaderMap, HeaderValue, StatusCode};
use idempotency::Contract;
use idempotency::contract::{Meaning, MismatchDetection, Replay};
use idempotency::testing::{Check, ContractServer, Grade, Repeats, Rule, Verdict, probe};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::bad_server::{BadServer, Ways, Wrong};

#[tokio::test]
async fn every_check_has_its_row_and_its_progress() {
    let server = BadServer::start(Wrong::Nothing, Ways::default());
    let (sender, seen) = std::sync::mpsc::channel();
    let report = probe(server.url())
        .on_check(move |number, of, check| sender.send((number, of, check)).unwrap())
        .run()
        .await
        .unwrap();
    let rows: Vec<_> = report.rows.iter().map(|row| row.check).collect();
    assert_eq!(rows, Check::ALL);
    let progress: Vec<_> = seen.iter().collect();
    let expected = (1..)
        .zip(Check::ALL)
        .map(|(number, check)| (number, 20, check));
    assert_eq!(progress, expected.collect::<Vec<_>>());
    for (check, seen) in [
        (
            Check::ServerError,
            "not asked: the probe does not know what fails",
        ),
        (
            Check::OtherCaller,
            "not asked: the probe has one caller's credentials only",
        ),
    ] {
        let row = report.row(check).unwrap();
        assert_eq!((row.grade, row.seen.as_str()), (Grade::Unknown, seen));
    }
}

#[tokio::test]
async fn the_report_for_machines_says_what_the_table_says() {
    let server = BadServer::start(Wrong::StatusLost, Ways::default());
    let report = probe(server.url()).run().await.unwrap();
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["url"], server.url());
    assert_eq!(json["verdict"], "unsafe");
    assert_eq!(
        json["rows"][1],
        serde_json::json!({ "check": "repeat", "grade": "bad", "seen": "replays 200 for 201" })
    );
    assert_eq!(json["rows"].as_array().unwrap().len(), 20);
    let fits = json["proposal"]["fits"].as_array().unwrap();
    assert!(fits.contains(&"generic".into()) && fits.contains(&"stripe".into()));
    assert!(!fits.contains(&"ietf-draft".into()));
    assert_eq!(json["proposal"]["honours_keys"], true);
    assert!(
        json["proposal"]["code"]
            .as_str()
            .unwrap()
            .starts_with("Contract::builder(")
    );
}

#[tokio::test]
async fn the_proposed_contract_reads_what_was_seen() {
    let ways = Ways {
        own_words: true,
        quoted_only: true,
    };
    let server = BadServer::start(Wrong::Nothing, ways);
    let report = probe(server.url()).run().await.unwrap();
    let contract = report.proposal.contract;
    let store = HeaderValue::from_static("store");
    let headers = HeaderMap::from_iter([("x-shop-source".parse().unwrap(), store)]);
    assert_eq!(
        contract.marker(StatusCode::CREATED, &headers, b""),
        Replay::Replayed
    );
    let busy = contract.read(
        StatusCode::LOCKED,
        &HeaderMap::new(),
        br#"{"code":"still_busy"}"#,
    );
    assert_eq!(busy.meaning, Meaning::InProgress);
    let other = br#"{"code":"other_request"}"#;
    let other = contract.read(StatusCode::BAD_REQUEST, &HeaderMap::new(), other);
    assert_eq!(other.meaning, Meaning::Mismatch);
    assert_eq!(contract.mismatch(), MismatchDetection::Detected);
    let key = idempotency::IdempotencyKey::parse("k-1").unwrap();
    assert_eq!(contract.encode_key(&key).unwrap(), "\"k-1\"");
}

#[tokio::test]
async fn a_server_that_plays_a_named_contract_is_known_by_it() {
    for name in ["generic", "ietf-draft", "stripe", "resend", "increase"] {
        let contract = Contract::named(name).unwrap();
        let server = ContractServer::builder()
            .contract(contract)
            .retry_after(0)
            .start()
            .await;
        let paid = std::sync::atomic::AtomicUsize::new(0);
        let pay = move |_: &wiremock::Request| {
            let paid = paid.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            ResponseTemplate::new(201).set_body_json(paid)
        };
        server.operation(method("POST")).respond_with(pay).mount();
        let report = probe(format!("{}/payments", server.uri()))
            .run()
            .await
            .unwrap();
        // The probe is a bad client on purpose.
        let report_on_the_probe = server.verify().unwrap_err();
        assert!(report_on_the_probe.broke(Rule::BodyChanged));
        assert!(report.is_safe(), "{report}");
        assert!(report.proposal.fits.contains(&name), "{report}");
    }
}

#[tokio::test]
async fn answers_that_are_all_alike_leave_the_verdict_open_without_a_witness() {
    let server = ContractServer::builder()
        .repeats(Repeats::Unmarked)
        .retry_after(0)
        .start()
        .await;
    let payments = server
        .operation(method("POST"))
        .respond_with(ResponseTemplate::new(201).set_body_string("paid"))
        .mount();
    let url = format!("{}/payments", server.uri());
    let report = probe(&url).run().await.unwrap();
    assert_eq!(report.verdict, Verdict::Unknown);
    assert!(
        report
            .to_string()
            .contains("does not show: give the probe a witness")
    );
    assert!(payments.executions() > 0);
    let _ = server.verify();
}

#[tokio::test]
async fn a_witness_tells_runs_that_answer_alike() {
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let server = MockServer::start().await;
    let counted = std::sync::Arc::clone(&runs);
    let pay = move |_: &wiremock::Request| {
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        ResponseTemplate::new(201).set_body_string("paid")
    };
    let count = move |_: &wiremock::Request| {
        let runs = runs.load(std::sync::atomic::Ordering::SeqCst);
        ResponseTemplate::new(200).set_body_json(serde_json::json!({ "made": { "runs": runs } }))
    };
    Mock::given(method("POST"))
        .respond_with(pay)
        .mount(&server)
        .await;
    Mock::given(path("/count"))
        .respond_with(count)
        .mount(&server)
        .await;
    let report = probe(format!("{}/payments", server.uri()))
        .witness(format!("{}/count", server.uri()), "/made/runs")
        .run()
        .await
        .unwrap();
    assert_eq!(report.verdict, Verdict::Unsafe);
    assert_eq!(report.row(Check::Repeat).unwrap().seen, "runs again");
    assert_eq!(
        report.row(Check::TenAtOnce).unwrap().seen,
        "ran 10 times: 10 x 201"
    );
    // Whether a server begins with a request whose client is gone is its own affair.
    assert_eq!(report.row(Check::ClientGone).unwrap().grade, Grade::Bad);
}

#[tokio::test]
async fn what_cannot_be_probed_is_said() {
    let refused = crate::support::Refused::new();
    let unwilling = MockServer::start().await;
    let in_the_body = Contract::builder("shop")
        .json_pointer("/key")
        .build()
        .unwrap();
    for (asked, error) in [
        (probe("payments"), "`payments`: relative URL without a base"),
        (
            probe("ftp://localhost/"),
            "`ftp://localhost/` is no HTTP address",
        ),
        (
            probe("http://localhost/").contract(in_the_body),
            "the key of `shop` does not travel in a header: only headers are probed",
        ),
        (probe(refused.url("/")), "no server answers there"),
        (
            probe(unwilling.uri()),
            "the first request was answered 404: the probe needs a request that succeeds (credentials, body, content type)",
        ),
    ] {
        assert_eq!(asked.run().await.unwrap_err().to_string(), error);
    }
}

#[tokio::test]
async fn credentials_are_in_no_report() {
    let server = BadServer::start(Wrong::Nothing, Ways::default());
    let url = server.url().replace("http://", "http://user:secret@") + "?token=secret";
    let asked = probe(url).header(
        http::header::AUTHORIZATION,
        HeaderValue::from_static("secret"),
    );
    assert!(!format!("{asked:?}").contains("secret"));
    let report = asked.run().await.unwrap();
    assert_eq!(report.url, server.url());
    assert!(!report.to_json().contains("secret"));
}
