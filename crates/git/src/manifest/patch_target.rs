//! The targets of Kustomize patches.

use super::build_file::{BuildFile, FileRole};
use super::build_graph::BuildGraph;
use super::parsed::Manifest;
use super::{ManifestIdentity, RepositoryFiles, fields};

const FOR_SEVERAL: &str = "it is a patch for more than one; give it a target by name";

/// The target of a patch: names, or patterns of names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PatchTarget {
    group: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    /// Whether it selects by labels or annotations.
    has_selector: bool,
    /// The directory whose objects it selects from.
    directory: String,
}

/// The object that a patch applies to.
pub(super) enum TargetedObject {
    /// The object of this kind and name.
    One(String, String),
    /// Several objects, or unknown.
    Ambiguous(&'static str),
}

impl PatchTarget {
    /// `None` if the patch has no target.
    pub(super) fn of(manifest: Manifest<'_>, item: &str, directory: &str) -> Option<Self> {
        let text = |field: &str| manifest.text(&format!("{item}.target.{field}"));
        let owned = |field: &str| text(field).map(str::to_owned);
        let selectors = ["labelSelector", "annotationSelector"];
        let target = Self {
            group: owned("group"),
            kind: owned("kind"),
            namespace: owned("namespace"),
            name: owned("name"),
            has_selector: selectors.iter().any(|field| text(field).is_some()),
            directory: directory.to_owned(),
        };
        let fields = [&target.group, &target.kind, &target.namespace, &target.name];
        let is_given = target.has_selector || fields.iter().any(|it| it.is_some());
        is_given.then_some(target)
    }

    /// The object that it applies to. `None` if that cannot be the subject; without a subject, every
    /// object counts.
    pub(super) fn resolve(
        &self,
        files: &RepositoryFiles,
        own: &BuildGraph<'_>,
        subject: Option<&ManifestIdentity>,
    ) -> Option<TargetedObject> {
        let graph = BuildGraph::new(files, std::slice::from_ref(&self.directory));
        let mut matching: Vec<(&BuildFile, Manifest<'_>)> = graph
            .manifests()
            .filter(|(file, manifest)| self.may_select(file, *manifest))
            .collect();
        matching.dedup_by_key(|(file, manifest)| (&file.path, manifest.text("metadata.name")));
        let is_subject = |(file, manifest): &(&BuildFile, Manifest<'_>)| {
            subject.is_none_or(|subject| own.builds(&file.path, *manifest, subject))
        };
        if !matching.is_empty() && !matching.iter().any(is_subject) {
            return None;
        }
        match matching.as_slice() {
            [] => self.resolve_by_name(subject),
            [(_, one)] if self.is_unambiguous() => {
                let name = one.text("metadata.name").unwrap_or_default();
                Some(TargetedObject::One(one.kind().to_owned(), name.to_owned()))
            }
            _ => Some(TargetedObject::Ambiguous(FOR_SEVERAL)),
        }
    }

    /// For objects that are not in this repository: the name decides.
    fn resolve_by_name(&self, subject: Option<&ManifestIdentity>) -> Option<TargetedObject> {
        let name = self.name.as_ref().filter(|name| is_plain(name));
        if name.is_some_and(|name| !may_be_renamed_to(name, subject)) {
            return None;
        }
        let kind = self.kind.clone().unwrap_or_default();
        Some(match name.filter(|_| self.is_unambiguous()) {
            Some(name) => TargetedObject::One(kind, name.clone()),
            None => TargetedObject::Ambiguous(FOR_SEVERAL),
        })
    }

    fn may_select(&self, file: &BuildFile, manifest: Manifest<'_>) -> bool {
        let (namespace, name) = file.names.apply(manifest);
        let written = manifest.text("metadata.name").unwrap_or_default();
        file.precedence.role == FileRole::Resource
            && may_match(&self.group, manifest.group())
            && may_match(&self.kind, manifest.kind())
            && namespace.is_none_or(|namespace| may_match(&self.namespace, namespace))
            && (may_match(&self.name, &name) || may_match(&self.name, written))
    }

    /// Whether it has no selectors and no patterns.
    fn is_unambiguous(&self) -> bool {
        let fields = [&self.group, &self.kind, &self.namespace, &self.name];
        let mut fields = fields.into_iter().flatten();
        !self.has_selector && fields.all(|pattern| pattern == ".*" || is_plain(pattern))
    }
}

/// Whether the subject may have this name before prefixes and suffixes are added.
pub(super) fn may_be_renamed_to(name: &str, subject: Option<&ManifestIdentity>) -> bool {
    subject.is_none_or(|subject| !is_plain(name) || subject.name.contains(name))
}

fn may_match(pattern: &Option<String>, text: &str) -> bool {
    let pattern = pattern.as_deref();
    pattern.is_none_or(|pattern| !is_plain(pattern) || matches_dots(pattern, text))
}

/// Compares a name with a regular expression that only has dots.
fn matches_dots(pattern: &str, text: &str) -> bool {
    let mut both = pattern.bytes().zip(text.bytes());
    pattern.len() == text.len() && both.all(|(one, other)| one == other || one == b'.')
}

/// Whether it is a name, or a regular expression that only has dots.
fn is_plain(name: &str) -> bool {
    let mut characters = name.chars();
    characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
}

impl BuildGraph<'_> {
    /// Whether a manifest of the build becomes this object.
    fn builds(&self, path: &str, manifest: Manifest<'_>, identity: &ManifestIdentity) -> bool {
        let name = manifest.text("metadata.name");
        let mut same_object = self.manifests().filter(|(file, other)| {
            file.path == path
                && other.kind() == manifest.kind()
                && other.text("metadata.name") == name
        });
        same_object.any(|(file, other)| fields::describes(other, &file.names, identity))
    }
}
