//! Runs the container of a Deployment with its ServiceAccount, since the control plane has no nodes.

use std::{fs, net::SocketAddr, path::PathBuf};

use k8s_openapi::api::{
    apps::v1::Deployment,
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Container, ServiceAccount},
};
use kube::{Api, Client, api::PostParams, config::Kubeconfig};
use serde_json::json;
use testbed::shop::{RunningBinary, ShopPipeline};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{binary, cluster::Cluster};

/// Starts the container of a Deployment with its arguments and the permissions of its ServiceAccount.
pub(crate) async fn run(
    cluster: &Cluster,
    shop: &ShopPipeline,
    namespace: &str,
    name: &str,
) -> RunningBinary {
    let (account, container) = container(&cluster.client, namespace, name).await;
    assert_eq!(container.command.unwrap(), ["/usr/local/bin/sluice"]);
    let notifications = notification_controller().await;
    let arguments = container.args.unwrap().into_iter();
    let arguments: Vec<String> = arguments
        .map(|argument| match argument.starts_with("--events-addr=") {
            true => format!("--events-addr=http://{notifications}/"),
            false => argument,
        })
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let kubeconfig = kubeconfig(cluster, shop, namespace, &account).await;
    shop.start(binary(), &kubeconfig, &arguments)
}

/// Takes events as Flux's notification-controller does, for as long as the test runs.
async fn notification_controller() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut seen = vec![0; 64 * 1024];
            // Events are small: they come in one piece.
            let _ = stream.read(&mut seen).await;
            let answer = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

/// The service account and the only container of a Deployment.
async fn container(client: &Client, namespace: &str, name: &str) -> (String, Container) {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let deployment = deployments.get(name).await.unwrap();
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.containers.len(), 1);
    let container = pod.containers.into_iter().next().unwrap();
    (pod.service_account_name.unwrap(), container)
}

/// A kubeconfig for a service account, in a file.
async fn kubeconfig(
    cluster: &Cluster,
    shop: &ShopPipeline,
    namespace: &str,
    account: &str,
) -> PathBuf {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), namespace);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(3600),
            ..Default::default()
        },
        ..Default::default()
    };
    let parameters = PostParams::default();
    let made = accounts.create_token_request(account, &parameters, &request);
    let token = made.await.unwrap().status.unwrap().token;
    let mut kubeconfig = Kubeconfig::from_yaml(cluster.kubeconfig()).unwrap();
    kubeconfig.auth_infos[0].auth_info = None;
    let context = kubeconfig.contexts[0].context.as_mut().unwrap();
    context.namespace = Some(namespace.to_owned());
    let mut value = serde_json::to_value(&kubeconfig).unwrap();
    value["users"][0]["user"] = json!({"token": token});
    let file = shop.folder().join("kubeconfig");
    fs::write(&file, value.to_string()).unwrap();
    file
}
