//! Where a request goes, as the caller wrote it.

use reqwest::Url;

/// What can be given as a URL: a [`Url`], or text that is one.
///
/// As reqwest's trait of the same name, with one difference: text that is no URL is named in the error, without what may be
/// secret in it. Sealed.
pub trait IntoUrl: sealed::Sealed {}

impl IntoUrl for Url {}
impl IntoUrl for &Url {}
impl IntoUrl for &str {}
impl IntoUrl for String {}
impl IntoUrl for &String {}

pub(crate) mod sealed {
    use reqwest::Url;

    use super::{checked, parse};

    pub trait Sealed {
        /// The URL, or why it is none.
        fn into_url(self) -> Result<Url, String>;
    }

    impl Sealed for Url {
        fn into_url(self) -> Result<Url, String> {
            checked(self)
        }
    }

    impl Sealed for &Url {
        fn into_url(self) -> Result<Url, String> {
            checked(self.clone())
        }
    }

    impl Sealed for &str {
        fn into_url(self) -> Result<Url, String> {
            parse(self)
        }
    }

    impl Sealed for String {
        fn into_url(self) -> Result<Url, String> {
            parse(&self)
        }
    }

    impl Sealed for &String {
        fn into_url(self) -> Result<Url, String> {
            parse(self)
        }
    }
}

fn parse(text: &str) -> Result<Url, String> {
    match Url::parse(text) {
        Ok(url) if is_http(&url) => Ok(url),
        Ok(url) => Err(not_http(&url)),
        Err(error) => Err(bad(text, &error.to_string())),
    }
}

fn checked(url: Url) -> Result<Url, String> {
    if is_http(&url) {
        Ok(url)
    } else {
        Err(not_http(&url))
    }
}

fn is_http(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
}

fn not_http(url: &Url) -> String {
    bad(url.as_str(), "the scheme is neither http nor https")
}

fn bad(text: &str, why: &str) -> String {
    format!("bad URL {:?}: {why}", presentable(text))
}

/// The text without query, fragment and user-info, and not too much of it.
fn presentable(text: &str) -> String {
    const MOST: usize = 200;
    let end = text.find(['?', '#']).unwrap_or(text.len());
    let (text, rest) = text.split_at(end);
    let authority = text.find("://").map_or(0, |end| end + 3);
    let (scheme, after_scheme) = text.split_at(authority);
    let shown = if let Some((_, after)) = after_scheme.rsplit_once('@') {
        format!("{scheme}...@{after}")
    } else if rest.contains('@') && !after_scheme.contains('/') {
        // A password with a `?` or `#` in it that should have been encoded: what looks like host and port is its beginning.
        format!("{scheme}...")
    } else {
        text.to_owned()
    };
    shown.chars().take(MOST).collect()
}
