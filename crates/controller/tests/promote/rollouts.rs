//! Promotions in waves by pull request and commit: each batch has its own branch and pull request, limits are
//! kept, and what people approved is compared batch by batch.

use api::{
    Promotion,
    promotion::{Batch, RolloutStatus},
};
use kube::{Api, api::DeleteParams};
use serde_json::{Value, json};
use testbed::forge::PullState;

use crate::world::{World, apply, manifest, released, settings, spec, wait_for};

pub(crate) const MARKER: &str = "default:app:prod";

/// The file of a cluster.
fn path(cluster: &str) -> String {
    format!("clusters/{cluster}/app.yaml")
}

/// A fleet of clusters whose files are their own, all at 1.0.0; `c0` is the canary.
pub(crate) struct Fleet {
    pub(crate) world: World,
}

impl Fleet {
    pub(crate) async fn new(size: usize, settings: impl FnOnce(&World) -> Value) -> Self {
        let clusters: Vec<_> = (0..size).map(|it| format!("c{it}")).collect();
        let files = clusters.iter();
        let files = files.map(|it| (path(it), manifest("1.0.0", MARKER)));
        let files: Vec<_> = files.collect();
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let world = World::with(&files).await;
        world.leaf("dev", "dev", "1.0.0").await;
        for cluster in &clusters {
            world.leaf(cluster, "app", "1.0.0").await;
        }
        let fleet = Self { world };
        for cluster in &clusters {
            let ring = if cluster == "c0" { "canary" } else { "rest" };
            fleet.label(cluster, ring).await;
        }
        let promotion = settings(&fleet.world);
        let mut spec = spec("dev=dev/dev > prod=x/app", &promotion);
        spec["environments"][1]["targets"] = json!([{
            "namespace": "app", "clusterSelector": {"matchLabels": {"fleet": "yes"}},
        }]);
        fleet.world.pipeline("app", spec).await;
        fleet.world.expect_hold("app", "prod", "").await;
        let is_observed = async || fleet.observed().await == size;
        assert!(wait_for(is_observed).await, "not all clusters are observed");
        fleet
    }

    async fn observed(&self) -> usize {
        let status = self.world.pipelines().get("app").await.unwrap().status;
        let environments = status.unwrap_or_default().environments;
        let targets = environments.get("prod").map(|it| it.targets.clone());
        let targets = targets.unwrap_or_default();
        targets.iter().filter(|it| it.ready).count()
    }

    /// Adds a cluster to the environment.
    pub(crate) async fn label(&self, cluster: &str, ring: &str) {
        let labelled = json!({
            "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
            "metadata": {"name": cluster, "namespace": "default",
                "labels": {"fleet": "yes", "ring": ring}},
            "spec": {"secretRef": {"name": cluster}},
        });
        apply(&self.world.hub, &labelled).await;
    }

    pub(crate) async fn promotion(&self) -> Option<Promotion> {
        self.world.all_promotions().await.pop()
    }

    pub(crate) async fn rollout(&self) -> RolloutStatus {
        let status = self.promotion().await.and_then(|it| it.status);
        status.and_then(|it| it.rollout).unwrap_or_default()
    }

    /// Waits until this many batches were started and the last one is as the test wants it.
    pub(crate) async fn expect_batch(&self, number: usize, landed: bool) -> Vec<String> {
        let mut rollout = RolloutStatus::default();
        let is_so = async || {
            rollout = self.rollout().await;
            let last = rollout.batches.last();
            rollout.batches.len() == number
                && last.is_some_and(|it: &Batch| it.landed_at.is_some() == landed)
        };
        assert!(wait_for(is_so).await, "{number}: {}", json!(rollout));
        let targets = rollout.targets_of(number.try_into().unwrap());
        let clusters = targets.map(|it| it.target.strip_suffix("/app").unwrap().to_owned());
        clusters.collect()
    }

    /// Waits for the open pull request of a batch, and returns its number and its clusters.
    pub(crate) async fn expect_pull_request(&self, number: usize) -> (u64, Vec<String>) {
        let clusters = self.expect_batch(number, false).await;
        self.world.expect("prod 1.1.0 WaitingForMerge").await;
        let branch = format!("promotion-default-app-prod-b{number}");
        let pulls = self.world.repository.pull_requests().await;
        let pull = pulls.iter().find(|it| it.head == branch);
        let pull = pull.unwrap_or_else(|| panic!("{branch}: {pulls:?}"));
        assert_eq!(pull.state, PullState::Open);
        let count = match clusters.len() {
            1 => "1 target".to_owned(),
            count => format!("{count} targets"),
        };
        let title = format!("Promote default/app in prod to 1.1.0, batch {number} ({count})");
        assert_eq!(pull.title, title);
        let uid = self.promotion().await.unwrap().metadata.uid.unwrap();
        let trailer = format!("\nSluice-Promotion: {uid}/{number}\n");
        assert!(pull.body.contains(&trailer), "{}", pull.body);
        for cluster in &clusters {
            assert!(pull.body.contains(&format!("- `{cluster}/app`\n")));
            assert_eq!(self.world.version(&branch, &path(cluster)).await, "1.1.0");
        }
        (pull.number, clusters)
    }

    /// Merges a pull request, and Flux brings its clusters to what `main` says.
    pub(crate) async fn merge(&self, (number, clusters): (u64, Vec<String>)) {
        self.world.repository.merge(number).await.unwrap();
        self.deploy(&clusters).await;
    }

    /// Flux brings clusters to what their files on `main` say.
    pub(crate) async fn deploy(&self, clusters: &[String]) {
        for cluster in clusters {
            self.world.sync(&path(cluster), cluster, "app").await;
        }
    }

    /// The versions in the files on `main`.
    async fn versions(&self, size: usize) -> Vec<String> {
        let mut versions = Vec::new();
        for number in 0..size {
            let path = path(&format!("c{number}"));
            versions.push(self.world.version("main", &path).await);
        }
        versions
    }

    pub(crate) async fn order(&self, id: &str, request: Value) {
        let mut request = request;
        request["id"] = json!(id);
        request["by"] = json!("ann");
        self.world.request("app", "prod", request).await;
    }

    /// Waits until the environment is held for a reason of its rollout.
    async fn expect_reason(&self, reason: &str) {
        let mut last = String::new();
        let is_so = async || {
            let status = self.promotion().await.and_then(|it| it.status);
            last = status.and_then(|it| it.reason).unwrap_or_default();
            last == reason
        };
        assert!(wait_for(is_so).await, "{last} and not {reason}");
    }
}

/// Settings by pull request into a folder per cluster.
pub(crate) fn by_pull_request(rollout: Value) -> impl FnOnce(&World) -> Value {
    move |world| {
        let mut promotion = world.promotion();
        promotion["strategy"]["pull-request"]["paths"] = json!(["clusters/${cluster}/*"]);
        promotion["rollout"] = rollout;
        promotion
    }
}

/// The canary, then one after the other, then the rest.
pub(crate) fn three_waves() -> Value {
    json!({"waves": [
        {"selector": {"matchLabels": {"ring": "canary"}}},
        {"percent": 40, "maxConcurrent": 1},
        {},
    ]})
}

#[tokio::test]
async fn three_waves_go_one_after_the_other() {
    let fleet = Fleet::new(6, by_pull_request(three_waves())).await;
    fleet.world.deploy("dev", "dev", "1.1.0").await;
    let canary = fleet.expect_pull_request(1).await;
    assert_eq!(canary.1, ["c0"]);
    fleet.merge(canary).await;
    // 40 % of six are two, one at a time.
    for number in [2, 3] {
        let batch = fleet.expect_pull_request(number).await;
        assert_eq!(batch.1.len(), 1);
        fleet.merge(batch).await;
    }
    let rest = fleet.expect_pull_request(4).await;
    assert_eq!(rest.1.len(), 3);
    fleet.merge(rest).await;
    fleet.world.expect("prod 1.1.0 Succeeded").await;
    assert_eq!(fleet.versions(6).await, ["1.1.0"; 6]);
    let rollout = fleet.rollout().await;
    let urls: std::collections::BTreeSet<_> = rollout.batches.iter().map(|it| &it.url).collect();
    assert_eq!(urls.len(), 4, "each batch has a pull request of its own");
    assert!(rollout.waves.iter().all(|it| it.done_at.is_some()));
    let commits = fleet.world.repository.log("main").await.unwrap();
    assert_eq!(commits.len(), 1 + 2 * 4, "{commits:?}");
}

/// Restarts fall anywhere between storing a batch, pushing it and opening its pull request.
#[tokio::test]
async fn a_crash_leaves_one_pull_request_per_batch() {
    let mut fleet = Fleet::new(3, by_pull_request(three_waves())).await;
    fleet.world.deploy("dev", "dev", "1.1.0").await;
    for number in 1..=3 {
        for _ in 0..5 {
            fleet.world.restart(settings());
            tokio::task::yield_now().await;
        }
        let batch = fleet.expect_pull_request(number).await;
        fleet.merge(batch).await;
    }
    fleet.world.expect("prod 1.1.0 Succeeded").await;
    assert_eq!(fleet.world.repository.pull_requests().await.len(), 3);
}

#[tokio::test]
async fn a_failure_stops_it_until_somebody_resumes_it() {
    let fleet = Fleet::new(4, by_pull_request(three_waves())).await;
    fleet.world.deploy("dev", "dev", "1.1.0").await;
    let (number, _) = fleet.expect_pull_request(1).await;
    fleet.world.repository.merge(number).await.unwrap();
    fleet.expect_batch(1, true).await;
    let failed = released("1.1.0", false);
    fleet.world.set_status("c0", "app", &failed).await;
    fleet.expect_reason("RolloutStopped").await;
    assert_eq!(fleet.rollout().await.failed, ["c0/app"]);
    assert_eq!(fleet.world.repository.pull_requests().await.len(), 1);
    assert_eq!(fleet.versions(4).await[1..], ["1.0.0"; 3]);
    fleet.order("r1", json!({"kind": "ResumeRollout"})).await;
    let next = fleet.expect_pull_request(2).await;
    assert_ne!(next.1, ["c0"], "what was started is not started again");
    fleet.merge(next).await;
}

#[tokio::test]
async fn it_goes_on_without_a_target_that_somebody_skips() {
    let rollout = json!({"waves": [{"maxConcurrent": 1}]});
    let fleet = Fleet::new(2, by_pull_request(rollout)).await;
    fleet.world.deploy("dev", "dev", "1.1.0").await;
    let (number, first) = fleet.expect_pull_request(1).await;
    fleet.world.repository.merge(number).await.unwrap();
    fleet.expect_batch(1, true).await;
    let target = format!("{}/app", first[0]);
    fleet
        .order("r1", json!({"kind": "SkipTarget", "target": target}))
        .await;
    let second = fleet.expect_pull_request(2).await;
    fleet.merge(second).await;
    let done = fleet.world.expect("prod 1.1.0 Succeeded").await;
    let message = done[0].status.clone().unwrap().message.unwrap();
    assert!(message.contains("1 skipped"), "{message}");
}

/// Both clusters are built from one file, so that the first batch would change the second one, too.
#[tokio::test]
async fn targets_that_share_a_file_are_not_split() {
    let fleet = Fleet::new(2, |world| {
        let mut promotion = world.promotion();
        promotion["strategy"]["pull-request"]["paths"] = json!(["clusters/*/*"]);
        promotion["rollout"] = json!({"waves": [{"percent": 50}]});
        promotion
    })
    .await;
    fleet.world.deploy("dev", "dev", "1.1.0").await;
    let refused = fleet
        .world
        .expect("prod 1.1.0 Running/TargetsShareField")
        .await;
    let message = refused[0].status.clone().unwrap().message.unwrap();
    for part in [
        "spec.chart.spec.version in clusters/c0/app.yaml",
        "batch 1",
        "c0/app",
        "c1/app",
        "${cluster} in paths",
    ] {
        assert!(message.contains(part), "{message} has no {part}");
    }
    assert!(fleet.world.repository.pull_requests().await.is_empty());
    let branch = "promotion-default-app-prod-b1";
    assert_eq!(fleet.world.repository.tip(branch).await, None);
    assert_eq!(fleet.versions(2).await, ["1.0.0"; 2]);
}

/// A person approves the whole change; a cluster that joins later is listed in its own batch.
#[tokio::test]
async fn what_people_approved_is_compared_in_each_batch_and_joined_targets_are_named() {
    let (fleet, digest) = approved(3).await;
    let first = fleet.expect_pull_request(1).await;
    assert_eq!(fleet.rollout().await.approved_edits.len(), 3);
    let joined = (path("c9"), manifest("1.0.0", MARKER));
    let files = [(joined.0.as_str(), joined.1.as_str())];
    let committed = fleet.world.repository.commit("main", "Add c9", &files);
    committed.await.unwrap();
    fleet.world.leaf("c9", "app", "1.0.0").await;
    fleet.label("c9", "rest").await;
    fleet.merge(first).await;
    for number in [2, 3] {
        let batch = fleet.expect_pull_request(number).await;
        assert!(!batch.1.contains(&"c9".to_owned()), "{batch:?}");
        fleet.merge(batch).await;
    }
    let (number, clusters) = fleet.expect_pull_request(4).await;
    assert_eq!(clusters, ["c9"]);
    let pulls = fleet.world.repository.pull_requests().await;
    let body = &pulls.iter().find(|it| it.number == number).unwrap().body;
    assert!(body.contains("joined the environment after"), "{body}");
    let status = fleet.promotion().await.unwrap().status.unwrap();
    assert_eq!(status.change.unwrap().digest, digest, "the whole change");
    fleet.merge((number, clusters)).await;
    fleet.world.expect("prod 1.1.0 Succeeded").await;
}

/// Somebody edits a file of a later batch after the approval: that batch waits for approval again.
#[tokio::test]
async fn a_batch_that_differs_from_what_was_approved_waits() {
    let (fleet, digest) = approved(2).await;
    let first = fleet.expect_pull_request(1).await;
    let other = manifest("1.0.5", MARKER);
    let files = [("clusters/c1/app.yaml", other.as_str())];
    let committed = fleet.world.repository.commit("main", "Edit", &files);
    committed.await.unwrap();
    fleet.merge(first).await;
    fleet.expect_batch(2, false).await;
    fleet.world.expect("prod 1.1.0 AwaitingApproval").await;
    let again = expect_digest(&fleet, 1).await;
    assert_ne!(again, digest);
    assert_eq!(fleet.world.repository.pull_requests().await.len(), 1);
    let waiting = fleet.world.all_promotions().await;
    fleet.world.approve(&waiting[0]).await;
    let second = fleet.expect_pull_request(2).await;
    fleet.merge(second).await;
    fleet.world.expect("prod 1.1.0 Succeeded").await;
}

/// A fleet of this many clusters with a rollout that a person has approved, and the digest of its change.
async fn approved(clusters: usize) -> (Fleet, String) {
    let fleet = Fleet::new(clusters, |world| {
        let mut promotion = by_pull_request(three_waves())(world);
        promotion["manual"] = json!(true);
        promotion
    })
    .await;
    fleet.world.deploy("dev", "dev", "1.1.0").await;
    let digest = expect_digest(&fleet, clusters).await;
    let waiting = fleet.world.expect("prod 1.1.0 AwaitingApproval").await;
    fleet.world.approve(&waiting[0]).await;
    (fleet, digest)
}

/// Waits until it is shown what the promotion changes: this many values.
async fn expect_digest(fleet: &Fleet, edits: usize) -> String {
    let mut change = None;
    let is_read = async || {
        let status = fleet.promotion().await.and_then(|it| it.status);
        change = status.and_then(|it| it.change);
        change.as_ref().is_some_and(|it| it.edits.len() == edits)
    };
    assert!(wait_for(is_read).await, "{change:?}");
    change.unwrap().digest
}

/// A cluster of the open batch is removed: the rest of the fleet is not held up by it.
#[tokio::test]
async fn a_cluster_that_is_removed_holds_up_nothing() {
    let rollout = json!({"waves": [{"maxConcurrent": 1}]});
    let fleet = Fleet::new(2, by_pull_request(rollout)).await;
    fleet.world.deploy("dev", "dev", "1.1.0").await;
    let (number, first) = fleet.expect_pull_request(1).await;
    fleet.world.repository.merge(number).await.unwrap();
    fleet.expect_batch(1, true).await;
    let clusters: Api<api::GitopsCluster> = Api::namespaced(fleet.world.hub.clone(), "default");
    let deleted = clusters.delete(&first[0], &DeleteParams::default()).await;
    deleted.unwrap();
    let second = fleet.expect_pull_request(2).await;
    fleet.merge(second).await;
    fleet.world.expect("prod 1.1.0 Succeeded").await;
}
