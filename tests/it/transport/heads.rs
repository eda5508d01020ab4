//! A request of ours goes out as reqwest would send it, whatever was said to the builder and in which order.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use idempotency::Client;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::client_over;
use crate::support::{Arrival, ScriptedServer, Step};

const NAMES: [&str; 6] = [
    "x-a",
    "x-b",
    "content-type",
    "accept",
    "authorization",
    "user-agent",
];
const VALUES: [&str; 4] = ["one", "two", "three", ""];

/// One call of the builder.
#[derive(Clone, Debug)]
enum Said {
    Header(&'static str, &'static str),
    Headers(Vec<(&'static str, &'static str)>),
    Body(&'static str),
    Json(&'static str),
    Form(&'static str),
    Query(&'static str),
    Bearer(&'static str),
    Basic(&'static str),
}

fn said() -> impl Strategy<Value = Said> {
    use prop::sample::select;
    let value = || select(&VALUES[..]);
    let line = || (select(&NAMES[..]), value());
    prop_oneof![
        6 => line().prop_map(|(name, value)| Said::Header(name, value)),
        2 => prop::collection::vec(line(), 0..4).prop_map(Said::Headers),
        1 => value().prop_map(Said::Body),
        1 => value().prop_map(Said::Json),
        1 => value().prop_map(Said::Form),
        1 => value().prop_map(Said::Query),
        1 => value().prop_map(Said::Bearer),
        1 => value().prop_map(Said::Basic),
    ]
}

fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in lines {
        map.append(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    map
}

/// The same calls of either builder.
macro_rules! say {
    ($builder:expr, $all:expr) => {
        $all.iter().fold($builder, |builder, said| match said {
            Said::Header(name, value) => builder.header(*name, *value),
            Said::Headers(lines) => builder.headers(map(lines)),
            Said::Body(text) => builder.body(*text),
            Said::Json(text) => builder.json(&BTreeMap::from([("v", text)])),
            Said::Form(text) => builder.form(&BTreeMap::from([("v", text)])),
            Said::Query(text) => builder.query(&BTreeMap::from([("v", text)])),
            Said::Bearer(text) => builder.bearer_auth(text),
            Said::Basic(text) => builder.basic_auth(text, Some("s3cret")),
        })
    };
}

/// Everything but the key. The lines of one name in their order; that of different names means nothing.
fn seen(mut arrival: Arrival) -> (String, Vec<(String, String)>, Vec<u8>) {
    arrival
        .headers
        .retain(|(name, _)| name != "idempotency-key");
    arrival.headers.sort_by(|one, other| one.0.cmp(&other.0));
    let line = format!("{} {}", arrival.method, arrival.target);
    (line, arrival.headers, arrival.body)
}

#[test]
fn a_request_goes_out_as_reqwest_would_send_it() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let entered = runtime.enter();
    let server = ScriptedServer::always(Step::reply(200, &[], ""));
    let plain = reqwest::Client::builder().no_proxy().build().unwrap();
    let ours = client_over(Client::reqwest_defaults(), 1);
    drop(entered);
    let methods = prop::sample::select(vec![Method::POST, Method::GET, Method::DELETE]);
    let all = prop::collection::vec(said(), 0..8);
    let program = (all, methods, any::<bool>(), any::<bool>());
    let mut runner = TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(128)
    });
    let same = runner.run(&program, |(all, method, is_prepared, has_user)| {
        let url = server.url("/x?a=%20b#part");
        let user = if has_user {
            "http://u%20s:p%40w@"
        } else {
            "http://"
        };
        let url = url.replace("http://", user);
        runtime.block_on(async {
            let expected = say!(plain.request(method.clone(), &url), all);
            expected.send().await.unwrap();
            let request = if is_prepared {
                ours.endpoint(method.clone(), &url).unwrap().request()
            } else {
                ours.request(method.clone(), &url)
            };
            let request = say!(request, all);
            let copy = request.try_clone().unwrap();
            request.send().await.unwrap();
            copy.idempotent().send().await.unwrap();
        });
        let mut arrivals = server.arrivals();
        let [expected, request, copy] = arrivals
            .split_off(arrivals.len() - 3)
            .try_into()
            .map(|three: [Arrival; 3]| three.map(seen))
            .unwrap();
        prop_assert_eq!(&request, &expected);
        prop_assert_eq!(&copy, &expected);
        Ok(())
    });
    same.unwrap();
}
