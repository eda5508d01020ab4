//! The facts of a named contract in words: the rows of its documentation.

use std::time::Duration;

use super::fact::{Answer, Mark, Set, When};
use crate::contract::answers::Meaning;
use crate::contract::window::{FailureStorage, MismatchDetection, Window};

impl Set {
    /// Which row of the table it is.
    pub(super) fn subject(self) -> &'static str {
        match self {
            Self::Header(_)
            | Self::QuotedHeader(_)
            | Self::JsonPointer(_)
            | Self::FormField(_)
            | Self::QueryParameter(_) => "Carrier",
            Self::FirstSent(_) => "Companion",
            Self::Methods(_) => "Methods",
            Self::Lengths(..) | Self::Alphabet(_) | Self::Uuid(_) | Self::SimpleUuid => "Keys",
            Self::Window(_) => "Window",
            Self::Failures(_) => "Stored failures",
            Self::Mismatch(_) => "Other request, same key",
            Self::Marker(Mark::Echo(_)) => "Echo",
            Self::Marker(_) => "Replay marker",
            Self::Answer(answer) | Self::Otherwise(answer) => match answer.means {
                Meaning::Plain => "Nothing in particular",
                Meaning::InProgress => "In progress",
                Meaning::Mismatch => "Mismatch",
                Meaning::AlreadyDone => "Already done",
                Meaning::KeyUnusable => "Key unusable",
                Meaning::NotExecuted => "Not executed",
            },
            Self::ShouldRetry(_) => "Verdict on repeating",
            Self::Note(_) => "Note",
        }
    }

    /// What is set, in Markdown.
    pub(super) fn value(self) -> String {
        match self {
            Self::Header(name) => format!("header `{name}`, bare"),
            Self::QuotedHeader(name) => {
                format!("header `{name}`, as a quoted string of structured fields")
            }
            Self::JsonPointer(pointer) => format!("JSON body, `{pointer}`"),
            Self::FormField(name) => format!("form field `{name}`"),
            Self::QueryParameter(name) => format!("query parameter `{name}`"),
            Self::FirstSent(name) => format!("`{name}`: the time of the first attempt"),
            Self::Methods(names) => names.join(", "),
            Self::Lengths(min, max) if min == max => format!("{max} characters"),
            Self::Lengths(min, max) => format!("{min} to {max} characters"),
            Self::Alphabet("") => "letters and digits".to_owned(),
            Self::Alphabet(more) => format!("letters, digits and `{more}`"),
            Self::Uuid(None) => "UUIDs".to_owned(),
            Self::Uuid(Some(version)) => format!("UUIDs of version {version}"),
            Self::SimpleUuid => "UUIDs are written in 32 characters".to_owned(),
            Self::Window(window) => window_in_words(window),
            Self::Failures(failures) => failures_in_words(failures).to_owned(),
            Self::Mismatch(mismatch) => match mismatch {
                MismatchDetection::Unknown => "not known",
                MismatchDetection::Detected => "refused",
                MismatchDetection::NotDetected => "not noticed: answered with the first answer",
            }
            .to_owned(),
            Self::Marker(mark) => mark.in_words(),
            Self::Answer(answer) => answer.in_words(),
            Self::Otherwise(answer) => format!("{}, where nothing else fits", answer.in_words()),
            Self::ShouldRetry(name) => format!("`{name}`"),
            Self::Note(text) => text.to_owned(),
        }
    }
}

impl Mark {
    fn in_words(self) -> String {
        match self {
            Self::Flag(name) => format!("`{name}: true`"),
            Self::Words(name, replayed, fresh) => format!(
                "`{name}`: {} replayed, {} fresh",
                listed(replayed),
                listed(fresh)
            ),
            Self::Presence(name) => format!("`{name}`, on replays only"),
            Self::Echo(name) => format!("`{name}` repeats the key, which proves no replay"),
        }
    }
}

impl Answer {
    fn in_words(self) -> String {
        let (first, last) = (self.statuses.first, self.statuses.last);
        let status = if first == last {
            first.to_string()
        } else {
            format!("{first} to {last}")
        };
        let when = match self.when {
            When::Always => String::new(),
            When::Code(pointers, values) => {
                format!(" with {} at {}", listed(values), listed(pointers))
            }
            When::Header(name, None) => format!(" with a header `{name}`"),
            When::Header(name, Some(value)) => format!(" with `{name}: {value}`"),
            When::ContentType(media) => format!(" with content type `{media}`"),
        };
        let resource = self.resource.map_or_else(String::new, |pointer| {
            format!("; the existing resource is at `{pointer}`")
        });
        format!("{status}{when}{resource}")
    }
}

fn listed(items: &[&str]) -> String {
    let items: Vec<_> = items.iter().map(|item| format!("`{item}`")).collect();
    items.join(" or ")
}

fn window_in_words(window: Window) -> String {
    match window {
        Window::Unknown => "not known".to_owned(),
        Window::AtLeast(time) => format!("at least {}", time_in_words(time)),
        Window::Exactly(time) => time_in_words(time),
        Window::Forever => "keys never expire".to_owned(),
        Window::MerchantSet => "set by each customer, taken as 24 hours".to_owned(),
        Window::Advertised(time) => format!("{}, as the server says", time_in_words(time)),
    }
}

fn time_in_words(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    match (minutes % (24 * 60), minutes % 60) {
        (0, _) if minutes > 24 * 60 => format!("{} days", minutes / (24 * 60)),
        (_, 0) if minutes == 60 => "1 hour".to_owned(),
        (_, 0) => format!("{} hours", minutes / 60),
        _ => format!("{minutes} minutes"),
    }
}

fn failures_in_words(failures: FailureStorage) -> &'static str {
    match failures {
        FailureStorage::Unknown => "not known",
        FailureStorage::Nothing => "none: after a failure the same key runs the operation again",
        FailureStorage::ClientErrors => "4xx; after a 5xx the same key runs the operation again",
        FailureStorage::Everything => "all, 5xx included: the same key repeats the failure",
        FailureStorage::KeyBurned => "after a failure the key is refused",
        FailureStorage::ReExecuted => "none: failed work is taken up again",
    }
}
