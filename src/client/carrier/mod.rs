//! Keys that travel in the body or in the query: the request is completed once, when it is frozen.
//!
//! Nothing is written anew: the key is put between the bytes that are there, and every one of those stays as it is. Numbers keep
//! their digits, members their order, and a signature over the rest of the text its meaning.

mod json;
mod pairs;

use std::ops::Range;

use bytes::Bytes;
use http::HeaderValue;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};

use super::body::FrozenBody;
use super::error::ErrorKind;
use super::fault::Fault;
use super::frozen::Frozen;
use crate::contract::{Carrier, Contract, IdempotencyKey};

/// The key's place in a request.
pub(crate) enum Spot {
    /// The caller has put a key there.
    Taken(IdempotencyKey),
    /// It is free.
    Free(Gap),
}

/// Where the key is to be written.
pub(crate) struct Gap {
    notation: Notation,
    edit: Edit,
    /// The content type of a body that was not there before.
    content_type: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    Json,
    Form,
    Query,
}

/// Text to put between what is there. The range is empty, or a `null` that gives way.
#[derive(Debug, PartialEq, Eq)]
struct Edit {
    range: Range<usize>,
    before: String,
    after: String,
}

/// What is in the place of the key.
#[derive(Debug, PartialEq, Eq)]
enum Site {
    Text(String),
    /// A value that is no text.
    Other,
    Free(Edit),
}

/// Why there is no place for the key.
#[derive(Debug, PartialEq, Eq)]
enum NoPlace {
    /// It stands there twice.
    Twice,
    /// The body is not of that kind.
    Body(String),
}

/// Looks for the key's place. [`None`] for a contract whose keys travel in a header.
pub(crate) fn spot(contract: &Contract, frozen: &Frozen) -> Result<Option<Spot>, Fault> {
    let (notation, name) = match contract.carrier() {
        Carrier::Header(_) => return Ok(None),
        Carrier::JsonPointer(pointer) => (Notation::Json, pointer.as_ref()),
        Carrier::FormField(name) => (Notation::Form, name.as_ref()),
        Carrier::QueryParameter(name) => (Notation::Query, name.as_ref()),
    };
    let (site, is_new) = match notation {
        Notation::Query => {
            let query = frozen.url.query().unwrap_or_default();
            (pairs::find(query.as_bytes(), name), false)
        }
        _ => {
            let body = body(contract, frozen, notation)?;
            let site = match notation {
                Notation::Json => json::find(body, name),
                _ if pairs::is_urlencoded(body) => pairs::find(body, name),
                _ => Err(NoPlace::Body("it is not URL-encoded".to_owned())),
            };
            (site, body.is_empty())
        }
    };
    let place = notation.place(name);
    match site {
        Ok(Site::Text(text)) => IdempotencyKey::parse(&text)
            .map(|key| Some(Spot::Taken(key)))
            .map_err(|error| own_key(&place, &error.to_string())),
        Ok(Site::Other) => Err(own_key(&place, "it is no string")),
        Err(NoPlace::Twice) => Err(own_key(&place, "it stands there twice")),
        Err(NoPlace::Body(why)) => Err(unfit(contract, &format!("{}: {why}", notation.wanted()))),
        Ok(Site::Free(edit)) => Ok(Some(Spot::Free(Gap {
            notation,
            edit,
            content_type: is_new.then(|| notation.content_type()),
        }))),
    }
}

/// The body, if it is one that can be completed.
fn body<'f>(
    contract: &Contract,
    frozen: &'f Frozen,
    notation: Notation,
) -> Result<&'f [u8], Fault> {
    let body = match &frozen.body {
        FrozenBody::None => &[],
        FrozenBody::Bytes(bytes) => bytes.as_ref(),
        FrozenBody::Stream(_) => {
            return Err(unfit(
                contract,
                "it is a stream, which cannot be completed: give it as bytes or text",
            ));
        }
    };
    if let (Notation::Form, Some(content_type)) = (notation, frozen.headers.get(&CONTENT_TYPE)) {
        let media = content_type.as_bytes().split(|byte| *byte == b';').next();
        let is_form = media.is_some_and(|media| {
            media
                .trim_ascii()
                .eq_ignore_ascii_case(notation.content_type().as_bytes())
        });
        if !is_form {
            return Err(unfit(
                contract,
                &format!("{}, and its content type is another", notation.wanted()),
            ));
        }
    }
    Ok(body)
}

impl Gap {
    /// Writes the key's text there, and nothing else.
    pub(crate) fn fill(self, frozen: &mut Frozen, key: &str) {
        let Edit {
            range,
            before,
            after,
        } = self.edit;
        let key = match self.notation {
            Notation::Json => json::escaped(key),
            Notation::Form | Notation::Query => pairs::encoded(key.as_bytes()),
        };
        let complete = |text: &[u8]| {
            let parts = [
                &text[..range.start],
                before.as_bytes(),
                key.as_bytes(),
                after.as_bytes(),
                &text[range.end..],
            ];
            parts.concat()
        };
        if self.notation == Notation::Query {
            let query = complete(frozen.url.query().unwrap_or_default().as_bytes());
            let query = std::str::from_utf8(&query).ok();
            frozen.url.change(|url| url.set_query(query));
            return;
        }
        let body = match &frozen.body {
            FrozenBody::Bytes(bytes) => complete(bytes),
            _ => complete(&[]),
        };
        if let Some(stated) = frozen.headers.get_mut(&CONTENT_LENGTH) {
            *stated = HeaderValue::from(body.len());
        }
        if let Some(content_type) = self.content_type {
            let content_type = HeaderValue::from_static(content_type);
            frozen.headers.add(CONTENT_TYPE, content_type);
        }
        frozen.body = FrozenBody::Bytes(Bytes::from(body));
    }
}

impl Notation {
    fn place(self, name: &str) -> String {
        match self {
            Self::Json => format!("member `{name}` of the JSON body"),
            Self::Form => format!("form field `{name}`"),
            Self::Query => format!("query parameter `{name}`"),
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Json => "it has to be a JSON object",
            Self::Form => "it has to be a URL-encoded form",
            Self::Query => "it has to be a query",
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Form | Self::Query => "application/x-www-form-urlencoded",
        }
    }
}

fn own_key(place: &str, why: &str) -> Fault {
    Fault::unreadable(format!("the request's own {place} is no usable key: {why}"))
}

fn unfit(contract: &Contract, why: &str) -> Fault {
    Fault::new(
        ErrorKind::Contract,
        format!(
            "the contract `{}` puts the key into the body, and this body does not take it: {why}",
            contract.name(),
        ),
    )
}
