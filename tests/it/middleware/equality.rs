//! A client of ours gives the same results with middlewares as without: one table through both.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use idempotency::{Client, Contract, Error, IdempotencyKey, RequestBuilder, Response, RetryPolicy};

use super::layer;
use crate::support::{Arrivals, Refused, ScriptedServer, Step, header_lines, timed};

fn policy() -> RetryPolicy {
    let policy = RetryPolicy::immediate(3).to_builder();
    policy
        .request_buffer(64)
        .response_buffer(64)
        .stall_timeout(Duration::from_secs(5))
        .deadline(Duration::from_secs(30))
        .build()
        .unwrap()
}

fn client(chain: bool) -> Client {
    let nothing = || layer(|request, extensions, next| next.run(request, extensions));
    let builder = Client::builder()
        .reqwest(Client::reqwest_defaults().no_proxy())
        .policy(policy());
    let builder = if chain {
        builder
            .operation_middleware(nothing())
            .attempt_middleware(nothing())
    } else {
        builder
    };
    builder.build().unwrap()
}

/// How the request is made an operation.
#[derive(Clone, Copy, Debug)]
enum Keyed {
    No,
    Drawn,
    Given,
    Streamed,
    /// Under another contract, policy and deadline.
    Overridden,
    /// Taken up again.
    Resumed,
}

/// Its key travels in another header, and 409 is final.
fn other_contract() -> Contract {
    let contract = Contract::generic().to_builder().header("x-operation");
    contract.conflict_is_final().build().unwrap()
}

async fn send(request: RequestBuilder, keyed: Keyed) -> Vec<Result<Response, Error>> {
    let operation = match keyed {
        Keyed::No => return vec![request.send().await],
        Keyed::Drawn => request.idempotent(),
        Keyed::Given => request.idempotent_with(IdempotencyKey::parse("k-1").unwrap()),
        Keyed::Streamed => request.idempotent().stream_answer(),
        Keyed::Overridden => request
            .idempotent()
            .contract(other_contract())
            .policy(RetryPolicy::immediate(2))
            .deadline(Duration::from_secs(7)),
        Keyed::Resumed => {
            let key = IdempotencyKey::parse("k-1").unwrap();
            request.idempotent_with(key).first_sent(SystemTime::now())
        }
    };
    // Again is the same value.
    vec![operation.send().await, operation.send().await]
}

/// Everything that a caller can see, without what differs from run to run: the drawn key and the port.
async fn seen(sent: Result<Response, Error>, key_on_the_wire: Option<&str>) -> String {
    let mut text = String::new();
    let (report, answer) = match sent {
        Ok(response) => {
            let report = response.report().clone();
            write!(
                text,
                "Ok({}) mismatch {} length {:?} ",
                response.status(),
                response.is_mismatch(),
                response.content_length()
            )
            .unwrap();
            (report, Some(response))
        }
        Err(error) => {
            write!(
                text,
                "Err({error}) {:?} {:?} ",
                error.kind(),
                error.effect()
            )
            .unwrap();
            (error.report().clone(), error.into_response())
        }
    };
    let keyed = match (report.idempotency_key(), key_on_the_wire) {
        (Some(key), Some(sent)) => format!("the key on the wire: {}", key.as_str() == sent),
        (key, _) => format!("keyed: {}", key.is_some()),
    };
    let attempts: Vec<_> = report.attempts().iter().map(ToString::to_string).collect();
    write!(
        text,
        "{keyed}, {}, followed unknown {}, {:?}, buffered {}, hint {:?}, {attempts:#?}",
        report.replay(),
        report.followed_unknown(),
        report.stopped_by(),
        report.is_buffered(),
        report.retry_after(),
    )
    .unwrap();
    if let Some(answer) = answer {
        let error = answer.error_for_status();
        let answer = match error {
            Ok(answer) => answer,
            Err(error) => {
                write!(
                    text,
                    ", as an error: {error} {:?} {:?}",
                    error.kind(),
                    error.effect()
                )
                .unwrap();
                error.into_response().unwrap()
            }
        };
        match answer.bytes().await {
            Ok(body) => write!(text, ", body {body:?}").unwrap(),
            Err(error) => write!(
                text,
                ", body {error} {:?} {:?}",
                error.kind(),
                error.effect()
            )
            .unwrap(),
        }
    }
    text
}

fn arrivals(seen: &Arrivals) -> String {
    let mut text = format!("{} connections", seen.connections());
    for arrival in seen.arrivals() {
        let keys = header_lines(&arrival, "idempotency-key").len();
        let others = header_lines(&arrival, "x-operation").len();
        let length = header_lines(&arrival, "content-length").join(",");
        let coding = header_lines(&arrival, "transfer-encoding").join(",");
        write!(
            text,
            "\n{} {} keys {keys}, {others} length {length} coding {coding} body {:?} {}",
            arrival.method,
            arrival.target,
            String::from_utf8_lossy(&arrival.body),
            arrival.complete
        )
        .unwrap();
    }
    text
}

fn stream_of(chunks: Vec<Result<&'static str, &'static str>>, hangs: bool) -> reqwest::Body {
    use futures_util::StreamExt as _;

    let frames = chunks.into_iter().map(|chunk| {
        chunk
            .map(|text| Frame::data(Bytes::from_static(text.as_bytes())))
            .map_err(std::io::Error::other)
    });
    let frames = stream::iter(frames);
    if hangs {
        reqwest::Body::wrap(StreamBody::new(frames.chain(stream::pending())))
    } else {
        reqwest::Body::wrap(StreamBody::new(frames))
    }
}

const LONG: &str =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Bodies of requests: bytes, and streams that end, are too long to keep, fail, and never end.
fn body(kind: usize) -> Option<reqwest::Body> {
    Some(match kind {
        0 => "amount=100".into(),
        1 => stream_of(vec![Ok("amount="), Ok("100")], false),
        2 => stream_of(vec![Ok(LONG), Ok(LONG)], false),
        3 => stream_of(vec![Ok("amount="), Err("the disk is gone")], false),
        4 => stream_of(vec![Ok(LONG), Ok(LONG), Err("the disk is gone")], false),
        5 => stream_of(vec![Ok("amount=")], true),
        _ => return None,
    })
}

fn scripts() -> Vec<Vec<Step>> {
    let mark = [("idempotent-replayed", "true")];
    let events = [("content-type", "text/event-stream")];
    let ok = || Step::reply(201, &[], "done");
    let busy = || Step::reply(503, &[("retry-after", "0")], "busy");
    vec![
        vec![ok(), ok()],
        vec![busy(), ok(), ok()],
        vec![Step::read_then_close(), ok(), ok()],
        vec![
            Step::read_then_reset(),
            Step::reply(201, &mark, "done"),
            Step::reply(200, &mark, ""),
        ],
        vec![busy(), busy(), busy(), busy(), busy(), busy()],
        vec![
            Step::reply(422, &[], "{}"),
            Step::reply(409, &[], "{}"),
            ok(),
            ok(),
        ],
        vec![
            Step::reply(409, &[], ""),
            Step::reply(409, &[], ""),
            Step::reply(409, &[], ""),
            ok(),
        ],
        vec![Step::read_then_close(), Step::reply(401, &[], "who"), ok()],
        vec![Step::reply(425, &[], ""), ok(), ok()],
        vec![Step::reply(303, &[("location", "/x")], ""), ok()],
        vec![Step::reply(307, &[("location", "/x")], ""), ok(), ok()],
        vec![Step::reply(503, &[("retry-after", "3600")], "later"), ok()],
        vec![Step::reply(500, &mark, "stored"), ok()],
        vec![Step::reply(201, &[], LONG), Step::reply(400, &[], LONG)],
        vec![Step::reply(201, &events, "data: x\n\n"), ok()],
        vec![
            Step::cut_fixed(201, 20, 10),
            Step::cut_fixed(201, 200, 100),
            ok(),
        ],
        vec![Step::stall_in_body(201, 200, 100), ok()],
        vec![
            Step::stall_before_headers(),
            Step::stall_before_headers(),
            Step::stall_before_headers(),
            ok(),
        ],
        vec![Step::garbage("\u{1}\u{2}"), ok(), ok()],
        vec![Step::reply_early(413, &[], "too much"), ok()],
    ]
}

async fn run(client: &Client, method: &str, steps: Vec<Step>, keyed: Keyed, kind: usize) -> String {
    // What the script does not foresee is the same for both.
    let mut steps = steps.into_iter();
    let server =
        ScriptedServer::answering(move |_| steps.next().unwrap_or(Step::reply(200, &[], "more")));
    let request = client.request(method.parse().unwrap(), server.url("/orders"));
    let request = match body(kind) {
        Some(body) => request.body(body),
        None => request
            .header("idempotency-key", "a")
            .header("idempotency-key", "b"),
    };
    let (sent, took) = timed(send(request, keyed)).await;
    let wire = arrivals(&server);
    let key = server.keys().into_iter().flatten().next();
    let mut text = format!("{took:?}\n{wire}\n");
    for sent in sent {
        text.push_str(&seen(sent, key.as_deref()).await);
        text.push('\n');
    }
    text
}

#[tokio::test(start_paused = true)]
async fn a_chain_changes_nothing() {
    let (direct, chain) = (client(false), client(true));
    let mut compared = 0;
    for steps in scripts() {
        for keyed in [
            Keyed::No,
            Keyed::Drawn,
            Keyed::Given,
            Keyed::Streamed,
            Keyed::Overridden,
            Keyed::Resumed,
        ] {
            let bare = run(&direct, "POST", steps.clone(), keyed, 0).await;
            let chained = run(&chain, "POST", steps.clone(), keyed, 0).await;
            assert_eq!(chained, bare, "{keyed:?}, {steps:?}");
            compared += 1;
        }
    }
    assert_eq!(compared, 120);
}

#[tokio::test(start_paused = true)]
async fn a_chain_changes_nothing_for_streamed_bodies_and_bad_keys() {
    let (direct, chain) = (client(false), client(true));
    let ok = || Step::reply(201, &[], "done");
    for steps in [
        vec![ok(), ok()],
        vec![Step::reply(503, &[], ""), ok(), ok()],
    ] {
        for method in ["POST", "PUT", "GET"] {
            for keyed in [Keyed::No, Keyed::Drawn, Keyed::Given] {
                for kind in 1..=6 {
                    if method == "GET" && kind != 6 {
                        continue;
                    }
                    let bare = run(&direct, method, steps.clone(), keyed, kind).await;
                    let chained = run(&chain, method, steps.clone(), keyed, kind).await;
                    assert_eq!(chained, bare, "{method}, {keyed:?}, body {kind}, {steps:?}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_chain_changes_nothing_where_nobody_listens() {
    let refused = Refused::new();
    for keyed in [Keyed::No, Keyed::Drawn, Keyed::Given] {
        let mut texts = Vec::new();
        for chain in [false, true] {
            let request = client(chain).post(refused.url("/orders")).body("x");
            let mut text = String::new();
            for sent in send(request, keyed).await {
                text.push_str(&seen(sent, None).await);
            }
            texts.push(text);
        }
        assert_eq!(texts[1], texts[0], "{keyed:?}");
    }
}
