//! Many processes on one database: killed, restarted, raced, and with the database stopped under them.

use std::collections::{HashMap, HashSet};
use std::env;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use idempotency::reexports::sqlx;
use idempotency::{Backoff, Client, IdempotencyKey, RetryPolicy};
use sqlx::PgPool;

use super::cluster::{self, Cluster};
use super::database::Database;
use super::ledger::prepare;
use super::process::{Mode, Process, free_address, listening};

/// Clients that do not give up while a server restarts.
fn patient_client() -> Client {
    let policy = RetryPolicy::builder()
        .max_attempts(NonZeroU32::new(2000).unwrap())
        .backoff(Backoff::exponential(
            Duration::from_millis(5),
            Duration::from_millis(50),
        ))
        .in_progress_polling(Duration::from_millis(20), Duration::from_millis(100))
        .in_progress_cap(Duration::from_secs(60))
        .deadline(Duration::from_secs(100))
        .no_budget();
    Client::builder()
        .policy(policy.build().unwrap())
        .build()
        .unwrap()
}

/// An operation that has its answer.
struct Done {
    key: IdempotencyKey,
    /// The text of the answer, which names the run that gave it.
    run: String,
    attempts: usize,
}

/// One operation, until it has its answer.
async fn operate(client: Client, address: SocketAddr, key: IdempotencyKey) -> Done {
    let request = client.post(format!("http://{address}/entries")).body("{}");
    let response = request.idempotent_with(key.clone()).send().await.unwrap();
    assert_eq!(response.status(), 201);
    let attempts = response.attempts().len();
    let run = response.text().await.unwrap();
    Done { key, run, attempts }
}

/// What the ledger says about operations that all got their answer.
#[derive(Debug, Default, PartialEq)]
struct Witness {
    operations: usize,
    executed: usize,
    duplicates: usize,
    lost: usize,
}

async fn witness(pool: &PgPool, operations: &HashSet<String>) -> Witness {
    let entries: Vec<String> = sqlx::query_scalar("SELECT operation FROM ledger")
        .fetch_all(pool)
        .await
        .unwrap();
    let mut counts = HashMap::<&String, usize>::new();
    for entry in &entries {
        assert!(
            operations.contains(entry),
            "an operation that nobody asked for"
        );
        *counts.entry(entry).or_default() += 1;
    }
    Witness {
        operations: operations.len(),
        executed: entries.len(),
        duplicates: entries.len() - counts.len(),
        lost: operations.len() - counts.len(),
    }
}

/// Kills a server at random moments while clients use it, as often as `IDEMPOTENCY_KILL_ROUNDS` says (20), and restarts it.
/// Every client gets its answer, and every later one the same.
async fn kill_and_restart(mode: Mode) -> Option<Witness> {
    const CLIENTS: usize = 24;
    let rounds = env::var("IDEMPOTENCY_KILL_ROUNDS").map_or(20, |rounds| rounds.parse().unwrap());
    let database = Database::fresh().await?;
    let pool = database.pool(3).await;
    prepare(&pool).await;
    let address = free_address();
    let start = || Process::start(address, mode, 8, database.url());
    let (client, began) = (patient_client(), Instant::now());
    let mut server = start();
    let (mut answers, mut interrupted) = (HashMap::new(), 0);
    for _ in 0..rounds {
        listening(address).await;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| tokio::spawn(operate(client.clone(), address, IdempotencyKey::random())))
            .collect();
        tokio::time::sleep(Duration::from_micros(fastrand::u64(0..60_000))).await;
        server.kill();
        server = start();
        for operation in clients {
            let done = operation.await.unwrap();
            interrupted += usize::from(done.attempts > 1);
            answers.insert(done.key, done.run);
        }
    }
    for (key, run) in &answers {
        let again = operate(client.clone(), address, key.clone()).await;
        assert_eq!(&again.run, run, "two answers of one operation");
    }
    let operations = answers.keys().map(IdempotencyKey::to_string).collect();
    let witness = witness(&pool, &operations).await;
    let took = began.elapsed();
    eprintln!("{mode:?}: {rounds} kills in {took:?}, {interrupted} interrupted: {witness:?}");
    assert!(interrupted > 0, "no kill came while anybody was waiting");
    Some(witness)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_one_transaction_a_killed_server_neither_repeats_nor_loses_an_operation() {
    let Some(witness) = kill_and_restart(Mode::Transaction).await else {
        return;
    };
    assert_eq!((witness.duplicates, witness.lost), (0, 0), "{witness:?}");
    assert_eq!(witness.executed, witness.operations);
}

// Lease mode promises one recorded answer for each operation, which the helper checks, and no loss. An operation that was cut
// off between its effect and its record runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_a_lease_a_killed_server_loses_nothing_and_repeats_only_what_it_was_killed_in() {
    let Some(witness) = kill_and_restart(Mode::Lease(400)).await else {
        return;
    };
    assert_eq!(witness.lost, 0, "{witness:?}");
    assert_eq!(witness.executed, witness.operations + witness.duplicates);
}

/// Two hundred clients on three processes: one key each, then one key for all.
async fn two_hundred_clients(mode: Mode) {
    let Some(database) = Database::fresh().await else {
        return;
    };
    let pool = database.pool(3).await;
    prepare(&pool).await;
    let servers: Vec<_> = (0..3)
        .map(|_| {
            let address = free_address();
            (address, Process::start(address, mode, 8, database.url()))
        })
        .collect();
    for (address, _) in &servers {
        listening(*address).await;
    }
    let client = patient_client();
    let all = |keys: Vec<IdempotencyKey>| {
        let addresses = servers.iter().map(|(address, _)| *address).cycle();
        let operations = keys.into_iter().zip(addresses);
        let spawned =
            operations.map(|(key, address)| tokio::spawn(operate(client.clone(), address, key)));
        futures_util::future::try_join_all(spawned.collect::<Vec<_>>())
    };
    let own: Vec<_> = (0..200).map(|_| IdempotencyKey::random()).collect();
    let mut operations: HashSet<_> = own.iter().map(IdempotencyKey::to_string).collect();
    let answers = all(own).await.unwrap();
    let runs: HashSet<_> = answers.iter().map(|done| &done.run).collect();
    assert_eq!((answers.len(), runs.len()), (200, 200));
    assert_eq!(witness(&pool, &operations).await.executed, 200);

    let shared = IdempotencyKey::random();
    operations.insert(shared.to_string());
    let answers = all(vec![shared; 200]).await.unwrap();
    let runs: HashSet<_> = answers.iter().map(|done| &done.run).collect();
    assert_eq!(
        (answers.len(), runs.len()),
        (200, 1),
        "one run, and its answer for all"
    );
    let expected = Witness {
        operations: 201,
        executed: 201,
        ..Witness::default()
    };
    assert_eq!(witness(&pool, &operations).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_clients_of_three_processes_run_each_operation_once_under_leases() {
    two_hundred_clients(Mode::Lease(30_000)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_clients_of_three_processes_run_each_operation_once_in_transactions() {
    two_hundred_clients(Mode::Transaction).await;
}

/// Crashes the database under a server that is used, three times.
async fn database_crashes(mode: Mode) -> Option<Witness> {
    if cluster::skipped() {
        return None;
    }
    // A cluster of its own: the others' tests need theirs.
    let cluster = tokio::task::spawn_blocking(Cluster::start).await.unwrap();
    let database = Database::fresh_at(&cluster.url()).await;
    prepare(&database.pool(1).await).await;
    let address = free_address();
    let _server = Process::start(address, mode, 8, database.url());
    listening(address).await;
    let client = patient_client();
    let mut operations = HashSet::new();
    for _ in 0..3 {
        let clients: Vec<_> = (0..24)
            .map(|_| tokio::spawn(operate(client.clone(), address, IdempotencyKey::random())))
            .collect();
        tokio::time::sleep(Duration::from_micros(fastrand::u64(0..60_000))).await;
        cluster.crash();
        tokio::time::sleep(Duration::from_millis(100)).await;
        cluster.recover();
        for operation in clients {
            operations.insert(operation.await.unwrap().key.to_string());
        }
    }
    let witness = witness(&database.pool(1).await, &operations).await;
    eprintln!("{mode:?}: 3 crashes of the database: {witness:?}");
    Some(witness)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_one_transaction_a_crash_of_the_database_neither_repeats_nor_loses_an_operation() {
    let Some(witness) = database_crashes(Mode::Transaction).await else {
        return;
    };
    assert_eq!(
        (witness.executed, witness.duplicates, witness.lost),
        (72, 0, 0)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_a_lease_a_crash_of_the_database_loses_nothing() {
    let Some(witness) = database_crashes(Mode::Lease(400)).await else {
        return;
    };
    assert_eq!((witness.operations, witness.lost), (72, 0), "{witness:?}");
}
