//! The connection to a cluster, and the Pipelines and Promotions on it.

use std::{ffi::OsString, path::PathBuf};

use anyhow::{Context, anyhow, bail};
use api::{
    Pipeline, Promotion,
    names::{PIPELINE_LABEL, label_value},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::authentication::v1::{SelfSubjectReview, UserInfo},
};
use kube::{
    Api, Client, Config, Resource,
    api::{ListParams, PostParams},
    client::ClientBuilder,
};
use tower::util::MapErrLayer;

use super::{
    cluster_error::{NoAnswer, cluster_error},
    format::closest_name,
    message::print_message,
    terminal::clean,
};
use crate::kubeconfig;

/// Not a manager that Flux takes for kubectl, whose changes it reverts.
pub(super) const FIELD_MANAGER: &str = "sluice";

/// The flags that select the cluster and the namespace.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterFlags {
    /// Kubeconfig to use [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Act as this user (impersonation); needs the verb impersonate
    #[arg(long = "as", value_name = "USER")]
    pub(super) as_user: Option<String>,
    /// Act as a member of this group, with --as; can be repeated
    #[arg(long, value_name = "GROUP", requires = "as_user")]
    pub(super) as_group: Vec<String>,
    /// Namespace [default: that of the context]
    #[arg(long, short, value_name = "NAME")]
    pub(super) namespace: Option<String>,
}

/// A cluster, accessed with the caller's permissions.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl ClusterFlags {
    /// Creates a client from the kubeconfig, without connecting yet.
    pub(crate) async fn connect(&self) -> anyhow::Result<Cluster> {
        let mut config = self.config().await?;
        if let Some(user) = &self.as_user {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups = Some(self.as_group.clone());
        }
        config.connect_timeout = Some(std::time::Duration::from_secs(10));
        let namespace = self.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        let address = config.cluster_url.to_string();
        let builder = ClientBuilder::try_from(config).context("cannot use the kubeconfig")?;
        let named = MapErrLayer::new(move |error| NoAnswer::of(error, &address));
        let client = builder.with_layer(&named).build();
        Ok(Cluster { client, namespace })
    }

    /// Whether there is a kubeconfig, or this process runs in a cluster.
    pub(super) async fn is_configured(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some() || self.config().await.is_ok()
    }

    /// The flags that make kubectl use the same cluster.
    pub(super) fn kubectl_flags(&self) -> Vec<OsString> {
        let mut flags = Vec::new();
        if let Some(file) = &self.kubeconfig {
            flags.extend(["--kubeconfig".into(), file.clone().into_os_string()]);
        }
        if let Some(context) = &self.context {
            flags.extend(["--context".into(), context.into()]);
        }
        flags
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let (file, context) = (self.kubeconfig.as_deref(), self.context.as_deref());
        match kubeconfig::select(file, context).await {
            Err(error) if file.is_none() => Config::incluster().map_err(|_| error),
            config => config,
        }
    }
}

impl Cluster {
    /// The API of one kind in a namespace.
    pub(super) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Reads the pipeline `name`, `namespace/name` or, as people write with kubectl, `pipeline/name`.
    pub(crate) async fn pipeline(&self, name: &str) -> anyhow::Result<Pipeline> {
        match name.split_once('/') {
            Some(("pipeline" | "pipelines", name)) => self.pipeline_in(&self.namespace, name).await,
            Some((namespace, name)) => self.pipeline_in(namespace, name).await,
            None => self.pipeline_in(&self.namespace, name).await,
        }
    }

    /// Reads a pipeline of a namespace.
    pub(super) async fn pipeline_in(
        &self,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<Pipeline> {
        let pipelines = self.api::<Pipeline>(namespace);
        match pipelines.get_opt(name).await {
            Ok(Some(pipeline)) => Ok(pipeline),
            Ok(None) => Err(self.no_such_pipeline(namespace, name).await),
            Err(error) => Err(cluster_error(
                &format!("read pipeline {namespace}/{name}"),
                error,
            )),
        }
    }

    /// The error for a missing pipeline, with a similar name if there is one.
    async fn no_such_pipeline(&self, namespace: &str, name: &str) -> anyhow::Error {
        let parameters = ListParams::default();
        let here = self.api::<Pipeline>(namespace);
        let names = match here.list_metadata(&parameters).await {
            Ok(list) => list.items.into_iter().filter_map(|it| it.metadata.name),
            Err(error) => {
                return cluster_error(&format!("list the pipelines of {namespace}"), error);
            }
        };
        let names: Vec<String> = names.collect();
        let hint = match closest_name(name, names.iter().map(String::as_str)) {
            Some(close) => format!("did you mean {close}?"),
            None if names.is_empty() => {
                format!("namespace {namespace} has no pipelines; select another with -n")
            }
            None => format!("namespace {namespace} has {}", names.join(", ")),
        };
        anyhow!("there is no pipeline {name} in namespace {namespace}: {hint}")
    }

    /// The pipelines of the namespace, or of all. Says so if there are none.
    pub(super) async fn pipelines(&self, is_everywhere: bool) -> anyhow::Result<Vec<Pipeline>> {
        let pipelines = self.list_pipelines(is_everywhere).await?;
        if pipelines.is_empty() {
            let scope = match is_everywhere {
                true => "any namespace".to_owned(),
                false => format!("namespace {}; select another with -n or -A", self.namespace),
            };
            print_message(&format!("no pipelines in {scope}"));
        }
        Ok(pipelines)
    }

    /// The pipelines of the namespace, or of all.
    pub(super) async fn list_pipelines(
        &self,
        is_everywhere: bool,
    ) -> anyhow::Result<Vec<Pipeline>> {
        let pipelines = self.api_in::<Pipeline>(is_everywhere);
        let list = pipelines.list(&ListParams::default()).await;
        let list = list.map_err(|error| cluster_error("list the pipelines", error))?;
        Ok(list.items)
    }

    /// The API of one kind in the selected namespace, or in all.
    pub(super) fn api_in<K>(&self, is_everywhere: bool) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        match is_everywhere {
            true => Api::all(self.client.clone()),
            false => self.api(&self.namespace),
        }
    }

    /// The promotions of a pipeline, oldest first.
    pub(super) async fn promotions(&self, pipeline: &Pipeline) -> anyhow::Result<Vec<Promotion>> {
        let (namespace, name) = key(pipeline);
        let parameters = ListParams::default().labels(&promotions_of(name));
        let list = self.api::<Promotion>(namespace).list(&parameters).await;
        let list = list.map_err(|error| cluster_error("list the promotions", error))?;
        let mut all = list.items;
        all.retain(|promotion| promotion.spec.pipeline == name);
        all.sort_by_key(creation_time);
        Ok(all)
    }

    /// The promotions of the namespace, or of all, oldest first.
    pub(super) async fn all_promotions(
        &self,
        is_everywhere: bool,
    ) -> anyhow::Result<Vec<Promotion>> {
        let promotions = self.api_in::<Promotion>(is_everywhere);
        let list = promotions.list(&ListParams::default()).await;
        let list = list.map_err(|error| cluster_error("list the promotions", error))?;
        let mut all = list.items;
        all.sort_by_key(creation_time);
        Ok(all)
    }

    /// The name of the caller, as the API server knows it.
    pub(super) async fn caller(&self) -> anyhow::Result<String> {
        let user = self.user().await?;
        user.username
            .context("the SelfSubjectReview of the cluster has no user name")
    }

    /// The name and the groups of the caller, as the API server knows them.
    pub(super) async fn user(&self) -> anyhow::Result<UserInfo> {
        let reviews: Api<SelfSubjectReview> = Api::all(self.client.clone());
        let review = SelfSubjectReview::default();
        let review = reviews.create(&PostParams::default(), &review).await;
        let review = review.map_err(|error| {
            cluster_error("determine your user name (SelfSubjectReview)", error)
        })?;
        let user = review.status.and_then(|status| status.user_info);
        user.context("the SelfSubjectReview of the cluster names no user")
    }
}

fn creation_time(promotion: &Promotion) -> Option<jiff::Timestamp> {
    let created = promotion.metadata.creation_timestamp.as_ref();
    created.map(|it| it.0)
}

/// The label selector for the promotions of a pipeline.
pub(super) fn promotions_of(pipeline: &str) -> String {
    format!("{PIPELINE_LABEL}={}", label_value(pipeline))
}

/// The namespace and name of a pipeline.
pub(super) fn key(pipeline: &Pipeline) -> (&str, &str) {
    let metadata = &pipeline.metadata;
    (
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

/// Fails if the pipeline has no such environment.
pub(super) fn require_environment(pipeline: &Pipeline, environment: &str) -> anyhow::Result<()> {
    let names = pipeline.spec.environments.iter().map(|it| it.name.as_str());
    let names: Vec<&str> = names.collect();
    if names.contains(&environment) {
        return Ok(());
    }
    let (_, name) = key(pipeline);
    let hint = match closest_name(environment, names.iter().copied()) {
        Some(close) => format!("did you mean {}?", clean(close)),
        None => format!("it has {}", clean(&names.join(", "))),
    };
    bail!("pipeline {name} has no environment {environment}: {hint}")
}
