//! Where a request's key stands.

use http::request::Parts;
use http::{HeaderName, header::InvalidHeaderName};
use serde_json::Value;

use crate::contract::{IdempotencyKey, KeyReadError, read_key};

/// Where the key of a request stands. By default in the header `Idempotency-Key`.
///
/// ```
/// use idempotency::server::KeyFrom;
///
/// let event_id = KeyFrom::json_pointer("/event/id");
/// let delivery = KeyFrom::header("X-Delivery-Id")?;
/// # Ok::<(), http::header::InvalidHeaderName>(())
/// ```
///
/// Choose something that names the operation and nothing else. Request and correlation ids are
/// copied from call to call by proxies and tracing, so one id may stand on two operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFrom(Place);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Header(HeaderName),
    JsonPointer(String),
}

impl KeyFrom {
    /// The key is the value of this header, bare or quoted.
    ///
    /// # Errors
    ///
    /// When the text is not the name of a header.
    pub fn header(name: impl AsRef<[u8]>) -> Result<Self, InvalidHeaderName> {
        Ok(Self(Place::Header(HeaderName::from_bytes(name.as_ref())?)))
    }

    /// The key is the string or the whole number at this pointer (RFC 6901) in the JSON body, such
    /// as the id of a webhook's event. A body without one has no key.
    pub fn json_pointer(pointer: impl Into<String>) -> Self {
        Self(Place::JsonPointer(pointer.into()))
    }

    pub(super) fn default_header() -> Self {
        Self(Place::Header(HeaderName::from_static("idempotency-key")))
    }

    /// The key, where the head alone says it: a request that is refused for its key need not send
    /// its body.
    pub(super) fn in_head(&self, head: &Parts) -> Result<Option<IdempotencyKey>, KeyReadError> {
        match &self.0 {
            Place::Header(name) => read_key(head.headers.get_all(name)),
            Place::JsonPointer(_) => Ok(None),
        }
    }

    pub(super) fn is_in_body(&self) -> bool {
        matches!(self.0, Place::JsonPointer(_))
    }

    pub(super) fn in_body(&self, body: &[u8]) -> Result<Option<IdempotencyKey>, KeyReadError> {
        let Place::JsonPointer(pointer) = &self.0 else {
            return Ok(None);
        };
        let Ok(json) = serde_json::from_slice::<Value>(body) else {
            return Ok(None);
        };
        let text = match json.pointer(pointer) {
            Some(Value::String(text)) => text.clone(),
            // A number with a fraction or an exponent has more than one spelling.
            Some(Value::Number(number)) if number.is_u64() || number.is_i64() => number.to_string(),
            _ => return Ok(None),
        };
        Ok(Some(IdempotencyKey::parse(text)?))
    }
}
