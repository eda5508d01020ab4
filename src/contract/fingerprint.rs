//! Whether two requests under one key are the same request.

use std::fmt;

use http::Method;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

/// A SHA-256 over method, target, content type and body of a request.
///
/// ```
/// use http::Method;
/// use idempotency::contract::Fingerprint;
///
/// let ordered = Fingerprint::of(&Method::POST, "/orders", Some(b"application/json"), br#"{"amount":100}"#);
/// let changed = Fingerprint::of(&Method::POST, "/orders", Some(b"application/json"), br#"{"amount":200}"#);
/// assert_ne!(ordered, changed);
/// ```
///
/// Every part is hashed behind its length, so moving bytes from one part to the next changes the
/// fingerprint, and a request without a content type differs from one with an empty one.
///
/// **The bytes are taken as they are.** Two JSON texts that differ in member order or white space
/// are two requests. A client that keeps its promise sends the identical bytes again, and a server
/// that reads meaning into them would have to agree with every parser behind it on large numbers
/// and repeated members; a wrong "same" replays another request's answer, while a wrong "different"
/// is a loud refusal. For the same reason multipart bodies are not taken apart: keep the boundary
/// across attempts. The target is part of it because a key that is reused on another route must not
/// be answered with the first route's answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Takes the fingerprint of a request.
    ///
    /// `target` is the path with its query, as received. A body of any size and kind belongs in
    /// here whole: a part that is left out is a part in which a changed request goes unnoticed.
    #[must_use]
    pub fn of(method: &Method, target: &str, content_type: Option<&[u8]>, body: &[u8]) -> Self {
        let mut hash = Sha256::new();
        part(&mut hash, method.as_str().as_bytes());
        part(&mut hash, target.as_bytes());
        match content_type {
            None => hash.update([0]),
            Some(value) => {
                hash.update([1]);
                part(&mut hash, value);
            }
        }
        part(&mut hash, body);
        Self(hash.finalize().into())
    }

    /// A fingerprint that was stored.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

fn part(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_be_bytes());
    hash.update(bytes);
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "Fingerprint({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

impl Serialize for Fingerprint {
    /// 64 hexadecimal digits.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(HexVisitor)
    }
}

struct HexVisitor;

impl de::Visitor<'_> for HexVisitor {
    type Value = Fingerprint;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("64 hexadecimal digits")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Fingerprint, E> {
        let invalid = || E::invalid_value(de::Unexpected::Str(text), &self);
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(invalid());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let high = char::from(pair[0]).to_digit(16).ok_or_else(invalid)?;
            let low = char::from(pair[1]).to_digit(16).ok_or_else(invalid)?;
            *byte = (high * 16 + low) as u8;
        }
        Ok(Fingerprint(bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(method: &str, target: &str, content_type: Option<&str>, body: &[u8]) -> Fingerprint {
        let method = method.parse().unwrap();
        Fingerprint::of(&method, target, content_type.map(str::as_bytes), body)
    }

    // B104, B105, B106, B19.
    #[test]
    fn a_request_that_differs_in_any_part_has_another_fingerprint() {
        let json = Some("application/json");
        let first = of("POST", "/orders", json, br#"{"a":1,"b":2}"#);
        assert_eq!(first, of("POST", "/orders", json, br#"{"a":1,"b":2}"#));
        for other in [
            of("PATCH", "/orders", json, br#"{"a":1,"b":2}"#),
            of("POST", "/orders/1/cancel", json, br#"{"a":1,"b":2}"#),
            of("POST", "/orders?dry=1", json, br#"{"a":1,"b":2}"#),
            of("POST", "/orders", None, br#"{"a":1,"b":2}"#),
            of("POST", "/orders", Some(""), br#"{"a":1,"b":2}"#),
            of("POST", "/orders", Some("text/plain"), br#"{"a":1,"b":2}"#),
            of("POST", "/orders", json, br#"{ "b":2,"a":1 }"#),
            of("POST", "/orders", json, b""),
        ] {
            assert_ne!(first, other);
        }
        let binary = Some("application/octet-stream");
        assert_ne!(
            of("PUT", "/x", binary, &[0, 1]),
            of("PUT", "/x", binary, &[0, 2])
        );
    }

    /// Stored fingerprints outlive a release: this value must not change.
    #[test]
    fn the_fingerprint_of_a_request_is_stable() {
        let fingerprint = of(
            "POST",
            "/orders",
            Some("application/json"),
            br#"{"amount":100}"#,
        );
        assert_eq!(
            fingerprint.to_string(),
            "ba12eaf4b25b6093fda0657bd7fc9177fd6bca0043fa38a516f916f1064e2e4a"
        );
        assert_eq!(
            Fingerprint::from_bytes(*fingerprint.as_bytes()),
            fingerprint
        );
        assert_eq!(
            format!("{fingerprint:?}").chars().count(),
            "Fingerprint(00000000…)".chars().count()
        );
    }

    #[test]
    fn serde_writes_hexadecimal_digits_and_reads_nothing_else() {
        let fingerprint = of("POST", "/", None, b"");
        let json = serde_json::to_string(&fingerprint).unwrap();
        assert_eq!(json, format!("\"{fingerprint}\""));
        assert_eq!(
            serde_json::from_str::<Fingerprint>(&json).unwrap(),
            fingerprint
        );
        let digits = fingerprint.to_string();
        for wrong in [
            "",
            &digits[1..],
            &digits.replace(&digits[..1], "g"),
            &"é".repeat(32),
        ] {
            assert!(
                serde_json::from_str::<Fingerprint>(&format!("{wrong:?}")).is_err(),
                "{wrong}"
            );
        }
    }

    proptest! {
        #[test]
        fn moving_a_byte_across_a_boundary_changes_it(
            target in "/[a-z]{1,8}", content in "[a-z]{1,8}", body in "[a-z]{1,8}",
        ) {
            let whole = of("POST", &target, Some(&content), body.as_bytes());
            let (head, tail) = content.split_at(1);
            let moved_left = of("POST", &format!("{target}{head}"), Some(tail), body.as_bytes());
            let (front, last) = content.split_at(content.len() - 1);
            let moved_right = of("POST", &target, Some(front), format!("{last}{body}").as_bytes());
            prop_assert_ne!(whole, moved_left);
            prop_assert_ne!(whole, moved_right);
            prop_assert_ne!(whole, of("POST", &target, None, format!("{content}{body}").as_bytes()));
        }
    }
}
