//! An object as a watch delivers it: JSON text, whatever its kind.
//!
//! The watches of all kinds are then the same code, and an object that cannot be deserialized does not end the
//! watch on the others.

use std::borrow::Cow;

use futures::{StreamExt, stream::BoxStream};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, ObjectMeta},
    core::DynamicResourceScope,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// An object of any kind.
#[derive(Clone, Debug)]
pub(super) struct WatchedObject {
    /// Only what identifies the object and its state.
    metadata: ObjectMeta,
    json: Box<str>,
}

impl WatchedObject {
    /// The object as its kind.
    pub(super) fn parse<K: DeserializeOwned>(&self) -> Result<K, serde_json::Error> {
        serde_json::from_str(&self.json)
    }
}

impl From<Value> for WatchedObject {
    fn from(object: Value) -> Self {
        let field = |name: &str| object["metadata"][name].as_str().map(str::to_owned);
        Self {
            metadata: ObjectMeta {
                namespace: field("namespace"),
                name: field("name"),
                uid: field("uid"),
                resource_version: field("resourceVersion"),
                ..ObjectMeta::default()
            },
            json: object.to_string().into(),
        }
    }
}

impl<'de> Deserialize<'de> for WatchedObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not a RawValue: in an event, the object may come before the type, and serde then buffers it.
        Value::deserialize(deserializer).map(Self::from)
    }
}

impl Resource for WatchedObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The objects of a kind in one namespace or all, and their changes.
pub(super) fn watch(
    client: Client,
    resource: &ApiResource,
    namespace: Option<&str>,
    config: watcher::Config,
) -> BoxStream<'static, watcher::Result<Event<WatchedObject>>> {
    let api: Api<WatchedObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    };
    watcher::watcher(api, config).default_backoff().boxed()
}

#[cfg(test)]
mod tests {
    use api::Pipeline;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_watched_object_is_known_by_what_identifies_its_state() {
        let object = json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "1", "resourceVersion": "7"},
        });
        let watched = WatchedObject::from(object);
        let expected = ObjectMeta {
            namespace: Some("shop".to_owned()),
            name: Some("web".to_owned()),
            uid: Some("1".to_owned()),
            resource_version: Some("7".to_owned()),
            ..ObjectMeta::default()
        };
        assert_eq!(*watched.meta(), expected);
        let resource = ApiResource::erase::<Pipeline>(&());
        let client = apiserver::Server::in_memory().client();
        let api: Api<WatchedObject> = Api::namespaced_with(client, "shop", &resource);
        let url = "/apis/pipelines.weave.works/v1alpha1/namespaces/shop/pipelines";
        assert_eq!(api.resource_url(), url);
    }
}
