//! One run of the probe: the order of the checks, and what they learn from each other.

use std::future::Future;
use std::time::Duration;

use http::{HeaderName, header};
use reqwest::Url;

use super::propose::propose;
use super::report::{Check, Grade, ProbeReport, Row};
use super::send::{Ask, Got};
use super::settings::{Probe, ProbeError};
use crate::contract::{FailureStorage, IdempotencyKey, KeyEncoding, MarkerRule, Replay};

pub(super) struct Run {
    pub(super) settings: Probe,
    pub(super) url: Url,
    pub(super) key_header: HeaderName,
    pub(super) http: reqwest::Client,
    pub(super) facts: Facts,
    pub(super) rows: Vec<Row>,
    operations: usize,
}

/// What is known of the server so far.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) encoding: KeyEncoding,
    /// Whether two operations with the same body get different answers, so that answers tell runs apart.
    pub(super) answers_differ: bool,
    pub(super) first: Option<(Ask, Got)>,
    /// Whether a finished operation is not run again.
    pub(super) replays: bool,
    /// Whether it certainly is.
    pub(super) runs_again: bool,
    pub(super) replay: Option<Got>,
    pub(super) marker: Option<MarkerRule>,
    /// Whether replays can be told from fresh answers.
    pub(super) marks: bool,
    pub(super) in_progress: Option<Got>,
    pub(super) mismatch: Option<Got>,
    pub(super) compares: Option<bool>,
    pub(super) failures: FailureStorage,
    pub(super) longest_key: Option<usize>,
}

/// How often an operation was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runs {
    Known(usize),
    Unknown,
}

impl Run {
    pub(super) fn new(settings: Probe, url: Url) -> Result<Self, ProbeError> {
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never().max_retries_per_request(0))
            .timeout(settings.timeout)
            .build()
            .map_err(|error| ProbeError::new("the HTTP client cannot be built").with(error))?;
        let key_header = settings.contract.key_header().cloned();
        let key_header = key_header.ok_or_else(|| ProbeError::new("no key header"))?;
        Ok(Self {
            facts: Facts {
                encoding: settings.contract.encoding(),
                ..Facts::default()
            },
            settings,
            url,
            key_header,
            http,
            rows: Vec::new(),
            operations: 0,
        })
    }

    pub(super) async fn all(mut self) -> Result<ProbeReport, ProbeError> {
        for (number, check) in (1..).zip(Check::ALL) {
            if let Some(progress) = &self.settings.progress {
                progress(number, Check::ALL.len(), check);
            }
            match check {
                Check::First => self.first().await?,
                Check::Repeat => self.repeat().await,
                Check::Marker => self.find_marker().await,
                Check::OtherBody => self.other_body().await,
                Check::OtherQuery => self.other_query().await,
                Check::WhileRunning => self.while_running().await,
                Check::TwoAtOnce => self.at_once(check, 2).await,
                Check::TenAtOnce => self.at_once(check, 10).await,
                Check::MissingKey => self.missing_key().await,
                Check::EmptyKey => self.empty_key().await,
                Check::LongKey => self.long_key().await,
                Check::QuotedAndBare => self.quoted_and_bare().await,
                Check::TwoLines => self.two_lines().await,
                Check::BinaryBody => self.binary_body().await,
                Check::EmptyBody => self.empty_body().await,
                Check::ClientError => self.client_error().await,
                Check::ServerError => self.server_error().await,
                Check::OtherCaller => self.other_caller().await,
                Check::ClientGone => self.client_gone().await,
                Check::CutRequest => self.cut_request().await,
            }
        }
        let proposal = propose(&self);
        let mut url = self.url.clone();
        url.set_query(None);
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Ok(ProbeReport::new(url.to_string(), self.rows, proposal))
    }

    pub(super) fn row(&mut self, check: Check, grade: Grade, seen: impl Into<String>) {
        let seen = seen.into();
        self.rows.push(Row { check, grade, seen });
    }

    /// A new operation: its own key and its own body.
    pub(super) fn operation(&mut self) -> Ask {
        self.operations += 1;
        let key = IdempotencyKey::random();
        Ask {
            url: self.url.clone(),
            keys: vec![self.written(key.as_str())],
            headers: self.settings.headers.clone(),
            content_type: Some(self.settings.content_type.clone()),
            body: self.settings.body_of(self.operations),
        }
    }

    /// The number of the last operation.
    pub(super) const fn last_operation(&self) -> usize {
        self.operations
    }

    /// The key in the form that the server takes.
    pub(super) fn written(&self, key: &str) -> String {
        match self.facts.encoding {
            KeyEncoding::StructuredString => format!("\"{key}\""),
            _ => key.to_owned(),
        }
    }

    /// Sends a request until it is no longer in progress, or patience ends.
    pub(super) async fn send_patiently(&self, ask: &Ask) -> Option<Got> {
        let began = tokio::time::Instant::now();
        loop {
            let got = self.send(ask).await;
            if !self.is_in_progress(&got) {
                return Some(got);
            }
            if began.elapsed() > self.settings.patience {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Whether the answer says that the operation still runs: as the contract reads it, or as this server says it.
    pub(super) fn is_in_progress(&self, got: &Got) -> bool {
        let contract = &self.settings.contract;
        let reading = contract.read(got.code(), &got.headers, &got.body);
        match (reading.meaning, &self.facts.in_progress) {
            (crate::contract::Meaning::InProgress, _) => true,
            (_, Some(known)) => known.status == got.status,
            (_, None) => got.status == 409 && got.headers.contains_key(header::RETRY_AFTER),
        }
    }

    /// Whether the answer is marked as a replay, in the generic way or in this server's.
    pub(super) fn is_marked(&self, got: &Got) -> bool {
        if !self.facts.marks {
            return false;
        }
        match &self.facts.marker {
            None => self.marker(got) == Replay::Replayed,
            Some(rule) => super::marker::says_replayed(rule, got),
        }
    }

    /// Asks the witness, if there is one.
    pub(super) async fn witnessed(&self) -> Option<usize> {
        let (url, pointer) = self.settings.witness.as_ref()?;
        let request = self.http.get(url).headers(self.settings.headers.clone());
        let answer = request.send().await.ok()?.bytes().await.ok()?;
        let json: serde_json::Value = serde_json::from_slice(&answer).ok()?;
        usize::try_from(json.pointer(pointer)?.as_u64()?).ok()
    }

    /// Does something, and counts how often the witness saw the operation run in the meantime.
    pub(super) async fn watched<T>(&self, doing: impl Future<Output = T>) -> (T, Option<usize>) {
        let before = self.witnessed().await;
        let done = doing.await;
        let after = self.witnessed().await;
        let runs = before.zip(after);
        (
            done,
            runs.map(|(before, after)| after.saturating_sub(before)),
        )
    }

    /// How often an operation ran, told by its answers.
    pub(super) fn runs(&self, answers: &[Got], witnessed: Option<usize>) -> Runs {
        if let Some(runs) = witnessed {
            return Runs::Known(runs);
        }
        let successes = answers.iter().filter(|got| got.is_success());
        if self.facts.answers_differ {
            let mut bodies: Vec<_> = successes.map(|got| &got.body).collect();
            bodies.sort_unstable();
            bodies.dedup();
            return Runs::Known(bodies.len());
        }
        match self.facts.marks {
            true => Runs::Known(successes.filter(|got| !self.is_marked(got)).count()),
            false => Runs::Unknown,
        }
    }
}
