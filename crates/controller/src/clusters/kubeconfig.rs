//! Reads kubeconfigs from Secrets, checks them, and creates clients.
//!
//! A kubeconfig that would run a program, read a file of our pod or use a proxy is refused. Clusters are
//! reached over verified TLS, and not on loopback, link-local or metadata addresses, unless a
//! [`KubeconfigPolicy`] allows that.

use std::{sync::Arc, time::Duration};

use api::{GitopsCluster, cluster::KUBECONFIG_KEYS};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Config,
    config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError},
};

use net::{AddressError, AddressPolicy, parse_url};

use super::{CALL_TIMEOUT, Connector, describe, transport};

/// What kubeconfigs in Secrets may use. An insecure cluster is one with `http` or
/// `insecure-skip-tls-verify`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KubeconfigPolicy(pub AddressPolicy);

impl KubeconfigPolicy {
    /// For clusters on the same machine: internal addresses, but verified TLS.
    pub const LOCAL: Self = Self(AddressPolicy {
        allow_internal: true,
        allow_insecure: false,
    });

    fn check(self, kubeconfig: &Kubeconfig) -> Result<(), String> {
        let clusters = kubeconfig.clusters.iter();
        for cluster in clusters.filter_map(|cluster| cluster.cluster.as_ref()) {
            let skips_verification = cluster.insecure_skip_tls_verify == Some(true);
            if skips_verification && !self.0.allow_insecure {
                let text = "it does not verify the server (insecure-skip-tls-verify); give it \
                            certificate-authority-data, or run with --allow-insecure-clusters";
                return Err(text.to_owned());
            }
            if let Some(server) = &cluster.server {
                self.check_server(server)?;
            }
        }
        Ok(())
    }

    fn check_server(self, server: &str) -> Result<(), String> {
        let url =
            parse_url(server).map_err(|because| format!("its server is not usable: {because}"))?;
        let is_allowed = match url.scheme() {
            "https" => true,
            "http" => self.0.allow_insecure,
            _ => false,
        };
        if !is_allowed {
            return Err("its server is not https".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("its server has credentials in the URL".to_owned());
        }
        let checked = self.0.check_host(url.host_str().unwrap_or_default());
        checked.map_err(|error| format!("its server: {}", refusal(&error)))
    }
}

/// Why an address is refused, and what permits it.
pub(super) fn refusal(error: &AddressError) -> String {
    match error {
        AddressError::Internal { .. } => format!("{error}; --allow-internal-urls permits that"),
        error => error.to_string(),
    }
}

/// A kubeconfig, and the resourceVersion of the Secret it was read from.
pub(crate) struct LoadedKubeconfig {
    pub(crate) kubeconfig: Kubeconfig,
    pub(crate) version: String,
}

/// Reads and checks the kubeconfig of a cluster.
pub(crate) async fn read(
    hub: &Client,
    cluster: &GitopsCluster,
) -> Result<LoadedKubeconfig, String> {
    let (name, secret) = secret(hub, cluster).await?;
    let data = secret.data.unwrap_or_default();
    let text = KUBECONFIG_KEYS
        .iter()
        .find_map(|key| data.get(*key))
        .ok_or_else(|| {
            format!(
                "Secret {name:?} has none of the keys {}",
                KUBECONFIG_KEYS.join(", ")
            )
        })?;
    let text = std::str::from_utf8(&text.0)
        .map_err(|_| format!("the kubeconfig in Secret {name:?} is not text"))?;
    // The parser's message may repeat the text, which is secret.
    let kubeconfig = Kubeconfig::from_yaml(text)
        .map_err(|_| format!("Secret {name:?} does not hold a readable kubeconfig"))?;
    check(&kubeconfig)
        .map_err(|because| format!("the kubeconfig in Secret {name:?} is refused: {because}"))?;
    Ok(LoadedKubeconfig {
        kubeconfig,
        version: secret.metadata.resource_version.unwrap_or_default(),
    })
}

/// The current resourceVersion of the Secret.
pub(crate) async fn version(hub: &Client, cluster: &GitopsCluster) -> Result<String, String> {
    let (_, secret) = secret(hub, cluster).await?;
    Ok(secret.metadata.resource_version.unwrap_or_default())
}

async fn secret(hub: &Client, cluster: &GitopsCluster) -> Result<(String, Secret), String> {
    let name = cluster
        .kubeconfig_secret()
        .ok_or_else(|| "it names neither a Secret nor a CAPI cluster".to_owned())?;
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let secrets: Api<Secret> = Api::namespaced(hub.clone(), namespace);
    match tokio::time::timeout(CALL_TIMEOUT, secrets.get(&name)).await {
        Ok(Ok(secret)) => Ok((name, secret)),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
            Err(format!("Secret {namespace}/{name} does not exist"))
        }
        Ok(Err(error)) => Err(format!(
            "cannot read Secret {namespace}/{name}: {}",
            describe(&error)
        )),
        Err(_) => Err(format!("cannot read Secret {namespace}/{name}: no answer")),
    }
}

/// Refuses kubeconfigs that would run programs, read files or use a proxy.
fn check(kubeconfig: &Kubeconfig) -> Result<(), &'static str> {
    let users = kubeconfig
        .auth_infos
        .iter()
        .filter_map(|user| user.auth_info.as_ref());
    for user in users {
        check_user(user)?;
    }
    let clusters = kubeconfig
        .clusters
        .iter()
        .filter_map(|cluster| cluster.cluster.as_ref());
    for cluster in clusters {
        check_cluster(cluster)?;
    }
    Ok(())
}

fn check_user(user: &AuthInfo) -> Result<(), &'static str> {
    if user.exec.is_some() {
        return Err("it would run a program (exec)");
    }
    if user.auth_provider.is_some() {
        return Err("it uses an auth-provider");
    }
    if user.token_file.is_some() || user.client_certificate.is_some() || user.client_key.is_some() {
        return Err("it names a file; put the data itself into it");
    }
    Ok(())
}

fn check_cluster(cluster: &Cluster) -> Result<(), &'static str> {
    if cluster.certificate_authority.is_some() {
        return Err("it names a certificate file; use certificate-authority-data");
    }
    if cluster.proxy_url.is_some() {
        return Err("it names a proxy");
    }
    Ok(())
}

/// Creates clients that connect over the network, as the policy allows.
pub fn network_connector(policy: KubeconfigPolicy) -> Connector {
    Arc::new(move |kubeconfig| Box::pin(connect(kubeconfig, policy)))
}

async fn connect(kubeconfig: Kubeconfig, policy: KubeconfigPolicy) -> Result<Client, String> {
    policy
        .check(&kubeconfig)
        .map_err(|because| format!("the kubeconfig is refused: {because}"))?;
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| format!("the kubeconfig cannot be used: {}", unusable(&error)))?;
    config.connect_timeout = Some(Duration::from_secs(5));
    // The proxy in the environment is for the hub.
    config.proxy_url = None;
    transport::client(config, policy.0)
        .map_err(|error| format!("no client can be made: {}", describe(&error)))
}

/// Why a kubeconfig cannot be used, in words of our own: the error may repeat its text, which is secret.
fn unusable(error: &KubeconfigError) -> &'static str {
    match error {
        KubeconfigError::CurrentContextNotSet | KubeconfigError::LoadContext(_) => {
            "its current-context names no context"
        }
        KubeconfigError::LoadClusterOfContext(_) => "the cluster of its context is not in it",
        KubeconfigError::MissingClusterUrl | KubeconfigError::ParseClusterUrl(_) => {
            "the server of its cluster is no URL"
        }
        KubeconfigError::LoadCertificateAuthority(_) | KubeconfigError::ParseCertificates(_) => {
            "its certificate authority cannot be read"
        }
        KubeconfigError::LoadClientCertificate(_) | KubeconfigError::LoadClientKey(_) => {
            "its client certificate or key cannot be read"
        }
        _ => "it is not a usable kubeconfig",
    }
}

#[cfg(test)]
mod tests;
