//! On a real API server with exactly the rights that the manifests give.

use std::{
    fs,
    path::{Path, PathBuf},
};

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, api::PostParams, config::Kubeconfig};
use serde_json::json;
use testbed::real::{Assets, ControlPlane};

use crate::world::{World, apply};

const MANIFESTS: [&str; 4] = [
    include_str!("../../../../deploy/manifests/namespace.yaml"),
    include_str!("../../../../deploy/manifests/access.yaml"),
    include_str!("../../../../deploy/manifests/roles.yaml"),
    include_str!("../../../../deploy/manifests/policy.yaml"),
];

/// A kubeconfig for the service account of the install, in a file.
async fn kubeconfig(plane: &ControlPlane, folder: &Path) -> PathBuf {
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.client(), "pipeline-system");
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(3600),
            ..Default::default()
        },
        ..Default::default()
    };
    let parameters = PostParams::default();
    let made = accounts.create_token_request("pipeline-controller", &parameters, &request);
    let token = made.await.unwrap().status.unwrap().token;
    let mut kubeconfig = Kubeconfig::from_yaml(plane.kubeconfig()).unwrap();
    kubeconfig.auth_infos[0].auth_info = None;
    let context = kubeconfig.contexts[0].context.as_mut().unwrap();
    context.namespace = Some("pipeline-system".to_owned());
    let mut value = serde_json::to_value(&kubeconfig).unwrap();
    value["users"][0]["user"] = json!({"token": token});
    let file = folder.join("kubeconfig");
    fs::write(&file, value.to_string()).unwrap();
    file
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn the_rights_of_the_install_suffice() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let assets = Assets::from_env().unwrap();
    let plane = ControlPlane::start(&assets).await.unwrap();
    let world = World::new(plane.client(), ["1.1.0", "1.0.0"], json!({})).await;
    for manifest in MANIFESTS {
        apply(&world.hub, serde_saphyr::from_multiple(manifest).unwrap()).await;
    }
    let _running = world.start(&kubeconfig(&plane, world.folder()).await);
    world.merge().await;
    world.promoted("prod", "1.1.0").await;
    let log = world.log();
    assert!(!log.to_lowercase().contains("forbidden"), "{log}");
}
