//! Chooses the value for a marked scalar: version, digest or commit.

use std::borrow::Cow;

use super::{
    Error,
    document::{PathSegment, Scalar},
};
use crate::{
    manifest::{COMMIT_UNKNOWN, DIGEST_UNKNOWN, NOT_A_TAG, PinnedVersion},
    names::ObjectId,
};

/// The value for a marked scalar, by its key and its current value.
pub(super) fn value_for<'a>(
    scalar: &Scalar,
    pin: &'a PinnedVersion,
) -> Result<Cow<'a, str>, Error> {
    let unsettable = |because| Error::Unsettable {
        line: scalar.line,
        because,
    };
    let digest = || pin.digest.as_deref().ok_or(unsettable(DIGEST_UNKNOWN));
    let key = match scalar.path.segments.last() {
        Some(PathSegment::Key(key)) => key.as_str(),
        _ => "",
    };
    match key {
        "digest" => digest().map(Cow::Borrowed),
        "commit" if pin.commit().is_some() || ObjectId::new(&*scalar.value).is_ok() => {
            let commit = pin.commit().ok_or(unsettable(COMMIT_UNKNOWN))?;
            Ok(Cow::Borrowed(commit))
        }
        _ if is_digest(&scalar.value) => digest().map(Cow::Borrowed),
        _ => Ok(match (&pin.digest, scalar.value.split_once('@')) {
            (Some(digest), Some((_, old))) if is_digest(old) && !pin.is_digest() => {
                Cow::Owned(format!("{}@{digest}", pin.version))
            }
            _ if pin.is_digest() && ["tag", "newTag", "semver"].contains(&key) => {
                return Err(unsettable(NOT_A_TAG));
            }
            _ => Cow::Borrowed(&pin.version),
        }),
    }
}

/// `sha256:…` and the like.
fn is_digest(value: &str) -> bool {
    let is_hex = |digest: &str| digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    value.split_once(':').is_some_and(|(algorithm, digest)| {
        ["sha256", "sha384", "sha512"].contains(&algorithm) && !digest.is_empty() && is_hex(digest)
    })
}

#[cfg(test)]
mod tests {
    use super::super::set_marked_to;
    use super::*;

    const MARKER: &str = "team:app:prod";

    /// Checks the line after setting this version, digest and commit; empty if it is refused.
    #[track_caller]
    fn check(line: &str, (version, digest, commit): (&str, &str, &str), expected: &str) {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let pin = PinnedVersion {
            version: version.to_owned(),
            digest: given(digest),
            commit: given(commit),
        };
        let marked = |line: &str| format!("{line} # {{\"$promotion\": \"{MARKER}\"}}\n");
        let edited = set_marked_to(marked(line).as_bytes(), MARKER, &pin);
        let expected = match expected {
            "" => Err("UneditableFile"),
            line => Ok(marked(line)),
        };
        let edited = edited.map(|edited| String::from_utf8(edited.content).unwrap());
        assert_eq!(edited.map_err(|error| error.reason()), expected, "{line}");
    }

    #[test]
    fn a_digest_replaces_a_digest() {
        let tagged = ("latest", "sha256:bb", "");
        check("digest: sha256:aa", tagged, "digest: sha256:bb");
        // Older versions of Sluice wrote the tag there.
        check("digest: latest", tagged, "digest: sha256:bb");
        check("image: sha256:aa", tagged, "image: sha256:bb");
        check("tag: stable", tagged, "tag: latest");
        check("tag: v1@sha256:aa", tagged, "tag: latest@sha256:bb");
        check("tag: main@sha1:aa", tagged, "tag: latest");
        let untagged = ("sha256:bb", "sha256:bb", "");
        check("image: v1@sha256:aa", untagged, "image: sha256:bb");
        check("digest: sha256:aa", untagged, "digest: sha256:bb");
        check("tag: stable", untagged, "");
        check("version: x", untagged, "version: sha256:bb");
        let version = ("1.1.0", "", "");
        check("digest: sha256:aa", version, "");
        check("version: 1.0.0", version, "version: 1.1.0");
        check("tag: v1@sha256:aa", version, "tag: 1.1.0");
    }

    #[test]
    fn a_commit_replaces_a_commit() {
        let (old, new) = ("a".repeat(40), "b".repeat(40));
        let expected = format!("commit: {new}");
        check(&format!("commit: {old}"), ("v1", "", &new), &expected);
        check(&format!("commit: {old}"), (&new, "", ""), &expected);
        check(&format!("commit: {old}"), ("v1", "", ""), "");
        check("tag: v0", ("v1", "", &new), "tag: v1");
        // Where a version is written instead of a commit, it stays one.
        check("commit: v0", ("v1", "", ""), "commit: v1");
    }
}
