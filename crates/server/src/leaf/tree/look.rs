//! Reading single objects, and those that carry an app's labels.

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

use super::{Look, Node, State, describe};
use crate::leaf::{
    kinds::{BATCH, WORKLOADS},
    why,
};

/// How many objects one list has at most.
pub(super) const LISTED: u32 = 100;

/// What a look at an object gave.
pub(super) enum Found {
    Object(Box<DynamicObject>),
    Nothing(Nothing),
}

/// Why there is nothing to see.
pub(super) enum Nothing {
    /// It is not there.
    Missing,
    /// It was not read.
    Unread(String),
}

impl Nothing {
    pub(super) fn about(self, named: Node) -> Node {
        match self {
            Self::Missing => Node {
                state: State::Missing,
                ..named
            },
            Self::Unread(because) => named.noting(because),
        }
    }
}

impl Look<'_> {
    /// Reads an object, unless enough has been read.
    pub(super) async fn get(&self, named: &Node) -> Found {
        let take = |left: usize| left.checked_sub(1);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if taken.is_err() {
            return Found::Nothing(Nothing::Unread("not read: there are too many".to_owned()));
        }
        let _turn = self.turns.acquire().await;
        match self.try_get(named).await {
            Ok(Some(object)) => Found::Object(Box::new(object)),
            Ok(None) => Found::Nothing(Nothing::Missing),
            Err(error) => Found::Nothing(Nothing::Unread(why(&error))),
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

    /// What Flux labelled as belonging to a release, where it does not list what that holds.
    pub(super) async fn labelled(&self, node: Node, release: &DynamicObject) -> Node {
        let selector = format!(
            "{HELM_GROUP}/name={},{HELM_GROUP}/namespace={}",
            node.name, node.namespace
        );
        let target: Target = read(&release.data["spec"]);
        let namespace = target.target_namespace;
        let namespace = namespace.unwrap_or_else(|| node.namespace.clone());
        let mut below = Vec::new();
        let mut notes = vec![
            "Flux does not list what it holds: workloads with its labels are shown".to_owned(),
        ];
        for (group, kind) in WORKLOADS {
            match self.list(group, kind, &namespace, &selector).await {
                Ok(found) => below.extend(found),
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                // Jobs are rare, and not worth a word where they may not be read.
                Err(kube::Error::Api(status)) if group == BATCH && status.code == 403 => {}
                Err(error) => notes.push(format!("{kind}s are left out: {}", why(&error))),
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
        Node { below, ..node }.noting(notes.join("; "))
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
        let _turn = self.turns.acquire().await;
        let Some(resource) = self.kinds.find(self.client, group, kind).await? else {
            return Ok(Vec::new());
        };
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &resource);
        let parameters = ListParams::default().labels(selector).limit(LISTED);
        let found = api.list(&parameters).await?.items.into_iter();
        let found = found.map(|object| {
            let name = object.metadata.name.clone().unwrap_or_default();
            (Node::named(group, kind, namespace, &name), object)
        });
        Ok(found.collect())
    }
}

/// Where a release puts what it deploys.
#[derive(serde::Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Target {
    target_namespace: Option<String>,
}
