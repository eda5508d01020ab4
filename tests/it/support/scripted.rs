//! An HTTP/1.1 server that does what a script says, byte by byte.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::arrivals::Arrivals;
use super::http1::Connection;
use super::refused::Refused;
use super::script::{Script, Source};
use super::step::{End, Intake, Output, Step};
use super::wire::Arrival;

/// A server on loopback that plays one [`Step`] a request.
///
/// A request after the last step is answered with status 599 and fails the test when the server is dropped. It stops,
/// and closes its sockets, when dropped.
pub(crate) struct ScriptedServer {
    addr: SocketAddr,
    seen: Arrivals,
    script: Arc<Script<Step>>,
    _tasks: JoinSet<()>,
}

impl ScriptedServer {
    /// Plays each step once, in the order in which requests begin, whatever their connection.
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::start(listen(), Source::List(steps.into_iter().collect()))
    }

    /// As [`new`](Self::new), at an address that has refused connections until now.
    pub(crate) fn rising(at: Refused, steps: impl IntoIterator<Item = Step>) -> Self {
        let addr = at.addr();
        Self::start(
            (at.listen(), addr),
            Source::List(steps.into_iter().collect()),
        )
    }

    /// Plays one step for ever.
    pub(crate) fn always(step: Step) -> Self {
        Self::start(listen(), Source::Always(step))
    }

    /// Asks `answer` for the step once a request has been read; steps that would act earlier act then. Its panic fails
    /// the test when the server is dropped.
    pub(crate) fn answering(answer: impl FnMut(&Arrival) -> Step + Send + 'static) -> Self {
        Self::start(listen(), Source::Answer(Box::new(answer)))
    }

    fn start((listener, addr): (TcpListener, SocketAddr), source: Source<Step>) -> Self {
        let exhausted = Step::reply(599, &[], "unexpected request: the script had ended");
        let script = Arc::new(Script::new(source, exhausted));
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

    /// An `http` URL there; `path` starts with a slash.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }
}

/// What it saw: `server.hits()`, `server.assert_hits(2)`.
impl Deref for ScriptedServer {
    type Target = Arrivals;

    fn deref(&self) -> &Arrivals {
        &self.seen
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.script.settle(&self.seen);
    }
}

/// A listener on a free loopback port, made without waiting.
pub(super) fn listen() -> (TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    (TcpListener::from_std(listener).unwrap(), addr)
}

/// The next connection. What is written to it leaves at once: a segment that waits for an acknowledgement waits in real time,
/// and a paused clock runs ahead of it.
pub(super) async fn accepted(listener: &TcpListener) -> Option<TcpStream> {
    let (stream, _) = listener.accept().await.ok()?;
    stream.set_nodelay(true).ok()?;
    Some(stream)
}

async fn accept(listener: TcpListener, seen: Arrivals, script: Arc<Script<Step>>) {
    let mut connections = JoinSet::new();
    while let Some(stream) = accepted(&listener).await {
        let number = seen.accept();
        // Held back by Nagle's algorithm, the second write of an answer would wait for a real 40 ms, and a paused clock would
        // run away meanwhile.
        stream.set_nodelay(true).unwrap();
        let connection = Connection::new(stream, number, seen.clone());
        connections.spawn(serve(connection, script.clone()));
    }
}

async fn serve(mut connection: Connection<TcpStream>, script: Arc<Script<Step>>) {
    let mut forced = None;
    while request_begins(&connection).await {
        let step = forced.take().or_else(|| script.next(None));
        let Some((step, head_only)) = receive(&mut connection, step, &script).await else {
            return;
        };
        if send(&mut connection.stream, step.output, head_only)
            .await
            .is_err()
        {
            return;
        }
        match step.end {
            End::KeepAlive => {}
            End::CloseOnNextRequest => forced = Some(Step::read_then_close()),
            End::Close => return,
            End::Reset => {
                connection.stream.set_zero_linger().unwrap();
                return;
            }
            End::Hold => return discard(&mut connection.stream).await,
            End::CloseAndDrain => {
                let _ = connection.stream.shutdown().await;
                return discard(&mut connection.stream).await;
            }
        }
    }
}

/// Waits for the first byte of a request and leaves it in the socket.
async fn request_begins(connection: &Connection<TcpStream>) -> bool {
    connection.has_unread()
        || connection
            .stream
            .peek(&mut [0])
            .await
            .is_ok_and(|count| count > 0)
}

/// Reads as much of the request as the step wants. Returns the step, and whether the method is HEAD.
async fn receive(
    connection: &mut Connection<TcpStream>,
    step: Option<Step>,
    script: &Script<Step>,
) -> Option<(Step, bool)> {
    let intake = step.as_ref().map_or(Intake::Whole, |step| step.intake);
    if intake == Intake::Nothing {
        return step.map(|step| (step, false));
    }
    let request = connection.head().await?;
    let head_only = request.method == "HEAD";
    if intake == Intake::Head {
        return step.map(|step| (step, head_only));
    }
    if intake == Intake::Continue {
        let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
        connection.stream.write_all(interim).await.ok()?;
    }
    let arrival = connection.body(&request).await?;
    let step = step.or_else(|| script.next(Some(&arrival)))?;
    Some((step, head_only))
}

async fn send(stream: &mut TcpStream, output: Vec<Output>, head_only: bool) -> std::io::Result<()> {
    for piece in output {
        match piece {
            Output::Bytes(bytes) => stream.write_all(&bytes).await?,
            Output::Body(_) if head_only => {}
            Output::Body(bytes) => stream.write_all(&bytes).await?,
            Output::Pause(wait) => tokio::time::sleep(wait).await,
            Output::Held(gate) => gate.pass().await,
        }
    }
    Ok(())
}

/// Reads and drops until the client closes.
pub(super) async fn discard(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}
