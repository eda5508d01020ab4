//! The request of an operation, fixed before its first attempt.

use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use reqwest::{Body, Request, Url};
use tokio::time::{Instant, timeout_at};

use super::error::{Effect, Error, ErrorKind, Source, What};
use super::fault::Fault;
use super::headers::Headers;
use super::report::Report;
use crate::retry::{Failure, Origin, StoppedBy};

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

/// Where it goes: an address of its own, or one that was prepared for many.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Own(Url),
    Prepared(Arc<Place>),
}

/// An address, and whose budget it draws on.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) url: Url,
    origin: Origin,
}

impl Place {
    pub(crate) fn new(url: Url) -> Self {
        let origin = origin(&url);
        Self { url, origin }
    }
}

impl Deref for Target {
    type Target = Url;

    fn deref(&self) -> &Url {
        match self {
            Self::Own(url) => url,
            Self::Prepared(place) => &place.url,
        }
    }
}

impl Target {
    /// The address, to be changed for this request alone.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Url)) {
        match self {
            Self::Own(url) => change(url),
            Self::Prepared(place) => {
                let mut url = place.url.clone();
                change(&mut url);
                *self = Self::Own(url);
            }
        }
    }

    /// Whose budget it is.
    #[inline]
    pub(crate) fn payer(&self) -> Origin {
        match self {
            Self::Own(url) => origin(url),
            Self::Prepared(place) => place.origin,
        }
    }
}

fn origin(url: &Url) -> Origin {
    Origin::of(
        url.scheme(),
        url.host_str().unwrap_or_default(),
        url.port_or_known_default().unwrap_or_default(),
    )
}

/// What a look at the headers has shown.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    /// Whether the key's header is there.
    pub(crate) key: bool,
    /// Whether the caller stated the body's length.
    pub(crate) length: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum FrozenBody {
    None,
    Bytes(Bytes),
    Stream(Arc<tokio::sync::Mutex<StreamBody>>),
}

/// A body that can be read only once.
#[derive(Debug)]
pub(crate) enum StreamBody {
    /// Not yet read to its end; what was read so far is kept, so that a dropped `send` loses nothing.
    Unread { read: BytesMut, rest: Body },
    /// Small enough to be kept.
    Buffered(Bytes),
    /// Sent, or broken.
    Spent,
}

/// The body of one attempt.
#[derive(Debug)]
pub(crate) enum AttemptBody {
    None,
    /// The same bytes for every attempt.
    Bytes(Bytes),
    /// A stream that only this attempt can send.
    Once(Body),
}

/// Why there is no body to send.
#[derive(Debug)]
pub(crate) enum BodyFault {
    /// The caller's stream failed.
    Failed(reqwest::Error),
    /// The caller's stream did not end before the deadline.
    Late,
    /// The stream went out with an earlier attempt.
    Spent,
}

impl BodyFault {
    pub(crate) fn stopped_by(&self) -> StoppedBy {
        match self {
            Self::Failed(_) => StoppedBy::NotRetryable,
            Self::Spent => StoppedBy::BodyNotRepeatable,
            Self::Late => StoppedBy::Deadline,
        }
    }

    pub(crate) fn into_error(self, effect: Effect, report: Report) -> Error {
        let said = |message: &str| What::Message(message.to_owned());
        let (kind, what, source) = match self {
            Self::Failed(error) => (
                ErrorKind::RequestBody,
                What::Failure(Failure::RequestBody),
                Some(Source::transport(error)),
            ),
            Self::Late => (
                ErrorKind::Timeout,
                said("the request body did not end before the deadline"),
                None,
            ),
            Self::Spent => (
                ErrorKind::RequestBody,
                said("the body stream was used up by an earlier attempt"),
                None,
            ),
        };
        Error::new(kind, effect, what)
            .with_report(report)
            .with_source(source)
    }
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

impl FrozenBody {
    /// What is known of it without reading.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::None | Self::Stream(_) => &[],
        }
    }

    /// The body for the next attempt, where it need not be read first.
    #[inline]
    pub(crate) fn at_hand(&self) -> Option<AttemptBody> {
        match self {
            Self::None => Some(AttemptBody::None),
            Self::Bytes(bytes) => Some(AttemptBody::Bytes(bytes.clone())),
            Self::Stream(_) => None,
        }
    }

    /// The body for the next attempt. A stream is read up to `limit` bytes first, so that there can be a second attempt; with
    /// no limit it is sent as it comes. What was read when the time is up stays for the next time.
    pub(crate) async fn next(
        &self,
        limit: Option<usize>,
        ends: Option<Instant>,
    ) -> Result<AttemptBody, BodyFault> {
        match self {
            Self::None => Ok(AttemptBody::None),
            Self::Bytes(bytes) => Ok(AttemptBody::Bytes(bytes.clone())),
            Self::Stream(stream) => {
                // Boxed: most bodies are bytes, and need none of the room that this takes.
                let reading = Box::pin(async {
                    let reading = async { stream.lock().await.next(limit).await };
                    match ends {
                        None => reading.await,
                        Some(ends) => timeout_at(ends, reading)
                            .await
                            .unwrap_or(Err(BodyFault::Late)),
                    }
                });
                reading.await
            }
        }
    }
}

impl StreamBody {
    async fn next(&mut self, limit: Option<usize>) -> Result<AttemptBody, BodyFault> {
        if let (Self::Unread { read, rest }, Some(limit)) = (&mut *self, limit) {
            while read.len() <= limit {
                match rest.frame().await {
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            read.extend_from_slice(&data);
                        }
                    }
                    Some(Err(error)) => {
                        *self = Self::Spent;
                        return Err(BodyFault::Failed(error));
                    }
                    None => {
                        *self = Self::Buffered(std::mem::take(read).freeze());
                        break;
                    }
                }
            }
        }
        match std::mem::replace(self, Self::Spent) {
            Self::Buffered(bytes) => {
                *self = Self::Buffered(bytes.clone());
                Ok(AttemptBody::Bytes(bytes))
            }
            Self::Unread { read, rest } => Ok(AttemptBody::Once(resume(read.freeze(), rest))),
            Self::Spent => Err(BodyFault::Spent),
        }
    }
}

fn freeze(mut body: Body) -> FrozenBody {
    if body.as_bytes().is_some() {
        // A body of bytes hands them over in one frame, without a copy.
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) {
            return FrozenBody::Bytes(frame.into_data().unwrap_or_default());
        }
        return FrozenBody::Bytes(Bytes::new());
    }
    FrozenBody::Stream(Arc::new(tokio::sync::Mutex::new(StreamBody::Unread {
        read: BytesMut::new(),
        rest: body,
    })))
}

fn resume(read: Bytes, rest: Body) -> Body {
    if read.is_empty() {
        return rest;
    }
    Body::wrap(Resumed {
        read: Some(read),
        rest,
    })
}

/// A body of which a part was read before.
struct Resumed {
    read: Option<Bytes>,
    rest: Body,
}

impl http_body::Body for Resumed {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        if let Some(data) = self.read.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        Poll::Ready(ready!(Pin::new(&mut self.rest).poll_frame(context)))
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_none() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.read.as_ref().map_or(0, |data| data.len() as u64);
        super::stream::add(self.rest.size_hint(), read)
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

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
