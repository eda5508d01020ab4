//! Why a store did not answer.

use std::error::Error;
use std::fmt;

/// The store could not do what it was asked. Whether it took effect is not known.
///
/// ```
/// use std::error::Error;
/// use idempotency::server::store::StoreError;
///
/// let error = StoreError::new(std::io::Error::other("connection reset"));
/// assert_eq!(error.to_string(), "the store of idempotency keys failed");
/// assert_eq!(error.source().unwrap().to_string(), "connection reset");
/// ```
pub struct StoreError(Box<dyn Error + Send + Sync>);

impl StoreError {
    /// Wraps what went wrong. Its text goes to the log: put no key in it.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store of idempotency keys failed")
    }
}

impl fmt::Debug for StoreError {
    /// The source by its `Display`: the `Debug` of database errors shows rows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreError({})", self.0)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}
