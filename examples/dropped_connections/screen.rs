//! One line an attempt, printed when it has ended: what the server did, and what the client saw of it.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::Payment;
use crate::bank::Tally;

#[derive(Clone, Default)]
pub(crate) struct Screen(Arc<Mutex<Line>>);

#[derive(Default)]
struct Line {
    payment: String,
    attempt: u32,
    deed: String,
}

impl Screen {
    /// From now on the attempts of this crate are printed as they end.
    pub(crate) fn start() -> Self {
        let screen = Self::default();
        tracing_subscriber::registry()
            .with(LiveAttempts(screen.clone()))
            .init();
        screen
    }

    pub(crate) fn act(&self, title: &str) {
        self.title(title);
        let head = "what the server does";
        print!("   #   amount  try  {head:<48}what the client sees");
    }

    fn title(&self, title: &str) {
        println!("\n\n{title}\n{}", "-".repeat(96));
    }

    pub(crate) fn payment(&self, payment: &Payment) {
        let (whole, cents) = (payment.cents / 100, payment.cents % 100);
        let mut line = self.line();
        line.payment = format!("{:>4}{whole:>6}.{cents:02}", payment.number);
        line.attempt = 0;
    }

    /// What the server does with the request that it has just received.
    pub(crate) fn deed(&self, deed: &str) {
        self.line().deed = deed.to_owned();
    }

    /// How the attempt ended for the client.
    pub(crate) fn attempt(&self, seen: &str) {
        let mut line = self.line();
        line.attempt += 1;
        let Line {
            payment,
            attempt,
            deed,
        } = &mut *line;
        print!("\n{payment:<13}{attempt:>5}  {deed:<48}{seen}");
        payment.clear();
        deed.clear();
        self.append("");
    }

    /// More about the attempt that was printed last.
    pub(crate) fn append(&self, text: &str) {
        print!("{text}");
        // A screen that is gone does not stop the payments.
        let _ = io::stdout().flush();
    }

    pub(crate) fn remark(&self, text: &str) {
        print!("\n{:<20}{text}", "");
    }

    pub(crate) fn closing_table(&self, plain: &Tally, ours: &Tally) {
        self.title("What came of it");
        println!("{:>42}     idempotency", "plain loop");
        for (row, plain, ours) in [
            ("payments asked for", plain.asked, ours.asked),
            ("requests sent", plain.requests, ours.requests),
            ("answers replayed", plain.replayed, ours.replayed),
            ("payments executed", plain.executed, ours.executed),
            ("  of these duplicated", plain.duplicated, ours.duplicated),
            ("payments lost", plain.lost, ours.lost),
        ] {
            println!("  {row:<26}{plain:>14}{ours:>16}");
        }
    }

    pub(crate) fn verdict(&self, text: &str) {
        println!("\n  {text}\n");
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The crate tells of each attempt by a tracing event when it has ended.
struct LiveAttempts(Screen);

impl<S: Subscriber> Layer<S> for LiveAttempts {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("idempotency") {
            let mut ended = Ended::default();
            event.record(&mut ended);
            self.0.attempt(&match (ended.failure, ended.status) {
                (Some(failure), _) => format!("error: {}", failure.replace('_', " ")),
                (None, status) => status.unwrap_or(0).to_string(),
            });
        }
    }
}

#[derive(Default)]
struct Ended {
    status: Option<u64>,
    failure: Option<String>,
}

impl Visit for Ended {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "http.response.status_code" {
            self.status = Some(value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "error.type" {
            self.failure = Some(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}
