//! Removes what has no right to stay: objects whose owners are gone, what is in a namespace or of a
//! definition that is being deleted, and (in `cascade`) the dependents of what goes in the
//! foreground.
//!
//! One task follows the store's changes. It keeps an index of who owns what and nothing else, and
//! it ends with its server.

mod cascade;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Weak},
};

use serde_json::{Value, json};

use crate::{
    Inner, Server,
    builtin::{CLEANUP_FINALIZER, DEFINITIONS, NAMESPACES},
    definitions, metadata,
    resource::Resource,
    store::{Event, Key, Revision},
    verbs::{Deletion, Manner, change_object, delete_object, target_of},
};

const BATCH: usize = 256;
/// What is in the text of every object with owners.
const OWNED: &str = "\"ownerReferences\"";

/// Starts the collector of a server.
pub(crate) fn spawn(server: &Server) {
    let mut risen = server.store().risen();
    let inner = server.downgrade();
    tokio::spawn(async move {
        let mut collector = Collector::default();
        // The store may be older than this server: its history is not for us to act on.
        match inner.upgrade() {
            Some(inner) => collector.start_over(&Server(inner)).await,
            None => return,
        }
        loop {
            let _ = risen.borrow_and_update();
            if collector.catch_up(&inner).await.is_none() || risen.changed().await.is_err() {
                return;
            }
        }
    });
}

#[derive(Default)]
struct Collector {
    revision: Revision,
    /// Which objects name an owner, by the owner's uid.
    owned: HashMap<String, BTreeSet<Key>>,
}

impl Collector {
    /// Handles all changes so far; `None` when the server is gone.
    async fn catch_up(&mut self, inner: &Weak<Inner>) -> Option<()> {
        loop {
            // Held only while there is something to do, so that the server can go away.
            let server = Server(inner.upgrade()?);
            match server.store().changes(self.revision, BATCH) {
                Ok(changes) if changes.is_empty() => return Some(()),
                Ok(changes) => {
                    for change in changes {
                        self.revision = change.revision;
                        self.handle(&server, &change).await;
                    }
                }
                Err(_) => self.start_over(&server).await,
            }
        }
    }

    /// Looks at everything there is: the changes since the last look are no longer known.
    async fn start_over(&mut self, server: &Server) {
        self.owned.clear();
        self.revision = server.store().revision();
        let mut keys = Vec::new();
        for resource in server.registry().all() {
            let Ok(snapshot) = server.store().list(&resource.storage, "", None) else {
                continue;
            };
            for (key, object) in snapshot.objects {
                self.index(&key, None, Some(&object.value()));
                keys.push(key);
            }
        }
        for key in &keys {
            self.judge(server, key).await;
        }
        let owners: Vec<String> = self.owned.keys().cloned().collect();
        for uid in owners {
            self.release_owned(server, &uid).await;
        }
    }

    async fn handle(&mut self, server: &Server, change: &Event) {
        let key = &change.key;
        let (before, now) = [&change.previous, &change.object]
            .map(|kept| kept.as_ref().filter(|kept| kept.mentions(OWNED)))
            .map(|kept| kept.map(|kept| kept.value()))
            .into();
        self.index(key, before.as_deref(), now.as_deref());
        match (&change.object, &change.tombstone) {
            (Some(_), _) => self.judge(server, key).await,
            (None, Some(last)) => {
                let last = &*last.value();
                self.continue_owners(server, last).await;
                self.release_owned(server, metadata::text(last, "/metadata/uid"))
                    .await;
                self.finish_container(server, key, last).await;
            }
            (None, None) => {}
        }
    }

    fn index(&mut self, key: &Key, before: Option<&Value>, now: Option<&Value>) {
        for uid in before.into_iter().flat_map(owner_uids) {
            if let Some(keys) = self.owned.get_mut(uid) {
                keys.remove(key);
                if keys.is_empty() {
                    self.owned.remove(uid);
                }
            }
        }
        for uid in now.into_iter().flat_map(owner_uids) {
            self.owned
                .entry(uid.to_owned())
                .or_default()
                .insert(key.clone());
        }
    }

    /// Whether an object may stay as it is now: what it was when it changed no longer counts.
    async fn judge(&mut self, server: &Server, key: &Key) {
        let Some(stored) = server.store().kept(key) else {
            return;
        };
        // Most objects have nothing but their place that could end them.
        if !stored.mentions(OWNED) && !metadata::is_stored_deleting(&stored) {
            return remove_from_missing_namespace(server, key).await;
        }
        let object = &*stored.value();
        if owner_uids(object).next().is_some() {
            check_owners(server, key).await;
        }
        if metadata::is_deleting(object) {
            self.cascade(server, key, object).await;
        }
        if &*key.resource == NAMESPACES && metadata::is_deleting(object) {
            empty_namespace(server, &key.path).await;
        } else if &*key.resource == DEFINITIONS && metadata::is_deleting(object) {
            empty_definition(server, object).await;
        } else {
            remove_from_missing_namespace(server, key).await;
        }
    }

    async fn release_owned(&mut self, server: &Server, uid: &str) {
        for key in self.owned.get(uid).cloned().unwrap_or_default() {
            check_owners(server, &key).await;
        }
    }

    /// The last object may have left a namespace or definition that waits for it.
    async fn finish_container(&mut self, server: &Server, key: &Key, last: &Value) {
        if let Some(namespace) = metadata::namespace_of(last)
            && stored(server, NAMESPACES, namespace).is_some_and(|it| metadata::is_deleting(&it))
        {
            empty_namespace(server, namespace).await;
        }
        let definition = key
            .resource
            .split_once('/')
            .map(|(group, plural)| format!("{plural}.{group}"));
        if let Some(crd) = definition.and_then(|name| stored(server, DEFINITIONS, &name))
            && metadata::is_deleting(&crd)
        {
            empty_definition(server, &crd).await;
        }
    }
}

fn owner_uids(object: &Value) -> impl Iterator<Item = &str> {
    let owners = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    owners
        .into_iter()
        .flatten()
        .filter_map(|owner| owner["uid"].as_str())
}

fn stored(server: &Server, storage: &str, name: &str) -> Option<Arc<Value>> {
    server.store().get(&Key::new(storage.into(), None, name))
}

/// Deletes an object none of whose owners exists, or drops the references to those that do not.
async fn check_owners(server: &Server, key: &Key) {
    let Some(resource) = server.registry().stored_as(&key.resource) else {
        return;
    };
    let Some(object) = server.store().get(key) else {
        return;
    };
    let owners = object["metadata"]["ownerReferences"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let (present, absent): (Vec<Value>, Vec<Value>) = owners
        .into_iter()
        .partition(|owner| !is_absent(server, &object, owner));
    if absent.is_empty() || metadata::is_deleting(&object) {
        return;
    }
    if present.is_empty() {
        let _ = delete_object(server, &resource, key, &Deletion::internal_of(&object)).await;
        return;
    }
    let target = target_of(resource, &object);
    // A failure means that the object changed: that change is looked at in its turn.
    let _ = change_object(server, &target, &Manner::internal(), |live| {
        let mut new = live.object.clone();
        if let Some(owners) = new["metadata"]["ownerReferences"].as_array_mut() {
            owners.retain(|owner| !absent.contains(owner));
        }
        Ok(new.into())
    })
    .await;
}

/// Whether the owner certainly does not exist. Owners of unknown kinds get the benefit of doubt.
fn is_absent(server: &Server, dependent: &Value, owner: &Value) -> bool {
    let api_version = metadata::text(owner, "/apiVersion");
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let Some(resource) = server
        .registry()
        .of_kind(group, metadata::text(owner, "/kind"))
    else {
        return false;
    };
    let namespace = metadata::namespace_of(dependent);
    if resource.namespaced && namespace.is_none() {
        return false;
    }
    let found = server
        .store()
        .get(&resource.key(namespace, metadata::text(owner, "/name")));
    found.is_none_or(|found| found["metadata"]["uid"] != owner["uid"])
}

/// Deletes all that is in a namespace, and the namespace once nothing is left.
async fn empty_namespace(server: &Server, namespace: &str) {
    let mut storages: Vec<Arc<Resource>> = server.registry().all();
    storages.retain(|resource| resource.namespaced);
    let prefix = format!("{namespace}/");
    if delete_all(server, &storages, &prefix).await > 0 {
        return;
    }
    release(server, NAMESPACES, namespace, |object| {
        object["spec"]["finalizers"] = json!([]);
    })
    .await;
}

/// Deletes all objects of a definition, and the definition once none is left.
async fn empty_definition(server: &Server, crd: &Value) {
    let storage = definitions::storage_of(crd);
    let resources: Vec<Arc<Resource>> = server.registry().stored_as(&storage).into_iter().collect();
    if delete_all(server, &resources, "").await > 0 {
        return;
    }
    release(server, DEFINITIONS, metadata::name_of(crd), |object| {
        if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
            finalizers.retain(|finalizer| finalizer != CLEANUP_FINALIZER);
        }
    })
    .await;
}

/// Deletes what can be deleted; says how much is left.
async fn delete_all(server: &Server, resources: &[Arc<Resource>], prefix: &str) -> usize {
    let mut left = 0;
    for resource in resources {
        let Ok(snapshot) = server.store().list(&resource.storage, prefix, None) else {
            continue;
        };
        for (key, _) in snapshot.objects {
            let _ = delete_object(server, resource, &key, &Deletion::internal()).await;
            left += usize::from(server.store().kept(&key).is_some());
        }
    }
    left
}

async fn release(server: &Server, storage: &str, name: &str, change: impl Fn(&mut Value)) {
    let Some(resource) = server.registry().stored_as(storage) else {
        return;
    };
    let Some(object) = stored(server, storage, name) else {
        return;
    };
    let target = target_of(resource, &object);
    let _ = change_object(server, &target, &Manner::internal(), |live| {
        let mut new = live.object.clone();
        change(&mut new);
        Ok(new.into())
    })
    .await;
}

/// An object that was created while its namespace went away.
async fn remove_from_missing_namespace(server: &Server, key: &Key) {
    let Some((namespace, _)) = key.path.split_once('/') else {
        return;
    };
    let namespace = Key::new(NAMESPACES.into(), None, namespace);
    if server.store().kept(&namespace).is_none()
        && let Some(resource) = server.registry().stored_as(&key.resource)
    {
        let _ = delete_object(server, &resource, key, &Deletion::internal()).await;
    }
}
