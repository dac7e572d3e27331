//! The garbage collector: deletes objects whose owner, namespace or definition is gone.
//!
//! One task follows the store's events with an index of dependents by owner. It also finishes
//! foreground and orphan deletions (`cascade`). After a write that the store could not make, it checks
//! all objects again. It ends with its server.

mod cascade;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::{
    Server, ServerState,
    builtin::{CLEANUP_FINALIZER, DEFINITIONS, NAMESPACES},
    definitions, metadata,
    resource::Resource,
    status::ApiError,
    store::{StoreEvent, StoreKey, StoreRevision},
    verbs::{DeleteOptions, WriteOptions, change_object, delete_object, target_for},
};

const BATCH_SIZE: usize = 256;
/// In the text of every object with owners.
const OWNER_REFERENCES: &str = "\"ownerReferences\"";
/// How long after a failed write all objects are checked again.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Starts the garbage collector of a server.
pub(crate) fn spawn(server: &Server) {
    let mut revision_watch = server.store().revision_watch();
    let server = server.downgrade();
    tokio::spawn(async move {
        let mut collector = GarbageCollector::default();
        // The history of an opened store need not contain all that happened since its last start.
        let mut resync_at = Some(Instant::now());
        loop {
            revision_watch.update();
            let is_due = resync_at.take_if(|at| *at <= Instant::now()).is_some();
            if collector.handle_events(&server, is_due).await.is_none() {
                return;
            }
            if collector.has_failed.swap(false, Ordering::Relaxed) {
                resync_at.get_or_insert_with(|| Instant::now() + RETRY_DELAY);
            }
            let wake_at = resync_at.unwrap_or_else(|| Instant::now() + RETRY_DELAY);
            tokio::select! {
                biased;
                () = sleep_until(wake_at), if resync_at.is_some() => {}
                changed = revision_watch.changed() => if changed.is_err() { return },
            }
        }
    });
}

#[derive(Default)]
struct GarbageCollector {
    /// Events up to this revision were handled.
    revision: StoreRevision,
    /// The objects that refer to an owner, by the owner's uid.
    dependents: HashMap<String, BTreeSet<StoreKey>>,
    /// Whether the store could not make a write.
    has_failed: AtomicBool,
}

impl GarbageCollector {
    /// Handles all events so far, or checks all objects first; `None` when the server is gone.
    async fn handle_events(
        &mut self,
        server: &Weak<ServerState>,
        mut needs_resync: bool,
    ) -> Option<()> {
        loop {
            // Not held while there is nothing to do, so that the server can be dropped.
            let server = Server(server.upgrade()?);
            if std::mem::take(&mut needs_resync) {
                self.resync(&server).await;
            }
            match server.store().events(self.revision, BATCH_SIZE) {
                Ok(events) if events.is_empty() => return Some(()),
                Ok(events) => {
                    for event in events {
                        self.revision = event.revision;
                        self.handle(&server, &event).await;
                    }
                }
                Err(_) => needs_resync = true,
            }
        }
    }

    /// Indexes and checks all objects.
    async fn resync(&mut self, server: &Server) {
        self.dependents.clear();
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
            self.check(server, key).await;
        }
        let owners: Vec<String> = self.dependents.keys().cloned().collect();
        for uid in owners {
            self.check_dependents(server, &uid).await;
        }
    }

    async fn handle(&mut self, server: &Server, event: &StoreEvent) {
        let key = &event.key;
        let (before, now) = [&event.previous, &event.object]
            .map(|object| {
                let object = object.as_ref();
                object.filter(|object| object.contains(OWNER_REFERENCES))
            })
            .map(|object| object.map(|object| object.value()))
            .into();
        self.index(key, before.as_deref(), now.as_deref());
        match (&event.object, &event.deleted_object) {
            (Some(_), _) => self.check(server, key).await,
            (None, Some(deleted)) => {
                let deleted = &*deleted.value();
                self.continue_owners(server, deleted).await;
                let uid = metadata::text(deleted, "/metadata/uid");
                self.check_dependents(server, uid).await;
                self.finish_container(server, key, deleted).await;
            }
            (None, None) => {}
        }
    }

    fn index(&mut self, key: &StoreKey, before: Option<&Value>, now: Option<&Value>) {
        for uid in before.into_iter().flat_map(owner_uids) {
            if let Some(keys) = self.dependents.get_mut(uid) {
                keys.remove(key);
                if keys.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        for uid in now.into_iter().flat_map(owner_uids) {
            let keys = self.dependents.entry(uid.to_owned()).or_default();
            keys.insert(key.clone());
        }
    }

    /// Checks the current state of one object.
    async fn check(&self, server: &Server, key: &StoreKey) {
        let Some(stored) = server.store().object(key) else {
            return;
        };
        // Most objects have no owners and are not being deleted.
        if !stored.contains(OWNER_REFERENCES) && !metadata::is_stored_deleting(&stored) {
            return self.delete_without_namespace(server, key).await;
        }
        let object = &*stored.value();
        if owner_uids(object).next().is_some() {
            self.check_owners(server, key).await;
        }
        if metadata::is_deleting(object) {
            self.cascade(server, key, object).await;
        }
        if &*key.resource == NAMESPACES && metadata::is_deleting(object) {
            self.empty_namespace(server, &key.path).await;
        } else if &*key.resource == DEFINITIONS && metadata::is_deleting(object) {
            self.empty_definition(server, object).await;
        } else {
            self.delete_without_namespace(server, key).await;
        }
    }

    async fn check_dependents(&self, server: &Server, uid: &str) {
        for key in self.dependents.get(uid).cloned().unwrap_or_default() {
            self.check_owners(server, &key).await;
        }
    }

    /// Continues with a namespace or definition that waits for its last object to be deleted.
    async fn finish_container(&self, server: &Server, key: &StoreKey, deleted: &Value) {
        if let Some(namespace) = metadata::namespace_of(deleted)
            && stored(server, NAMESPACES, namespace).is_some_and(|it| metadata::is_deleting(&it))
        {
            self.empty_namespace(server, namespace).await;
        }
        let definition = key
            .resource
            .split_once('/')
            .map(|(group, plural)| format!("{plural}.{group}"));
        if let Some(crd) = definition.and_then(|name| stored(server, DEFINITIONS, &name))
            && metadata::is_deleting(&crd)
        {
            self.empty_definition(server, &crd).await;
        }
    }

    /// Deletes an object whose owners are all gone, or removes the references to those that are.
    async fn check_owners(&self, server: &Server, key: &StoreKey) {
        let Some(object) = server.store().value(key) else {
            return;
        };
        let owners = object["metadata"]["ownerReferences"].as_array();
        let owners = owners.cloned().unwrap_or_default();
        let (present, absent): (Vec<Value>, Vec<Value>) = owners
            .into_iter()
            .partition(|owner| !is_absent(server, &object, owner));
        if absent.is_empty() || metadata::is_deleting(&object) {
            return;
        }
        if present.is_empty() {
            let options = DeleteOptions::internal_of(&object);
            return self.delete(server, key, &options).await;
        }
        self.update(server, key, |object| {
            if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
                owners.retain(|owner| !absent.contains(owner));
            }
        })
        .await;
    }

    /// Deletes all objects in a namespace, and the namespace once none is left.
    async fn empty_namespace(&self, server: &Server, namespace: &str) {
        let mut resources = server.registry().all();
        resources.retain(|resource| resource.namespaced);
        let prefix = format!("{namespace}/");
        if self.delete_all(server, &resources, &prefix).await > 0 {
            return;
        }
        let key = StoreKey::new(NAMESPACES.into(), None, namespace);
        self.update(server, &key, |object| {
            object["spec"]["finalizers"] = json!([]);
        })
        .await;
    }

    /// Deletes all objects of a definition, and the definition once none is left.
    async fn empty_definition(&self, server: &Server, crd: &Value) {
        let storage = definitions::storage_of(crd);
        let resource = server.registry().stored_as(&storage);
        if self.delete_all(server, resource.as_slice(), "").await > 0 {
            return;
        }
        let key = StoreKey::new(DEFINITIONS.into(), None, metadata::name_of(crd));
        self.update(server, &key, |object| {
            if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|finalizer| finalizer != CLEANUP_FINALIZER);
            }
        })
        .await;
    }

    /// Deletes objects; returns how many are left.
    async fn delete_all(
        &self,
        server: &Server,
        resources: &[Arc<Resource>],
        prefix: &str,
    ) -> usize {
        let mut left = 0;
        for resource in resources {
            let Ok(snapshot) = server.store().list(&resource.storage, prefix, None) else {
                continue;
            };
            for (key, _) in snapshot.objects {
                self.delete(server, &key, &DeleteOptions::internal()).await;
                left += usize::from(server.store().object(&key).is_some());
            }
        }
        left
    }

    /// Deletes an object that was created while its namespace was deleted.
    async fn delete_without_namespace(&self, server: &Server, key: &StoreKey) {
        let Some((namespace, _)) = key.path.split_once('/') else {
            return;
        };
        let namespace = StoreKey::new(NAMESPACES.into(), None, namespace);
        if server.store().object(&namespace).is_none() {
            self.delete(server, key, &DeleteOptions::internal()).await;
        }
    }

    async fn delete(&self, server: &Server, key: &StoreKey, options: &DeleteOptions) {
        let Some(resource) = server.registry().stored_as(&key.resource) else {
            return;
        };
        if let Err(error) = delete_object(server, &resource, key, options).await {
            self.handle_error(key, &error);
        }
    }

    async fn update(&self, server: &Server, key: &StoreKey, change: impl Fn(&mut Value)) {
        let Some(resource) = server.registry().stored_as(&key.resource) else {
            return;
        };
        let Some(object) = server.store().value(key) else {
            return;
        };
        let target = target_for(resource, &object);
        let options = WriteOptions::internal();
        let updated = change_object(server, &target, &options, |live| {
            let mut new = live.object.clone();
            change(&mut new);
            Ok(new.into())
        });
        if let Err(error) = updated.await {
            self.handle_error(key, &error);
        }
    }

    /// Logs a failed write, and has all objects checked again if the store failed.
    fn handle_error(&self, key: &StoreKey, error: &ApiError) {
        // The object was deleted or changed meanwhile: the event of that write is handled next.
        if error.is_not_found() || error.is_conflict() {
            return;
        }
        let StoreKey { resource, path } = key;
        let message = error.message();
        tracing::warn!(%resource, object = path, error = message, "garbage collection failed");
        if error.is_server_error() {
            self.has_failed.store(true, Ordering::Relaxed);
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
    let key = StoreKey::new(storage.into(), None, name);
    server.store().value(&key)
}

/// The kind of an owner reference, if it is served.
fn owner_kind(server: &Server, owner: &Value) -> Option<Arc<Resource>> {
    let api_version = metadata::text(owner, "/apiVersion");
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let kind = metadata::text(owner, "/kind");
    server.registry().of_kind(group, kind)
}

/// Whether an owner does not exist. Owners of unknown kinds are assumed to exist.
fn is_absent(server: &Server, dependent: &Value, owner: &Value) -> bool {
    let Some(resource) = owner_kind(server, owner) else {
        return false;
    };
    let namespace = metadata::namespace_of(dependent);
    if resource.namespaced && namespace.is_none() {
        return false;
    }
    let key = resource.key(namespace, metadata::text(owner, "/name"));
    let found = server.store().value(&key);
    found.is_none_or(|found| found["metadata"]["uid"] != owner["uid"])
}
