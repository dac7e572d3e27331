//! Finds the one field to set among all fields that match.

use super::build_file::{BuildFile, FileRole, Precedence};
use super::build_graph::{BuildGraph, InlinePatch};
use super::fields::{self, FieldEdit};
use super::images::{self, FieldScope};
use super::other_deployments;
use super::parsed::Manifest;
use super::patch_target::{TargetedObject, may_be_renamed_to};
use super::{Error, ManifestIdentity, Manifests, RepositoryFiles, VersionField, WantedField};
use crate::paths::PathLimits;

/// A file, and the event indices and new values of the scalars to set.
pub(crate) type FileEdit = (String, Vec<(usize, String)>);

/// A field that matches.
pub(super) struct CandidateField<'a> {
    pub(super) file: &'a BuildFile,
    edit: FieldEdit,
    pub(super) scope: FieldScope,
}

impl CandidateField<'_> {
    pub(super) fn location(&self) -> String {
        match self.edit.line {
            0 => self.file.path.clone(),
            line => format!("{}:{line}", self.file.path),
        }
    }

    fn precedence(&self) -> Precedence {
        self.file.precedence
    }
}

/// Finds the one field to set, in all files of the build.
pub(crate) fn find_field(
    files: &RepositoryFiles,
    wanted: &WantedField,
    limits: &PathLimits,
    own: &BuildGraph<'_>,
) -> Result<FileEdit, Error> {
    let what = wanted.description();
    if own.is_truncated || BuildGraph::new(files, &wanted.other_directories()).is_truncated {
        return Err(Error::TooMuch { what });
    }
    if let VersionField::OneOf { images } = &wanted.field {
        let candidates = images.clone();
        return Err(Error::Several { what, candidates });
    }
    let chosen = only_candidate(files, wanted, limits, own)?;
    other_deployments::refuse_shared(files, wanted, &chosen)?;
    let candidate = chosen.location();
    match chosen.edit.edits {
        Ok(changes) => Ok((chosen.file.path.clone(), changes)),
        Err(because) => Err(Error::Unsettable {
            what,
            candidate,
            because,
        }),
    }
}

/// The only candidate with the highest precedence.
fn only_candidate<'a>(
    files: &'a RepositoryFiles,
    wanted: &'a WantedField,
    limits: &PathLimits,
    own: &'a BuildGraph<'a>,
) -> Result<CandidateField<'a>, Error> {
    let what = wanted.description();
    if wanted.directories.is_empty() {
        return Err(Error::NoDirectory { what });
    }
    let search = FieldSearch::new(files, wanted, own);
    let (mut found, workloads) = search.effective_candidates();
    found.sort_by_key(|candidate| (candidate.precedence(), candidate.location()));
    let precedence = found.first().map(CandidateField::precedence);
    if let Some(candidate) = search.overriding_inline_patch(precedence) {
        let because = "an inline patch cannot be set; put it into a file of its own";
        return Err(Error::Unsettable {
            what,
            candidate,
            because,
        });
    }
    found.retain(|candidate| Some(candidate.precedence()) == precedence);
    keep_distinct(&mut found, limits);
    let mut candidates: Vec<String> = found.iter().map(CandidateField::location).collect();
    if let Some(first) = found.first() {
        candidates.extend(images::unaffected(files, first, &workloads));
        candidates.dedup();
    }
    match found.pop() {
        None => Err(Error::NotFound {
            what,
            searched: wanted.directories.clone(),
            skipped: own.unreadable(),
        }),
        Some(_) if candidates.len() > 1 => Err(Error::Several { what, candidates }),
        Some(candidate) => Ok(candidate),
    }
}

/// Keeps only the candidates in files that may change, if there are any, and each location once.
fn keep_distinct(found: &mut Vec<CandidateField<'_>>, limits: &PathLimits) {
    let may_change = |candidate: &CandidateField<'_>| limits.allow(&candidate.file.path);
    if found.iter().any(may_change) {
        found.retain(may_change);
    }
    // A file may be listed several times.
    found.dedup_by_key(|candidate| candidate.location());
}

/// The search for a field in all files that a deployment is built from.
pub(super) struct FieldSearch<'a> {
    files: &'a RepositoryFiles,
    wanted: &'a WantedField,
    own: &'a BuildGraph<'a>,
    /// The object with the field: the wanted one, or the source that it refers to.
    subject: ManifestIdentity,
}

impl<'a> FieldSearch<'a> {
    pub(super) fn new(
        files: &'a RepositoryFiles,
        wanted: &'a WantedField,
        own: &'a BuildGraph<'a>,
    ) -> Self {
        Self {
            files,
            wanted,
            own,
            subject: subject(files, wanted, own),
        }
    }

    /// All candidates that have an effect, and the wanted workloads.
    pub(super) fn effective_candidates(&self) -> (Vec<CandidateField<'a>>, Vec<images::Workload>) {
        let applied = images::applied_by_wanted(self.files, self.wanted, self.own);
        let manifests = self.own.manifests().filter(|(file, manifest)| {
            let is_applied = |applied: &BuildGraph<'_>| applied.contains(&file.path);
            let is_itself = || fields::describes(*manifest, &file.names, &self.wanted.identity);
            applied
                .as_ref()
                .is_none_or(|applied| is_applied(applied) || is_itself())
        });
        let found = manifests.flat_map(|(file, manifest)| self.candidates(file, manifest));
        let mut found = found.collect();
        let workloads = images::wanted_workloads(self.wanted, self.own, applied.as_ref());
        images::retain_effective(self.files, &mut found, &workloads);
        (found, workloads)
    }

    /// The object whose field is set; `None` if any workload with the image matches.
    fn only_object(&self) -> Option<&ManifestIdentity> {
        let is_image = matches!(self.wanted.field, VersionField::Image { .. });
        Some(&self.subject).filter(|subject| !is_image || subject.is_workload())
    }

    fn candidates(&self, file: &'a BuildFile, manifest: Manifest<'_>) -> Vec<CandidateField<'a>> {
        let mut edits = self.edits(file, manifest);
        if edits.is_empty() && file.precedence.role == FileRole::Patch {
            edits.extend(self.json_patch(manifest));
        }
        let mut scope = FieldScope::of(file, manifest);
        let mut because = None;
        if let Some(target) = file.target.as_ref().filter(|_| !edits.is_empty()) {
            match target.resolve(self.files, self.own, self.only_object()) {
                None => return Vec::new(),
                Some(TargetedObject::Ambiguous(objection)) => because = Some(objection),
                Some(TargetedObject::One(kind, name)) => scope = FieldScope::Manifest(kind, name),
            }
        }
        let candidate = |mut edit: FieldEdit| {
            if let Some(because) = because {
                edit.edits = Err(because);
            }
            CandidateField {
                file,
                edit,
                scope: scope.clone(),
            }
        };
        edits.into_iter().map(candidate).collect()
    }

    /// The edits of matching fields in a manifest. The name of a patch with a target does not count.
    fn edits(&self, file: &BuildFile, manifest: Manifest<'_>) -> Vec<FieldEdit> {
        let subject = &self.subject;
        let is_subject = || match file.target.is_some() {
            true => manifest.kind() == subject.kind,
            false => fields::describes(manifest, &file.names, subject),
        };
        let pin = &self.wanted.pin;
        let VersionField::Image { name } = &self.wanted.field else {
            let edit = is_subject().then(|| self.version_edit(manifest));
            return edit.flatten().into_iter().collect();
        };
        let is_kustomization = file.precedence.role == FileRole::Kustomization;
        if let Some(list) = fields::image_override_list(manifest, is_kustomization) {
            let field = if is_kustomization {
                "namespace"
            } else {
                "spec.targetNamespace"
            };
            let inside = file.names.namespace(manifest.text(field));
            let is_elsewhere = inside.is_some_and(|inside| inside != subject.namespace);
            if subject.is_workload() && is_elsewhere {
                return Vec::new();
            }
            return fields::image_overrides(manifest, list, name, pin);
        }
        match self.only_object().is_none() || is_subject() {
            true => fields::workload(manifest, name, pin),
            false => Vec::new(),
        }
    }

    /// The edit of the version in a manifest of the subject.
    fn version_edit(&self, manifest: Manifest<'_>) -> Option<FieldEdit> {
        let pin = &self.wanted.pin;
        match self.is_in_release() {
            true => fields::release(manifest, pin),
            false => fields::source(manifest, pin),
        }
    }

    fn is_in_release(&self) -> bool {
        self.wanted.field == VersionField::Chart && self.subject == self.wanted.identity
    }

    /// The operations of a JSON patch that set the field.
    fn json_patch(&self, manifest: Manifest<'_>) -> Option<FieldEdit> {
        if let VersionField::Image { name } = &self.wanted.field {
            return fields::json_patch_of_image(manifest, name);
        }
        let fields: &[&str] = match self.is_in_release() {
            true => &["spec.chart.spec.version"],
            false => &["spec.ref", "spec.version"],
        };
        fields::json_patch_of(manifest, fields)
    }

    /// The location of an inline patch that overrides fields of this precedence.
    fn overriding_inline_patch(&self, precedence: Option<Precedence>) -> Option<String> {
        let counts = |inline: &&InlinePatch| {
            precedence.is_none_or(|precedence| inline.precedence <= precedence)
        };
        let mut overriding = self.own.inline_patches.iter().filter(counts);
        let found = overriding.find(|inline| {
            let mut manifests = inline.patch.iter().flat_map(Manifests::each);
            manifests.any(|manifest| self.is_set_by(inline, manifest))
        });
        found.map(|inline| format!("{}:{}", inline.path, inline.line))
    }

    fn is_set_by(&self, inline: &InlinePatch, manifest: Manifest<'_>) -> bool {
        let sets_field = match &self.wanted.field {
            VersionField::Image { name } => {
                !fields::workload(manifest, name, &self.wanted.pin).is_empty()
            }
            _ => manifest.kind() == self.subject.kind && self.version_edit(manifest).is_some(),
        };
        let is_target = || match &inline.target {
            Some(target) => target
                .resolve(self.files, self.own, self.only_object())
                .is_some(),
            None => {
                let name = manifest.text("metadata.name").unwrap_or_default();
                may_be_renamed_to(name, self.only_object())
            }
        };
        (sets_field || self.json_patch(manifest).is_some()) && is_target()
    }
}

fn subject(
    files: &RepositoryFiles,
    wanted: &WantedField,
    own: &BuildGraph<'_>,
) -> ManifestIdentity {
    let identity = &wanted.identity;
    let is_release = |file: &BuildFile, manifest: Manifest<'_>| match &file.target {
        Some(target) => target.resolve(files, own, Some(identity)).is_some(),
        None => fields::describes(manifest, &file.names, identity),
    };
    let has_version = |(file, manifest): (&BuildFile, Manifest<'_>)| {
        manifest.kind() == identity.kind
            && fields::release(manifest, &wanted.pin).is_some()
            && is_release(file, manifest)
    };
    let is_itself = match &wanted.field {
        VersionField::Chart => own.manifests().any(has_version),
        // A HelmChart refers to a source, but has the version itself.
        VersionField::Source => identity.kind == "HelmChart",
        VersionField::Image { .. } | VersionField::OneOf { .. } => true,
    };
    let source = fields::referenced_source(own, identity).filter(|_| !is_itself);
    source.unwrap_or_else(|| identity.clone())
}
