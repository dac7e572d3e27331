//! Caches the sources, Tekton Pipelines and runs that triggers depend on, and which triggers those are.
//!
//! Only the fields that a plan reads are kept. A change of one of them enqueues the triggers that it
//! concerns; any other change enqueues none.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::Hash,
    sync::Arc,
};

use api::{PipelineTrigger, tekton, third_party, trigger::TriggerSourceKind};
use kube::core::ApiResource;
use parking_lot::RwLock;
use runtime::{ObjectKey, Workers};
use serde_json::Value;

use crate::plan::{DeclaredTypes, ObservedRun, pipeline_needed, relevant_fields};

/// A kind that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WatchedKind {
    Source(TriggerSourceKind),
    Pipelines,
    Runs,
}

/// Whether a kind can be read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum KindAvailability {
    /// Discovery or the first list has not finished yet.
    Unknown,
    NotServed,
    /// RBAC forbids listing it; the API server's message.
    Forbidden(String),
    Served(ApiResource),
}

impl KindAvailability {
    /// `None` while that is unknown.
    pub(super) fn is_served(&self) -> Option<bool> {
        match self {
            Self::Unknown => None,
            Self::NotServed | Self::Forbidden(_) => Some(false),
            Self::Served(_) => Some(true),
        }
    }

    /// The API server's message if listing is forbidden.
    pub(super) fn forbidden_message(self) -> Option<String> {
        match self {
            Self::Forbidden(because) => Some(because),
            _ => None,
        }
    }
}

type SourceKey = (TriggerSourceKind, ObjectKey);

/// The cache. Enqueues triggers at the workers when something they depend on changes.
pub(super) struct DependencyCache {
    contents: RwLock<CacheContents>,
    workers: Arc<Workers<ObjectKey>>,
}

#[derive(Default)]
struct CacheContents {
    kinds: HashMap<WatchedKind, KindAvailability>,
    sources: HashMap<SourceKey, Arc<Value>>,
    pipelines: HashMap<ObjectKey, DeclaredTypes>,
    /// By trigger and name.
    runs: HashMap<ObjectKey, BTreeMap<String, ObservedRun>>,
    trigger_of_run: HashMap<ObjectKey, ObjectKey>,
    references: HashMap<ObjectKey, TriggerReferences>,
    triggers_by_source: HashMap<SourceKey, BTreeSet<ObjectKey>>,
    triggers_by_pipeline: HashMap<ObjectKey, BTreeSet<ObjectKey>>,
}

/// What a trigger refers to.
#[derive(Clone, PartialEq)]
struct TriggerReferences {
    source: SourceKey,
    pipeline: Option<ObjectKey>,
}

impl DependencyCache {
    pub(super) fn new(workers: Arc<Workers<ObjectKey>>) -> Self {
        Self {
            contents: RwLock::default(),
            workers,
        }
    }

    pub(super) fn availability(&self, kind: WatchedKind) -> KindAvailability {
        let contents = self.contents.read();
        let availability = contents.kinds.get(&kind).cloned();
        availability.unwrap_or(KindAvailability::Unknown)
    }

    pub(super) fn source(&self, kind: TriggerSourceKind, key: ObjectKey) -> Option<Arc<Value>> {
        self.contents.read().sources.get(&(kind, key)).cloned()
    }

    pub(super) fn pipeline(&self, key: &ObjectKey) -> Option<DeclaredTypes> {
        self.contents.read().pipelines.get(key).cloned()
    }

    /// The runs of a trigger, without those of an earlier trigger of the same name.
    pub(super) fn runs(&self, trigger: &ObjectKey, uid: Option<&String>) -> Vec<ObservedRun> {
        let contents = self.contents.read();
        let runs = contents.runs.get(trigger).into_iter();
        let runs = runs.flat_map(BTreeMap::values);
        let is_own = |run: &&ObservedRun| run.owner.is_none() || run.owner.as_ref() == uid;
        runs.filter(is_own).cloned().collect()
    }

    /// A kind has been listed, or is not available.
    pub(super) fn set_availability(&self, kind: WatchedKind, availability: KindAvailability) {
        let is_removed = availability == KindAvailability::NotServed;
        let all_triggers: Vec<ObjectKey> = {
            let mut contents = self.contents.write();
            let before = contents.kinds.insert(kind, availability.clone());
            if before.as_ref() == Some(&availability) {
                return;
            }
            contents.references.keys().cloned().collect()
        };
        if is_removed {
            self.retain(kind, &[]);
        }
        self.enqueue(all_triggers);
    }

    fn enqueue(&self, triggers: Vec<ObjectKey>) {
        for key in triggers {
            self.workers.enqueue(key);
        }
    }

    /// An object was created or changed.
    pub(super) fn apply(&self, kind: WatchedKind, key: &ObjectKey, object: &Value) {
        let concerned = self.contents.write().apply(kind, key, object);
        self.enqueue(concerned);
    }

    /// An object was deleted.
    pub(super) fn remove(&self, kind: WatchedKind, key: &ObjectKey) {
        let concerned = self.contents.write().remove(kind, key);
        self.enqueue(concerned);
    }

    /// After a list: removes what is not in it.
    pub(super) fn retain(&self, kind: WatchedKind, listed: &[ObjectKey]) {
        let listed: BTreeSet<&ObjectKey> = listed.iter().collect();
        let mut cached = self.contents.read().keys(kind);
        cached.retain(|key| !listed.contains(key));
        for key in cached {
            self.remove(kind, &key);
        }
    }

    /// Indexes what a trigger refers to.
    pub(super) fn set_references(&self, trigger: &PipelineTrigger) {
        self.contents.write().set_references(trigger);
    }

    /// A trigger was deleted.
    pub(super) fn remove_references(&self, trigger: &ObjectKey) {
        self.contents.write().remove_references(trigger);
    }
}

/// Changes return the triggers that they concern.
impl CacheContents {
    fn apply(&mut self, kind: WatchedKind, key: &ObjectKey, object: &Value) -> Vec<ObjectKey> {
        match kind {
            WatchedKind::Source(kind) => {
                let source = (kind, key.clone());
                let fields = relevant_fields(kind, object);
                if self.sources.get(&source).is_some_and(|it| **it == fields) {
                    return Vec::new();
                }
                self.sources.insert(source.clone(), Arc::new(fields));
                keys_in(self.triggers_by_source.get(&source))
            }
            WatchedKind::Pipelines => {
                let types = declared_types(object);
                let before = self.pipelines.insert(key.clone(), types.clone());
                if before == Some(types) {
                    return Vec::new();
                }
                keys_in(self.triggers_by_pipeline.get(key))
            }
            WatchedKind::Runs => self.apply_run(key, object),
        }
    }

    fn apply_run(&mut self, key: &ObjectKey, object: &Value) -> Vec<ObjectKey> {
        let Some((trigger, run)) = ObservedRun::read(object) else {
            return Vec::new();
        };
        let trigger = ObjectKey::new(&key.namespace, &trigger);
        self.trigger_of_run.insert(key.clone(), trigger.clone());
        let runs = self.runs.entry(trigger.clone()).or_default();
        let before = runs.insert(key.name.clone(), run.clone());
        if before == Some(run) {
            return Vec::new();
        }
        vec![trigger]
    }

    fn remove(&mut self, kind: WatchedKind, key: &ObjectKey) -> Vec<ObjectKey> {
        match kind {
            WatchedKind::Source(kind) => {
                let source = (kind, key.clone());
                self.sources.remove(&source);
                keys_in(self.triggers_by_source.get(&source))
            }
            WatchedKind::Pipelines => {
                self.pipelines.remove(key);
                keys_in(self.triggers_by_pipeline.get(key))
            }
            WatchedKind::Runs => {
                let Some(trigger) = self.trigger_of_run.remove(key) else {
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

    fn keys(&self, kind: WatchedKind) -> Vec<ObjectKey> {
        match kind {
            WatchedKind::Source(kind) => {
                let sources = self.sources.keys().filter(|(cached, _)| *cached == kind);
                sources.map(|(_, key)| key.clone()).collect()
            }
            WatchedKind::Pipelines => self.pipelines.keys().cloned().collect(),
            WatchedKind::Runs => self.trigger_of_run.keys().cloned().collect(),
        }
    }

    fn set_references(&mut self, trigger: &PipelineTrigger) {
        let key = ObjectKey::of(&trigger.metadata);
        let in_namespace = |name: &str| ObjectKey::new(&key.namespace, name);
        let source = &trigger.spec.source;
        let references = TriggerReferences {
            source: (source.kind, in_namespace(&source.name)),
            pipeline: pipeline_needed(trigger).map(|name| in_namespace(&name)),
        };
        if self.references.get(&key) == Some(&references) {
            return;
        }
        self.remove_references(&key);
        let by_source = &mut self.triggers_by_source;
        let triggers = by_source.entry(references.source.clone()).or_default();
        triggers.insert(key.clone());
        if let Some(pipeline) = &references.pipeline {
            let by_pipeline = &mut self.triggers_by_pipeline;
            let triggers = by_pipeline.entry(pipeline.clone()).or_default();
            triggers.insert(key.clone());
        }
        self.references.insert(key, references);
    }

    fn remove_references(&mut self, key: &ObjectKey) {
        let Some(references) = self.references.remove(key) else {
            return;
        };
        remove_from_index(&mut self.triggers_by_source, &references.source, key);
        if let Some(pipeline) = &references.pipeline {
            remove_from_index(&mut self.triggers_by_pipeline, pipeline, key);
        }
    }
}

fn declared_types(pipeline: &Value) -> DeclaredTypes {
    let pipeline: tekton::Pipeline = third_party::read(pipeline);
    let parameters = pipeline.spec.params.into_iter();
    let types = parameters.filter_map(|parameter| Some((parameter.name, parameter.type_?)));
    types.collect()
}

fn keys_in(triggers: Option<&BTreeSet<ObjectKey>>) -> Vec<ObjectKey> {
    triggers.into_iter().flatten().cloned().collect()
}

fn remove_from_index<R: Hash + Eq>(
    index: &mut HashMap<R, BTreeSet<ObjectKey>>,
    referenced: &R,
    trigger: &ObjectKey,
) {
    if let Some(triggers) = index.get_mut(referenced) {
        triggers.remove(trigger);
        if triggers.is_empty() {
            index.remove(referenced);
        }
    }
}
