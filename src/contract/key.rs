//! The idempotency key: one name for one operation.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The name of one operation, the same on every attempt of it.
///
/// ```
/// use idempotency::contract::IdempotencyKey;
///
/// let key = IdempotencyKey::random();
/// let saved = key.to_string();
/// assert_eq!(saved.parse::<IdempotencyKey>()?, key);
/// # Ok::<(), idempotency::contract::KeyError>(())
/// ```
///
/// A key is 1 to 255 visible ASCII characters (`0x21..=0x7E`). Case matters: `K-1` and `k-1` name
/// two operations. The limits are those that deployed servers share; a provider may ask for less,
/// which its [`Contract`] checks before anything is sent.
///
/// Make one key per operation, when the operation is made, and keep it for every repeat: a second
/// key is a second operation. Whoever knows a key can be served the stored answer of its operation
/// by most servers, so a key is not printed by `Debug`; it shows as a [`KeyDigest`]. `Display` is
/// the text for the wire.
///
/// [`Contract`]: crate::contract::Contract
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Repr);

/// Texts of up to 36 bytes are always inline and longer ones never, so that equal texts have equal
/// representations.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Inline {
        length: u8,
        /// Whether there is a double quote in it. It follows from the text.
        quoted: bool,
        bytes: [u8; INLINE],
    },
    Shared(Arc<str>),
}

/// The length of a hyphenated UUID.
const INLINE: usize = uuid::fmt::Hyphenated::LENGTH;

impl IdempotencyKey {
    /// The longest key, in bytes.
    pub const MAX_LENGTH: usize = 255;

    /// Draws a new key: a random UUID (version 4), hyphenated and in lower case.
    ///
    /// It comes from a cryptographically secure generator of the thread, which is seeded by the
    /// operating system; it allocates nothing and needs no system call of its own.
    #[must_use]
    pub fn random() -> Self {
        Self::from(Uuid::new_v4())
    }

    /// Takes a key that was made elsewhere, such as one saved before a restart.
    ///
    /// # Errors
    ///
    /// [`KeyError`] when the text is not 1 to 255 visible ASCII characters. Nothing is trimmed or
    /// folded: a changed key would be another operation.
    pub fn parse(text: impl AsRef<str>) -> Result<Self, KeyError> {
        Self::from_bytes(text.as_ref().as_bytes())
    }

    pub(super) fn from_bytes(text: &[u8]) -> Result<Self, KeyError> {
        if text.is_empty() {
            return Err(KeyError::Empty);
        }
        if text.len() > Self::MAX_LENGTH {
            return Err(KeyError::TooLong { length: text.len() });
        }
        if let Some(position) = text.iter().position(|byte| !byte.is_ascii_graphic()) {
            return Err(KeyError::NotVisibleAscii {
                position,
                byte: text[position],
            });
        }
        if text.len() <= INLINE {
            let mut bytes = [0; INLINE];
            bytes[..text.len()].copy_from_slice(text);
            return Ok(Self(Repr::Inline {
                length: text.len() as u8,
                quoted: text.contains(&b'"'),
                bytes,
            }));
        }
        Ok(Self(Repr::Shared(Arc::from(ascii(text)))))
    }

    /// The text of the key, as it stands on the wire in its bare form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Inline { length, bytes, .. } => ascii(&bytes[..usize::from(*length)]),
            Repr::Shared(text) => text,
        }
    }

    /// The text as bytes, without the check that they are text.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { length, bytes, .. } => &bytes[..usize::from(*length)],
            Repr::Shared(text) => text.as_bytes(),
        }
    }

    /// Whether there is a double quote in the text.
    #[inline]
    pub(super) fn has_quote(&self) -> bool {
        match &self.0 {
            Repr::Inline { quoted, .. } => *quoted,
            Repr::Shared(text) => text.contains('"'),
        }
    }

    /// The UUID that the key is, when its text is a hyphenated UUID in either case.
    #[must_use]
    pub fn uuid(&self) -> Option<Uuid> {
        uuid::fmt::Hyphenated::from_str(self.as_str())
            .ok()
            .map(uuid::fmt::Hyphenated::into_uuid)
    }

    /// A short name for logs and errors that does not give the key away.
    #[must_use]
    pub fn digest(&self) -> KeyDigest {
        let hash = Sha256::digest(self.as_str().as_bytes());
        KeyDigest(u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]))
    }
}

fn ascii(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("a key holds visible ASCII only, checked when it was made")
}

impl From<Uuid> for IdempotencyKey {
    /// The hyphenated form in lower case.
    fn from(uuid: Uuid) -> Self {
        let mut bytes = [0; INLINE];
        uuid.hyphenated().encode_lower(&mut bytes);
        Self(Repr::Inline {
            length: INLINE as u8,
            quoted: false,
            bytes,
        })
    }
}

impl FromStr for IdempotencyKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

impl TryFrom<&str> for IdempotencyKey {
    type Error = KeyError;

    fn try_from(text: &str) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for IdempotencyKey {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotencyKey(#{})", self.digest())
    }
}

impl Serialize for IdempotencyKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for IdempotencyKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor)
    }
}

struct KeyVisitor;

impl de::Visitor<'_> for KeyVisitor {
    type Value = IdempotencyKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an idempotency key of 1 to 255 visible ASCII characters")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<IdempotencyKey, E> {
        IdempotencyKey::parse(text).map_err(E::custom)
    }
}

/// The first 32 bits of the key's SHA-256, shown as eight hexadecimal digits.
///
/// Enough to find the lines of one operation in a log, too little to ask a server for its answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyDigest(u32);

impl fmt::Display for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyDigest({self})")
    }
}

/// Why a text is not an idempotency key. The text itself is never shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no text.
    #[error(
        "an idempotency key has at least 1 character, this one has none: draw one with `IdempotencyKey::random()`"
    )]
    Empty,
    /// There is too much of it.
    #[error(
        "an idempotency key has at most 255 bytes, this one has {length}: derive a short one from the long text with `KeyNamespace::derive`"
    )]
    TooLong {
        /// Length of the text in bytes.
        length: usize,
    },
    /// A space, a control character or something outside ASCII.
    #[error(
        "an idempotency key is visible ASCII (0x21 to 0x7E), this one has byte 0x{byte:02X} at position {position}: remove it or encode the text"
    )]
    NotVisibleAscii {
        /// Where the first such byte is, counted from 0.
        position: usize,
        /// That byte.
        byte: u8,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    // B10, B110.
    #[test]
    fn a_text_that_is_no_key_is_a_typed_error() {
        let not_visible = |position, byte| KeyError::NotVisibleAscii { position, byte };
        for (text, error) in [
            ("", KeyError::Empty),
            (&"k".repeat(256), KeyError::TooLong { length: 256 }),
            (&"k".repeat(65_536), KeyError::TooLong { length: 65_536 }),
            ("k-1\n", not_visible(3, b'\n')),
            ("a\tb", not_visible(1, b'\t')),
            ("a b", not_visible(1, b' ')),
            (" k", not_visible(0, b' ')),
            ("k\0", not_visible(1, 0)),
            ("k\u{7f}", not_visible(1, 0x7f)),
            ("k-é", not_visible(2, 0xc3)),
        ] {
            assert_eq!(IdempotencyKey::parse(text), Err(error), "{text:?}");
            assert_eq!(text.parse::<IdempotencyKey>(), Err(error));
            assert_eq!(IdempotencyKey::try_from(text.to_owned()), Err(error));
        }
    }

    #[test]
    fn every_visible_character_and_every_length_up_to_255_is_a_key() {
        for byte in 0x21..=0x7E_u8 {
            let text = char::from(byte).to_string();
            assert_eq!(IdempotencyKey::parse(&text).unwrap().as_str(), text);
        }
        for length in 1..=255 {
            let text = "k".repeat(length);
            assert_eq!(IdempotencyKey::parse(&text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn case_matters() {
        assert_ne!(IdempotencyKey::parse("K-1"), IdempotencyKey::parse("k-1"));
    }

    #[test]
    fn a_key_made_of_a_uuid_equals_the_key_parsed_from_its_text() {
        let uuid = Uuid::from_u128(0x8e03978e_40d5_43e8_bc93_6894a57f9324);
        let key = IdempotencyKey::from(uuid);
        assert_eq!(key.as_str(), "8e03978e-40d5-43e8-bc93-6894a57f9324");
        assert_eq!(key, IdempotencyKey::parse(key.as_str()).unwrap());
        assert_eq!(key.uuid(), Some(uuid));
        let upper = IdempotencyKey::parse(key.as_str().to_uppercase()).unwrap();
        assert_eq!(upper.uuid(), Some(uuid));
        assert_ne!(upper, key);
        let simple = IdempotencyKey::parse(uuid.simple().to_string()).unwrap();
        assert_eq!(simple.uuid(), None);
    }

    #[test]
    fn random_keys_are_different_uuids_of_version_4() {
        let keys: HashSet<_> = (0..1000).map(|_| IdempotencyKey::random()).collect();
        assert_eq!(keys.len(), 1000);
        for key in keys {
            assert_eq!(key.uuid().unwrap().get_version_num(), 4);
        }
    }

    #[test]
    fn debug_shows_a_digest_and_display_the_text() {
        let key = IdempotencyKey::parse("k-1").unwrap();
        // The first 32 bits of SHA-256("k-1").
        assert_eq!(
            format!("{key:?}"),
            format!("IdempotencyKey(#{})", key.digest())
        );
        assert_eq!(key.digest().to_string(), "7c35c5a1");
        assert_eq!(key.to_string(), "k-1");
        assert!(!format!("{:?}", IdempotencyKey::parse("s3cret").unwrap()).contains("s3cret"));
    }

    #[test]
    fn an_error_never_shows_the_key() {
        for text in ["s3cret key", &"s3cret".repeat(60), "s3cret\n"] {
            let error = IdempotencyKey::parse(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn serde_uses_the_text_and_checks_it() {
        let key = IdempotencyKey::parse("k-1").unwrap();
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(json, "\"k-1\"");
        assert_eq!(serde_json::from_str::<IdempotencyKey>(&json).unwrap(), key);
        let error = serde_json::from_str::<IdempotencyKey>("\"a b\"").unwrap_err();
        assert!(
            error.to_string().contains("byte 0x20 at position 1"),
            "{error}"
        );
        assert!(serde_json::from_str::<IdempotencyKey>("7").is_err());
    }

    #[test]
    fn a_key_is_small() {
        assert!(size_of::<IdempotencyKey>() <= 40);
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_keeps_the_text(text in ".{0,300}") {
            if let Ok(key) = IdempotencyKey::parse(&text) {
                prop_assert_eq!(key.as_str(), text);
            }
        }
    }
}
