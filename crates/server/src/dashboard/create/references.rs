//! Looks up what a draft names: clusters, apps and Secrets, as far as the viewer may know.

use std::sync::Arc;

use api::Pipeline;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use planner::{Existence, NamedObject};
use runtime::ObjectKey;

use crate::{
    AppState,
    access::{AccessRequest, CLUSTERS, SECRETS},
    dashboard::sign_in::Viewer,
    leaf::{
        ClusterOrHub,
        tree::{AppOnCluster, ObjectState},
    },
    problem::Problem,
};

/// How many objects are looked up: each app is read from its cluster.
const MAX_OBJECTS: usize = 40;

/// What is to be said about the objects that a pipeline names.
pub(super) async fn warnings(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    pipeline: &Pipeline,
) -> Result<Vec<String>, Problem> {
    let all = planner::named_objects(pipeline);
    let lookup = Lookup {
        app_state,
        viewer,
        pipeline,
    };
    let looked_up = all.iter().take(MAX_OBJECTS).map(async |named| {
        let existence = lookup.existence(&named.1).await?;
        let finding = existence.and_then(|it| planner::existence_finding(pipeline, named, &it));
        Ok::<_, Problem>(finding)
    });
    let findings = try_join_all(looked_up).await?.into_iter().flatten();
    let text = |it: planner::LintFinding| match it.environment {
        Some(environment) => format!("{environment}: {}", it.text),
        None => it.text,
    };
    let unchecked = all.len().saturating_sub(MAX_OBJECTS);
    let unchecked = (unchecked > 0).then(|| {
        format!("whether {unchecked} more objects exist was not checked: there are too many")
    });
    Ok(findings.map(text).chain(unchecked).collect())
}

struct Lookup<'a> {
    app_state: &'a Arc<AppState>,
    viewer: &'a Viewer,
    pipeline: &'a Pipeline,
}

impl Lookup<'_> {
    /// Whether an object exists; nothing where another warning says enough.
    async fn existence(&self, object: &NamedObject) -> Result<Option<Existence>, Problem> {
        match object {
            NamedObject::Cluster { namespace, name } => {
                let key = ObjectKey::new(namespace, name);
                self.cluster(&key).await.map(Some)
            }
            NamedObject::App { cluster, namespace } => {
                let key = cluster.as_ref();
                let key = key.map(|(namespace, name)| ObjectKey::new(namespace, name));
                self.app(key.as_ref(), namespace).await
            }
            NamedObject::Secret { namespace, name } => {
                let key = ObjectKey::new(namespace, name);
                self.secret(&key).await.map(Some)
            }
        }
    }

    async fn cluster(&self, key: &ObjectKey) -> Result<Existence, Problem> {
        let list = AccessRequest::list(CLUSTERS, Some(&key.namespace));
        if !self.viewer.caller.may_see(&list).await? {
            return Ok(Existence::NotAllowed("list GitopsClusters there"));
        }
        Ok(match self.app_state.objects.cluster(key) {
            Some(_) => Existence::Exists,
            None => Existence::Missing,
        })
    }

    async fn app(
        &self,
        cluster: Option<&ObjectKey>,
        namespace: &str,
    ) -> Result<Option<Existence>, Problem> {
        let inspect = AccessRequest::inspect(
            cluster.map(|it| it.namespace.as_str()),
            cluster.map(|it| it.name.as_str()),
        );
        if !self.viewer.caller.may_see(&inspect).await? {
            return Ok(Some(Existence::NotAllowed("inspect the cluster")));
        }
        let found = match cluster {
            None => None,
            Some(key) => match self.app_state.objects.cluster(key) {
                None => return Ok(None),
                found => found,
            },
        };
        let Some(app) = self.app_in(namespace) else {
            return Ok(None);
        };
        Ok(Some(self.read(&found, app).await))
    }

    /// Never an object of the core group: nobody must learn about those here.
    fn app_in(&self, namespace: &str) -> Option<AppOnCluster> {
        let app = self.pipeline.spec.app_ref.as_ref()?;
        let (group, _) = app.api_version.split_once('/')?;
        planner::refuse_group(group)
            .is_none()
            .then(|| AppOnCluster {
                group: group.to_owned(),
                kind: app.kind.clone(),
                namespace: namespace.to_owned(),
                name: app.name.clone(),
            })
    }

    async fn read(&self, cluster: &ClusterOrHub, app: AppOnCluster) -> Existence {
        match self.app_state.leaf_reader.tree(cluster, app).await {
            Err(because) => Existence::Unreadable(because),
            Ok(node) => match (node.state, &node.note) {
                (ObjectState::Missing, _) => Existence::Missing,
                (ObjectState::Unknown, Some(note)) => Existence::Unreadable(note.clone()),
                _ => Existence::Exists,
            },
        }
    }

    async fn secret(&self, key: &ObjectKey) -> Result<Existence, Problem> {
        let get = AccessRequest::new("get", key).of(SECRETS);
        if !self.viewer.caller.may_see(&get).await? {
            return Ok(Existence::NotAllowed("get Secrets there"));
        }
        let secrets: Api<Secret> = Api::namespaced(self.app_state.client.clone(), &key.namespace);
        Ok(match secrets.get_metadata_opt(&key.name).await {
            Ok(Some(_)) => Existence::Exists,
            Ok(None) => Existence::Missing,
            Err(error) => {
                tracing::warn!(%error, secret = %key, "could not read the metadata of a Secret");
                Existence::Unreadable("Sluice could not read it".to_owned())
            }
        })
    }
}
