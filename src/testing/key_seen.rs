//! The key of a request, read as literally as a real server does.

use http::HeaderValue;
use reqwest::Url;

use super::http1::RequestHead;
use crate::contract::{
    Carrier, Contract, IdempotencyKey, KeyDigest, KeyEncoding, KeyReadError, UuidForm, read_key,
};

/// What stands where the key should stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeySeen {
    None,
    One {
        /// The text that names the operation to this server: quotes included, where it does not know them.
        literal: String,
        /// The text without quotes.
        text: String,
        quoted: bool,
        /// Why the contract does not take it.
        refused: Option<String>,
    },
    Several(usize),
    Broken(KeyReadError),
}

impl KeySeen {
    /// Reads the key of a request where the contract says that it stands.
    pub(super) fn read(contract: &Contract, head: &RequestHead, body: &[u8]) -> Self {
        let texts = match contract.carrier() {
            Carrier::Header(name) => {
                let lines: Vec<_> = head.headers.get_all(name).iter().collect();
                return match lines.as_slice() {
                    [] => Self::None,
                    [line] => Self::line(contract, line),
                    several => Self::Several(several.len()),
                };
            }
            Carrier::QueryParameter(name) => parameters(query_of(&head.target), name),
            Carrier::FormField(name) => match std::str::from_utf8(body) {
                Ok(form) => parameters(form, name),
                Err(_) => Vec::new(),
            },
            Carrier::JsonPointer(pointer) => serde_json::from_slice(body)
                .ok()
                .as_ref()
                .and_then(|json: &serde_json::Value| json.pointer(pointer))
                .map(|found| match found {
                    serde_json::Value::String(text) => text.clone(),
                    other => other.to_string(),
                })
                .into_iter()
                .collect(),
        };
        match texts.as_slice() {
            [] => Self::None,
            [text] => Self::text_key(contract, text),
            several => Self::Several(several.len()),
        }
    }

    fn line(contract: &Contract, line: &HeaderValue) -> Self {
        let raw = line.as_bytes().trim_ascii();
        let quoted = raw.first() == Some(&b'"');
        let inner = match read_key([line]) {
            Ok(Some(key)) => key,
            Ok(None) => return Self::None,
            Err(error) => return Self::Broken(error),
        };
        let wanted = contract.encoding() == KeyEncoding::StructuredString;
        // A server that reads the bare text takes the quotes as part of the key.
        let literal = match quoted && !wanted {
            true => String::from_utf8_lossy(raw).into_owned(),
            false => inner.as_str().to_owned(),
        };
        let refused = match wanted && !quoted {
            true => Some("it is not quoted".to_owned()),
            false => unfit(contract, &inner),
        };
        Self::One {
            literal,
            text: inner.as_str().to_owned(),
            quoted,
            refused,
        }
    }

    fn text_key(contract: &Contract, text: &str) -> Self {
        match IdempotencyKey::parse(text) {
            Err(error) => Self::Broken(error.into()),
            Ok(key) => Self::One {
                literal: text.to_owned(),
                text: text.to_owned(),
                quoted: false,
                refused: unfit(contract, &key),
            },
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::One { text, .. } => Some(text),
            _ => None,
        }
    }

    pub(super) fn digest(&self) -> Option<KeyDigest> {
        let key = IdempotencyKey::parse(self.text()?).ok()?;
        Some(key.digest())
    }
}

/// Why the contract's format does not have this key.
fn unfit(contract: &Contract, key: &IdempotencyKey) -> Option<String> {
    let text = key.as_str();
    let simple = contract.key_format().uuid == UuidForm::Simple
        && text.len() == 32
        && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if simple {
        return None;
    }
    contract.key_text(key).err().map(|error| error.to_string())
}

fn query_of(target: &str) -> &str {
    target.split_once('?').map_or("", |(_, query)| query)
}

fn parameters(query: &str, name: &str) -> Vec<String> {
    let Ok(url) = Url::parse(&format!("http://localhost/?{query}")) else {
        return Vec::new();
    };
    url.query_pairs()
        .filter(|(found, _)| found == name)
        .map(|(_, value)| value.into_owned())
        .collect()
}
