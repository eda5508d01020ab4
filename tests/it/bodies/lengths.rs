//! A body length that the caller states is checked before anything is sent.

use http::HeaderValue;
use idempotency::{Effect, ErrorKind, IdempotencyKey, RequestBuilder};
use reqwest::Body;

use super::{small, streamed, third_time};
use crate::support::{ScriptedServer, Step, Way, header_lines};

fn stating(request: RequestBuilder, lengths: &[&str]) -> RequestBuilder {
    lengths.iter().fold(request, |request, length| {
        request.header("content-length", HeaderValue::from_str(length).unwrap())
    })
}

/// The same ten bytes, known at once and known when they were read.
fn ten_bytes() -> [Body; 2] {
    ["amount=100".into(), streamed(["amount", "=100"])]
}

// B20.
#[tokio::test(start_paused = true)]
async fn a_length_that_contradicts_the_body_is_refused() {
    for way in Way::ALL {
        let client = way.client(small());
        for (lengths, shown) in [
            (&["9"][..], "9"),
            (&["11"], "11"),
            (&["0"], "0"),
            (&["+10"], "+10"),
            (&["10, 10"], "10, 10"),
            (&["ten"], "ten"),
            (&["10", "11"], "11"),
            (&["18446744073709551616"], "18446744073709551616"),
        ] {
            let server = ScriptedServer::new([]);
            let request = |body: Body| stating(client.post(server.url("/")), lengths).body(body);
            let message = |certain: &str| {
                format!(
                    "the header content-length says {shown:?} and the body has 10 bytes: leave the header out; the operation {certain}"
                )
            };
            for body in ten_bytes() {
                let error = request(body).idempotent().send().await.unwrap_err();
                assert_eq!(error.to_string(), message("was not executed"));
                assert_eq!(
                    (error.kind(), error.effect()),
                    (ErrorKind::Builder, Effect::NotExecuted)
                );
                assert!(error.key().is_some());
            }
            let key = IdempotencyKey::parse("k-1").unwrap();
            for body in ten_bytes() {
                let error = request(body)
                    .idempotent_with(key.clone())
                    .send()
                    .await
                    .unwrap_err();
                assert_eq!(error.to_string(), message("may have been executed"));
                assert_eq!(error.key(), Some(&key));
            }
            for body in ten_bytes() {
                let own = request(body).header("idempotency-key", "k-1").idempotent();
                let error = own.send().await.unwrap_err();
                assert_eq!(error.to_string(), message("may have been executed"));
                assert_eq!(error.key(), Some(&key));
            }
            let [known, _] = ten_bytes();
            let error = request(known).send().await.unwrap_err();
            assert_eq!(error.to_string(), message("was not executed"));
            assert_eq!(server.connections(), 0);
        }
        let server = ScriptedServer::new([]);
        let error = stating(client.get(server.url("/")), &["1"])
            .send()
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Builder);
        assert_eq!(server.connections(), 0);
    }
}

// B20.
#[tokio::test(start_paused = true)]
async fn a_length_that_agrees_is_sent_once_on_every_attempt() {
    for way in Way::ALL {
        let client = way.client(small());
        for body in ten_bytes() {
            let server = third_time();
            let request = stating(client.post(server.url("/")), &["10"]).body(body);
            request.idempotent().send().await.unwrap();
            server.assert_one_operation(3);
            for arrival in server.arrivals() {
                assert_eq!(header_lines(&arrival, "content-length"), ["10"]);
                assert_eq!(arrival.body, b"amount=100");
            }
        }
        let server = ScriptedServer::new([Step::reply(201, &[], "")]);
        stating(client.post(server.url("/")), &["0"])
            .idempotent()
            .send()
            .await
            .unwrap();
    }
}
