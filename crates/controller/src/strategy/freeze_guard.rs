//! Checks, immediately before a side effect of a promotion, that no Freeze closes: lists the Freezes from
//! the API, because a cache may not have the newest one yet.
//!
//! Where they cannot be listed, the side effect is not carried out.

use std::{collections::BTreeMap, time::Duration};

use api::{Freeze, GitopsCluster, Pipeline, pipeline::PipelineStatus};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, api::ListParams};
use planner::{Failure, FreezeScope, Remedy, covering_freezes, freeze_hold};
use runtime::{Clock, ObjectKey};
use tokio::time::timeout;

use super::{PromotionTask, failure::transient};
use crate::{Settings, clusters::CALL_TIMEOUT};

/// How soon a promotion that a Freeze held at the last moment is looked at again.
const AGAIN: Duration = Duration::from_secs(5);

type Labels = BTreeMap<String, String>;

/// Lists Freezes before side effects.
#[derive(Clone)]
pub(super) struct FreezeGuard {
    hub: Client,
    /// The only namespace that is read, besides that of the Freezes for all namespaces.
    namespace: Option<String>,
    freeze_namespace: Option<String>,
    clock: Clock,
}

impl FreezeGuard {
    pub(super) fn new(hub: Client, settings: &Settings) -> Self {
        Self {
            hub,
            namespace: settings.namespace.clone(),
            freeze_namespace: settings.freeze_namespace.clone(),
            clock: Clock::start(),
        }
    }

    /// Fails while a Freeze closes the promotion's site.
    pub(super) async fn permit(&self, task: PromotionTask<'_>) -> Result<(), Failure> {
        let listed = timeout(CALL_TIMEOUT, self.covering(task.pipeline)).await;
        let freezes = match listed {
            Ok(Ok(freezes)) => freezes,
            Ok(Err(error)) => return Err(unlisted(&error.to_string())),
            Err(_) => return Err(unlisted("the hub did not answer in time")),
        };
        let now = self.clock.now();
        let Some(hold) = freeze_hold(task.promotion, task.pipeline, freezes, now) else {
            return Ok(());
        };
        Err(Failure {
            reason: hold.reason.word().to_owned(),
            message: hold.message(),
            remedy: Remedy::RetryAfter(AGAIN),
        })
    }

    /// The Freezes that cover the pipeline now.
    async fn covering(
        &self,
        pipeline: &Pipeline,
    ) -> Result<Vec<api::pipeline::CoveringFreeze>, kube::Error> {
        let own = pipeline.metadata.namespace.as_deref().unwrap_or_default();
        let mut freezes = self.list::<Freeze>(Some(own)).await?;
        let central = self.freeze_namespace.as_deref();
        if let Some(central) = central.filter(|central| *central != own) {
            freezes.extend(self.list::<Freeze>(Some(central)).await?);
        }
        let needs_namespace = |it: &Freeze| it.spec.namespace_selector.is_some();
        let namespace_labels = match freezes.iter().any(needs_namespace) {
            true => self.namespace_labels(own).await?,
            false => None,
        };
        let needs_clusters = |it: &Freeze| it.spec.cluster_selector.is_some();
        let clusters = match freezes.iter().any(needs_clusters) {
            true => self.cluster_labels().await?,
            false => BTreeMap::new(),
        };
        let cluster_labels =
            |namespace: &str, name: &str| clusters.get(&ObjectKey::new(namespace, name)).cloned();
        let scope = FreezeScope {
            freeze_namespace: central,
            namespace_labels: namespace_labels.as_ref(),
            cluster_labels: &cluster_labels,
        };
        let unobserved = PipelineStatus::default();
        let model = pipeline.status.as_ref().unwrap_or(&unobserved);
        let now = self.clock.now();
        Ok(covering_freezes(pipeline, model, &freezes, &scope, now))
    }

    async fn list<K>(&self, namespace: Option<&str>) -> Result<Vec<K>, kube::Error>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let api: Api<K> = match namespace {
            Some(namespace) => Api::namespaced(self.hub.clone(), namespace),
            None => Api::all(self.hub.clone()),
        };
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// None where they may not be read.
    async fn namespace_labels(&self, name: &str) -> Result<Option<Labels>, kube::Error> {
        let namespaces: Api<Namespace> = Api::all(self.hub.clone());
        match namespaces.get_metadata(name).await {
            Ok(namespace) => Ok(Some(namespace.metadata.labels.unwrap_or_default())),
            Err(kube::Error::Api(status)) if status.code == 403 || status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn cluster_labels(&self) -> Result<BTreeMap<ObjectKey, Labels>, kube::Error> {
        let clusters = self
            .list::<GitopsCluster>(self.namespace.as_deref())
            .await?;
        let labels = clusters.into_iter().map(|cluster| {
            let key = ObjectKey::of(&cluster.metadata);
            (key, cluster.metadata.labels.unwrap_or_default())
        });
        Ok(labels.collect())
    }
}

fn unlisted(because: &str) -> Failure {
    let text = format!(
        "cannot list Freezes, and nothing is promoted before they are known: {because}; \
         check the permissions of Sluice on freezes.pipelines.weave.works"
    );
    transient("FreezesUnknown", text)
}
