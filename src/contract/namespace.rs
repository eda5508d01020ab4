//! Keys derived from what the operation is.

use std::fmt;

use uuid::Uuid;

use super::IdempotencyKey;

/// The secret under which an application derives keys from its own identifiers.
///
/// ```
/// use idempotency::contract::KeyNamespace;
///
/// let namespace = KeyNamespace::parse("7c9a3a0e-6d0f-4f5b-9c5e-3f1f1f0a6b11")?;
/// let key = namespace.derive(["invoice", "2026-0042", "capture"]);
/// assert_eq!(key, namespace.derive(["invoice", "2026-0042", "capture"]));
/// assert_ne!(namespace.derive(["ab", "c"]), namespace.derive(["a", "bc"]));
/// # Ok::<(), idempotency::contract::NamespaceError>(())
/// ```
///
/// A derived key needs no storage: a job that is started again after a crash derives the key of the
/// operation that it had begun.
///
/// **What may go in:** the stable business identity of the operation and nothing else: the invoice,
/// the step, the amount if a changed amount is to be another operation. **What must stay out:**
/// whatever differs between two tries of the same operation: access tokens, timestamps, attempt
/// numbers, trace and request ids, random values. One of those in the parts and the retry is a
/// second charge. Derive from everything that goes into the body too, or keep the body fixed: the
/// same key with another body is refused.
///
/// A derived key protects for as long as the server remembers it (often 24 hours). Derived again
/// after that it runs the operation again.
///
/// **Why it is secret:** most servers hand the stored answer to any caller who shows the key. Under
/// a public namespace a key made of guessable identifiers can be computed by anybody. Make one
/// random namespace per application and environment, and keep it with the other secrets. `Debug`
/// does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyNamespace(Uuid);

impl KeyNamespace {
    /// A new namespace. Save it: keys derived under another one do not meet again.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The namespace that the application has kept.
    #[must_use]
    pub const fn from_uuid(namespace: Uuid) -> Self {
        Self(namespace)
    }

    /// Reads a namespace from configuration, in any of the usual spellings of a UUID.
    ///
    /// # Errors
    ///
    /// [`NamespaceError`] when the text is not a UUID, or is the nil or the max UUID, which are no
    /// secret. The text is not shown.
    pub fn parse(text: &str) -> Result<Self, NamespaceError> {
        match Uuid::try_parse(text.trim()) {
            Ok(uuid) if !uuid.is_nil() && !uuid.is_max() => Ok(Self(uuid)),
            _ => Err(NamespaceError(())),
        }
    }

    /// Derives the key of an operation from its identity: a UUID of version 5.
    ///
    /// Each part counts with its length, so parts do not run into each other. Without any part the
    /// result is one constant key.
    #[must_use]
    pub fn derive<P>(&self, parts: P) -> IdempotencyKey
    where
        P: IntoIterator,
        P::Item: AsRef<[u8]>,
    {
        let mut name = Vec::with_capacity(64);
        for part in parts {
            let part = part.as_ref();
            name.extend_from_slice(&(part.len() as u64).to_be_bytes());
            name.extend_from_slice(part);
        }
        IdempotencyKey::from(Uuid::new_v5(&self.0, &name))
    }
}

impl fmt::Debug for KeyNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyNamespace(secret)")
    }
}

/// The text is not a UUID that can serve as a namespace. It is not shown: it may be a mistyped
/// secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a key namespace is a random UUID: make one with `KeyNamespace::random()` or `uuidgen` and keep it secret"
)]
pub struct NamespaceError(());

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace() -> KeyNamespace {
        KeyNamespace::from_uuid(Uuid::from_u128(7))
    }

    // B03.
    #[test]
    fn the_same_identity_gives_the_same_key_and_another_one_another() {
        let key = namespace().derive(["invoice", "42"]);
        assert_eq!(key, namespace().derive(["invoice", "42"]));
        assert_eq!(key.uuid().unwrap().get_version_num(), 5);
        for other in [
            namespace().derive(["invoice", "43"]),
            namespace().derive(["invoice4", "2"]),
            namespace().derive(["invoice42"]),
            namespace().derive(["invoice", "42", ""]),
            namespace().derive(["42", "invoice"]),
            namespace().derive([b"invoice".as_slice(), b"42\0"]),
            KeyNamespace::from_uuid(Uuid::from_u128(8)).derive(["invoice", "42"]),
        ] {
            assert_ne!(key, other);
        }
    }

    #[test]
    fn a_namespace_is_read_from_configuration_and_never_shown() {
        let text = "7c9a3a0e-6d0f-4f5b-9c5e-3f1f1f0a6b11";
        let namespace = KeyNamespace::parse(text).unwrap();
        assert_eq!(
            namespace,
            KeyNamespace::parse(&format!(" {text}\n")).unwrap()
        );
        assert_eq!(format!("{namespace:?}"), "KeyNamespace(secret)");
        let nil = Uuid::nil().to_string();
        let max = Uuid::max().to_string();
        for wrong in ["", "my-app", &text[1..], &nil, &max] {
            let error = KeyNamespace::parse(wrong).unwrap_err();
            assert!(wrong.is_empty() || !error.to_string().contains(wrong));
        }
    }

    #[test]
    fn random_namespaces_differ() {
        assert_ne!(KeyNamespace::random(), KeyNamespace::random());
    }
}
