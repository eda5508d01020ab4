//! Who owns a key.

use std::fmt;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::request::Parts;
use sha2::{Digest, Sha256};

/// The owner of a request's key: a tenant, a user, a credential.
///
/// ```
/// use idempotency::server::ScopeId;
///
/// assert_eq!(ScopeId::of(["acme", "alice"]), ScopeId::of(["acme", "alice"]));
/// assert_ne!(ScopeId::of(["ab", "c"]), ScopeId::of(["a", "bc"]));
/// ```
///
/// It is a SHA-256 of the names, each behind its length, so that no name and no credential is kept
/// with the answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScopeId([u8; 32]);

impl ScopeId {
    /// The owner with these names, from the widest to the narrowest: tenant, then user.
    #[must_use]
    pub fn of<P>(names: P) -> Self
    where
        P: IntoIterator,
        P::Item: AsRef<[u8]>,
    {
        let mut hash = Sha256::new();
        for name in names {
            let name = name.as_ref();
            hash.update((name.len() as u64).to_be_bytes());
            hash.update(name);
        }
        Self(hash.finalize().into())
    }

    /// The bytes to store.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for ScopeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "ScopeId({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

/// How the owner of a key is found. Every [`IdempotencyLayer`](super::IdempotencyLayer) has one.
///
/// ```
/// use idempotency::server::{Scope, ScopeId};
///
/// #[derive(Clone)]
/// struct Account { tenant: String, user: String }
///
/// // What the authentication in front has put into the request.
/// let scope = Scope::from_fn(|request| {
///     let account = request.extensions.get::<Account>()?;
///     Some(ScopeId::of([&account.tenant, &account.user]))
/// });
/// ```
///
/// Without a scope a key would be enough to be served somebody else's stored answer, and to keep
/// somebody else's operation from running. So the layer goes *inside* the authentication, where the
/// owner is known, and a request without an owner is refused with 403.
///
/// What makes a good owner is stable across the retries of one operation and differs between
/// callers: the tenant together with the user. Where a user can act for several tenants, the tenant
/// must be in it. Network addresses are poor: callers share them and change them. Names that share a
/// store but not a meaning, such as two services on one database, belong into the scope too.
#[derive(Clone)]
pub struct Scope(Arc<Find>);

type Find = dyn Fn(&Parts) -> Option<ScopeId> + Send + Sync;

impl Scope {
    /// Finds the owner in the request's head. `None` refuses the request.
    pub fn from_fn(find: impl Fn(&Parts) -> Option<ScopeId> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }

    /// The owner is whoever shows this `Authorization` header.
    ///
    /// For API keys, which live long. With tokens that are renewed every few minutes a retry with
    /// the next token is another owner, and runs the operation a second time: take the account that
    /// the token stands for, with [`from_fn`](Self::from_fn).
    #[must_use]
    pub fn credential() -> Self {
        Self::from_fn(|request| {
            let mut lines = request.headers.get_all(AUTHORIZATION).iter();
            match (lines.next(), lines.next()) {
                (Some(credential), None) => Some(ScopeId::of([
                    "credential".as_bytes(),
                    credential.as_bytes(),
                ])),
                _ => None,
            }
        })
    }

    /// All callers are one owner.
    ///
    /// What it costs: **whoever learns or guesses a key is served the stored answer of its
    /// operation**, and a caller who uses a key first decides what it stands for. Right for services
    /// with one client, behind a network that only this client reaches, and for webhooks whose
    /// sender is verified.
    #[must_use]
    pub fn global() -> Self {
        let id = ScopeId::of::<[&str; 0]>([]);
        Self::from_fn(move |_| Some(id))
    }

    pub(super) fn find(&self, request: &Parts) -> Option<ScopeId> {
        (self.0)(request)
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scope")
    }
}
