use http::StatusCode;

use super::*;
use crate::contract::Meaning;
use crate::contract::problem::Problem;
use crate::contract::{Contract, Reading};

fn read(
    contract: &Contract,
    status: u16,
    lines: &[(&'static str, &'static str)],
    body: &[u8],
) -> Reading {
    let headers = lines
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect();
    contract.read(StatusCode::from_u16(status).unwrap(), &headers, body)
}

#[test]
fn the_generic_contract_recognises_our_own_documents() {
    for (problem, meaning) in [
        (Problem::key_missing(), Meaning::KeyUnusable),
        (Problem::key_invalid(), Meaning::KeyUnusable),
        (Problem::several_keys(), Meaning::KeyUnusable),
        (Problem::in_progress(), Meaning::InProgress),
        (Problem::key_reused(), Meaning::Mismatch),
        (Problem::answer_not_kept(), Meaning::AlreadyDone),
        (Problem::body_too_large(), Meaning::Plain),
        (Problem::store_unavailable(), Meaning::NotExecuted),
    ] {
        let lines = [("content-type", "application/problem+json")];
        let body = problem.to_bytes();
        let reading = |contract| read(&contract, problem.status.unwrap(), &lines, &body).meaning;
        assert_eq!(reading(Contract::generic()), meaning, "{problem:?}");
        assert_eq!(reading(Contract::ietf_draft()), meaning, "{problem:?}");
    }
}

#[test]
fn the_drafts_status_counts_only_with_a_problem_document() {
    let draft = Contract::ietf_draft();
    let body = br#"{"type":"https://developer.example.com/idempotency"}"#;
    let problem = [("content-type", "Application/Problem+JSON; charset=utf-8")];
    let meaning = |status, lines| read(&draft, status, lines, body).meaning;
    assert_eq!(meaning(409, &problem), Meaning::InProgress);
    assert_eq!(meaning(422, &problem), Meaning::Mismatch);
    assert_eq!(meaning(400, &problem), Meaning::Plain);
    assert_eq!(
        meaning(409, &[("content-type", "application/json")]),
        Meaning::Plain
    );
    assert_eq!(meaning(409, &[]), Meaning::Plain);
    assert_eq!(
        read(&Contract::generic(), 409, &problem, body).meaning,
        Meaning::Plain
    );
}

#[test]
fn the_stripe_contract_reads_stripes_answers() {
    let stripe = Contract::stripe();
    let meaning = |status, body: &str| read(&stripe, status, &[], body.as_bytes()).meaning;
    assert_eq!(
        meaning(409, r#"{"error":{"code":"idempotency_key_in_use"}}"#),
        Meaning::InProgress
    );
    assert_eq!(
        meaning(400, r#"{"error":{"type":"idempotency_error"}}"#),
        Meaning::Mismatch
    );
    assert_eq!(
        meaning(429, r#"{"error":{"code":"rate_limit"}}"#),
        Meaning::NotExecuted
    );
    assert_eq!(meaning(429, ""), Meaning::NotExecuted);
    assert_eq!(
        meaning(429, r#"{"error":{"code":"lock_timeout"}}"#),
        Meaning::Plain
    );
    assert_eq!(
        meaning(409, r#"{"error":{"code":"lock_timeout"}}"#),
        Meaning::Plain
    );
    assert_eq!(
        meaning(402, r#"{"error":{"code":"card_declined"}}"#),
        Meaning::Plain
    );
}

#[test]
fn the_body_of_a_success_is_never_needed() {
    for contract in [
        Contract::generic(),
        Contract::ietf_draft(),
        Contract::stripe(),
    ] {
        for status in 100..600 {
            let needs = contract.needs_body(StatusCode::from_u16(status).unwrap());
            assert_eq!(needs, status >= 400, "{status}");
        }
        assert!(!contract.needs_body(StatusCode::from_u16(999).unwrap()));
    }
}

/// The documentation of a contract, made from its data.
fn page(named: &NamedContract) -> String {
    use std::fmt::Write as _;

    let mut page = format!("For {}.\n\n", named.title);
    page.push_str("| | what is set | source |\n|---|---|---|\n");
    for (subject, value, source) in named.facts() {
        writeln!(page, "| {subject} | {value} | {source} |").unwrap();
    }
    let open: Vec<_> = named.open().map(str::to_lowercase).collect();
    if !open.is_empty() {
        let open = open.join(", ");
        write!(
            page,
            "\nNot known, and therefore as in [`Contract::generic`](crate::contract::Contract::generic): {open}.\n"
        )
        .unwrap();
    }
    page
}

/// Run it with `UPDATE_CONTRACT_DOCS=1` to write the pages anew.
#[test]
fn the_documentation_of_every_contract_is_what_its_data_says() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/contract/docs/named");
    let update = std::env::var_os("UPDATE_CONTRACT_DOCS").is_some();
    for named in all() {
        let path = format!("{folder}/{}.md", named.name);
        let page = page(named);
        if update {
            std::fs::write(&path, &page).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            written, page,
            "{path} is not what the data says: run this test with UPDATE_CONTRACT_DOCS=1"
        );
    }
    let pages = std::fs::read_dir(folder).unwrap().count();
    assert_eq!(pages, all().count(), "a page without a contract");
}

#[test]
fn every_named_contract_is_valid_has_a_source_for_each_fact_and_a_name_of_its_own() {
    let mut names = std::collections::HashSet::new();
    for named in all() {
        assert!(names.insert(named.name), "{} twice", named.name);
        assert!(
            named
                .name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        );
        assert_eq!(named.contract().name(), named.name);
        for (source, sets) in named.facts {
            assert!(
                source.contains(['.', ' ', '-']) && !sets.is_empty(),
                "{}: {source:?}",
                named.name
            );
        }
        let carriers = named.facts().filter(|(subject, ..)| *subject == "Carrier");
        assert_eq!(carriers.count(), 1, "{}", named.name);
        for (source, sets) in named.facts {
            for set in *sets {
                if let fact::Set::Methods(methods) = set {
                    assert_eq!(named.spec().methods.len(), methods.len(), "{source}");
                }
            }
        }
    }
}

#[test]
fn a_contract_is_found_by_its_name_in_any_case_and_with_any_separator() {
    for name in ["sqs-fifo", "SQS-FIFO", "sqs_fifo", "Sqs Fifo"] {
        assert_eq!(Contract::named(name).unwrap().name(), "sqs-fifo");
    }
    for name in ["generic", "GENERIC"] {
        assert_eq!(Contract::named(name).unwrap().name(), "generic");
    }
    for name in ["", "sqs", "no-such-provider"] {
        assert!(Contract::named(name).is_none());
    }
    assert_eq!(Contract::names().count(), all().count() + 1);
    assert!(
        Contract::names()
            .all(|name| Contract::named(name).is_some_and(|found| found.name() == name))
    );
}
