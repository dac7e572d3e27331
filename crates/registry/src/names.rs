//! Names of repositories and tags. What is parsed here can stand in a URL without escaping.

use net::parse_url;
use url::Url;

use crate::Error;

/// The longest name of a repository.
const LONGEST_NAME: usize = 255;
/// The longest tag.
const LONGEST_TAG: usize = 128;
/// The host that people write for Docker Hub, and the host of its registry.
const DOCKER_HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// A repository of a registry: `oci://host/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// Scheme, host and port, with an empty path.
    origin: Url,
    /// Host and port as they were written.
    host: String,
    name: String,
}

impl Repository {
    /// Parses a URL as Flux writes it. With `insecure` the registry is reached without TLS.
    pub fn parse(text: &str, insecure: bool) -> Result<Self, Error> {
        let invalid = |because| Error::InvalidUrl { because };
        let rest = text.strip_prefix("oci://");
        let rest = rest.ok_or_else(|| invalid("it does not start with oci://"))?;
        let (host, name) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_repository_name(name) {
            return Err(invalid(
                "it has no repository name such as team/app, without a tag",
            ));
        }
        let scheme = if insecure { "http" } else { "https" };
        let reached = match host {
            host if host == DOCKER_HUB.0 => DOCKER_HUB.1,
            host => host,
        };
        let origin = parse_url(&format!("{scheme}://{reached}/")).map_err(invalid)?;
        if !origin.username().is_empty() || origin.password().is_some() {
            return Err(invalid("it has credentials; write them into the Secret"));
        }
        Ok(Self {
            origin,
            host: host.to_ascii_lowercase(),
            name: name.to_owned(),
        })
    }

    /// Host and port as they were written, which credentials are chosen by.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The name without the host.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The host that is connected to, without the port.
    pub(crate) fn reached_host(&self) -> &str {
        self.origin.host_str().unwrap_or_default()
    }

    /// Whether it is reached without TLS.
    pub(crate) fn is_insecure(&self) -> bool {
        self.origin.scheme() == "http"
    }

    /// The URL of a manifest.
    pub(crate) fn manifest_url(&self, reference: &str) -> Url {
        let mut url = self.origin.clone();
        url.set_path(&format!("/v2/{}/manifests/{reference}", self.name));
        url
    }
}

/// Parts of lower-case letters and digits, with `.`, `_` and `-` between them.
fn is_repository_name(name: &str) -> bool {
    let is_inner = |byte: u8| is_name_byte(byte) || b"._-".contains(&byte);
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter()
            .all(|end| end.is_some_and(|byte| is_name_byte(*byte)))
            && part.bytes().all(is_inner)
    };
    name.len() <= LONGEST_NAME && name.split('/').all(is_part)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// A tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag(String);

impl Tag {
    /// Parses a tag.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_inner = |byte: u8| is_word(byte) || b".-".contains(&byte);
        let is_valid = text.len() <= LONGEST_TAG
            && text.bytes().next().is_some_and(is_word)
            && text.bytes().all(is_inner);
        match is_valid {
            true => Ok(Self(text.to_owned())),
            false => Err(Error::InvalidTag {
                text: text.chars().take(LONGEST_TAG).collect(),
            }),
        }
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_written_as_flux_writes_them() {
        for (text, insecure, expected) in [
            (
                "oci://ghcr.io/acme/shop",
                false,
                "https://ghcr.io/v2/acme/shop/manifests/x",
            ),
            (
                "oci://GHCR.io/acme/shop",
                false,
                "https://ghcr.io/v2/acme/shop/manifests/x",
            ),
            (
                "oci://docker.io/acme/shop",
                false,
                "https://registry-1.docker.io/v2/acme/shop/manifests/x",
            ),
            (
                "oci://localhost:5000/a_b/c--d.e",
                true,
                "http://localhost:5000/v2/a_b/c--d.e/manifests/x",
            ),
        ] {
            let repository = Repository::parse(text, insecure).expect(text);
            assert_eq!(repository.manifest_url("x").as_str(), expected);
        }
        for text in [
            "https://ghcr.io/acme/shop",
            "oci://ghcr.io",
            "oci://ghcr.io/",
            "oci://ghcr.io/Acme",
            "oci://ghcr.io/acme/shop:1.0",
            "oci://ghcr.io/acme/shop@sha256:ab",
            "oci://ghcr.io/acme//shop",
            "oci://ghcr.io/acme/../shop",
            "oci://ghcr.io/acme/shop?x=y",
            "oci://joe:secret@ghcr.io/acme/shop",
            "oci://ghcr.io%2fevil/acme",
            "oci:///acme",
        ] {
            assert!(Repository::parse(text, false).is_err(), "{text}");
        }
    }

    #[test]
    fn tags_have_no_special_characters() {
        for tag in ["latest", "_x", "1.2.0-rc.1", &"x".repeat(128)] {
            assert_eq!(Tag::parse(tag).expect(tag).as_str(), tag);
        }
        for tag in [
            "",
            ".x",
            "-x",
            "a/b",
            "a:b",
            "1.2.0+build",
            &"x".repeat(129),
        ] {
            assert!(Tag::parse(tag).is_err(), "{tag}");
        }
    }
}
