//! The strategy oci on a real registry (distribution's), with TLS and token authentication.

use serde_json::{Value, json};
use testbed::real::{
    Assets,
    registry::{PASSWORD, RealRegistry, USER},
};

use crate::world::{World, apply, define, definition, set_status, spec, wait_for};

const NAME: &str = "team/shop";

struct RealWorld {
    world: World,
    registry: RealRegistry,
}

fn kustomization(namespace: &str) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": namespace},
        "spec": {"sourceRef": {"kind": "OCIRepository", "name": "app"}},
    })
}

impl RealWorld {
    /// Dev and prod run 1.0.0, and the tag `prod` points to it; its digest.
    async fn new() -> (Self, String) {
        let assets = Assets::from_env().unwrap();
        let registry = RealRegistry::start(&assets).await.unwrap();
        let first = registry.push_artifact(NAME, "1.0.0").await.unwrap();
        registry.tag(NAME, "prod", &first).await.unwrap();
        let this = Self {
            world: World::with(&[]).await,
            registry,
        };
        this.secret(PASSWORD).await;
        let kind = definition("kustomize.toolkit.fluxcd.io", "Kustomization", "v1");
        for cluster in ["dev", "prod"] {
            this.world.leaf(cluster, cluster, "1.0.0").await;
            define(&this.world.cluster(cluster), &kind).await;
            apply(&this.world.cluster(cluster), &kustomization(cluster)).await;
            this.applied(cluster, &format!("{cluster}@{first}")).await;
        }
        let promotion = json!({"strategy": {"oci": {
            "url": format!("oci://{}/{NAME}", this.registry.host()), "tag": "prod",
            "secretRef": {"name": "registry"},
        }}});
        let mut pipeline = spec("dev=dev/dev > prod=prod/prod", &promotion);
        pipeline["appRef"] = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "app",
        });
        this.world.pipeline("app", pipeline).await;
        this.world.expect_hold("app", "prod", "").await;
        (this, first)
    }

    async fn secret(&self, password: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "registry", "namespace": "default"},
            "stringData": {
                "username": USER, "password": password,
                "caFile": self.registry.certificate_authority(),
            },
        });
        apply(&self.world.hub, &secret).await;
    }

    async fn applied(&self, cluster: &str, revision: &str) {
        let status = json!({
            "observedGeneration": 1, "lastAppliedRevision": revision,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Done", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        });
        let client = self.world.cluster(cluster);
        set_status(&client, &kustomization(cluster), &status).await;
    }

    async fn release(&self, version: &str) -> String {
        let digest = self.registry.push_artifact(NAME, version).await.unwrap();
        self.applied("dev", &format!("{version}@{digest}")).await;
        digest
    }

    async fn tagged(&self) -> String {
        let manifest = self.registry.manifest(NAME, "prod").await.unwrap();
        manifest.unwrap().digest
    }

    async fn expect_tag(&self, digest: &str) {
        let is_tagged = async || self.tagged().await == digest;
        assert!(
            wait_for(is_tagged).await,
            "the tag does not point to {digest}"
        );
    }
}

#[tokio::test]
#[ignore = "needs the registry that `cargo xtask kube` builds"]
async fn a_tag_is_promoted_byte_for_byte_and_rolled_back() {
    let (world, first) = RealWorld::new().await;
    let digest = world.release("1.1.0").await;
    world
        .world
        .expect(&format!("prod {digest} Deploying"))
        .await;
    let by_digest = world.registry.manifest(NAME, &digest).await.unwrap();
    let by_tag = world.registry.manifest(NAME, "prod").await.unwrap();
    assert!(by_tag.is_some() && by_tag == by_digest);
    world.applied("prod", &format!("prod@{digest}")).await;
    world
        .world
        .expect(&format!("prod {digest} Succeeded"))
        .await;
    let request = json!({"id": "r1", "revision": first, "kind": "Rollback"});
    world.world.request("app", "prod", request).await;
    world.expect_tag(&first).await;
}

#[tokio::test]
#[ignore = "needs the registry that `cargo xtask kube` builds"]
async fn wrong_passwords_and_tags_of_others_hold_it_back() {
    let (world, first) = RealWorld::new().await;
    world.secret("wrong").await;
    let digest = world.release("1.1.0").await;
    let refused = format!("prod {digest} Running/Unauthorized");
    world.world.expect(&refused).await;
    let foreign = world.registry.push_artifact(NAME, "0.9.0").await.unwrap();
    world.registry.tag(NAME, "prod", &foreign).await.unwrap();
    world.secret(PASSWORD).await;
    let held = format!("prod {digest} Running/TagChangedByOthers");
    world.world.expect(&held).await;
    assert_eq!(world.tagged().await, foreign);
    world.registry.tag(NAME, "prod", &first).await.unwrap();
    world.expect_tag(&digest).await;
}
