//! An HTTP/2 server with prior knowledge, without TLS, that does what a script says.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{Request, Response};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::arrivals::Arrivals;
use super::h2_script::{H2Answer, H2Output, H2Step};
use super::script::{Script, Source};
use super::scripted::{accepted, discard, listen};
use super::wire::Arrival;

/// A server on loopback that plays one [`H2Step`] a stream; its hits are streams.
///
/// A stream after the last step is answered with status 599 and fails the test when the server is dropped. It stops,
/// and closes its sockets, when dropped.
pub(crate) struct H2Server {
    addr: SocketAddr,
    seen: Arrivals,
    script: Arc<Script<H2Step>>,
    _tasks: JoinSet<()>,
}

impl H2Server {
    /// Plays each step once, in the order in which streams are opened, whatever their connection.
    pub(crate) fn new(steps: impl IntoIterator<Item = H2Step>) -> Self {
        Self::start(Source::List(steps.into_iter().collect()))
    }

    /// Plays one step for ever.
    pub(crate) fn always(step: H2Step) -> Self {
        Self::start(Source::Always(step))
    }

    fn start(source: Source<H2Step>) -> Self {
        let exhausted = H2Step::reply(599, &[], "unexpected request: the script had ended");
        let script = Arc::new(Script::new(source, exhausted));
        let (listener, addr) = listen();
        let seen = Arrivals::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, seen.clone(), script.clone()));
        Self {
            addr,
            seen,
            script,
            _tasks: tasks,
        }
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// An `http` URL there; `path` starts with a slash. The client must be told to speak HTTP/2 at once.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }
}

/// What it saw: `server.hits()`, `server.assert_hits(2)`.
impl Deref for H2Server {
    type Target = Arrivals;

    fn deref(&self) -> &Arrivals {
        &self.seen
    }
}

impl Drop for H2Server {
    fn drop(&mut self) {
        self.script.settle(&self.seen);
    }
}

/// What a stream asks of its connection.
enum Order {
    /// Tell when everything queued has been written.
    Flush(oneshot::Sender<()>),
    /// Send GOAWAY and end.
    GoAway { last_stream: u32, reason: Reason },
}

async fn accept(listener: TcpListener, seen: Arrivals, script: Arc<Script<H2Step>>) {
    let mut connections = JoinSet::new();
    while let Some(stream) = accepted(&listener).await {
        let number = seen.accept();
        stream.set_nodelay(true).unwrap();
        connections.spawn(serve(stream, number, seen.clone(), script.clone()));
    }
}

async fn serve(stream: TcpStream, number: usize, seen: Arrivals, script: Arc<Script<H2Step>>) {
    let (stream, mut by_hand) = twice(stream);
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    let (orders, mut ordered) = mpsc::unbounded_channel();
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            // The connection first: polling it writes what is queued, so that `Flush` tells the truth.
            biased;
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else { return };
                let (head, body) = request.into_parts();
                let index = seen.begin(arrival(number, &Request::from_parts(head, ())));
                let step = script.next(None).unwrap();
                let stream = Stream { index, body, respond, orders: orders.clone() };
                streams.spawn(stream.play(step, seen.clone()));
            }
            Some(order) = ordered.recv() => match order {
                Order::Flush(done) => { let _ = done.send(()); }
                Order::GoAway { last_stream, reason } => {
                    // By hand: h2 can only send the id of the last stream that it has accepted.
                    let _ = by_hand.write_all(&goaway(last_stream, reason)).await;
                    drop(connection);
                    let _ = by_hand.shutdown().await;
                    return discard(&mut by_hand).await;
                }
            }
        }
    }
}

struct Stream {
    index: usize,
    body: RecvStream,
    respond: SendResponse<Bytes>,
    orders: mpsc::UnboundedSender<Order>,
}

impl Stream {
    async fn play(mut self, step: H2Step, seen: Arrivals) {
        if step.reads_body {
            let (body, complete) = read(&mut self.body).await;
            seen.finish(self.index, body, complete);
            if !complete {
                return;
            }
        }
        match step.output {
            H2Output::Answer(answer) => {
                let _ = self.send(&answer, true);
            }
            H2Output::Cut(answer, reason) => {
                let Ok(mut sender) = self.send(&answer, false) else {
                    return;
                };
                // A reset drops what is still queued, so the part has to be on the wire first.
                let (done, flushed) = oneshot::channel();
                let _ = self.orders.send(Order::Flush(done));
                let _ = flushed.await;
                sender.send_reset(reason);
            }
            H2Output::Reset(reason) => self.respond.send_reset(reason),
            H2Output::GoAway { processed, reason } => {
                let id = self.respond.stream_id().as_u32();
                let last_stream = if processed { id } else { id.saturating_sub(2) };
                let _ = self.orders.send(Order::GoAway {
                    last_stream,
                    reason,
                });
                // The stream stays open; dropped here it would be reset before the GOAWAY.
                std::future::pending::<()>().await;
            }
        }
    }

    fn send(&mut self, answer: &H2Answer, end: bool) -> Result<h2::SendStream<Bytes>, h2::Error> {
        let mut head = Response::builder().status(answer.status);
        for (name, value) in &answer.headers {
            head = head.header(name, value);
        }
        let mut sender = self.respond.send_response(head.body(()).unwrap(), false)?;
        sender.send_data(answer.body.clone(), end)?;
        Ok(sender)
    }
}

async fn read(body: &mut RecvStream) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    while let Some(part) = body.data().await {
        let Ok(part) = part else {
            return (all, false);
        };
        let _ = body.flow_control().release_capacity(part.len());
        all.extend(part);
    }
    (all, true)
}

fn arrival(connection: usize, request: &Request<()>) -> Arrival {
    let target = request.uri().path_and_query();
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.to_string(), value.into_owned())
    };
    Arrival {
        connection,
        method: request.method().to_string(),
        target: target.map(ToString::to_string).unwrap_or_default(),
        headers: request.headers().iter().map(line).collect(),
        body: Vec::new(),
        complete: false,
        at: Instant::now(),
    }
}

/// The frame of RFC 9113 section 6.8.
fn goaway(last_stream: u32, reason: Reason) -> [u8; 17] {
    let mut frame = [0; 17];
    frame[2] = 8;
    frame[3] = 0x7;
    frame[9..13].copy_from_slice(&last_stream.to_be_bytes());
    frame[13..].copy_from_slice(&u32::from(reason).to_be_bytes());
    frame
}

/// Two handles of one socket: h2 takes one for itself.
fn twice(stream: TcpStream) -> (TcpStream, TcpStream) {
    let stream = stream.into_std().unwrap();
    let second = stream.try_clone().unwrap();
    (
        TcpStream::from_std(stream).unwrap(),
        TcpStream::from_std(second).unwrap(),
    )
}
