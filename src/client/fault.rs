//! What is wrong with a request before the first attempt.

use std::error::Error as StdError;
use std::sync::Arc;

use super::error::{Error, ErrorKind, Source, What};
use super::past::Past;
use super::report::Report;
use super::settle::KeyInUse;
use crate::retry::Protection;

/// What was wrong before the first attempt. It can be turned into an error as often as `send` is called.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    kind: ErrorKind,
    message: String,
    key: Option<KeyInUse>,
    /// Whether the request brought a key that cannot be read.
    unreadable: bool,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Fault {
    pub(crate) fn new(kind: ErrorKind, message: String) -> Self {
        Self {
            kind,
            message,
            key: None,
            unreadable: false,
            source: None,
        }
    }

    /// The request brought something in the place of the key that is none.
    pub(crate) fn unreadable(message: String) -> Self {
        Self {
            unreadable: true,
            ..Self::new(ErrorKind::Key, message)
        }
    }

    pub(crate) fn builder(error: reqwest::Error) -> Self {
        Self::unbuilt(error.without_url())
    }

    /// The request could not be built, because of that.
    pub(crate) fn unbuilt(error: impl StdError + Send + Sync + 'static) -> Self {
        Self {
            source: Some(Arc::new(error)),
            ..Self::new(
                ErrorKind::Builder,
                "the request could not be built".to_owned(),
            )
        }
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The fault of an operation that was to have this key, unless the request brought one of its own.
    pub(crate) fn of(mut self, key: Option<KeyInUse>) -> Self {
        if !self.unreadable {
            self.key = self.key.or(key);
        }
        self
    }

    pub(crate) fn key(&self) -> Option<&KeyInUse> {
        self.key.as_ref()
    }

    pub(crate) fn to_error(&self) -> Error {
        self.to_error_after(&Past::default())
    }

    /// The error of a call that sent nothing, of an operation that may have been sent before.
    pub(crate) fn to_error_after(&self, past: &Past) -> Error {
        // A key that the caller brought may have been sent before: that this call sent nothing proves nothing about it.
        let given = self.unreadable || self.key.as_ref().is_some_and(|key| !key.drawn);
        let effect = past.effect(if given {
            Protection::GivenKey
        } else {
            Protection::DrawnKey
        });
        let report = Report {
            key: self.key.as_ref().map(|key| key.key.clone()),
            ..Report::empty()
        };
        Error::new(self.kind, effect, What::Message(self.message.clone()))
            .with_report(report)
            .with_source(
                self.source
                    .clone()
                    .map(|source| Source::Other(source.into())),
            )
    }
}
