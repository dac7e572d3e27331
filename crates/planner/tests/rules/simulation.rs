//! Both loops, a forge and clusters in miniature, for trying to break what must always hold. Environments are a
//! list, or a graph in which prod comes after several others.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::{
    Freeze, Promotion, Revision, Time,
    app::AppReading,
    check_run::{CheckCause, CheckVerdict},
    freeze::{FreezeSpec, ScheduleWindow},
    pipeline::{CoveringFreeze, PipelineStatus, Request, RequestKind},
    promotion::{Approval, Phase, PromotionChange, Rejection},
};
use planner::{
    AttemptInput, ExternalAction, Failure, FreezeScope, ObservedApp, ObservedEnvironment,
    ObservedPipeline, ObservedPullRequest, ObservedTarget, Outcome, Remedy, Step, TargetState,
    Timestamp, attempt, conclude, fold, site_of,
};

use crate::{drawing::World, show};

/// Who requests promotions.
const REQUESTER: &str = "dan";
/// How long an approval counts where the policy is in force.
const EXPIRES: Duration = Duration::from_secs(30 * 60);

/// One target as it really is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Truth {
    pub(crate) revision: String,
    pub(crate) ready: bool,
    pub(crate) failed: Option<String>,
    pub(crate) reachable: bool,
    /// Whether Flux verified the signature of what runs, if its source says.
    pub(crate) signed: Option<bool>,
}

/// One pull request.
#[derive(Clone, Debug)]
struct PullRequest {
    place: String,
    owner: String,
    revision: String,
    state: &'static str,
}

pub(crate) struct Simulation {
    pub(crate) world: World,
    pub(crate) now: Timestamp,
    pub(crate) truth: BTreeMap<String, Vec<Truth>>,
    pull_requests: Vec<PullRequest>,
    /// What git asks for, by place.
    git: BTreeMap<String, String>,
    requests: usize,
    /// What the only target of prod was seen to run.
    history: Vec<String>,
    /// How often somebody edited the values in git that promotions change.
    edits: usize,
    freezes: Vec<SimulatedFreeze>,
    /// The revisions that were seen to be verified and not denied since, by environment.
    pub(crate) verified: BTreeSet<(String, String)>,
    /// The revisions that environments were seen to be ready at: on one target, and on all of them.
    pub(crate) ready: [BTreeSet<(String, String)>; 2],
    /// The revisions that passed the checks of an environment and have not failed one since.
    pub(crate) passed: BTreeSet<(String, String)>,
    /// Whether the clock was set back, so that nobody knows what came first.
    pub(crate) is_set_back: bool,
}

/// A Freeze, and its times as the simulation itself decides about them.
#[derive(Clone, Debug)]
struct SimulatedFreeze {
    freeze: Freeze,
    /// It is closed at these seconds since the epoch, or of each day; or open only then.
    seconds: std::ops::Range<i64>,
    is_daily: bool,
    is_open_then: bool,
    allows_rollback: bool,
}

/// When a Freeze is closed, in minutes from now.
#[derive(Clone, Debug)]
pub(crate) enum FreezeTimes {
    /// From then on, until somebody deletes it.
    Stop(i64),
    /// Once.
    Between(std::ops::Range<i64>),
    /// Every day.
    Daily(std::ops::Range<i64>),
    /// Every day but then.
    OpenDaily(std::ops::Range<i64>),
}

impl SimulatedFreeze {
    fn is_closed(&self, now: Timestamp) -> bool {
        let now = now.as_second();
        let is_within = match self.is_daily {
            true => [0, 86_400]
                .iter()
                .any(|add| self.seconds.contains(&(now % 86_400 + add))),
            false => self.seconds.contains(&now),
        };
        is_within != self.is_open_then
    }
}

impl Simulation {
    pub(crate) fn new(mut world: World) -> Self {
        for promotion in &mut world.promotions {
            let digest = digest(promotion, 0);
            for approval in &mut promotion.spec.approvals {
                approval.change_digest = Some(digest.clone());
            }
            if promotion.spec.needs_approval {
                let status = promotion.status.get_or_insert_default();
                status.change = Some(PromotionChange {
                    digest,
                    ..PromotionChange::default()
                });
            }
        }
        let model = world.model();
        let truth = model.environments.iter().map(|(name, environment)| {
            let targets = environment.targets.iter().map(|target| Truth {
                revision: target.revision.clone().unwrap(),
                ready: target.ready,
                failed: None,
                reachable: true,
                signed: None,
            });
            (name.clone(), targets.collect())
        });
        Self {
            truth: truth.collect(),
            now: crate::drawing::now(),
            pull_requests: Vec::new(),
            git: BTreeMap::new(),
            requests: 0,
            history: Vec::new(),
            edits: 0,
            freezes: Vec::new(),
            verified: BTreeSet::new(),
            ready: Default::default(),
            passed: BTreeSet::new(),
            is_set_back: false,
            world,
        }
    }

    fn seen(&self) -> ObservedPipeline {
        let model = self.world.model();
        let environments = self
            .world
            .pipeline
            .spec
            .environments
            .iter()
            .map(|environment| {
                let known = &model.environments[&environment.name].targets;
                let truth = &self.truth[&environment.name];
                let targets = known
                    .iter()
                    .zip(truth)
                    .map(|(known, truth)| ObservedTarget {
                        cluster: known.cluster_app_ref.clone().unwrap().cluster_ref,
                        namespace: known.namespace.clone().unwrap(),
                        relies_on_reports: false,
                        state: state(truth),
                    });
                ObservedEnvironment {
                    name: environment.name.clone(),
                    targets: targets.collect(),
                }
            });
        ObservedPipeline {
            environments: environments.collect(),
            ..ObservedPipeline::default()
        }
    }

    /// One pass of the pipeline loop. With a crash its status is not written.
    pub(crate) fn plan(&mut self, crashes: bool) {
        let mut model = fold(&self.world.pipeline, &self.seen(), self.now);
        model.freezes = self.covering();
        let model = planner::fold_checks(&self.world.pipeline, &self.world.runs, model);
        self.world.pipeline.status = Some(model.clone());
        self.note_verified();
        self.note_evidence();
        if let [only] = model.environments["prod"].targets.as_slice() {
            self.history.extend(only.revision.clone());
        }
        self.carry_out();
        if crashes {
            self.world.pipeline.status = Some(model);
            return;
        }
        // A pass that takes up a request looks at what comes by itself in the next one.
        let handled = |model: &PipelineStatus| model.environments["prod"].last_request.clone();
        if handled(&self.world.model()) != handled(&model) {
            self.carry_out();
        }
        // A signature that Flux verified goes on by the status, one environment in each pass.
        (2..self.truth.len()).for_each(|_| drop(self.carry_out()));
        assert_eq!(self.carry_out(), [], "a plan that was carried out is empty");
    }

    fn carry_out(&mut self) -> Vec<Step> {
        let World {
            pipeline,
            promotions,
            runs,
        } = &self.world;
        let model = self.world.model();
        let mut plan = planner::plan(pipeline, &model, promotions, self.now);
        let planned = planner::apply(&plan, &model, self.now);
        let after = (promotions.as_slice(), plan.steps.as_slice());
        let surplus = planner::surplus_checks(pipeline, &planned, after, runs);
        plan.steps.extend(surplus);
        for step in &plan.steps {
            if let Step::StartPromotion(promotion) = step {
                self.check_start(promotion);
                self.check_approved_goes_on(promotion);
            }
        }
        let known = self.world.promotions.len();
        show::carry_out(&mut self.world, &plan);
        for promotion in &mut self.world.promotions[known..] {
            promotion.metadata.creation_timestamp = Some(Time(self.now));
        }
        self.check_places();
        plan.steps
    }

    /// What must hold for every promotion that starts.
    fn check_start(&self, promotion: &Promotion) {
        let spec = &promotion.spec;
        let suspended = self.world.pipeline.spec.suspend;
        assert!(!suspended, "suspended, {} starts", spec.revision);
        self.check_signed(promotion);
        if spec.request.is_some() {
            return;
        }
        if let Some(cause) = &spec.cause {
            return self.check_derived_rollback(promotion, cause);
        }
        self.check_sources(promotion);
        let model = self.world.model();
        let rejected = &model.environments[&spec.environment].rejected;
        assert!(
            !rejected.contains(&spec.revision),
            "{} is rejected",
            spec.revision
        );
        let has_left = spec.environment == "prod" && self.history.contains(&spec.revision);
        assert!(!has_left, "{} was left before", spec.revision);
        let place = site_of(spec, "default");
        let tries = self.world.promotions.iter().filter(|other| {
            site_of(&other.spec, "default") == place && other.spec.revision == spec.revision
        });
        let last = tries.max_by_key(|other| other.spec.ordinal);
        let phase = last.and_then(|last| last.status.as_ref()?.phase);
        assert_ne!(
            phase,
            Some(Phase::Abandoned),
            "{} was abandoned",
            spec.revision
        );
        let was_dropped = last.is_some_and(|last| {
            let asked = last.spec.request.as_ref();
            let is_rollback = last.spec.cause.is_some()
                || asked.is_some_and(|asked| asked.kind == RequestKind::Rollback);
            let is_cancelled = planner::cancellation(last).is_some() && !is_rollback;
            is_cancelled || last.spec.rejection.is_some() && may_merge(last)
        });
        assert!(!was_dropped, "{} was rejected or cancelled", spec.revision);
        let here = model.environments[&spec.environment].targets.iter();
        for target in here.filter(|target| {
            place.target.is_none()
                || place.target.as_ref().unwrap().1 == *target.namespace.as_ref().unwrap()
        }) {
            let running = target.revision.as_deref().unwrap();
            assert!(
                !is_older(&spec.revision, running),
                "{} over {running}",
                spec.revision
            );
        }
    }

    /// What has its approvals is only superseded by what a person requested, by an older revision, or when
    /// a gate fails it.
    fn check_approved_goes_on(&self, new: &Promotion) {
        let place = site_of(&new.spec, "default");
        let model = self.world.model();
        let environment = new.spec.environment.as_str();
        let prod = &model.environments[environment];
        let sources = self.sources(environment);
        for old in &self.world.promotions {
            let spec = &old.spec;
            let needed = spec
                .approval_policy
                .as_ref()
                .map_or(1, |it| it.count as usize);
            let is_approved = spec.needs_approval && self.approvers(old) >= needed;
            let is_under_way = may_merge(old) && spec.withdrawn.is_none();
            let is_other = site_of(spec, "default") == place && spec.revision != new.spec.revision;
            let has_failed = |environment: &str, cause: CheckCause| {
                self.verdict(environment, cause, &spec.revision) == CheckVerdict::Failed
            };
            let is_failed = prod.rejected.contains(&spec.revision)
                || has_failed(environment, CheckCause::Promotion)
                || sources.iter().any(|source| {
                    let mut failures = model.environments[source].failures.iter();
                    has_failed(source, CheckCause::Verify)
                        || failures.any(|it| it.revision == spec.revision)
                })
                || prod
                    .targets
                    .iter()
                    .any(|it| is_older(&spec.revision, it.revision.as_deref().unwrap_or_default()));
            let may_go = new.spec.request.is_some()
                || new.spec.cause.is_some()
                || spec.rejection.is_some()
                || is_older(&new.spec.revision, &spec.revision)
                || is_failed;
            assert!(
                !(is_approved && is_under_way && is_other) || may_go,
                "{} is superseded by {}",
                spec.revision,
                new.spec.revision
            );
        }
    }

    /// At most one promotion per place that could still merge and was not taken back.
    fn check_places(&self) {
        let mut unmerged: BTreeMap<String, usize> = BTreeMap::new();
        let mut answers: BTreeMap<String, usize> = BTreeMap::new();
        for promotion in &self.world.promotions {
            let key = site_of(&promotion.spec, "default").key();
            if may_merge(promotion) && promotion.spec.withdrawn.is_none() {
                *unmerged.entry(key.clone()).or_default() += 1;
            }
            if let Some(request) = &promotion.spec.request {
                *answers.entry(format!("{key} {}", request.id)).or_default() += 1;
            }
        }
        assert!(unmerged.values().all(|&count| count <= 1), "{unmerged:?}");
        assert!(answers.values().all(|&count| count <= 1), "{answers:?}");
    }

    /// One pass of the promotion loop over all promotions. With a crash no status is written.
    pub(crate) fn attempt(&mut self, crashes: bool) {
        for index in 0..self.world.promotions.len() {
            let mut promotion = self.world.promotions[index].clone();
            self.compute_change(&mut promotion);
            let around = AttemptInput {
                pipeline: Some(&self.world.pipeline),
                promotions: &self.world.promotions,
                pull_request: self.pull_request_of(&promotion),
                edited: false,
            };
            let next = attempt(&promotion, &around, self.now);
            let status = match next.action {
                ExternalAction::Nothing => next.status,
                ExternalAction::AskForMerge => {
                    if let Some(outcome) = self.listed_freeze(&promotion) {
                        self.world.promotions[index].status =
                            Some(conclude(&promotion, next, outcome, self.now, 1));
                        continue;
                    }
                    self.check_act(&promotion, true);
                    self.check_order(&promotion);
                    self.merge(promotion.metadata.name.as_deref().unwrap());
                    conclude(&promotion, next, Outcome::Merged, self.now, 1)
                }
                ExternalAction::CarryOut => {
                    if let Some(outcome) = self.listed_freeze(&promotion) {
                        self.world.promotions[index].status =
                            Some(conclude(&promotion, next, outcome, self.now, 1));
                        continue;
                    }
                    self.check_act(&promotion, false);
                    self.check_order(&promotion);
                    let outcome = self.open(&promotion);
                    conclude(&promotion, next, outcome, self.now, 1)
                }
                // The forge of the simulation has no merge queue.
                ExternalAction::ScheduleMerge | ExternalAction::CancelScheduledMerge => {
                    unreachable!("nothing was scheduled")
                }
                ExternalAction::ClosePullRequest => {
                    self.set_state(promotion.metadata.name.as_deref().unwrap(), "closed by us");
                    conclude(&promotion, next, Outcome::Closed, self.now, 1)
                }
            };
            if !crashes {
                self.world.promotions[index].status = Some(status);
            }
        }
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        for pull_request in self.pull_requests.iter().filter(|one| one.state == "open") {
            *open.entry(&pull_request.place).or_default() += 1;
        }
        assert!(
            open.values().all(|&count| count <= 1),
            "{:?}",
            self.pull_requests
        );
    }

    /// Computes what a promotion changes, as long as that is not in git.
    fn compute_change(&self, promotion: &mut Promotion) {
        if !promotion.spec.needs_approval || !may_merge(promotion) {
            return;
        }
        let digest = digest(promotion, self.edits);
        let status = promotion.status.get_or_insert_default();
        if status.phase != Some(Phase::WaitingForMerge) {
            status.change = Some(PromotionChange {
                digest,
                ..PromotionChange::default()
            });
        }
    }

    /// How many people have approved exactly this change, are in the group that the policy names, did not
    /// request it, and did so less than the policy's time ago.
    fn approvers(&self, promotion: &Promotion) -> usize {
        let spec = &promotion.spec;
        let status = promotion.status.clone().unwrap_or_default();
        let digest = status.change.as_ref().map(|change| change.digest.clone());
        let counts = |approval: &&Approval| {
            let observed = status.approvals.iter().find(|it| it.by == approval.by);
            let observed = observed.and_then(|it| it.observed_at.as_ref());
            let expires = spec
                .approval_policy
                .as_ref()
                .and_then(|it| it.expires.as_ref());
            let is_fresh =
                expires.is_none() || observed.is_some_and(|at| self.now < at.0 + EXPIRES);
            let is_by_policy = ["ann", "bob", "dan"].contains(&approval.by.as_str())
                && (spec.request.is_none() || approval.by != REQUESTER)
                && is_fresh;
            approval.change_digest == digest && (spec.approval_policy.is_none() || is_by_policy)
        };
        spec.approvals.iter().filter(counts).count()
    }

    /// The Freezes that cover the pipeline now.
    fn covering(&self) -> Vec<CoveringFreeze> {
        let freezes = self.freezes.iter().map(|it| &it.freeze);
        let scope = FreezeScope {
            freeze_namespace: None,
            namespace_labels: None,
            cluster_labels: &|_, _| None,
        };
        let (pipeline, model) = (&self.world.pipeline, self.world.model());
        planner::covering_freezes(pipeline, &model, freezes, &scope, self.now)
    }

    /// What listing the Freezes immediately before a step leads to.
    fn listed_freeze(&self, promotion: &Promotion) -> Option<Outcome> {
        let (pipeline, freezes) = (&self.world.pipeline, self.covering());
        let hold = planner::freeze_hold(promotion, pipeline, freezes, self.now)?;
        Some(Outcome::Failed(Failure {
            reason: hold.reason.word().to_owned(),
            message: hold.message(),
            remedy: Remedy::RetryAfter(Duration::from_secs(5)),
        }))
    }

    /// Somebody stops promotions.
    pub(crate) fn freeze(&mut self, times: &FreezeTimes, allows_rollback: bool) {
        let mut spec = FreezeSpec {
            reason: "random".to_owned(),
            allow: (!allows_rollback).then(Vec::new),
            ..FreezeSpec::default()
        };
        let now = self.now.as_second();
        let from_now = |minutes: i64| Timestamp::from_second(now + minutes * 60).unwrap();
        let daily = |minutes: &std::ops::Range<i64>| {
            let begin = from_now(minutes.start).as_second() % 86_400 / 60 * 60;
            let length = minutes.end - minutes.start;
            let window = ScheduleWindow {
                cron: format!("{} {} * * *", begin / 60 % 60, begin / 3_600),
                window: format!("{length}m").parse().unwrap(),
                time_zone: None,
            };
            (begin..begin + length * 60, vec![window])
        };
        let seconds;
        match times {
            FreezeTimes::Stop(begin) => {
                spec.not_before = Some(Time(from_now(*begin)));
                seconds = from_now(*begin).as_second()..i64::MAX;
            }
            FreezeTimes::Between(minutes) => {
                let (begin, end) = (from_now(minutes.start), from_now(minutes.end));
                (spec.not_before, spec.not_after) = (Some(Time(begin)), Some(Time(end)));
                seconds = begin.as_second()..end.as_second();
            }
            FreezeTimes::Daily(minutes) => (seconds, spec.closed) = daily(minutes),
            FreezeTimes::OpenDaily(minutes) => (seconds, spec.open_only) = daily(minutes),
        }
        let mut freeze = Freeze::new(&format!("freeze-{}", self.freezes.len()), spec);
        let namespace = &self.world.pipeline.metadata.namespace;
        freeze.metadata.namespace.clone_from(namespace);
        self.freezes.push(SimulatedFreeze {
            freeze,
            seconds,
            is_daily: matches!(times, FreezeTimes::Daily(_) | FreezeTimes::OpenDaily(_)),
            is_open_then: matches!(times, FreezeTimes::OpenDaily(_)),
            allows_rollback,
        });
    }

    /// The forecast for prod from the stored objects, with the Freezes that cover the pipeline.
    pub(crate) fn forecast(&mut self) -> planner::EnvironmentForecast {
        let freezes = self.covering();
        let World {
            pipeline,
            promotions,
            ..
        } = &mut self.world;
        pipeline.status.as_mut().unwrap().freezes = freezes;
        let model = pipeline.status.clone().unwrap();
        let all = planner::forecast(pipeline, &model, promotions, self.now);
        all.into_iter().find(|it| it.environment == "prod").unwrap()
    }

    /// Somebody deletes every Freeze.
    pub(crate) fn thaw(&mut self) {
        self.freezes.clear();
    }

    /// Whether anything is frozen now.
    fn check_frozen(&self, promotion: &Promotion) {
        let closed = self.freezes.iter().filter(|it| it.is_closed(self.now));
        let model = self.world.model();
        let prod = &model.environments[&promotion.spec.environment];
        let revision = &promotion.spec.revision;
        let namespace = promotion.spec.target.as_ref().map(|it| &it.namespace);
        let here = prod.targets.iter();
        let here = here.filter(|it| namespace.is_none() || it.namespace.as_ref() == namespace);
        let mut running = here.filter_map(|target| target.revision.as_deref());
        let is_rollback = prod.ran.iter().any(|it| it.revision == *revision)
            && !prod.rejected.contains(revision)
            && !running.any(|running| is_older(running, revision));
        for freeze in closed {
            assert!(
                freeze.allows_rollback && is_rollback,
                "{revision} enters during {freeze:?}"
            );
        }
    }

    /// The verdict of the newest attempt of a check.
    pub(crate) fn verdict(
        &self,
        environment: &str,
        cause: CheckCause,
        revision: &str,
    ) -> CheckVerdict {
        let runs = self.world.runs.iter().map(|run| (&run.spec, &run.status));
        let of_revision = runs.filter(|(spec, _)| {
            spec.environment == environment && spec.cause == cause && spec.revision == revision
        });
        let newest = of_revision.max_by_key(|(spec, _)| spec.attempt);
        let status = newest.and_then(|(_, status)| status.clone());
        status.unwrap_or_default().verdict
    }

    pub(crate) fn verifies(&self, environment: &str) -> bool {
        !self
            .world
            .pipeline
            .spec
            .verify_checks(environment)
            .is_empty()
    }

    /// A derived rollback leads from a revision that runs and failed its checks, once, to one that passed them,
    /// and never from what a rollback brought.
    fn check_derived_rollback(&self, promotion: &Promotion, cause: &str) {
        let of_cause = |it: &&Promotion| it.metadata.uid.as_deref() == Some(cause);
        let failed = self.world.promotions.iter().find(of_cause).unwrap();
        let asked = failed.spec.request.as_ref().map(|asked| asked.kind);
        let is_rollback = failed.spec.cause.is_some() || asked == Some(RequestKind::Rollback);
        assert!(!is_rollback, "a rollback of a rollback: {failed:?}");
        let place = site_of(&promotion.spec, "default");
        let mut others = self.world.promotions.iter();
        let is_second = others.any(|it| {
            it.spec.cause.as_deref() == Some(cause) && site_of(&it.spec, "default") == place
        });
        assert!(!is_second, "a second rollback: {promotion:?}");
        let revision = &failed.spec.revision;
        let environment = &promotion.spec.environment;
        let verdict = self.verdict(environment, CheckCause::Verify, revision);
        assert_eq!(verdict, CheckVerdict::Failed, "{revision} did not fail");
        let prod = &self.world.model().environments[environment];
        let mut running = prod.targets.iter();
        let is_running = running.any(|it| it.revision.as_ref() == Some(revision));
        assert!(is_running, "{revision} has left");
        let to = prod
            .ran
            .iter()
            .find(|it| it.revision == promotion.spec.revision);
        assert!(
            to.unwrap().checked_at.is_some(),
            "back to what never passed"
        );
    }

    /// Nothing enters that has not passed the checks before prod; nothing whose checks failed goes on.
    fn check_checks(&self, promotion: &Promotion, is_proposed: bool) {
        let spec = &promotion.spec;
        let environment = spec.environment.as_str();
        let settings = self.settings(environment);
        if !settings.checks.is_empty() && spec.cause.is_none() {
            let verdict = self.verdict(environment, CheckCause::Promotion, &spec.revision);
            let may_go_on = match is_proposed {
                true => verdict != CheckVerdict::Failed,
                false => verdict == CheckVerdict::Passed,
            };
            assert!(may_go_on, "{} enters, {verdict:?}", spec.revision);
        }
        let model = self.world.model();
        let answers = model.environments[environment].last_request.as_ref();
        let is_asked = spec.request.is_some() || answers.is_some_and(|it| it.led_to(promotion));
        if is_asked || spec.cause.is_some() {
            return;
        }
        let sources = self.sources(environment);
        for source in sources.iter().filter(|it| self.verifies(it)) {
            let verdict = self.verdict(source, CheckCause::Verify, &spec.revision);
            assert_ne!(verdict, CheckVerdict::Failed, "{} goes on", spec.revision);
        }
    }

    /// A check is measured, or reported.
    pub(crate) fn decide_check(&mut self, nth: usize, verdict: CheckVerdict) {
        let count = self.world.runs.len();
        if count == 0 {
            return;
        }
        let run = &mut self.world.runs[nth % count];
        let status = run.status.get_or_insert_default();
        // What has passed is measured on only where the revision arrived, while it soaks.
        let is_final = match status.verdict {
            CheckVerdict::Failed => true,
            CheckVerdict::Passed => run.spec.cause == CheckCause::Promotion,
            _ => false,
        };
        if !is_final {
            status.verdict = verdict;
        }
    }

    /// Somebody deletes a CheckRun.
    pub(crate) fn delete_check(&mut self, nth: usize) {
        let count = self.world.runs.len();
        if count > 0 {
            self.world.runs.remove(nth % count);
        }
    }

    /// Every check passes that has not failed.
    pub(crate) fn pass_checks(&mut self) {
        (0..self.world.runs.len()).for_each(|nth| self.decide_check(nth, CheckVerdict::Passed));
    }

    /// What must hold whenever something is pushed.
    fn check_act(&self, promotion: &Promotion, is_proposed: bool) {
        self.check_checks(promotion, is_proposed);
        self.check_signed(promotion);
        let environment = &promotion.spec.environment;
        let spec = &self.world.pipeline.spec;
        assert!(!spec.suspend, "suspended, something is pushed");
        self.check_frozen(promotion);
        let settings = self.settings(environment);
        let needed = match &settings.approval_policy {
            Some(policy) => policy.count as usize,
            None => usize::from(settings.manual),
        };
        let model = self.world.model();
        let mut ran = model.environments[environment].ran.iter();
        let was_approved = promotion.spec.cause.is_some()
            && ran.any(|it| it.revision == promotion.spec.revision && it.approved);
        let needed = if was_approved { 0 } else { needed };
        let approvers = self.approvers(promotion);
        assert!(
            approvers >= needed,
            "{promotion:?} has {approvers} approvals, not {needed}"
        );
        let rejection = &promotion.spec.rejection;
        assert!(rejection.is_none(), "{promotion:?} is rejected");
        let place = site_of(&promotion.spec, "default");
        let others = self.world.promotions.iter().filter(|other| {
            site_of(&other.spec, "default") == place
                && other.metadata.name != promotion.metadata.name
        });
        for other in others.filter(|other| may_merge(other)) {
            let is_later =
                other.metadata.creation_timestamp >= promotion.metadata.creation_timestamp;
            assert!(
                is_later && other.spec.withdrawn.is_none(),
                "{other:?} may still merge"
            );
        }
    }

    /// Nothing that nobody asked for is brought over something newer, or after it failed in a source.
    fn check_order(&self, promotion: &Promotion) {
        let spec = &promotion.spec;
        let model = self.world.model();
        let prod = &model.environments[&spec.environment];
        let last = prod.last_request.as_ref();
        let is_asked = spec.request.is_some() || last.is_some_and(|last| last.led_to(promotion));
        if is_asked || spec.cause.is_some() {
            return;
        }
        for source in self.sources(&spec.environment) {
            let targets = &model.environments[&source].targets;
            let fails = targets
                .iter()
                .any(|it| planner::failed_revision(it) == Some(&spec.revision));
            let is_ready = |it: &&api::pipeline::TargetStatus| {
                it.ready && it.revision.as_ref() == Some(&spec.revision)
            };
            let one_is_enough = self.one_is_enough(&spec.environment);
            let is_vouched_for = one_is_enough && targets.iter().any(|it| is_ready(&it));
            assert!(
                !fails || is_vouched_for,
                "{} failed in {source}",
                spec.revision
            );
        }
        let target = spec.target.as_ref().map(|target| &target.namespace);
        let here = prod.targets.iter();
        let here = here.filter(|it| target.is_none() || it.namespace.as_ref() == target);
        for running in here.filter_map(|target| target.revision.as_deref()) {
            let is_downgrade = is_older(&spec.revision, running);
            assert!(!is_downgrade, "{} over {running}", spec.revision);
        }
    }

    /// The forge merges a pull request as it was asked to.
    fn merge(&mut self, owner: &str) {
        let mut open = self.pull_requests.iter_mut();
        let open = open.find(|one| one.owner == owner && one.state == "open");
        let open = open.unwrap();
        open.state = "merged";
        self.git.insert(open.place.clone(), open.revision.clone());
    }

    fn open(&mut self, promotion: &Promotion) -> Outcome {
        let place = site_of(&promotion.spec, "default").key();
        let owner = promotion.metadata.name.clone().unwrap();
        let revision = promotion.spec.revision.clone();
        let mut open = self
            .pull_requests
            .iter_mut()
            .filter(|one| one.state == "open");
        match open.find(|one| one.place == place) {
            Some(taken_over) => {
                taken_over.owner = owner;
                taken_over.revision = revision;
            }
            None => self.pull_requests.push(PullRequest {
                place,
                owner,
                revision,
                state: "open",
            }),
        }
        Outcome::Opened {
            url: "https://example.com/1".to_owned(),
            branch: "b".to_owned(),
            commit: None,
            notes: Vec::new(),
        }
    }

    fn pull_request_of(&self, promotion: &Promotion) -> ObservedPullRequest {
        let name = promotion.metadata.name.as_deref().unwrap();
        let own = self
            .pull_requests
            .iter()
            .rev()
            .find(|one| one.owner == name);
        let url = "https://example.com/1".to_owned();
        match own.map(|own| own.state) {
            None => ObservedPullRequest::Missing,
            Some("open") => ObservedPullRequest::Open {
                url,
                is_current: own.unwrap().revision == promotion.spec.revision,
                changed_by_others: false,
                is_merge_scheduled: false,
            },
            Some("merged") => ObservedPullRequest::Merged { url, commit: None },
            Some(_) => ObservedPullRequest::Closed { url },
        }
    }

    /// The revision for which Sluice opened the first pull request.
    pub(crate) fn first_opened(&self) -> Option<&str> {
        let first = self.pull_requests.first();
        first.map(|it| it.revision.as_str())
    }

    fn set_state(&mut self, owner: &str, state: &'static str) {
        for pull_request in &mut self.pull_requests {
            if pull_request.owner == owner && pull_request.state == "open" {
                pull_request.state = state;
            }
        }
    }

    /// Somebody merges or closes an open pull request.
    pub(crate) fn end_pull_request(&mut self, nth: usize, state: &'static str) {
        let mut open: Vec<_> = self
            .pull_requests
            .iter_mut()
            .filter(|one| one.state == "open")
            .collect();
        if open.is_empty() {
            return;
        }
        let index = nth % open.len();
        open[index].state = state;
        if state == "merged" {
            self.git
                .insert(open[index].place.clone(), open[index].revision.clone());
        }
    }

    /// Flux brings what git asks for into every environment, or fails to.
    pub(crate) fn sync(&mut self, works: bool) {
        let names: Vec<_> = self.truth.keys().cloned().collect();
        names.iter().for_each(|name| self.sync_one(name, works));
    }

    fn sync_one(&mut self, environment: &str, works: bool) {
        let model = self.world.model();
        let known = &model.environments[environment].targets;
        let targets = self.truth.get_mut(environment).unwrap();
        for (known, truth) in known.iter().zip(targets) {
            let namespace = known.namespace.as_deref().unwrap();
            let of_target = self.git.get(&format!("{environment}/-/{namespace}"));
            let Some(wanted) = of_target.or(self.git.get(environment)) else {
                continue;
            };
            if works && truth.revision != *wanted {
                truth.revision.clone_from(wanted);
                truth.signed = None;
            }
            truth.ready = works;
            truth.failed = (!works).then(|| wanted.clone());
        }
    }

    /// Everybody does their part for a while.
    pub(crate) fn calm_down(&mut self, revision: &str) {
        self.world.pipeline.spec.suspend = false;
        self.thaw();
        for truth in self.truth.values_mut().flatten() {
            truth.reachable = true;
        }
        for truth in self.truth.get_mut("dev").unwrap() {
            truth.revision = revision.to_owned();
            truth.ready = true;
            truth.failed = None;
            truth.signed = Some(true);
        }
        for _ in 0..10 {
            self.now += Duration::from_secs(7200);
            self.plan(false);
            self.pass_checks();
            self.plan(false);
            // The change is computed before it is approved.
            self.attempt(false);
            for nth in 0..4 {
                self.approve(nth, 0);
                self.approve(nth, 1);
            }
            (0..3).for_each(|_| self.attempt(false));
            (0..4).for_each(|_| self.end_pull_request(0, "merged"));
            self.sync(true);
            self.attempt(false);
            self.pass_checks();
        }
    }

    /// Somebody approves what a promotion changes now. The first three are in the group that the policy
    /// names, and the third requests promotions.
    pub(crate) fn approve(&mut self, nth: usize, person: usize) {
        let by = ["ann", "bob", REQUESTER, "eve"][person % 4];
        let at = Some(Time(self.now));
        let Some(promotion) = self.nth_open(nth) else {
            return;
        };
        let status = promotion.status.as_ref();
        let change = status.and_then(|status| status.change.as_ref());
        let approval = Approval {
            by: by.to_owned(),
            group: (by != "eve").then(|| "sre".to_owned()),
            at,
            change_digest: change.map(|change| change.digest.clone()),
            ..Approval::default()
        };
        promotion.spec.approvals.retain(|it| it.by != by);
        promotion.spec.approvals.push(approval);
    }

    pub(crate) fn reject(&mut self, nth: usize) {
        if let Some(promotion) = self.nth_open(nth) {
            promotion.spec.rejection.get_or_insert_with(|| Rejection {
                by: "ann".to_owned(),
                ..Rejection::default()
            });
        }
    }

    /// Somebody edits the values in git that promotions change.
    pub(crate) fn edit(&mut self) {
        self.edits += 1;
    }

    fn nth_open(&mut self, nth: usize) -> Option<&mut Promotion> {
        let open = self.world.promotions.iter_mut().filter(|it| may_merge(it));
        let mut open: Vec<_> = open.collect();
        match open.len() {
            0 => None,
            count => Some(open.swap_remove(nth % count)),
        }
    }

    pub(crate) fn request(&mut self, kind: RequestKind, revision: &str) {
        self.requests += 1;
        let request = Request {
            id: format!("r{}", self.requests),
            revision: revision.to_owned(),
            kind,
            by: Some(REQUESTER.to_owned()),
            at: Some(Time(self.now)),
            unseen: true,
            ..Request::default()
        };
        let status = self.world.pipeline.status.as_mut().unwrap();
        status.requests.insert("prod".to_owned(), request);
    }
}

/// The digest of what a promotion changes after so many edits of git.
fn digest(promotion: &Promotion, edits: usize) -> String {
    format!("{} over edit {edits}", promotion.spec.revision)
}

pub(crate) fn may_merge(promotion: &Promotion) -> bool {
    let phase: Option<Phase> = promotion.status.as_ref().and_then(|status| status.phase);
    phase.is_none_or(|phase| !phase.lets_successor_act())
}

/// The revisions of a simulation are single numbers as versions, or words without an order.
pub(crate) fn is_older(one: &str, other: &str) -> bool {
    let number = |text: &str| text.split_once('.')?.0.parse::<u32>().ok();
    matches!((number(one), number(other)), (Some(one), Some(other)) if one < other)
}

fn state(truth: &Truth) -> TargetState {
    if !truth.reachable {
        return TargetState::Unreachable {
            because: "no answer".to_owned(),
        };
    }
    TargetState::Observed(vec![ObservedApp {
        reading: AppReading {
            revision: Revision::new(&truth.revision),
            version: Some(truth.revision.clone()),
            ready: truth.ready,
            failed: truth.failed.is_some(),
            attempted: truth.failed.as_deref().and_then(Revision::new),
            ..AppReading::default()
        },
        signed: truth.signed,
        ..ObservedApp::default()
    }])
}
