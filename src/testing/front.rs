//! The kit's own front: a listener on a thread of its own, which can stop listening for a while.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

/// Ends, with its thread, its connections and its port, when dropped.
#[derive(Debug)]
pub(super) struct Front {
    addr: SocketAddr,
    gate: Gate,
    thread: Option<JoinHandle<()>>,
}

/// Closes the front's door for a while.
#[derive(Debug, Clone)]
pub(super) struct Gate(mpsc::UnboundedSender<Command>);

enum Command {
    Refuse {
        lasting: Duration,
        closed: Box<dyn FnOnce() + Send>,
    },
    Stop,
}

/// A connection, as it was accepted.
pub(super) struct Accepted {
    pub(super) stream: TcpStream,
    pub(super) number: usize,
    /// Changes when the door closes: connections without an open request end then.
    pub(super) door: watch::Receiver<u64>,
}

/// The other end of a [`Gate`].
pub(super) struct Commands(mpsc::UnboundedReceiver<Command>);

impl Gate {
    pub(super) fn new() -> (Self, Commands) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), Commands(receiver))
    }

    /// Stops listening, and returns when connections are refused.
    pub(super) async fn refuse(&self, lasting: Duration) {
        let (sender, closed) = oneshot::channel();
        self.send(lasting, move || {
            let _ = sender.send(());
        });
        let _ = closed.await;
    }

    /// The same for a caller outside the front's thread.
    pub(super) fn refuse_blocking(&self, lasting: Duration) {
        let (sender, closed) = std::sync::mpsc::channel();
        self.send(lasting, move || {
            let _ = sender.send(());
        });
        let _ = closed.recv();
    }

    fn send(&self, lasting: Duration, closed: impl FnOnce() + Send + 'static) {
        let closed = Box::new(closed);
        // A front that has ended drops the command, and whoever waits for it goes on.
        let _ = self.0.send(Command::Refuse { lasting, closed });
    }
}

impl Front {
    /// Listens on a free loopback port, on a thread of its own: a test that blocks its thread, or stops its clock, must not stop
    /// the server.
    pub(super) fn start<F, Fut>(gate: Gate, commands: Commands, serve: F) -> io::Result<Self>
    where
        F: Fn(Accepted) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (door, listener) = {
            let _entered = runtime.enter();
            let door = Door::take()?;
            let listener = door.open()?;
            (door, listener)
        };
        let addr = door.addr;
        let thread = std::thread::Builder::new()
            .name("idempotency test kit".to_owned())
            .spawn(move || run(&runtime, door, listener, commands, serve))?;
        Ok(Self {
            addr,
            gate,
            thread: Some(thread),
        })
    }

    pub(super) const fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.gate.0.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A port that stays ours while nobody listens on it.
struct Door {
    addr: SocketAddr,
    _bound: TcpSocket,
}

impl Door {
    fn take() -> io::Result<Self> {
        let socket = socket()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self {
            addr: socket.local_addr()?,
            _bound: socket,
        })
    }

    fn open(&self) -> io::Result<TcpListener> {
        let socket = socket()?;
        socket.bind(self.addr)?;
        socket.listen(1024)
    }
}

fn socket() -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    // Two sockets share the port: the one that keeps it and the one that listens.
    #[cfg(unix)]
    socket.set_reuseport(true)?;
    Ok(socket)
}

fn run<F, Fut>(runtime: &Runtime, door: Door, listener: TcpListener, commands: Commands, serve: F)
where
    F: Fn(Accepted) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    runtime.block_on(accept(door, listener, commands, serve));
}

async fn accept<F, Fut>(door: Door, listener: TcpListener, mut commands: Commands, serve: F)
where
    F: Fn(Accepted) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (closings, watching) = watch::channel(0);
    let mut listener = Some(listener);
    let mut open_at = Instant::now();
    let mut number = 0;
    loop {
        tokio::select! {
            biased;
            command = commands.0.recv() => match command {
                None | Some(Command::Stop) => return,
                Some(Command::Refuse { lasting, closed }) => {
                    // Refusals that overlap last as long as the longest.
                    let until = Instant::now() + lasting;
                    open_at = match listener.take() {
                        Some(_) => until,
                        None => open_at.max(until),
                    };
                    closings.send_modify(|count| *count += 1);
                    closed();
                }
            },
            () = tokio::time::sleep_until(open_at), if listener.is_none() => {
                listener = door.open().ok();
                // Out of file descriptors, say: some will be free later.
                open_at = Instant::now() + Duration::from_millis(10);
            }
            accepted = next(listener.as_ref()) => {
                let Ok((stream, _)) = accepted else {
                    // Out of file descriptors: the connection stays in the queue until there are some.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                number += 1;
                tokio::spawn(serve(Accepted { stream, number, door: watching.clone() }));
            }
        }
    }
}

async fn next(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}
