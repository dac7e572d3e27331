//! An environment with many clusters that ask for their revision, and both loops around it.
//!
//! The fleet itself watches over the limits: every target that is started is compared with what the fleet
//! knows, independently of what the planner stores.

use std::{collections::BTreeMap, time::Duration};

use api::{
    Promotion, Time,
    pipeline::{
        ClusterAppReference, ClusterReference, EnvironmentStatus, Evidence, Request, RequestKind,
        Rollout, Strategy, TargetProblem, TargetStatus,
    },
    promotion::{Phase, Rejection, RolloutStatus},
};
use planner::{
    AttemptInput, ExternalAction, ObservedPullRequest, Outcome, RolloutState, Timestamp, attempt,
    conclude, with_desired,
};
use serde_json::json;

use crate::{
    drawing::{World, draw, now},
    show,
};

/// One cluster as it really is.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    revision: String,
    ready_since: Option<Timestamp>,
    failed: Option<String>,
    is_reachable: bool,
    /// Whether the controller has read it since it started.
    is_read: bool,
    is_removed: bool,
    is_canary: bool,
}

/// What was done to a target for one promotion.
#[derive(Clone, Debug)]
struct Start {
    batch: i64,
    /// Whether it became ready or failed since.
    is_over: bool,
}

pub(super) struct Fleet {
    pub(super) world: World,
    pub(super) now: Timestamp,
    clusters: Vec<Cluster>,
    /// By promotion and index of the cluster.
    starts: BTreeMap<(String, usize), Start>,
    /// Promotions that a person stopped, and those of which too many targets failed.
    stopped: BTreeMap<String, bool>,
    /// How many targets of a promotion failed since it was last resumed.
    failures: BTreeMap<String, usize>,
    requests: usize,
    /// Whether the status after the next side effect is lost.
    pub(super) crashes: bool,
}

fn inputs() -> Strategy {
    let strategy = json!({"resourceSetInputs": {"secretRef": {"name": "inputs"}}});
    serde_json::from_value(strategy).unwrap()
}

impl Fleet {
    pub(super) fn new(size: usize, settings: Rollout) -> Self {
        let mut world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]\nran prod 1.0.0");
        let promotion = world.pipeline.spec.promotion.as_mut().unwrap();
        promotion.strategy = inputs();
        promotion.rollout = Some(settings);
        world.pipeline.spec.environments[1].targets[0].cluster_selector = Some(Default::default());
        let cluster = |index| Cluster {
            revision: "1.0.0".to_owned(),
            ready_since: Some(now() - Duration::from_secs(3600)),
            failed: None,
            is_reachable: true,
            is_read: true,
            is_removed: false,
            is_canary: index == 0,
        };
        Self {
            world,
            now: now(),
            clusters: (0..size).map(cluster).collect(),
            starts: BTreeMap::new(),
            stopped: BTreeMap::new(),
            failures: BTreeMap::new(),
            requests: 0,
            crashes: false,
        }
    }

    pub(super) fn settings(&self) -> Rollout {
        let promotion = self.world.pipeline.spec.promotion.as_ref().unwrap();
        promotion.rollout.clone().unwrap()
    }

    pub(super) fn key(&self, index: usize) -> String {
        format!("c{index}/prod")
    }

    fn index(key: &str) -> usize {
        let cluster = key.split('/').next().unwrap();
        cluster[1..].parse().unwrap()
    }

    /// Both loops, until nothing changes any more.
    pub(super) fn settle(&mut self) {
        for _ in 0..60 {
            let before = (self.world.model(), self.statuses());
            self.pipeline_pass();
            self.promotion_pass();
            if before == (self.world.model(), self.statuses()) {
                return;
            }
        }
        panic!("the loops do not come to rest: {:?}", self.world.promotions);
    }

    fn statuses(&self) -> Vec<Promotion> {
        self.world.promotions.clone()
    }

    pub(super) fn pipeline_pass(&mut self) {
        let mut model = self.world.model();
        let prod: &mut EnvironmentStatus = model.environments.get_mut("prod").unwrap();
        let known = std::mem::take(&mut prod.targets);
        let present = self.clusters.iter().enumerate();
        let present = present.filter(|(_, it)| !it.is_removed);
        prod.targets = present
            .map(|(index, cluster)| {
                let key = self.key(index);
                let known = known
                    .iter()
                    .find(|it| planner::target_key(it, "default") == key);
                cluster.status(index, known)
            })
            .collect();
        let model = with_desired(&self.world.pipeline, model, &self.world.promotions);
        self.world.pipeline.status = Some(model);
        let plan = planner::plan(
            &self.world.pipeline,
            &self.world.model(),
            &self.world.promotions,
            self.now,
        );
        let known = self.world.promotions.len();
        show::carry_out(&mut self.world, &plan);
        for promotion in &mut self.world.promotions[known..] {
            promotion.metadata.creation_timestamp = Some(Time(self.now));
        }
        self.note_orders();
    }

    /// What people ordered counts from when the controller has stored it.
    fn note_orders(&mut self) {
        let prod = &self.world.model().environments["prod"];
        let Some(orders) = &prod.rollout_orders else {
            return;
        };
        if orders.stopped.is_some() {
            self.stopped.insert(orders.promotion.clone(), true);
        }
    }

    /// The promotion loop runs while the status of the pipeline knows no target.
    pub(super) fn promotion_pass_without_targets(&mut self) {
        let status = self.world.model();
        let mut unobserved = status.clone();
        let prod = unobserved.environments.get_mut("prod").unwrap();
        prod.targets.clear();
        self.world.pipeline.status = Some(unobserved);
        self.promotion_pass();
        self.world.pipeline.status = Some(status);
    }

    pub(super) fn promotion_pass(&mut self) {
        for index in 0..self.world.promotions.len() {
            let promotion = self.world.promotions[index].clone();
            let input = AttemptInput {
                pipeline: Some(&self.world.pipeline),
                promotions: &self.world.promotions,
                pull_request: ObservedPullRequest::NotQueried,
                edited: false,
            };
            let next = attempt(&promotion, &input, self.now);
            let status = match next.action {
                ExternalAction::Nothing => next.status,
                ExternalAction::CarryOut => {
                    let rollout = next.status.rollout.clone().unwrap();
                    self.watch_batch(&promotion, &rollout);
                    if std::mem::take(&mut self.crashes) {
                        continue;
                    }
                    conclude(&promotion, next, Outcome::Published, self.now, 1)
                }
                other => panic!("{other:?}"),
            };
            self.note_stop(&promotion, status.rollout.as_ref());
            self.world.promotions[index].status = Some(status);
        }
    }

    fn note_stop(&mut self, promotion: &Promotion, rollout: Option<&RolloutStatus>) {
        let name = promotion.metadata.name.clone().unwrap();
        if rollout.is_some_and(|it| it.stopped.is_some()) {
            self.stopped.insert(name, true);
        }
    }

    /// What must hold whenever targets are started.
    fn watch_batch(&mut self, promotion: &Promotion, rollout: &RolloutStatus) {
        let name = promotion.metadata.name.clone().unwrap();
        let batch = rollout.open_batch().unwrap().number;
        let members: Vec<_> = rollout.targets_of(batch).collect();
        assert!(!members.is_empty(), "a batch has targets");
        assert!(
            !self.stopped.get(&name).copied().unwrap_or_default(),
            "{name} is stopped and starts {members:?}"
        );
        for member in &members {
            let index = Self::index(&member.target);
            let key = (name.clone(), index);
            let before = self.starts.get(&key);
            assert!(
                before.is_none_or(|it| it.batch == batch),
                "{key:?} is started twice"
            );
            let cluster = &self.clusters[index];
            let start = Start {
                batch,
                is_over: cluster.ready_since.is_some()
                    && cluster.revision == promotion.spec.revision,
            };
            self.starts.entry(key).or_insert(start);
        }
        self.watch_limits(&name, rollout, &members);
    }

    fn watch_limits(
        &self,
        name: &str,
        rollout: &RolloutStatus,
        members: &[&api::promotion::RolloutTarget],
    ) {
        let settings = self.settings();
        let open = rollout.waves.iter().position(|it| it.done_at.is_none());
        let wave = open.unwrap_or(rollout.waves.len() - 1);
        // Whether a deployment took too long is tested on its own.
        let over = rollout.targets.iter().filter(|it| it.skipped || it.failed);
        let over: Vec<_> = over.collect();
        let is_skipped = |index: usize| over.iter().any(|it| it.target == self.key(index));
        let in_flight = self.starts.iter().filter(|((promotion, index), start)| {
            promotion == name
                && !start.is_over
                && !is_skipped(*index)
                && !self.clusters[*index].is_removed
        });
        let in_flight = in_flight.count();
        let most = settings.waves.get(wave).and_then(|it| it.max_concurrent);
        let most = most.map_or(usize::MAX, |it| usize::try_from(it).unwrap());
        assert!(
            in_flight <= most,
            "{in_flight} are in flight, {most} may be"
        );
        for member in members {
            assert!(
                usize::try_from(member.wave).unwrap() <= wave,
                "{member:?} is started before its wave {wave}"
            );
        }
    }

    /// The newest promotion.
    fn promotion(&self) -> &Promotion {
        self.world.promotions.last().unwrap()
    }

    /// What comes next for the newest promotion.
    pub(super) fn next(&self) -> planner::AttemptPlan {
        self.next_with(ObservedPullRequest::NotQueried)
    }

    /// What comes next for the newest promotion if its pull request is this one.
    pub(super) fn next_with(&self, pull_request: ObservedPullRequest) -> planner::AttemptPlan {
        let input = AttemptInput {
            pipeline: Some(&self.world.pipeline),
            promotions: &self.world.promotions,
            pull_request,
            edited: false,
        };
        attempt(self.promotion(), &input, self.now)
    }

    pub(super) fn now(&self) -> planner::Timestamp {
        self.now
    }

    pub(super) fn rollout(&self) -> Option<&RolloutStatus> {
        self.world
            .promotions
            .last()?
            .status
            .as_ref()?
            .rollout
            .as_ref()
    }

    pub(super) fn revision(&self) -> &str {
        &self.promotion().spec.revision
    }

    pub(super) fn phase(&self) -> Option<Phase> {
        self.promotion().status.as_ref()?.phase
    }

    pub(super) fn message(&self) -> String {
        let status = self.promotion().status.as_ref();
        status.and_then(|it| it.message.clone()).unwrap_or_default()
    }

    /// The reason in the status of the newest promotion.
    pub(super) fn hold(&self) -> String {
        let status = self.promotion().status.as_ref();
        status.and_then(|it| it.reason.clone()).unwrap_or_default()
    }

    pub(super) fn environment_hold(&self) -> String {
        let hold = self.world.model().environments["prod"].hold.clone();
        let reasons = ["RolloutUnderWay", "InvalidSpec"];
        let hold = hold.filter(|it| reasons.contains(&it.reason.as_str()));
        hold.map(|it| it.reason).unwrap_or_default()
    }

    pub(super) fn environment_hold_text(&self) -> String {
        let hold = self.world.model().environments["prod"].hold.clone();
        hold.map(|it| it.message).unwrap_or_default()
    }

    pub(super) fn started(&self) -> usize {
        let targets = self.rollout().into_iter().flat_map(|it| &it.targets);
        targets.filter(|it| it.batch.is_some()).count()
    }

    pub(super) fn batches(&self) -> Vec<usize> {
        let Some(rollout) = self.rollout() else {
            return Vec::new();
        };
        let batches = rollout.batches.iter();
        batches
            .map(|it| rollout.targets_of(it.number).count())
            .collect()
    }

    /// The clusters that were started for the newest promotion and are neither ready nor failed.
    pub(super) fn in_flight(&self) -> Vec<usize> {
        let Some(name) = self
            .world
            .promotions
            .last()
            .and_then(|it| it.metadata.name.clone())
        else {
            return Vec::new();
        };
        let starts = self.starts.iter();
        let open = starts.filter(|((promotion, _), start)| *promotion == name && !start.is_over);
        open.map(|((_, index), _)| *index).collect()
    }

    pub(super) fn state(&self, index: usize) -> RolloutState {
        let view = planner::rollout_view(
            &self.world.pipeline,
            &self.world.promotions,
            "prod",
            self.now,
        );
        let waves = view.unwrap().waves;
        let mut targets = waves.iter().flat_map(|it| &it.targets);
        let key = self.key(index);
        targets.find(|it| it.target == key).unwrap().state
    }

    pub(super) fn desired(&self, index: usize) -> Option<String> {
        let cluster = format!("c{index}");
        let question = planner::InputQuestion {
            environment: "prod",
            cluster: Some(&cluster),
            namespace: None,
        };
        let input = planner::published_input(&self.world.pipeline, question);
        input.ok().map(|it| it.revision)
    }

    pub(super) fn answer(&self) -> String {
        let last = self.world.model().environments["prod"].last_request.clone();
        last.and_then(|it| it.message).unwrap_or_default()
    }

    /// Every cluster that was started and can be reached becomes ready; then both loops run.
    pub(super) fn deploy_all(&mut self) {
        for index in self.in_flight() {
            self.deploy(index);
        }
        self.settle();
    }

    /// A cluster gets what was started there, and is ready.
    pub(super) fn deploy(&mut self, index: usize) {
        let revision = self.revision().to_owned();
        let cluster = &mut self.clusters[index];
        if !cluster.is_reachable || cluster.is_removed {
            return;
        }
        cluster.revision = revision;
        cluster.ready_since = Some(self.now);
        cluster.failed = None;
        self.end(index);
    }

    pub(super) fn fail(&mut self, index: usize) {
        let revision = self.revision().to_owned();
        let cluster = &mut self.clusters[index];
        if !cluster.is_reachable || cluster.is_removed {
            return;
        }
        cluster.ready_since = None;
        cluster.failed = Some(revision);
        let name = self.promotion().metadata.name.clone().unwrap();
        *self.failures.entry(name).or_default() += 1;
        self.end(index);
    }

    /// An app that was ready is not any more.
    pub(super) fn relapse(&mut self, index: usize) {
        self.clusters[index].ready_since = None;
    }

    fn end(&mut self, index: usize) {
        let name = self.promotion().metadata.name.clone().unwrap();
        if let Some(start) = self.starts.get_mut(&(name, index)) {
            start.is_over = true;
        }
    }

    pub(super) fn unreach(&mut self, index: usize) {
        self.clusters[index].is_reachable = false;
    }

    pub(super) fn reach(&mut self, index: usize) {
        self.clusters[index].is_reachable = true;
    }

    /// The controller starts again and has read only these clusters.
    pub(super) fn restart(&mut self, read: &[usize]) {
        for (index, cluster) in self.clusters.iter_mut().enumerate() {
            cluster.is_read = read.contains(&index);
        }
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.clusters[index].is_removed = true;
    }

    pub(super) fn size(&self) -> usize {
        self.clusters.len()
    }

    pub(super) fn join(&mut self) -> usize {
        self.clusters.push(Cluster {
            revision: "1.0.0".to_owned(),
            ready_since: Some(self.now),
            failed: None,
            is_reachable: true,
            is_read: true,
            is_removed: false,
            is_canary: false,
        });
        self.clusters.len() - 1
    }

    pub(super) fn release(&mut self, revision: &str) {
        let mut model = self.world.model();
        let dev = &mut model.environments.get_mut("dev").unwrap().targets[0];
        dev.revision = Some(revision.to_owned());
        dev.version = Some(revision.to_owned());
        self.world.pipeline.status = Some(model);
    }

    pub(super) fn wait_minutes(&mut self, minutes: u64) {
        self.now += Duration::from_secs(minutes * 60);
        self.settle();
    }

    /// A person rejects the newest promotion.
    pub(super) fn reject(&mut self, by: &str) {
        let newest = self.world.promotions.last_mut().unwrap();
        newest.spec.rejection = Some(Rejection {
            by: by.to_owned(),
            ..Rejection::default()
        });
        self.settle();
    }

    pub(super) fn request(&mut self, kind: RequestKind, revision: &str) {
        self.ask(kind, revision, None);
    }

    /// Asks and lets the controller answer.
    pub(super) fn order(&mut self, kind: RequestKind, target: Option<&str>) {
        if kind != RequestKind::SkipTarget && kind != RequestKind::StopRollout {
            self.stopped.clear();
        }
        self.ask(kind, "", target);
        self.settle();
    }

    fn ask(&mut self, kind: RequestKind, revision: &str, target: Option<&str>) {
        self.requests += 1;
        let request = Request {
            id: format!("r{}", self.requests),
            kind,
            revision: revision.to_owned(),
            target: target.map(str::to_owned),
            by: Some("ann".to_owned()),
            at: Some(Time(self.now)),
            ..Request::default()
        };
        let mut model = self.world.model();
        model.requests.insert("prod".to_owned(), request);
        self.world.pipeline.status = Some(model);
    }
}

impl Cluster {
    fn status(&self, index: usize, known: Option<&TargetStatus>) -> TargetStatus {
        let blank = TargetStatus {
            cluster_app_ref: Some(ClusterAppReference {
                cluster_ref: Some(ClusterReference {
                    kind: "GitopsCluster".to_owned(),
                    name: format!("c{index}"),
                    ..ClusterReference::default()
                }),
                ..ClusterAppReference::default()
            }),
            namespace: Some("prod".to_owned()),
            matching_waves: if self.is_canary { vec![0] } else { Vec::new() },
            desired: known.and_then(|it| it.desired.clone()),
            ..TargetStatus::default()
        };
        if !self.is_reachable || !self.is_read {
            let last = known.cloned().unwrap_or(blank);
            return TargetStatus {
                problem: Some(match self.is_read {
                    true => TargetProblem::Unreachable,
                    false => TargetProblem::NotSynced,
                }),
                error: Some("no answer".to_owned()),
                ..last
            };
        }
        TargetStatus {
            revision: Some(self.revision.clone()),
            version: Some(self.revision.clone()),
            ready: self.ready_since.is_some(),
            ready_since: self.ready_since.map(Time),
            failed: self.failed.clone(),
            source: Some(Evidence::Watch),
            ..blank
        }
    }
}
