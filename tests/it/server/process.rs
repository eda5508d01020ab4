//! A server in a process of its own, to be killed.

use std::env;
use std::io::Read as _;
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::str::FromStr as _;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use idempotency::reexports::sqlx;
use idempotency::server::{IdempotencyLayer, Operation, PostgresStore, Scope, Tx};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::net::TcpListener;

use super::ledger::entry;

/// How the server's handler works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    /// In the transaction of its record.
    Transaction,
    /// On a connection of its own, under a lease of so many milliseconds.
    Lease(u64),
}

/// A running server. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    /// The server ends when this does, also when the tests are killed.
    _lifeline: ChildStdin,
}

const VARIABLE: &str = "IDEMPOTENCY_TEST_SERVER";

impl Process {
    /// Starts a server at the address, on the database, and returns at once. It has `connections` connections.
    pub(crate) fn start(address: SocketAddr, mode: Mode, connections: u32, database: &str) -> Self {
        let lease = match mode {
            Mode::Transaction => 0,
            Mode::Lease(millis) => millis,
        };
        let (_, module) = module_path!().split_once("::").unwrap();
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                &format!("{module}::serves"),
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env(
                VARIABLE,
                format!("{address} {lease} {connections} {database}"),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            _lifeline: child.stdin.take().unwrap(),
            child,
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address at which nobody listens yet.
pub(crate) fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Waits until somebody listens there.
pub(crate) async fn listening(address: SocketAddr) {
    while tokio::net::TcpStream::connect(address).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
#[ignore = "a server that other tests start in a process of its own"]
fn serves() {
    let Ok(settings) = env::var(VARIABLE) else {
        return;
    };
    let mut settings = settings.splitn(4, ' ');
    let mut next = || settings.next().unwrap();
    let address: SocketAddr = next().parse().unwrap();
    let lease = Duration::from_millis(next().parse().unwrap());
    let connections = next().parse().unwrap();
    let database = PgConnectOptions::from_str(next()).unwrap();
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .connect_lazy_with(database);
        let listener = TcpListener::bind(address).await.unwrap();
        axum::serve(listener, router(pool, lease)).await.unwrap();
    });
}

fn router(pool: PgPool, lease: Duration) -> Router {
    let layer = IdempotencyLayer::new(PostgresStore::new(pool.clone()), Scope::global());
    let route = match lease.is_zero() {
        true => post(in_transaction).layer(layer.transactional()),
        false => post(move |operation| under_lease(operation, pool)).layer(layer.lease(lease)),
    };
    Router::new().route("/entries", route)
}

/// Every run has an answer of its own, so that it can be seen which run's answer was recorded.
fn answer() -> (http::StatusCode, String) {
    let id = uuid::Uuid::new_v4().to_string();
    (http::StatusCode::CREATED, id)
}

/// A moment in which to be killed.
async fn moment() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}

async fn in_transaction(
    operation: Operation,
    mut tx: Tx,
) -> Result<impl axum::response::IntoResponse, http::StatusCode> {
    moment().await;
    entry(&mut tx, &operation).await.map_err(unavailable)?;
    moment().await;
    Ok(answer())
}

async fn under_lease(
    operation: Operation,
    pool: PgPool,
) -> Result<impl axum::response::IntoResponse, http::StatusCode> {
    moment().await;
    let mut connection = pool.acquire().await.map_err(unavailable)?;
    entry(&mut connection, &operation)
        .await
        .map_err(unavailable)?;
    drop(connection);
    moment().await;
    Ok(answer())
}

fn unavailable(_: sqlx::Error) -> http::StatusCode {
    http::StatusCode::SERVICE_UNAVAILABLE
}
