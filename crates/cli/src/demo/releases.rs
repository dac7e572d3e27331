//! Where the releases of the demo come from: a git repository, or with `--gitless` an OCI registry.

use anyhow::Context;
use kube::Client;
use serde_json::{Value, json};
use testbed::{
    flux::{Flux, FluxTiming, FollowedTag},
    forge::{Forge, Repository},
    registry::{Authentication, PASSWORD, Registry, USER},
};

use super::setup::{ENVIRONMENTS, PIPELINE};

/// The repository in the registry.
const ARTIFACTS: &str = "demo/podinfo";
/// The Secret with the credentials for promotions.
pub(super) const SECRET: &str = "fleet";

/// What Flux deploys from, and what promotions change.
pub(super) enum Releases {
    /// Manifests in a git repository.
    Git(Repository),
    /// Tags of an OCI registry.
    Registry(std::sync::Arc<Registry>),
}

impl Releases {
    /// A registry in which every environment follows a tag of its own, at a version.
    pub(super) async fn in_registry(version: &str) -> anyhow::Result<Self> {
        let registry = Registry::start_with_tls(Authentication::Token).await;
        let registry = registry.context("cannot start the registry")?;
        let digest = registry.push_artifact(ARTIFACTS, version);
        for tag in ENVIRONMENTS.iter().chain([&version]) {
            registry.tag(ARTIFACTS, tag, &digest);
        }
        Ok(Self::Registry(registry.into()))
    }

    /// Runs Flux for an environment on its cluster.
    pub(super) fn deploy(&self, environment: &str, cluster: Client, timing: FluxTiming) -> Flux {
        match self {
            Self::Git(repository) => {
                let folder = format!("clusters/{environment}");
                Flux::start(repository.clone(), &folder, cluster, timing)
            }
            Self::Registry(registry) => {
                let tag = FollowedTag {
                    registry: registry.clone(),
                    repository: ARTIFACTS.to_owned(),
                    tag: environment.to_owned(),
                    app: PIPELINE.to_owned(),
                };
                Flux::follow_tag(tag, cluster, timing)
            }
        }
    }

    /// Releases a version to dev, as CI would.
    pub(super) async fn push(&self, version: &str) -> anyhow::Result<()> {
        match self {
            Self::Git(repository) => {
                let (path, text) = (path("dev"), manifest("dev", version));
                let message = format!("Release {version} to dev");
                let pushed = repository.commit("main", &message, &[(&path, &text)]).await;
                pushed.map(drop).context("cannot push to the forge")
            }
            Self::Registry(registry) => {
                let digest = registry.push_artifact(ARTIFACTS, version);
                registry.tag(ARTIFACTS, &tag(version), &digest);
                registry.tag(ARTIFACTS, "dev", &digest);
                Ok(())
            }
        }
    }

    /// The revision of a version: the version itself, or the digest of its artifact.
    pub(super) fn revision(&self, version: &str) -> String {
        match self {
            Self::Git(_) => version.to_owned(),
            Self::Registry(registry) => {
                let digest = registry.digest_of(ARTIFACTS, &tag(version));
                digest.unwrap_or_default()
            }
        }
    }

    /// The app of the pipeline.
    pub(super) fn app(&self) -> Value {
        let (api_version, kind) = match self {
            Self::Git(_) => ("helm.toolkit.fluxcd.io/v2", "HelmRelease"),
            Self::Registry(_) => ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"),
        };
        json!({"apiVersion": api_version, "kind": kind, "name": PIPELINE})
    }

    /// How promotions are carried out.
    pub(super) fn strategy(&self) -> Value {
        match self {
            Self::Git(repository) => json!({"pull-request": {
                "type": "gitea", "url": repository.url(), "baseBranch": "main",
                "secretRef": {"name": SECRET}, "autoMerge": true,
            }}),
            Self::Registry(registry) => json!({"oci": {
                "url": format!("oci://{}/{ARTIFACTS}", registry.host()),
                "tag": "${environment}", "secretRef": {"name": "registry"},
            }}),
        }
    }

    /// The Secrets that promotions need.
    pub(super) fn secrets(&self, forge: &Forge) -> Vec<Value> {
        let token = forge.token();
        let git = json!({
            "username": "sluice", "password": token, "token": token,
            "caFile": forge.certificate_authority().unwrap_or_default(),
        });
        let mut secrets = vec![secret(SECRET, git)];
        if let Self::Registry(registry) = self {
            let entries = json!({
                "username": USER, "password": PASSWORD,
                "caFile": registry.certificate_authority().unwrap_or_default(),
            });
            secrets.push(secret("registry", entries));
        }
        secrets
    }

    /// How it works, in a sentence or two.
    pub(super) fn introduction(&self) -> &'static str {
        match self {
            Self::Git(_) => {
                "Three clusters (dev, staging, prod), each with a stand-in for Flux, a git forge and Sluice run in\n\
                 this process. The stand-in deploys what is in git; Sluice promotes it by pull requests.\n"
            }
            Self::Registry(_) => {
                "Three clusters (dev, staging, prod), each with a stand-in for Flux, an OCI registry and Sluice\n\
                 run in this process. The stand-in follows a tag per environment;\n\
                 Sluice promotes by moving the tags.\n"
            }
        }
    }
}

/// The files of the repository at the start.
pub(super) fn files(version: &str) -> Vec<(String, String)> {
    let file = |environment: &&str| (path(environment), manifest(environment, version));
    ENVIRONMENTS.iter().map(file).collect()
}

/// Versions may have a `+`, which tags cannot.
fn tag(version: &str) -> String {
    version.replace('+', "_")
}

fn secret(name: &str, entries: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"},
        "stringData": entries,
    })
}

fn path(environment: &str) -> String {
    format!("clusters/{environment}/{PIPELINE}.yaml")
}

/// The manifest of an environment in the repository.
fn manifest(environment: &str, version: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {PIPELINE}\n---\n\
         apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\n\
         metadata:\n  name: charts\n  namespace: {PIPELINE}\n\
         spec:\n  url: https://charts.example.com\n---\n\
         apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n\
         metadata:\n  name: {PIPELINE}\n  namespace: {PIPELINE}\n\
         spec:\n  interval: 1m\n  chart:\n    spec:\n      chart: {PIPELINE}\n      \
         version: {version} # {{\"$promotion\": \"default:{PIPELINE}:{environment}\"}}\n      \
         sourceRef:\n        kind: HelmRepository\n        name: charts\n"
    )
}
