//! What the watches have shown: sources, Tekton Pipelines and runs, by what triggers look up.
//!
//! Kept small: only what a plan looks at is stored. A change wakes the triggers it concerns, one
//! that a plan would not notice wakes nobody.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use ::trigger::plan::{DeclaredTypes, ObservedRun, pipeline_needed, relevant_fields};
use api::{PipelineTrigger, tekton, third_party, trigger::TriggerSourceKind};
use kube::core::ApiResource;
use parking_lot::RwLock;
use serde_json::Value;

use super::work::Work;
use runtime::ObjectKey;

/// A kind that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Watched {
    Source(TriggerSourceKind),
    Pipelines,
    Runs,
}

/// Whether a kind is there.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Served {
    /// Not found out yet, or not yet listed.
    NotYetKnown,
    No,
    /// We may not see it; what the server said.
    Forbidden(String),
    Yes(ApiResource),
}

impl Served {
    /// What the server said if we may not see it.
    pub(super) fn refusal(self) -> Option<String> {
        match self {
            Self::Forbidden(because) => Some(because),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Inner {
    served: HashMap<Watched, Served>,
    sources: HashMap<(TriggerSourceKind, ObjectKey), Arc<Value>>,
    pipelines: HashMap<ObjectKey, DeclaredTypes>,
    runs: HashMap<ObjectKey, BTreeMap<String, ObservedRun>>,
    owners: HashMap<ObjectKey, ObjectKey>,
    interests: HashMap<ObjectKey, Interest>,
    by_source: HashMap<(TriggerSourceKind, ObjectKey), BTreeSet<ObjectKey>>,
    by_pipeline: HashMap<ObjectKey, BTreeSet<ObjectKey>>,
}

/// What a trigger looks at.
#[derive(Clone, PartialEq)]
struct Interest {
    source: (TriggerSourceKind, ObjectKey),
    pipeline: Option<ObjectKey>,
}

/// What the watches have shown.
pub(super) struct World {
    inner: RwLock<Inner>,
    work: Arc<Work>,
}

impl World {
    pub(super) fn new(work: Arc<Work>) -> Self {
        Self {
            inner: RwLock::default(),
            work,
        }
    }

    pub(super) fn served(&self, watched: Watched) -> Served {
        let inner = self.inner.read();
        let served = inner.served.get(&watched);
        served.cloned().unwrap_or(Served::NotYetKnown)
    }

    pub(super) fn source(&self, kind: TriggerSourceKind, key: ObjectKey) -> Option<Arc<Value>> {
        self.inner.read().sources.get(&(kind, key)).cloned()
    }

    pub(super) fn pipeline(&self, key: &ObjectKey) -> Option<DeclaredTypes> {
        self.inner.read().pipelines.get(key).cloned()
    }

    /// The runs of a trigger; none of an earlier trigger of the same name.
    pub(super) fn runs(&self, trigger: &ObjectKey, uid: Option<&String>) -> Vec<ObservedRun> {
        let inner = self.inner.read();
        let runs = inner
            .runs
            .get(trigger)
            .into_iter()
            .flat_map(BTreeMap::values);
        let is_own = |run: &&ObservedRun| run.owner.is_none() || run.owner.as_ref() == uid;
        runs.filter(is_own).cloned().collect()
    }

    /// A kind has been listed, or turned out not to be there.
    pub(super) fn note_served(&self, watched: Watched, served: Served) {
        let before = self.inner.write().served.insert(watched, served.clone());
        if before.as_ref() == Some(&served) {
            return;
        }
        if served == Served::No {
            self.replace(watched, &[]);
        }
        self.wake_all();
    }

    fn wake_all(&self) {
        let all: Vec<ObjectKey> = self.inner.read().interests.keys().cloned().collect();
        self.wake(all);
    }

    fn wake(&self, triggers: Vec<ObjectKey>) {
        for key in triggers {
            self.work.add(key);
        }
    }

    /// An object appeared or changed.
    pub(super) fn note(&self, watched: Watched, key: &ObjectKey, object: &Value) {
        let woken = self.inner.write().note(watched, key, object);
        self.wake(woken);
    }

    /// An object went away.
    pub(super) fn forget(&self, watched: Watched, key: &ObjectKey) {
        let woken = self.inner.write().forget(watched, key);
        self.wake(woken);
    }

    /// After a new list: what is not in it is gone.
    pub(super) fn replace(&self, watched: Watched, listed: &[ObjectKey]) {
        let listed: BTreeSet<&ObjectKey> = listed.iter().collect();
        let gone: Vec<ObjectKey> = {
            let inner = self.inner.read();
            let known = inner.known(watched);
            known
                .into_iter()
                .filter(|key| !listed.contains(key))
                .collect()
        };
        for key in gone {
            self.forget(watched, &key);
        }
    }

    /// Follows what a trigger looks at.
    pub(super) fn note_interest(&self, trigger: &PipelineTrigger) {
        self.inner.write().note_interest(trigger);
    }

    /// A trigger is gone.
    pub(super) fn drop_interest(&self, trigger: &ObjectKey) {
        self.inner.write().drop_interest(trigger);
    }
}

impl Inner {
    fn note(&mut self, watched: Watched, key: &ObjectKey, object: &Value) -> Vec<ObjectKey> {
        match watched {
            Watched::Source(kind) => {
                let at = (kind, key.clone());
                let seen = relevant_fields(kind, object);
                if self.sources.get(&at).is_some_and(|known| **known == seen) {
                    return Vec::new();
                }
                self.sources.insert(at.clone(), Arc::new(seen));
                interested(self.by_source.get(&at))
            }
            Watched::Pipelines => {
                let pipeline: tekton::Pipeline = third_party::read(object);
                let types: DeclaredTypes = pipeline
                    .spec
                    .params
                    .into_iter()
                    .filter_map(|parameter| Some((parameter.name, parameter.type_?)))
                    .collect();
                let before = self.pipelines.insert(key.clone(), types.clone());
                if before == Some(types) {
                    return Vec::new();
                }
                interested(self.by_pipeline.get(key))
            }
            Watched::Runs => self.note_run(key, object),
        }
    }

    fn note_run(&mut self, key: &ObjectKey, object: &Value) -> Vec<ObjectKey> {
        let Some((trigger, run)) = ObservedRun::read(object) else {
            return Vec::new();
        };
        let trigger = ObjectKey::new(&key.namespace, &trigger);
        self.owners.insert(key.clone(), trigger.clone());
        let runs = self.runs.entry(trigger.clone()).or_default();
        let before = runs.insert(key.name.clone(), run.clone());
        if before == Some(run) {
            return Vec::new();
        }
        vec![trigger]
    }

    fn forget(&mut self, watched: Watched, key: &ObjectKey) -> Vec<ObjectKey> {
        match watched {
            Watched::Source(kind) => {
                let at = (kind, key.clone());
                self.sources.remove(&at);
                interested(self.by_source.get(&at))
            }
            Watched::Pipelines => {
                self.pipelines.remove(key);
                interested(self.by_pipeline.get(key))
            }
            Watched::Runs => {
                let Some(trigger) = self.owners.remove(key) else {
                    return Vec::new();
                };
                if let Some(runs) = self.runs.get_mut(&trigger) {
                    runs.remove(&key.name);
                    if runs.is_empty() {
                        self.runs.remove(&trigger);
                    }
                }
                vec![trigger]
            }
        }
    }

    fn known(&self, watched: Watched) -> Vec<ObjectKey> {
        match watched {
            Watched::Source(kind) => {
                let sources = self.sources.keys().filter(|(known, _)| *known == kind);
                sources.map(|(_, key)| key.clone()).collect()
            }
            Watched::Pipelines => self.pipelines.keys().cloned().collect(),
            Watched::Runs => self.owners.keys().cloned().collect(),
        }
    }

    fn note_interest(&mut self, trigger: &PipelineTrigger) {
        let key = ObjectKey::of(&trigger.metadata);
        let near = |name: &str| ObjectKey::new(&key.namespace, name);
        let source = &trigger.spec.source;
        let interest = Interest {
            source: (source.kind, near(&source.name)),
            pipeline: pipeline_needed(trigger).map(|name| near(&name)),
        };
        if self.interests.get(&key) == Some(&interest) {
            return;
        }
        self.drop_interest(&key);
        let by_source = self.by_source.entry(interest.source.clone()).or_default();
        by_source.insert(key.clone());
        if let Some(pipeline) = &interest.pipeline {
            let by_pipeline = self.by_pipeline.entry(pipeline.clone()).or_default();
            by_pipeline.insert(key.clone());
        }
        self.interests.insert(key, interest);
    }

    fn drop_interest(&mut self, key: &ObjectKey) {
        let Some(interest) = self.interests.remove(key) else {
            return;
        };
        leave(&mut self.by_source, &interest.source, key);
        if let Some(pipeline) = &interest.pipeline {
            leave(&mut self.by_pipeline, pipeline, key);
        }
    }
}

fn interested(triggers: Option<&BTreeSet<ObjectKey>>) -> Vec<ObjectKey> {
    triggers.into_iter().flatten().cloned().collect()
}

fn leave<At: std::hash::Hash + Eq>(
    index: &mut HashMap<At, BTreeSet<ObjectKey>>,
    at: &At,
    key: &ObjectKey,
) {
    if let Some(triggers) = index.get_mut(at) {
        triggers.remove(key);
        if triggers.is_empty() {
            index.remove(at);
        }
    }
}
