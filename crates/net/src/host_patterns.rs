//! Which hosts requests may go to, as a list of patterns: `prometheus.monitoring`, `*.example.com`,
//! `10.0.0.5:9090`.
//!
//! A `*` stands for one or more characters. A pattern without a port allows every port. An empty list allows
//! nothing.

use url::Url;

/// A list of patterns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPatterns(Vec<String>);

/// The text is no pattern of a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a pattern of a host such as *.example.com or prometheus.monitoring:9090")]
pub struct InvalidHostPattern(String);

impl HostPatterns {
    /// Checks each pattern.
    pub fn parse<'a>(
        patterns: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, InvalidHostPattern> {
        let parsed = patterns.into_iter().map(|text| {
            let text = text.trim();
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-*:[]".contains(c);
            match !text.is_empty() && text.chars().all(is_plain) {
                true => Ok(text.to_ascii_lowercase()),
                false => Err(InvalidHostPattern(text.to_owned())),
            }
        });
        parsed.collect::<Result<_, _>>().map(Self)
    }

    /// Whether no host is allowed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether requests may go to the host and port of the URL.
    pub fn allow(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
        let host = host.trim_end_matches('.');
        let port = url.port_or_known_default().unwrap_or_default();
        let with_port = format!("{host}:{port}");
        let allows = |pattern: &String| matches(pattern, host) || matches(pattern, &with_port);
        !host.is_empty() && self.0.iter().any(allows)
    }
}

/// Whether a text is of the pattern.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(start) else {
        return false;
    };
    // A port is not a part of the host that `*` stands for.
    let last = text.find(':').unwrap_or(text.len());
    (1..=last)
        .filter(|end| text.is_char_boundary(*end))
        .any(|end| matches(rest, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(patterns: &[&str], url: &str) -> bool {
        let patterns = HostPatterns::parse(patterns.iter().copied()).expect("patterns");
        patterns.allow(&Url::parse(url).expect("a URL"))
    }

    #[test]
    fn hosts_are_compared_with_patterns() {
        for (pattern, url, expected) in [
            ("example.com", "https://example.com/a", true),
            ("Example.com", "https://EXAMPLE.com./a", true),
            ("example.com", "https://shop.example.com/", false),
            ("example.com", "https://example.com.evil.test/", false),
            ("*.example.com", "https://shop.example.com/", true),
            ("*.example.com", "https://a.b.example.com/", true),
            ("*.example.com", "https://example.com/", false),
            ("*.example.com", "https://.example.com.evil.test/", false),
            ("*.example.com", "https://evil.test/?x=.example.com", false),
            ("shop-*.example.com", "https://shop-prod.example.com/", true),
            ("shop-*.example.com", "https://shop-.example.com/", false),
            ("127.0.0.1", "http://127.0.0.1:9090/", true),
            ("127.0.0.1:9090", "http://127.0.0.1:9090/", true),
            ("127.0.0.1:9090", "http://127.0.0.1:9091/", false),
            ("example.com:443", "https://example.com/", true),
            ("*:443", "https://example.com:8443/", false),
            ("*", "https://example.com:8443/", true),
            ("[::1]", "http://[::1]:80/", true),
        ] {
            assert_eq!(allowed(&[pattern], url), expected, "{pattern} {url}");
        }
        assert!(!allowed(&[], "https://example.com/"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in [
            "",
            "https://example.com",
            "example.com/path",
            "a b",
            "a,b",
            "a@b",
        ] {
            assert!(HostPatterns::parse([text]).is_err(), "{text}");
        }
    }
}
