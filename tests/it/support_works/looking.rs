//! What tracing captured.

use std::fmt;

use tracing::{Level, debug, info_span, warn};

use crate::support::Captured;

#[derive(Debug)]
struct Wrapper(std::io::Error);

impl fmt::Display for Wrapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("call failed")
    }
}

impl std::error::Error for Wrapper {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[tokio::test]
async fn spans_and_events_are_captured_with_their_fields() {
    let traced = Captured::start();
    let outer = info_span!("operation", method = "POST", status = tracing::field::Empty);
    outer.in_scope(|| {
        let inner = tracing::debug_span!("attempt", number = 2);
        inner.in_scope(|| warn!(wait = ?std::time::Duration::from_secs(1), "will retry"));
        debug!("in between");
    });
    outer.record("status", 201);
    outer.record("status", 503);

    let spans = traced.spans();
    assert_eq!(spans.len(), 2);
    assert_eq!(
        (spans[0].name, spans[0].level, spans[0].parent),
        ("operation", Level::INFO, None)
    );
    assert_eq!(spans[0].field("method"), Some("POST"));
    assert_eq!(spans[0].field("status"), Some("503"));
    assert_eq!(spans[0].field("other"), None);
    let attempts = traced.spans_named("attempt");
    assert_eq!((attempts.len(), attempts[0].parent), (1, Some(0)));
    assert_eq!(attempts[0].field("number"), Some("2"));

    let events = traced.events();
    assert_eq!(events.len(), 2);
    assert_eq!(
        (events[0].level, events[0].target, events[0].span),
        (Level::WARN, module_path!(), Some(1))
    );
    assert_eq!(
        (events[0].field("message"), events[0].field("wait")),
        (Some("will retry"), Some("1s"))
    );
    assert_eq!((events[1].level, events[1].span), (Level::DEBUG, Some(0)));
    let text = format!(
        "span INFO operation method=POST status=201 status=503\nspan DEBUG attempt number=2\n\
         event WARN {0} message=will retry wait=1s\nevent DEBUG {0} message=in between\n",
        module_path!()
    );
    assert_eq!(traced.text(), text);
}

#[tokio::test]
#[should_panic(expected = "\"hunter2\" was traced:\nevent WARN")]
async fn a_secret_deep_in_the_source_of_an_error_is_found() {
    let traced = Captured::start();
    traced.assert_absent("hunter2");
    let error = Wrapper(std::io::Error::other("password hunter2"));
    warn!(error = &error as &dyn std::error::Error, "failed");
    traced.assert_absent("hunter2");
}

#[tokio::test]
async fn nothing_is_captured_after_the_end() {
    let traced = Captured::start();
    warn!("before");
    drop(traced);
    let next = Captured::start();
    warn!("after");
    assert_eq!(next.events().len(), 1);
    assert_eq!(next.events()[0].field("message"), Some("after"));
}
