//! A payment server that keeps the contract of idempotency keys and cuts connections as it is told.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::Payment;
use crate::screen::Screen;

/// Where the connection of a request is cut.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Cut {
    BeforeTheCharge,
    AfterTheCharge,
    InMidAnswer,
    /// While the charge goes on behind it.
    WhileCharging,
}

pub(crate) struct Bank {
    url: String,
    book: Arc<Mutex<Book>>,
}

#[derive(Default)]
struct Book {
    cuts: HashMap<usize, &'static [Cut]>,
    requests: HashMap<usize, usize>,
    charges: HashMap<usize, usize>,
    /// By key. `None` while the charge goes on.
    answers: HashMap<String, Option<String>>,
    replayed: usize,
}

pub(crate) struct Tally {
    pub(crate) asked: usize,
    pub(crate) requests: usize,
    pub(crate) executed: usize,
    pub(crate) duplicated: usize,
    pub(crate) lost: usize,
    pub(crate) replayed: usize,
}

impl Bank {
    pub(crate) async fn open(payments: &[Payment], screen: &Screen) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/payments", listener.local_addr()?);
        let book = Arc::new(Mutex::new(Book {
            cuts: payments.iter().map(|p| (p.number, p.cuts)).collect(),
            ..Book::default()
        }));
        let (served, screen) = (Arc::clone(&book), screen.clone());
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (book, screen) = (Arc::clone(&served), screen.clone());
                // A connection that the client gives up is not the server's concern.
                tokio::spawn(async move { serve(connection, &book, &screen).await.ok() });
            }
        });
        Ok(Self { url, book })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn tally(&self, payments: &[Payment]) -> Tally {
        let book = lock(&self.book);
        let charges: Vec<usize> = payments
            .iter()
            .map(|p| book.charges.get(&p.number).copied().unwrap_or(0))
            .collect();
        Tally {
            asked: payments.len(),
            requests: book.requests.values().sum(),
            executed: charges.iter().sum(),
            duplicated: charges.iter().map(|made| made.saturating_sub(1)).sum(),
            lost: charges.iter().filter(|made| **made == 0).count(),
            replayed: book.replayed,
        }
    }
}

/// Serves one request. Returning drops the connection, and that is how it is cut.
async fn serve(mut connection: TcpStream, book: &Mutex<Book>, screen: &Screen) -> io::Result<()> {
    let (payment, key) = read_request(&mut connection).await?;
    let cut = lock(book).arrival(payment);
    if cut == Some(Cut::BeforeTheCharge) {
        screen.deed("cuts the connection, has done nothing");
        return Ok(());
    }
    let known = key
        .as_ref()
        .and_then(|key| lock(book).answers.get(key).cloned());
    let (deed, answers, head, body) = match known {
        Some(Some(answer)) => (
            "knows the key",
            "repeats its answer",
            "201 Created\r\nidempotent-replayed: true",
            answer,
        ),
        Some(None) => (
            "is still charging under this key",
            "says so",
            "409 Conflict",
            r#"{"code":"idempotency_key_in_use"}"#.to_owned(),
        ),
        None => {
            let (deed, answer) = lock(book).charge(payment, key.as_ref());
            if cut == Some(Cut::WhileCharging) {
                screen.deed(&format!("{deed}, cuts meanwhile"));
                drop(connection);
                tokio::time::sleep(Duration::from_millis(120)).await;
                lock(book).store(key, answer);
                return Ok(());
            }
            lock(book).store(key, answer.clone());
            (deed, "answers", "201 Created", answer)
        }
    };
    let whole = format!(
        "HTTP/1.1 {head}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len(),
    );
    match cut {
        None => {
            screen.deed(&format!("{deed}, {answers}"));
            lock(book).replayed += usize::from(head.contains("replayed"));
            connection.write_all(whole.as_bytes()).await
        }
        Some(Cut::InMidAnswer) => {
            screen.deed(&format!("{deed}, cuts in mid-answer"));
            let part = whole.len() - body.len() / 2;
            connection.write_all(&whole.as_bytes()[..part]).await
        }
        Some(_) => {
            screen.deed(&format!("{deed}, cuts before the answer"));
            Ok(())
        }
    }
}

impl Book {
    fn arrival(&mut self, payment: usize) -> Option<Cut> {
        let requests = self.requests.entry(payment).or_default();
        *requests += 1;
        self.cuts.get(&payment)?.get(*requests - 1).copied()
    }

    fn charge(&mut self, payment: usize, key: Option<&String>) -> (&'static str, String) {
        let charges = self.charges.entry(payment).or_default();
        *charges += 1;
        if let Some(key) = key {
            self.answers.insert(key.clone(), None);
        }
        let answer = json!({ "charge": format!("ch_{payment}_{charges}"), "status": "succeeded" });
        let deed = match charges {
            1 => "charges the card",
            _ => "CHARGES THE CARD AGAIN",
        };
        (deed, answer.to_string())
    }

    fn store(&mut self, key: Option<String>, answer: String) {
        if let Some(key) = key {
            self.answers.insert(key, Some(answer));
        }
    }
}

/// The number of the payment, and the key where there is one.
async fn read_request(connection: &mut TcpStream) -> io::Result<(usize, Option<String>)> {
    let mut received = Vec::new();
    loop {
        if connection.read_buf(&mut received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&received);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let header = |name: &str| {
            head.lines()
                .filter_map(|line| line.split_once(": "))
                .find(|(found, _)| found.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.to_owned())
        };
        let length = header("content-length").and_then(|length| length.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            let body: serde_json::Value = serde_json::from_str(body)?;
            let number = body["payment"].as_u64().and_then(|n| n.try_into().ok());
            return Ok((number.unwrap_or(0), header("idempotency-key")));
        }
    }
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}
