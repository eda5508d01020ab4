//! Reading the key out of a request.

use http::HeaderValue;
use sfv::{BareItem, Item, Parser};

use super::{IdempotencyKey, KeyError};

/// Reads the key from the field lines of its header. `Ok(None)` when there is no line.
///
/// ```
/// use http::HeaderValue;
/// use idempotency::contract::read_key;
///
/// let bare = HeaderValue::from_static("k-1");
/// let quoted = HeaderValue::from_static("\"k-1\"");
/// assert_eq!(read_key([&bare])?, read_key([&quoted])?);
/// assert!(read_key([&bare, &bare]).is_err());
/// # Ok::<(), idempotency::contract::KeyReadError>(())
/// ```
///
/// The bare form, which most clients send, and the string of structured fields, which the IETF
/// draft asks for, are the same key. Parameters behind the string are valid syntax (RFC 9651,
/// section 3.3) and are ignored. A double quote anywhere else is broken quoting.
///
/// # Errors
///
/// [`KeyReadError`] for anything that is not exactly one key. Refuse such a request (400) and run
/// nothing: a client that sends a malformed key believes that it is protected.
pub fn read_key<'v>(
    values: impl IntoIterator<Item = &'v HeaderValue>,
) -> Result<Option<IdempotencyKey>, KeyReadError> {
    let mut values = values.into_iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(KeyReadError::SeveralLines);
    }
    let text = value.as_bytes().trim_ascii();
    if text.first() == Some(&b'"') {
        let item = Parser::new(text)
            .parse::<Item>()
            .map_err(|_| KeyReadError::Quoting)?;
        let BareItem::String(inner) = item.bare_item else {
            return Err(KeyReadError::Quoting);
        };
        return Ok(Some(IdempotencyKey::parse(inner.as_str())?));
    }
    if text.contains(&b'"') {
        return Err(KeyReadError::Quoting);
    }
    Ok(Some(IdempotencyKey::from_bytes(text)?))
}

/// Why a request's key cannot be read. The text of the header is never shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyReadError {
    /// Two keys, or the same one twice: nobody can say which one the client will repeat.
    #[error("the key header stands in the request more than once: send it once")]
    SeveralLines,
    /// A quoted string that does not parse, or a quote in a bare key.
    #[error(
        "the key is not quoted correctly: send it bare, or as one string in double quotes (RFC 9651, section 3.3.3)"
    )]
    Quoting,
    /// The text is not a key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::contract::Contract;

    fn read(lines: &[&[u8]]) -> Result<Option<String>, KeyReadError> {
        let values: Vec<_> = lines
            .iter()
            .map(|line| HeaderValue::from_bytes(line).unwrap())
            .collect();
        read_key(&values).map(|key| key.map(|key| key.to_string()))
    }

    // B111.
    #[test]
    fn the_bare_and_the_quoted_form_are_the_same_key() {
        for (line, key) in [
            ("k-1", "k-1"),
            ("\"k-1\"", "k-1"),
            ("  k-1\t", "k-1"),
            (" \"k-1\" ", "k-1"),
            ("\"k-1\";p=1", "k-1"),
            ("\"k-1\"; a; b=\"x\"", "k-1"),
            ("\"a\\\"b\"", "a\"b"),
            ("\"a\\\\b\"", "a\\b"),
            (
                "8e03978e-40d5-43e8-bc93-6894a57f9324",
                "8e03978e-40d5-43e8-bc93-6894a57f9324",
            ),
            ("../x", "../x"),
            ("';DROP", "';DROP"),
            ("k-1;p=1", "k-1;p=1"),
        ] {
            assert_eq!(read(&[line.as_bytes()]), Ok(Some(key.to_owned())), "{line}");
        }
        assert_eq!(read(&[]), Ok(None));
    }

    // B08, B110, B111.
    #[test]
    fn whatever_is_not_exactly_one_key_is_a_typed_error() {
        let not_visible =
            |position, byte| KeyReadError::Key(KeyError::NotVisibleAscii { position, byte });
        for (lines, error) in [
            (&[b"k-1".as_slice(), b"k-1"][..], KeyReadError::SeveralLines),
            (&[b"k-1", b"k-2"], KeyReadError::SeveralLines),
            (&[b""], KeyReadError::Key(KeyError::Empty)),
            (&[b"  "], KeyReadError::Key(KeyError::Empty)),
            (&[b"\"\""], KeyReadError::Key(KeyError::Empty)),
            (
                &[&[b'k'; 256]],
                KeyReadError::Key(KeyError::TooLong { length: 256 }),
            ),
            (&[b"\"k-1"], KeyReadError::Quoting),
            (&[b"k-1\""], KeyReadError::Quoting),
            (&[b"\""], KeyReadError::Quoting),
            (&[b"\"k-1\"x"], KeyReadError::Quoting),
            (&[b"\"k-1\", \"k-1\""], KeyReadError::Quoting),
            (&[b"\"a\\b\""], KeyReadError::Quoting),
            (&[b"\"k\xe9\""], KeyReadError::Quoting),
            (&[b"k-1, k-1"], not_visible(4, b' ')),
            (&[b"a\tb"], not_visible(1, b'\t')),
            (&[b"k\xe9"], not_visible(1, 0xe9)),
            (&[b"\"a b\""], not_visible(1, b' ')),
        ] {
            assert_eq!(read(lines), Err(error), "{lines:?}");
        }
    }

    proptest! {
        #[test]
        fn any_key_round_trips_through_the_quoted_form(text in "[!-~]{1,255}") {
            let key = IdempotencyKey::parse(&text).unwrap();
            let value = Contract::ietf_draft().encode_key(&key).unwrap();
            prop_assert_eq!(read_key([&value]), Ok(Some(key)));
        }

        #[test]
        fn any_key_round_trips_through_the_bare_form_or_is_refused_for_its_quote(text in "[!-~]{1,255}") {
            let key = IdempotencyKey::parse(&text).unwrap();
            match Contract::generic().encode_key(&key) {
                Ok(value) => prop_assert_eq!(read_key([&value]), Ok(Some(key))),
                Err(_) => prop_assert!(text.contains('"')),
            }
        }

        #[test]
        fn reading_never_panics(line in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(value) = HeaderValue::from_bytes(&line)
                && let Ok(Some(key)) = read_key([&value])
            {
                prop_assert!(IdempotencyKey::parse(key.as_str()).is_ok());
            }
        }
    }
}
