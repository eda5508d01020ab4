//! The headers of a request that is sent again and again.

use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

/// The headers from which every attempt's are made.
///
/// A list, for there are few of them: it takes a third of the room of a [`HeaderMap`], which an operation would hold all the while
/// that it waits, and the map of an attempt is as quickly made from it as copied, with room for what reqwest adds.
#[derive(Debug, Default)]
pub(crate) struct Headers(SmallVec<[(HeaderName, HeaderValue); USUAL]>);

/// So many need no room elsewhere: content type, key, and one of the caller's.
const USUAL: usize = 3;
/// What is added below: `accept`, `host` and the length of the body.
const ADDED: usize = 3;

/// How many a caller may set. An attempt's map holds 24 576; the rest is for the key, the client's own and what is added.
pub(crate) const MOST: usize = 24_000;

impl Headers {
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        self.0.iter()
    }

    /// The first one of that name.
    #[inline]
    pub(crate) fn get(&self, name: &HeaderName) -> Option<&HeaderValue> {
        let mut all = self.0.iter();
        all.find(|(own, _)| own == name).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, name: &HeaderName) -> Option<&mut HeaderValue> {
        let mut all = self.0.iter_mut();
        all.find(|(own, _)| own == name).map(|(_, value)| value)
    }

    pub(crate) fn get_all<'h>(
        &'h self,
        name: &'h HeaderName,
    ) -> impl Iterator<Item = &'h HeaderValue> {
        let all = self.0.iter().filter(move |(own, _)| own == name);
        all.map(|(_, value)| value)
    }

    #[inline]
    pub(crate) fn contains(&self, name: &HeaderName) -> bool {
        self.get(name).is_some()
    }

    /// Adds one, beside those of the same name.
    #[inline]
    pub(crate) fn append(&mut self, name: HeaderName, value: HeaderValue) {
        self.0.push((name, value));
    }

    /// Adds one, if there is none of that name.
    #[inline]
    pub(crate) fn add(&mut self, name: HeaderName, value: HeaderValue) {
        if !self.contains(&name) {
            self.append(name, value);
        }
    }

    /// Sets one, in the place of those of the same name.
    pub(crate) fn set(&mut self, name: &HeaderName, value: HeaderValue) {
        let mut value = Some(value);
        self.0.retain(|(own, old)| {
            if own != name {
                return true;
            }
            // The first one's place is kept, as by a map; the others are gone.
            value.take().map(|value| *old = value).is_some()
        });
        if let Some(value) = value {
            self.append(name.clone(), value);
        }
    }

    pub(crate) fn remove(&mut self, name: &HeaderName) {
        self.0.retain(|(own, _)| own != name);
    }

    /// The headers of an attempt.
    pub(crate) fn to_map(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.0.len() + ADDED);
        for (name, value) in &self.0 {
            map.append(name.clone(), value.clone());
        }
        map
    }
}

impl Clone for Headers {
    fn clone(&self) -> Self {
        // Most prepared places have none; then there is no room to be copied.
        match self.0.is_empty() {
            true => Self::default(),
            false => Self(self.0.clone()),
        }
    }
}

impl From<&HeaderMap> for Headers {
    fn from(map: &HeaderMap) -> Self {
        let pairs = map.iter();
        Self(
            pairs
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, COOKIE, EXPECT};

    use super::*;

    fn value(text: &'static str) -> HeaderValue {
        HeaderValue::from_static(text)
    }

    #[test]
    fn they_are_those_of_the_map_in_its_order() {
        let mut map = HeaderMap::new();
        for (name, text) in [(COOKIE, "a=1"), (ACCEPT, "*/*"), (COOKIE, "b=2")] {
            map.append(name, value(text));
        }
        let headers = Headers::from(&map);
        assert_eq!(headers.to_map(), map);
        let all: Vec<_> = headers.get_all(&COOKIE).collect();
        assert_eq!(all, ["a=1", "b=2"]);
        assert_eq!(headers.get(&ACCEPT), Some(&value("*/*")));
        assert!(headers.contains(&ACCEPT) && !headers.contains(&EXPECT));
    }

    #[test]
    fn one_is_set_in_the_place_of_all_of_its_name() {
        let mut headers = Headers::default();
        headers.append(COOKIE, value("a=1"));
        headers.append(COOKIE, value("b=2"));
        headers.append(ACCEPT, value("*/*"));
        headers.set(&COOKIE, value("c=3"));
        headers.set(&EXPECT, value("100-continue"));
        let all: Vec<_> = headers.iter().map(|(name, _)| name).collect();
        assert_eq!(all, [COOKIE, ACCEPT, EXPECT]);
        let all: Vec<_> = headers.get_all(&COOKIE).collect();
        assert_eq!(all, ["c=3"]);
        headers.remove(&COOKIE);
        assert_eq!(headers.iter().count(), 2);
    }

    #[test]
    fn a_value_that_is_sensitive_stays_so() {
        let mut secret = value("s3cret");
        secret.set_sensitive(true);
        let mut headers = Headers::default();
        headers.append(COOKIE, secret);
        let map = headers.to_map();
        assert!(map[COOKIE].is_sensitive());
        assert!(
            Headers::from(&map)
                .get(&COOKIE)
                .is_some_and(HeaderValue::is_sensitive)
        );
    }
}
