//! Handshakes that fail: what heals is tried again, a verdict on a certificate is final, and nothing was sent in either case.

use std::time::Duration;

use idempotency::retry::{Failure, Reach, StoppedBy};
use idempotency::{Client, Effect, ErrorKind};

use super::{assert_failed, client_over};
use crate::support::{Handshake, TlsServer, timed};

fn trusting(server: &TlsServer) -> Client {
    let authority = reqwest::Certificate::from_pem(server.ca_pem().as_bytes()).unwrap();
    client_over(Client::reqwest_defaults().tls_certs_only([authority]), 3)
}

/// B70: hits are connections, since no request gets through.
#[tokio::test(start_paused = true)]
async fn a_verdict_on_a_certificate_and_a_fatal_alert_are_final() {
    for handshake in [
        Handshake::SelfSigned,
        Handshake::Expired,
        Handshake::WrongName,
        Handshake::FatalAlert,
    ] {
        let server = TlsServer::new([handshake]);
        let client = trusting(&server);
        let post = || client.post(server.url("/orders")).body("x");
        let effect = (ErrorKind::Certificate, Effect::NotExecuted);
        let keyed = post().idempotent().send().await.unwrap_err();
        assert_failed(
            &keyed,
            1,
            Failure::Certificate,
            Reach::NeverSent,
            effect,
            handshake,
        );
        assert_eq!(
            keyed.stopped_by(),
            Some(StoppedBy::NotRetryable),
            "{handshake:?}"
        );
        assert!(keyed.is_connect());
        let unkeyed = post().send().await.unwrap_err();
        assert_failed(
            &unkeyed,
            1,
            Failure::Certificate,
            Reach::NeverSent,
            effect,
            handshake,
        );
        assert_eq!(
            (server.hits(), server.connections()),
            (0, 2),
            "{handshake:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_authority_that_nobody_trusts_is_final() {
    let server = TlsServer::new([Handshake::Good]);
    let client = client_over(Client::reqwest_defaults(), 3);
    let error = client
        .post(server.url("/"))
        .idempotent()
        .send()
        .await
        .unwrap_err();
    let effect = (ErrorKind::Certificate, Effect::NotExecuted);
    assert_failed(
        &error,
        1,
        Failure::Certificate,
        Reach::NeverSent,
        effect,
        (),
    );
    assert_eq!(server.connections(), 1);
}

/// B70: what may pass is tried again, within the attempts, and even without a key.
#[tokio::test(start_paused = true)]
async fn a_handshake_that_breaks_off_is_never_sent_and_tried_again() {
    for (handshake, failure) in [
        (Handshake::Reset, Failure::Connect),
        (Handshake::Close, Failure::Connect),
        (Handshake::PlainText, Failure::Handshake),
    ] {
        let server = TlsServer::new([handshake]);
        let client = trusting(&server);
        let error = client
            .post(server.url("/orders"))
            .body("x")
            .send()
            .await
            .unwrap_err();
        let effect = (ErrorKind::Connect, Effect::NotExecuted);
        assert_failed(&error, 3, failure, Reach::NeverSent, effect, handshake);
        assert_eq!(error.stopped_by(), Some(StoppedBy::Attempts));
        assert_eq!(
            (server.hits(), server.connections()),
            (0, 3),
            "{handshake:?}"
        );

        let server = TlsServer::new([handshake, Handshake::Good]);
        let client = trusting(&server);
        let response = client
            .post(server.url("/orders"))
            .body("x")
            .send()
            .await
            .unwrap();
        assert_eq!(
            (response.status().as_u16(), response.attempts().len()),
            (200, 2),
            "{handshake:?}"
        );
        assert_eq!(
            (server.hits(), server.connections()),
            (1, 2),
            "{handshake:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_not_answered_in_time_is_never_sent() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/orders", listener.local_addr().unwrap());
    let silent = tokio::spawn(async move {
        let mut accepted = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            accepted.push(stream);
        }
    });
    let client = client_over(Client::reqwest_defaults(), 2);
    let (sent, took) = timed(client.post(&url).body("x").send()).await;
    let effect = (ErrorKind::Connect, Effect::NotExecuted);
    let error = sent.unwrap_err();
    assert_failed(
        &error,
        2,
        Failure::ConnectTimeout,
        Reach::NeverSent,
        effect,
        (),
    );
    assert_eq!(took, 2 * Duration::from_secs(3));
    silent.abort();
}

/// In TLS 1.3 the client has finished its side of the handshake, and may have sent the request, before it hears that its own
/// certificate is missing (RFC 8446, section 4.4.2.4). That cannot heal, and it proves nothing about the request.
#[tokio::test(start_paused = true)]
async fn a_client_certificate_that_is_missing_is_final() {
    let server = TlsServer::new([Handshake::DemandsClientCertificate]);
    let client = trusting(&server);
    let error = client
        .post(server.url("/orders"))
        .body("x")
        .idempotent()
        .send()
        .await
        .unwrap_err();
    let effect = (ErrorKind::Certificate, Effect::Unknown);
    assert_failed(
        &error,
        1,
        Failure::Certificate,
        Reach::MaybeProcessed,
        effect,
        (),
    );
    assert_eq!((server.hits(), server.connections()), (0, 1));
}
