//! Which of the fields that could be meant is set.

use super::fields::{self, Setting};
use super::images::{self, Scope};
use super::others;
use super::read::Manifest;
use super::target::{Aim, may_become};
use super::walk::{Inline, Level, Reached, Role, Walk};
use super::{Error, Files, ManifestIdentity, Manifests, VersionField, WantedField};
use crate::paths::PathLimits;

/// A file and what is to be written at which of its events.
pub(crate) type Change = (String, Vec<(usize, String)>);

/// One that could be meant.
pub(super) struct Candidate<'a> {
    pub(super) reached: &'a Reached,
    setting: Setting,
    pub(super) scope: Scope,
}

impl Candidate<'_> {
    pub(super) fn shown(&self) -> String {
        match self.setting.line {
            0 => self.reached.path.clone(),
            line => format!("{}:{line}", self.reached.path),
        }
    }

    fn level(&self) -> Level {
        self.reached.level
    }
}

/// The one field to set, of everything that was reached.
pub(crate) fn choose(
    files: &Files,
    wanted: &WantedField,
    limits: &PathLimits,
    own: &Walk<'_>,
) -> Result<Change, Error> {
    let what = wanted.what();
    if own.is_cut || Walk::from(files, &wanted.foreign()).is_cut {
        return Err(Error::TooMuch { what });
    }
    if let VersionField::OneOf { images } = &wanted.field {
        let candidates = images.clone();
        return Err(Error::Several { what, candidates });
    }
    let chosen = the_one(files, wanted, limits, own)?;
    others::spare(files, wanted, &chosen)?;
    let candidate = chosen.shown();
    match chosen.setting.outcome {
        Ok(changes) => Ok((chosen.reached.path.clone(), changes)),
        Err(because) => Err(Error::Unsettable {
            what,
            candidate,
            because,
        }),
    }
}

/// The only one on the level that says most.
fn the_one<'a>(
    files: &'a Files,
    wanted: &'a WantedField,
    limits: &PathLimits,
    own: &'a Walk<'a>,
) -> Result<Candidate<'a>, Error> {
    let what = wanted.what();
    if wanted.directories.is_empty() {
        return Err(Error::NoDirectory { what });
    }
    let search = Search::new(files, wanted, own);
    let (mut found, meant) = search.effective();
    found.sort_by_key(|candidate| (candidate.level(), candidate.shown()));
    let level = found.first().map(Candidate::level);
    if let Some(candidate) = search.overruling(level) {
        let because = "a patch inside another file cannot be set; put it into a file of its own";
        return Err(Error::Unsettable {
            what,
            candidate,
            because,
        });
    }
    found.retain(|candidate| Some(candidate.level()) == level);
    keep_distinct(&mut found, limits);
    let mut candidates: Vec<String> = found.iter().map(Candidate::shown).collect();
    if let Some(first) = found.first() {
        candidates.extend(images::left_behind(files, first, &meant));
        candidates.dedup();
    }
    match found.pop() {
        None => Err(Error::NotFound {
            what,
            searched: wanted.directories.clone(),
            skipped: own.skipped(),
        }),
        Some(_) if candidates.len() > 1 => Err(Error::Several { what, candidates }),
        Some(candidate) => Ok(candidate),
    }
}

/// Of those beside each other, the ones that may change, if any may: others are somebody else's.
fn keep_distinct(found: &mut Vec<Candidate<'_>>, limits: &PathLimits) {
    let may_change = |candidate: &Candidate<'_>| limits.allow(&candidate.reached.path);
    if found.iter().any(may_change) {
        found.retain(may_change);
    }
    // One file may be reached on several ways.
    found.dedup_by_key(|candidate| candidate.shown());
}

/// Something that is looked for in what one place is built of.
pub(super) struct Search<'a> {
    files: &'a Files,
    wanted: &'a WantedField,
    own: &'a Walk<'a>,
    /// Whose field it really is: the manifest's, or that of the source it refers to.
    subject: ManifestIdentity,
}

impl<'a> Search<'a> {
    pub(super) fn new(files: &'a Files, wanted: &'a WantedField, own: &'a Walk<'a>) -> Self {
        Self {
            files,
            wanted,
            own,
            subject: subject(files, wanted, own),
        }
    }

    /// All that has an effect, and the workloads that are meant.
    pub(super) fn effective(&self) -> (Vec<Candidate<'a>>, Vec<images::Workload>) {
        let home = images::home(self.files, self.wanted, self.own);
        let manifests = self.own.manifests().filter(|(reached, manifest)| {
            let is_home = |home: &Walk<'_>| home.reaches(&reached.path);
            let is_itself = || fields::is(*manifest, &reached.naming, &self.wanted.identity);
            home.as_ref()
                .is_none_or(|home| is_home(home) || is_itself())
        });
        let found = manifests.flat_map(|(reached, manifest)| self.candidates(reached, manifest));
        let mut found = found.collect();
        let meant = images::meant(self.wanted, self.own, home.as_ref());
        images::retain_effective(self.files, &mut found, &meant);
        (found, meant)
    }

    /// The only one that is meant; none where whoever runs the image is.
    fn only(&self) -> Option<&ManifestIdentity> {
        let is_image = matches!(self.wanted.field, VersionField::Image { .. });
        Some(&self.subject).filter(|subject| !is_image || subject.is_workload())
    }

    fn candidates(&self, reached: &'a Reached, manifest: Manifest<'_>) -> Vec<Candidate<'a>> {
        let mut settings = self.settings(reached, manifest);
        if settings.is_empty() && reached.level.role == Role::Patch {
            settings.extend(self.operations(manifest));
        }
        let mut scope = Scope::of(reached, manifest);
        let mut because = None;
        if let Some(target) = reached.target.as_ref().filter(|_| !settings.is_empty()) {
            match target.aim(self.files, self.own, self.only()) {
                None => return Vec::new(),
                Some(Aim::Unsure(objection)) => because = Some(objection),
                Some(Aim::One(kind, name)) => scope = Scope::Manifest(kind, name),
            }
        }
        let candidate = |mut setting: Setting| {
            if let Some(because) = because {
                setting.outcome = Err(because);
            }
            Candidate {
                reached,
                setting,
                scope: scope.clone(),
            }
        };
        settings.into_iter().map(candidate).collect()
    }

    /// The fields of a manifest that could be set. Where a patch has a target, its own name says
    /// nothing.
    fn settings(&self, reached: &Reached, manifest: Manifest<'_>) -> Vec<Setting> {
        let subject = &self.subject;
        let is_subject = || match reached.target.is_some() {
            true => manifest.kind() == subject.kind,
            false => fields::is(manifest, &reached.naming, subject),
        };
        let pin = &self.wanted.pin;
        let VersionField::Image { name } = &self.wanted.field else {
            let held = is_subject().then(|| self.held(manifest));
            return held.flatten().into_iter().collect();
        };
        let is_kustomization = reached.level.role == Role::Kustomization;
        if let Some(list) = fields::replacements(manifest, is_kustomization) {
            let field = if is_kustomization {
                "namespace"
            } else {
                "spec.targetNamespace"
            };
            let inside = reached.naming.namespace(manifest.text(field));
            let is_elsewhere = inside.is_some_and(|inside| inside != subject.namespace);
            if subject.is_workload() && is_elsewhere {
                return Vec::new();
            }
            return fields::replacement(manifest, list, name, pin);
        }
        match self.only().is_none() || is_subject() {
            true => fields::workload(manifest, name, pin),
            false => Vec::new(),
        }
    }

    /// The field in a manifest that is about the subject.
    fn held(&self, manifest: Manifest<'_>) -> Option<Setting> {
        let pin = &self.wanted.pin;
        match self.is_of_release() {
            true => fields::release(manifest, pin),
            false => fields::source(manifest, pin),
        }
    }

    fn is_of_release(&self) -> bool {
        self.wanted.field == VersionField::Chart && self.subject == self.wanted.identity
    }

    /// Single operations that set it.
    fn operations(&self, manifest: Manifest<'_>) -> Option<Setting> {
        if let VersionField::Image { name } = &self.wanted.field {
            return fields::image_operations(manifest, name);
        }
        let fields: &[&str] = match self.is_of_release() {
            true => &["spec.chart.spec.version"],
            false => &["spec.ref", "spec.version"],
        };
        fields::operations(manifest, fields)
    }

    /// A patch written inside another file that says as much as what is on that level, or more.
    fn overruling(&self, level: Option<Level>) -> Option<String> {
        let counts = |inline: &&Inline| level.is_none_or(|level| inline.level <= level);
        let mut inlines = self.own.inlines.iter().filter(counts);
        let found = inlines.find(|inline| {
            let mut manifests = inline.patch.iter().flat_map(Manifests::each);
            manifests.any(|manifest| self.is_set_by(inline, manifest))
        });
        found.map(|inline| format!("{}:{}", inline.path, inline.line))
    }

    fn is_set_by(&self, inline: &Inline, manifest: Manifest<'_>) -> bool {
        let is_held = match &self.wanted.field {
            VersionField::Image { name } => {
                !fields::workload(manifest, name, &self.wanted.pin).is_empty()
            }
            _ => manifest.kind() == self.subject.kind && self.held(manifest).is_some(),
        };
        let is_aimed = || match &inline.target {
            Some(target) => target.aim(self.files, self.own, self.only()).is_some(),
            None => {
                let name = manifest.text("metadata.name").unwrap_or_default();
                may_become(name, self.only())
            }
        };
        (is_held || self.operations(manifest).is_some()) && is_aimed()
    }
}

fn subject(files: &Files, wanted: &WantedField, own: &Walk<'_>) -> ManifestIdentity {
    let identity = &wanted.identity;
    let is_release = |reached: &Reached, manifest: Manifest<'_>| match &reached.target {
        Some(target) => target.aim(files, own, Some(identity)).is_some(),
        None => fields::is(manifest, &reached.naming, identity),
    };
    let has_version = |(reached, manifest): (&Reached, Manifest<'_>)| {
        manifest.kind() == identity.kind
            && fields::release(manifest, &wanted.pin).is_some()
            && is_release(reached, manifest)
    };
    let is_itself = match &wanted.field {
        VersionField::Chart => own.manifests().any(has_version),
        // A chart refers to a source too, but it is the chart that has the version.
        VersionField::Source => identity.kind == "HelmChart",
        VersionField::Image { .. } | VersionField::OneOf { .. } => true,
    };
    let source = fields::referred(own, identity).filter(|_| !is_itself);
    source.unwrap_or_else(|| identity.clone())
}
