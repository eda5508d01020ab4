//! Streams that are answered, refused, reset, or left behind by GOAWAY.

use bytes::Bytes;
use h2::Reason;
use http::{Request, Response};
use tokio::net::TcpStream;

use super::{assert_seen, plain_client};
use crate::support::{H2Server, H2Step};

/// A client connection that runs beside the test.
async fn connect(server: &H2Server) -> h2::client::SendRequest<Bytes> {
    let stream = TcpStream::connect(server.addr()).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

fn order() -> Request<()> {
    let request = Request::post("http://shop/orders?x=1").header("idempotency-key", "k-1");
    request.body(()).unwrap()
}

/// Opens a stream, sends the body, and reads the whole answer.
async fn ask(
    client: &mut h2::client::SendRequest<Bytes>,
    body: &'static [u8],
) -> Result<(Response<()>, Vec<u8>), (h2::Error, Vec<u8>)> {
    let mut collected = Vec::new();
    match try_ask(client, body, &mut collected).await {
        Ok(head) => Ok((head, collected)),
        Err(error) => Err((error, collected)),
    }
}

async fn try_ask(
    client: &mut h2::client::SendRequest<Bytes>,
    body: &'static [u8],
    collected: &mut Vec<u8>,
) -> Result<Response<()>, h2::Error> {
    let (answer, mut sender) = client.send_request(order(), false)?;
    // A stream that was reset takes no more data; what the server did shows in the answer.
    let _ = sender.send_data(Bytes::from_static(body), true);
    let (head, mut body) = answer.await?.into_parts();
    while let Some(part) = body.data().await {
        collected.extend(part?);
    }
    Ok(Response::from_parts(head, ()))
}

/// The error of one stream, and how much of a body came before it.
async fn failure(step: H2Step) -> (h2::Error, Vec<u8>, H2Server) {
    let server = H2Server::new([step]);
    let mut client = connect(&server).await;
    let (error, part) = ask(&mut client, b"hello").await.unwrap_err();
    server.assert_hits(1);
    (error, part, server)
}

#[tokio::test(start_paused = true)]
async fn streams_are_answered_and_recorded() {
    let marked = H2Step::reply(201, &[("idempotent-replayed", "true")], "done");
    let server = H2Server::new([H2Step::reply(503, &[], ""), marked]);
    let mut client = connect(&server).await;
    let (first, body) = ask(&mut client, b"hello").await.unwrap();
    assert_eq!((first.status().as_u16(), body), (503, vec![]));
    let (second, body) = ask(&mut client, b"hello").await.unwrap();
    assert_eq!((second.status().as_u16(), &*body), (201, &b"done"[..]));
    assert_eq!(second.headers()["idempotent-replayed"], "true");

    assert_eq!(server.assert_one_operation(2), "k-1");
    assert_eq!(server.connections(), 1);
    let arrival = &server.arrivals()[0];
    assert_eq!(
        (&*arrival.target, &*arrival.body, arrival.complete),
        ("/orders?x=1", &b"hello"[..], true)
    );
}

#[tokio::test(start_paused = true)]
async fn reqwest_speaks_to_it_with_prior_knowledge() {
    let server = H2Server::always(H2Step::reply(200, &[], "ok"));
    let client = plain_client().http2_prior_knowledge().build().unwrap();
    let answer = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(answer.version(), http::Version::HTTP_2);
    assert_eq!(answer.text().await.unwrap(), "ok");
}

#[tokio::test(start_paused = true)]
async fn a_stream_can_be_refused_before_its_body_is_read() {
    let (error, _, server) = failure(H2Step::refuse_stream()).await;
    assert!(error.is_reset() && error.is_remote());
    assert_eq!(error.reason(), Some(Reason::REFUSED_STREAM));
    assert!(!server.arrivals()[0].complete);
}

#[tokio::test(start_paused = true)]
async fn a_stream_can_be_reset_after_its_body_was_read() {
    let (error, _, server) = failure(H2Step::reset(Reason::INTERNAL_ERROR)).await;
    assert!(error.is_reset() && error.is_remote());
    assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR));
    assert_eq!(server.bodies(), [b"hello"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_be_reset_in_the_middle_of_its_body() {
    let step = H2Step::reply_then_reset_mid_body(200, "half", Reason::CANCEL);
    let (error, part, _) = failure(step).await;
    assert!(error.is_reset() && error.is_remote());
    assert_eq!(
        (error.reason(), &*part),
        (Some(Reason::CANCEL), &b"half"[..])
    );
}

#[tokio::test(start_paused = true)]
async fn a_goaway_below_the_stream_shows_as_goaway_for_every_reason() {
    for reason in [Reason::NO_ERROR, Reason::ENHANCE_YOUR_CALM] {
        let (error, _, _) = failure(H2Step::goaway_below(reason)).await;
        assert!(error.is_go_away() && error.is_remote(), "{error:?}");
        assert_eq!(error.reason(), Some(reason));
    }
}

#[tokio::test(start_paused = true)]
async fn a_goaway_at_the_stream_does_not_show_as_goaway() {
    for reason in [Reason::NO_ERROR, Reason::INTERNAL_ERROR] {
        let (error, _, server) = failure(H2Step::goaway_at(reason)).await;
        assert!(error.is_io() && !error.is_go_away(), "{error:?}");
        assert_eq!(server.bodies(), [b"hello"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_goaway_below_a_later_stream_spares_the_earlier_ones() {
    let server = H2Server::new([
        H2Step::reply(200, &[], "ok"),
        H2Step::goaway_below(Reason::NO_ERROR),
    ]);
    let mut client = connect(&server).await;
    ask(&mut client, b"").await.unwrap();
    let (error, _) = ask(&mut client, b"").await.unwrap_err();
    assert!(error.is_go_away() && error.is_remote());
    assert_seen(&server, 2, 1);
}

#[tokio::test(start_paused = true)]
async fn an_early_response_comes_before_the_body_is_read() {
    static LARGE: [u8; 1 << 20] = [0; 1 << 20];
    let server = H2Server::new([H2Step::early_response(503, &[("retry-after", "1")], "busy")]);
    let mut client = connect(&server).await;
    let (head, body) = ask(&mut client, &LARGE).await.unwrap();
    assert_eq!((head.status().as_u16(), &*body), (503, &b"busy"[..]));
    assert_eq!(head.headers()["retry-after"], "1");
    let arrival = &server.arrivals()[0];
    assert_eq!((arrival.body.len(), arrival.complete), (0, false));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "unexpected request: the script had ended")]
async fn a_stream_after_the_last_step_fails_the_test() {
    let server = H2Server::new([]);
    let mut client = connect(&server).await;
    let (head, _) = ask(&mut client, b"").await.unwrap();
    assert_eq!(head.status().as_u16(), 599);
}
