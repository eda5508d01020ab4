//! Asks a live server what it does with idempotency keys, and says whether a retry is safe there.
//!
//! ```text
//! cargo run --example probe -- http://127.0.0.1:3000/payments
//! cargo run --example probe -- --help
//! ```
//!
//! It runs the operation some forty times: point it at a test system. Exit status: 0 where a retry is safe, 1 where it is not,
//! 2 where that could not be found out.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use http::{HeaderName, HeaderValue, Method};
use idempotency::Contract;
use idempotency::testing::{Probe, Verdict, probe};

const HELP: &str = "\
Asks a live server what it does with idempotency keys. It runs the operation some forty times.

usage: probe [options] URL
       probe --contracts

  --method METHOD          the method (POST)
  --header 'NAME: VALUE'   a header of every request, such as credentials; can be given again
  --body TEXT              a body that succeeds; {n} in it is another number in every operation
  --content-type TYPE      its type (application/json)
  --key-header NAME        the header in which the key travels (Idempotency-Key)
  --other-caller 'NAME: VALUE'
                           the same header with another caller's credentials
  --failing-header 'NAME: VALUE', --failing-body TEXT
                           what makes the operation fail with a 5xx
  --witness URL#POINTER    where a GET tells how often the operation ran, as a number in JSON
  --json                   the report as JSON
  --contracts              the contracts that have a name, one a line

exit status: 0 a retry is safe, 1 it is not, 2 it could not be found out
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(std::env::args().skip(1)).await {
        Ok(Verdict::Safe) => ExitCode::SUCCESS,
        Ok(Verdict::Unsafe) => ExitCode::from(1),
        Ok(Verdict::Unknown) => ExitCode::from(2),
        Err(error) => {
            eprintln!("probe: {error}");
            ExitCode::from(2)
        }
    }
}

type Failure = Box<dyn std::error::Error>;

async fn run(arguments: impl Iterator<Item = String>) -> Result<Verdict, Failure> {
    let Some((asked, json)) = parse(arguments)? else {
        return Ok(Verdict::Safe);
    };
    let live = std::io::stderr().is_terminal();
    let asked = asked.on_check(move |number, of, check| {
        // One line that changes for a person, one line each for a log.
        let (start, end) = if live { ("\r\x1b[K", "") } else { ("", "\n") };
        eprint!("{start}[{number}/{of}] {check}{end}");
        let _ = std::io::stderr().flush();
    });
    let report = asked.run().await;
    if live {
        eprint!("\r\x1b[K");
    }
    let report = report.map_err(|error| chain(&error))?;
    match json {
        true => println!("{}", report.to_json()),
        false => println!("{report}"),
    }
    Ok(report.verdict)
}

/// The probe, and whether its report is to be JSON. [`None`]: everything has been said.
fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<(Probe, bool)>, Failure> {
    let mut url = None;
    let mut json = false;
    let mut body = None;
    let mut content_type = "application/json".to_owned();
    let mut changes: Vec<Box<dyn FnOnce(Probe) -> Probe>> = Vec::new();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(None);
            }
            "--contracts" => {
                Contract::names().for_each(|name| println!("{name}"));
                return Ok(None);
            }
            "--json" => json = true,
            "--method" => {
                let method: Method = value()?.parse()?;
                changes.push(Box::new(|probe| probe.method(method)));
            }
            "--body" => body = Some(value()?),
            "--content-type" => content_type = value()?,
            "--key-header" => {
                let contract = Contract::builder("probed").header(value()?).build()?;
                changes.push(Box::new(|probe| probe.contract(contract)));
            }
            "--header" => {
                let (name, value) = header(&value()?)?;
                changes.push(Box::new(|probe| probe.header(name, value)));
            }
            "--other-caller" => {
                let (name, value) = header(&value()?)?;
                changes.push(Box::new(|probe| probe.other_caller(name, value)));
            }
            "--failing-header" => {
                let (name, value) = header(&value()?)?;
                changes.push(Box::new(|probe| probe.failing_header(name, value)));
            }
            "--failing-body" => {
                let body = value()?;
                changes.push(Box::new(|probe| probe.failing_body(body)));
            }
            "--witness" => {
                let value = value()?;
                let (url, pointer) = value.split_once('#').ok_or("--witness needs URL#POINTER")?;
                let (url, pointer) = (url.to_owned(), pointer.to_owned());
                changes.push(Box::new(|probe| probe.witness(url, pointer)));
            }
            option if option.starts_with('-') => {
                return Err(format!("no option `{option}`; see --help").into());
            }
            _ if url.is_some() => return Err("one URL, please; see --help".into()),
            _ => url = Some(argument),
        }
    }
    let url = url.ok_or("a URL is needed; see --help")?;
    let mut asked = probe(url);
    if let Some(body) = body {
        asked = asked.body(content_type, body);
    }
    Ok(Some((
        changes
            .into_iter()
            .fold(asked, |probe, change| change(probe)),
        json,
    )))
}

/// An error with its causes, the last of which says what is the matter.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn header(line: &str) -> Result<(HeaderName, HeaderValue), Failure> {
    let (name, value) = line.split_once(':').ok_or("a header is `NAME: VALUE`")?;
    Ok((name.trim().parse()?, value.trim().parse()?))
}
