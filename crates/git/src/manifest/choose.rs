//! Which of the fields that could be meant is set.

use super::fields::{self, Setting};
use super::images::{self, Scope};
use super::read::Manifest;
use super::walk::{Inline, Reached, Role, Walk, resolve};
use super::{Error, Field, Files, Identity, Manifests, Wanted};

/// A file and what is to be written at which of its events.
pub(crate) type Change = (String, Vec<(usize, String)>);

/// One that could be meant.
pub(super) struct Candidate<'a> {
    reached: &'a Reached,
    setting: Setting,
    pub(super) scope: Scope,
}

impl Candidate<'_> {
    fn shown(&self) -> String {
        match self.setting.line {
            0 => self.reached.path.clone(),
            line => format!("{}:{line}", self.reached.path),
        }
    }

    fn level(&self) -> (usize, Role) {
        (self.reached.depth, self.reached.role)
    }
}

/// The one field to set, of everything that was reached.
pub(crate) fn choose(files: &Files, wanted: &Wanted, own: &Walk<'_>) -> Result<Change, Error> {
    if own.is_cut || Walk::from(files, &wanted.others).is_cut {
        let what = wanted.what();
        return Err(Error::TooMuch { what });
    }
    let chosen = the_one(files, wanted, own)?;
    let (what, candidate) = (wanted.what(), chosen.shown());
    if let Some(other) = shared_with(files, wanted, &chosen.reached.path) {
        return Err(Error::Shared {
            what,
            candidate,
            other,
        });
    }
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
fn the_one<'a>(files: &Files, wanted: &Wanted, own: &'a Walk<'_>) -> Result<Candidate<'a>, Error> {
    let what = wanted.what();
    if wanted.directories.is_empty() {
        return Err(Error::NoDirectory { what });
    }
    let subject = subject(wanted, own);
    let mut found = candidates(wanted, &subject, own);
    let meant = images::meant(files, wanted, own);
    images::retain_effective(files, &mut found, &meant);
    found.sort_by_key(|candidate| (candidate.level(), candidate.shown()));
    let level = found.first().map(Candidate::level);
    let depth = level.map_or(usize::MAX, |(depth, _)| depth);
    if let Some(candidate) = overruling(wanted, &subject, own, depth) {
        let because = "a patch inside another file cannot be set; put it into a file of its own";
        return Err(Error::Unsettable {
            what,
            candidate,
            because,
        });
    }
    found.retain(|candidate| Some(candidate.level()) == level);
    // One file may be reached on several ways.
    found.dedup_by_key(|candidate| candidate.shown());
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

/// The other place that is built of a file too, or that the file belongs to by where it is.
fn shared_with(files: &Files, wanted: &Wanted, path: &str) -> Option<String> {
    let mut others = wanted.others.iter();
    let other = others.find(|other| {
        let folder = resolve("", other).unwrap_or_default();
        let is_inside = path
            .strip_prefix(&folder)
            .is_some_and(|rest| rest.starts_with('/'));
        is_inside || Walk::from(files, std::slice::from_ref(other)).reaches(path)
    });
    other.cloned()
}

/// Whose field it really is: the manifest's, or that of the source it refers to.
fn subject(wanted: &Wanted, own: &Walk<'_>) -> Identity {
    let identity = &wanted.identity;
    let has_version = |(reached, manifest): (&Reached, Manifest<'_>)| {
        is(identity, reached, manifest) && fields::release(manifest, &wanted.pin).is_some()
    };
    let is_itself = match &wanted.field {
        Field::Chart => own.manifests().any(has_version),
        // A chart refers to a source too, but it is the chart that has the version.
        Field::Source => identity.kind == "HelmChart",
        Field::Image { .. } => true,
    };
    let source = fields::referred(own, identity).filter(|_| !is_itself);
    source.unwrap_or_else(|| identity.clone())
}

fn candidates<'a>(wanted: &Wanted, subject: &Identity, own: &'a Walk<'_>) -> Vec<Candidate<'a>> {
    let pin = &wanted.pin;
    match &wanted.field {
        Field::Image { name } => collect(own, &[], subject, |reached, manifest| {
            let is_kustomization = reached.role == Role::Kustomization;
            if let Some(list) = fields::replacements(manifest, is_kustomization) {
                return fields::replacement(manifest, list, name, pin);
            }
            let is_meant = !subject.is_workload() || is(subject, reached, manifest);
            is_meant.then(|| fields::workload(manifest, name, pin))?
        }),
        _ => collect(
            own,
            operands(wanted, subject),
            subject,
            |reached, manifest| {
                let setting = || held(wanted, subject, manifest);
                is(subject, reached, manifest).then(setting)?
            },
        ),
    }
}

/// The field in a manifest that is about the subject.
fn held(wanted: &Wanted, subject: &Identity, manifest: Manifest<'_>) -> Option<Setting> {
    if wanted.field == Field::Chart && *subject == wanted.identity {
        return fields::release(manifest, &wanted.pin);
    }
    fields::source(manifest, &wanted.pin)
}

fn operands(wanted: &Wanted, subject: &Identity) -> &'static [&'static str] {
    if wanted.field == Field::Chart && *subject == wanted.identity {
        return &["spec.chart.spec.version"];
    }
    &["spec.ref", "spec.version"]
}

/// Whether a manifest is about this. Where a patch has a target, its own name says nothing.
fn is(identity: &Identity, reached: &Reached, manifest: Manifest<'_>) -> bool {
    match &reached.target {
        Some(target) => {
            manifest.kind() == identity.kind && (*target == identity.name || !is_name(target))
        }
        None => fields::is(manifest, &reached.naming, identity),
    }
}

/// Neither a pattern nor another choice of several.
fn is_name(target: &str) -> bool {
    let mut characters = target.chars();
    characters.all(|c| c.is_ascii_alphanumeric() || c == '-')
}

fn collect<'a>(
    own: &'a Walk<'_>,
    operands: &[&str],
    subject: &Identity,
    setting: impl Fn(&Reached, Manifest<'_>) -> Option<Setting>,
) -> Vec<Candidate<'a>> {
    let found = own.manifests().filter_map(|(reached, manifest)| {
        let is_patch = reached.role == Role::Patch && may_mean(&reached.target, subject);
        let operations = || fields::operations(manifest, operands).filter(|_| is_patch);
        let mut setting = setting(reached, manifest).or_else(operations)?;
        if reached
            .target
            .as_ref()
            .is_some_and(|target| !is_name(target))
        {
            setting.outcome = Err("it is a patch for more than one; give it a target by name");
        }
        Some(Candidate {
            reached,
            setting,
            scope: Scope::of(reached, manifest),
        })
    });
    found.collect()
}

/// Whether a patch for this target, by a name or a pattern, may be for the subject.
fn may_mean(target: &Option<String>, subject: &Identity) -> bool {
    target
        .as_ref()
        .is_none_or(|target| !is_name(target) || subject.name.contains(target.as_str()))
}

/// A patch written inside another file that says more than what was found so deep.
fn overruling(wanted: &Wanted, subject: &Identity, own: &Walk<'_>, depth: usize) -> Option<String> {
    let is_meant = |inline: &Inline, manifest: Manifest<'_>| {
        if let Field::Image { name } = &wanted.field {
            let is_ours = !subject.is_workload() || may_mean(&inline.target, subject);
            return is_ours && fields::workload(manifest, name, &wanted.pin).is_some();
        }
        let named = manifest.text("metadata.name").map(str::to_owned);
        let named = inline.target.clone().or(named);
        let is_subject = manifest.kind() == subject.kind;
        let held = || held(wanted, subject, manifest).filter(|_| is_subject);
        let operations = fields::operations(manifest, operands(wanted, subject));
        may_mean(&named, subject) && operations.or_else(held).is_some()
    };
    let mut inlines = own.inlines.iter().filter(|inline| inline.depth <= depth);
    let found = inlines.find(|inline| {
        let mut manifests = inline.patch.iter().flat_map(Manifests::each);
        manifests.any(|manifest| is_meant(inline, manifest))
    });
    found.map(|inline| format!("{}:{}", inline.path, inline.line))
}
