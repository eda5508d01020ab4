//! A middleware that puts a body of its own round that of the answer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use idempotency::{Effect, Report, RequestBuilderExt as _};
use reqwest_middleware::Middleware;

use super::{builder, layer, our_error, ours, stack};
use crate::support::{ScriptedServer, Step};

/// A body that was signed: its end comes only if it is genuine.
struct Signed {
    body: reqwest::Body,
    seen: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
#[error("the signature is wrong")]
struct WrongSignature;

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Body for Signed {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            None if self.seen == b"genuine" => Poll::Ready(None),
            None => Poll::Ready(Some(Err(WrongSignature.into()))),
            Some(frame) => {
                let frame = frame?;
                self.seen.extend(frame.data_ref().into_iter().flatten());
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn checking() -> impl Middleware {
    layer(|request, extensions, next| {
        Box::pin(async {
            let answer = next.run(request, extensions).await?;
            let answer: http::Response<reqwest::Body> = answer.into();
            let answer = answer.map(|body| {
                reqwest::Body::wrap(Signed {
                    body,
                    seen: Vec::new(),
                })
            });
            Ok(answer.into())
        })
    })
}

/// The length that was stated is not the whole truth: the body ends where it says that it ends.
#[tokio::test(start_paused = true)]
async fn a_body_that_fails_after_its_last_byte_is_a_lost_answer() {
    let steps = || {
        [
            Step::reply(201, &[], "forged!"),
            Step::reply(201, &[], "genuine"),
        ]
    };
    let server = ScriptedServer::new(steps());
    let client = stack().with(ours(2)).with(checking()).build();
    let request = client.post(server.url("/orders")).body("x").idempotent();
    let response = request.send().await.unwrap();
    assert_eq!(Report::of(&response).unwrap().attempts().len(), 2);
    assert_eq!(response.text().await.unwrap(), "genuine");
    server.assert_one_operation(2);

    let server = ScriptedServer::new(steps());
    let client = builder(2).attempt_middleware(checking()).build().unwrap();
    let operation = client.post(server.url("/orders")).body("x").idempotent();
    let response = operation.send().await.unwrap();
    assert_eq!(response.attempts().len(), 2);
    assert_eq!(response.text().await.unwrap(), "genuine");
    server.assert_one_operation(2);

    let server = ScriptedServer::always(Step::reply(201, &[], "forged!"));
    let client = stack().with(ours(2)).with(checking()).build();
    let request = client.post(server.url("/orders")).body("x").idempotent();
    let error = request.send().await.unwrap_err();
    let error = our_error(&error);
    assert_eq!(
        (error.attempts().len(), error.effect()),
        (2, Effect::Unknown)
    );
}
