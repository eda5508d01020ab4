//! One key, one request: a check that some servers do not make.
//!
//! A server that does not compare answers the second request with the first one's answer, and the second operation silently does
//! not happen. So the keys that callers bring are remembered with the request that they were first sent with. Drawn keys cannot be
//! used twice and are not looked at.

use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::OnceLock;

use quick_cache::UnitWeighter;
use quick_cache::sync::{Cache, DefaultLifecycle};
use sha2::{Digest, Sha256};

use super::body::FrozenBody;
use super::frozen::Frozen;
use crate::contract::IdempotencyKey;

/// How many keys are remembered. Beyond that the least used are forgotten.
const MOST: usize = 4096;

/// Which keys were used for what, in this process and by this client.
#[derive(Default)]
pub(crate) struct UsedKeys(OnceLock<Used>);

/// From key and origin to request: no key is kept, only what it hashes to.
type Used = Cache<Hash, Hash, UnitWeighter, BuildHasherDefault<DefaultHasher>>;
type Hash = [u8; 16];

impl UsedKeys {
    /// Whether the key may be sent with this request: it was not sent with another to the same server. A streamed body says
    /// nothing of what is in it, and passes.
    pub(crate) fn admit(&self, key: &IdempotencyKey, frozen: &Frozen) -> bool {
        let body: &[u8] = match &frozen.body {
            FrozenBody::None => &[],
            FrozenBody::Bytes(bytes) => bytes,
            FrozenBody::Stream(_) => return true,
        };
        let url = &frozen.url;
        // One key at two servers is two keys.
        let origin = url.origin().ascii_serialization();
        let key = hash([origin.as_bytes(), key.as_str().as_bytes()]);
        // The fragment is not sent.
        let target = [url.path(), url.query().unwrap_or_default()];
        let request = hash([
            frozen.method.as_str().as_bytes(),
            target[0].as_bytes(),
            target[1].as_bytes(),
            body,
        ]);
        let used = self.0.get_or_init(|| {
            Cache::with(
                MOST,
                MOST as u64,
                UnitWeighter,
                BuildHasherDefault::default(),
                DefaultLifecycle::default(),
            )
        });
        used.get_or_insert_with::<_, std::convert::Infallible>(&key, || Ok(request))
            .is_ok_and(|first| first == request)
    }
}

fn hash<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Hash {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let whole: [u8; 32] = hash.finalize().into();
    let mut half = [0; 16];
    half.copy_from_slice(&whole[..16]);
    half
}

impl fmt::Debug for UsedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsedKeys")
            .field("count", &self.0.get().map_or(0, Cache::len))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use reqwest::Request;

    use super::*;

    fn frozen(method: &str, url: &str, body: &'static str) -> Frozen {
        let mut request = Request::new(method.parse().unwrap(), url.parse().unwrap());
        *request.body_mut() = (!body.is_empty()).then(|| body.into());
        Frozen::new(request)
    }

    // B11.
    #[test]
    fn a_key_belongs_to_the_request_that_it_was_first_sent_with() {
        let used = UsedKeys::default();
        let key = IdempotencyKey::parse("k-1").unwrap();
        let first = frozen("POST", "https://a.example/x?y=1#f", "amount=1");
        for _ in 0..3 {
            assert!(used.admit(&key, &first));
        }
        assert!(used.admit(
            &key,
            &frozen("POST", "https://a.example/x?y=1#g", "amount=1")
        ));
        for other in [
            frozen("PATCH", "https://a.example/x?y=1", "amount=1"),
            frozen("POST", "https://a.example/x?y=2", "amount=1"),
            frozen("POST", "https://a.example/z?y=1", "amount=1"),
            frozen("POST", "https://a.example/x?y=1", "amount=2"),
            frozen("POST", "https://a.example/x?y=1", ""),
        ] {
            assert!(!used.admit(&key, &other), "{other:?}");
        }
        assert!(used.admit(&key, &frozen("POST", "https://b.example/x", "amount=2")));
        let second = IdempotencyKey::parse("k-2").unwrap();
        assert!(used.admit(&second, &frozen("POST", "https://a.example/x", "amount=2")));
    }

    #[test]
    fn the_memory_of_keys_is_bounded() {
        let used = UsedKeys::default();
        let request = frozen("POST", "https://a.example/x", "amount=1");
        for number in 0..3 * MOST {
            let key = IdempotencyKey::parse(number.to_string()).unwrap();
            assert!(used.admit(&key, &request));
        }
        assert!(used.0.get().unwrap().len() <= MOST);
        assert_eq!(
            format!("{:?}", UsedKeys::default()),
            "UsedKeys { count: 0 }"
        );
    }
}
