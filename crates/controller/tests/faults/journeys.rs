//! The possible courses of a promotion, from a revision in dev to its end, and the expected result.

use std::sync::{Arc, Mutex};

use controller::{
    CheckReconciler, KubeconfigPolicy, PipelineReconciler, PromotionReconciler, Settings,
    network_connector,
};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams},
};
use runtime::{Clock, LeaderGuard};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::forge::{Forge, PullRequest, PullState};
use tokio::task::JoinSet;

use crate::{
    fault_injector::{Crash, DIED, FaultInjector},
    webhook_receiver::{Call, Receiver},
    world::{World, apply, define, helm_releases, manifest, release, released},
    world::{set_status, settings, wait_for},
};

pub(crate) const PROD: &str = "prod/app.yaml";
pub(crate) const BRANCH: &str = "promotion-default-app-prod";

/// A hub that is its own leaf, a repository, and a fault injector between them and the reconcilers. One life after
/// the other is played on it.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) injector: Arc<FaultInjector>,
    /// Whom the webhook calls.
    receiver: Receiver,
    /// Outlives the processes, as a volume would.
    folder: TempDir,
    process: tokio::sync::Mutex<JoinSet<()>>,
    pub(crate) before: Mutex<Before>,
    clock: Clock,
}

/// What there was when a life began.
#[derive(Clone, Copy, Default)]
pub(crate) struct Before {
    pub(crate) pull_requests: usize,
    commits: usize,
    calls: usize,
    /// Whether the pull request shows how the promotion stands.
    has_feedback: bool,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::on(testbed::hub::server().client()).await
    }

    /// On a hub that has our kinds.
    pub(crate) async fn on(hub: Client) -> Self {
        let injector = Arc::new(FaultInjector::default());
        define(&hub, &helm_releases()).await;
        for environment in ["dev", "prod"] {
            apply(&hub, &namespace(environment)).await;
            apply(&hub, &release(environment)).await;
        }
        let forge = Arc::new(Forge::start_with_tls().await.unwrap());
        let repository = forge.create_repository("team/config", &[]).await.unwrap();
        injector.before_repository(&repository);
        let reached = injector.before_hub(&hub);
        let receiver = Receiver::behind(|router| injector.before_calls(router)).await;
        let world = World::idle(hub, reached, forge, repository).await;
        world.hook_secret("hook").await;
        Self {
            world,
            receiver,
            folder: tempfile::tempdir().unwrap(),
            process: tokio::sync::Mutex::default(),
            before: Mutex::default(),
            clock: Clock::start(),
            injector,
        }
    }

    /// dev and prod at 1.0.0.
    pub(crate) async fn begin(&self, more: &Value) {
        let repository = &self.world.repository;
        let manifest = manifest("1.0.0", "default:app:prod");
        let files = [(PROD, manifest.as_str())];
        repository.commit("main", "Begin", &files).await.unwrap();
        *self.before.lock().unwrap() = Before {
            pull_requests: repository.pull_requests().await.len(),
            commits: repository.log("main").await.unwrap().len(),
            calls: self.receiver.calls().len(),
            has_feedback: more["feedback"].is_null(),
        };
        for environment in ["dev", "prod"] {
            self.deploy(environment, "1.0.0").await;
        }
        self.world.pipeline("app", self.spec(more)).await;
    }

    /// Ends the life that was played.
    pub(crate) async fn end(&self) {
        self.kill().await;
        self.injector.settle().await;
        let pipelines = self.world.pipelines();
        let deleted = pipelines.delete("app", &DeleteParams::default()).await;
        deleted.unwrap();
        self.world.expect("").await;
        let repository = &self.world.repository;
        if repository.tip(BRANCH).await.is_some() {
            repository.delete_branch(BRANCH).await.unwrap();
        }
    }

    fn spec(&self, more: &Value) -> Value {
        let mut promotion = self.world.promotion();
        let to = &mut promotion["strategy"]["pull-request"];
        for (key, value) in more.as_object().into_iter().flatten() {
            to[key] = value.clone();
        }
        promotion["manual"] = more["manual"].clone();
        match more["by"].as_str() {
            Some("commit") => promotion = self.world.commit(),
            Some("notification") => promotion["strategy"] = json!({"notification": {}}),
            Some("webhook") => {
                let hook = json!({"url": self.receiver.url(), "secretRef": {"name": "hook"}});
                promotion["strategy"] = json!({"webhook": hook});
            }
            _ => {}
        }
        let environment = |name: &str| json!({"name": name, "targets": [{"namespace": name}]});
        let mut spec = json!({
            "appRef": {
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
            },
            "environments": [environment("dev"), environment("prod")],
            "promotion": promotion,
        });
        if let Some(check) = more["verify"].as_str() {
            spec["checks"] = json!([{"name": check, "external": {}}]);
            spec["environments"][1]["verify"] = json!({"checks": [check], "onFailure": "Rollback"});
        }
        spec
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            follow_every: std::time::Duration::from_millis(200),
            git_folder: Some(self.folder.path().to_owned()),
            ..settings()
        }
    }

    /// A life in which both loops run, up to a pull request that waits.
    pub(crate) async fn with_pull_request(more: &Value) -> Self {
        let stage = Self::running(more).await;
        stage.deploy("dev", "1.1.0").await;
        stage.world.expect("prod 1.1.0 WaitingForMerge").await;
        stage
    }

    /// A life in which both loops run.
    pub(crate) async fn running(more: &Value) -> Self {
        let stage = Self::new().await;
        stage.begin(more).await;
        stage.start().await;
        stage.world.expect_hold("app", "prod", "").await;
        stage
    }

    /// Ends the loops wherever they are.
    pub(crate) async fn kill(&self) {
        self.process.lock().await.shutdown().await;
    }

    /// Starts the loops.
    pub(crate) async fn start(&self) {
        self.start_with(self.settings()).await;
    }

    /// Starts the loops, told something else.
    pub(crate) async fn start_with(&self, settings: Settings) {
        let hub = self.world.reached.clone();
        let shared = PipelineReconciler::new(
            hub.clone(),
            network_connector(KubeconfigPolicy::LOCAL),
            settings.clone(),
        );
        let leader = LeaderGuard::without_election;
        let checker = CheckReconciler::new(hub.clone(), settings.clone(), leader());
        let promoter = PromotionReconciler::new(hub, settings, leader()).unwrap();
        let mut process = self.process.lock().await;
        process.spawn(controller::pipeline::run(shared));
        process.spawn(controller::check::run(checker));
        process.spawn(controller::promotion::run(promoter));
    }

    /// Runs one process after the other, each until it dies as planned, the last one for ever.
    pub(crate) async fn live(&self, crashes: &[Crash]) {
        for crash in crashes {
            self.injector.plan(Some(*crash));
            self.start().await;
            self.injector.died().await;
            self.kill().await;
        }
        self.injector.plan(None);
        self.start().await;
        std::future::pending::<()>().await;
    }

    /// What the loops take the time to be.
    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    /// Flux has brought the app to a version.
    pub(crate) async fn deploy(&self, environment: &str, version: &str) {
        let status = released(version, true);
        set_status(&self.world.hub, &release(environment), &status).await;
    }

    /// Flux brings what `main` says to prod.
    pub(crate) async fn sync(&self) {
        self.deploy("prod", &self.world.version("main", PROD).await)
            .await;
    }

    /// The number of the life's only pull request.
    fn number(&self) -> u64 {
        self.before.lock().unwrap().pull_requests as u64 + 1
    }

    /// There was one pull request, it ended so, and this is what came of it.
    pub(crate) async fn check(&self, state: PullState, proposed: &str, version: &str) {
        let before = *self.before.lock().unwrap();
        let repository = &self.world.repository;
        let pulls = repository
            .pull_requests()
            .await
            .split_off(before.pull_requests);
        assert_eq!(pulls.len(), 1, "{pulls:?}");
        assert_eq!(pulls[0].state, state);
        let title = format!("Promote default/app in prod to {proposed}");
        assert_eq!(pulls[0].title, title);
        self.check_feedback(&pulls[0]);
        assert_eq!(self.world.version("main", PROD).await, version);
        assert_eq!(self.world.version(BRANCH, PROD).await, proposed);
        let commits = repository.log(BRANCH).await.unwrap();
        assert_eq!(commits.len(), before.commits + 1, "stacked: {commits:?}");
        let more = if state == PullState::Merged { 2 } else { 0 };
        let commits = repository.log("main").await.unwrap();
        assert_eq!(commits.len(), before.commits + more, "{commits:?}");
    }

    /// The pull request has one comment, and its head the right status.
    fn check_feedback(&self, pull: &PullRequest) {
        let comments = &pull.comments;
        if !self.before.lock().unwrap().has_feedback {
            assert_eq!(*comments, [] as [String; 0]);
            return;
        }
        // No forge can tell a comment that arrives late from another one.
        let late = self.late_effects("POST", "/comments");
        assert!((1..=1 + late).contains(&comments.len()), "{comments:?}");
        let (step, state) = match pull.state {
            PullState::Merged => ("3. deployed", "success"),
            _ => ("2. not merged", "failure"),
        };
        let is_last = |text: &String| text.contains(step);
        let is_late = late + self.late_effects("PATCH", "/issues/comments/") > 0;
        assert!(is_late || comments.iter().any(is_last), "{comments:?}");
        let statuses = self.world.repository.commit_statuses();
        let mut own = statuses.iter().rev();
        let last = own.find(|status| status.commit == pull.head_commit);
        let is_late = self.late_effects("POST", "/statuses/") > 0;
        let is_right = last.is_some_and(|last| last.state == state);
        assert!(is_late || is_right, "{state}: {last:?}");
    }

    /// How often a process died of such an effect that came only later.
    fn late_effects(&self, method: &str, path: &str) -> usize {
        let effects = self.injector.effects();
        let is_late = |pair: &&[String]| {
            let is_such = pair[0].starts_with(method) && pair[0].contains(path);
            is_such && pair[1].starts_with(&format!("{DIED} Late"))
        };
        effects.windows(2).filter(is_late).count()
    }

    /// There was no pull request, and what was done instead was done once, or in the same words.
    async fn check_other(&self, journey: Journey) {
        let before = *self.before.lock().unwrap();
        let repository = &self.world.repository;
        assert_eq!(repository.pull_requests().await.len(), before.pull_requests);
        let commits = repository.log("main").await.unwrap().len() - before.commits;
        let calls = self.receiver.calls().split_off(before.calls);
        let is_same = |call: &Call| {
            let key = "idempotency-key";
            call.body == calls[0].body && call.header(key) == calls[0].header(key)
        };
        assert!(calls.iter().all(is_same), "{calls:?}");
        let uid = self.world.all_promotions().await[0].metadata.uid.clone();
        let uid = uid.unwrap();
        let events: Api<Event> = Api::namespaced(self.world.hub.clone(), "default");
        let events = events.list(&ListParams::default()).await.unwrap();
        let told = events.items.iter().filter(|event| {
            let name = event.metadata.name.as_deref().unwrap_or_default();
            name == format!("app.{uid}")
        });
        let done = (commits, calls.is_empty(), told.count());
        let expected = match journey {
            Journey::Committed => (1, true, 0),
            Journey::Notified => (0, true, 1),
            _ => (0, false, 0),
        };
        assert_eq!(done, expected, "{journey:?}: commits, no calls, events");
    }

    /// Waits until the pipeline says how the promotion into prod ended.
    async fn expect_said(&self, phase: &str) {
        let is_said = async || {
            let status = self.world.pipelines().get("app").await.unwrap().status;
            let prod = status.and_then(|it| it.environments.get("prod").cloned());
            let promotion = prod.and_then(|it| it.promotion);
            promotion.is_some_and(|it| json!(it)["phase"] == phase)
        };
        assert!(wait_for(is_said).await, "the pipeline does not say {phase}");
    }
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A way a promotion can go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Journey {
    Merged,
    Superseded,
    MergedByItself,
    DeployedOtherwise,
    TakenBack,
    Approved,
    Closed,
    Committed,
    Notified,
    Called,
    RolledBack,
}

impl Journey {
    pub(crate) const ALL: [Self; 11] = [
        Self::Merged,
        Self::Superseded,
        Self::MergedByItself,
        Self::DeployedOtherwise,
        Self::TakenBack,
        Self::Approved,
        Self::Closed,
        Self::Committed,
        Self::Notified,
        Self::Called,
        Self::RolledBack,
    ];

    /// What the pipeline says more.
    pub(crate) fn settings(self) -> Value {
        match self {
            Self::Merged | Self::Superseded | Self::Closed => json!({}),
            // What pull requests show is tried in the three above.
            Self::MergedByItself => {
                json!({"autoMerge": true, "labels": ["release"], "feedback": []})
            }
            Self::Approved => json!({"manual": true, "feedback": []}),
            Self::Committed => json!({"by": "commit"}),
            Self::Notified => json!({"by": "notification"}),
            Self::Called => json!({"by": "webhook"}),
            Self::RolledBack => json!({"autoMerge": true, "verify": "smoke", "feedback": []}),
            _ => json!({"feedback": []}),
        }
    }

    /// Goes all the way.
    pub(crate) async fn go(self, stage: &Stage) {
        let world = &stage.world;
        world.expect_hold("app", "prod", "").await;
        if self == Self::RolledBack {
            stage.expect_checked().await;
        }
        stage.deploy("dev", "1.1.0").await;
        match self {
            Self::RolledBack => stage.roll_back().await,
            Self::Superseded => self.supersede(stage).await,
            Self::MergedByItself => {
                world.expect("prod 1.1.0 Deploying").await;
                let pulls = world.repository.pull_requests().await;
                assert_eq!(pulls.last().unwrap().labels, ["release"]);
                self.arrive(stage, "1.1.0").await;
            }
            Self::Approved => {
                let waiting = world.expect("prod 1.1.0 AwaitingApproval").await;
                let before = stage.injector.effects();
                assert!(!before.iter().any(|it| it.contains("receive-pack")));
                world.approve(&waiting[0]).await;
                self.merge(stage, "1.1.0").await;
            }
            Self::Merged => self.merge(stage, "1.1.0").await,
            Self::DeployedOtherwise | Self::TakenBack | Self::Closed => self.end(stage).await,
            Self::Committed | Self::Notified | Self::Called => {
                world.expect("prod 1.1.0 Deploying").await;
                stage.deploy("prod", "1.1.0").await;
                world.expect("prod 1.1.0 Succeeded").await;
                stage.check_other(self).await;
            }
        }
    }

    async fn supersede(self, stage: &Stage) {
        let is_begun = async || !stage.world.all_promotions().await.is_empty();
        assert!(wait_for(is_begun).await, "nothing begins");
        stage.deploy("dev", "1.2.0").await;
        self.merge(stage, "1.2.0").await;
    }

    fn drawn(self, revision: &str, phase: &str) -> String {
        let drawn = format!("prod {revision} {phase}");
        match self {
            Self::Superseded => format!("prod 1.1.0 Superseded, {drawn}"),
            _ => drawn,
        }
    }

    async fn merge(self, stage: &Stage, revision: &str) {
        let waiting = self.drawn(revision, "WaitingForMerge");
        stage.world.expect(&waiting).await;
        stage.world.repository.merge(stage.number()).await.unwrap();
        self.arrive(stage, revision).await;
    }

    async fn arrive(self, stage: &Stage, revision: &str) {
        stage.sync().await;
        stage.world.expect(&self.drawn(revision, "Succeeded")).await;
        stage.expect_said("Succeeded").await;
        stage.check(PullState::Merged, revision, revision).await;
    }

    /// Ends without a merge.
    async fn end(self, stage: &Stage) {
        let world = &stage.world;
        world.expect("prod 1.1.0 WaitingForMerge").await;
        let phase = match self {
            Self::DeployedOtherwise => {
                stage.deploy("prod", "1.1.0").await;
                "Succeeded"
            }
            Self::TakenBack => {
                stage.deploy("dev", "1.0.0").await;
                "Withdrawn"
            }
            _ => {
                world.repository.close(stage.number()).await.unwrap();
                "Abandoned"
            }
        };
        world.expect(&self.drawn("1.1.0", phase)).await;
        stage.check(PullState::Closed, "1.1.0", "1.0.0").await;
    }
}
