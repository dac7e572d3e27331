//! The files of a repository, and the manifests that were parsed.

use std::collections::{BTreeMap, BTreeSet};

use crate::paths::PathLimits;

use super::parsed::Manifests;
use super::paths::join_path;
use super::repository_identity::RepositoryIdentity;

const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// The paths of all files of a repository, and the content of those that were read.
pub(crate) struct RepositoryFiles {
    /// The repository itself, to recognise references to it.
    pub(crate) identity: Option<RepositoryIdentity>,
    pub(crate) paths: BTreeSet<String>,
    /// The files that were read; `None` if a file has no manifests.
    pub(crate) read: BTreeMap<String, Option<Manifests>>,
}

impl RepositoryFiles {
    /// The names of GitRepositories that are other repositories.
    pub(super) fn other_repositories(&self) -> BTreeSet<&str> {
        let manifests = self.read.values().flatten().flat_map(Manifests::each);
        let sources = manifests.filter(|manifest| manifest.kind() == "GitRepository");
        let is_foreign = |url: &str| {
            let both = RepositoryIdentity::of(url).zip(self.identity.as_ref());
            both.is_none_or(|(other, own)| !own.may_be(&other))
        };
        let others = sources.filter_map(|source| {
            let url = source.text("spec.url")?;
            source.text("metadata.name").filter(|_| is_foreign(url))
        });
        others.collect()
    }

    /// The directories and files that match a pattern.
    pub(super) fn matching(&self, pattern: &str) -> BTreeSet<String> {
        let Ok(limits) = PathLimits::new([pattern]) else {
            return BTreeSet::new();
        };
        let root = |path: &String| {
            let ends = path.match_indices('/').map(|(end, _)| end);
            let mut starts = ends.chain([path.len()]).map(|end| &path[..end]);
            starts.find(|start| limits.allow(start)).map(str::to_owned)
        };
        self.paths.iter().filter_map(root).collect()
    }

    /// The Kustomize file of a directory.
    pub(super) fn kustomization(&self, folder: &str) -> Option<String> {
        let mut files = KUSTOMIZATIONS.iter().map(|name| join_path(folder, name));
        files.find(|file| self.paths.contains(file))
    }
}
