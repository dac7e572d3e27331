//! The strategy oci on a real registry (distribution's), with TLS and token authentication.

use serde_json::json;
use testbed::real::{
    Assets,
    registry::{PASSWORD, RealRegistry},
};

use crate::{
    tagged_apps::{self, NAME},
    world::{World, spec, wait_for},
};

struct RealWorld {
    world: World,
    registry: RealRegistry,
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
        for cluster in ["dev", "prod"] {
            let revision = format!("{cluster}@{first}");
            tagged_apps::install(&this.world, cluster, cluster, &revision).await;
        }
        let strategy = tagged_apps::strategy(this.registry.host(), "prod");
        let promotion = json!({"strategy": strategy});
        let mut pipeline = spec("dev=dev/dev > prod=prod/prod", &promotion);
        pipeline["appRef"] = tagged_apps::app_ref();
        this.world.pipeline("app", pipeline).await;
        this.world.expect_hold("app", "prod", "").await;
        (this, first)
    }

    async fn secret(&self, password: &str) {
        let authority = self.registry.certificate_authority();
        tagged_apps::set_secret(&self.world, password, authority).await;
    }

    async fn applied(&self, cluster: &str, revision: &str) {
        tagged_apps::applied(&self.world, cluster, cluster, revision).await;
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
