//! The promotions on the hub, kept small: as text, by pipeline, and read again when they are needed.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::atomic::{AtomicBool, Ordering},
};

use api::Promotion;
use futures::StreamExt;
use kube::{
    Api, Client, Resource,
    core::DeserializeGuard,
    runtime::watcher::{self, Event},
};
use parking_lot::RwLock;

use crate::pipeline::follow;
use runtime::ObjectKey;

/// The newest known state of every promotion.
#[derive(Default)]
pub(crate) struct Promotions {
    kept: RwLock<HashMap<ObjectKey, BTreeMap<String, Kept>>>,
    are_known: AtomicBool,
}

struct Kept {
    uid: Option<String>,
    version: u64,
    json: Box<[u8]>,
}

/// What became of a promotion on the hub.
pub(crate) enum Change<'a> {
    /// It came or differs.
    Kept(&'a Promotion),
    /// It went, and this is what it was.
    Gone(&'a Promotion),
    /// All that there are have been read.
    AllKnown,
}

impl Promotions {
    /// Keeps a promotion unless a newer state of it is known; answers whether it was news.
    pub(crate) fn keep(&self, mut promotion: Promotion) -> bool {
        promotion.metadata.managed_fields = None;
        let version = version(&promotion);
        let uid = promotion.metadata.uid.clone();
        let name = name(&promotion);
        let Ok(json) = serde_json::to_vec(&promotion) else {
            return false; // what was read from JSON can be written as JSON
        };
        let mut all = self.kept.write();
        let siblings = all.entry(pipeline_of(&promotion)).or_default();
        let is_newer = |kept: &Kept| kept.uid == uid && kept.version >= version;
        if siblings.get(&name).is_some_and(is_newer) {
            return false;
        }
        let json = json.into();
        siblings.insert(name, Kept { uid, version, json });
        true
    }

    /// The promotions of one pipeline.
    pub(crate) fn of(&self, pipeline: &ObjectKey) -> Vec<Promotion> {
        let all = self.kept.read();
        let kept = all.get(pipeline).into_iter().flat_map(BTreeMap::values);
        kept.filter_map(|kept| serde_json::from_slice(&kept.json).ok())
            .collect()
    }

    /// Forgets one; answers what it was.
    pub(crate) fn remove(&self, pipeline: &ObjectKey, name: &str) -> Option<Promotion> {
        let mut all = self.kept.write();
        let siblings = all.get_mut(pipeline)?;
        let kept = siblings.remove(name)?;
        if siblings.is_empty() {
            all.remove(pipeline);
        }
        serde_json::from_slice(&kept.json).ok()
    }

    /// Whether all that there are have been read once.
    pub(crate) fn are_known(&self) -> bool {
        self.are_known.load(Ordering::Acquire)
    }

    fn keys(&self) -> Vec<(ObjectKey, String)> {
        let all = self.kept.read();
        let keys = all.iter().flat_map(|(pipeline, siblings)| {
            let names = siblings.keys();
            names.map(|name| (pipeline.clone(), name.clone()))
        });
        keys.collect()
    }
}

/// The pipeline a promotion belongs to.
pub(crate) fn pipeline_of(promotion: &Promotion) -> ObjectKey {
    let namespace = promotion.metadata.namespace.as_deref();
    ObjectKey::new(namespace.unwrap_or_default(), &promotion.spec.pipeline)
}

fn name(promotion: &Promotion) -> String {
    promotion.metadata.name.clone().unwrap_or_default()
}

fn version(promotion: &Promotion) -> u64 {
    let version = promotion.metadata.resource_version.as_deref();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

/// Follows the promotions on the hub until dropped.
pub(crate) async fn feed(
    hub: Client,
    namespace: Option<&str>,
    promotions: &Promotions,
    tell: impl Fn(Change<'_>),
) {
    let api: Api<DeserializeGuard<Promotion>> = match namespace {
        Some(namespace) => Api::namespaced(hub, namespace),
        None => Api::all(hub),
    };
    let mut events = std::pin::pin!(follow(api, watcher::Config::default()));
    let mut seen = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Apply(object) => drop(take(promotions, object, &tell)),
            Event::Delete(object) => {
                if let Ok(promotion) = object.0 {
                    drop_one(
                        promotions,
                        &pipeline_of(&promotion),
                        &name(&promotion),
                        &tell,
                    );
                }
            }
            Event::Init => seen.clear(),
            Event::InitApply(object) => seen.extend(take(promotions, object, &tell)),
            Event::InitDone => {
                for key in promotions.keys().iter().filter(|key| !seen.contains(*key)) {
                    drop_one(promotions, &key.0, &key.1, &tell);
                }
                promotions.are_known.store(true, Ordering::Release);
                tell(Change::AllKnown);
            }
        }
    }
}

fn take(
    promotions: &Promotions,
    object: DeserializeGuard<Promotion>,
    tell: &impl Fn(Change<'_>),
) -> Option<(ObjectKey, String)> {
    let key = ObjectKey::of(object.meta());
    match object.0 {
        Ok(promotion) => {
            if promotions.keep(promotion.clone()) {
                tell(Change::Kept(&promotion));
            }
            Some((pipeline_of(&promotion), name(&promotion)))
        }
        Err(error) => {
            tracing::warn!(promotion = %key, %error, "cannot be read");
            None
        }
    }
}

fn drop_one(promotions: &Promotions, pipeline: &ObjectKey, name: &str, tell: &impl Fn(Change<'_>)) {
    if let Some(gone) = promotions.remove(pipeline, name) {
        tell(Change::Gone(&gone));
    }
}
