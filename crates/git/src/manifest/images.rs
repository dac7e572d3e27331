//! Which image is meant, and what a replaced one really reaches.
//!
//! A list of replacements works on what its directory is built of, and on nothing beside it. One
//! that does not reach the workload that is meant says nothing about it; one that reaches only some
//! of several leaves the others behind.

use super::choose::Candidate;
use super::fields;
use super::read::Manifest;
use super::walk::{APPLIER, Reached, Role, Walk, folder, resolve};
use super::{Files, VersionField, WantedField};

/// The registry that a name without one means.
const REGISTRY: &str = "docker.io";

/// Whether an image, by its name in a manifest, is the one that is called so. As where images are
/// observed, a name without registry also means the same path in any registry.
pub fn is_image(image: &str, name: &str) -> bool {
    let whole = |name: &str| match name.split_once('/') {
        None => format!("{REGISTRY}/library/{name}"),
        Some((first, _)) if first == "localhost" || first.contains(['.', ':']) => name.to_owned(),
        Some(_) => format!("{REGISTRY}/{name}"),
    };
    let image = whole(image);
    let ends_so = |rest: &str| rest.ends_with('/');
    image == whole(name) || image.strip_suffix(name).is_some_and(ends_so)
}

/// What a candidate works on.
#[derive(Clone)]
pub(super) enum Scope {
    /// All that is built beside it.
    Everything,
    /// What a directory is built of.
    Directory(String),
    /// What it describes, by kind and name.
    Manifest(String, String),
}

impl Scope {
    pub(super) fn of(reached: &Reached, manifest: Manifest<'_>) -> Self {
        let is_kustomization = reached.level.role == Role::Kustomization;
        match fields::replacements(manifest, is_kustomization) {
            Some(_) if manifest.kind() == "Component" => Self::Everything,
            Some(_) if is_kustomization => Self::Directory(folder(&reached.path).to_owned()),
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

    fn covers(&self, files: &Files, workload: &Workload) -> bool {
        match self {
            Self::Everything => true,
            Self::Directory(path) => {
                let walk = Walk::from(files, std::slice::from_ref(path));
                walk.reaches(&workload.path)
            }
            Self::Manifest(kind, name) => *kind == workload.kind && *name == workload.name,
        }
    }
}

/// A workload that runs the image and is meant.
pub(super) struct Workload {
    path: String,
    line: usize,
    kind: String,
    name: String,
}

impl Workload {
    pub(super) fn shown(&self) -> String {
        format!("{}:{}", self.path, self.line)
    }
}

/// The workloads whose image is to be set; none where it is not images that are set.
pub(super) fn meant(
    wanted: &WantedField,
    own: &Walk<'_>,
    home: Option<&Walk<'_>>,
) -> Vec<Workload> {
    let VersionField::Image { name } = &wanted.field else {
        return Vec::new();
    };
    let identity = &wanted.identity;
    let is_home = |path: &str| home.is_none_or(|home| home.reaches(path));
    let workloads = own.manifests().filter_map(|(reached, manifest)| {
        let setting = fields::workload(manifest, name, &wanted.pin)
            .into_iter()
            .next()?;
        let is_one = !identity.is_workload() || fields::is(manifest, &reached.naming, identity);
        let is_resource = reached.level.role == Role::Resource;
        (is_one && is_resource && is_home(&reached.path)).then(|| Workload {
            path: reached.path.clone(),
            line: setting.line,
            kind: manifest.kind().to_owned(),
            name: manifest
                .text("metadata.name")
                .unwrap_or_default()
                .to_owned(),
        })
    });
    let mut workloads: Vec<Workload> = workloads.collect();
    workloads.dedup_by_key(|workload| workload.shown());
    workloads
}

/// What the one applies that is meant, where images are and it is among what was walked.
pub(super) fn home<'a>(files: &'a Files, wanted: &WantedField, own: &Walk<'_>) -> Option<Walk<'a>> {
    if !matches!(wanted.field, VersionField::Image { .. }) {
        return None;
    }
    let mut appliers = own
        .manifests()
        .filter(|(_, manifest)| manifest.group() == APPLIER);
    let (reached, manifest) = appliers
        .find(|(reached, manifest)| fields::is(*manifest, &reached.naming, &wanted.identity))?;
    match Scope::of(reached, manifest) {
        Scope::Directory(path) => Some(Walk::from(files, &[path])),
        Scope::Everything | Scope::Manifest(..) => None,
    }
}

/// Leaves out what does not reach any of the workloads.
pub(super) fn retain_effective(files: &Files, found: &mut Vec<Candidate<'_>>, meant: &[Workload]) {
    let reaches = |candidate: &Candidate<'_>| {
        let mut meant = meant.iter();
        meant.any(|workload| candidate.scope.covers(files, workload))
    };
    if !meant.is_empty() {
        found.retain(reaches);
    }
}

/// The workloads that the chosen one leaves behind.
pub(super) fn left_behind(
    files: &Files,
    chosen: &Candidate<'_>,
    meant: &[Workload],
) -> Vec<String> {
    let meant = meant.iter();
    let behind = meant.filter(|workload| !chosen.scope.covers(files, workload));
    behind.map(Workload::shown).collect()
}
