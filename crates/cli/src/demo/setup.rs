//! Sets up the demo: three clusters with a Flux stand-in, a git forge, and Sluice with a pipeline.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use api::{Pipeline, Promotion};
use apiserver::{ServeHandle, ServeOptions, Server, User};
use controller::settings::Authoring;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use net::HostPatterns;
use runtime::ObjectKey;
use serde_json::{Value, json};
use testbed::{
    flux::{AppEndpoint, Flux, FluxTiming, definitions},
    forge::{Forge, PullRequest, PullState, Repository},
};
use tokio_util::sync::CancellationToken;

use super::{
    RELEASES,
    releases::{self, Releases},
};
use crate::args::demo::Arguments;
use crate::standalone::{ListenAddresses, ListeningStandalone, Standalone, loopback, random_text};

pub(super) const ENVIRONMENTS: [&str; 3] = ["dev", "staging", "prod"];
pub(super) const PIPELINE: &str = "podinfo";
/// The user who gives the second approval for prod.
pub(super) const SECOND_APPROVER: &str = "ann";
/// The check of staging.
const CHECK: &str = "smoke";
/// Folder for new pipelines in the repository.
const PIPELINES_FOLDER: &str = "pipelines";
/// How long to wait before merging a proposed pipeline.
const MERGE_DELAY: Duration = Duration::from_secs(4);
/// Slow enough to watch.
const TIMING: FluxTiming = FluxTiming {
    poll_interval: Duration::from_millis(300),
    release_duration: Duration::from_secs(2),
};

/// The running parts of the demo.
pub(super) struct DemoSetup {
    pub(super) standalone: Standalone,
    pub(super) forge: Forge,
    repository: Repository,
    pub(super) releases: Releases,
    folder: PathBuf,
    /// The address of the REST API and the dashboard.
    rest: SocketAddr,
    /// With which the second approver signs in.
    pub(super) second_token: String,
    /// Answers as the app in each environment.
    app: AppEndpoint,
    /// The leaf clusters, which stop with the demo.
    _clusters: Vec<(Server, ServeHandle, Flux)>,
    /// Applies pipelines from git to the hub.
    _flux: Flux,
}

impl DemoSetup {
    /// Starts everything except the controller. Fails early if the port is in use.
    pub(super) async fn start(
        folder: &Path,
        arguments: &Arguments,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<(Self, ListeningStandalone)> {
        let standalone = Standalone::open(&folder.join("sluice"), loopback(0)).await?;
        let forge = Forge::start_with_tls()
            .await
            .context("cannot start the forge")?;
        let files = match arguments.gitless {
            true => Vec::new(),
            false => releases::files(RELEASES[0]),
        };
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let repository = forge.create_repository("demo/fleet", &files).await;
        let repository = repository.context("cannot create the repository")?;
        let releases = match arguments.gitless {
            true => Releases::in_registry(RELEASES[0]).await?,
            false => Releases::Git(repository.clone()),
        };
        let hub = standalone.server.client();
        let clusters = clusters(folder, &hub, &releases).await?;
        let app = clusters.iter().zip(ENVIRONMENTS);
        let app = app.map(|((server, ..), name)| (name.to_owned(), server.client()));
        let app = AppEndpoint::start(PIPELINE, app).await;
        let app = app.context("cannot serve the app")?;
        let addresses = ListenAddresses {
            hooks: loopback(0),
            rest: loopback(arguments.port),
        };
        let settings = settings(&repository, &app)?;
        let listening = standalone.listen(addresses, settings, shutdown).await?;
        for (server, ..) in &clusters {
            until_deployed(&server.client(), &releases.app()).await?;
        }
        let second_token = random_text().context("cannot generate a token")?;
        let second = User::new(SECOND_APPROVER, &[]);
        standalone.server.add_token(&second_token, second);
        let flux = flux_for_pipelines(hub, repository.clone()).await?;
        let setup = Self {
            standalone,
            forge,
            repository,
            releases,
            folder: folder.to_owned(),
            rest: listening.rest,
            second_token,
            app,
            _clusters: clusters,
            _flux: flux,
        };
        setup.write_pipeline().await?;
        Ok((setup, listening))
    }

    /// Merges the pull requests of Changes a few seconds after they are opened, in place of a reviewer.
    pub(super) async fn merge_changes(&self) {
        loop {
            let proposed = self.repository.pull_requests().await.into_iter();
            let is_new =
                |it: &PullRequest| it.state == PullState::Open && it.head.starts_with("change-");
            for pull in proposed.filter(is_new) {
                tokio::time::sleep(MERGE_DELAY).await;
                // Fails if somebody else merged or closed it.
                drop(self.repository.merge(pull.number).await);
            }
            tokio::time::sleep(TIMING.poll_interval).await;
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The port of the dashboard.
    pub(super) fn port(&self) -> u16 {
        self.rest.port()
    }

    pub(super) fn rest(&self) -> String {
        format!("http://{}", self.rest)
    }

    pub(super) fn pipelines(&self) -> Api<Pipeline> {
        Api::namespaced(self.standalone.server.client(), "default")
    }

    pub(super) fn promotions(&self) -> Api<Promotion> {
        Api::namespaced(self.standalone.server.client(), "default")
    }

    async fn write_pipeline(&self) -> anyhow::Result<()> {
        let hub = self.standalone.server.client();
        for secret in self.releases.secrets(&self.forge) {
            apply(&hub, &secret).await?;
        }
        let change = self.releases.strategy();
        let target = |cluster: &str| {
            json!([{
                "namespace": PIPELINE, "clusterRef": {"kind": "GitopsCluster", "name": cluster},
            }])
        };
        let url = format!("http://{}/${{environment}}/healthz", self.app.host());
        let pipeline = json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": PIPELINE, "namespace": "default"},
            "spec": {
                "appRef": self.releases.app(),
                "promotion": {"strategy": change},
                "checks": [{
                    "name": CHECK, "initialDelay": "2s",
                    "http": {"url": url, "passExpr": "status == 200"},
                }],
                "environments": [
                    {"name": "dev", "targets": target("dev")},
                    {"name": "staging", "targets": target("staging"), "verify": {
                        "checks": [CHECK], "onFailure": "Rollback",
                    }},
                    {"name": "prod", "targets": target("prod"), "promotion": {
                        "approvalPolicy": {"count": 2}, "strategy": change,
                    }},
                ],
            },
        });
        apply(&hub, &pipeline).await?;
        apply(&hub, &second_approver()).await
    }
}

/// Lets the demo's second person read and approve.
fn second_approver() -> Value {
    let rbac = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": SECOND_APPROVER, "namespace": "default"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "pipeline-controller-approver"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": SECOND_APPROVER}],
    })
}

/// The settings of the controller.
fn settings(repository: &Repository, app: &AppEndpoint) -> anyhow::Result<controller::Settings> {
    Ok(controller::Settings {
        allow_internal_urls: true,
        check_hosts: HostPatterns::parse([app.host().as_str()])?,
        follow_every: Duration::from_secs(1),
        authoring: Some(Authoring {
            url: repository.url(),
            branch: "main".to_owned(),
            forge: api::pipeline::ForgeKind::Gitea,
            secret: ObjectKey::new("default", releases::SECRET),
            folders: vec![PIPELINES_FOLDER.to_owned()],
        }),
        ..controller::Settings::default()
    })
}

/// The cluster of each environment with Flux, registered at the hub.
async fn clusters(
    folder: &Path,
    hub: &Client,
    releases: &Releases,
) -> anyhow::Result<Vec<(Server, ServeHandle, Flux)>> {
    let mut clusters = Vec::new();
    for environment in ENVIRONMENTS {
        let (server, served) = cluster(&folder.join(environment)).await?;
        register(hub, environment, served.kubeconfig()).await?;
        let flux = releases.deploy(environment, server.client(), TIMING);
        clusters.push((server, served, flux));
    }
    Ok(clusters)
}

/// Runs Flux on the hub, for pipelines in git.
async fn flux_for_pipelines(hub: Client, repository: Repository) -> anyhow::Result<Flux> {
    for definition in definitions() {
        apply(&hub, &definition).await?;
    }
    Ok(Flux::start(repository, PIPELINES_FOLDER, hub, TIMING))
}

/// A leaf cluster with Flux's CustomResourceDefinitions.
async fn cluster(folder: &Path) -> anyhow::Result<(Server, ServeHandle)> {
    let server = Server::in_memory();
    for definition in definitions() {
        apply(&server.client(), &definition).await?;
    }
    let served = server.serve(ServeOptions::new(folder)).await;
    let served = served.context("cannot serve a cluster")?;
    Ok((server, served))
}

/// Waits until Flux has deployed what was in the repository from the start.
async fn until_deployed(cluster: &Client, app: &Value) -> anyhow::Result<()> {
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&app["apiVersion"]), text(&app["kind"]));
    let (group, version) = api_version.split_once('/').unwrap_or_default();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let releases: Api<DynamicObject> = Api::namespaced_with(cluster.clone(), PIPELINE, &resource);
    for _ in 0..600 {
        let release = releases
            .get_opt(PIPELINE)
            .await
            .with_context(|| format!("cannot read a {kind}"))?;
        if release.is_some_and(|it| it.data["status"]["conditions"][0]["status"] == "True") {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    anyhow::bail!("the first release was not deployed in time")
}

/// The kubeconfig of the demo in a folder.
pub(super) fn kubeconfig(folder: &Path) -> PathBuf {
    folder.join("sluice/kubeconfig")
}

async fn register(hub: &Client, name: &str, kubeconfig: &Path) -> anyhow::Result<()> {
    let kubeconfig =
        std::fs::read_to_string(kubeconfig).context("cannot read a cluster's kubeconfig")?;
    let secret = format!("{name}-kubeconfig");
    let metadata = json!({"name": secret, "namespace": "default"});
    apply(hub, &json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"value": kubeconfig},
    })).await?;
    apply(
        hub,
        &json!({
            "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"secretRef": {"name": secret}},
        }),
    )
    .await
}

async fn apply(client: &Client, object: &Value) -> anyhow::Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let applied = api
        .patch(
            &name,
            &PatchParams::apply("demo").force(),
            &Patch::Apply(object),
        )
        .await;
    applied
        .map(drop)
        .with_context(|| format!("cannot create the {kind} {name}"))
}

/// Whether the text is safe to write into the manifest as a version. With fewer dots it would be a number there.
pub(super) fn is_version(text: &str) -> bool {
    let starts = text.starts_with(|first: char| first.is_ascii_digit());
    starts
        && text.matches('.').count() >= 2
        && text.len() <= 64
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ".-+".contains(c))
}
