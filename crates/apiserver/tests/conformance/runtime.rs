//! kube-runtime on top of the API: typed clients, watchers, reflectors, waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, PartialObjectMeta};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, reflector, wait};
use kube::{Resource, ResourceExt};
use serde_json::json;

use crate::support::{Context, anything, cases};

cases!("runtime":
    typed_objects_round_trip, typed_errors, dynamic_objects, status_through_the_api,
    deletion_gives_object_or_status, watcher_by_list, watcher_by_streaming, watcher_of_metadata,
    reflector_by_list, reflector_by_streaming, waiting_for_a_condition, lists_of_metadata,
    entry_creates_and_updates,
);

const EVENT_WITHIN: Duration = Duration::from_secs(60);

fn config_map(name: &str, value: &str) -> ConfigMap {
    let data = BTreeMap::from([("k".to_owned(), value.to_owned())]);
    let mut config = ConfigMap {
        data: Some(data),
        ..ConfigMap::default()
    };
    config.meta_mut().name = Some(name.to_owned());
    config
}

fn config_maps(api: &Context) -> Api<ConfigMap> {
    Api::namespaced(api.client.clone(), &api.namespace)
}

fn things(api: &Context) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(&api.group, "v1", "Thing"),
        "things",
    );
    Api::namespaced_with(api.client.clone(), &api.namespace, &resource)
}

async fn typed_objects_round_trip(api: Context) {
    let configs = config_maps(&api);
    let created = configs
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    assert_eq!(configs.get("a").await.unwrap(), created);
    let mut changed = created.clone();
    changed
        .data
        .as_mut()
        .unwrap()
        .insert("k".to_owned(), "2".to_owned());
    let replaced = configs
        .replace("a", &PostParams::default(), &changed)
        .await
        .unwrap();
    assert_eq!(replaced.data, changed.data);
    let list = configs
        .list(&ListParams::default().fields("metadata.name=a"))
        .await
        .unwrap();
    assert_eq!(list.items, [replaced]);
    assert!(configs.get_opt("missing").await.unwrap().is_none());
}

async fn typed_errors(api: Context) {
    let configs = config_maps(&api);
    let stale = configs
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    let patch = Patch::Merge(json!({"data": {"k": "2"}}));
    configs
        .patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let kube::Error::Api(status) = configs
        .replace("a", &PostParams::default(), &stale)
        .await
        .unwrap_err()
    else {
        panic!("a refusal by the API");
    };
    assert!(status.is_conflict());
    let kube::Error::Api(status) = configs
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap_err()
    else {
        panic!("a refusal by the API");
    };
    assert!(status.is_already_exists());
    let kube::Error::Api(status) = configs.get("missing").await.unwrap_err() else {
        panic!("a refusal by the API");
    };
    assert!(status.is_not_found());
}

async fn dynamic_objects(api: Context) {
    api.define_things(anything()).await;
    let things = things(&api);
    let thing: DynamicObject =
        serde_json::from_value(api.thing("a", json!({"spec": {"x": 1}}))).unwrap();
    let created = things.create(&PostParams::default(), &thing).await.unwrap();
    assert_eq!(created.data["spec"], json!({"x": 1}));
    let patch: json_patch::Patch =
        serde_json::from_value(json!([{"op": "replace", "path": "/spec/x", "value": 2}])).unwrap();
    let patched = things
        .patch("a", &PatchParams::default(), &Patch::<()>::Json(patch))
        .await
        .unwrap();
    assert_eq!(patched.data["spec"], json!({"x": 2}));
    assert_eq!(patched.metadata.generation, Some(2));
}

async fn status_through_the_api(api: Context) {
    api.define_things(anything()).await;
    let things = things(&api);
    api.create_thing("a", json!({})).await;
    let patch = Patch::Merge(json!({"status": {"ready": true}}));
    let patched = things
        .patch_status("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(patched.data["status"], json!({"ready": true}));
    let got = things.get_status("a").await.unwrap();
    assert_eq!(got, patched);
}

async fn deletion_gives_object_or_status(api: Context) {
    let configs = config_maps(&api);
    let mut held = config_map("held", "1");
    held.meta_mut().finalizers = Some(vec!["example.com/f".to_owned()]);
    configs.create(&PostParams::default(), &held).await.unwrap();
    configs
        .create(&PostParams::default(), &config_map("free", "1"))
        .await
        .unwrap();
    let held = configs
        .delete("held", &DeleteParams::default())
        .await
        .unwrap();
    assert!(held.left().unwrap().meta().deletion_timestamp.is_some());
    let free = configs
        .delete("free", &DeleteParams::background())
        .await
        .unwrap();
    assert!(free.right().unwrap().is_success());
}

/// The next event that is not the start of a list.
async fn next_event<K>(
    stream: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
) -> String
where
    K: Resource,
{
    let next = tokio::time::timeout(EVENT_WITHIN, stream.next()).await;
    match next
        .expect("an event in time")
        .expect("the watcher goes on")
        .expect("no error")
    {
        Event::Init => "init".to_owned(),
        Event::InitApply(object) => format!("init {}", object.name_any()),
        Event::InitDone => "done".to_owned(),
        Event::Apply(object) => format!("apply {}", object.name_any()),
        Event::Delete(object) => format!("delete {}", object.name_any()),
    }
}

/// Returns once the server's watch cache has the ConfigMap: a list by streaming may be as old as that cache.
async fn until_cached(configs: &Api<ConfigMap>, name: &str) {
    let cached = ListParams::default().match_any();
    let is_cached = async || {
        let listed = configs.list(&cached).await.unwrap();
        listed.iter().any(|it| it.name_any() == name)
    };
    while !is_cached().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn watches(api: Context, config: watcher::Config) {
    let configs = config_maps(&api);
    configs
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    configs
        .create(&PostParams::default(), &config_map("b", "1"))
        .await
        .unwrap();
    until_cached(&configs, "b").await;
    let mut events = std::pin::pin!(watcher(configs.clone(), config));
    for expected in ["init", "init a", "init b", "done"] {
        assert_eq!(next_event(&mut events).await, expected);
    }
    configs
        .create(&PostParams::default(), &config_map("c", "1"))
        .await
        .unwrap();
    assert_eq!(next_event(&mut events).await, "apply c");
    configs.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(next_event(&mut events).await, "delete a");
}

async fn watcher_by_list(api: Context) {
    watches(api, watcher::Config::default().page_size(1)).await;
}

async fn watcher_by_streaming(api: Context) {
    watches(api, watcher::Config::default().streaming_lists()).await;
}

async fn watcher_of_metadata(api: Context) {
    config_maps(&api)
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    let metadata: Api<PartialObjectMeta<ConfigMap>> =
        Api::namespaced(api.client.clone(), &api.namespace);
    let mut events = std::pin::pin!(watcher(metadata, watcher::Config::default()));
    for expected in ["init", "init a", "done"] {
        assert_eq!(next_event(&mut events).await, expected);
    }
}

async fn reflects(api: Context, config: watcher::Config) {
    let configs = config_maps(&api);
    configs
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    until_cached(&configs, "a").await;
    let (reader, writer) = reflector::store();
    let stream = reflector(writer, watcher(configs.clone(), config)).default_backoff();
    let task = tokio::spawn(stream.for_each(|_| std::future::ready(())));
    reader.wait_until_ready().await.unwrap();
    assert_eq!(reader.state().len(), 1);
    let patch = Patch::Merge(json!({"data": {"k": "2"}}));
    configs
        .patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    configs
        .create(&PostParams::default(), &config_map("b", "2"))
        .await
        .unwrap();
    let changed = || {
        let state = reader.state();
        state.len() == 2
            && state
                .iter()
                .all(|config| config.data.as_ref().unwrap()["k"] == "2")
    };
    let give_up = tokio::time::Instant::now() + EVENT_WITHIN;
    while !changed() {
        assert!(
            tokio::time::Instant::now() < give_up,
            "the reflector did not follow"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    task.abort();
}

async fn reflector_by_list(api: Context) {
    reflects(api, watcher::Config::default()).await;
}

async fn reflector_by_streaming(api: Context) {
    reflects(api, watcher::Config::default().streaming_lists()).await;
}

async fn waiting_for_a_condition(api: Context) {
    let configs = config_maps(&api);
    configs
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    let uid = configs.get("a").await.unwrap().uid().unwrap();
    let gone = wait::await_condition(configs.clone(), "a", wait::conditions::is_deleted(&uid));
    let delete = async { configs.delete("a", &DeleteParams::default()).await.unwrap() };
    let (gone, _) = futures::join!(tokio::time::timeout(EVENT_WITHIN, gone), delete);
    gone.expect("in time").unwrap();
}

async fn lists_of_metadata(api: Context) {
    let configs = config_maps(&api);
    let mut config = config_map("a", "1");
    config.meta_mut().labels = Some(BTreeMap::from([("l".to_owned(), "1".to_owned())]));
    configs
        .create(&PostParams::default(), &config)
        .await
        .unwrap();
    let list = configs.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), 1);
    assert_eq!(list.items[0].labels()["l"], "1");
    assert_eq!(
        list.items[0].types.as_ref().unwrap().kind,
        "PartialObjectMetadata"
    );
    let one = configs.get_metadata("a").await.unwrap();
    assert_eq!(one.name_any(), "a");
}

async fn entry_creates_and_updates(api: Context) {
    let configs = config_maps(&api);
    let entry = configs.entry("a").await.unwrap();
    let mut entry = entry.or_insert(|| config_map("a", "1"));
    entry.commit(&PostParams::default()).await.unwrap();
    entry
        .get_mut()
        .data
        .as_mut()
        .unwrap()
        .insert("k".to_owned(), "2".to_owned());
    entry.commit(&PostParams::default()).await.unwrap();
    assert_eq!(configs.get("a").await.unwrap().data.unwrap()["k"], "2");
    let namespaces: Api<Namespace> = Api::all(api.client.clone());
    assert!(namespaces.get_opt(&api.namespace).await.unwrap().is_some());
}
