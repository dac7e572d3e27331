//! Kubeconfigs from Secrets: read, checked, and made into clients.
//!
//! A Secret must not make us run programs, read files of our pod or talk through a proxy of its
//! choosing, so kubeconfigs that ask for any of that are refused.

use std::{sync::Arc, time::Duration};

use api::{GitopsCluster, cluster::KUBECONFIG_KEYS};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Config,
    config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig},
};

use super::{CALL_TIMEOUT, Connector, told};

/// A kubeconfig and the Secret's version it was read from.
pub(crate) struct Found {
    pub(crate) kubeconfig: Kubeconfig,
    pub(crate) version: String,
}

/// Reads and checks the kubeconfig of a cluster.
pub(crate) async fn read(hub: &Client, cluster: &GitopsCluster) -> Result<Found, String> {
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
    // What the parser says may repeat what stands there, and that is secret.
    let kubeconfig = Kubeconfig::from_yaml(text)
        .map_err(|_| format!("Secret {name:?} does not hold a readable kubeconfig"))?;
    check(&kubeconfig)
        .map_err(|because| format!("the kubeconfig in Secret {name:?} is refused: {because}"))?;
    Ok(Found {
        kubeconfig,
        version: secret.metadata.resource_version.unwrap_or_default(),
    })
}

/// The version of the Secret as it is now.
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
            told(&error)
        )),
        Err(_) => Err(format!("cannot read Secret {namespace}/{name}: no answer")),
    }
}

/// Refuses what a Secret must not make us do.
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

/// Makes clients that talk over the network.
pub fn network_connector() -> Connector {
    Arc::new(|kubeconfig| Box::pin(connect(kubeconfig)))
}

async fn connect(kubeconfig: Kubeconfig) -> Result<Client, String> {
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|error| format!("the kubeconfig cannot be used: {error}"))?;
    config.connect_timeout = Some(Duration::from_secs(5));
    // The environment's proxy is for the hub's own traffic.
    config.proxy_url = None;
    Client::try_from(config).map_err(|error| format!("no client can be made: {}", told(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(cluster: &str, user: &str) -> Result<(), &'static str> {
        let text = format!(
            "clusters: [{{name: c, cluster: {{server: 'https://leaf.example', {cluster}}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        check(&Kubeconfig::from_yaml(&text).expect("a kubeconfig"))
    }

    #[test]
    fn a_secret_cannot_make_us_run_or_read_anything() {
        assert_eq!(verdict("", "token: abc"), Ok(()));
        assert_eq!(
            verdict("certificate-authority-data: YQ==", "client-key-data: YQ=="),
            Ok(())
        );
        for (cluster, user) in [
            (
                "",
                "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}",
            ),
            ("", "auth-provider: {name: gcp, config: {}}"),
            ("", "tokenFile: /var/run/secrets/token"),
            ("", "client-certificate: /etc/passwd"),
            ("", "client-key: /etc/passwd"),
            ("certificate-authority: /etc/passwd", ""),
            ("proxy-url: 'http://evil.example'", ""),
        ] {
            assert!(verdict(cluster, user).is_err(), "{cluster} {user}");
        }
    }
}
