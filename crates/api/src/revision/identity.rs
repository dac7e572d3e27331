//! Which texts name the same revision.
//!
//! `latest@sha256:D`, `1.2.0@sha256:D` and `sha256:D` are one revision: the digest of the content.
//! Everything that is compared or stored holds that digest; the tag is kept beside it as the
//! version. A commit (`main@sha1:…`) is not such a digest.

use serde::{Deserialize, Deserializer};

/// The algorithms that OCI digests are written with.
const ALGORITHMS: [&str; 4] = ["sha256", "sha384", "sha512", "blake3"];

/// The revision that a text names: the digest where the text has one, else the text itself.
pub fn identity(text: &str) -> &str {
    let digest = text.rsplit_once('@').map_or(text, |(_, digest)| digest);
    if is_digest(digest) { digest } else { text }
}

/// What is written where a tag stands to get the revision that a text names: the tag before the
/// digest, else the text itself.
pub fn tag(text: &str) -> &str {
    match text.rsplit_once('@') {
        Some((tag, digest)) if !tag.is_empty() && is_digest(digest) => tag,
        Some(("", digest)) if is_digest(digest) => digest,
        _ => text,
    }
}

/// Whether a text is nothing but the digest of some content, as in `sha256:…`.
pub fn is_digest(text: &str) -> bool {
    let is_word = |digest: &str| !digest.is_empty() && digest.bytes().all(is_digest_byte);
    text.split_once(':')
        .is_some_and(|(algorithm, digest)| ALGORITHMS.contains(&algorithm) && is_word(digest))
}

fn is_digest_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"=_-".contains(&byte)
}

/// A revision for people: a digest with its version in front, anything else as it is.
pub fn shown(revision: &str, version: Option<&str>) -> String {
    match version {
        Some(version) if is_digest(revision) && !version.is_empty() && version != revision => {
            format!("{version}@{revision}")
        }
        _ => revision.to_owned(),
    }
}

/// Reads a stored revision. Versions of Sluice before digests counted stored Flux's whole text.
pub(crate) fn stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(of)
}

/// The same where there may be none.
pub(crate) fn stored_option<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(of))
}

/// The same for a list without repetitions.
pub(crate) fn stored_list<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    let mut known: Vec<String> = Vec::new();
    for text in Vec::<String>::deserialize(deserializer)? {
        let revision = of(text);
        if !known.contains(&revision) {
            known.push(revision);
        }
    }
    Ok(known)
}

fn of(text: String) -> String {
    match identity(&text) {
        same if same.len() == text.len() => text,
        digest => digest.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{EnvironmentStatus, TargetStatus};

    #[test]
    fn a_digest_is_the_revision_whatever_tag_stands_before_it() {
        for (text, expected) in [
            ("latest@sha256:ab", "sha256:ab"),
            ("1.2.0@sha256:ab", "sha256:ab"),
            ("pkg@v1@sha512:ab", "sha512:ab"),
            ("sha256:ab", "sha256:ab"),
            ("main@sha1:ab", "main@sha1:ab"),
            ("sha1:ab", "sha1:ab"),
            ("6.5.0", "6.5.0"),
            ("6.5.0@sha256:", "6.5.0@sha256:"),
            ("a@sha256:b:c", "a@sha256:b:c"),
            ("host:5000", "host:5000"),
            ("", ""),
        ] {
            assert_eq!(identity(text), expected, "{text}");
        }
    }

    #[test]
    fn a_tag_stands_before_its_digest() {
        for (text, expected) in [
            ("latest@sha256:ab", "latest"),
            ("pkg@v1@sha256:ab", "pkg@v1"),
            ("@sha256:ab", "sha256:ab"),
            ("sha256:ab", "sha256:ab"),
            ("main@sha1:ab", "main@sha1:ab"),
            ("1.2.0", "1.2.0"),
        ] {
            assert_eq!(tag(text), expected);
        }
    }

    #[test]
    fn people_see_the_tag_with_the_digest() {
        for (revision, version, expected) in [
            ("sha256:ab", Some("latest"), "latest@sha256:ab"),
            ("sha256:ab", Some("sha256:ab"), "sha256:ab"),
            ("sha256:ab", None, "sha256:ab"),
            ("main@sha1:ab", Some("ab"), "main@sha1:ab"),
            ("6.5.0", Some("6.5.0"), "6.5.0"),
        ] {
            assert_eq!(shown(revision, version), expected);
        }
    }

    #[test]
    fn statuses_of_the_version_before_are_read() {
        let status = serde_json::json!({
            "targets": [{"revision": "dev@sha256:ab", "failed": "dev@sha256:cd", "ready": true}],
            "ran": ["dev@sha256:ab", "latest@sha256:ab", "main@sha1:ab"],
            "rejected": ["latest@sha256:cd"],
            "waitingApproval": {"revision": "dev@sha256:ab"},
            "promotion": {"name": "x", "revision": "dev@sha256:ab"},
        });
        let status: EnvironmentStatus = serde_json::from_value(status).unwrap();
        let target = &status.targets[0];
        assert_eq!(target.revision.as_deref(), Some("sha256:ab"));
        assert_eq!(target.failed.as_deref(), Some("sha256:cd"));
        let ran: Vec<_> = status.ran_revisions().collect();
        assert_eq!(ran, ["sha256:ab", "main@sha1:ab"]);
        assert_eq!(status.rejected, ["sha256:cd"]);
        assert_eq!(status.waiting_approval.unwrap().revision, "sha256:ab");
        assert_eq!(status.promotion.unwrap().revision, "sha256:ab");
        let nothing: TargetStatus = serde_json::from_str(r#"{"revision": null}"#).unwrap();
        assert_eq!(nothing.revision, None);
    }
}
