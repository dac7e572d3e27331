//! Image names, and the workloads that an image override affects.
//!
//! An override in a Kustomization affects only what its directory is built from. An override that does
//! not affect the wanted workload is ignored; one that affects only some of several workloads would
//! leave the others at the old version.

use super::build_file::{BuildFile, FileRole};
use super::build_graph::{BuildGraph, FLUX_KUSTOMIZE_GROUP};
use super::fields;
use super::parsed::Manifest;
use super::paths::{folder, resolve};
use super::search::CandidateField;
use super::{RepositoryFiles, VersionField, WantedField};

/// The registry of an image name without one.
const DEFAULT_REGISTRY: &str = "docker.io";

/// Whether an image of a manifest has this name. As for observed images, a name without a registry also
/// matches the same path in any registry.
pub fn is_image(image: &str, name: &str) -> bool {
    let with_registry = |name: &str| match name.split_once('/') {
        None => format!("{DEFAULT_REGISTRY}/library/{name}"),
        Some((first, _)) if first == "localhost" || first.contains(['.', ':']) => name.to_owned(),
        Some(_) => format!("{DEFAULT_REGISTRY}/{name}"),
    };
    let image = with_registry(image);
    let is_path_end = |rest: &str| rest.ends_with('/');
    image == with_registry(name) || image.strip_suffix(name).is_some_and(is_path_end)
}

/// The workloads that a candidate field affects.
#[derive(Clone)]
pub(super) enum FieldScope {
    /// All that is built together with it.
    Everything,
    /// All that a directory is built from.
    Directory(String),
    /// The object with this kind and name.
    Manifest(String, String),
}

impl FieldScope {
    pub(super) fn of(file: &BuildFile, manifest: Manifest<'_>) -> Self {
        let is_kustomization = file.precedence.role == FileRole::Kustomization;
        match fields::image_override_list(manifest, is_kustomization) {
            Some(_) if manifest.kind() == "Component" => Self::Everything,
            Some(_) if is_kustomization => Self::Directory(folder(&file.path).to_owned()),
            Some(_) => {
                let path = manifest.text("spec.path").unwrap_or_default();
                Self::Directory(resolve("", path).unwrap_or_default())
            }
            None => {
                let name = manifest.text("metadata.name").unwrap_or_default();
                Self::Manifest(manifest.kind().to_owned(), name.to_owned())
            }
        }
    }

    fn covers(&self, files: &RepositoryFiles, workload: &Workload) -> bool {
        match self {
            Self::Everything => true,
            Self::Directory(path) => {
                let graph = BuildGraph::new(files, std::slice::from_ref(path));
                graph.contains(&workload.path)
            }
            Self::Manifest(kind, name) => *kind == workload.kind && *name == workload.name,
        }
    }
}

/// A workload with the wanted image.
pub(super) struct Workload {
    path: String,
    line: usize,
    kind: String,
    name: String,
}

impl Workload {
    pub(super) fn location(&self) -> String {
        format!("{}:{}", self.path, self.line)
    }
}

/// The workloads whose image is to be set; none if the wanted field is not an image.
pub(super) fn wanted_workloads(
    wanted: &WantedField,
    own: &BuildGraph<'_>,
    applied: Option<&BuildGraph<'_>>,
) -> Vec<Workload> {
    let VersionField::Image { name } = &wanted.field else {
        return Vec::new();
    };
    let identity = &wanted.identity;
    let is_applied = |path: &str| applied.is_none_or(|applied| applied.contains(path));
    let workloads = own.manifests().filter_map(|(file, manifest)| {
        let edit = fields::workload(manifest, name, &wanted.pin)
            .into_iter()
            .next()?;
        let is_one = !identity.is_workload() || fields::describes(manifest, &file.names, identity);
        let is_resource = file.precedence.role == FileRole::Resource;
        (is_one && is_resource && is_applied(&file.path)).then(|| Workload {
            path: file.path.clone(),
            line: edit.line,
            kind: manifest.kind().to_owned(),
            name: manifest
                .text("metadata.name")
                .unwrap_or_default()
                .to_owned(),
        })
    });
    let mut workloads: Vec<Workload> = workloads.collect();
    workloads.dedup_by_key(|workload| workload.location());
    workloads
}

/// What the wanted Flux Kustomization applies, if the wanted field is an image.
pub(super) fn applied_by_wanted<'a>(
    files: &'a RepositoryFiles,
    wanted: &WantedField,
    own: &BuildGraph<'_>,
) -> Option<BuildGraph<'a>> {
    if !matches!(wanted.field, VersionField::Image { .. }) {
        return None;
    }
    let mut appliers = own
        .manifests()
        .filter(|(_, manifest)| manifest.group() == FLUX_KUSTOMIZE_GROUP);
    let (file, manifest) = appliers
        .find(|(file, manifest)| fields::describes(*manifest, &file.names, &wanted.identity))?;
    match FieldScope::of(file, manifest) {
        FieldScope::Directory(path) => Some(BuildGraph::new(files, &[path])),
        FieldScope::Everything | FieldScope::Manifest(..) => None,
    }
}

/// Removes candidates that do not affect any of the workloads.
pub(super) fn retain_effective(
    files: &RepositoryFiles,
    found: &mut Vec<CandidateField<'_>>,
    workloads: &[Workload],
) {
    let is_effective = |candidate: &CandidateField<'_>| {
        let mut workloads = workloads.iter();
        workloads.any(|workload| candidate.scope.covers(files, workload))
    };
    if !workloads.is_empty() {
        found.retain(is_effective);
    }
}

/// The workloads that the chosen field does not affect.
pub(super) fn unaffected(
    files: &RepositoryFiles,
    chosen: &CandidateField<'_>,
    workloads: &[Workload],
) -> Vec<String> {
    let workloads = workloads.iter();
    let unaffected = workloads.filter(|workload| !chosen.scope.covers(files, workload));
    unaffected.map(Workload::location).collect()
}
