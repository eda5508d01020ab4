//! Who may name whom, what the types promise to other threads, and whether a stranger can replace what is meant to be replaced.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use idempotency::{
    Attempt, Backoff, Client, ClientBuilder, Contract, Effect, Endpoint, Error, ErrorKind,
    IdempotencyKey, IdempotencyMiddleware, IdempotentRequest, KeyNamespace, KeySource, Pending,
    Replay, Report, RequestBuilder, Response, RetryBudget, RetryConfig, RetryPolicy, StoppedBy,
};

use crate::support::{ScriptedServer, Step};

/// Each part of the house, the parts that it may name, and the crates that it must not.
const PARTS: &[(&str, &[&str], &[&str])] = &[
    (
        "contract",
        &["contract"],
        &["reqwest", "reqwest_middleware", "tokio", "tracing", "hyper"],
    ),
    (
        "retry",
        &["retry", "contract"],
        &[
            "reqwest",
            "reqwest_middleware",
            "tokio",
            "tracing",
            "hyper",
            "fastrand",
        ],
    ),
    (
        "client",
        &["client", "retry", "contract"],
        &["axum", "tower", "sqlx"],
    ),
    (
        "server",
        &["server", "contract"],
        &["reqwest", "reqwest_middleware", "hyper"],
    ),
    (
        "testing",
        &["testing", "contract", "server"],
        &["reqwest_middleware"],
    ),
];

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The code of a file without comments, and without the tests at its end.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The words after every `start` in the code, where no identifier ends just before it.
fn words_after<'a>(code: &'a str, start: &str) -> Vec<&'a str> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    code.match_indices(start)
        .filter(|(at, _)| !code[..*at].ends_with(is_word))
        .map(|(at, _)| {
            let rest = &code[at + start.len()..];
            rest.split(|character: char| !is_word(character))
                .next()
                .unwrap_or_default()
        })
        .collect()
}

/// What is wrong with one file of a part, if anything.
fn upward(part: &str, allowed: &[&str], refused: &[&str], code: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for name in words_after(code, "crate::") {
        // An empty name is a list, which hides what it names.
        if !allowed.contains(&name) {
            wrong.push(format!("{part} names crate::{name}"));
        }
    }
    for name in refused {
        if !words_after(code, &format!("{name}::")).is_empty() {
            wrong.push(format!("{part} names the crate {name}"));
        }
    }
    wrong
}

#[test]
fn nothing_is_imported_upward() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = 0;
    let mut wrong = Vec::new();
    for (part, allowed, refused) in PARTS {
        let directory = root.join(part);
        if !directory.is_dir() {
            continue;
        }
        for path in sources(&directory) {
            files += 1;
            for what in upward(part, allowed, refused, &code(&path)) {
                wrong.push(format!("{}: {what}", path.display()));
            }
        }
    }
    assert!(files > 30, "{files} files were read");
    assert!(wrong.is_empty(), "{wrong:#?}");
    // No part hides behind another's name: what is not in the table is not in the house.
    for entry in fs::read_dir(&root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let known = name == "lib" || PARTS.iter().any(|(part, ..)| *part == name);
        assert!(known || name == "docs", "{name} is no part of the house");
    }
}

/// The test above tests something.
#[test]
fn an_upward_import_is_noticed() {
    let found = |code: &str| upward("retry", &["retry", "contract"], &["reqwest"], code).len();
    assert_eq!(
        found("use crate::contract::Meaning;\nuse super::reason::StoppedBy;"),
        0
    );
    assert_eq!(found("use crate::client::Error;"), 1);
    assert_eq!(found("use crate::{client, contract};"), 1);
    assert_eq!(found("use crate::Client;"), 1);
    assert_eq!(found("fn f(error: reqwest::Error) {}"), 1);
    assert_eq!(found("use my_reqwest::Error;"), 0);
}

fn everywhere<T: Send + Sync + Unpin + 'static>() {}
fn moved<T: Send + Unpin + 'static>() {}

#[test]
fn every_public_type_can_be_used_from_any_thread() {
    everywhere::<Attempt>();
    everywhere::<Backoff>();
    everywhere::<Client>();
    everywhere::<Contract>();
    everywhere::<Effect>();
    everywhere::<Endpoint>();
    everywhere::<Error>();
    everywhere::<ErrorKind>();
    everywhere::<IdempotencyKey>();
    everywhere::<IdempotencyMiddleware>();
    everywhere::<IdempotentRequest>();
    everywhere::<KeyNamespace>();
    everywhere::<KeySource>();
    everywhere::<Pending>();
    everywhere::<Replay>();
    everywhere::<Report>();
    everywhere::<Response>();
    everywhere::<RetryBudget>();
    everywhere::<RetryConfig>();
    everywhere::<RetryPolicy>();
    everywhere::<StoppedBy>();
    moved::<ClientBuilder>();
    moved::<RequestBuilder>();
    everywhere::<idempotency::contract::AnswerRule>();
    everywhere::<idempotency::contract::ContractBuilder>();
    everywhere::<idempotency::contract::ContractError>();
    everywhere::<idempotency::contract::Fingerprint>();
    everywhere::<idempotency::contract::KeyDigest>();
    everywhere::<idempotency::contract::KeyError>();
    everywhere::<idempotency::contract::KeyReadError>();
    everywhere::<idempotency::contract::MarkerRule>();
    everywhere::<idempotency::contract::Meaning>();
    everywhere::<idempotency::contract::Problem>();
    everywhere::<idempotency::contract::Reading>();
    everywhere::<idempotency::contract::WaitHint>();
    everywhere::<idempotency::contract::Window>();
    everywhere::<idempotency::retry::Assessment>();
    everywhere::<idempotency::retry::Decision>();
    everywhere::<idempotency::retry::Failure>();
    everywhere::<idempotency::retry::PolicyError>();
    everywhere::<idempotency::retry::RetryPolicyBuilder>();
    everywhere::<idempotency::retry::Situation>();
    moved::<idempotency::retry::Delays>();
}

fn owned<F: Future + Send + 'static>(future: F) -> F {
    future
}

/// The future of `send` owns what it needs: it outlives the operation, the request and the client.
#[tokio::test]
async fn a_send_can_be_spawned_and_outlives_everything() {
    let server = ScriptedServer::always(Step::reply(201, &[], "done"));
    let client = Client::builder()
        .reqwest(Client::reqwest_defaults().no_proxy())
        .build()
        .unwrap();
    let operation = client.post(server.url("/orders")).body("x").idempotent();
    let keyed = owned(operation.send());
    let unkeyed = owned(client.post(server.url("/orders")).send());
    drop((operation, client));
    let response = tokio::spawn(keyed).await.unwrap().unwrap();
    let body = tokio::spawn(owned(response.bytes()))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(body, "done");
    let response = tokio::spawn(unkeyed).await.unwrap().unwrap();
    drop(owned(response.text()));
    server.assert_hits(2);
}

/// One of the caller's own middlewares.
struct Counting(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl reqwest_middleware::Middleware for Counting {
    async fn handle(
        &self,
        request: reqwest::Request,
        extensions: &mut http::Extensions,
        next: reqwest_middleware::Next<'_>,
    ) -> reqwest_middleware::Result<reqwest::Response> {
        self.0.fetch_add(1, Ordering::SeqCst);
        next.run(request, extensions).await
    }
}

/// All that is meant to be replaced, replaced at once, with nothing but the public names.
#[tokio::test(start_paused = true)]
async fn a_stranger_can_replace_what_is_meant_to_be_replaced() {
    let server = ScriptedServer::new([
        Step::reply(420, &[("retry-after-ms", "250")], r#"{"state":"running"}"#),
        Step::reply(503, &[], ""),
        Step::reply(201, &[("x-again", "yes")], ""),
    ]);
    let contract = contract().unwrap();
    let drawn = AtomicUsize::new(0);
    let keys = KeySource::from_fn(move || {
        let number = drawn.fetch_add(1, Ordering::SeqCst);
        IdempotencyKey::parse(format!("shop-{number}")).unwrap()
    });
    let backoff = Backoff::from_fn(|retry| (retry < 5).then(|| Duration::from_millis(70)));
    let policy = RetryPolicy::builder()
        .backoff(backoff)
        .no_budget()
        .build()
        .unwrap();
    let (operations, attempts) = (Arc::default(), Arc::default());
    let client = Client::builder()
        .reqwest(Client::reqwest_defaults().no_proxy())
        .contract(contract)
        .key_source(keys)
        .policy(policy)
        .operation_middleware(Counting(Arc::clone(&operations)))
        .attempt_middleware(Counting(Arc::clone(&attempts)))
        .build()
        .unwrap();
    let operation = client.post(server.url("/orders")).body("x").idempotent();
    assert_eq!(operation.key().unwrap().as_str(), "shop-0");
    let response = operation.send().await.unwrap();
    assert_eq!(response.replay(), Replay::Replayed);
    let waits: Vec<_> = response
        .attempts()
        .iter()
        .map(|attempt| attempt.wait().map(|wait| wait.0))
        .collect();
    let millis = |millis| Some(Duration::from_millis(millis));
    assert_eq!(waits, [millis(250), millis(70), None]);
    for arrival in server.arrivals() {
        assert_eq!(
            crate::support::header_lines(&arrival, "x-operation"),
            ["shop-0"]
        );
    }
    assert_eq!(
        (
            operations.load(Ordering::SeqCst),
            attempts.load(Ordering::SeqCst)
        ),
        (1, 3)
    );
}

/// A server with ways of its own.
fn contract() -> Result<Contract, idempotency::contract::ContractError> {
    use idempotency::contract::{AnswerRule, Condition, MarkerRule, Meaning, Statuses, WaitHeader};

    Contract::builder("shop")
        .header("x-operation")
        .methods([http::Method::POST])
        .marker(MarkerRule::words("x-again", ["yes"], ["no"]))
        .wait_headers([WaitHeader::RetryAfterMs])
        .answer(AnswerRule {
            statuses: Statuses::one(420),
            when: Condition::code(["/state"], ["running"]),
            means: Meaning::InProgress,
            resource: None,
        })
        .build()
}
