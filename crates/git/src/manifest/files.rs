//! The files of a repository, and what is known of them without walking.

use std::collections::{BTreeMap, BTreeSet};

use crate::paths::PathLimits;

use super::read::Manifests;
use super::repository::Home;
use super::walk::below;

const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// A repository: which files there are, and what is in those that were read.
pub(crate) struct Files {
    /// Which repository, to know references to itself.
    pub(crate) home: Option<Home>,
    pub(crate) paths: BTreeSet<String>,
    /// Nothing for those that are no manifests.
    pub(crate) read: BTreeMap<String, Option<Manifests>>,
}

impl Files {
    /// The names of the sources that are known to be other repositories.
    pub(super) fn foreign(&self) -> BTreeSet<&str> {
        let manifests = self.read.values().flatten().flat_map(Manifests::each);
        let sources = manifests.filter(|manifest| manifest.kind() == "GitRepository");
        let is_foreign = |url: &str| {
            let both = Home::of(url).zip(self.home.as_ref());
            both.is_none_or(|(there, home)| !home.may_be(&there))
        };
        let foreign = sources.filter_map(|source| {
            let url = source.text("spec.url")?;
            source.text("metadata.name").filter(|_| is_foreign(url))
        });
        foreign.collect()
    }

    /// The directories and files that a pattern stands for.
    pub(super) fn roots(&self, pattern: &str) -> BTreeSet<String> {
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

    /// What Kustomize reads in a directory.
    pub(super) fn kustomization(&self, folder: &str) -> Option<String> {
        let mut files = KUSTOMIZATIONS.iter().map(|name| below(folder, name));
        files.find(|file| self.paths.contains(file))
    }
}
