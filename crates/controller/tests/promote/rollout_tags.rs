//! Promotions in waves by tags of a registry: each target has a tag of its own, which is set with its batch.

use api::promotion::RolloutStatus;
use serde_json::{Value, json};
use testbed::registry::{Authentication, PASSWORD, Registry, USER};

use crate::world::{World, apply, define, definition, set_status, settings, spec, wait_for};

const NAME: &str = "team/shop";
const CLUSTERS: [&str; 3] = ["a", "b", "c"];

struct TaggedFleet {
    world: World,
    registry: Registry,
}

fn kustomization(namespace: &str) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": namespace},
        "spec": {"sourceRef": {"kind": "OCIRepository", "name": "app"}},
    })
}

impl TaggedFleet {
    /// All run 1.0.0, and the tag of each points to it.
    async fn new() -> Self {
        let registry = Registry::start_with_tls(Authentication::Token).await;
        let registry = registry.unwrap();
        let world = World::with(&[]).await;
        let fleet = Self { world, registry };
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "registry", "namespace": "default"},
            "stringData": {
                "username": USER, "password": PASSWORD,
                "caFile": fleet.registry.certificate_authority().unwrap(),
            },
        });
        apply(&fleet.world.hub, &secret).await;
        let first = fleet.registry.push_artifact(NAME, "1.0.0");
        let kind = definition("kustomize.toolkit.fluxcd.io", "Kustomization", "v1");
        for cluster in CLUSTERS.into_iter().chain(["dev"]) {
            fleet.world.leaf(cluster, "app", "1.0.0").await;
            define(&fleet.world.cluster(cluster), &kind).await;
            apply(&fleet.world.cluster(cluster), &kustomization("app")).await;
            fleet.registry.tag(NAME, &format!("prod-{cluster}"), &first);
            fleet.applied(cluster, &format!("prod@{first}")).await;
        }
        let promotion = json!({
            "strategy": {"oci": {
                "url": format!("oci://{}/{NAME}", fleet.registry.host()), "tag": "prod-${cluster}",
                "secretRef": {"name": "registry"},
            }},
            "rollout": {"waves": [{"percent": 34}, {}]},
        });
        let mut pipeline = spec("dev=dev/app > prod=a/app,b/app,c/app", &promotion);
        pipeline["appRef"] = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "app",
        });
        fleet.world.pipeline("app", pipeline).await;
        fleet.world.expect_hold("app", "prod", "").await;
        fleet
    }

    /// Flux has applied an artifact.
    async fn applied(&self, cluster: &str, revision: &str) {
        let status = json!({
            "observedGeneration": 1, "lastAppliedRevision": revision,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Done", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        });
        let client = self.world.cluster(cluster);
        set_status(&client, &kustomization("app"), &status).await;
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
