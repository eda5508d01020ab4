//! A field of a URL-encoded text: a form, or a query (WHATWG URL, section 5).

use super::{Edit, NoPlace, Site};

/// Looks for the field of that name. The key of a free one goes to the end.
pub(super) fn find(text: &[u8], name: &str) -> Result<Site, NoPlace> {
    let mut found = None;
    for pair in text.split(|byte| *byte == b'&') {
        let mut sides = pair.splitn(2, |byte| *byte == b'=');
        let is_ours = decoded(sides.next().unwrap_or_default()) == name.as_bytes();
        if is_ours && !pair.is_empty() && found.replace(sides.next().unwrap_or_default()).is_some()
        {
            return Err(NoPlace::Twice);
        }
    }
    if let Some(value) = found {
        let text = String::from_utf8(decoded(value));
        return Ok(text.map_or(Site::Other, Site::Text));
    }
    let joint = match text.last() {
        None | Some(b'&') => "",
        Some(_) => "&",
    };
    Ok(Site::Free(Edit {
        range: text.len()..text.len(),
        before: format!("{joint}{}=", encoded(name.as_bytes())),
        after: String::new(),
    }))
}

/// Whether a body can be one. What no serializer leaves unencoded is a sign that it is something else: JSON, XML, a line of text.
pub(super) fn is_urlencoded(body: &[u8]) -> bool {
    body.iter()
        .all(|byte| byte.is_ascii_graphic() && !b"\"<>{}\\^`|".contains(byte))
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'+' => b' ',
            b'%' => match after {
                [high, low, after @ ..] => match (digit(*high), digit(*low)) {
                    (Some(high), Some(low)) => {
                        rest = after;
                        high * 16 + low
                    }
                    _ => b'%',
                },
                _ => b'%',
            },
            other => *other,
        });
    }
    bytes
}

fn digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

/// The text with everything encoded that is not unreserved (RFC 3986, section 2.3), which is right in a form and in a query.
pub(super) fn encoded(text: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            encoded.push(char::from(*byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn free(before: &str, at: usize) -> Result<Site, NoPlace> {
        Ok(Site::Free(Edit {
            range: at..at,
            before: before.to_owned(),
            after: String::new(),
        }))
    }

    #[test]
    fn a_free_field_goes_to_the_end() {
        for (text, name, before) in [
            ("", "key", "key="),
            ("a=1", "key", "&key="),
            ("a=1&", "key", "key="),
            ("a=1&b", "key", "&key="),
            ("keys=1&xkey=2&a=key", "key", "&key="),
            ("a=1", "my key[0]", "&my%20key%5B0%5D="),
        ] {
            assert_eq!(
                find(text.as_bytes(), name),
                free(before, text.len()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_stands_there_already_is_found_in_every_spelling() {
        for (text, name, value) in [
            ("key=own", "key", "own"),
            ("a=1&key=own&b=2", "key", "own"),
            ("k%65y=o%77n", "key", "own"),
            ("my+key=a+b", "my key", "a b"),
            ("my%20key=a%2Bb", "my key", "a+b"),
            ("key=", "key", ""),
            ("key", "key", ""),
            ("key=a=b", "key", "a=b"),
            ("key=%zz%4", "key", "%zz%4"),
        ] {
            let found = Ok(Site::Text(value.to_owned()));
            assert_eq!(find(text.as_bytes(), name), found, "{text}");
        }
        assert_eq!(find(b"key=%E9", "key"), Ok(Site::Other));
        assert_eq!(find(b"key=a&b=1&key=a", "key"), Err(NoPlace::Twice));
        assert_eq!(find(b"key&k%65y", "key"), Err(NoPlace::Twice));
    }

    #[test]
    fn other_kinds_of_text_are_no_form() {
        for text in [
            "",
            "a=1",
            "a=1&b=x+y",
            "a[]=1&b=%7B%7D",
            "a=b@c:d/e,f;g!*'()~$",
        ] {
            assert!(is_urlencoded(text.as_bytes()), "{text}");
        }
        for text in ["{\"a\":1}", "<a/>", "a b", "a=1\n", "a=\u{e9}"] {
            assert!(!is_urlencoded(text.as_bytes()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_completed_form_has_the_key_and_every_byte_of_before(text in "[a-z0-9=&%+]{0,30}", key in "[!-~]{1,40}") {
            let Ok(Site::Free(edit)) = find(text.as_bytes(), "the-key") else {
                return Err(TestCaseError::fail("no place"));
            };
            let complete = format!("{text}{}{}", edit.before, encoded(key.as_bytes()));
            prop_assert!(complete.starts_with(&text));
            prop_assert_eq!(find(complete.as_bytes(), "the-key"), Ok(Site::Text(key)));
        }

        #[test]
        fn looking_never_panics(text in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = find(&text, "key");
        }
    }
}
