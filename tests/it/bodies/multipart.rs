//! A multipart body keeps its boundary.

use reqwest::multipart::{Form, Part};

use super::{small, streamed, third_time};
use crate::support::{ScriptedServer, Step, Way, header_lines};

fn form(file: Part) -> Form {
    Form::new()
        .text("amount", "100")
        .part("scan", file.file_name("scan.pdf"))
}

// B17, B18, B19.
#[tokio::test(start_paused = true)]
async fn every_attempt_has_the_same_boundary_in_its_header_and_in_its_body() {
    let policy = small().to_builder().request_buffer(1000).build().unwrap();
    for way in Way::ALL {
        let file = b"%PDF \0\xff".to_vec();
        for part in [
            Part::bytes(file.clone()),
            Part::stream(streamed([file.clone()])),
        ] {
            let server = third_time();
            let request = way.client(policy.clone()).post(server.url("/scans"));
            request
                .multipart(form(part))
                .idempotent()
                .send()
                .await
                .unwrap();
            server.assert_one_operation(3);
            let content_types: Vec<_> = server
                .arrivals()
                .iter()
                .map(|arrival| {
                    assert_eq!(
                        header_lines(arrival, "content-length"),
                        [arrival.body.len().to_string()]
                    );
                    header_lines(arrival, "content-type").join("; ")
                })
                .collect();
            let boundary = content_types[0]
                .strip_prefix("multipart/form-data; boundary=")
                .unwrap();
            assert_eq!(
                content_types,
                [
                    content_types[0].clone(),
                    content_types[0].clone(),
                    content_types[0].clone()
                ]
            );
            for body in server.bodies() {
                let opening = format!("--{boundary}\r\n");
                assert!(body.starts_with(opening.as_bytes()));
                assert!(body.ends_with(format!("--{boundary}--\r\n").as_bytes()));
                assert!(body.windows(file.len()).any(|window| window == file));
            }
        }
    }
}

// B17.
#[tokio::test(start_paused = true)]
async fn a_form_that_is_too_large_to_keep_is_sent_once() {
    for way in Way::ALL {
        for status in [201, 503] {
            let server = ScriptedServer::new([Step::reply(status, &[], "")]);
            let request = way.client(small()).post(server.url("/scans"));
            let operation = request
                .multipart(form(Part::bytes(vec![b'x'; 5000])))
                .idempotent();
            let sent = operation.send().await;
            assert_eq!(sent.is_ok(), status == 201);
            let [arrival] = &server.arrivals()[..] else {
                panic!("one hit")
            };
            assert!(arrival.complete && arrival.body.len() > 5000);
            assert_eq!(
                header_lines(arrival, "content-length"),
                [arrival.body.len().to_string()]
            );
        }
    }
}
