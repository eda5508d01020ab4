//! What a named contract sets, one fact with its source at a time.

use std::time::Duration;

use http::Method;

use crate::contract::answers::{AnswerRule, Condition, Meaning, Statuses};
use crate::contract::carrier::{Companion, KeyAlphabet, KeyEncoding, UuidForm};
use crate::contract::replay::MarkerRule;
use crate::contract::spec::{Place, Spec};
use crate::contract::window::{FailureStorage, MismatchDetection, Window};

/// A source, and what it says.
pub(super) type Fact = (&'static str, &'static [Set]);

/// What is set.
#[derive(Debug, Clone, Copy)]
pub(super) enum Set {
    Header(&'static str),
    /// A header with a string of structured fields in it.
    QuotedHeader(&'static str),
    JsonPointer(&'static str),
    FormField(&'static str),
    QueryParameter(&'static str),
    FirstSent(&'static str),
    Methods(&'static [&'static str]),
    Lengths(usize, usize),
    /// Letters, digits and these.
    Alphabet(&'static str),
    Uuid(Option<u8>),
    /// UUIDs are written in 32 characters.
    SimpleUuid,
    Window(Window),
    Failures(FailureStorage),
    Mismatch(MismatchDetection),
    Marker(Mark),
    /// Goes before the rules that all contracts share.
    Answer(Answer),
    /// Counts where no other rule fits.
    Otherwise(Answer),
    ShouldRetry(&'static str),
    /// What is known and changes nothing in the data.
    Note(&'static str),
}

/// A [`MarkerRule`] in constant form.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mark {
    Flag(&'static str),
    Words(
        &'static str,
        &'static [&'static str],
        &'static [&'static str],
    ),
    Presence(&'static str),
    Echo(&'static str),
}

/// An [`AnswerRule`] in constant form.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) statuses: Statuses,
    pub(super) when: When,
    pub(super) means: Meaning,
    pub(super) resource: Option<&'static str>,
}

/// A [`Condition`] in constant form.
#[derive(Debug, Clone, Copy)]
pub(super) enum When {
    Always,
    Code(&'static [&'static str], &'static [&'static str]),
    Header(&'static str, Option<&'static str>),
    ContentType(&'static str),
}

pub(super) const CLIENT_ERRORS: Statuses = Statuses::CLIENT_ERRORS;

pub(super) const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

pub(super) const fn hours(count: u64) -> Duration {
    minutes(count * 60)
}

pub(super) const fn days(count: u64) -> Duration {
    hours(count * 24)
}

/// A status with a code in the JSON body.
pub(super) const fn code(
    statuses: Statuses,
    pointers: &'static [&'static str],
    values: &'static [&'static str],
    means: Meaning,
) -> Set {
    Set::Answer(Answer {
        statuses,
        when: When::Code(pointers, values),
        means,
        resource: None,
    })
}

/// A status that says enough by itself.
pub(super) const fn status(status: u16, means: Meaning) -> Set {
    Set::Answer(Answer {
        statuses: Statuses::one(status),
        when: When::Always,
        means,
        resource: None,
    })
}

impl Set {
    /// Writes the fact into a contract. Answers and markers are collected in the order of the table.
    pub(super) fn apply(self, source: &'static str, spec: &mut Spec, lists: &mut Lists) {
        match self {
            Self::Header(name) => spec.carrier = Place::Header(name.into()),
            Self::QuotedHeader(name) => {
                spec.carrier = Place::Header(name.into());
                spec.encoding = KeyEncoding::StructuredString;
            }
            Self::JsonPointer(pointer) => spec.carrier = Place::JsonPointer(pointer.into()),
            Self::FormField(name) => spec.carrier = Place::FormField(name.into()),
            Self::QueryParameter(name) => spec.carrier = Place::QueryParameter(name.into()),
            Self::FirstSent(header) => spec.companions.push(Companion::FirstSent {
                header: header.into(),
            }),
            Self::Methods(names) => {
                let parse = |name: &&str| Method::from_bytes(name.as_bytes()).ok();
                spec.methods = names.iter().filter_map(parse).collect();
            }
            Self::Lengths(min, max) => {
                (spec.format.min, spec.format.max) = (min, max);
                spec.format.source = source.into();
            }
            Self::Alphabet(more) => {
                spec.format.alphabet = KeyAlphabet::AlphanumericAnd(more.into());
                spec.format.source = source.into();
            }
            Self::Uuid(version) => {
                spec.format.alphabet = KeyAlphabet::Uuid { version };
                spec.format.source = source.into();
            }
            Self::SimpleUuid => spec.format.uuid = UuidForm::Simple,
            Self::Window(window) => spec.window = window,
            Self::Failures(failures) => spec.failures = failures,
            Self::Mismatch(mismatch) => spec.mismatch = mismatch,
            Self::Marker(mark) => {
                spec.marks_replays |= !matches!(mark, Mark::Echo(_));
                lists.markers.push(mark.rule());
            }
            Self::Answer(answer) => lists.answers.push(answer.rule()),
            Self::Otherwise(answer) => lists.otherwise.push(answer.rule()),
            Self::ShouldRetry(name) => spec.should_retry = vec![name.into()],
            Self::Note(_) => {}
        }
    }
}

/// What comes before, and what after, the rules that all contracts share.
#[derive(Default)]
pub(super) struct Lists {
    pub(super) markers: Vec<MarkerRule>,
    pub(super) answers: Vec<AnswerRule>,
    pub(super) otherwise: Vec<AnswerRule>,
}

impl Mark {
    fn rule(self) -> MarkerRule {
        match self {
            Self::Flag(header) => MarkerRule::flag(header),
            Self::Words(header, replayed, fresh) => {
                MarkerRule::words(header, replayed.iter().copied(), fresh.iter().copied())
            }
            Self::Presence(header) => MarkerRule::presence(header),
            Self::Echo(header) => MarkerRule::Echo {
                header: header.into(),
            },
        }
    }
}

impl Answer {
    fn rule(self) -> AnswerRule {
        AnswerRule {
            statuses: self.statuses,
            when: match self.when {
                When::Always => Condition::Always,
                When::Code(pointers, values) => {
                    Condition::code(pointers.iter().copied(), values.iter().copied())
                }
                When::Header(name, value) => Condition::Header {
                    name: name.into(),
                    value: value.map(Into::into),
                },
                When::ContentType(media) => Condition::ContentType(media.into()),
            },
            means: self.means,
            resource: self.resource.map(Into::into),
        }
    }
}
