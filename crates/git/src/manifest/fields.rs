//! The fields with versions in manifests of known kinds.

use std::collections::BTreeMap;

use super::build_file::NameTransformation;
use super::build_graph::{BuildGraph, FLUX_KUSTOMIZE_GROUP};
use super::images::is_image;
use super::parsed::{Manifest, join};
use super::{ManifestIdentity, PinnedVersion};
use crate::edit::document::{PathSegment, Scalar};

/// The API group of Flux sources.
const SOURCES: &str = "source.toolkit.fluxcd.io";

/// The paths of pod specs in workloads.
const PODS: [&str; 3] = [
    "spec.template.spec",
    "spec.jobTemplate.spec.template.spec",
    "spec",
];

/// The fields of a source reference, in the order of their precedence.
const PINS: [&str; 4] = ["digest", "commit", "semver", "tag"];

pub(crate) const DIGEST_UNKNOWN: &str =
    "it is pinned by a digest, and none is known for the new version";
pub(crate) const NOT_A_TAG: &str = "it is pinned by a tag, and the new version is a digest";
pub(crate) const COMMIT_UNKNOWN: &str =
    "it is pinned by a commit, and none is known for the new version";
const COMMIT_INSTEAD_OF_VERSION: &str = "it is pinned by a version, and the new one is a commit";
const REFERENCE: &str = "it is pinned by the whole name of a reference; use a tag";
const VARIABLE: &str = "its value is a variable or written elsewhere";
const JSON_PATCH: &str = "a list of single operations sets it; use a patch that is a manifest";

/// A field and the values to write, or why it cannot be set.
pub(super) struct FieldEdit {
    pub(super) line: usize,
    pub(super) edits: Result<Vec<(usize, String)>, &'static str>,
}

impl FieldEdit {
    fn cannot(line: usize, because: &'static str) -> Self {
        Self {
            line,
            edits: Err(because),
        }
    }
}

/// Whether a manifest describes the object, after its names are transformed.
pub(super) fn describes(
    manifest: Manifest<'_>,
    names: &NameTransformation,
    identity: &ManifestIdentity,
) -> bool {
    let (namespace, name) = names.apply(manifest);
    manifest.kind() == identity.kind
        && manifest.group() == identity.group
        && name == identity.name
        && namespace.is_none_or(|namespace| namespace == identity.namespace)
}

/// The edit of all fields that exist, each to its value.
fn set(manifest: Manifest<'_>, fields: &[(String, Option<String>)]) -> Option<FieldEdit> {
    let mut changes = Vec::new();
    let mut line = None;
    for (path, value) in fields {
        if manifest.is_alias(path) {
            return Some(FieldEdit::cannot(0, VARIABLE));
        }
        let Some(scalar) = manifest.scalar(path) else {
            continue;
        };
        line.get_or_insert(scalar.line);
        if scalar.value.contains("${") {
            return Some(FieldEdit::cannot(scalar.line, VARIABLE));
        }
        changes.extend(value.clone().map(|value| (scalar.event, value)));
    }
    let line = line?;
    let is_anything = !changes.is_empty();
    Some(FieldEdit {
        line,
        edits: is_anything
            .then_some(changes)
            .ok_or(COMMIT_INSTEAD_OF_VERSION),
    })
}

/// The chart version in a HelmRelease.
pub(super) fn release(manifest: Manifest<'_>, pin: &PinnedVersion) -> Option<FieldEdit> {
    let path = "spec.chart.spec.version".to_owned();
    set(manifest, &[(path, Some(pin.version.clone()))])
}

/// The version of a Flux source.
pub(super) fn source(manifest: Manifest<'_>, pin: &PinnedVersion) -> Option<FieldEdit> {
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
        return Some(FieldEdit::cannot(line, objection));
    }
    // OCI tags cannot contain a plus; Helm replaces it by an underscore.
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

/// Why a source cannot be set to a version.
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
pub(super) fn referenced_source(
    graph: &BuildGraph<'_>,
    identity: &ManifestIdentity,
) -> Option<ManifestIdentity> {
    let own = graph
        .manifests()
        .filter(|(file, manifest)| describes(*manifest, &file.names, identity));
    own.into_iter().find_map(|(_, manifest)| {
        let mut references = ["spec.chartRef", "spec.sourceRef"].into_iter();
        references.find_map(|reference| {
            let text = |field: &str| manifest.text(&format!("{reference}.{field}"));
            Some(ManifestIdentity {
                group: SOURCES.to_owned(),
                kind: text("kind")?.to_owned(),
                namespace: text("namespace").unwrap_or(&identity.namespace).to_owned(),
                name: text("name")?.to_owned(),
            })
        })
    })
}

/// The entries for an image, by its old or new name, in the `images` of a Kustomize or Flux
/// Kustomization.
pub(super) fn image_overrides(
    manifest: Manifest<'_>,
    list: &str,
    image: &str,
    pin: &PinnedVersion,
) -> Vec<FieldEdit> {
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
        .filter_map(|item| image_override(manifest, &item, pin))
        .collect()
}

fn image_override(manifest: Manifest<'_>, item: &str, pin: &PinnedVersion) -> Option<FieldEdit> {
    let (tag, digest) = (format!("{item}.newTag"), format!("{item}.digest"));
    if let Some(scalar) = manifest.scalar(&digest).filter(|_| pin.digest.is_none()) {
        return Some(FieldEdit::cannot(scalar.line, DIGEST_UNKNOWN));
    }
    if let Some(scalar) = manifest.scalar(&tag).filter(|_| pin.is_digest()) {
        return Some(FieldEdit::cannot(scalar.line, NOT_A_TAG));
    }
    let fields = [
        (tag, Some(pin.version.clone())),
        (digest, pin.digest.clone()),
    ];
    set(manifest, &fields)
}

/// The path of the list of image overrides in a manifest, if its kind has one.
pub(super) fn image_override_list(
    manifest: Manifest<'_>,
    is_kustomization: bool,
) -> Option<&'static str> {
    if is_kustomization {
        return Some("images");
    }
    let is_applier = manifest.group() == FLUX_KUSTOMIZE_GROUP && manifest.kind() == "Kustomization";
    is_applier.then_some("spec.images")
}

/// The containers of a workload that run the image; one edit for each name of the image.
pub(super) fn workload(manifest: Manifest<'_>, image: &str, pin: &PinnedVersion) -> Vec<FieldEdit> {
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
                match with_version(name, rest, pin) {
                    Some(value) => fields.entry(name).or_default().push((path, Some(value))),
                    None if pin.is_digest() => {
                        return vec![FieldEdit::cannot(scalar.line, NOT_A_TAG)];
                    }
                    None => return vec![FieldEdit::cannot(scalar.line, DIGEST_UNKNOWN)],
                }
            }
        }
    }
    let fields = fields.values();
    fields.filter_map(|fields| set(manifest, fields)).collect()
}

/// Splits an image into its name and the tag and digest after it.
fn split_image(image: &str) -> (&str, &str) {
    let start = image.rfind('/').map_or(0, |slash| slash + 1);
    let end = image[start..].find([':', '@']);
    image.split_at(end.map_or(image.len(), |end| start + end))
}

fn with_version(name: &str, rest: &str, pin: &PinnedVersion) -> Option<String> {
    let version = &pin.version;
    match (rest.split_once('@'), &pin.digest) {
        (Some(("", _)), Some(digest)) => Some(format!("{name}@{digest}")),
        _ if pin.is_digest() => None,
        (None, _) => Some(format!("{name}:{version}")),
        (Some(_), Some(digest)) => Some(format!("{name}:{version}@{digest}")),
        (Some(_), None) => None,
    }
}

/// Whether operations of a JSON patch set one of the fields, or a parent or child of it.
pub(super) fn json_patch_of(manifest: Manifest<'_>, fields: &[&str]) -> Option<FieldEdit> {
    let is_around = |one: &str, other: &str| {
        let rest = other.strip_prefix(one);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    json_patch_operations(manifest).find_map(|(_, path)| {
        let is_meant = fields.iter().any(|field| {
            let pointer = format!("/{}", field.replace('.', "/"));
            is_around(&pointer, &path.value) || is_around(&path.value, &pointer)
        });
        is_meant.then(|| FieldEdit::cannot(path.line, JSON_PATCH))
    })
}

/// Whether operations of a JSON patch set the image.
pub(super) fn json_patch_of_image(manifest: Manifest<'_>, image: &str) -> Option<FieldEdit> {
    json_patch_operations(manifest).find_map(|(operation, path)| {
        let value = format!("{operation}.value");
        let mut written = manifest.below(&value);
        let is_meant = written.any(|(segment, scalar)| {
            let is_image_field = match segment {
                Some(PathSegment::Key(key)) if key == "value" => path.value.ends_with("/image"),
                segment => {
                    *segment.unwrap_or(&PathSegment::Item(0))
                        == PathSegment::Key("image".to_owned())
                }
            };
            is_image_field && is_image(split_image(&scalar.value).0, image)
        });
        is_meant.then(|| FieldEdit::cannot(path.line, JSON_PATCH))
    })
}

/// The operations of a JSON patch that change something, each with its path.
fn json_patch_operations<'a>(manifest: Manifest<'a>) -> impl Iterator<Item = (String, &'a Scalar)> {
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
    fn images_are_split_and_updated() {
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
            let updated = with_version(name, rest, &pin(digest));
            assert_eq!(updated.as_deref(), expected, "{image}");
        }
        let digest = PinnedVersion {
            version: "sha256:b".to_owned(),
            digest: Some("sha256:b".to_owned()),
            commit: None,
        };
        assert_eq!(
            with_version("app", "@sha256:a", &digest).as_deref(),
            Some("app@sha256:b")
        );
        assert_eq!(with_version("app", ":1", &digest), None);
    }
}
