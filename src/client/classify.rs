//! From the errors of reqwest and what lies below it to facts. By type, never by text.

use std::error::Error as StdError;
use std::io;

use crate::retry::Failure;

/// How far the exchange had come when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No response head yet.
    Sending,
    /// The head had come, the body was being read.
    Reading,
}

/// What an error says about the attempt.
pub(crate) fn classify(error: &reqwest::Error, phase: Phase) -> Failure {
    let signs = Signs::read(error);
    if phase == Phase::Reading {
        return if signs.timeout {
            Failure::Stalled
        } else {
            Failure::Truncated
        };
    }
    if error.is_builder() {
        Failure::Request
    } else if error.is_redirect() {
        Failure::Redirect
    } else if error.is_connect() {
        connecting(error, &signs)
    } else if signs.own_body {
        Failure::RequestBodyInFlight
    } else if signs.refused {
        Failure::StreamRefused
    } else if signs.go_away {
        Failure::GoAway
    } else if signs.timeout {
        Failure::Timeout
    } else if signs.malformed {
        Failure::Malformed
    } else if signs.reset {
        Failure::Reset
    } else if signs.closed {
        Failure::Closed
    } else {
        Failure::Other
    }
}

fn connecting(error: &reqwest::Error, signs: &Signs) -> Failure {
    if error.is_dns() {
        Failure::Resolve
    } else if signs.tls_verdict {
        Failure::Certificate
    } else if signs.tls {
        Failure::Handshake
    } else if signs.timeout {
        Failure::ConnectTimeout
    } else {
        Failure::Connect
    }
}

/// What the chain of causes holds.
#[derive(Debug, Default)]
struct Signs {
    timeout: bool,
    own_body: bool,
    refused: bool,
    go_away: bool,
    malformed: bool,
    reset: bool,
    closed: bool,
    tls: bool,
    tls_verdict: bool,
}

impl Signs {
    fn read(error: &reqwest::Error) -> Self {
        let mut signs = Self {
            timeout: error.is_timeout(),
            ..Self::default()
        };
        let mut next: Option<&(dyn StdError + 'static)> = Some(error);
        let mut top = true;
        while let Some(cause) = next {
            signs.note(cause, top);
            top = false;
            // `io::Error::source` skips the error that it wraps, so that one is looked at first.
            next = match cause
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref)
            {
                Some(wrapped) => Some(wrapped),
                None => cause.source(),
            };
        }
        signs
    }

    fn note(&mut self, cause: &(dyn StdError + 'static), top: bool) {
        if let Some(error) = cause.downcast_ref::<reqwest::Error>() {
            // Below the top, reqwest marks an error of the request's own body stream so.
            self.own_body |= !top && error.is_body();
        } else if let Some(error) = cause.downcast_ref::<hyper::Error>() {
            self.timeout |= error.is_timeout();
            self.malformed |= error.is_parse();
            self.closed |=
                error.is_incomplete_message() || error.is_closed() || error.is_canceled();
        } else if let Some(error) = cause.downcast_ref::<io::Error>() {
            self.note_io(error.kind());
        } else {
            self.note_protocols(cause);
        }
    }

    fn note_io(&mut self, kind: io::ErrorKind) {
        match kind {
            io::ErrorKind::TimedOut => self.timeout = true,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => self.reset = true,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::NotConnected => self.closed = true,
            io::ErrorKind::InvalidInput => self.malformed = true,
            _ => {}
        }
    }

    #[cfg_attr(
        not(any(feature = "http2", feature = "rustls")),
        expect(
            clippy::unused_self,
            unused_variables,
            reason = "both protocols are switched off"
        )
    )]
    fn note_protocols(&mut self, cause: &(dyn StdError + 'static)) {
        #[cfg(feature = "http2")]
        if let Some(error) = cause.downcast_ref::<h2::Error>() {
            // h2 shows a remote GOAWAY only to streams above its last id (RFC 9113, section 6.8); those at or below end as io
            // errors.
            self.go_away |= error.is_go_away() && error.is_remote();
            self.refused |= error.is_reset()
                && error.is_remote()
                && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            self.reset |= error.is_reset();
        }
        #[cfg(feature = "rustls")]
        if let Some(error) = cause.downcast_ref::<rustls::Error>() {
            self.tls = true;
            self.tls_verdict |= matches!(
                error,
                rustls::Error::InvalidCertificate(_)
                    | rustls::Error::InvalidCertRevocationList(_)
                    | rustls::Error::NoCertificatesPresented
                    | rustls::Error::UnsupportedNameType
                    | rustls::Error::PeerIncompatible(_)
                    | rustls::Error::AlertReceived(_)
            );
        }
    }
}
