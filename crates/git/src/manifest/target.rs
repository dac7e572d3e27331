//! Whom a patch is for, where that is said beside it.

use super::read::Manifest;
use super::walk::{Reached, Role, Walk};
use super::{Files, ManifestIdentity, fields};

const FOR_SEVERAL: &str = "it is a patch for more than one; give it a target by name";

/// What a patch's target says: names or patterns of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    group: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    /// By labels or annotations.
    is_selected: bool,
    /// The directory whose manifests it chooses from.
    directory: String,
}

/// Whom a patch turned out to be for.
pub(super) enum Aim {
    /// Only the one of this kind and name.
    One(String, String),
    /// It may be for several, or nobody can tell.
    Unsure(&'static str),
}

impl Target {
    /// Nothing where none is said.
    pub(super) fn of(manifest: Manifest<'_>, item: &str, directory: &str) -> Option<Self> {
        let text = |field: &str| manifest.text(&format!("{item}.target.{field}"));
        let owned = |field: &str| text(field).map(str::to_owned);
        let selectors = ["labelSelector", "annotationSelector"];
        let target = Self {
            group: owned("group"),
            kind: owned("kind"),
            namespace: owned("namespace"),
            name: owned("name"),
            is_selected: selectors.iter().any(|field| text(field).is_some()),
            directory: directory.to_owned(),
        };
        let said = [&target.group, &target.kind, &target.namespace, &target.name];
        let is_said = target.is_selected || said.iter().any(|it| it.is_some());
        is_said.then_some(target)
    }

    /// Whom among what its directory is built of. Nothing if it is surely not for the subject. Where
    /// there is none, whoever it is for is meant.
    pub(super) fn aim(
        &self,
        files: &Files,
        own: &Walk<'_>,
        subject: Option<&ManifestIdentity>,
    ) -> Option<Aim> {
        let walk = Walk::from(files, std::slice::from_ref(&self.directory));
        let mut hits: Vec<(&Reached, Manifest<'_>)> = walk
            .manifests()
            .filter(|(reached, manifest)| self.may_choose(reached, *manifest))
            .collect();
        hits.dedup_by_key(|(reached, manifest)| (&reached.path, manifest.text("metadata.name")));
        let is_subject = |(reached, manifest): &(&Reached, Manifest<'_>)| {
            subject.is_none_or(|subject| own.ends_up_as(&reached.path, *manifest, subject))
        };
        if !hits.is_empty() && !hits.iter().any(is_subject) {
            return None;
        }
        match hits.as_slice() {
            [] => self.by_name(subject),
            [(_, one)] if self.is_clear() => {
                let name = one.text("metadata.name").unwrap_or_default();
                Some(Aim::One(one.kind().to_owned(), name.to_owned()))
            }
            _ => Some(Aim::Unsure(FOR_SEVERAL)),
        }
    }

    /// What it is for may come from elsewhere: then a name is all there is.
    fn by_name(&self, subject: Option<&ManifestIdentity>) -> Option<Aim> {
        let name = self.name.as_ref().filter(|name| is_plain(name));
        if name.is_some_and(|name| !may_become(name, subject)) {
            return None;
        }
        let kind = self.kind.clone().unwrap_or_default();
        Some(match name.filter(|_| self.is_clear()) {
            Some(name) => Aim::One(kind, name.clone()),
            None => Aim::Unsure(FOR_SEVERAL),
        })
    }

    fn may_choose(&self, reached: &Reached, manifest: Manifest<'_>) -> bool {
        let (namespace, name) = reached.naming.of(manifest);
        let written = manifest.text("metadata.name").unwrap_or_default();
        reached.level.role == Role::Resource
            && may_match(&self.group, manifest.group())
            && may_match(&self.kind, manifest.kind())
            && namespace.is_none_or(|namespace| may_match(&self.namespace, namespace))
            && (may_match(&self.name, &name) || may_match(&self.name, written))
    }

    /// Whether it can be told whom it chooses.
    fn is_clear(&self) -> bool {
        let said = [&self.group, &self.kind, &self.namespace, &self.name];
        let mut said = said.into_iter().flatten();
        !self.is_selected && said.all(|pattern| pattern == ".*" || is_plain(pattern))
    }
}

/// Whether the subject may have had that name before prefixes and suffixes.
pub(super) fn may_become(name: &str, subject: Option<&ManifestIdentity>) -> bool {
    subject.is_none_or(|subject| !is_plain(name) || subject.name.contains(name))
}

fn may_match(pattern: &Option<String>, text: &str) -> bool {
    let pattern = pattern.as_deref();
    pattern.is_none_or(|pattern| !is_plain(pattern) || is_like(pattern, text))
}

/// Dots stand for anything, in groups mostly for themselves.
fn is_like(pattern: &str, text: &str) -> bool {
    let mut both = pattern.bytes().zip(text.bytes());
    pattern.len() == text.len() && both.all(|(one, other)| one == other || one == b'.')
}

/// No pattern that is more than that.
fn is_plain(name: &str) -> bool {
    let mut characters = name.chars();
    characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
}

impl Walk<'_> {
    /// Whether a manifest that was reached is the one that ends up as this.
    fn ends_up_as(&self, path: &str, manifest: Manifest<'_>, identity: &ManifestIdentity) -> bool {
        let name = manifest.text("metadata.name");
        let mut same = self.manifests().filter(|(reached, other)| {
            reached.path == path
                && other.kind() == manifest.kind()
                && other.text("metadata.name") == name
        });
        same.any(|(reached, other)| fields::is(other, &reached.naming, identity))
    }
}
