//! The helpers do on the wire what their names say.

mod cuts;
mod h2;
mod looking;
mod scripted;
mod tls;

use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::Arrivals;

/// A keyed request as it goes over the wire.
const ORDER: &str = "POST /orders?x=1 HTTP/1.1\r\nHost: shop\r\nIdempotency-KEY: k-1\r\ncontent-length: 14\r\n\r\n{\"amount\":100}";

/// How a connection ended for the client.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    Closed,
    Reset,
}

/// Sends bytes on a connection of its own and reads until that ends.
async fn exchange(addr: SocketAddr, request: &str) -> (String, Ending) {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    read_to_end(&mut stream).await
}

async fn read_to_end(stream: &mut TcpStream) -> (String, Ending) {
    let mut answer = Vec::new();
    let ending = match stream.read_to_end(&mut answer).await {
        Ok(_) => Ending::Closed,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            Ending::Reset
        }
    };
    (String::from_utf8(answer).unwrap(), ending)
}

/// Reads exactly what is expected, and leaves the connection open.
async fn expect(stream: &mut TcpStream, expected: &str) {
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), expected);
}

/// How many requests and connections any of the servers saw.
#[track_caller]
fn assert_seen(server: &Arrivals, hits: usize, connections: usize) {
    assert_eq!((server.hits(), server.connections()), (hits, connections));
}

/// A client that reports what happens and does nothing about it.
fn plain_client() -> reqwest::ClientBuilder {
    let never = reqwest::retry::never().max_retries_per_request(0);
    reqwest::Client::builder().no_proxy().retry(never)
}
