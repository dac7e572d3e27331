//! Promotions in waves by tags of a registry: each target has a tag of its own, which is set with its batch.

use api::promotion::RolloutStatus;
use serde_json::json;
use testbed::registry::{Authentication, PASSWORD, Registry};

use crate::{
    tagged_apps::{self, NAME},
    world::{World, settings, spec, wait_for},
};

const CLUSTERS: [&str; 3] = ["a", "b", "c"];

struct TaggedFleet {
    world: World,
    registry: Registry,
}

impl TaggedFleet {
    /// All run 1.0.0, and the tag of each points to it.
    async fn new() -> Self {
        let registry = Registry::start_with_tls(Authentication::Token).await;
        let registry = registry.unwrap();
        let world = World::with(&[]).await;
        let fleet = Self { world, registry };
        let authority = fleet.registry.certificate_authority().unwrap();
        tagged_apps::set_secret(&fleet.world, PASSWORD, authority).await;
        let first = fleet.registry.push_artifact(NAME, "1.0.0");
        for cluster in CLUSTERS.into_iter().chain(["dev"]) {
            fleet.registry.tag(NAME, &format!("prod-{cluster}"), &first);
            let revision = format!("prod@{first}");
            tagged_apps::install(&fleet.world, cluster, "app", &revision).await;
        }
        let promotion = json!({
            "strategy": tagged_apps::strategy(&fleet.registry.host(), "prod-${cluster}"),
            "rollout": {"waves": [{"percent": 34}, {}]},
        });
        let mut pipeline = spec("dev=dev/app > prod=a/app,b/app,c/app", &promotion);
        pipeline["appRef"] = tagged_apps::app_ref();
        fleet.world.pipeline("app", pipeline).await;
        fleet.world.expect_hold("app", "prod", "").await;
        fleet
    }

    /// Flux has applied an artifact.
    async fn applied(&self, cluster: &str, revision: &str) {
        tagged_apps::applied(&self.world, cluster, "app", revision).await;
    }

    /// A new version reaches dev; its digest.
    async fn release(&self, version: &str) -> String {
        let digest = self.registry.push_artifact(NAME, version);
        self.applied("dev", &format!("{version}@{digest}")).await;
        digest
    }

    /// The clusters whose tag points to a digest.
    fn tagged(&self, digest: &str) -> Vec<&'static str> {
        let has_it = |cluster: &&str| {
            let tag = self.registry.digest_of(NAME, &format!("prod-{cluster}"));
            tag.as_deref() == Some(digest)
        };
        CLUSTERS.into_iter().filter(has_it).collect()
    }

    async fn expect_landed(&self, batches: usize) {
        let mut rollout = RolloutStatus::default();
        let is_so = async || {
            let status = self.world.all_promotions().await.pop();
            let status = status.and_then(|it| it.status).unwrap_or_default();
            rollout = status.rollout.unwrap_or_default();
            let landed = rollout.batches.iter().filter(|it| it.landed_at.is_some());
            landed.count() == batches
        };
        assert!(wait_for(is_so).await, "{}", json!(rollout));
    }
}

#[tokio::test]
async fn each_batch_sets_the_tags_of_its_targets() {
    let mut fleet = TaggedFleet::new().await;
    let digest = fleet.release("1.1.0").await;
    fleet.expect_landed(1).await;
    let first = fleet.tagged(&digest);
    assert_eq!(first.len(), 1, "34 % of three are one");
    fleet.world.restart(settings());
    fleet.applied(first[0], &format!("prod@{digest}")).await;
    fleet.expect_landed(2).await;
    assert_eq!(fleet.tagged(&digest), CLUSTERS);
    for cluster in CLUSTERS {
        fleet.applied(cluster, &format!("prod@{digest}")).await;
    }
    let done = format!("prod {digest} Succeeded");
    fleet.world.expect(&done).await;
    assert_eq!(fleet.registry.puts().len(), 3, "each tag is put once");
}

/// A rollout that stays behind after its first batch: the next one finds tags with two different digests.
#[tokio::test]
async fn a_later_rollout_replaces_what_an_unfinished_one_left() {
    let fleet = TaggedFleet::new().await;
    let second = fleet.release("1.1.0").await;
    fleet.expect_landed(1).await;
    let first = fleet.tagged(&second);
    let stop = json!({"id": "r1", "kind": "StopRollout", "by": "ann"});
    fleet.world.request("app", "prod", stop).await;
    let stopped = format!("prod {second} Deploying/RolloutStopped");
    fleet.world.expect(&stopped).await;
    fleet.applied(first[0], &format!("prod@{second}")).await;
    let third = fleet.release("1.2.0").await;
    let is_tagged = async || {
        for cluster in fleet.tagged(&third) {
            fleet.applied(cluster, &format!("prod@{third}")).await;
        }
        fleet.tagged(&third) == CLUSTERS
    };
    assert!(wait_for(is_tagged).await, "{:?}", fleet.tagged(&third));
}
