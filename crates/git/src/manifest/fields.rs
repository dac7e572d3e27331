//! Where manifests of the kinds we know keep the version of something.

use std::collections::BTreeMap;

use super::images::is_image;
use super::read::{Manifest, join};
use super::walk::{APPLIER, Naming, Walk};
use super::{ManifestIdentity, PinnedVersion};
use crate::edit::document::{Scalar, Step};

/// Group of the sources that others refer to.
const SOURCES: &str = "source.toolkit.fluxcd.io";

/// Where a workload has its containers, by where its pods are described.
const PODS: [&str; 3] = [
    "spec.template.spec",
    "spec.jobTemplate.spec.template.spec",
    "spec",
];

/// How a source may be pinned, the ones that count before others first.
const PINS: [&str; 4] = ["digest", "commit", "semver", "tag"];

pub(crate) const DIGEST_UNKNOWN: &str =
    "it is pinned by a digest, and none is known for the new version";
pub(crate) const NOT_A_TAG: &str = "it is pinned by a tag, and the new version is a digest";
pub(crate) const COMMIT_UNKNOWN: &str =
    "it is pinned by a commit, and none is known for the new version";
const NOT_A_COMMIT: &str = "it is pinned by a version, and the new one is a commit";
const REFERENCE: &str = "it is pinned by the whole name of a reference; use a tag";
const VARIABLE: &str = "its value is a variable or written elsewhere";
const JSON_PATCH: &str = "a list of single operations sets it; use a patch that is a manifest";

/// A field and what is to be written there; or why nothing can be.
pub(super) struct Setting {
    pub(super) line: usize,
    pub(super) outcome: Result<Vec<(usize, String)>, &'static str>,
}

impl Setting {
    fn cannot(line: usize, because: &'static str) -> Self {
        Self {
            line,
            outcome: Err(because),
        }
    }
}

pub(super) fn is(manifest: Manifest<'_>, naming: &Naming, identity: &ManifestIdentity) -> bool {
    let (namespace, name) = naming.of(manifest);
    manifest.kind() == identity.kind
        && manifest.group() == identity.group
        && name == identity.name
        && namespace.is_none_or(|namespace| namespace == identity.namespace)
}

/// Sets the fields that are there, each to its value.
fn set(manifest: Manifest<'_>, fields: &[(String, Option<String>)]) -> Option<Setting> {
    let mut changes = Vec::new();
    let mut line = None;
    for (path, value) in fields {
        if manifest.is_alias(path) {
            return Some(Setting::cannot(0, VARIABLE));
        }
        let Some(scalar) = manifest.scalar(path) else {
            continue;
        };
        line.get_or_insert(scalar.line);
        if scalar.value.contains("${") {
            return Some(Setting::cannot(scalar.line, VARIABLE));
        }
        changes.extend(value.clone().map(|value| (scalar.event, value)));
    }
    let line = line?;
    let is_anything = !changes.is_empty();
    Some(Setting {
        line,
        outcome: is_anything.then_some(changes).ok_or(NOT_A_COMMIT),
    })
}

/// The version of a release's chart, where the release has it.
pub(super) fn release(manifest: Manifest<'_>, pin: &PinnedVersion) -> Option<Setting> {
    let path = "spec.chart.spec.version".to_owned();
    set(manifest, &[(path, Some(pin.version.clone()))])
}

/// What a source is pinned to.
pub(super) fn source(manifest: Manifest<'_>, pin: &PinnedVersion) -> Option<Setting> {
    let is_version = !pin.is_commit() && !pin.is_digest();
    let version = Some(pin.version.clone()).filter(|_| is_version);
    if manifest.kind() == "HelmChart" {
        return set(manifest, &[("spec.version".to_owned(), version)]);
    }
    let path = |field: &str| format!("spec.ref.{field}");
    if let Some(objection) = objection(manifest, pin) {
        let mut lines = PINS
            .iter()
            .filter_map(|field| manifest.scalar(&path(field)));
        let line = lines.next().map_or(0, |scalar| scalar.line);
        return Some(Setting::cannot(line, objection));
    }
    // A tag of a registry has no plus; charts are stored under an underscore in its place.
    let is_registry = manifest.kind() == "OCIRepository";
    let plus = if is_registry { "_" } else { "+" };
    let tag = version.as_ref().map(|tag| tag.replace('+', plus));
    let commit = pin.commit().map(str::to_owned);
    let values = [
        ("digest", pin.digest.clone()),
        ("commit", commit),
        ("semver", version),
        ("tag", tag),
    ];
    set(manifest, &values.map(|(field, value)| (path(field), value)))
}

/// Why a source that is pinned like this cannot be set to that.
fn objection(manifest: Manifest<'_>, pin: &PinnedVersion) -> Option<&'static str> {
    let path = |field: &str| format!("spec.ref.{field}");
    let is_at = |field: &str| manifest.scalar(&path(field)).is_some();
    if PINS.iter().any(|field| manifest.is_alias(&path(field))) {
        return Some(VARIABLE);
    }
    if is_at("digest") {
        return pin.digest.is_none().then_some(DIGEST_UNKNOWN);
    }
    if is_at("commit") {
        return pin.commit().is_none().then_some(COMMIT_UNKNOWN);
    }
    if pin.is_digest() && (is_at("tag") || is_at("semver")) {
        return Some(NOT_A_TAG);
    }
    is_at("name").then_some(REFERENCE)
}

/// The source that a manifest refers to.
pub(super) fn referred(walk: &Walk<'_>, identity: &ManifestIdentity) -> Option<ManifestIdentity> {
    let ours = walk
        .manifests()
        .filter(|(reached, manifest)| is(*manifest, &reached.naming, identity));
    ours.into_iter().find_map(|(_, manifest)| {
        let mut places = ["spec.chartRef", "spec.sourceRef"].into_iter();
        places.find_map(|place| {
            let text = |field: &str| manifest.text(&format!("{place}.{field}"));
            Some(ManifestIdentity {
                group: SOURCES.to_owned(),
                kind: text("kind")?.to_owned(),
                namespace: text("namespace").unwrap_or(&identity.namespace).to_owned(),
                name: text("name")?.to_owned(),
            })
        })
    })
}

/// The entries for an image in a list that replaces images: Kustomize's own, or that of who applies
/// it. By the name it has before or after.
pub(super) fn replacement(
    manifest: Manifest<'_>,
    list: &str,
    image: &str,
    pin: &PinnedVersion,
) -> Vec<Setting> {
    let items = (0..manifest.count(list)).map(|index| join(list, index));
    let is_meant = |item: &String| {
        let mut names = ["name", "newName"].into_iter();
        names.any(|field| {
            let name = manifest.text(&format!("{item}.{field}"));
            name.is_some_and(|name| is_image(name, image))
        })
    };
    let items = items.filter(is_meant);
    items
        .filter_map(|item| replaced(manifest, &item, pin))
        .collect()
}

fn replaced(manifest: Manifest<'_>, item: &str, pin: &PinnedVersion) -> Option<Setting> {
    let (tag, digest) = (format!("{item}.newTag"), format!("{item}.digest"));
    if let Some(scalar) = manifest.scalar(&digest).filter(|_| pin.digest.is_none()) {
        return Some(Setting::cannot(scalar.line, DIGEST_UNKNOWN));
    }
    if let Some(scalar) = manifest.scalar(&tag).filter(|_| pin.is_digest()) {
        return Some(Setting::cannot(scalar.line, NOT_A_TAG));
    }
    let fields = [
        (tag, Some(pin.version.clone())),
        (digest, pin.digest.clone()),
    ];
    set(manifest, &fields)
}

/// The list of replacements in a manifest, if it is one that has them.
pub(super) fn replacements(manifest: Manifest<'_>, is_kustomization: bool) -> Option<&'static str> {
    if is_kustomization {
        return Some("images");
    }
    let is_applier = manifest.group() == APPLIER && manifest.kind() == "Kustomization";
    is_applier.then_some("spec.images")
}

/// The containers of a workload that run the image; one setting for each image that may be meant.
pub(super) fn workload(manifest: Manifest<'_>, image: &str, pin: &PinnedVersion) -> Vec<Setting> {
    let mut fields: BTreeMap<&str, Vec<(String, Option<String>)>> = BTreeMap::new();
    for pod in PODS {
        for list in ["containers", "initContainers"] {
            let list = format!("{pod}.{list}");
            for item in (0..manifest.count(&list)).map(|index| join(&list, index)) {
                let path = format!("{item}.image");
                let Some(scalar) = manifest.scalar(&path) else {
                    continue;
                };
                let (name, rest) = split_image(&scalar.value);
                if !is_image(name, image) {
                    continue;
                }
                match renewed(name, rest, pin) {
                    Some(value) => fields.entry(name).or_default().push((path, Some(value))),
                    None if pin.is_digest() => {
                        return vec![Setting::cannot(scalar.line, NOT_A_TAG)];
                    }
                    None => return vec![Setting::cannot(scalar.line, DIGEST_UNKNOWN)],
                }
            }
        }
    }
    let fields = fields.values();
    fields.filter_map(|fields| set(manifest, fields)).collect()
}

/// Name, and tag and digest behind it.
fn split_image(image: &str) -> (&str, &str) {
    let start = image.rfind('/').map_or(0, |slash| slash + 1);
    let end = image[start..].find([':', '@']);
    image.split_at(end.map_or(image.len(), |end| start + end))
}

fn renewed(name: &str, rest: &str, pin: &PinnedVersion) -> Option<String> {
    let version = &pin.version;
    match (rest.split_once('@'), &pin.digest) {
        (Some(("", _)), Some(digest)) => Some(format!("{name}@{digest}")),
        _ if pin.is_digest() => None,
        (None, _) => Some(format!("{name}:{version}")),
        (Some(_), Some(digest)) => Some(format!("{name}:{version}@{digest}")),
        (Some(_), None) => None,
    }
}

/// Whether single operations in a patch set one of the fields, or something around it.
pub(super) fn operations(manifest: Manifest<'_>, fields: &[&str]) -> Option<Setting> {
    let is_around = |one: &str, other: &str| {
        let rest = other.strip_prefix(one);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    changes(manifest).find_map(|(_, path)| {
        let is_meant = fields.iter().any(|field| {
            let pointer = format!("/{}", field.replace('.', "/"));
            is_around(&pointer, &path.value) || is_around(&path.value, &pointer)
        });
        is_meant.then(|| Setting::cannot(path.line, JSON_PATCH))
    })
}

/// Whether single operations in a patch bring in the image.
pub(super) fn image_operations(manifest: Manifest<'_>, image: &str) -> Option<Setting> {
    changes(manifest).find_map(|(operation, path)| {
        let value = format!("{operation}.value");
        let mut written = manifest.below(&value);
        let is_meant = written.any(|(step, scalar)| {
            let is_image_field = match step {
                Some(Step::Key(key)) if key == "value" => path.value.ends_with("/image"),
                step => *step.unwrap_or(&Step::Item(0)) == Step::Key("image".to_owned()),
            };
            is_image_field && is_image(split_image(&scalar.value).0, image)
        });
        is_meant.then(|| Setting::cannot(path.line, JSON_PATCH))
    })
}

/// The operations of a patch that change something, each with the path it is about.
fn changes<'a>(manifest: Manifest<'a>) -> impl Iterator<Item = (String, &'a Scalar)> {
    let operations = (0..manifest.count("")).map(|index| join("", index));
    let is_change =
        move |operation: &String| manifest.text(&format!("{operation}.op")) != Some("test");
    operations.filter(is_change).filter_map(move |operation| {
        let path = manifest.scalar(&format!("{operation}.path"))?;
        Some((operation, path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_taken_apart_and_put_together() {
        let pin = |digest: Option<&str>| PinnedVersion {
            version: "2".to_owned(),
            digest: digest.map(str::to_owned),
            commit: None,
        };
        for (image, digest, expected) in [
            ("app", None, Some("app:2")),
            ("app:1", None, Some("app:2")),
            ("host:5000/team/app:1", None, Some("host:5000/team/app:2")),
            ("host:5000/team/app", None, Some("host:5000/team/app:2")),
            ("app:1", Some("sha256:b"), Some("app:2")),
            ("app:1@sha256:a", Some("sha256:b"), Some("app:2@sha256:b")),
            ("app@sha256:a", Some("sha256:b"), Some("app@sha256:b")),
            ("app@sha256:a", None, None),
        ] {
            let (name, rest) = split_image(image);
            let renewed = renewed(name, rest, &pin(digest));
            assert_eq!(renewed.as_deref(), expected, "{image}");
        }
        let digest = PinnedVersion {
            version: "sha256:b".to_owned(),
            digest: Some("sha256:b".to_owned()),
            commit: None,
        };
        assert_eq!(
            renewed("app", "@sha256:a", &digest).as_deref(),
            Some("app@sha256:b")
        );
        assert_eq!(renewed("app", ":1", &digest), None);
    }
}
