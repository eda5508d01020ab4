//! The contract that fits what was seen.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::run::Run;
use super::send::Got;
use crate::contract::{
    AnswerRule, Condition, Contract, FailureStorage, KeyEncoding, KeyFormat, MarkerRule, Meaning,
    MismatchDetection, Replay, Statuses, problem,
};

/// The contract that the probe proposes.
///
/// Only what shows from outside is in it. The window is never: look it up, and say it with
/// [`ContractBuilder::window`](crate::contract::ContractBuilder::window).
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Proposal {
    /// The contract.
    #[serde(skip)]
    pub contract: Contract,
    /// The same as Rust code.
    pub code: String,
    /// Whether a repeat is not run again. If it is, no contract fits.
    pub honours_keys: bool,
    /// Named contracts that read everything that was seen in the same way.
    pub fits: Vec<&'static str>,
}

/// A contract in the making, and the code that makes it.
struct Draft {
    contract: Contract,
    calls: Vec<String>,
}

impl Draft {
    /// Adds a call, unless it makes no valid contract.
    fn call(
        &mut self,
        change: impl FnOnce(crate::contract::ContractBuilder) -> crate::contract::ContractBuilder,
        code: String,
    ) {
        if let Ok(contract) = change(self.contract.to_builder()).build() {
            self.contract = contract;
            self.calls.push(code);
        }
    }
}

pub(super) fn propose(run: &Run) -> Proposal {
    let facts = &run.facts;
    let generic = Contract::generic();
    let mut draft = Draft {
        contract: generic.clone(),
        calls: Vec::new(),
    };
    if Some(&run.key_header) != generic.key_header() {
        let name = run.key_header.to_string();
        let code = format!(".header({name:?})");
        draft.call(|builder| builder.header(name), code);
    }
    if facts.encoding == KeyEncoding::StructuredString {
        let code = ".encoding(KeyEncoding::StructuredString)".to_owned();
        draft.call(
            |builder| builder.encoding(KeyEncoding::StructuredString),
            code,
        );
    }
    if let Some(max) = facts.longest_key.filter(|longest| *longest < 255) {
        let format = KeyFormat {
            max,
            source: "the probe".into(),
            ..KeyFormat::default()
        };
        let code = format!(
            ".key_format(KeyFormat {{ max: {max}, source: \"the probe\".into(), ..KeyFormat::default() }})"
        );
        draft.call(|builder| builder.key_format(format), code);
    }
    if !generic.honours(&run.settings.method) {
        let method = run.settings.method.clone();
        let code = format!(".methods([Method::{method}])");
        draft.call(|builder| builder.methods([method]), code);
    }
    if let Some(rule) = &facts.marker {
        let code = format!(".marker({})", marker_code(rule));
        let rule = rule.clone();
        draft.call(|builder| builder.marker(rule), code);
    }
    for (got, meaning) in [
        (&facts.mismatch, Meaning::Mismatch),
        (&facts.in_progress, Meaning::InProgress),
    ] {
        let Some(got) = got else { continue };
        let read = draft.contract.read(got.code(), &got.headers, &got.body);
        if read.meaning == meaning {
            continue;
        }
        if let Some((rule, code)) = answer_rule(got, meaning) {
            draft.call(|builder| builder.answer(rule), code);
        }
    }
    if facts.failures != FailureStorage::Unknown {
        let code = format!(".failures(FailureStorage::{:?})", facts.failures);
        let failures = facts.failures;
        draft.call(|builder| builder.failures(failures), code);
    }
    let mismatch = match facts.compares {
        Some(true) => Some(MismatchDetection::Detected),
        Some(false) => Some(MismatchDetection::NotDetected),
        None => None,
    };
    if let Some(mismatch) = mismatch {
        let code = format!(".mismatch(MismatchDetection::{mismatch:?})");
        draft.call(|builder| builder.mismatch(mismatch), code);
    }
    let honours_keys = !facts.runs_again;
    let fits = Contract::names()
        .filter(|_| honours_keys)
        .filter(|name| {
            Contract::named(name).is_some_and(|named| reads_alike(run, &named, &draft.contract))
        })
        .collect();
    let name = run.url.host_str().unwrap_or("probed").to_owned();
    let mut code = format!("Contract::builder({name:?})");
    for call in &draft.calls {
        code += &format!("\n    {call}");
    }
    code += "\n    .build()?";
    let contract = draft.contract.to_builder().name(name).build();
    Proposal {
        contract: contract.unwrap_or(draft.contract),
        code,
        honours_keys,
        fits,
    }
}

/// Whether a named contract says of every answer that was seen what the drafted one says.
fn reads_alike(run: &Run, named: &Contract, drafted: &Contract) -> bool {
    let facts = &run.facts;
    let seen = [&facts.replay, &facts.in_progress, &facts.mismatch];
    named.key_header() == drafted.key_header()
        && named.encoding() == drafted.encoding()
        && named.honours(&run.settings.method)
        && seen.into_iter().flatten().all(|got| {
            let read = |contract: &Contract| {
                let reading = contract.read(got.code(), &got.headers, &got.body);
                (reading.meaning, reading.marker == Replay::Replayed)
            };
            read(named) == read(drafted)
        })
}

fn marker_code(rule: &MarkerRule) -> String {
    let list = |words: &[std::borrow::Cow<'static, str>]| match words.is_empty() {
        true => "[\"\"; 0]".to_owned(),
        false => format!("{words:?}"),
    };
    match rule {
        MarkerRule::Flag { header } => format!("MarkerRule::flag({header:?})"),
        MarkerRule::Presence { header } => format!("MarkerRule::presence({header:?})"),
        MarkerRule::Words {
            header,
            replayed,
            fresh,
        } => format!(
            "MarkerRule::words({header:?}, {}, {})",
            list(replayed),
            list(fresh)
        ),
        MarkerRule::Status { status } => format!("MarkerRule::Status {{ status: {status} }}"),
        MarkerRule::BodyFlag { pointer } => {
            format!("MarkerRule::BodyFlag {{ pointer: {pointer:?}.into() }}")
        }
        _ => format!("{rule:?}"),
    }
}

/// Where an error's own code is looked for, the most telling place first.
const CODES: [&str; 8] = [
    "/error/code",
    "/code",
    "/errors/0/code",
    "/error/type",
    "/error_code",
    "/name",
    "/type",
    "/error",
];

/// A rule by the answer's own code.
fn answer_rule(got: &Got, meaning: Meaning) -> Option<(AnswerRule, String)> {
    let rule = |when| AnswerRule {
        statuses: Statuses::one(got.status),
        when,
        means: meaning,
        resource: None,
    };
    let code = |when: String| {
        format!(
            ".answer(AnswerRule {{ statuses: Statuses::one({}), when: {when}, means: Meaning::{meaning:?}, resource: None }})",
            got.status
        )
    };
    let body: Option<Value> = serde_json::from_slice(&got.body).ok();
    let found = body.as_ref().and_then(|body| {
        CODES.into_iter().find_map(|pointer| {
            let value = body.pointer(pointer)?.as_str()?;
            // A sentence for people changes with the next release.
            (!value.contains(' ')).then(|| (pointer, value.to_owned()))
        })
    });
    if let Some((pointer, value)) = found {
        if pointer == "/type"
            && got.header(http::header::CONTENT_TYPE) == Some(problem::CONTENT_TYPE)
        {
            let text = code(format!("Condition::problem_type([{value:?}])"));
            return Some((rule(Condition::problem_type([value])), text));
        }
        let text = code(format!("Condition::code([{pointer:?}], [{value:?}])"));
        return Some((rule(Condition::code([pointer], [value])), text));
    }
    // A status alone would give the same meaning to business errors.
    None
}

/// What a person reads at a glance; the rest is in the report for machines.
const MOST_NAMES: usize = 6;

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.honours_keys {
            return write!(f, "no contract fits: the key is not honoured");
        }
        let fits = match self.fits.as_slice() {
            [] => "no named contract fits".to_owned(),
            // Most named contracts read the common words as the generic one does: their names tell nothing then.
            fits if fits.contains(&"generic") => "the generic contract fits".to_owned(),
            few if few.len() <= MOST_NAMES => format!("fits: {}", few.join(", ")),
            many => format!(
                "fits: {}, and {} more",
                many[..MOST_NAMES].join(", "),
                many.len() - MOST_NAMES
            ),
        };
        writeln!(f, "{fits}; what was seen, written down:")?;
        for line in self.code.lines() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}
