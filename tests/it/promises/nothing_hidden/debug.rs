//! What `{:?}` shows: everything that helps, and no secret.

use idempotency::{Client, KeySource};

use super::failures;
use crate::support::{ScriptedServer, Step, payment, steady};

#[tokio::test(start_paused = true)]
async fn the_debug_form_of_an_error_is_the_whole_report() {
    let error = failures::deadline().await;
    let digest = error.key().unwrap().digest().to_string();
    let attempt = "Attempt { number: 1, poll: false, began: 0ns, took: 500ms, status: None, \
                   failure: Some(Timeout), reach: MaybeProcessed, wait: None }";
    assert_eq!(
        format!("{error:?}"),
        format!(
            "Error {{ kind: Timeout, effect: Unknown, what: Failure(Timeout), \
             stopped_by: Some(Deadline), key: Some(IdempotencyKey(#{digest})), \
             attempts: [{attempt}], retry_after: None, response: None, source: None }}"
        )
    );
}

// B80.
#[tokio::test(start_paused = true)]
async fn neither_errors_nor_responses_show_what_was_sent_or_said() {
    let answer = [("Set-Cookie", "session=secret-cookie")];
    let server = ScriptedServer::always(Step::reply(503, &answer, "secret-answer"));
    let keys = KeySource::fixed("secret-key".parse().unwrap());
    let client = Client::builder()
        .policy(steady().build().unwrap())
        .key_source(keys)
        .build()
        .unwrap();
    let url = server.url("/payments?sig=secret-query");
    let url = url.replace("http://", "http://user:secret-password@");
    let request = client.post(url).body("secret-request");
    let request = request.bearer_auth("secret-token").idempotent();
    let error = request.send().await.unwrap_err();
    let shown = format!("{error} {error:?} {request:?} {:?}", error.report());
    assert!(!shown.contains("secret"), "{shown}");
    let response = error.into_response().unwrap();
    let shown = format!("{response:?} {client:?}");
    assert!(!shown.contains("secret"), "{shown}");
    assert_eq!(response.text().await.unwrap(), "secret-answer");

    // The transport's own errors hold the URL, unless it is taken out.
    let nobody = crate::support::Refused::new();
    let url = nobody.url("/payments?sig=secret-query");
    let error = payment(&client, url).send().await.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("secret"), "{shown}");
}
