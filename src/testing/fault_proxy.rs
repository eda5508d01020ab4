//! The same faults as a proxy before any real server.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, header};
use reqwest::Url;
use tokio::net::TcpStream;
use wiremock::{Match, Request};

use super::answer::Answer;
use super::fault::Fault;
use super::front::{Accepted, Front, Gate};
use super::http1::{Body, Meter, RequestHead, ResponseHead, Wire, has_token};
use super::key_seen::KeySeen;
use super::opaque;
use super::script::{Faults, Place};
use crate::contract::{Contract, Fingerprint};

/// A proxy on loopback that loses answers as a script says, before any real server.
///
/// ```
/// use idempotency::testing::Fault::{CutAnswer, Pass, Status};
/// use idempotency::testing::FaultProxy;
/// # use wiremock::{Mock, MockServer, ResponseTemplate, matchers::method};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = MockServer::start().await;
/// # Mock::given(method("POST")).respond_with(ResponseTemplate::new(201).set_body_string("paid")).mount(&server).await;
/// # let real = *server.address();
/// let proxy = FaultProxy::to(real).faults([Status(503), CutAnswer { after: 2 }, Pass]).start()?;
/// let client = idempotency::Client::builder()
///     .policy(idempotency::RetryPolicy::immediate(4))
///     .build()?;
/// let paid = client.post(format!("{}/payments", proxy.uri())).idempotent().send().await?;
/// assert_eq!(paid.text().await?, "paid");
/// assert_eq!(proxy.requests(), 3);
/// # Ok(())
/// # }
/// ```
///
/// On HTTP/1.1 each operation, by its key or, without one, by what it asks for, goes through the script by itself. The server
/// does its work wherever the [table of faults](Fault) says so. Requests are read whole before they are forwarded, each on a
/// connection of its own; answers that nothing happens to are streamed; upgrades (101) are not carried on. With [`opaque`](FaultProxyBuilder::opaque) bytes pass
/// unseen, HTTP/2 and TLS included, and each connection takes one fault.
///
/// It runs on a thread of its own, and ends with its value: its port, its connections and its thread are gone when the drop
/// returns.
pub struct FaultProxy {
    front: Front,
    shared: Arc<Shared>,
}

/// Builds a [`FaultProxy`]; made by [`FaultProxy::to`].
#[must_use = "a builder does nothing until `start`"]
pub struct FaultProxyBuilder {
    to: SocketAddr,
    faults: Faults,
    contract: Contract,
    matchers: Vec<Box<dyn Match>>,
    opaque: bool,
}

struct Shared {
    settings: FaultProxyBuilder,
    gate: Gate,
    meter: Arc<Meter>,
    connections: AtomicUsize,
    requests: AtomicUsize,
    places: Mutex<HashMap<Identity, (usize, Place)>>,
}

/// What counts as one operation.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    Key(String),
    Request(Fingerprint),
    Connections,
}

impl FaultProxyBuilder {
    /// What goes wrong. Default: nothing.
    pub fn faults(mut self, faults: impl Into<Faults>) -> Self {
        self.faults = faults.into();
        self
    }

    /// Only requests that the matcher accepts meet faults; the others pass. Several matchers must all accept.
    pub fn on(mut self, matcher: impl Match + 'static) -> Self {
        self.matchers.push(Box::new(matcher));
        self
    }

    /// Where the key travels, which tells operations apart. Default: [`Contract::generic`].
    pub fn contract(mut self, contract: Contract) -> Self {
        self.contract = contract;
        self
    }

    /// Bytes pass unseen: for HTTP/2, TLS and everything else. The script is played one fault a connection. `CutAnswer` and
    /// `StallInBody` count all bytes from the server, a TLS handshake included; faults that need to know HTTP are refused.
    pub const fn opaque(mut self) -> Self {
        self.opaque = true;
        self
    }

    /// Starts the proxy on a free loopback port.
    ///
    /// # Errors
    ///
    /// When the system gives no port or thread, and for a script that an opaque proxy cannot act out.
    pub fn start(self) -> io::Result<FaultProxy> {
        let kinds = self.faults.kinds();
        if self.opaque
            && let Some(fault) = kinds.into_iter().find(|fault| fault.needs_http())
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("an opaque proxy does not know HTTP and cannot act out `{fault:?}`"),
            ));
        }
        let first = self.faults.at(0, 0);
        let (gate, commands) = Gate::new();
        let shared = Arc::new(Shared {
            settings: self,
            gate: gate.clone(),
            meter: Arc::default(),
            connections: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            places: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        let front = Front::start(gate, commands, move |accepted| {
            Arc::clone(&serving).serve(accepted)
        })?;
        if let Fault::RefuseConnections(lasting) = first {
            shared.gate.refuse_blocking(lasting);
        }
        Ok(FaultProxy { front, shared })
    }
}

impl FaultProxy {
    /// A proxy to the server at this address.
    pub fn to(server: SocketAddr) -> FaultProxyBuilder {
        FaultProxyBuilder {
            to: server,
            faults: Faults::none(),
            contract: Contract::generic(),
            matchers: Vec::new(),
            opaque: false,
        }
    }

    /// The address for clients, without a slash at its end.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("http://{}", self.front.addr())
    }

    /// The address for clients.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.front.addr()
    }

    /// Connections that were accepted.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Requests that were read whole. None are seen by an opaque proxy.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Bytes that came from clients.
    #[must_use]
    pub fn bytes_from_clients(&self) -> u64 {
        self.shared.meter.read.load(Ordering::SeqCst)
    }

    /// Bytes that were written to clients.
    #[must_use]
    pub fn bytes_to_clients(&self) -> u64 {
        self.shared.meter.written.load(Ordering::SeqCst)
    }

    /// Nobody listens at the address for this long.
    pub fn refuse_connections(&self, lasting: Duration) {
        self.shared.gate.refuse_blocking(lasting);
    }
}

impl Shared {
    async fn serve(self: Arc<Self>, accepted: Accepted) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        if self.settings.opaque {
            let (fault, refusal) = self.next(Identity::Connections);
            if let Some(lasting) = refusal {
                self.gate.refuse(lasting).await;
            }
            return opaque::pass(accepted.stream, self.settings.to, &fault, &self.meter).await;
        }
        let mut door = accepted.door;
        door.mark_unchanged();
        let mut wire = Wire::new(accepted.stream, Arc::clone(&self.meter));
        loop {
            let head = tokio::select! {
                head = wire.request_head() => head,
                _ = door.changed() => return,
            };
            let head = match head {
                Ok(Some(head)) => head,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    let _ = Answer::new(400).write(&mut wire, &Method::GET, true).await;
                    wire.close().await;
                    return;
                }
                _ => return,
            };
            let closing = !head.keep_alive;
            match self.exchange(wire, head).await {
                Some(same) if !closing && !door.has_changed().unwrap_or(true) => wire = same,
                Some(last) => {
                    last.close().await;
                    return;
                }
                None => return,
            }
        }
    }

    fn next(&self, identity: Identity) -> (Fault, Option<Duration>) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = places.len();
        let (ordinal, place) = places
            .entry(identity)
            .or_insert_with(|| (fresh, Place::default()));
        place.next(&self.settings.faults, *ordinal)
    }

    fn is_meant(&self, head: &RequestHead, body: &[u8]) -> bool {
        let Ok(url) = Url::parse(&format!("http://localhost{}", head.target)) else {
            return true;
        };
        let request = Request {
            url,
            method: head.method.clone(),
            headers: head.headers.clone(),
            body: body.to_vec(),
        };
        let mut matchers = self.settings.matchers.iter();
        matchers.all(|matcher| matcher.matches(&request))
    }

    async fn exchange(&self, mut wire: Wire, head: RequestHead) -> Option<Wire> {
        if has_token(&head.headers, header::EXPECT, "100-continue") {
            wire.write(b"HTTP/1.1 100 Continue\r\n\r\n").await.ok()?;
        }
        let body = wire.body(head.framing).await.ok()?;
        self.requests.fetch_add(1, Ordering::SeqCst);
        let (fault, refusal) = match self.is_meant(&head, &body.data) {
            true => self.next(self.identity(&head, &body)),
            false => (Fault::Pass, None),
        };
        let refused = refusal.is_some();
        let instead = match &fault {
            Fault::CloseBeforeReading | Fault::Crash => Some(Answer::new(0)),
            fault @ (Fault::Status(_) | Fault::Answer { .. }) => Answer::of(fault),
            _ => None,
        };
        if let Some(answer) = instead {
            self.refuse(refusal).await;
            let delivered = answer.deliver(wire, &fault, &head.method, refused);
            return delivered.await.open();
        }
        if let Fault::SlowHandler(lasting) = fault {
            tokio::time::sleep(lasting).await;
        }
        let asked = tokio::select! {
            biased;
            asked = self.ask(&head, &body) => asked,
            () = wire.gone() => return None,
        };
        // A server that cannot be reached, or that closes, is passed on as a closed connection.
        let Ok((mut upstream, answer)) = asked else {
            wire.close().await;
            return None;
        };
        self.refuse(refusal).await;
        match fault {
            Fault::Pass | Fault::SlowHandler(_) => {
                let wire = relay(wire, &mut upstream, answer).await?;
                if refused {
                    wire.close().await;
                    return None;
                }
                Some(wire)
            }
            fault => {
                let body = upstream.body(answer.framing).await.ok()?;
                let answer = Answer {
                    status: answer.status,
                    headers: answer.headers,
                    body: body.data.freeze(),
                };
                let delivered = answer.deliver(wire, &fault, &head.method, refused);
                delivered.await.open()
            }
        }
    }

    async fn refuse(&self, refusal: Option<Duration>) {
        if let Some(lasting) = refusal {
            self.gate.refuse(lasting).await;
        }
    }

    fn identity(&self, head: &RequestHead, body: &Body) -> Identity {
        let key = KeySeen::read(&self.settings.contract, head, &body.data);
        match key.text() {
            Some(text) => Identity::Key(text.to_owned()),
            None => Identity::Request(Fingerprint::of(
                &head.method,
                &head.target,
                None,
                &body.data,
            )),
        }
    }

    /// Forwards the request as it came and reads the head of the answer.
    async fn ask(&self, head: &RequestHead, body: &Body) -> io::Result<(Wire, ResponseHead)> {
        let stream = TcpStream::connect(self.settings.to).await?;
        let mut upstream = Wire::new(stream, Arc::default());
        upstream.write(&head.raw).await?;
        upstream.write(&body.raw).await?;
        loop {
            let answer = upstream.response_head(&head.method).await?;
            // Interim answers are advice; the expectation was met by the proxy.
            if !(100..=199).contains(&answer.status) || answer.status == 101 {
                return Ok((upstream, answer));
            }
        }
    }
}

/// Passes an answer on as it comes. [`None`]: the connection is over.
async fn relay(mut wire: Wire, upstream: &mut Wire, answer: ResponseHead) -> Option<Wire> {
    wire.write(&answer.raw).await.ok()?;
    let mut framing = answer.framing;
    loop {
        match upstream.piece(&mut framing).await {
            Ok(Some(piece)) => wire.write(&piece.raw).await.ok()?,
            Ok(None) if answer.keep_alive && answer.status != 101 => return Some(wire),
            Ok(None) => {
                wire.close().await;
                return None;
            }
            Err(_) => {
                wire.reset();
                return None;
            }
        }
    }
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultProxy")
            .field("uri", &self.uri())
            .field("to", &self.shared.settings.to)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for FaultProxyBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultProxyBuilder")
            .field("to", &self.to)
            .field("faults", &self.faults)
            .field("opaque", &self.opaque)
            .finish_non_exhaustive()
    }
}
