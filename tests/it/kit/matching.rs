//! The matchers, on a plain wiremock server.

use idempotency::Contract;
use idempotency::testing::matchers::{CarriesKey, KeyForm, OneKeyLine, SameKeyAndBodyAsFirst};
use wiremock::{Match, Mock, MockServer, ResponseTemplate};

use super::raw::Attempt;

async fn server(matcher: impl Match + 'static) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(matcher)
        .respond_with(ResponseTemplate::new(200))
        .mount(&server)
        .await;
    server
}

fn to(server: &MockServer) -> Attempt {
    Attempt::post(*server.address(), "/payments")
}

#[tokio::test]
async fn a_valid_key_is_carried_or_is_not() {
    let server = server(CarriesKey::new()).await;
    assert_eq!(to(&server).key("k-1").status(), 200);
    assert_eq!(to(&server).key("\"k-1\"").status(), 200);
    for bad in ["", "k 1", "\"k-1", &"k".repeat(256)] {
        assert_eq!(to(&server).key(bad).status(), 404, "{bad:?}");
    }
    assert_eq!(to(&server).status(), 404);
    assert_eq!(to(&server).key("k-1").key("k-1").status(), 404);
}

#[tokio::test]
async fn a_key_is_carried_where_the_contract_says() {
    let contract = Contract::builder("shop")
        .json_pointer("/key")
        .build()
        .unwrap();
    let server = server(CarriesKey::of(contract)).await;
    assert_eq!(to(&server).body(r#"{"key":"k-1"}"#).status(), 200);
    assert_eq!(to(&server).key("k-1").status(), 404);
}

// B06, B08.
#[tokio::test]
async fn the_keys_header_stands_there_once() {
    let server = server(OneKeyLine::new()).await;
    assert_eq!(to(&server).key("k-1").status(), 200);
    assert_eq!(to(&server).key("k-1").key("k-1").status(), 404);
    assert_eq!(to(&server).status(), 404);
}

// B111.
#[tokio::test]
async fn the_key_has_the_form_that_is_wanted() {
    let form = |form| async {
        let server = server(form).await;
        [
            to(&server).key("k-1").status(),
            to(&server).key("\"k-1\"").status(),
        ]
    };
    assert_eq!(form(KeyForm::bare()).await, [200, 404]);
    assert_eq!(form(KeyForm::quoted()).await, [404, 200]);
    assert_eq!(form(KeyForm::of(Contract::stripe())).await, [200, 404]);
    assert_eq!(form(KeyForm::of(Contract::ietf_draft())).await, [404, 200]);
}

// B01, B14.
#[tokio::test]
async fn every_attempt_is_the_first_again() {
    let server = server(SameKeyAndBodyAsFirst::new()).await;
    assert_eq!(to(&server).status(), 404);
    let first = to(&server).key("k-1");
    assert_eq!([first.status(), first.status()], [200, 200]);
    assert_eq!(to(&server).key("k-2").status(), 404);
    assert_eq!(to(&server).key("k-1").body("").status(), 404);
    let elsewhere = Attempt::post(*server.address(), "/payments?attempt=2");
    assert_eq!(elsewhere.key("k-1").status(), 404);
    assert_eq!(first.status(), 200);
}
