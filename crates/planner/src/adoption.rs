//! Keeps a Pipeline of the group `pipelines.wego.weave.works` (the original) and the Pipeline of the same
//! name that Sluice works on (its copy) equal.
//!
//! The original decides, and the status is copied back to it. Suspensions and requests that people write to
//! the copy, because tools show them that one, go to the original. Which of the two was edited follows from
//! the state when they were last equal, which an annotation of the copy holds.
//!
//! A Pipeline that was not made from the original is never changed.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    Pipeline, WegoPipeline,
    conditions::READY,
    names::{ADOPTED_ANNOTATION, ADOPTED_LABEL, REQUEST_ANNOTATION},
    pipeline::{PipelineSpec, PipelineStatus},
};
use kube::{Resource, core::ObjectMeta};
use serde::{Deserialize, Serialize};

use crate::{
    conditions::{self, ConditionValue},
    time::Timestamp,
};

/// Reason of `Ready` on an original whose name is taken by another Pipeline.
const NAME_TAKEN: &str = "NameTaken";

/// The writes that make them equal.
#[derive(Clone, Debug, PartialEq)]
pub struct Adoption {
    /// Edits of the copy, to be written to the original first.
    pub edits: Option<EditableFields>,
    /// The copy as it should be, if it is missing or differs.
    pub copy: Option<Pipeline>,
    /// The status of the original.
    pub status: PipelineStatus,
}

/// The fields that people may edit on the original and on the copy.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct EditableFields {
    /// Whether the whole pipeline is suspended.
    pub suspend: bool,
    /// The environments that are suspended.
    pub suspended: BTreeSet<String>,
    /// The request in the annotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

/// Compares an original with the Pipeline of its name.
pub fn adopt(original: &WegoPipeline, found: Option<&Pipeline>, now: Timestamp) -> Adoption {
    let own = found.filter(|found| is_copy(found, original));
    let status = original.status.clone().unwrap_or_default();
    if found.is_some() && own.is_none() {
        let status = name_taken(original, status, now);
        return Adoption {
            edits: None,
            copy: None,
            status,
        };
    }
    let fields = EditableFields::of(&original.metadata, &original.spec.pipeline);
    let mut wanted = own.map_or_else(|| fields.clone(), |copy| merged(&fields, copy));
    let environments = &original.spec.pipeline.environments;
    wanted
        .suspended
        .retain(|name| environments.iter().any(|it| it.name == *name));
    let copy = copy_of(original, own, &wanted);
    let is_equal = own.is_some_and(|own| is_same(own, &copy));
    Adoption {
        edits: (wanted != fields).then_some(wanted),
        status: match own {
            Some(own) => status_of(original, own, is_equal),
            None => status,
        },
        copy: (!is_equal).then_some(copy),
    }
}

impl EditableFields {
    fn of(metadata: &ObjectMeta, spec: &PipelineSpec) -> Self {
        let environments = spec.environments.iter().filter(|it| it.suspend);
        let annotations = metadata.annotations.as_ref();
        Self {
            suspend: spec.suspend,
            suspended: environments.map(|it| it.name.clone()).collect(),
            request: annotations.and_then(|it| it.get(REQUEST_ANNOTATION).cloned()),
        }
    }

    fn apply(&self, spec: &mut PipelineSpec) {
        spec.suspend = self.suspend;
        for environment in &mut spec.environments {
            environment.suspend = self.suspended.contains(&environment.name);
        }
    }
}

/// The fields of the original where they changed since both were equal, else those of the copy.
fn merged(original: &EditableFields, copy: &Pipeline) -> EditableFields {
    let edited = EditableFields::of(&copy.metadata, &copy.spec);
    let annotations = copy.metadata.annotations.as_ref();
    let base = annotations.and_then(|it| it.get(ADOPTED_ANNOTATION));
    let base = base.and_then(|text| serde_json::from_str(text).ok());
    // Without the annotation, the original decides.
    let base: EditableFields = base.unwrap_or_else(|| edited.clone());
    fn newer<T: PartialEq + Clone>(base: &T, original: &T, copy: &T) -> T {
        if original == base { copy } else { original }.clone()
    }
    let names = original.suspended.union(&edited.suspended);
    let suspended = names.filter(|name| {
        let is_in = |edits: &EditableFields| edits.suspended.contains(*name);
        // An environment that the copy lacks was not edited.
        let is_there = copy.spec.environments.iter().any(|it| it.name == **name);
        let edited = if is_there { &edited } else { &base };
        newer(&is_in(&base), &is_in(original), &is_in(edited))
    });
    EditableFields {
        suspend: newer(&base.suspend, &original.suspend, &edited.suspend),
        suspended: suspended.cloned().collect(),
        request: newer(&base.request, &original.request, &edited.request),
    }
}

/// Whether a Pipeline was made from this very original.
fn is_copy(found: &Pipeline, original: &WegoPipeline) -> bool {
    let owners = found.metadata.owner_references.iter().flatten();
    let uid = original.metadata.uid.as_deref();
    let mut ours = owners.filter(|owner| Some(owner.uid.as_str()) == uid);
    ours.any(|owner| owner.api_version == WegoPipeline::api_version(&()))
}

/// The desired copy. Fields of other writers are kept.
fn copy_of(original: &WegoPipeline, found: Option<&Pipeline>, wanted: &EditableFields) -> Pipeline {
    let mut copy = found.cloned().unwrap_or_default();
    copy.metadata.name.clone_from(&original.metadata.name);
    copy.metadata
        .namespace
        .clone_from(&original.metadata.namespace);
    copy.metadata.labels = Some(labels(original));
    copy.metadata.owner_references = original.controller_owner_ref(&()).map(|it| vec![it]);
    let annotations = copy.metadata.annotations.get_or_insert_default();
    match &wanted.request {
        Some(request) => drop(annotations.insert(REQUEST_ANNOTATION.to_owned(), request.clone())),
        None => drop(annotations.remove(REQUEST_ANNOTATION)),
    }
    let last_equal = serde_json::to_string(wanted).unwrap_or_default();
    annotations.insert(ADOPTED_ANNOTATION.to_owned(), last_equal);
    copy.spec = original.spec.pipeline.clone();
    wanted.apply(&mut copy.spec);
    copy
}

/// The labels of the original, except those by which Flux finds what it applied.
fn labels(original: &WegoPipeline) -> BTreeMap<String, String> {
    let own = original.metadata.labels.iter().flatten();
    let own = own.filter(|(name, _)| !name.contains("toolkit.fluxcd.io/"));
    let mut labels: BTreeMap<_, _> = own.map(|(k, v)| (k.clone(), v.clone())).collect();
    let group = WegoPipeline::group(&()).into_owned();
    labels.insert(ADOPTED_LABEL.to_owned(), group);
    labels
}

fn is_same(one: &Pipeline, other: &Pipeline) -> bool {
    one.spec == other.spec
        && one.metadata.labels == other.metadata.labels
        && one.metadata.annotations == other.metadata.annotations
        && one.metadata.owner_references == other.metadata.owner_references
}

/// The status of the copy for the original. Each object has its own generations, so that of the original
/// is observed once the copy is equal and its own generation is observed.
fn status_of(original: &WegoPipeline, copy: &Pipeline, is_equal: bool) -> PipelineStatus {
    let before = original.status.clone().unwrap_or_default();
    let Some(mut status) = copy.status.clone() else {
        return before;
    };
    let is_observed = is_equal && status.observed_generation == copy.metadata.generation;
    status.observed_generation = match is_observed {
        true => original.metadata.generation,
        false => before.observed_generation,
    };
    status
}

fn name_taken(original: &WegoPipeline, status: PipelineStatus, now: Timestamp) -> PipelineStatus {
    let name = original.metadata.name.as_deref().unwrap_or_default();
    let sentence = format!(
        "there is a Pipeline {name} in {} that was not made from this one: rename or delete one \
         of them",
        Pipeline::group(&())
    );
    let mut taken = PipelineStatus {
        observed_generation: original.metadata.generation,
        conditions: status.conditions,
        ..PipelineStatus::default()
    };
    taken
        .conditions
        .retain(|condition| condition.type_ == READY);
    let verdict = ConditionValue::new("False", NAME_TAKEN, sentence);
    conditions::set(&mut taken.conditions, READY, &verdict, now);
    taken
}

impl Adoption {
    /// Whether somebody else's Pipeline has the name.
    pub fn is_name_taken(&self) -> bool {
        let ready = api::conditions::find(&self.status.conditions, READY);
        ready.is_some_and(|ready| ready.reason == NAME_TAKEN)
    }
}
