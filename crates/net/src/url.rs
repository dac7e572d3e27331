//! Parses URLs and refuses those that different programs parse differently.
//!
//! curl, ssh, hyper and the `url` crate disagree about backslashes, percent signs and missing slashes:
//! what is the host to one of them is a user or a path to another. Such URLs are refused, so that the
//! host that was checked is the host that is connected to. Use the URL that is returned, never the text
//! it was parsed from.

use url::{Host, Url};

/// The longest URL that is accepted.
const MAX_LENGTH: usize = 2048;

/// Parses a URL. The error is the rule that it breaks and never contains the URL.
pub fn parse_url(text: &str) -> Result<Url, &'static str> {
    parse_with(text, |authority| authority)
}

/// Parses a URL whose user name and password may be percent-encoded, such as a proxy's.
pub fn parse_url_with_login(text: &str) -> Result<Url, &'static str> {
    parse_with(text, |authority| {
        authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host)
    })
}

/// Parses a URL. `unencoded_part` selects the part of the authority that must not have percent signs.
fn parse_with(text: &str, unencoded_part: fn(&str) -> &str) -> Result<Url, &'static str> {
    if text.len() > MAX_LENGTH || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("it is too long or has white space or control characters");
    }
    if text.contains('\\') {
        return Err("it has a backslash");
    }
    let (scheme, rest) = text.split_once("://").ok_or("it is not a URL")?;
    let url = Url::parse(text).map_err(|_| "it is not a URL")?;
    if !scheme.eq_ignore_ascii_case(url.scheme()) {
        return Err("it is not a URL");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() && url.scheme() != "file" {
        return Err("it has no host");
    }
    if unencoded_part(authority).contains('%') {
        return Err("it has a percent sign before its path");
    }
    if authority.matches('@').count() > 1 {
        return Err("it has more than one @ before its path");
    }
    match url.host() {
        Some(Host::Domain(name)) if !is_plain_name(name) => {
            Err("its host is not a plain name; write international names in punycode")
        }
        _ => Ok(url),
    }
}

/// Whether a user or host name has no character with a special meaning to ssh, curl or a shell.
pub fn is_plain_name(part: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !part.starts_with('-') && part.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_programs_parse_differently_are_refused() {
        for text in [
            r"https://127.0.0.2\@127.0.0.1:29443/a/b",
            r"https://example.com\@127.0.0.1/a/b",
            r"https:\\example.com/a://b",
            r"https://example.com/a\b",
            "https://example.com%2f@127.0.0.1/a/b",
            "https://example%2ecom/a/b",
            "ssh://git@example.com%2f127.0.0.1/a/b",
            "ssh://git%40127.0.0.1@example.com/a/b",
            "ssh://a@b@example.com/a/b",
            "ssh://git@exa$(id)mple.com/a/b",
            "ssh://git@exa'mple.com/a/b",
            "ssh://git@bücher.example/a/b",
            "https:example.com/a://b",
            "https:///example.com/a/b",
            "https://exam\tple.com/a/b",
            "https://exam\u{7f}ple.com/a/b",
            "https://example.com/a\n/b",
            "https://*/a/b",
        ] {
            assert!(parse_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn other_urls_are_normalised() {
        for (text, expected) in [
            ("HTTPS://Example.COM:443/a/b", "https://example.com/a/b"),
            (
                "https://bücher.example/ä",
                "https://xn--bcher-kva.example/%C3%A4",
            ),
            ("https://2130706433/a", "https://127.0.0.1/a"),
            (
                "https://example.com/a/../b%20c",
                "https://example.com/b%20c",
            ),
            ("https://[0:0:0:0:0:0:0:1]/a", "https://[::1]/a"),
            ("ssh://git@example.com:22/a", "ssh://git@example.com:22/a"),
            (
                "http://svc.ns.svc.cluster.local./",
                "http://svc.ns.svc.cluster.local./",
            ),
            ("https://my_host/a", "https://my_host/a"),
            ("file:///tmp/a", "file:///tmp/a"),
        ] {
            assert_eq!(parse_url(text).map(String::from), Ok(expected.to_owned()));
        }
    }

    #[test]
    fn only_a_login_may_be_percent_encoded() {
        let proxy = "http://user:p%40ss@proxy.example:3128";
        assert!(parse_url(proxy).is_err());
        let parsed = parse_url_with_login(proxy).map(String::from);
        assert_eq!(parsed, Ok(format!("{proxy}/")));
        assert!(parse_url_with_login("http://user:pass@proxy%2eexample:3128").is_err());
    }
}
