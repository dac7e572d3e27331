//! Revisions: what is compared between environments, and Flux's way of writing them.
//!
//! Parsing a revision never fails; text in no known form is a reference without a commit.

mod identity;

use std::fmt;

pub use identity::{identity, is_digest, shown, tag};
pub(crate) use identity::{stored, stored_list, stored_option};

/// The longest revision that is dealt with, in characters. Objects that hold one are bounded too.
pub const MAX_LENGTH: usize = 256;

/// What an app runs, as it is compared between environments: the digest of content that has one.
/// Never empty, never long, printable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(String);

impl Revision {
    /// The revision that the text names; nothing when it is blank, too long or not printable.
    pub fn new(text: &str) -> Option<Self> {
        is_usable(text).then(|| Self(identity(text).to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(&self.0)
    }
}

impl From<Revision> for String {
    fn from(revision: Revision) -> Self {
        revision.0
    }
}

/// Whether a text can name a revision: not blank, not too long, printable.
pub fn is_usable(text: &str) -> bool {
    !text.trim().is_empty()
        && text.chars().count() <= MAX_LENGTH
        && !text.chars().any(char::is_control)
}

/// A Flux source's revision taken apart: `main@sha1:c0ffee…`, `refs/tags/v1@sha1:…`, `sha256:…`,
/// and the older `main/c0ffee…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRevision {
    reference: Option<String>,
    algorithm: Option<String>,
    commit: Option<String>,
}

impl SourceRevision {
    /// Takes a revision apart.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let parts = if text.contains(':') {
            split_digest(text)
        } else {
            split_hex(text)
        };
        match parts {
            Some((reference, algorithm, commit)) => Self {
                reference: (!reference.is_empty()).then(|| reference.to_owned()),
                algorithm: Some(algorithm.to_owned()),
                commit: Some(commit.to_owned()),
            },
            None => Self {
                reference: (!text.is_empty()).then(|| text.to_owned()),
                algorithm: None,
                commit: None,
            },
        }
    }

    /// The branch, tag or full reference name.
    pub fn reference(&self) -> Option<&str> {
        self.reference.as_deref()
    }

    /// The commit or content digest, without its algorithm.
    pub fn commit(&self) -> Option<&str> {
        self.commit.as_deref()
    }

    /// The commit or content digest with its algorithm, as in `sha256:…`.
    pub fn digest(&self) -> Option<String> {
        Some(format!(
            "{}:{}",
            self.algorithm.as_ref()?,
            self.commit.as_ref()?
        ))
    }

    /// The digest of the content with its algorithm; nothing for a git commit.
    pub fn content_digest(&self) -> Option<String> {
        self.digest().filter(|digest| is_digest(digest))
    }

    /// The branch, if the reference is surely one.
    pub fn branch(&self) -> Option<&str> {
        let reference = self.reference()?;
        match reference.strip_prefix("refs/heads/") {
            Some(branch) => Some(branch),
            None => (!reference.starts_with("refs/") && self.tag().is_none()).then_some(reference),
        }
    }

    /// The tag, if the reference is surely one. A short name does not say whether it is a branch
    /// or a tag, so only one that reads like a version counts.
    pub fn tag(&self) -> Option<&str> {
        let reference = self.reference()?;
        match reference.strip_prefix("refs/tags/") {
            Some(tag) => Some(tag),
            None => reads_like_version(reference).then_some(reference),
        }
    }

    /// What to write into a git source to get this revision: the tag, else the commit.
    pub fn git_version(&self) -> Option<&str> {
        self.tag().or(self.commit()).or(self.reference())
    }

    /// What to write to get this revision where nobody says what it is a revision of: content that
    /// has a digest is in a registry, everything else in git.
    pub fn version(&self) -> Option<String> {
        match self.content_digest() {
            Some(_) => self.oci_version(),
            None => self.git_version().map(str::to_owned),
        }
    }

    /// What to write into an OCI source to get this revision: the tag, else the digest.
    pub fn oci_version(&self) -> Option<String> {
        self.reference()
            .map(str::to_owned)
            .or_else(|| self.digest())
    }
}

/// The form Flux uses today, whatever form was read.
impl fmt::Display for SourceRevision {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reference(), self.digest()) {
            (Some(reference), Some(digest)) => write!(text, "{reference}@{digest}"),
            (None, Some(digest)) => text.write_str(&digest),
            (reference, None) => text.write_str(reference.unwrap_or_default()),
        }
    }
}

/// `reference@algorithm:digest`. The reference may itself hold an `@`.
fn split_digest(text: &str) -> Option<(&str, &str, &str)> {
    let (reference, digest) = text.rsplit_once('@').unwrap_or(("", text));
    let (algorithm, commit) = digest.split_once(':')?;
    let is_algorithm = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_digest = |c: char| c.is_ascii_alphanumeric() || "=_-".contains(c);
    let fits = !algorithm.is_empty()
        && algorithm.chars().all(is_algorithm)
        && !commit.is_empty()
        && commit.chars().all(is_digest);
    fits.then_some((reference, algorithm, commit))
}

/// `reference/hex`, or the hex digits alone, as Flux wrote it before 2023.
fn split_hex(text: &str) -> Option<(&str, &str, &str)> {
    let (reference, commit) = text.rsplit_once('/').unwrap_or(("", text));
    let algorithm = match commit.len() {
        40 => "sha1",
        64 => "sha256",
        _ => return None,
    };
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let reference = if reference == "HEAD" { "" } else { reference };
    commit
        .chars()
        .all(is_hex)
        .then_some((reference, algorithm, commit))
}

/// `1.2.3`, `v1.2.3-rc.1`, `name@v1.2.3`.
pub fn reads_like_version(reference: &str) -> bool {
    let version = reference.rsplit('@').next().unwrap_or(reference);
    let version = version.strip_prefix('v').unwrap_or(version);
    let core = version.split(['-', '+']).next().unwrap_or(version);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    core.split('.').count() == 3 && core.split('.').all(is_number)
}

/// Removes what Flux appends to the version of a chart that comes from an OCI repository: `+` and
/// the first twelve digits of the artifact's digest. With the digest known, only that is removed;
/// otherwise anything of that form.
pub fn without_oci_digest<'a>(chart_version: &'a str, digest: Option<&str>) -> &'a str {
    let Some((version, suffix)) = chart_version.rsplit_once('+') else {
        return chart_version;
    };
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let has_form = suffix.len() == 12 && suffix.chars().all(is_hex);
    let hex = digest.map(|digest| digest.rsplit(':').next().unwrap_or(digest));
    let belongs = hex.is_none_or(|hex| hex.starts_with(suffix));
    if has_form && belongs {
        version
    } else {
        chart_version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA1: &str = "5394cb7f48332b2de7c17dd8b8384bbc84b7e738";
    const SHA256: &str = "55609ff9d959589ed917ce32e6bc0f0a36809565f308602c15c3668965979edc";

    /// `$1` and `$2` stand for a short and a long digest.
    #[track_caller]
    fn check(text: &str, reference: &str, commit: &str, today: &str) {
        let fill = |text: &str| text.replace("$1", SHA1).replace("$2", SHA256);
        let revision = SourceRevision::parse(&fill(text));
        assert_eq!(
            revision.reference().unwrap_or("-"),
            fill(reference),
            "reference of {text}"
        );
        assert_eq!(
            revision.commit().unwrap_or("-"),
            fill(commit),
            "commit of {text}"
        );
        assert_eq!(revision.to_string(), fill(today), "today's form of {text}");
    }

    #[test]
    fn takes_todays_forms_apart() {
        check("main@sha1:$1", "main", "$1", "main@sha1:$1");
        check("feature/x@sha1:$1", "feature/x", "$1", "feature/x@sha1:$1");
        check(
            "refs/heads/main@sha1:$1",
            "refs/heads/main",
            "$1",
            "refs/heads/main@sha1:$1",
        );
        check(
            "refs/pull/420/head@sha1:$1",
            "refs/pull/420/head",
            "$1",
            "refs/pull/420/head@sha1:$1",
        );
        check(
            "pkg@v1.0.0@sha256:$2",
            "pkg@v1.0.0",
            "$2",
            "pkg@v1.0.0@sha256:$2",
        );
        check("sha1:$1", "-", "$1", "sha1:$1");
        check("main@sha1:abc123", "main", "abc123", "main@sha1:abc123");
        check("@sha1:$1", "-", "$1", "sha1:$1");
    }

    #[test]
    fn takes_older_forms_apart() {
        check("main/$1", "main", "$1", "main@sha1:$1");
        check("feature/x/$1", "feature/x", "$1", "feature/x@sha1:$1");
        check("HEAD/$1", "-", "$1", "sha1:$1");
        check("v1/$2", "v1", "$2", "v1@sha256:$2");
        check("$1", "-", "$1", "sha1:$1");
        check("$2", "-", "$2", "sha256:$2");
    }

    #[test]
    fn takes_anything_else_as_a_reference() {
        check("", "-", "-", "");
        check("6.5.0", "6.5.0", "-", "6.5.0");
        check(
            "main/5394CB7F48332B2DE7C17DD8B8384BBC84B7E738",
            "main/5394CB7F48332B2DE7C17DD8B8384BBC84B7E738",
            "-",
            "main/5394CB7F48332B2DE7C17DD8B8384BBC84B7E738",
        );
        check("main/abc123", "main/abc123", "-", "main/abc123");
        check("host:5000/x", "host:5000/x", "-", "host:5000/x");
        check("main@sha1:", "main@sha1:", "-", "main@sha1:");
        check(":", ":", "-", ":");
        check("@", "@", "-", "@");
        check("ä@sha1:ö", "ä@sha1:ö", "-", "ä@sha1:ö");
    }

    #[track_caller]
    fn check_version(text: &str, branch: Option<&str>, git: &str, oci: &str) {
        let revision = SourceRevision::parse(&text.replace("$1", SHA1));
        assert_eq!(revision.branch(), branch, "branch of {text}");
        assert_eq!(
            revision.git_version().unwrap_or("-"),
            git.replace("$1", SHA1),
            "git version of {text}"
        );
        assert_eq!(
            revision.oci_version().unwrap_or("-".into()),
            oci.replace("$1", SHA1),
            "oci version of {text}"
        );
    }

    #[test]
    fn knows_what_to_write_to_git() {
        check_version("main@sha1:$1", Some("main"), "$1", "main");
        check_version(
            "release/1.2.3@sha1:$1",
            Some("release/1.2.3"),
            "$1",
            "release/1.2.3",
        );
        check_version("v1.2@sha1:$1", Some("v1.2"), "$1", "v1.2");
        check_version("v1.2.3@sha1:$1", None, "v1.2.3", "v1.2.3");
        check_version("1.2.3-rc.1+b@sha1:$1", None, "1.2.3-rc.1+b", "1.2.3-rc.1+b");
        check_version("pkg@v1.0.0@sha1:$1", None, "pkg@v1.0.0", "pkg@v1.0.0");
        check_version(
            "refs/tags/stable@sha1:$1",
            None,
            "stable",
            "refs/tags/stable",
        );
        check_version(
            "refs/heads/main@sha1:$1",
            Some("main"),
            "$1",
            "refs/heads/main",
        );
        check_version("refs/pull/1/head@sha1:$1", None, "$1", "refs/pull/1/head");
        check_version("sha1:$1", None, "$1", "sha1:$1");
        check_version("6.5.0", None, "6.5.0", "6.5.0");
        check_version("", None, "-", "-");
    }

    #[test]
    fn removes_only_what_flux_appended() {
        let digest = Some("sha256:0123456789abcdef0123");
        assert_eq!(without_oci_digest("6.5.0+0123456789ab", digest), "6.5.0");
        assert_eq!(without_oci_digest("6.5.0+0123456789ab", None), "6.5.0");
        assert_eq!(
            without_oci_digest("6.5.0-rc.1+0123456789ab", None),
            "6.5.0-rc.1"
        );
        assert_eq!(
            without_oci_digest("6.5.0+ffffffffffff", digest),
            "6.5.0+ffffffffffff"
        );
        assert_eq!(without_oci_digest("6.5.0+build.7", None), "6.5.0+build.7");
        assert_eq!(
            without_oci_digest("6.5.0+0123456789AB", None),
            "6.5.0+0123456789AB"
        );
        assert_eq!(without_oci_digest("6.5.0", digest), "6.5.0");
    }

    #[test]
    fn a_revision_is_short_printable_and_never_empty() {
        assert_eq!(Revision::new(&"x".repeat(257)), None);
        assert_eq!(Revision::new("6.5\u{7}"), None);
        assert_eq!(Revision::new(&"ü".repeat(256)).unwrap().as_str().len(), 512);
        assert_eq!(Revision::new(""), None);
        assert_eq!(Revision::new(" \n"), None);
        assert_eq!(Revision::new("6.5.0").unwrap().as_str(), "6.5.0");
    }
}
