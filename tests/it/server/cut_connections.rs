//! Connections to the database that break at the worst moment.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use http::StatusCode;
use idempotency::contract::problem;
use idempotency::reexports::sqlx;
use idempotency::server::{IdempotencyLayer, Operation, PostgresStore, Scope, Tx};
use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener, UnixStream};

use super::app::App;
use super::database::Database;
use super::ledger::{Books, ask, enter, entry, prepare};

/// What happens to the next connection that commits.
#[derive(Clone, Copy, PartialEq)]
enum Cut {
    /// Nothing.
    Never = 0,
    /// It breaks before the commit reaches the database.
    BeforeCommit = 1,
    /// It breaks after the database has committed, before the acknowledgement.
    AfterCommit = 2,
    /// It breaks for the service; the commit reaches the database half a second later.
    CommitIsLate = 3,
}

/// A front for the database that can cut connections.
struct Front {
    directory: PathBuf,
    armed: Arc<AtomicU8>,
}

impl Front {
    fn before(upstream: PgConnectOptions) -> Self {
        let name = format!("idempotency-front-{}", uuid::Uuid::new_v4().simple());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let listener = UnixListener::bind(directory.join(".s.PGSQL.5432")).unwrap();
        let armed = Arc::new(AtomicU8::new(Cut::Never as u8));
        let shared = armed.clone();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let (upstream, armed) = (upstream.clone(), shared.clone());
                tokio::spawn(async move {
                    match upstream.get_socket() {
                        Some(directory) => {
                            let socket = directory.join(".s.PGSQL.5432");
                            let server = UnixStream::connect(socket).await.unwrap();
                            relay(client, server, armed).await;
                        }
                        None => {
                            let at = (upstream.get_host(), upstream.get_port());
                            relay(client, TcpStream::connect(at).await.unwrap(), armed).await;
                        }
                    }
                });
            }
        });
        Self { directory, armed }
    }

    fn options(&self, database: &Database) -> PgConnectOptions {
        database.options().socket(&self.directory).port(5432)
    }

    fn cut(&self, cut: Cut) {
        self.armed.store(cut as u8, Ordering::SeqCst);
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

async fn relay<S: AsyncRead + AsyncWrite + Unpin>(
    mut client: UnixStream,
    mut server: S,
    armed: Arc<AtomicU8>,
) {
    let (mut from_client, mut from_server) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(length @ 1..) = read else { return };
                let sent = &from_client[..length];
                let commits = sent.windows(7).any(|window| window == b"COMMIT\0");
                let cut = if commits { armed.swap(0, Ordering::SeqCst) } else { 0 };
                if cut == Cut::BeforeCommit as u8 {
                    return;
                }
                if cut == Cut::CommitIsLate as u8 {
                    drop(client);
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    server.write_all(sent).await.unwrap();
                    assert_ne!(server.read(&mut from_server).await.unwrap(), 0);
                    return;
                }
                server.write_all(sent).await.unwrap();
                if cut == Cut::AfterCommit as u8 {
                    assert_ne!(server.read(&mut from_server).await.unwrap(), 0);
                    return;
                }
            }
            read = server.read(&mut from_server) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&from_server[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Books behind a front.
async fn books_behind_a_front() -> Option<(Books, Front)> {
    let database = Database::fresh().await?;
    prepare(&database.pool(2).await).await;
    let front = Front::before(database.options());
    let pool = database.pool_with(3, front.options(&database)).await;
    let store = PostgresStore::new(pool);
    Some((Books { database, store }, front))
}

#[tokio::test]
async fn a_commit_whose_acknowledgement_is_lost_is_read_again() {
    for cut in [Cut::AfterCommit, Cut::CommitIsLate] {
        let Some((books, front)) = books_behind_a_front().await else {
            return;
        };
        let app = books.app();
        front.cut(cut);
        let answer = app.send(ask("k-1", 201)).await;
        assert_eq!((answer.status, answer.is_replay()), (201, false));
        assert_eq!(books.entries("k-1").await, 1);
        assert!(app.send(ask("k-1", 201)).await.is_replay());
        assert_eq!((app.runs(), books.entries("k-1").await), (1, 1));
    }
}

#[tokio::test]
async fn a_commit_that_did_not_take_place_is_known_not_to_have() {
    let Some((books, front)) = books_behind_a_front().await else {
        return;
    };
    let app = books.app();
    front.cut(Cut::BeforeCommit);
    let answer = app.send(ask("k-1", 201)).await;
    answer.assert_problem(500, problem::OPERATION_FAILED);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!((books.entries("k-1").await, books.keys().await), (0, 0));
    assert_eq!(app.send(ask("k-1", 201)).await.status, 201);
    assert_eq!((app.runs(), books.entries("k-1").await), (2, 1));
}

#[tokio::test]
async fn a_connection_that_dies_under_the_handler_leaves_nothing() {
    let Some(books) = Books::open().await else {
        return;
    };
    let killer = books.database.pool(1).await;
    let app = App::new(
        books.layer(),
        move |operation: Operation, mut tx: Tx| async move {
            entry(&mut tx, &operation).await.unwrap();
            let own: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
                .fetch_one(&mut *tx)
                .await
                .unwrap();
            sqlx::query("SELECT pg_terminate_backend($1)")
                .bind(own)
                .execute(&killer)
                .await
                .unwrap();
            // It does not even notice.
            StatusCode::CREATED
        },
    );
    let answer = app.send(ask("k-1", 201)).await;
    answer.assert_problem(500, problem::OPERATION_FAILED);
    let app = App::new(books.layer(), enter);
    assert_eq!(app.send(ask("k-1", 201)).await.status, 201);
    assert_eq!(books.entries("k-1").await, 1);
}

#[tokio::test]
async fn without_the_database_nothing_runs_in_either_mode() {
    let Some(database) = Database::fresh().await else {
        return;
    };
    let pool = sqlx::postgres::PgPoolOptions::new()
        .acquire_timeout(Duration::from_millis(300))
        .connect_lazy_with(database.options().socket("/nonexistent"));
    let layer = IdempotencyLayer::new(PostgresStore::new(pool), Scope::global());
    let layer = layer.store_timeout(Duration::from_secs(1));
    for layer in [layer.clone(), layer.transactional()] {
        let app = App::orders(layer);
        let refused = app.send(ask("k-1", 201)).await;
        refused.assert_problem(503, problem::STORE_UNAVAILABLE);
        assert_eq!((refused.header("retry-after"), app.runs()), (Some("1"), 0));
    }
}
