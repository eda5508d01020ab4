//! Judging a client by what arrived: a pure function from arrivals to findings.

use std::time::Duration;

use super::arrival::{Action, Arrival, Delivery};
use super::fault::Fault;
use super::key_seen::KeySeen;
use super::report::{counted, shown};
use super::rule::{Finding, Rule};
use crate::contract::{Contract, KeyEncoding, KeyError, KeyReadError, Meaning, Replay};

/// Arrivals of one operation, with the number that each has in the report.
pub(super) struct Group<'a> {
    pub(super) title: String,
    pub(super) attempts: Vec<&'a Arrival>,
}

/// After so many unmarked conflicts nobody can call it patience.
const PATIENCE: usize = 10;

/// Sorts arrivals by operation: by key, and those without one by what they ask for. A keyless first attempt belongs to the
/// keyed repeat of the same request.
pub(super) fn group<'a>(arrivals: &'a [Arrival], names: &[Option<String>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for arrival in arrivals {
        let belongs = |group: &Group<'_>| {
            let first = group.attempts[0];
            let last = group.attempts[group.attempts.len() - 1];
            let same_route = first.route == arrival.route && first.scope == arrival.scope;
            let key = group.attempts.iter().find_map(|attempt| attempt.key());
            same_route
                && match (key, arrival.key()) {
                    (Some(known), Some(key)) => known == key,
                    (None, _) | (_, None) => same_request(last, arrival) && !is_final_for(last),
                }
        };
        match groups.iter_mut().find(|group| belongs(group)) {
            Some(group) => group.attempts.push(arrival),
            None => {
                let named = names.get(arrival.route).cloned().flatten();
                let asked = || format!("{} {}", arrival.method, arrival.path());
                groups.push(Group {
                    title: named.unwrap_or_else(asked),
                    attempts: vec![arrival],
                });
            }
        }
    }
    groups
}

/// For requests without a key: two equal ones are one operation until one was answered for good.
fn is_final_for(attempt: &Arrival) -> bool {
    attempt.key().is_none()
        && matches!(attempt.key, KeySeen::None)
        && attempt.delivery == Delivery::Complete
        && attempt.action == Action::Ran
        && attempt.status.is_some_and(|status| status < 500)
}

fn same_request(a: &Arrival, b: &Arrival) -> bool {
    a.method == b.method && a.target == b.target && (a.body == b.body || unread(a) || unread(b))
}

fn unread(arrival: &Arrival) -> bool {
    arrival.fault == Fault::CloseBeforeReading && arrival.body.is_empty()
}

/// All findings, in the order in which the operations began.
pub(super) fn judge(groups: &[Group<'_>], contract: &Contract, require_key: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (place, group) in groups.iter().enumerate() {
        if !is_protected(group, contract) {
            continue;
        }
        let mut add = |rule, expected: String, came: String| {
            findings.push(Finding {
                rule,
                operation: group.title.clone(),
                key: group.attempts.iter().find_map(|attempt| attempt.digest()),
                expected,
                came,
            });
        };
        keys(group, contract, require_key, &mut add);
        changes(group, &mut add);
        repeats(group, contract, &mut add);
        new_key(groups, place, contract, &mut add);
    }
    findings
}

/// Whether the contract has anything to say about this method.
fn is_protected(group: &Group<'_>, contract: &Contract) -> bool {
    contract.honours(&group.attempts[0].method)
}

type Add<'f> = dyn FnMut(Rule, String, String) + 'f;

fn keys(group: &Group<'_>, contract: &Contract, require_key: bool, add: &mut Add<'_>) {
    let attempts = &group.attempts;
    let numbered = || attempts.iter().enumerate().map(|(i, a)| (i + 1, a));
    let keyless = |attempt: &Arrival| attempt.key == KeySeen::None;
    let first_bare = numbered().find(|(_, attempt)| keyless(attempt));
    if let Some((number, _)) = first_bare {
        if let Some((later, _)) = numbered().find(|(i, a)| *i > number && a.key().is_some()) {
            add(
                Rule::KeyMissingOnFirst,
                "the key on every attempt, the first included".to_owned(),
                format!("attempt {number} without a key, attempt {later} with one"),
            );
        } else if require_key {
            let expected = "an idempotency key".to_owned();
            add(
                Rule::KeyMissing,
                expected,
                format!("attempt {number} without one"),
            );
        } else if let Some((later, _)) = numbered().find(|(i, a)| *i > number && keyless(a)) {
            add(
                Rule::KeyMissing,
                "an idempotency key, or no repeat".to_owned(),
                format!("attempt {later}, a repeat without a key"),
            );
        }
    }
    if let Some((number, KeySeen::Several(lines))) = numbered()
        .map(|(i, a)| (i, &a.key))
        .find(|(_, key)| matches!(key, KeySeen::Several(_)))
    {
        add(
            Rule::SeveralKeys,
            "one key line".to_owned(),
            format!("{lines} of them on attempt {number}"),
        );
    }
    let quoted = |wanted: bool| {
        numbered()
            .find(move |(_, a)| matches!(&a.key, KeySeen::One { quoted, .. } if *quoted == wanted))
    };
    match (quoted(true), quoted(false)) {
        (Some((quoted, _)), Some((bare, _))) => add(
            Rule::QuotingChanged,
            "the key in the same bytes on every attempt".to_owned(),
            format!("bare on attempt {bare}, quoted on attempt {quoted}"),
        ),
        (Some((number, _)), None) if contract.encoding() == KeyEncoding::Bare => add(
            Rule::QuotedKey,
            format!("a bare key, as `{}` has it", contract.name()),
            format!("a quoted one on attempt {number}"),
        ),
        _ => {}
    }
    for (number, attempt) in numbered() {
        let why = match &attempt.key {
            KeySeen::Broken(error) => broken(error),
            KeySeen::One {
                refused: Some(why), ..
            } if quoted(true).is_none() => why.clone(),
            _ => continue,
        };
        let expected = format!("a key that `{}` takes", contract.name());
        let came = format!("another text on attempt {number}: {why}");
        add(Rule::KeyUnusable, expected, came);
        break;
    }
}

/// The error's own text gives advice that only users of this crate can follow.
fn broken(error: &KeyReadError) -> String {
    match error {
        KeyReadError::SeveralLines => "it stands there more than once".to_owned(),
        KeyReadError::Quoting => "its quoting is broken".to_owned(),
        KeyReadError::Key(KeyError::Empty) => "it is empty".to_owned(),
        KeyReadError::Key(KeyError::TooLong { length }) => format!("it has {length} bytes"),
        KeyReadError::Key(KeyError::NotVisibleAscii { position, .. }) => {
            format!("its byte {position} is not visible ASCII")
        }
    }
}

type Differs<'f> = dyn Fn(&Arrival) -> bool + 'f;

fn changes(group: &Group<'_>, add: &mut Add<'_>) {
    // A request that was not read has nothing to compare.
    let Some(number) = group.attempts.iter().position(|attempt| !unread(attempt)) else {
        return;
    };
    let first = group.attempts[number];
    let content_type = |a: &Arrival| a.headers.get(http::header::CONTENT_TYPE).cloned();
    let parts: [(Rule, &str, &Differs<'_>); 5] = [
        (Rule::MethodChanged, "method", &|a| a.method != first.method),
        (Rule::PathChanged, "path", &|a| a.path() != first.path()),
        (Rule::QueryChanged, "query", &|a| a.query() != first.query()),
        (Rule::ContentTypeChanged, "content type", &|a| {
            content_type(a) != content_type(first)
        }),
        (Rule::BodyChanged, "body", &|a| {
            !unread(a) && a.body != first.body
        }),
    ];
    for (rule, part, differs) in parts {
        if let Some(place) = group.attempts.iter().position(|a| differs(a)) {
            add(
                rule,
                format!("the {part} of attempt {} on every attempt", number + 1),
                format!("another {part} on attempt {}", place + 1),
            );
        }
    }
}

fn repeats(group: &Group<'_>, contract: &Contract, add: &mut Add<'_>) {
    let attempts = &group.attempts;
    let alone = !attempts.iter().any(|attempt| attempt.overlapped);
    let (mut early, mut late, mut answered, mut conflicts) = (false, false, false, 0);
    for (place, pair) in attempts.windows(2).enumerate() {
        let (before, repeat) = (pair[0], pair[1]);
        let (number, next) = (place + 1, place + 2);
        let Some(ended) = before.ended.filter(|ended| *ended <= repeat.at) else {
            continue;
        };
        let complete = before.delivery == Delivery::Complete;
        if repeat.forgotten && !late {
            late = true;
            add(
                Rule::AfterWindow,
                format!("no attempt {} after the first", window(contract)),
                format!(
                    "attempt {next} after {}: the server had forgotten the key",
                    shown(repeat.at.saturating_sub(attempts[0].at))
                ),
            );
        }
        if let (Some(wait), true, true, false) = (before.said.wait, complete, alone, early)
            && repeat.at.saturating_sub(ended) < wait
        {
            early = true;
            add(
                Rule::TooEarly,
                format!(
                    "no attempt {next} within {} of the answer to attempt {number}",
                    shown(wait)
                ),
                format!("it came after {}", shown(repeat.at.saturating_sub(ended))),
            );
        }
        let conflict = before.status == Some(409);
        conflicts += usize::from(conflict && before.said.meaning == Meaning::Plain);
        let last = complete && alone && (is_final(before, contract) || conflicts > PATIENCE);
        if last && !answered && !repeat.forgotten {
            answered = true;
            let status = before.status.unwrap_or_default();
            let (rule, what) = match conflict && before.said.meaning == Meaning::Plain {
                true => (Rule::ConflictRetried, "the conflict"),
                false => (Rule::RetryAfterAnswer, "the answer"),
            };
            let later = counted(attempts.len() - number, "more attempt");
            add(
                rule,
                format!("no attempt after {what} {status} to attempt {number}"),
                later,
            );
        }
    }
}

fn window(contract: &Contract) -> String {
    match contract.window().bound() {
        Some(bound) => format!("later than {}", shown(bound)),
        None => "later".to_owned(),
    }
}

/// Whether an answer that came whole ends the operation.
fn is_final(answered: &Arrival, contract: &Contract) -> bool {
    let said = answered.said;
    match said.meaning {
        Meaning::InProgress | Meaning::NotExecuted => return false,
        Meaning::Mismatch | Meaning::AlreadyDone | Meaning::KeyUnusable => return true,
        _ => {}
    }
    if said.marker == Replay::Replayed {
        return true;
    }
    match (said.should_retry, answered.status.unwrap_or_default()) {
        (Some(should_retry), _) => !should_retry,
        (None, 409) => contract.conflict_is_final(),
        // Not the operation's own answers: the caller, the limits or the connection are meant, and a repeat that mends that
        // is right.
        (None, 401 | 403 | 407 | 408 | 413 | 417 | 421 | 425 | 429 | 431) => false,
        (None, 501 | 505..=511) => true,
        (None, status) => status < 500,
    }
}

/// An operation that was given up without an answer, and the same request under a new key after it.
fn new_key(groups: &[Group<'_>], place: usize, contract: &Contract, add: &mut Add<'_>) {
    let first = groups[place].attempts[0];
    if first.key().is_none() {
        return;
    }
    let abandoned = groups[..place].iter().rev().find(|earlier| {
        let last = earlier.attempts[earlier.attempts.len() - 1];
        let complete = last.delivery == Delivery::Complete;
        last.route == first.route
            && last.scope == first.scope
            && last.key().is_some()
            && same_but_for_key(last, first)
            && last.ended.is_some_and(|ended| ended <= first.at)
            && !(complete && is_final(last, contract))
            && !(complete && last.said.meaning == Meaning::NotExecuted)
    });
    let Some(earlier) = abandoned else { return };
    let number = earlier.attempts.len();
    let last = earlier.attempts[number - 1];
    let known = last.digest().map(|key| key.to_string()).unwrap_or_default();
    let new = first
        .digest()
        .map(|key| key.to_string())
        .unwrap_or_default();
    let ran = |group: &Group<'_>| group.attempts.iter().any(|attempt| attempt.stands);
    let twice = match ran(earlier) && ran(&groups[place]) {
        true => "; it ran a second time",
        false => "",
    };
    let lost = earlier
        .attempts
        .iter()
        .any(|attempt| attempt.delivery != Delivery::Complete && attempt.action != Action::Nothing);
    let (rule, why) = match lost {
        true => (Rule::NewKeyAfterLostAnswer, "an answer was lost"),
        false => (Rule::NewKeyPerAttempt, "attempt 1 had no final answer"),
    };
    add(
        rule,
        format!("the key #{known} again, since {why}"),
        format!("the same request with the new key #{new}{twice}"),
    );
}

/// The key may stand in the target or in the body.
fn same_but_for_key(a: &Arrival, b: &Arrival) -> bool {
    let without_key = |arrival: &Arrival, text: &[u8]| {
        let key = arrival.key().unwrap_or_default();
        String::from_utf8_lossy(text).replace(key, "")
    };
    a.method == b.method
        && without_key(a, a.target.as_bytes()) == without_key(b, b.target.as_bytes())
        && (unread(a) || unread(b) || without_key(a, &a.body) == without_key(b, &b.body))
}

/// Operations that did not run exactly once.
pub(super) fn exactly_once(groups: &[Group<'_>], contract: &Contract) -> Vec<Finding> {
    let mut findings = Vec::new();
    for group in groups.iter().filter(|group| is_protected(group, contract)) {
        let runs = group
            .attempts
            .iter()
            .filter(|attempt| attempt.stands)
            .count();
        if runs != 1 {
            findings.push(Finding {
                rule: Rule::NotOnce,
                operation: group.title.clone(),
                key: group.attempts.iter().find_map(|attempt| attempt.digest()),
                expected: "1 execution".to_owned(),
                came: format!(
                    "{} in {}",
                    counted(runs, "execution"),
                    counted(group.attempts.len(), "attempt")
                ),
            });
        }
    }
    findings
}

/// How long an operation took, from its first arrival on.
pub(super) fn since(first: &Arrival, at: Duration) -> Duration {
    at.saturating_sub(first.at)
}
