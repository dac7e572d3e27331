//! Parses `WWW-Authenticate`: how a registry wants requests to be authenticated.

use http::{HeaderMap, header::WWW_AUTHENTICATE};

/// How to authenticate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User name and password with each request.
    Basic,
    /// A token of this service.
    Bearer {
        realm: String,
        service: Option<String>,
    },
}

impl Challenge {
    /// The challenge in the headers of an answer; a token where there is a choice.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter();
        let all: Vec<Self> = values
            .filter_map(|value| Self::parse(value.to_str().ok()?))
            .collect();
        let bearer = all.iter().find(|it| matches!(it, Self::Bearer { .. }));
        bearer.or(all.first()).cloned()
    }

    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let parameters = parameters(rest);
        let find = |name: &str| {
            let found = parameters
                .iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone())
        };
        Some(Self::Bearer {
            realm: find("realm")?,
            service: find("service"),
        })
    }
}

/// `name="value"` pairs separated by commas; a quoted value may have commas itself.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', ',', '\t']).to_owned();
        let (value, after) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.push((name, value.trim().to_owned()));
        rest = after;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_of_known_registries_are_understood() {
        let bearer = |realm: &str, service: Option<&str>| Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
        };
        for (text, expected) in [
            (
                r#"Bearer realm="https://ghcr.io/token",service="ghcr.io",scope="repository:a/b:pull,push""#,
                Some(bearer("https://ghcr.io/token", Some("ghcr.io"))),
            ),
            (
                r#"bearer  scope="a,b", realm="https://x/""#,
                Some(bearer("https://x/", None)),
            ),
            (
                "Bearer realm=https://x/t,service=s",
                Some(bearer("https://x/t", Some("s"))),
            ),
            (r#"Basic realm="Registry""#, Some(Challenge::Basic)),
            ("Basic", Some(Challenge::Basic)),
            (r#"Bearer service="no realm""#, None),
            ("Negotiate", None),
            ("", None),
        ] {
            assert_eq!(Challenge::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn a_token_is_preferred() {
        let mut headers = HeaderMap::new();
        for value in ["Basic realm=\"x\"", "Bearer realm=\"https://x/\""] {
            headers.append(WWW_AUTHENTICATE, value.parse().expect("a header"));
        }
        let chosen = Challenge::from_headers(&headers);
        assert!(matches!(chosen, Some(Challenge::Bearer { .. })));
    }
}
