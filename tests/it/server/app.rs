//! A small service with a route under the layer, called without a network.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::handler::Handler;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use idempotency::contract::Problem;
use idempotency::server::{IdempotencyLayer, REPLAYED, Store};
use tower::ServiceExt as _;

use crate::support::Gate;

/// A service whose routes `/orders`, `/orders/1/cancel`, `/v1/orders` and `/v2/orders` have one handler, each under the
/// layer. It counts how often the handler runs.
#[derive(Clone)]
pub(crate) struct App {
    router: Router,
    runs: Arc<AtomicU32>,
}

impl App {
    pub(crate) fn new<S, H, T>(layer: IdempotencyLayer<S>, handler: H) -> Self
    where
        S: Store,
        H: Handler<T, ()>,
        T: 'static,
    {
        let runs = Arc::new(AtomicU32::new(0));
        let count = runs.clone();
        let counter = from_fn(move |request: Request, next: Next| {
            count.fetch_add(1, Ordering::SeqCst);
            next.run(request)
        });
        let route = any(handler).layer(counter).layer(layer);
        let orders = Router::new().route("/orders", route.clone());
        let router = Router::new()
            .route("/orders", route.clone())
            .route("/orders/1/cancel", route)
            .nest("/v1", orders.clone())
            .nest("/v2", orders);
        Self { router, runs }
    }

    /// An app whose handler creates order 1, order 2, and so on.
    pub(crate) fn orders<S: Store>(layer: IdempotencyLayer<S>) -> Self {
        let orders = Arc::new(AtomicU32::new(0));
        Self::new(layer, move || {
            let number = orders.fetch_add(1, Ordering::SeqCst) + 1;
            std::future::ready(order(number))
        })
    }

    /// An app whose handler stands at the gate before it creates order 1. A second run, which ought not to be, is not held.
    pub(crate) fn gated<S: Store>(layer: IdempotencyLayer<S>, gate: &Gate) -> Self {
        let (gate, orders) = (gate.clone(), Arc::new(AtomicU32::new(0)));
        Self::new(layer, move || async move {
            let number = orders.fetch_add(1, Ordering::SeqCst) + 1;
            if number == 1 {
                gate.pass().await;
            }
            order(number)
        })
    }

    /// How often the handler ran.
    pub(crate) fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    pub(crate) async fn send(&self, ask: Ask) -> Answer {
        let answer = self.router.clone().oneshot(ask.0).await.unwrap();
        let (head, body) = answer.into_parts();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    /// Sends from a task of its own, as a connection would.
    pub(crate) fn spawn(&self, ask: Ask) -> tokio::task::JoinHandle<Answer> {
        let app = self.clone();
        tokio::spawn(async move { app.send(ask).await })
    }
}

/// The answer of the handler that creates orders.
pub(crate) fn order(number: u32) -> Response {
    let location = format!("/orders/{number}");
    let headers = [(header::LOCATION, location)];
    (StatusCode::CREATED, headers, format!("order {number}")).into_response()
}

/// A request.
pub(crate) struct Ask(Request);

impl Ask {
    /// `POST /orders` with a JSON body and, unless it is empty, a key.
    pub(crate) fn post(key: &str) -> Self {
        let request = Request::post("/orders").header(header::CONTENT_TYPE, "application/json");
        let ask = Self(request.body(Body::from(r#"{"amount":100}"#)).unwrap());
        if key.is_empty() {
            ask
        } else {
            ask.header("idempotency-key", key)
        }
    }

    pub(crate) fn method(mut self, method: Method) -> Self {
        *self.0.method_mut() = method;
        self
    }

    pub(crate) fn path(mut self, path: &str) -> Self {
        *self.0.uri_mut() = path.parse().unwrap();
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Body>) -> Self {
        *self.0.body_mut() = body.into();
        self
    }

    /// Adds a line, also to a header that is there.
    pub(crate) fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let value = http::HeaderValue::from_bytes(value.as_ref()).unwrap();
        let name: http::HeaderName = name.parse().unwrap();
        self.0.headers_mut().append(name, value);
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.0.headers_mut().remove(name);
        self
    }

    pub(crate) fn extension(mut self, value: impl Clone + Send + Sync + 'static) -> Self {
        self.0.extensions_mut().insert(value);
        self
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let value = self.headers.get(name)?;
        Some(value.to_str().unwrap())
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header(REPLAYED.as_str()) == Some("true")
    }

    #[track_caller]
    pub(crate) fn assert_order(&self, number: u32, replayed: bool) {
        let body = format!("order {number}");
        let location = format!("/orders/{number}");
        assert_eq!((self.status, &*self.body), (201, body.as_bytes()));
        assert_eq!(self.header("location"), Some(&*location));
        assert_eq!(self.is_replay(), replayed);
        assert_eq!(self.headers.contains_key(REPLAYED), replayed);
    }

    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, type_uri: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        let problem = Problem::read(&self.body).unwrap();
        assert_eq!(problem.type_uri, type_uri);
        assert_eq!(problem.status, Some(status));
        assert!(!self.headers.contains_key(REPLAYED));
    }

    /// The answer of an operation that is running elsewhere.
    #[track_caller]
    pub(crate) fn assert_in_progress(&self) {
        self.assert_problem(409, idempotency::contract::problem::IN_PROGRESS);
        assert_eq!(self.header("retry-after"), Some("1"));
    }
}
