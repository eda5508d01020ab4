//! Where a request goes.

use std::ops::Deref;
use std::sync::Arc;

use reqwest::Url;

use crate::retry::Origin;

/// Where it goes: an address of its own, or one that was prepared for many.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Own(Url),
    Prepared(Arc<Place>),
}

/// An address, and whose budget it draws on.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) url: Url,
    origin: Origin,
}

impl Place {
    pub(crate) fn new(url: Url) -> Self {
        let origin = origin(&url);
        Self { url, origin }
    }
}

impl Deref for Target {
    type Target = Url;

    fn deref(&self) -> &Url {
        match self {
            Self::Own(url) => url,
            Self::Prepared(place) => &place.url,
        }
    }
}

impl Target {
    /// The address, to be changed for this request alone.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Url)) {
        match self {
            Self::Own(url) => change(url),
            Self::Prepared(place) => {
                let mut url = place.url.clone();
                change(&mut url);
                *self = Self::Own(url);
            }
        }
    }

    /// Whose budget it is.
    #[inline]
    pub(crate) fn payer(&self) -> Origin {
        match self {
            Self::Own(url) => origin(url),
            Self::Prepared(place) => place.origin,
        }
    }
}

fn origin(url: &Url) -> Origin {
    Origin::of(
        url.scheme(),
        url.host_str().unwrap_or_default(),
        url.port_or_known_default().unwrap_or_default(),
    )
}
