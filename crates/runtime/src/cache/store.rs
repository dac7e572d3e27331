//! The objects of a cache and the rules by which one state replaces another. No I/O, no callbacks.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use super::{CacheConfig, CachedKind};
use crate::{ObjectKey, ResourceVersion};

/// How many deletions are remembered. A response that is later than so many deletions is not expected.
const REMEMBERED_DELETIONS: usize = 1024;

/// Where a state of an object comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StateSource {
    /// The watch, which delivers states in order.
    Watch,
    /// The response to a request, which may be older than what the watch delivered meanwhile.
    Response,
}

/// A state that was stored.
pub(super) struct AppliedObject<K> {
    pub(super) object: Arc<K>,
    /// The state before, where the cache keeps parsed objects.
    pub(super) previous: Option<Arc<K>>,
    /// The last state of an object of the same name that must have been deleted before.
    pub(super) recreated: Option<Arc<K>>,
}

pub(super) struct ObjectStore<K> {
    config: CacheConfig<K>,
    objects: HashMap<ObjectKey, CachedObject<K>>,
    children: HashMap<ObjectKey, BTreeSet<ObjectKey>>,
    recent_deletions: RecentDeletions,
    /// The objects that were listed or written since the watch began to list; none while it does not.
    listing: Option<HashSet<ObjectKey>>,
}

struct CachedObject<K> {
    uid: Option<String>,
    version: ResourceVersion,
    parent: Option<ObjectKey>,
    content: Content<K>,
}

enum Content<K> {
    Json(Box<str>),
    Parsed(Arc<K>),
}

impl<K: CachedKind> Content<K> {
    fn read(&self) -> Option<Arc<K>> {
        match self {
            Self::Parsed(object) => Some(object.clone()),
            // What was written by the same type can be read by it.
            Self::Json(json) => serde_json::from_str(json).ok().map(Arc::new),
        }
    }
}

impl<K: CachedKind> ObjectStore<K> {
    pub(super) fn new(config: CacheConfig<K>) -> Self {
        Self {
            config,
            objects: HashMap::new(),
            children: HashMap::new(),
            recent_deletions: RecentDeletions::default(),
            listing: None,
        }
    }

    /// Stores a state unless a newer one is known or the object was deleted.
    pub(super) fn apply(&mut self, source: StateSource, mut object: K) -> Option<AppliedObject<K>> {
        let key = ObjectKey::of(object.meta());
        let uid = object.meta().uid.clone();
        if self.recent_deletions.refuses(source, &object) {
            return None;
        }
        let known = self.objects.get(&key);
        if known.is_some_and(|known| !known.is_replaced_by(source, &object)) {
            return None;
        }
        if let (StateSource::Response, Some(listing)) = (source, &mut self.listing) {
            listing.insert(key.clone());
        }
        (self.config.trim)(&mut object);
        let object = Arc::new(object);
        let stored = self.to_stored(&object)?;
        let before = self.insert(key, stored);
        let (mut previous, mut recreated) = (None, None);
        match before {
            Some(before) if before.uid == uid => {
                if let Content::Parsed(object) = before.content {
                    previous = Some(object);
                }
            }
            Some(before) => {
                recreated = before.content.read();
                self.recent_deletions
                    .insert(before.uid, Some(before.version));
            }
            None => {}
        }
        Some(AppliedObject {
            object,
            previous,
            recreated,
        })
    }

    fn to_stored(&self, object: &Arc<K>) -> Option<CachedObject<K>> {
        let content = match self.config.keep_parsed {
            true => Content::Parsed(object.clone()),
            // What was read from JSON can be written as JSON.
            false => Content::Json(serde_json::to_string(&**object).ok()?.into()),
        };
        let metadata = object.meta();
        Some(CachedObject {
            uid: metadata.uid.clone(),
            version: ResourceVersion::of(metadata),
            parent: (self.config.parent)(object),
            content,
        })
    }

    fn insert(&mut self, key: ObjectKey, stored: CachedObject<K>) -> Option<CachedObject<K>> {
        let known = self.objects.get(&key);
        if known.is_none_or(|known| known.parent != stored.parent) {
            let old_parent = known.and_then(|known| known.parent.clone());
            self.remove_child(old_parent.as_ref(), &key);
            if let Some(parent) = &stored.parent {
                let children = self.children.entry(parent.clone()).or_default();
                children.insert(key.clone());
            }
        }
        self.objects.insert(key, stored)
    }

    fn remove_child(&mut self, parent: Option<&ObjectKey>, key: &ObjectKey) {
        let Some(parent) = parent else { return };
        if let Some(children) = self.children.get_mut(parent) {
            children.remove(key);
            if children.is_empty() {
                self.children.remove(parent);
            }
        }
    }

    /// Removes an object, if it is the one with that uid; returns its last state.
    pub(super) fn remove(&mut self, key: &ObjectKey, uid: Option<&str>) -> Option<Arc<K>> {
        let known = self.objects.get(key);
        if known.is_none_or(|known| uid.is_some() && known.uid.as_deref() != uid) {
            self.recent_deletions.insert(uid.map(str::to_owned), None);
            return None;
        }
        let removed = self.objects.remove(key)?;
        self.remove_child(removed.parent.as_ref(), key);
        self.recent_deletions
            .insert(removed.uid, Some(removed.version));
        removed.content.read()
    }

    /// The watch begins to list all objects.
    pub(super) fn begin_listing(&mut self) {
        self.listing = Some(HashSet::new());
    }

    /// The watch listed an object.
    pub(super) fn mark_listed(&mut self, key: &ObjectKey) {
        if let Some(listing) = &mut self.listing {
            listing.insert(key.clone());
        }
    }

    /// The watch listed all objects; returns those that do not exist any more, with their uids.
    pub(super) fn end_listing(&mut self) -> Vec<(ObjectKey, Option<String>)> {
        let listed = self.listing.take().unwrap_or_default();
        let objects = self.objects.iter();
        let missing = objects.filter(|(key, _)| !listed.contains(*key));
        let mut missing: Vec<_> = missing
            .map(|(key, stored)| (key.clone(), stored.uid.clone()))
            .collect();
        missing.sort_unstable();
        missing
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.objects.get(key)?.content.read()
    }

    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
    }

    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        let mut keys: Vec<ObjectKey> = self.objects.keys().cloned().collect();
        // What is done for each of them is done in the same order in every process.
        keys.sort_unstable();
        keys
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn all(&self) -> Vec<Arc<K>> {
        let objects = self.objects.values();
        objects.filter_map(|stored| stored.content.read()).collect()
    }

    pub(super) fn children(&self, parent: &ObjectKey) -> Vec<Arc<K>> {
        let children = self.children.get(parent).into_iter().flatten();
        children.filter_map(|key| self.get(key)).collect()
    }
}

impl<K: CachedKind> CachedObject<K> {
    fn is_replaced_by(&self, source: StateSource, object: &K) -> bool {
        let version = ResourceVersion::of(object.meta());
        match source {
            StateSource::Watch => version != self.version && !self.version.is_newer_than(&version),
            StateSource::Response => version.is_newer_than(&self.version),
        }
    }
}

/// The objects that were deleted last: by uid, the last version that was stored, if one was.
#[derive(Default)]
struct RecentDeletions {
    versions: HashMap<Arc<str>, Option<ResourceVersion>>,
    oldest_first: VecDeque<Arc<str>>,
}

impl RecentDeletions {
    /// Whether a state is one from before the deletion of its object. The watch delivers later states of
    /// an object that only left a label selector, too.
    fn refuses<K: CachedKind>(&self, source: StateSource, object: &K) -> bool {
        let uid = object.meta().uid.as_deref();
        let Some(deleted) = uid.and_then(|uid| self.versions.get(uid)) else {
            return false;
        };
        match (source, deleted) {
            (StateSource::Response, _) | (StateSource::Watch, None) => true,
            (StateSource::Watch, Some(deleted)) => {
                let version = ResourceVersion::of(object.meta());
                version == *deleted || deleted.is_newer_than(&version)
            }
        }
    }

    fn insert(&mut self, uid: Option<String>, version: Option<ResourceVersion>) {
        let Some(uid) = uid.map(Arc::<str>::from) else {
            return;
        };
        if self.versions.insert(uid.clone(), version).is_some() {
            return;
        }
        self.oldest_first.push_back(uid);
        if self.oldest_first.len() > REMEMBERED_DELETIONS
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.versions.remove(&oldest);
        }
    }
}
