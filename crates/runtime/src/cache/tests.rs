use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, core::ObjectMeta};
use parking_lot::Mutex;

use super::*;

/// A ConfigMap; its label `of` names its parent.
fn object(name: &str, uid: &str, version: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            namespace: Some("default".to_owned()),
            name: Some(name.to_owned()),
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_owned()),
            labels: Some([("of".to_owned(), format!("{name}-parent"))].into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn parent(object: &ConfigMap) -> Option<ObjectKey> {
    let labels = object.metadata.labels.as_ref()?;
    Some(key(labels.get("of")?))
}

/// A cache, and a log of what a subscriber called `reader` was told.
struct Setup {
    cache: Arc<ObjectCache<ConfigMap>>,
    log: Arc<Mutex<Vec<String>>>,
    _subscription: Subscription,
}

impl Setup {
    fn new(keep_parsed: bool) -> Self {
        let cache = ObjectCache::new(CacheConfig {
            parent,
            keep_parsed,
            ..CacheConfig::default()
        });
        let log = Arc::new(Mutex::new(Vec::new()));
        let told = log.clone();
        let subscription = cache.subscribe("reader", move |event| {
            let (word, object) = match event {
                CacheEvent::Applied { object, .. } => ("applied", object),
                CacheEvent::Deleted { object, .. } => ("deleted", object),
            };
            let name = object.metadata.name.clone().unwrap();
            let version = object.metadata.resource_version.clone().unwrap();
            told.lock().push(format!("{word} {name} {version}"));
        });
        Self {
            cache,
            log,
            _subscription: subscription,
        }
    }

    fn watch(&self, event: Event<ConfigMap>) {
        let watched = |object| WatchedObject::from(serde_json::to_value(object).unwrap());
        self.cache.handle_watch_event(match event {
            Event::Apply(object) => Event::Apply(watched(object)),
            Event::Delete(object) => Event::Delete(watched(object)),
            Event::Init => Event::Init,
            Event::InitApply(object) => Event::InitApply(watched(object)),
            Event::InitDone => Event::InitDone,
        });
    }

    fn list(&self, objects: Vec<ConfigMap>) {
        self.watch(Event::Init);
        for object in objects {
            self.watch(Event::InitApply(object));
        }
        self.watch(Event::InitDone);
    }

    fn version(&self, name: &str) -> Option<String> {
        self.cache
            .get(&key(name))?
            .metadata
            .resource_version
            .clone()
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock())
    }
}

#[test]
fn the_newest_state_wins_wherever_it_comes_from() {
    for keep_parsed in [false, true] {
        let setup = Setup::new(keep_parsed);
        setup.watch(Event::Apply(object("a", "1", "5")));
        assert!(setup.cache.wrote("writer", object("a", "1", "7")));
        assert!(!setup.cache.wrote("writer", object("a", "1", "6")));
        setup.watch(Event::Apply(object("a", "1", "6")));
        setup.watch(Event::Apply(object("a", "1", "7")));
        assert_eq!(setup.version("a").as_deref(), Some("7"));
        assert_eq!(setup.log(), ["applied a 5", "applied a 7"]);
    }
}

#[test]
fn what_was_read_and_what_was_found_missing_is_told_to_everybody() {
    let setup = Setup::new(false);
    setup.cache.read(object("b", "2", "2"));
    setup.cache.read(object("a", "1", "1"));
    setup.cache.read(object("a", "1", "1"));
    assert_eq!(setup.cache.keys(), [key("a"), key("b")]);
    assert_eq!((setup.cache.len(), setup.cache.is_empty()), (2, false));
    setup.cache.found_missing(&key("a"), Some("another"));
    setup.cache.found_missing(&key("a"), Some("1"));
    assert_eq!(setup.cache.keys(), [key("b")]);
    assert_eq!(setup.log(), ["applied b 2", "applied a 1", "deleted a 1"]);
}

#[test]
fn the_copy_that_kubectl_apply_keeps_is_not_cached() {
    let setup = Setup::new(false);
    let mut applied = object("a", "1", "1");
    let annotations = [(LAST_APPLIED, "{}"), ("example.com/owner", "web")];
    let annotations = annotations.map(|(name, value)| (name.to_owned(), value.to_owned()));
    applied.metadata.annotations = Some(annotations.into());
    setup.watch(Event::Apply(applied));
    let cached = setup.cache.get(&key("a")).unwrap();
    let names: Vec<_> = cached.metadata.annotations.iter().flatten().collect();
    assert_eq!(
        names,
        [(&"example.com/owner".to_owned(), &"web".to_owned())]
    );
}

#[test]
fn a_version_that_is_no_number_is_neither_older_nor_newer() {
    let setup = Setup::new(false);
    setup.watch(Event::Apply(object("a", "1", "x")));
    assert!(
        !setup.cache.wrote("writer", object("a", "1", "9")),
        "the watch will tell"
    );
    setup.watch(Event::Apply(object("a", "1", "x")));
    setup.watch(Event::Apply(object("a", "1", "w")));
    setup.watch(Event::Apply(object("a", "1", "3")));
    assert_eq!(setup.log(), ["applied a x", "applied a w", "applied a 3"]);
}

#[test]
fn a_writer_is_not_told_what_it_wrote() {
    let setup = Setup::new(false);
    setup.cache.wrote("reader", object("a", "1", "1"));
    setup.watch(Event::Apply(object("a", "1", "1")));
    assert_eq!(setup.log(), [""; 0]);
    setup.cache.wrote("writer", object("a", "1", "2"));
    setup.cache.deleted("reader", &key("a"), Some("1"));
    setup.watch(Event::Delete(object("a", "1", "2")));
    assert_eq!(setup.log(), ["applied a 2"]);
}

#[test]
fn what_a_listing_lacks_is_deleted_and_what_was_written_meanwhile_stays() {
    let setup = Setup::new(false);
    assert!(!setup.cache.is_synced());
    setup.list(vec![object("a", "1", "1"), object("b", "2", "2")]);
    assert!(setup.cache.is_synced());
    setup.watch(Event::Init);
    setup.watch(Event::InitApply(object("b", "2", "2")));
    setup.cache.wrote("writer", object("c", "3", "9"));
    setup.watch(Event::InitDone);
    let log = setup.log();
    assert_eq!(log[2..], ["applied c 9", "deleted a 1"]);
    assert!(setup.cache.contains(&key("c")) && !setup.cache.contains(&key("a")));
    assert!(setup.cache.children(&key("a-parent")).is_empty());
}

#[test]
fn a_late_response_does_not_bring_back_what_was_deleted() {
    let setup = Setup::new(false);
    setup.watch(Event::Apply(object("a", "1", "1")));
    setup.watch(Event::Delete(object("a", "1", "4")));
    assert!(!setup.cache.wrote("writer", object("a", "1", "3")));
    setup.cache.deleted("writer", &key("b"), Some("2"));
    setup.watch(Event::Apply(object("b", "2", "2")));
    assert!(setup.cache.is_empty());
    setup.watch(Event::Apply(object("a", "5", "5")));
    assert_eq!(setup.log(), ["applied a 1", "deleted a 1", "applied a 5"]);
}

#[test]
fn an_object_that_left_the_label_selector_can_come_back() {
    let setup = Setup::new(false);
    setup.watch(Event::Apply(object("a", "1", "5")));
    setup.watch(Event::Delete(object("a", "1", "7")));
    setup.watch(Event::Apply(object("a", "1", "5")));
    assert_eq!(setup.version("a"), None);
    setup.watch(Event::Apply(object("a", "1", "9")));
    assert_eq!(setup.version("a").as_deref(), Some("9"));
}

#[test]
fn a_response_that_is_not_newer_keeps_nothing_over_a_listing() {
    let setup = Setup::new(false);
    setup.watch(Event::Apply(object("a", "1", "5")));
    setup.watch(Event::Init);
    assert!(!setup.cache.wrote("writer", object("a", "1", "5")));
    setup.watch(Event::InitDone);
    assert_eq!(setup.version("a"), None);
}

#[test]
fn an_object_that_was_recreated_was_deleted_before() {
    let setup = Setup::new(false);
    setup.watch(Event::Apply(object("a", "1", "1")));
    setup.cache.wrote("writer", object("a", "2", "3"));
    setup.watch(Event::Delete(object("a", "1", "2")));
    assert_eq!(setup.log(), ["applied a 1", "deleted a 1", "applied a 3"]);
    assert_eq!(setup.version("a").as_deref(), Some("3"));
}

#[test]
fn an_object_that_cannot_be_read_keeps_its_last_readable_state() {
    let setup = Setup::new(false);
    setup.list(vec![object("a", "1", "1")]);
    let broken = || {
        let mut broken = serde_json::to_value(object("a", "1", "2")).unwrap();
        broken["data"] = "expected a map".into();
        WatchedObject::from(broken)
    };
    setup.cache.handle_watch_event(Event::Apply(broken()));
    setup.cache.handle_watch_event(Event::Init);
    setup.cache.handle_watch_event(Event::InitApply(broken()));
    setup.cache.handle_watch_event(Event::InitDone);
    assert_eq!(setup.version("a").as_deref(), Some("1"));
    setup.cache.handle_watch_event(Event::Delete(broken()));
    assert!(setup.cache.is_empty());
}

#[test]
fn children_follow_their_parent() {
    let setup = Setup::new(false);
    setup.watch(Event::Apply(object("a", "1", "1")));
    assert_eq!(setup.cache.children(&key("a-parent")).len(), 1);
    let mut moved = object("a", "1", "2");
    moved.metadata.labels = Some([("of".to_owned(), "other".to_owned())].into());
    setup.watch(Event::Apply(moved));
    assert!(setup.cache.children(&key("a-parent")).is_empty());
    assert_eq!(setup.cache.children(&key("other")).len(), 1);
    setup.cache.deleted("writer", &key("a"), None);
    assert!(setup.cache.children(&key("other")).is_empty());
}

#[test]
fn an_index_follows_the_cache() {
    let setup = Setup::new(false);
    setup.watch(Event::Apply(object("a", "1", "1")));
    let index = CacheIndex::new(&setup.cache, |object: &ConfigMap| {
        let version = object.metadata.resource_version.clone()?;
        (version != "3").then_some(version)
    });
    let values = || {
        let mut values = Vec::new();
        index.for_each(|key, version| values.push(format!("{} {version}", key.name)));
        values.sort();
        values
    };
    setup.cache.wrote("writer", object("b", "2", "2"));
    assert_eq!(values(), ["a 1", "b 2"]);
    assert_eq!(index.get(&key("b")).as_deref(), Some("2"));
    setup.watch(Event::Apply(object("b", "2", "3")));
    assert_eq!(values(), ["a 1"], "it has no value any more");
    setup.watch(Event::Delete(object("a", "1", "4")));
    assert!(values().is_empty());
}

#[test]
fn a_subscription_ends_when_it_is_dropped() {
    let Setup {
        cache,
        log,
        _subscription,
    } = Setup::new(false);
    drop(_subscription);
    cache.wrote("writer", object("a", "1", "1"));
    assert!(log.lock().is_empty());
}

#[tokio::test]
async fn a_watch_feeds_the_cache() {
    let server = apiserver::Server::in_memory();
    let api: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let mut first = object("a", "", "");
    first.metadata.uid = None;
    first.metadata.resource_version = None;
    let created = api
        .create(&kube::api::PostParams::default(), &first)
        .await
        .unwrap();
    let setup = Setup::new(false);
    let cache = setup.cache.clone();
    let client = server.client();
    let watch = crate::spawn(async move {
        let config = watcher::Config::default();
        cache.watch(client, Some("default"), config).await;
    });
    setup.cache.synced().await;
    assert_eq!(setup.version("a"), created.metadata.resource_version);
    let parameters = kube::api::DeleteParams::default();
    api.delete("a", &parameters).await.unwrap();
    while setup.cache.contains(&key("a")) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    watch.abort();
}
