//! Handshakes that succeed and fail.

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::rustls::{self, AlertDescription, CertificateError};

use super::{Ending, assert_seen, plain_client, read_to_end};
use crate::support::{Handshake, TlsServer};

fn trusting(server: &TlsServer) -> reqwest::Client {
    let authority = reqwest::Certificate::from_pem(server.ca_pem().as_bytes()).unwrap();
    // With the feature `native-tls` on, reqwest would take that.
    let client = plain_client().tls_backend_rustls();
    client.tls_certs_only([authority]).build().unwrap()
}

/// The cause of a failed call, by type, from anywhere in the chain and from inside `io::Error`.
async fn failure<E: std::error::Error + Clone + 'static>(handshake: Handshake) -> E {
    let server = TlsServer::new([handshake]);
    let error = trusting(&server)
        .get(server.url("/"))
        .send()
        .await
        .unwrap_err();
    assert!(error.is_connect());
    assert_seen(&server, 0, 1);
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<E>() {
            return found.clone();
        }
        // `source` of an `io::Error` skips the error that it holds, and here one holds another.
        let io = error.downcast_ref::<std::io::Error>();
        cause = match io.and_then(std::io::Error::get_ref) {
            Some(held) => Some(held),
            None => error.source(),
        };
    }
    panic!("no such cause in {error:?}");
}

async fn certificate_error(handshake: Handshake) -> CertificateError {
    match failure::<rustls::Error>(handshake).await {
        rustls::Error::InvalidCertificate(error) => error,
        other => panic!("no verdict on a certificate: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_good_certificate_carries_requests() {
    let server = TlsServer::new([Handshake::Good]);
    let client = trusting(&server);
    for _ in 0..2 {
        let answer = client
            .post(server.url("/x"))
            .body("hello")
            .send()
            .await
            .unwrap();
        assert_eq!(answer.text().await.unwrap(), "ok");
    }
    assert_eq!(server.bodies(), [b"hello", b"hello"]);
    assert_eq!(server.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn bad_certificates_are_told_apart() {
    let error = certificate_error(Handshake::SelfSigned).await;
    assert_eq!(error, CertificateError::UnknownIssuer);
    let error = certificate_error(Handshake::WrongName).await;
    assert!(matches!(
        error,
        CertificateError::NotValidForNameContext { .. }
    ));
    let error = certificate_error(Handshake::Expired).await;
    assert!(matches!(error, CertificateError::ExpiredContext { .. }));
}

#[tokio::test(start_paused = true)]
async fn an_authority_is_not_trusted_unasked() {
    let server = TlsServer::new([Handshake::Good]);
    let client = plain_client().build().unwrap();
    let error = client.get(server.url("/")).send().await.unwrap_err();
    assert!(error.is_connect());
    assert_seen(&server, 0, 1);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_can_be_answered_with_an_alert_or_with_plain_text() {
    let alert = failure::<rustls::Error>(Handshake::FatalAlert).await;
    let expected = rustls::Error::AlertReceived(AlertDescription::HandshakeFailure);
    assert_eq!(alert, expected);
    let text = failure::<rustls::Error>(Handshake::PlainText).await;
    assert!(matches!(text, rustls::Error::InvalidMessage(_)));
}

#[tokio::test(start_paused = true)]
async fn a_handshake_can_be_closed_or_reset() {
    for (handshake, ending) in [
        (Handshake::Close, Ending::Closed),
        (Handshake::Reset, Ending::Reset),
    ] {
        let server = TlsServer::new([handshake]);
        let mut stream = TcpStream::connect(server.addr()).await.unwrap();
        // A record header that announces three bytes, and the bytes: the server reads no further into a ClientHello.
        stream.write_all(&[22, 3, 1, 0, 3, 1, 0, 0]).await.unwrap();
        assert_eq!(read_to_end(&mut stream).await, (String::new(), ending));
    }
}

#[tokio::test(start_paused = true)]
async fn each_connection_has_its_handshake_and_the_last_is_repeated() {
    let server = TlsServer::new([Handshake::Reset, Handshake::Good]);
    let client = trusting(&server);
    let error = client.get(server.url("/")).send().await.unwrap_err();
    assert!(error.is_connect());
    for _ in 0..2 {
        let request = client.get(server.url("/")).header("connection", "close");
        assert_eq!(request.send().await.unwrap().status(), 200);
    }
    assert_eq!(server.hits(), 2);
    assert!(server.connections() >= 2);
}
