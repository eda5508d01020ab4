//! From the errors of reqwest and what lies below it to facts. By type, never by text.

use std::error::Error as StdError;
use std::io;

use reqwest::Url;

use crate::retry::Failure;

/// What an error says that came instead of a response head, for a request to `url`.
pub(crate) fn sending(error: &reqwest::Error, url: &Url) -> Failure {
    let signs = Signs::read(error);
    if error.is_builder() {
        refused_by_reqwest(error, url)
    } else if error.is_redirect() {
        Failure::Redirect
    } else if error.is_connect() {
        connecting(error, &signs)
    } else if signs.tls_verdict_on_us {
        Failure::Certificate
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

/// What an error says that came after the head, while the body was being read.
pub(crate) fn reading(error: &reqwest::Error) -> Failure {
    if Signs::read(error).timeout {
        Failure::Stalled
    } else {
        Failure::Truncated
    }
}

/// reqwest calls two things a builder error: a request that it does not send, and a redirect to an address that it cannot use,
/// which comes after the request was sent and perhaps executed. Only the first one names the request's own URL.
fn refused_by_reqwest(error: &reqwest::Error, url: &Url) -> Failure {
    if error.url() == Some(url) {
        Failure::Request
    } else {
        Failure::Redirect
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
    /// The handshake cannot succeed another time.
    tls_verdict: bool,
    /// The server refused the client's own certificate, or the lack of one.
    tls_verdict_on_us: bool,
}

impl Signs {
    fn read(error: &reqwest::Error) -> Self {
        Self {
            timeout: error.is_timeout(),
            ..Self::default()
        }
        .walk(error)
    }

    /// Looks at every error of the chain, the first one included.
    fn walk(self, error: &(dyn StdError + 'static)) -> Self {
        let mut signs = self;
        let mut next = Some(error);
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
            // h2 itself ends a stream or a connection on which the server breaks the protocol.
            self.malformed |= error.is_library();
            self.reset |= error.is_reset() && error.is_remote();
            // hyper resets the stream when its body fails, and keeps the body's error to itself.
            self.own_body |= error.is_reset() && !error.is_remote() && !error.is_library();
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
            self.tls_verdict_on_us |=
                matches!(error, rustls::Error::AlertReceived(alert) if is_about_us(*alert));
        }
    }
}

/// Alerts by which a server refuses the client's certificate. In TLS 1.3 they come when the client's side of the handshake is
/// done and the request may be on its way (RFC 8446, sections 4.4.2.4 and 6.2).
#[cfg(feature = "rustls")]
fn is_about_us(alert: rustls::AlertDescription) -> bool {
    use rustls::AlertDescription as Alert;
    matches!(
        alert,
        Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::CertificateRequired
    )
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    /// An error of somebody's own, with a cause.
    #[derive(Debug)]
    struct Wrapper(Box<dyn StdError + Send + Sync>);

    impl fmt::Display for Wrapper {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("it failed")
        }
    }

    impl StdError for Wrapper {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&*self.0)
        }
    }

    fn wrapped(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Wrapper {
        Wrapper(cause.into())
    }

    fn signs(error: &(dyn StdError + 'static)) -> Signs {
        Signs::default().walk(error)
    }

    /// An error of reqwest's with this cause, as a body that is read gives it.
    fn body_error(cause: io::Error) -> reqwest::Error {
        use std::task::{Context, Poll, Waker};

        use http_body_util::{BodyExt as _, Empty};

        let broken = std::future::ready(Some(Err(cause)));
        let body = Empty::<bytes::Bytes>::new().map_err(|never| match never {});
        let mut reading = std::pin::pin!(reqwest::Body::wrap(body.with_trailers(broken)).collect());
        match reading
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(Err(error)) => error,
            other => panic!("no error: {:?}", other.is_ready()),
        }
    }

    #[test]
    fn io_errors_are_known_by_their_kind_and_not_by_their_text() {
        for (kind, reset, closed, timeout) in [
            (io::ErrorKind::ConnectionReset, true, false, false),
            (io::ErrorKind::ConnectionAborted, true, false, false),
            (io::ErrorKind::BrokenPipe, true, false, false),
            (io::ErrorKind::UnexpectedEof, false, true, false),
            (io::ErrorKind::NotConnected, false, true, false),
            (io::ErrorKind::TimedOut, false, false, true),
            (io::ErrorKind::Other, false, false, false),
        ] {
            let found = signs(&io::Error::new(kind, "connection reset, closed, timed out"));
            assert_eq!(
                (found.reset, found.closed, found.timeout),
                (reset, closed, timeout),
                "{kind:?}"
            );
        }
    }

    /// B31: one of each wrapping, however deep.
    #[test]
    fn a_cause_is_found_in_every_wrapping() {
        let reset = || io::Error::from(io::ErrorKind::ConnectionReset);
        let other = |cause: Box<dyn StdError + Send + Sync>| io::Error::other(cause);
        let wrappings: [Box<dyn StdError>; 6] = [
            Box::new(reset()),
            Box::new(wrapped(reset())),
            // `source` of an `io::Error` skips the error that it holds.
            Box::new(other(reset().into())),
            Box::new(other(other(other(reset().into()).into()).into())),
            Box::new(other(wrapped(other(wrapped(reset()).into())).into())),
            Box::new(body_error(other(wrapped(reset()).into()))),
        ];
        for wrapping in &wrappings {
            let found = signs(&**wrapping);
            assert!(
                found.reset && !found.closed && !found.timeout,
                "{wrapping:?}"
            );
        }
    }

    /// The walk begins at the error itself, and an error of reqwest's at the top is the exchange's own.
    #[test]
    fn only_a_body_error_below_the_top_is_the_callers() {
        let top = body_error(io::Error::other("lost"));
        assert!(!signs(&top).own_body);
        assert!(signs(&wrapped(top)).own_body);
    }

    #[cfg(feature = "rustls")]
    #[test]
    fn a_verdict_of_tls_is_told_from_a_failure_that_may_pass() {
        use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

        let verdict = |error: Error| {
            let found = signs(&wrapped(io::Error::other(error)));
            assert!(found.tls);
            (found.tls_verdict, found.tls_verdict_on_us)
        };
        let expired = CertificateError::Expired;
        assert_eq!(verdict(Error::InvalidCertificate(expired)), (true, false));
        let failure = AlertDescription::HandshakeFailure;
        assert_eq!(verdict(Error::AlertReceived(failure)), (true, false));
        let required = AlertDescription::CertificateRequired;
        assert_eq!(verdict(Error::AlertReceived(required)), (true, true));
        let garbage = InvalidMessage::InvalidContentType;
        assert_eq!(verdict(Error::InvalidMessage(garbage)), (false, false));
        assert_eq!(verdict(Error::HandshakeNotComplete), (false, false));
    }

    #[cfg(feature = "http2")]
    #[test]
    fn a_reason_of_http2_alone_proves_nothing() {
        // It is a remote reset or GOAWAY that proves something; those have no public constructor and are tested on sockets.
        let found = signs(&wrapped(h2::Error::from(h2::Reason::REFUSED_STREAM)));
        assert!(!found.refused && !found.go_away && !found.reset);
    }

    #[test]
    fn a_builder_error_is_the_requests_only_where_it_names_its_url() {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let error = client.get("no url").build().unwrap_err();
        let own = Url::parse("http://shop.example/orders").unwrap();
        assert_eq!(sending(&error, &own), Failure::Redirect);
        let other = Url::parse("ftp://shop.example/").unwrap();
        let error = client
            .get("http://shop.example/")
            .header("x", "\n")
            .build()
            .unwrap_err();
        assert_eq!(sending(&error.with_url(other), &own), Failure::Redirect);
        let error = client.get("no url").build().unwrap_err();
        assert_eq!(
            sending(&error.with_url(own.clone()), &own),
            Failure::Request
        );
    }
}
