//! What a source follows, in words that are equal exactly when two sources change together.

use serde_json::Value;

use super::{BucketSpec, GitReference, GitRepositorySpec, OCIReference, OCIRepositorySpec};
use crate::{revision::reads_like_version, third_party::read};

/// What a status has room for.
const LONGEST: usize = 2304;
const LONGEST_ADDRESS: usize = 2048;

/// The address and reference of a source of this kind, without credentials. Nothing for other kinds,
/// for a source without an address, and for one that stays where it is: at a commit, a digest, a git
/// tag, or a tag of a registry that is a version.
pub fn followed(kind: &str, spec: &Value) -> Option<String> {
    let text = match kind {
        "GitRepository" => {
            let spec: GitRepositorySpec = read(spec);
            format!("{} ({})", address(&spec.url?), git(&spec.reference)?)
        }
        "OCIRepository" => {
            let spec: OCIRepositorySpec = read(spec);
            format!("{} ({})", address(&spec.url?), oci(&spec.reference)?)
        }
        "Bucket" => {
            let spec: BucketSpec = read(spec);
            format!("{}/{}", spec.endpoint?, spec.bucket_name?)
        }
        _ => return None,
    };
    (text.len() <= LONGEST).then_some(text)
}

/// Whether what is followed is a tag. It need not ever move.
pub fn is_tag(followed: &str) -> bool {
    let reference = followed.rsplit_once(" (").map(|(_, reference)| reference);
    reference.is_some_and(|reference| reference.starts_with("tag "))
}

/// Whether what is followed is a range of versions, of which the newest wins.
pub fn is_range(followed: &str) -> bool {
    let reference = followed.rsplit_once(" (").map(|(_, reference)| reference);
    reference.is_some_and(|reference| reference.starts_with("semver "))
}

/// The address of a git repository that Flux fetches, without credentials.
pub fn git_address(kind: &str, spec: &Value) -> Option<String> {
    let spec: GitRepositorySpec = read(spec);
    let url = spec.url.filter(|_| kind == "GitRepository")?;
    Some(address(&url)).filter(|address| address.len() <= LONGEST_ADDRESS)
}

/// What moves; nothing where nothing does. The first reference that is given counts.
fn git(reference: &GitReference) -> Option<String> {
    let given = [
        ("commit", &reference.commit),
        ("ref", &reference.name),
        ("semver", &reference.semver),
        ("tag", &reference.tag),
        ("branch", &reference.branch),
    ];
    match first(&given) {
        Some(("commit" | "tag", _)) => None,
        Some(("ref", name)) if name.starts_with("refs/tags/") => None,
        Some((word, value)) => Some(format!("{word} {value}")),
        None => Some("branch master".to_owned()),
    }
}

/// The same for a registry, where tags may be set anew.
fn oci(reference: &OCIReference) -> Option<String> {
    let given = [
        ("digest", &reference.digest),
        ("semver", &reference.semver),
        ("tag", &reference.tag),
    ];
    match first(&given) {
        Some(("digest", _)) => None,
        Some(("tag", tag)) if reads_like_version(tag) => None,
        Some((word, value)) => Some(format!("{word} {value}")),
        None => Some("tag latest".to_owned()),
    }
}

fn first<'a>(given: &[(&'a str, &'a Option<String>)]) -> Option<(&'a str, &'a str)> {
    given.iter().find_map(|(word, value)| {
        let value = value.as_deref().filter(|value| !value.is_empty())?;
        Some((*word, value))
    })
}

/// The address without what would let somebody in, nor what makes no difference.
fn address(url: &str) -> String {
    let plain = match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            format!("{scheme}://{host}/{path}")
        }
        None => url.to_owned(),
    };
    let plain = plain.trim_end_matches('/');
    plain.strip_suffix(".git").unwrap_or(plain).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sources_that_change_together_read_the_same() {
        let git = |spec| followed("GitRepository", &spec).unwrap_or_default();
        let table = [
            (
                json!({"url": "https://git.example/fleet.git", "ref": {"branch": "main"}}),
                "https://git.example/fleet (branch main)",
            ),
            (
                json!({"url": "https://joe:secret@git.example/fleet/", "ref": {"branch": "main"}}),
                "https://git.example/fleet (branch main)",
            ),
            (
                json!({"url": "ssh://git@git.example/fleet", "ref": {"branch": "main", "tag": "v1"}}),
                "",
            ),
            (
                json!({"url": "ssh://git@git.example/fleet", "ref": {"name": "refs/tags/v1"}}),
                "",
            ),
            (
                json!({"url": "ssh://git@git.example/fleet", "ref": {"commit": "abc", "semver": "*"}}),
                "",
            ),
            (
                json!({"url": "ssh://git@git.example/fleet", "ref": {"semver": "*", "tag": "v1"}}),
                "ssh://git.example/fleet (semver *)",
            ),
            (
                json!({"url": "https://git.example/fleet"}),
                "https://git.example/fleet (branch master)",
            ),
            (json!({}), ""),
            (
                json!({"url": format!("https://git.example/{}", "x".repeat(3000))}),
                "",
            ),
        ];
        for (spec, expected) in table {
            assert_eq!(git(spec), expected);
        }
        let oci = json!({"url": "oci://registry.example/fleet", "ref": {"semver": ">=1"}});
        assert_eq!(
            followed("OCIRepository", &oci).unwrap(),
            "oci://registry.example/fleet (semver >=1)"
        );
        let oci = |reference| {
            let spec = json!({"url": "oci://registry.example/fleet", "ref": reference});
            followed("OCIRepository", &spec).unwrap_or_default()
        };
        assert_eq!(oci(json!({"tag": "v1.2.3"})), "");
        assert_eq!(oci(json!({"digest": "sha256:a", "tag": "latest"})), "");
        let latest = oci(json!({"tag": "latest"}));
        assert_eq!(latest, "oci://registry.example/fleet (tag latest)");
        assert!(is_tag(&latest) && !is_tag("https://git.example/fleet (branch tag x)"));
        let oci = json!({"url": "oci://registry.example/fleet", "ref": {"semver": ">=1"}});
        let bucket = json!({"endpoint": "minio.example", "bucketName": "fleet"});
        assert_eq!(followed("Bucket", &bucket).unwrap(), "minio.example/fleet");
        assert_eq!(followed("HelmChart", &oci), None);
        let git = json!({"url": "https://joe:secret@git.example/fleet.git"});
        let address = git_address("GitRepository", &git);
        assert_eq!(address.unwrap(), "https://git.example/fleet");
        assert_eq!(git_address("OCIRepository", &oci), None);
    }
}
