//! Whether an answer is a replay, as far as the server says so.

use std::borrow::Cow;
use std::fmt;

use http::HeaderValue;

use super::answers::{Texts, texts};
use super::reading::same_word;

/// Whether an answer is the stored answer of an earlier attempt.
///
/// Three-valued, because many servers replay without saying so: a missing marker proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Replay {
    /// The operation ran for this attempt.
    Fresh,
    /// An earlier attempt had run it; this is its answer.
    Replayed,
    /// Nobody says, or what is said is not understood or contradicts itself.
    #[default]
    Unknown,
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fresh => "fresh",
            Self::Replayed => "replayed",
            Self::Unknown => "unknown",
        })
    }
}

/// How a server tells a replay from a fresh answer.
///
/// Values are trimmed and compared without regard to ASCII case. A value that is not in the rule's
/// vocabulary, an empty one and a header that stands there twice say nothing. Where two markers
/// contradict each other the answer is [`Replay::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MarkerRule {
    /// A header that is true or false: `true`, `1`, `?1` mean replayed; `false`, `0`, `?0`, `miss`
    /// mean fresh.
    Flag {
        /// The name of the header.
        header: Cow<'static, str>,
    },
    /// A header with a vocabulary of its own.
    Words {
        /// The name of the header.
        header: Cow<'static, str>,
        /// The values that mean replayed.
        replayed: Texts,
        /// The values that mean fresh.
        fresh: Texts,
    },
    /// A header that only replays have, with any value.
    Presence {
        /// The name of the header.
        header: Cow<'static, str>,
    },
    /// A status that only replays have.
    Status {
        /// The status.
        status: u16,
    },
    /// A boolean in the JSON body.
    BodyFlag {
        /// Where it stands, as a JSON pointer (RFC 6901).
        pointer: Cow<'static, str>,
    },
    /// The key is echoed in a header. That the server has seen the key is no proof of a replay: it
    /// never yields anything but [`Replay::Unknown`].
    Echo {
        /// The name of the header.
        header: Cow<'static, str>,
    },
}

impl MarkerRule {
    /// A boolean header.
    pub fn flag(header: impl Into<Cow<'static, str>>) -> Self {
        Self::Flag {
            header: header.into(),
        }
    }

    /// A header with its own words for replayed and fresh.
    pub fn words<R, F>(
        header: impl Into<Cow<'static, str>>,
        replayed: impl IntoIterator<Item = R>,
        fresh: impl IntoIterator<Item = F>,
    ) -> Self
    where
        R: Into<Cow<'static, str>>,
        F: Into<Cow<'static, str>>,
    {
        Self::Words {
            header: header.into(),
            replayed: texts(replayed),
            fresh: texts(fresh),
        }
    }

    /// A header that only replays have.
    pub fn presence(header: impl Into<Cow<'static, str>>) -> Self {
        Self::Presence {
            header: header.into(),
        }
    }

    pub(super) fn header(&self) -> Option<&str> {
        match self {
            Self::Flag { header }
            | Self::Words { header, .. }
            | Self::Presence { header }
            | Self::Echo { header } => Some(header),
            Self::Status { .. } | Self::BodyFlag { .. } => None,
        }
    }

    /// What one value of the rule's header says.
    pub(super) fn read(&self, value: &HeaderValue) -> Replay {
        let value = value.as_bytes().trim_ascii();
        if value.is_empty() {
            return Replay::Unknown;
        }
        let among = |words: &[Cow<'static, str>]| {
            words
                .iter()
                .any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
        };
        match self {
            Self::Flag { .. } => match value {
                b"1" | b"?1" => Replay::Replayed,
                b"0" | b"?0" => Replay::Fresh,
                _ if value.eq_ignore_ascii_case(b"true") => Replay::Replayed,
                _ if value.eq_ignore_ascii_case(b"false")
                    || value.eq_ignore_ascii_case(b"miss") =>
                {
                    Replay::Fresh
                }
                _ => Replay::Unknown,
            },
            Self::Words { replayed, .. } if among(replayed) => Replay::Replayed,
            Self::Words { fresh, .. } if among(fresh) => Replay::Fresh,
            Self::Presence { .. } => Replay::Replayed,
            _ => Replay::Unknown,
        }
    }
}

/// Whether one of the words stands in the list twice or in both lists, which makes it mean nothing.
pub(super) fn ambiguous<'w>(replayed: &'w Texts, fresh: &Texts) -> Option<&'w str> {
    replayed
        .iter()
        .find(|word| fresh.iter().any(|other| same_word(word, other)))
        .map(AsRef::as_ref)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_in_lower_case() {
        let shown =
            [Replay::Fresh, Replay::Replayed, Replay::Unknown].map(|replay| replay.to_string());
        assert_eq!(shown, ["fresh", "replayed", "unknown"]);
    }
}
