//! What the watches have shown: sources, Tekton Pipelines and runs, by what triggers look up.
//!
//! Kept small: only what a plan looks at is stored. A change wakes the triggers it concerns, one
//! that a plan would not notice wakes nobody.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use api::{PipelineTrigger, foreign, tekton, trigger::TriggerSourceKind};
use kube::{
    Resource,
    core::{ApiResource, DynamicObject, ObjectMeta},
    runtime::{reflector::ObjectRef, watcher},
};
use parking_lot::RwLock;
use planner::trigger::{DeclaredTypes, Run, essence, pipeline_needed};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

/// An object's namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Key {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    pub(super) fn of_dynamic(object: &DynamicObject) -> Self {
        Self::of_metadata(&object.metadata)
    }

    pub(super) fn of(object: &impl Resource) -> Self {
        Self::of_metadata(object.meta())
    }

    fn of_metadata(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(text, "{}/{}", self.namespace, self.name)
    }
}

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
    Yes(ApiResource),
}

#[derive(Default)]
struct Inner {
    served: HashMap<Watched, Served>,
    sources: HashMap<(TriggerSourceKind, Key), Arc<Value>>,
    pipelines: HashMap<Key, DeclaredTypes>,
    runs: HashMap<Key, BTreeMap<String, Run>>,
    owners: HashMap<Key, Key>,
    interests: HashMap<Key, Interest>,
    by_source: HashMap<(TriggerSourceKind, Key), BTreeSet<Key>>,
    by_pipeline: HashMap<Key, BTreeSet<Key>>,
    listed: BTreeSet<Key>,
}

/// What a trigger looks at.
#[derive(Clone, PartialEq)]
struct Interest {
    source: (TriggerSourceKind, Key),
    pipeline: Option<Key>,
}

/// What the watches have shown.
pub(super) struct World {
    inner: RwLock<Inner>,
    wake: UnboundedSender<ObjectRef<PipelineTrigger>>,
}

impl World {
    pub(super) fn new(wake: UnboundedSender<ObjectRef<PipelineTrigger>>) -> Self {
        Self {
            inner: RwLock::default(),
            wake,
        }
    }

    pub(super) fn served(&self, watched: Watched) -> Served {
        let inner = self.inner.read();
        let served = inner.served.get(&watched);
        served.cloned().unwrap_or(Served::NotYetKnown)
    }

    pub(super) fn source(&self, kind: TriggerSourceKind, key: Key) -> Option<Arc<Value>> {
        self.inner.read().sources.get(&(kind, key)).cloned()
    }

    pub(super) fn pipeline(&self, key: &Key) -> Option<DeclaredTypes> {
        self.inner.read().pipelines.get(key).cloned()
    }

    /// The runs of a trigger; none of an earlier trigger of the same name.
    pub(super) fn runs(&self, trigger: &Key, uid: Option<&String>) -> Vec<Run> {
        let inner = self.inner.read();
        let runs = inner
            .runs
            .get(trigger)
            .into_iter()
            .flat_map(BTreeMap::values);
        let is_own = |run: &&Run| run.owner.is_none() || run.owner.as_ref() == uid;
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

    pub(super) fn wake_all(&self) {
        let all: Vec<Key> = self.inner.read().interests.keys().cloned().collect();
        self.wake(all);
    }

    fn wake(&self, triggers: impl IntoIterator<Item = Key>) {
        for key in triggers {
            let object = ObjectRef::new(&key.name).within(&key.namespace);
            // Nobody listens any more only when the loop has ended.
            let _ = self.wake.send(object);
        }
    }

    /// An object appeared or changed.
    pub(super) fn note(&self, watched: Watched, key: &Key, object: &Value) {
        let woken = self.inner.write().note(watched, key, object);
        self.wake(woken);
    }

    /// An object went away.
    pub(super) fn forget(&self, watched: Watched, key: &Key) {
        let woken = self.inner.write().forget(watched, key);
        self.wake(woken);
    }

    /// After a new list: what is not in it is gone.
    pub(super) fn replace(&self, watched: Watched, listed: &[Key]) {
        let listed: BTreeSet<&Key> = listed.iter().collect();
        let gone: Vec<Key> = {
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

    /// Follows what triggers look at; says which ones are gone.
    pub(super) fn note_trigger(&self, event: &watcher::Event<PipelineTrigger>) -> Vec<Key> {
        let mut inner = self.inner.write();
        match event {
            watcher::Event::Apply(trigger) => inner.note_interest(trigger),
            watcher::Event::InitApply(trigger) => {
                inner.listed.insert(Key::of(trigger));
                inner.note_interest(trigger);
            }
            watcher::Event::Delete(trigger) => {
                inner.drop_interest(&Key::of(trigger));
                return vec![Key::of(trigger)];
            }
            watcher::Event::Init => inner.listed.clear(),
            watcher::Event::InitDone => {
                let listed = std::mem::take(&mut inner.listed);
                let known = inner.interests.keys().cloned();
                let gone: Vec<Key> = known.filter(|key| !listed.contains(key)).collect();
                gone.iter().for_each(|key| inner.drop_interest(key));
                return gone;
            }
        }
        Vec::new()
    }
}

impl Inner {
    fn note(&mut self, watched: Watched, key: &Key, object: &Value) -> Vec<Key> {
        match watched {
            Watched::Source(kind) => {
                let at = (kind, key.clone());
                let seen = essence(kind, object);
                if self.sources.get(&at).is_some_and(|known| **known == seen) {
                    return Vec::new();
                }
                self.sources.insert(at.clone(), Arc::new(seen));
                interested(self.by_source.get(&at))
            }
            Watched::Pipelines => {
                let pipeline: tekton::Pipeline = foreign::read(object);
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

    fn note_run(&mut self, key: &Key, object: &Value) -> Vec<Key> {
        let Some((trigger, run)) = Run::read(object) else {
            return Vec::new();
        };
        let trigger = Key::new(&key.namespace, &trigger);
        self.owners.insert(key.clone(), trigger.clone());
        let runs = self.runs.entry(trigger.clone()).or_default();
        let before = runs.insert(key.name.clone(), run.clone());
        if before == Some(run) {
            return Vec::new();
        }
        vec![trigger]
    }

    fn forget(&mut self, watched: Watched, key: &Key) -> Vec<Key> {
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

    fn known(&self, watched: Watched) -> Vec<Key> {
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
        let key = Key::of(trigger);
        let near = |name: &str| Key::new(&key.namespace, name);
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

    fn drop_interest(&mut self, key: &Key) {
        let Some(interest) = self.interests.remove(key) else {
            return;
        };
        leave(&mut self.by_source, &interest.source, key);
        if let Some(pipeline) = &interest.pipeline {
            leave(&mut self.by_pipeline, pipeline, key);
        }
    }
}

fn interested(triggers: Option<&BTreeSet<Key>>) -> Vec<Key> {
    triggers.into_iter().flatten().cloned().collect()
}

fn leave<At: std::hash::Hash + Eq>(index: &mut HashMap<At, BTreeSet<Key>>, at: &At, key: &Key) {
    if let Some(triggers) = index.get_mut(at) {
        triggers.remove(key);
        if triggers.is_empty() {
            index.remove(at);
        }
    }
}
