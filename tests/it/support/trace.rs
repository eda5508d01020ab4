//! The tracing spans and events of one test, as values.

use std::error::Error;
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// A span, with everything recorded on it.
#[derive(Clone, Debug)]
pub(crate) struct CapturedSpan {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    /// Index of the parent in [`Captured::spans`].
    pub(crate) parent: Option<usize>,
    fields: Vec<(&'static str, String)>,
}

/// An event; its text is the field `message`.
#[derive(Clone, Debug)]
pub(crate) struct CapturedEvent {
    pub(crate) level: Level,
    pub(crate) target: &'static str,
    /// Index of the span that it belongs to in [`Captured::spans`].
    pub(crate) span: Option<usize>,
    fields: Vec<(&'static str, String)>,
}

impl CapturedSpan {
    /// The field's last value.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        last(&self.fields, name)
    }
}

impl CapturedEvent {
    /// The names of all fields that have a value.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.fields.iter().map(|field| field.0).collect()
    }

    /// The field's last value.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        last(&self.fields, name)
    }
}

fn last<'a>(fields: &'a [(&'static str, String)], name: &str) -> Option<&'a str> {
    let mut fields = fields.iter().rev();
    fields.find(|field| field.0 == name).map(|field| &*field.1)
}

/// Captures everything traced on this thread, at every level, from [`Captured::start`] until it is dropped.
///
/// It belongs to a thread, so the code under test has to run on a `current_thread` runtime.
pub(crate) struct Captured {
    log: Arc<Mutex<Log>>,
    _default: DefaultGuard,
}

#[derive(Default)]
struct Log {
    spans: Vec<CapturedSpan>,
    events: Vec<CapturedEvent>,
}

impl Captured {
    /// Starts capturing.
    pub(crate) fn start() -> Self {
        Self::start_at(LevelFilter::TRACE)
    }

    /// Starts capturing, for a subscriber that wants no more than that.
    pub(crate) fn start_at(level: LevelFilter) -> Self {
        // While only one subscriber exists, tracing asks the *current thread's* whether a new callsite is of interest,
        // and remembers the answer: another test's thread, without a subscriber, would switch it off for this one. With
        // a second subscriber alive all of them are asked.
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(Registry::default()));

        let log = Arc::<Mutex<Log>>::default();
        let subscriber = Registry::default().with(level).with(Capture(log.clone()));
        Self {
            log,
            _default: tracing::subscriber::set_default(subscriber),
        }
    }

    /// The events of one crate's modules, in order.
    pub(crate) fn events_of(&self, target: &str) -> Vec<CapturedEvent> {
        let events = self.events().into_iter();
        events
            .filter(|event| event.target.starts_with(target))
            .collect()
    }

    /// All spans, in the order in which they were made.
    pub(crate) fn spans(&self) -> Vec<CapturedSpan> {
        self.log.lock().unwrap().spans.clone()
    }

    /// The spans of one name.
    pub(crate) fn spans_named(&self, name: &str) -> Vec<CapturedSpan> {
        let spans = self.spans().into_iter();
        spans.filter(|span| span.name == name).collect()
    }

    /// All events, in order.
    pub(crate) fn events(&self) -> Vec<CapturedEvent> {
        self.log.lock().unwrap().events.clone()
    }

    /// Everything as text: names, and every value that a field ever had.
    pub(crate) fn text(&self) -> String {
        self.text_of("")
    }

    /// The same, with the events of one crate's modules only.
    pub(crate) fn text_of(&self, target: &str) -> String {
        let mut text = String::new();
        let mut line = |what: &str, level: Level, name: &str, fields: &[(&str, String)]| {
            write!(text, "{what} {level} {name}").unwrap();
            for (field, value) in fields {
                write!(text, " {field}={value}").unwrap();
            }
            text.push('\n');
        };
        for span in self.spans() {
            line("span", span.level, span.name, &span.fields);
        }
        for event in self.events_of(target) {
            line("event", event.level, event.target, &event.fields);
        }
        text
    }

    /// Asserts that a secret was traced nowhere.
    ///
    /// # Panics
    ///
    /// With the whole text.
    #[track_caller]
    pub(crate) fn assert_absent(&self, secret: &str) {
        let text = self.text();
        assert!(!text.contains(secret), "{secret:?} was traced:\n{text}");
    }
}

struct Capture(Arc<Mutex<Log>>);

/// A span's index in the log, kept with the span.
struct Index(usize);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Capture {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let span = context.span(id).unwrap();
        let metadata = attributes.metadata();
        let mut log = self.0.lock().unwrap();
        log.spans.push(CapturedSpan {
            name: metadata.name(),
            level: *metadata.level(),
            parent: span.parent().and_then(|parent| index(parent.extensions())),
            fields: fields.0,
        });
        span.extensions_mut().insert(Index(log.spans.len() - 1));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        let span = context.span(id).and_then(|span| index(span.extensions()));
        if let Some(index) = span {
            self.0.lock().unwrap().spans[index].fields.extend(fields.0);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let span = context.event_span(event);
        self.0.lock().unwrap().events.push(CapturedEvent {
            level: *event.metadata().level(),
            target: event.metadata().target(),
            span: span.and_then(|span| index(span.extensions())),
            fields: fields.0,
        });
    }
}

fn index(extensions: tracing_subscriber::registry::Extensions<'_>) -> Option<usize> {
    extensions.get::<Index>().map(|index| index.0)
}

#[derive(Default)]
struct Fields(Vec<(&'static str, String)>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.to_owned()));
    }

    /// An error as every formatter might show it: both of its forms, and those of its sources.
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = format!("{value} ({value:?})");
        let mut source = value.source();
        while let Some(cause) = source {
            write!(text, ": {cause} ({cause:?})").unwrap();
            source = cause.source();
        }
        self.0.push((field.name(), text));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }
}
