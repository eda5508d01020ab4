//! The request of an operation, fixed before its first attempt.

use std::time::Duration;

use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use reqwest::{Body, Request, Url};

use super::body::{AttemptBody, FrozenBody, freeze};
use super::error::ErrorKind;
use super::fault::Fault;
use super::headers::Headers;
use super::target::Target;

/// What every attempt is made from: the same method, target, headers and body bytes.
#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    pub(crate) method: Method,
    pub(crate) url: Target,
    pub(crate) headers: Headers,
    pub(crate) body: FrozenBody,
    /// Whether the caller asked for `100 Continue`.
    pub(crate) expects_continue: bool,
    pub(crate) version: Version,
    /// reqwest's own timeout for one request, set by callers of foreign clients: it holds for each attempt.
    timeout: Option<Duration>,
}

/// What a look at the headers has shown.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    /// Whether the key's header is there.
    pub(crate) key: bool,
    /// Whether the caller stated the body's length.
    pub(crate) length: bool,
}

impl Frozen {
    /// A request without a body.
    #[inline(always)]
    pub(crate) fn begin(method: Method, url: Target, headers: Headers) -> Self {
        Self {
            method,
            url,
            headers,
            body: FrozenBody::None,
            expects_continue: false,
            version: Version::default(),
            timeout: None,
        }
    }

    pub(crate) fn new(mut request: Request) -> Self {
        Self::of(&mut request)
    }

    /// What this request is, with its body taken out of it.
    pub(crate) fn of(request: &mut Request) -> Self {
        Self {
            method: request.method().clone(),
            url: Target::Own(request.url().clone()),
            headers: Headers::from(request.headers()),
            body: request.body_mut().take().map_or(FrozenBody::None, freeze),
            expects_continue: false,
            version: request.version(),
            timeout: request.timeout().copied(),
        }
    }

    /// Completes the request that this was made of, to be the first attempt's: with its body, and with the key in this header.
    /// False where the body is a stream.
    pub(crate) fn complete(&self, request: &mut Request, key: Option<&HeaderName>) -> bool {
        match &self.body {
            FrozenBody::None => {}
            FrozenBody::Bytes(bytes) => *request.body_mut() = Some(bytes.clone().into()),
            FrozenBody::Stream(_) => return false,
        }
        if let Some(name) = key
            && let Some(value) = self.headers.get(name)
        {
            request.headers_mut().insert(name.clone(), value.clone());
        }
        true
    }

    /// Has reqwest's builder make a change to the request.
    pub(crate) fn change(
        &mut self,
        http: reqwest::Client,
        change: impl FnOnce(reqwest::RequestBuilder) -> reqwest::RequestBuilder,
    ) -> Result<(), Fault> {
        let mut request = Request::new(self.method.clone(), Url::clone(&self.url));
        *request.headers_mut() = self.headers.to_map();
        let changed = change(reqwest::RequestBuilder::from_parts(http, request)).build();
        let mut request = changed.map_err(Fault::builder)?;
        self.headers = Headers::from(request.headers());
        if *request.url() != *self.url {
            self.url = Target::Own(request.url().clone());
        }
        if let Some(body) = request.body_mut().take() {
            self.set_body(body);
        }
        Ok(())
    }

    pub(crate) fn set_body(&mut self, body: Body) {
        self.body = freeze(body);
    }

    /// Adds the headers of which the request has none of that name.
    pub(crate) fn add_defaults(&mut self, headers: &HeaderMap) {
        for name in headers.keys() {
            if !self.headers.contains(name) {
                for value in headers.get_all(name) {
                    self.headers.append(name.clone(), value.clone());
                }
            }
        }
    }

    /// Looks at the headers, once, for all that is to be known of them before the first attempt.
    #[inline]
    pub(crate) fn look(&mut self, key: Option<&HeaderName>) -> Seen {
        let mut seen = Seen {
            key: false,
            length: false,
        };
        for (name, _) in self.headers.iter() {
            seen.key |= Some(name) == key;
            seen.length |= *name == CONTENT_LENGTH;
            self.expects_continue |= *name == EXPECT;
        }
        seen
    }

    /// The request of one attempt.
    #[inline(always)]
    pub(crate) fn request(&self, body: AttemptBody, without_expect: bool) -> Request {
        let mut request = Request::new(self.method.clone(), Url::clone(&self.url));
        *request.headers_mut() = self.headers.to_map();
        if without_expect {
            request.headers_mut().remove(EXPECT);
        }
        *request.version_mut() = self.version;
        if self.timeout.is_some() {
            *request.timeout_mut() = self.timeout;
        }
        *request.body_mut() = match body {
            AttemptBody::None => None,
            AttemptBody::Bytes(bytes) => Some(bytes.into()),
            AttemptBody::Once(body) => Some(body),
        };
        request
    }

    /// Whether another request is the same operation: what may not change between two calls of it.
    pub(crate) fn is_same_request(&self, other: &Self) -> bool {
        let same_body = match (&self.body, &other.body) {
            // Only the caller knows what is in a stream.
            (FrozenBody::Stream(_), FrozenBody::Stream(_)) => true,
            (FrozenBody::Stream(_), _) | (_, FrozenBody::Stream(_)) => false,
            (one, another) => one.bytes() == another.bytes(),
        };
        self.method == other.method && *self.url == *other.url && same_body
    }

    /// The length of the body, where it is known before it is read.
    pub(crate) fn known_length(&self) -> Option<usize> {
        match &self.body {
            FrozenBody::None => Some(0),
            FrozenBody::Bytes(bytes) => Some(bytes.len()),
            FrozenBody::Stream(_) => None,
        }
    }

    /// Refuses a body length that the caller stated and that the body does not have: the server would wait for the rest, or take
    /// it for the next request (RFC 9112, section 6.3).
    pub(crate) fn check_length(&self, length: usize) -> Result<(), Fault> {
        let agrees = |stated: &HeaderValue| {
            let digits = stated.as_bytes().iter().all(u8::is_ascii_digit);
            digits && stated.to_str().is_ok_and(|text| text.parse() == Ok(length))
        };
        let mut stated = self.headers.get_all(&CONTENT_LENGTH);
        match stated.find(|stated| !agrees(stated)) {
            None => Ok(()),
            Some(stated) => Err(Fault::new(
                ErrorKind::Builder,
                format!(
                    "the header content-length says {:?} and the body has {length} bytes: leave the header out",
                    String::from_utf8_lossy(stated.as_bytes()),
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body::Body as _;
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::retry::StoppedBy;

    fn frozen(body: impl Into<Body>) -> Frozen {
        let mut request = Request::new(Method::POST, "http://127.0.0.1/".parse().unwrap());
        *request.body_mut() = Some(body.into());
        Frozen::new(request)
    }

    fn stream(chunk: Bytes) -> Body {
        Body::wrap(http_body_util::Full::new(chunk))
    }

    /// The address of the bytes that the next attempt sends.
    async fn sent_from(frozen: &Frozen) -> *const u8 {
        let body = frozen.body.next(Some(100), None).await.unwrap();
        let request = frozen.request(body, false);
        request.body().and_then(Body::as_bytes).unwrap().as_ptr()
    }

    #[tokio::test]
    async fn a_body_of_bytes_is_never_copied() {
        let text = "amount=100".to_owned();
        let (bytes, kept) = (Bytes::from(vec![b'x'; 1000]), Bytes::from_static(b"kept"));
        for (address, frozen) in [
            (bytes.as_ptr(), frozen(bytes.clone())),
            (kept.as_ptr(), frozen(kept)),
            (text.as_ptr(), frozen(text)),
        ] {
            for _ in 0..3 {
                assert_eq!(sent_from(&frozen).await, address);
            }
        }
    }

    #[tokio::test]
    async fn a_stream_is_copied_once_into_its_buffer() {
        let frozen = frozen(stream(Bytes::from(vec![b'x'; 100])));
        let address = sent_from(&frozen).await;
        for _ in 0..3 {
            assert_eq!(sent_from(&frozen).await, address);
        }
    }

    #[tokio::test]
    async fn a_stream_over_the_limit_is_handed_on_with_what_was_read_of_it() {
        let frozen = frozen(stream(Bytes::from(vec![b'x'; 101])));
        let once = frozen.body.next(Some(100), None).await.unwrap();
        let AttemptBody::Once(body) = once else {
            panic!("kept: {once:?}")
        };
        assert_eq!(body.size_hint().exact(), Some(101));
        assert_eq!(body.collect().await.unwrap().to_bytes(), vec![b'x'; 101]);
        let again = frozen.body.next(Some(100), None).await.unwrap_err();
        assert_eq!(again.stopped_by(), StoppedBy::BodyNotRepeatable);
    }

    #[test]
    fn an_attempt_leaves_out_the_expectation_and_nothing_else() {
        let mut frozen = frozen("amount=100");
        let value = HeaderValue::from_static("100-continue");
        frozen.headers.append(EXPECT, value.clone());
        frozen
            .headers
            .append(HeaderName::from_static("x-own"), value);
        let headers = |without| {
            let request = frozen.request(AttemptBody::None, without);
            let names = request.headers().keys();
            names
                .map(|name| name.as_str().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(headers(false), ["expect", "x-own"]);
        assert_eq!(headers(true), ["x-own"]);
    }
}
