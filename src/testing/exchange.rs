//! One connection of the contract server: requests in, faults and answers out.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderName, Method, header};
use reqwest::Url;
use tokio::net::TcpStream;
use wiremock::{Request, Respond, ResponseTemplate};

use super::answer::{Answer, Delivered};
use super::arrival::{Action, Delivery};
use super::clock::KitClock;
use super::fault::Fault;
use super::front::{Accepted, Gate};
use super::http1::{Body, Meter, RequestHead, ResponseHead, Wire, has_token};
use super::key_seen::KeySeen;
use super::ledger::Owner;
use super::route::Route;
use super::script::Faults;
use super::state::{Incoming, Ruling, Settings, State, Turn};

/// Everything that the connections share.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) clock: KitClock,
    pub(super) routes: RwLock<Vec<(Arc<Route>, Faults)>>,
    pub(super) state: Mutex<State>,
    pub(super) mocks: SocketAddr,
    pub(super) gate: Gate,
}

/// Tells wiremock which operation is to run.
pub(super) const ROUTE: HeaderName = HeaderName::from_static("x-idempotency-kit-operation");

impl Shared {
    /// A responder of the user's that panics leaves the state as it was: each change is one call.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn routes(&self) -> Vec<(Arc<Route>, Faults)> {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        routes.clone()
    }

    pub(super) async fn serve(self: Arc<Self>, accepted: Accepted) {
        let mut door = accepted.door;
        door.mark_unchanged();
        let mut wire = Wire::new(accepted.stream, Arc::new(Meter::default()));
        // The last arrival on this connection whose answer was written.
        let mut last = None;
        loop {
            let head = tokio::select! {
                head = wire.request_head() => head,
                _ = door.changed() => return,
            };
            let head = match head {
                Ok(Some(head)) => head,
                Ok(None) => return,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    let _ = Answer::new(400).write(&mut wire, &Method::GET, true).await;
                    wire.close().await;
                    return;
                }
                // A client that closes with the answer unread sends a reset.
                Err(_) => return self.unread(last),
            };
            let closing = !head.keep_alive;
            let Some((same, answered)) = self.exchange(wire, head, accepted.number).await else {
                return;
            };
            if closing || door.has_changed().unwrap_or(true) {
                if !same.close().await {
                    self.unread(answered);
                }
                return;
            }
            (wire, last) = (same, answered);
        }
    }

    /// The client was gone before it had read this answer.
    fn unread(&self, arrival: Option<usize>) {
        if let Some(index) = arrival {
            self.state().unread(index, self.clock.now());
        }
    }

    /// One request and its answer. [`None`]: the connection is over.
    async fn exchange(
        self: &Arc<Self>,
        mut wire: Wire,
        head: RequestHead,
        connection: usize,
    ) -> Option<(Wire, Option<usize>)> {
        let settings = &self.settings;
        if let Some((incoming, faults)) = self.incoming(&head, Bytes::new(), connection)
            && incoming.key.text().is_some()
            && (self.state()).is_next_closed_unread(&incoming, &faults, settings)
        {
            return self.play(wire, incoming, &faults).await;
        }
        if has_token(&head.headers, header::EXPECT, "100-continue") {
            wire.write(b"HTTP/1.1 100 Continue\r\n\r\n").await.ok()?;
        }
        let body = wire.body(head.framing).await.ok()?;
        let data = body.data.clone().freeze();
        match self.incoming(&head, data, connection) {
            Some((incoming, faults)) => self.play(wire, incoming, &faults).await,
            None => {
                let wire = self.pass_on(wire, &head, &body).await?;
                Some((wire, None))
            }
        }
    }

    /// The operation that a request belongs to, and its script.
    fn incoming(
        &self,
        head: &RequestHead,
        body: Bytes,
        connection: usize,
    ) -> Option<(Incoming, Faults)> {
        let request = Request {
            url: Url::parse(&format!("http://localhost{}", head.target)).ok()?,
            method: head.method.clone(),
            headers: head.headers.clone(),
            body: body.to_vec(),
        };
        let routes = self.routes();
        let route = routes
            .iter()
            .position(|(route, _)| route.matches(&request))?;
        let key = KeySeen::read(&self.settings.contract, head, &body);
        let incoming = Incoming {
            route,
            connection,
            head: head.clone(),
            body,
            key,
        };
        Some((incoming, routes[route].1.clone()))
    }

    /// A request that belongs to no operation goes to the ordinary mocks.
    async fn pass_on(&self, mut wire: Wire, head: &RequestHead, body: &Body) -> Option<Wire> {
        let message = [&head.raw[..], &body.raw[..]].concat();
        let (answer, body) = ask(self.mocks, &message, &head.method).await.ok()?;
        let message = [&answer.raw[..], &body.raw[..]].concat();
        wire.write(&message).await.ok()?;
        answer.keep_alive.then_some(wire)
    }

    async fn play(
        self: &Arc<Self>,
        wire: Wire,
        incoming: Incoming,
        faults: &Faults,
    ) -> Option<(Wire, Option<usize>)> {
        let (settings, now) = (&self.settings, self.clock.now());
        let method = incoming.head.method.clone();
        let turn = self.state().arrive(&incoming, faults, settings, now);
        let index = turn.index;
        let at_once = match &turn.fault {
            Fault::CloseBeforeReading => Some(Answer::new(0)),
            fault @ (Fault::Status(_) | Fault::Answer { .. }) => Answer::of(fault),
            _ => None,
        };
        if let Some(answer) = at_once {
            return self.deliver(wire, &turn, &answer, &method).await;
        }
        let ruling = self.state().rule(index, &incoming, settings, now);
        let owner = match ruling {
            Ruling::Answer(answer) => return self.deliver(wire, &turn, &answer, &method).await,
            Ruling::Run(owner) => owner,
        };
        if turn.fault == Fault::Crash {
            self.state().crash(index);
            return self.deliver(wire, &turn, &Answer::new(0), &method).await;
        }
        let slow = match turn.fault {
            Fault::SlowHandler(lasting) => lasting,
            _ => Duration::ZERO,
        };
        // The work goes on when the client goes away, as in a server that is built right.
        let mut work = tokio::spawn(Arc::clone(self).run(incoming, index, owner, slow));
        tokio::select! {
            biased;
            answer = &mut work => match answer.ok().flatten() {
                Some(answer) => self.deliver(wire, &turn, &answer, &method).await,
                None => {
                    let (contract, now) = (&settings.contract, self.clock.now());
                    self.state().end(index, None, Delivery::Lost, contract, now);
                    wire.close().await;
                    None
                }
            },
            () = wire.gone() => {
                let (contract, now) = (&settings.contract, self.clock.now());
                self.state().end(index, None, Delivery::ClientGone, contract, now);
                None
            }
        }
    }

    /// Runs the user's responder through wiremock, which knows how to render its answer.
    async fn run(
        self: Arc<Self>,
        incoming: Incoming,
        index: usize,
        owner: Option<Owner>,
        slow: Duration,
    ) -> Option<Answer> {
        tokio::time::sleep(slow).await;
        let message = request_to(&incoming);
        let answer = ask(self.mocks, &message, &incoming.head.method).await;
        let answer = answer.ok().map(|(head, body)| Answer {
            status: head.status,
            headers: head.headers,
            body: body.data.freeze(),
        });
        let failures = self.settings.contract.failures();
        (self.state()).ran(index, owner.as_ref(), answer.as_ref(), failures);
        answer
    }

    /// Takes down what becomes of the answer, then lets it become that: the client may look as soon as the last byte is out.
    async fn deliver(
        &self,
        wire: Wire,
        turn: &Turn,
        answer: &Answer,
        method: &Method,
    ) -> Option<(Wire, Option<usize>)> {
        let (contract, now) = (&self.settings.contract, self.clock.now());
        let stands_in = Answer::of(&turn.fault);
        let seen = stands_in.as_ref().unwrap_or(answer);
        let delivery = match &turn.fault {
            Fault::Pass
            | Fault::SlowHandler(_)
            | Fault::Status(_)
            | Fault::Answer { .. }
            | Fault::CommitThenStatus(_) => Delivery::Complete,
            _ => Delivery::Lost,
        };
        let said = (answer.status != 0).then_some(seen);
        let index = turn.index;
        (self.state()).end(index, said, delivery, contract, now);
        if let Some(lasting) = turn.refusal {
            self.gate.refuse(lasting).await;
        }
        let close = turn.refusal.is_some();
        match answer.deliver(wire, &turn.fault, method, close).await {
            Delivered::Open(wire) => {
                Some((wire, (delivery == Delivery::Complete).then_some(index)))
            }
            Delivered::Closed => None,
            Delivered::Unread => {
                self.unread(Some(index));
                None
            }
        }
    }
}

/// The request as wiremock gets it: whole, with the mark of its operation.
fn request_to(incoming: &Incoming) -> BytesMut {
    let head = &incoming.head;
    let mut message = BytesMut::new();
    message.put_slice(format!("{} {} HTTP/1.1\r\n", head.method, head.target).as_bytes());
    let framing = [
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::CONNECTION,
        header::EXPECT,
        ROUTE,
    ];
    for (name, value) in &head.headers {
        if framing.contains(name) {
            continue;
        }
        message.put_slice(name.as_str().as_bytes());
        message.put_slice(b": ");
        message.put_slice(value.as_bytes());
        message.put_slice(b"\r\n");
    }
    let ours = format!(
        "{ROUTE}: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        incoming.route,
        incoming.body.len()
    );
    message.put_slice(ours.as_bytes());
    message.put_slice(&incoming.body);
    message
}

/// Sends a request over a fresh connection and reads the answer.
async fn ask(to: SocketAddr, message: &[u8], method: &Method) -> io::Result<(ResponseHead, Body)> {
    let stream = TcpStream::connect(to).await?;
    let mut wire = Wire::new(stream, Arc::new(Meter::default()));
    wire.write(message).await?;
    loop {
        let head = wire.response_head(method).await?;
        if head.status == 100 {
            continue;
        }
        let body = wire.body(head.framing).await?;
        return Ok((head, body));
    }
}

/// Runs the responder of the operation that a request is marked with.
pub(super) struct Dispatcher(pub(super) Arc<Shared>);

impl Respond for Dispatcher {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut request = request.clone();
        let route = request
            .headers
            .remove(ROUTE)
            .and_then(|route| route.to_str().ok()?.parse::<usize>().ok());
        let routes = self.0.routes();
        match route.and_then(|route| routes.get(route)) {
            Some((route, _)) => route.responder.respond(&request),
            None => ResponseTemplate::new(404),
        }
    }
}

impl Shared {
    /// How many runs had an effect that stands, on one operation or on all.
    pub(super) fn executions(&self, route: Option<usize>) -> usize {
        let state = self.state();
        let counted = state.arrivals.iter().filter(|arrival| {
            arrival.action == Action::Ran
                && arrival.stands
                && route.is_none_or(|route| arrival.route == route)
        });
        counted.count()
    }
}
