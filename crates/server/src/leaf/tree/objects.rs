//! Reads single objects, and the workloads that carry the labels of a HelmRelease.

use std::sync::atomic::Ordering;

use api::{
    flux::HELM_GROUP,
    names::{is_dns_label, is_dns_subdomain},
    third_party::read,
};
use kube::{
    Api,
    api::{DynamicObject, ListParams},
};

use super::{Node, ObjectState, TreeReader, describe};
use crate::leaf::{
    kinds::{BATCH, WORKLOADS},
    read_error_text,
};

/// How many objects one list request returns.
pub(super) const MAX_LISTED: u32 = 100;

/// The result of reading an object.
pub(super) enum ObjectLookup {
    Found(Box<DynamicObject>),
    Absent(ObjectAbsence),
}

/// Why an object was not read.
pub(super) enum ObjectAbsence {
    /// It does not exist.
    Missing,
    /// It was not read, for this reason.
    Unread(String),
}

impl ObjectAbsence {
    pub(super) fn into_node(self, named: Node) -> Node {
        match self {
            Self::Missing => Node {
                state: ObjectState::Missing,
                ..named
            },
            Self::Unread(because) => named.with_note(because),
        }
    }
}

impl TreeReader<'_> {
    /// Reads an object, unless the limit of objects is reached.
    pub(super) async fn get(&self, named: &Node) -> ObjectLookup {
        let take = |left: usize| left.checked_sub(1);
        let taken = self
            .objects_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_err() {
            let because = "not read: there are too many objects";
            return ObjectLookup::Absent(ObjectAbsence::Unread(because.to_owned()));
        }
        let _permit = self.request_permits.acquire().await;
        match self.try_get(named).await {
            Ok(Some(object)) => ObjectLookup::Found(Box::new(object)),
            Ok(None) => ObjectLookup::Absent(ObjectAbsence::Missing),
            Err(error) => ObjectLookup::Absent(ObjectAbsence::Unread(read_error_text(&error))),
        }
    }

    async fn try_get(&self, named: &Node) -> Result<Option<DynamicObject>, kube::Error> {
        // Names come from pipelines and inventories, and become parts of API paths.
        if !is_dns_label(&named.namespace) || !is_dns_subdomain(&named.name) {
            return Ok(None);
        }
        let kind = self.kinds.find(self.client, &named.group, &named.kind);
        let Some(resource) = kind.await? else {
            return Ok(None);
        };
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &named.namespace, &resource);
        api.get_opt(&named.name).await
    }

    /// The workloads with the labels of a HelmRelease, for versions of Flux without an inventory.
    pub(super) async fn labelled_workloads(&self, node: Node, release: &DynamicObject) -> Node {
        let selector = format!(
            "{HELM_GROUP}/name={},{HELM_GROUP}/namespace={}",
            node.name, node.namespace
        );
        let target: ReleaseSpec = read(&release.data["spec"]);
        let namespace = target.target_namespace;
        let namespace = namespace.unwrap_or_else(|| node.namespace.clone());
        let mut below = Vec::new();
        let mut notes =
            vec!["the release has no inventory: workloads with its labels are shown".to_owned()];
        for (group, kind) in WORKLOADS {
            match self.list(group, kind, &namespace, &selector).await {
                Ok(found) => below.extend(found),
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                // Jobs are rare: that they may not be read is not worth a note.
                Err(kube::Error::Api(status)) if group == BATCH && status.code == 403 => {}
                Err(error) => notes.push(format!(
                    "{kind}s could not be read: {}",
                    read_error_text(&error)
                )),
            }
        }
        let below = below.into_iter().map(|(named, object)| async move {
            let node = describe::state_of(named, &object);
            match node.kind.as_str() {
                "CronJob" => node,
                _ => self.pods(node, &object).await,
            }
        });
        let below = futures::future::join_all(below).await;
        Node { below, ..node }.with_note(notes.join("; "))
    }

    async fn list(
        &self,
        group: &str,
        kind: &str,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<(Node, DynamicObject)>, kube::Error> {
        if !is_dns_label(namespace) {
            return Ok(Vec::new());
        }
        let _permit = self.request_permits.acquire().await;
        let Some(resource) = self.kinds.find(self.client, group, kind).await? else {
            return Ok(Vec::new());
        };
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &resource);
        let parameters = ListParams::default().labels(selector).limit(MAX_LISTED);
        let found = api.list(&parameters).await?.items.into_iter();
        let found = found.map(|object| {
            let name = object.metadata.name.clone().unwrap_or_default();
            (Node::named(group, kind, namespace, &name), object)
        });
        Ok(found.collect())
    }
}

/// The part of a HelmRelease's spec that says where it deploys to.
#[derive(serde::Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ReleaseSpec {
    target_namespace: Option<String>,
}
