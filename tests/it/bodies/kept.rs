//! A body of bytes goes out again byte by byte, with its own length and type.

use bytes::Bytes;
use idempotency::{Client, RequestBuilder, RetryPolicy};
use serde_json::json;

use super::{small, third_time};
use crate::support::{Way, header_lines};

type WithBody = fn(RequestBuilder) -> RequestBuilder;

/// Sends a body that gets through at the third attempt; asserts what each attempt has sent of it.
async fn assert_sent(client: &Client, with_body: WithBody, body: &[u8], content_type: &[&str]) {
    let lengths: Vec<String> = match body.len() {
        0 => Vec::new(),
        length => vec![length.to_string()],
    };
    let server = third_time();
    let request = with_body(client.patch(server.url("/payments/7")));
    request.idempotent().send().await.unwrap();
    server.assert_one_operation(3);
    for arrival in server.arrivals() {
        assert!(arrival.complete);
        assert_eq!(arrival.body, body);
        assert_eq!(header_lines(&arrival, "content-length"), lengths);
        assert_eq!(header_lines(&arrival, "transfer-encoding"), [""; 0]);
        assert_eq!(header_lines(&arrival, "content-type"), content_type);
    }
}

// B14, B15, B20.
#[tokio::test(start_paused = true)]
async fn bytes_and_texts_are_sent_again_as_they_are() {
    for way in Way::ALL {
        let client = way.client(small());
        assert_sent(
            &client,
            |request| request.body(&[0_u8, 255, 13, 10][..]),
            &[0, 255, 13, 10],
            &[],
        )
        .await;
        assert_sent(
            &client,
            |request| request.body("amount=100"),
            b"amount=100",
            &[],
        )
        .await;
        assert_sent(
            &client,
            |request| request.body("caf\u{e9}".to_owned()),
            b"caf\xc3\xa9",
            &[],
        )
        .await;
        assert_sent(
            &client,
            |request| request.body(vec![b'x'; 1000]),
            &[b'x'; 1000],
            &[],
        )
        .await;
        let typed: WithBody =
            |request| request.header("content-type", "a/b").body(Bytes::from("c"));
        assert_sent(&client, typed, b"c", &["a/b"]).await;
        assert_sent(&client, |request| request.body(""), b"", &[]).await;
    }
}

#[cfg(feature = "json")]
#[tokio::test(start_paused = true)]
async fn json_is_sent_again_as_it_was_written() {
    for way in Way::ALL {
        let client = way.client(small());
        let charge: WithBody = |request| request.json(&json!({"b": 1, "a": [2, null]}));
        let written = json!({"b": 1, "a": [2, null]}).to_string();
        assert_sent(&client, charge, written.as_bytes(), &["application/json"]).await;
        let own: WithBody = |request| {
            request
                .header("content-type", "application/own+json")
                .json("x")
        };
        assert_sent(&client, own, b"\"x\"", &["application/own+json"]).await;
    }
}

#[cfg(feature = "form")]
#[tokio::test(start_paused = true)]
async fn a_form_is_sent_again_as_it_was_written() {
    for way in Way::ALL {
        let form: WithBody = |request| request.form(&[("b", "1 2"), ("a", "\u{e9}")]);
        let content_type = ["application/x-www-form-urlencoded"];
        assert_sent(&way.client(small()), form, b"b=1+2&a=%C3%A9", &content_type).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_body_stays_no_body() {
    for way in Way::ALL {
        let server = third_time();
        let client = way.client(RetryPolicy::immediate(3));
        client
            .post(server.url("/"))
            .idempotent()
            .send()
            .await
            .unwrap();
        for arrival in server.arrivals() {
            assert_eq!(arrival.body, b"");
            assert_eq!(header_lines(&arrival, "transfer-encoding"), [""; 0]);
        }
        server.assert_one_operation(3);
    }
}
