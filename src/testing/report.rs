//! The text that a failed check prints.

use std::fmt;
use std::time::Duration;

use super::arrival::{Action, Arrival, Delivery};
use super::fault::Fault;
use super::judge::{Group, since};
use super::key_seen::KeySeen;
use super::rule::{Finding, Rule};
use crate::contract::Contract;

/// What a [`ContractServer`](super::ContractServer) has found out about its client.
///
/// `Display` is the text that a failed check prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientReport {
    contract: String,
    findings: Vec<Finding>,
    operations: Vec<OperationReport>,
}

/// One operation: its attempts, each a line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OperationReport {
    title: String,
    executions: usize,
    lines: Vec<String>,
}

impl ClientReport {
    pub(super) fn new(contract: &Contract, findings: Vec<Finding>, groups: &[Group<'_>]) -> Self {
        Self {
            contract: contract.name().to_owned(),
            findings,
            operations: groups.iter().map(operation).collect(),
        }
    }

    /// Whether every rule was kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.findings.is_empty()
    }

    /// The broken rules, in the order in which their operations began.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Whether this rule was broken.
    #[must_use]
    pub fn broke(&self, rule: Rule) -> bool {
        self.findings.iter().any(|finding| finding.rule == rule)
    }

    pub(super) fn without(mut self, tolerated: &[Rule]) -> Self {
        self.findings
            .retain(|finding| !tolerated.contains(&finding.rule));
        self
    }
}

fn operation(group: &Group<'_>) -> OperationReport {
    let first = group.attempts[0];
    let key = group.attempts.iter().find_map(|attempt| attempt.digest());
    let keyed = key.is_some();
    let key = match (key, &first.key) {
        (Some(key), _) => format!("key #{key}"),
        (None, KeySeen::None) => "no key".to_owned(),
        (None, KeySeen::Several(_)) => "several keys".to_owned(),
        (None, _) => "no usable key".to_owned(),
    };
    let numbered = group.attempts.iter().zip(1..);
    OperationReport {
        title: format!("{}, {key}", group.title),
        executions: group
            .attempts
            .iter()
            .filter(|attempt| attempt.stands)
            .count(),
        lines: numbered
            .map(|(attempt, number)| {
                let mut line = line(first, attempt, number);
                if keyed && attempt.key == KeySeen::None {
                    line += "; no key";
                }
                line
            })
            .collect(),
    }
}

fn line(first: &Arrival, attempt: &Arrival, number: usize) -> String {
    let at = format!("+{}", shown(since(first, attempt.at)));
    let mut line = format!("attempt {number:<2} {at:>9}  ");
    match (&attempt.fault, attempt.action) {
        (fault @ (Fault::Status(_) | Fault::Answer { .. }), _)
        | (fault @ (Fault::CloseBeforeReading | Fault::Crash), _) => line += &fault.to_string(),
        (_, action) => line += &action.to_string(),
    }
    if let (Some(status), true) = (attempt.status, attempt.action != Action::Nothing) {
        line += &format!(", {status}");
    }
    match attempt.delivery {
        Delivery::Complete => {}
        Delivery::Open => line += "; no answer yet",
        Delivery::ClientGone => line += "; the client was gone before the answer",
        Delivery::Lost => match &attempt.fault {
            Fault::CloseBeforeReading | Fault::Crash => {}
            Fault::Pass | Fault::SlowHandler(_) => line += "; no answer was made",
            fault => line += &format!("; answer lost: {fault}"),
        },
    }
    if let Some(wait) = attempt
        .said
        .wait
        .filter(|_| attempt.delivery == Delivery::Complete)
    {
        line += &format!("; retry after {}", shown(wait));
    }
    match &attempt.key {
        KeySeen::Several(lines) => line += &format!("; {lines} key lines"),
        KeySeen::One { quoted: true, .. } => line += "; key quoted",
        _ => {}
    }
    line
}

/// `1 attempt`, `2 attempts`.
pub(super) fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// A time as a person reads it: milliseconds, seconds, or whole hours.
pub(super) fn shown(time: Duration) -> String {
    let millis = time.as_millis();
    match millis {
        0..1000 => format!("{millis} ms"),
        _ if millis.is_multiple_of(3_600_000) => format!("{} h", millis / 3_600_000),
        _ if millis.is_multiple_of(1000) => format!("{} s", millis / 1000),
        _ => format!("{}.{:03} s", millis / 1000, millis % 1000),
    }
}

impl fmt::Display for ClientReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.findings.len() {
            0 => writeln!(f, "the client keeps the contract `{}`", self.contract)?,
            count => writeln!(
                f,
                "the client breaks the contract `{}`: {}",
                self.contract,
                counted(count, "finding")
            )?,
        }
        for (finding, number) in self.findings.iter().zip(1..) {
            write!(f, "\n  {number}. {finding}\n")?;
        }
        if self.operations.is_empty() {
            return write!(f, "\nno operation arrived");
        }
        for operation in &self.operations {
            let runs = match operation.executions {
                0 => "not executed".to_owned(),
                1 => "executed once".to_owned(),
                runs => format!("executed {runs} times"),
            };
            write!(f, "\n{}: {runs}", operation.title)?;
            for line in &operation.lines {
                write!(f, "\n  {line}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ClientReport {}
