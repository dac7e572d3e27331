//! A file that is part of a build, and whether its values override those of other files.

use super::parsed::Manifest;
use super::patch_target::PatchTarget;

/// The role of a file in a build. On one level, an earlier role overrides a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileRole {
    Kustomization,
    Patch,
    Resource,
}

/// How Kustomizations change the names and the namespace of the objects that they build.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NameTransformation {
    namespace: Option<String>,
    prefix: String,
    suffix: String,
}

impl NameTransformation {
    /// The namespace and name of the built object.
    pub(super) fn apply<'a>(&'a self, manifest: Manifest<'a>) -> (Option<&'a str>, String) {
        let name = manifest.text("metadata.name").unwrap_or_default();
        let own = manifest.text("metadata.namespace");
        (
            self.namespace(own),
            format!("{}{name}{}", self.prefix, self.suffix),
        )
    }

    /// The namespace of a built object, if there is one.
    pub(super) fn namespace<'a>(&'a self, written: Option<&'a str>) -> Option<&'a str> {
        self.namespace.as_deref().or(written)
    }

    /// Adds a Kustomization further inside: its prefix and suffix are applied first, and the outermost
    /// namespace counts.
    pub(super) fn nested(
        &self,
        namespace: Option<&str>,
        manifest: Manifest<'_>,
        root: &str,
    ) -> Self {
        let text = |field: &str| manifest.text(&format!("{root}{field}"));
        let prefix = text("namePrefix").unwrap_or_default();
        let suffix = text("nameSuffix").unwrap_or_default();
        Self {
            namespace: self.namespace.clone().or(namespace.map(str::to_owned)),
            prefix: format!("{}{prefix}", self.prefix),
            suffix: format!("{suffix}{}", self.suffix),
        }
    }
}

/// Which of two values counts: the smaller one overrides the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Precedence {
    /// The depth of nested directories.
    pub(super) directories: usize,
    /// The depth of nested components, which are applied before the Kustomization that lists them.
    components: usize,
    pub(super) role: FileRole,
}

impl Precedence {
    pub(super) fn new((directories, components): BuildDepth, role: FileRole) -> Self {
        // All others override the resources.
        let components = match role {
            FileRole::Resource => usize::MAX,
            FileRole::Kustomization | FileRole::Patch => components,
        };
        Self {
            directories,
            components,
            role,
        }
    }
}

/// The depth of nested directories, and of nested components.
pub(super) type BuildDepth = (usize, usize);

/// A file that is part of the build.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BuildFile {
    pub(super) precedence: Precedence,
    pub(super) path: String,
    pub(super) names: NameTransformation,
    /// The target of a patch, if it is written in the list of patches.
    pub(super) target: Option<PatchTarget>,
}

impl BuildFile {
    pub(super) fn new(
        path: &str,
        role: FileRole,
        depth: BuildDepth,
        names: &NameTransformation,
    ) -> Self {
        Self {
            precedence: Precedence::new(depth, role),
            path: path.to_owned(),
            names: names.clone(),
            target: None,
        }
    }
}
