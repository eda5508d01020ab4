//! TLS servers: good ones, and handshakes that fail in every way that a client has to tell apart.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::arrivals::Arrivals;
use super::http1::Connection;
use super::scripted::{accepted, discard, listen};

/// What a [`TlsServer`] does with one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// A certificate of the server's own authority for `127.0.0.1`; requests are answered with 200 and `ok`.
    Good,
    /// The same, expired in 2001.
    Expired,
    /// The same, for another name.
    WrongName,
    /// A certificate for `127.0.0.1` that no authority has signed.
    SelfSigned,
    /// As `Good`, to clients with a certificate of the authority; the others get the alert `certificate_required`.
    DemandsClientCertificate,
    /// The ClientHello is read, then the connection is reset.
    Reset,
    /// The ClientHello is read, then the connection is closed in order.
    Close,
    /// The ClientHello is read and answered in plain HTTP/1.1.
    PlainText,
    /// The ClientHello is read and answered with the fatal alert `handshake_failure`.
    FatalAlert,
}

/// A TLS server on loopback that speaks HTTP/1.1. Its connections are the accepted ones, its hits the requests that
/// got through. It stops, and closes its sockets, when dropped.
pub(crate) struct TlsServer {
    addr: SocketAddr,
    ca_pem: String,
    seen: Arrivals,
    _tasks: JoinSet<()>,
}

impl TlsServer {
    /// Does one of `handshakes` with each connection, in order; the last one is repeated.
    pub(crate) fn new(handshakes: impl IntoIterator<Item = Handshake>) -> Self {
        let authority = authority();
        let ca_pem = authority.as_ref().pem();
        let (listener, addr) = listen();
        let seen = Arrivals::new();
        let mut tasks = JoinSet::new();
        let handshakes = handshakes.into_iter().collect();
        tasks.spawn(accept(listener, authority, handshakes, seen.clone()));
        Self {
            addr,
            ca_pem,
            seen,
            _tasks: tasks,
        }
    }

    /// The certificate of the authority, for a client that shall trust it.
    pub(crate) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// An `https` URL there; `path` starts with a slash.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.addr)
    }
}

/// What it saw: `server.hits()`, `server.connections()`.
impl Deref for TlsServer {
    type Target = Arrivals;

    fn deref(&self) -> &Arrivals {
        &self.seen
    }
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    // A name of its own: under rcgen's default one a self-signed certificate would seem to be issued by it.
    let name = "authority of a test";
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

async fn accept(
    listener: TcpListener,
    authority: Authority,
    mut handshakes: VecDeque<Handshake>,
    seen: Arrivals,
) {
    let mut connections = JoinSet::new();
    while let Some(stream) = accepted(&listener).await {
        let number = seen.accept();
        stream.set_nodelay(true).unwrap();
        let handshake = *handshakes.front().expect("at least one handshake");
        if handshakes.len() > 1 {
            handshakes.pop_front();
        }
        match certificate(handshake, &authority) {
            Some(config) => {
                let acceptor = TlsAcceptor::from(Arc::new(config));
                connections.spawn(serve(acceptor, stream, number, seen.clone()));
            }
            None => {
                connections.spawn(fail(handshake, stream));
            }
        }
    }
}

/// The server's side of a handshake that shows a certificate; `None` for those that show none.
fn certificate(handshake: Handshake, authority: &Authority) -> Option<ServerConfig> {
    let name = match handshake {
        Handshake::Good
        | Handshake::Expired
        | Handshake::SelfSigned
        | Handshake::DemandsClientCertificate => "127.0.0.1",
        Handshake::WrongName => "elsewhere.example",
        Handshake::Reset | Handshake::Close | Handshake::PlainText | Handshake::FatalAlert => {
            return None;
        }
    };
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    if handshake == Handshake::Expired {
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
    }
    let signed = if handshake == Handshake::SelfSigned {
        params.self_signed(&key)
    } else {
        params.signed_by(&key, authority)
    };
    let chain: Vec<CertificateDer<'static>> = vec![signed.unwrap().der().clone()];
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = if handshake == Handshake::DemandsClientCertificate {
        config.with_client_cert_verifier(client_verifier(authority))
    } else {
        config.with_no_client_auth()
    };
    Some(config.with_single_cert(chain, key).unwrap())
}

fn client_verifier(authority: &Authority) -> Arc<dyn ClientCertVerifier> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.as_ref().der().clone()).unwrap();
    let provider = aws_lc_rs::default_provider().into();
    WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
        .build()
        .unwrap()
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream, number: usize, seen: Arrivals) {
    let stream = match acceptor.accept(stream).into_fallible().await {
        Ok(stream) => stream,
        Err((_, mut refused)) => {
            // Closed with bytes unread, the connection would be reset and the alert lost.
            let _ = refused.shutdown().await;
            return discard(&mut refused).await;
        }
    };
    let mut connection = Connection::new(stream, number, seen);
    while let Some(request) = connection.head().await {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        if connection.body(&request).await.is_none()
            || connection.stream.write_all(answer).await.is_err()
            || connection.stream.flush().await.is_err()
        {
            return;
        }
    }
}

async fn fail(handshake: Handshake, mut stream: TcpStream) {
    // The whole ClientHello is read: closed with unread bytes, every one of these would be a reset.
    let mut header = [0; 5];
    if stream.read_exact(&mut header).await.is_err() {
        return;
    }
    let length = u16::from_be_bytes([header[3], header[4]]);
    let mut hello = vec![0; length.into()];
    if stream.read_exact(&mut hello).await.is_err() {
        return;
    }
    let answer: &[u8] = match handshake {
        Handshake::PlainText => b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
        // RFC 8446 sections 5.1 and 6: record type alert, legacy version, length 2; level fatal, handshake_failure.
        Handshake::FatalAlert => &[21, 3, 3, 0, 2, 2, 40],
        _ => &[],
    };
    if handshake == Handshake::Reset {
        stream.set_zero_linger().unwrap();
        return;
    }
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
    discard(&mut stream).await;
}
