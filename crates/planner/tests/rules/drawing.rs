//! A small notation for pipelines and what is known about them.
//!
//! ```text
//! dev[2.0.0 ok, 1.0.0 broken] > prod{manual, soak 30m}[1.0.0 ok 5m on c1]
//! promotion prod 2.0.0 WaitingForMerge approved
//! ```
//!
//! Environments from left to right: name, settings in braces, targets in brackets. A target is a
//! revision and its state, then since when it has been ready (an hour unless it says otherwise),
//! its cluster, and what its revision follows. Each further line adds one fact; see `fact`.

use std::collections::BTreeSet;

use api::{
    CheckRun, Pipeline, Promotion, Time,
    check_run::{CheckCause, CheckRunSpec, CheckRunStatus},
    names::{REQUEST_ANNOTATION, check_run_name, promotion_name},
    pipeline::{
        AppReference, ApprovalPolicy, Approver, Check, ClusterAppReference, ClusterReference,
        Environment, EnvironmentStatus, Evidence, ExternalCheck, FailedRelease, HandledRequest,
        OnFailure, PipelineSpec, PipelineStatus, PromotionSettings, Proposal, PullRequestStrategy,
        RanRevision, ReportedRevision, Request, RequestKind, Scope, Source, SourceKind, Strategy,
        Target, TargetProblem, TargetStatus, Track, When,
    },
    promotion::{
        Approval, ObservedApproval, Phase, PromotionChange, PromotionRequest, PromotionSpec,
        PromotionStatus, PromotionTarget, Rejection, Withdrawal,
    },
    revision::{identity, tag},
};
use kube::Resource;
use planner::{Timestamp, site_of};

pub(crate) struct World {
    pub(crate) pipeline: Pipeline,
    pub(crate) promotions: Vec<Promotion>,
    pub(crate) runs: Vec<CheckRun>,
}

impl World {
    pub(crate) fn model(&self) -> PipelineStatus {
        self.pipeline.status.clone().unwrap()
    }

    pub(crate) fn plan(&self) -> planner::Plan {
        planner::plan(&self.pipeline, &self.model(), &self.promotions, now())
    }

    /// Copies the checks into the status, as the loop does.
    pub(crate) fn fold_checks(&mut self) {
        let model = planner::fold_checks(&self.pipeline, &self.runs, self.model());
        self.pipeline.status = Some(model);
    }
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub(crate) fn ago(text: &str) -> Time {
    let length = text.parse::<api::Duration>().unwrap().length();
    Time(now() - length)
}

/// What the strategy of every drawing is unless it says otherwise.
pub(crate) fn pull_request() -> Strategy {
    Strategy {
        pull_request: Some(PullRequestStrategy {
            url: "https://example.com/shop.git".to_owned(),
            base_branch: "main".to_owned(),
            ..PullRequestStrategy::default()
        }),
        ..Strategy::default()
    }
}

pub(crate) fn draw(text: &str) -> World {
    let mut lines = text.trim().lines().map(str::trim);
    let mut pipeline = Pipeline::new("shop", PipelineSpec::default());
    pipeline.metadata.namespace = Some("default".to_owned());
    pipeline.metadata.uid = Some("shop-uid".to_owned());
    pipeline.spec.app_ref = Some(AppReference {
        api_version: "helm.toolkit.fluxcd.io/v2".to_owned(),
        kind: "HelmRelease".to_owned(),
        name: "shop".to_owned(),
    });
    pipeline.spec.promotion = Some(PromotionSettings {
        strategy: pull_request(),
        ..PromotionSettings::default()
    });
    pipeline.status = Some(PipelineStatus::default());
    let mut world = World {
        pipeline,
        promotions: Vec::new(),
        runs: Vec::new(),
    };
    for text in lines.next().unwrap_or_default().split('>') {
        environment(&mut world, text.trim());
    }
    define_checks(&mut world.pipeline.spec);
    for line in lines {
        fact(&mut world, line);
    }
    world.fold_checks();
    world
}

fn environment(world: &mut World, text: &str) {
    if text.is_empty() {
        return;
    }
    let (head, targets) = text.split_once('[').unwrap();
    let (name, settings) = head.split_once('{').unwrap_or((head, ""));
    let settings = settings.trim_end_matches('}');
    let mut environment = Environment {
        name: name.to_owned(),
        ..Environment::default()
    };
    let mut status = EnvironmentStatus::default();
    let targets = targets.trim_end_matches(']');
    let targets: Vec<_> = targets
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .collect();
    for (index, text) in targets.iter().enumerate() {
        let namespace = match targets.len() {
            1 => name.to_owned(),
            _ => format!("{name}-{}", index + 1),
        };
        target(text, &namespace, &mut environment, &mut status);
    }
    for setting in settings
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty())
    {
        configure(&mut environment, setting);
    }
    world.pipeline.spec.environments.push(environment);
    let model = world.pipeline.status.as_mut().unwrap();
    model.environments.insert(name.to_owned(), status);
}

/// Every check that an environment names is reported by somebody else.
fn define_checks(spec: &mut PipelineSpec) {
    let verify = spec.environments.iter().flat_map(|it| &it.verify);
    let verify = verify.flat_map(|it| &it.checks);
    let before = spec.environments.iter().flat_map(|it| &it.promotion);
    let before = before.flat_map(|it| &it.checks);
    let names: BTreeSet<_> = verify.chain(before).cloned().collect();
    let check = |name| Check {
        name,
        external: Some(ExternalCheck::default()),
        ..Check::default()
    };
    spec.checks = names.into_iter().map(check).collect();
}

fn configure(environment: &mut Environment, setting: &str) {
    let words = setting.split_once(' ').unwrap_or((setting, ""));
    match words {
        ("suspended", "") => return environment.suspend = true,
        ("after", names) => {
            let names = names.split_whitespace().map(str::to_owned);
            return environment.after = Some(names.collect());
        }
        ("verify", names) => {
            let names = names.split_whitespace().map(str::to_owned);
            environment.verify.get_or_insert_default().checks = names.collect();
            return;
        }
        ("back", "") => {
            let verify = environment.verify.get_or_insert_default();
            verify.on_failure = OnFailure::Rollback;
            return;
        }
        _ => {}
    }
    let settings = environment
        .promotion
        .get_or_insert_with(|| PromotionSettings {
            strategy: pull_request(),
            ..PromotionSettings::default()
        });
    match setting.split_once(' ').unwrap_or((setting, "")) {
        ("manual", "") => settings.manual = true,
        ("policy", words) => settings.approval_policy = Some(policy(words)),
        ("any", "") => settings.when = Some(When::AnyTargetReady),
        ("all", "") => settings.when = Some(When::AllTargetsReady),
        ("per", "target") => settings.scope = Some(Scope::Target),
        ("checks", names) => {
            settings.checks = names.split_whitespace().map(str::to_owned).collect();
        }
        ("soak", length) => settings.soak = Some(length.parse().unwrap()),
        ("timeout", length) => settings.deploy_timeout = Some(length.parse().unwrap()),
        ("no", "strategy") => settings.strategy = Strategy::default(),
        ("labelled", label) => {
            let labels = vec![label.to_owned()];
            settings.strategy.pull_request.as_mut().unwrap().labels = labels;
        }
        ("merged", "by the forge") => {
            settings.strategy.pull_request.as_mut().unwrap().auto_merge = true;
        }
        ("url", url) => settings.strategy.pull_request.as_mut().unwrap().url = url.to_owned(),
        _ => panic!("setting {setting:?} is not in the notation"),
    }
}

/// `count [group:NAME] [user:NAME] [not-requester] [expires:30m]`.
pub(crate) fn policy(text: &str) -> ApprovalPolicy {
    let mut words = text.split_whitespace();
    let mut policy = ApprovalPolicy {
        count: words.next().unwrap().parse().unwrap(),
        ..ApprovalPolicy::default()
    };
    for word in words {
        let name = |name: &str| Some(name.to_owned());
        match word.split_once(':').unwrap_or((word, "")) {
            ("group", group) => policy.from.push(Approver {
                group: name(group),
                user: None,
            }),
            ("user", user) => policy.from.push(Approver {
                group: None,
                user: name(user),
            }),
            ("not-requester", "") => policy.not_requester = true,
            ("expires", length) => policy.expires = Some(length.parse().unwrap()),
            _ => panic!("{word:?} is not in the notation of policies"),
        }
    }
    policy
}

/// `name[/group][@digest][~observed ago]`.
fn approval(text: &str, status: &mut PromotionStatus) -> Approval {
    let (text, observed) = match text.split_once('~') {
        Some((text, time)) => (text, Some(ago(time))),
        None => (text, None),
    };
    let (text, digest) = match text.split_once('@') {
        Some((text, digest)) => (text, Some(digest.to_owned())),
        None => (text, None),
    };
    let (by, group) = match text.split_once('/') {
        Some((by, group)) => (by, Some(group.to_owned())),
        None => (text, None),
    };
    if observed.is_some() {
        status.approvals.push(ObservedApproval {
            by: by.to_owned(),
            at: None,
            observed_at: observed,
        });
    }
    Approval {
        by: by.to_owned(),
        group,
        change_digest: digest,
        ..Approval::default()
    }
}

fn target(
    text: &str,
    namespace: &str,
    environment: &mut Environment,
    status: &mut EnvironmentStatus,
) {
    let mut words = text.split_whitespace().peekable();
    let mut wanted = Target {
        namespace: namespace.to_owned(),
        ..Target::default()
    };
    if text == "selector" {
        wanted.cluster_selector = Some(Default::default());
        environment.targets.push(wanted);
        return;
    }
    let revision = words.next().filter(|word| *word != "-");
    let mut target = TargetStatus {
        revision: revision.map(|text| identity(text).to_owned()),
        version: revision.map(|text| tag(text).to_owned()),
        namespace: Some(namespace.to_owned()),
        source: Some(Evidence::Watch),
        cluster_app_ref: Some(ClusterAppReference::default()),
        ..TargetStatus::default()
    };
    while let Some(word) = words.next() {
        match word {
            "ok" => {
                target.ready = true;
                target.ready_since = Some(ago("1h"));
            }
            "broken" => {}
            "failed" => target.failed = words.next().map(str::to_owned),
            "missing" => problem(&mut target, TargetProblem::AppMissing, "not found"),
            "unreachable" => problem(&mut target, TargetProblem::Unreachable, "no answer"),
            "told" => target.source = Some(Evidence::Report),
            "cluster-not-ready" => {
                problem(&mut target, TargetProblem::ClusterNotReady, "not ready");
            }
            "lost" => {
                target.unreadable_since = Some(ago("2h"));
                problem(&mut target, TargetProblem::Unreachable, "no answer");
            }
            "on" => wanted.cluster_ref = words.next().map(cluster),
            "from" => target.follows = words.next().map(str::to_owned),
            "selected" => wanted.cluster_selector = Some(Default::default()),
            length => target.ready_since = Some(ago(length)),
        }
    }
    target.cluster_app_ref.as_mut().unwrap().cluster_ref = wanted.cluster_ref.clone();
    if wanted.cluster_selector.is_some() {
        wanted.cluster_ref = None;
    }
    environment.targets.push(wanted);
    status.targets.push(target);
}

fn problem(target: &mut TargetStatus, problem: TargetProblem, error: &str) {
    target.problem = Some(problem);
    target.error = Some(error.to_owned());
}

fn cluster(name: &str) -> ClusterReference {
    ClusterReference {
        kind: "GitopsCluster".to_owned(),
        name: name.to_owned(),
        ..ClusterReference::default()
    }
}

/// One more thing that is so.
fn fact(world: &mut World, line: &str) {
    let words: Vec<_> = line.split_whitespace().collect();
    let spec = &mut world.pipeline.spec;
    let model = world.pipeline.status.as_mut().unwrap();
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    match words.as_slice() {
        ["suspend"] => spec.suspend = true,
        ["without", "appRef"] => spec.app_ref = None,
        ["without", "promotion"] => spec.promotion = None,
        ["kustomization"] => {
            let app = spec.app_ref.as_mut().unwrap();
            app.api_version = "kustomize.toolkit.fluxcd.io/v1".to_owned();
            app.kind = "Kustomization".to_owned();
        }
        ["track", image] => {
            spec.track = Some(Track {
                image: (*image).to_owned(),
            })
        }
        ["ran", environment, revisions @ ..] => {
            let environment = model.environments.get_mut(*environment).unwrap();
            environment.ran = revisions.iter().map(|&it| it.into()).collect();
        }
        // Revisions that passed the checks there; `+` where people approved them.
        ["checked", environment, revisions @ ..] => {
            let environment = model.environments.get_mut(*environment).unwrap();
            environment.ran = revisions.iter().map(|&it| checked(it)).collect();
        }
        // A revision that ran there and failed a check.
        ["failed-check", environment, check, revision] => {
            let environment = model.environments.get_mut(*environment).unwrap();
            environment.ran.push(RanRevision {
                failed_check: Some((*check).to_owned()),
                ..RanRevision::from(*revision)
            });
        }
        // A revision that was ready there and left, both so long ago; `checked` if it passed its checks.
        ["left", environment, revision, ready, left, rest @ ..] => {
            let environment = model.environments.get_mut(*environment).unwrap();
            environment.ran.push(RanRevision {
                first_ready_at: Some(ago(ready)),
                all_ready_at: Some(ago(ready)),
                left_at: Some(ago(left)),
                checked_at: rest.contains(&"checked").then(|| ago(left)),
                signed: rest.contains(&"signed"),
                ..RanRevision::from(*revision)
            });
        }
        // A release that failed there so long ago.
        ["fails", environment, revision, at] => {
            let environment = model.environments.get_mut(*environment).unwrap();
            environment.failures.push(FailedRelease {
                revision: (*revision).to_owned(),
                at: Some(ago(at)),
                ..FailedRelease::default()
            });
        }
        ["check", environment, check, revision, verdict, rest @ ..] => {
            let run = check_run(
                &world.pipeline,
                (environment, check, revision),
                verdict,
                rest,
            );
            world.runs.push(run);
        }
        ["rejected", environment, revisions @ ..] => {
            model.environments.get_mut(*environment).unwrap().rejected = owned(revisions);
        }
        ["handled", environment, id] => {
            let environment = model.environments.get_mut(*environment).unwrap();
            environment.last_request = Some(HandledRequest {
                id: (*id).to_owned(),
                ..HandledRequest::default()
            });
        }
        ["reported", environment, revision] => {
            let environment = model.environments.get_mut(*environment).unwrap();
            environment.reported = Some(ReportedRevision {
                revision: (*revision).to_owned(),
                ready_since: Some(ago("1h")),
            });
        }
        ["source", kind, revision @ ..] => source(spec, model, kind, revision),
        ["request", environment, rest @ ..] => {
            model
                .requests
                .insert((*environment).to_owned(), request(rest));
        }
        ["anonymous", environment, rest @ ..] => {
            let mut request = request(rest);
            request.by = None;
            model.requests.insert((*environment).to_owned(), request);
        }
        ["written", environment, rest @ ..] => {
            let request = serde_json::json!({*environment: request(rest)}).to_string();
            let annotations = world.pipeline.metadata.annotations.get_or_insert_default();
            annotations.insert(REQUEST_ANNOTATION.to_owned(), request);
        }
        ["promotion", environment, rest @ ..] => {
            let promotion = promotion(world, environment, rest);
            world.promotions.push(promotion);
        }
        _ => panic!("fact {line:?} is not in the notation"),
    }
}

fn checked(text: &str) -> RanRevision {
    let revision = text.trim_end_matches('+');
    RanRevision {
        checked_at: Some(ago("2h")),
        approved: text.ends_with('+'),
        ..RanRevision::from(revision)
    }
}

/// `ENVIRONMENT CHECK REVISION VERDICT [before] [#attempt]`.
fn check_run(
    pipeline: &Pipeline,
    (environment, check, revision): (&str, &str, &str),
    verdict: &str,
    rest: &[&str],
) -> CheckRun {
    let attempt = rest.iter().find_map(|word| word.strip_prefix('#'));
    let spec = CheckRunSpec {
        pipeline: "shop".to_owned(),
        environment: environment.to_owned(),
        check: pipeline.spec.check(check).unwrap().clone(),
        revision: revision.to_owned(),
        version: revision.to_owned(),
        attempt: attempt.map_or(0, |attempt| attempt.parse().unwrap()),
        cause: match rest.contains(&"before") {
            true => CheckCause::Promotion,
            false => CheckCause::Verify,
        },
        result: None,
    };
    let mut run = CheckRun::new(&check_run_name(&spec), spec);
    run.metadata.owner_references = pipeline.controller_owner_ref(&()).map(|it| vec![it]);
    run.status = Some(CheckRunStatus {
        verdict: serde_json::from_value(verdict.into()).unwrap(),
        message: (verdict == "Failed").then(|| "it was slow".to_owned()),
        ..CheckRunStatus::default()
    });
    run
}

fn source(spec: &mut PipelineSpec, model: &mut PipelineStatus, kind: &str, revision: &[&str]) {
    let kind = match kind {
        "HelmChart" => SourceKind::HelmChart,
        "GitRepository" => SourceKind::GitRepository,
        "Hook" => SourceKind::Hook,
        _ => panic!("source {kind:?} is not in the notation"),
    };
    spec.source = Some(Source {
        kind,
        name: (kind != SourceKind::Hook).then(|| "shop".to_owned()),
    });
    model.proposal = match revision {
        [] => None,
        ["unreadable"] => Some(Proposal {
            error: Some("no answer".to_owned()),
            ..Proposal::default()
        }),
        [revision, ..] => Some(Proposal {
            revision: Some((*revision).to_owned()),
            ..Proposal::default()
        }),
    };
}

/// `Promote|Rollback revision id [unseen]`.
fn request(words: &[&str]) -> Request {
    Request {
        kind: match words[0] {
            "Rollback" => RequestKind::Rollback,
            "Cancel" => RequestKind::Cancel,
            "Retry" => RequestKind::Retry,
            _ => RequestKind::Promote,
        },
        revision: words[1].trim_start_matches('-').to_owned(),
        id: words[2].to_owned(),
        by: Some("ada".to_owned()),
        at: Some(ago("1m")),
        unseen: words.get(3) == Some(&"unseen"),
        ..Request::default()
    }
}

/// `revision [phase] [#ordinal] [approved] [withdrawn] [superseded] [asked id] [merged 5m] ...`.
fn promotion(world: &World, environment: &str, words: &[&str]) -> Promotion {
    let settings = world.pipeline.spec.promotion_into(environment);
    let mut spec = PromotionSpec {
        pipeline: "shop".to_owned(),
        environment: environment.to_owned(),
        revision: identity(words[0]).to_owned(),
        version: tag(words[0]).to_owned(),
        strategy: settings
            .map(|settings| settings.strategy.clone())
            .unwrap_or_default(),
        needs_approval: settings.is_some_and(|settings| settings.needs_approval()),
        approval_policy: settings.and_then(|settings| settings.approval_policy.clone()),
        ..PromotionSpec::default()
    };
    let mut status = PromotionStatus::default();
    // Where people approve it, what it changes is known unless the drawing says otherwise.
    let mut is_unread = false;
    let mut words = words[1..].iter();
    while let Some(&word) = words.next() {
        let mut next = || words.next().unwrap().to_string();
        match word {
            "approved" => {
                let by = "ada".to_owned();
                spec.approvals.push(Approval {
                    by,
                    ..Approval::default()
                });
            }
            "by" => {
                let approval = approval(&next(), &mut status);
                spec.approvals.push(approval);
            }
            "rejected-by" => {
                spec.rejection = Some(Rejection {
                    by: next(),
                    note: Some("it loses orders".to_owned()),
                    ..Rejection::default()
                });
            }
            "changes" => {
                status.change = Some(PromotionChange {
                    digest: next(),
                    ..PromotionChange::default()
                });
            }
            "unread" => is_unread = true,
            "cancelled" => {
                spec.withdrawn = Some(Withdrawal {
                    reason: "Cancelled by ada".to_owned(),
                });
            }
            "asker" => {
                let by = Some(next());
                spec.request.get_or_insert_default().by = by;
            }
            "withdrawn" => {
                spec.withdrawn = Some(Withdrawal {
                    reason: "NoLongerCandidate".to_owned(),
                })
            }
            "superseded" => {
                spec.withdrawn = Some(Withdrawal {
                    reason: planner::superseded_by("x"),
                })
            }
            "asked" => {
                let id = next();
                spec.request = Some(PromotionRequest {
                    id,
                    ..PromotionRequest::default()
                });
            }
            "cause" => spec.cause = Some(next()),
            "instead" => spec.replaces = Some(next()),
            "back" => spec.request.get_or_insert_default().kind = RequestKind::Rollback,
            "merged" => status.merged_at = Some(ago(&next())),
            "ended" => status.finished_at = Some(ago(&next())),
            "because" => status.reason = Some(next()),
            "tried" => status.attempts = next().parse().unwrap(),
            "until" => {
                status.next_attempt = Some(Time(
                    now() + next().parse::<api::Duration>().unwrap().length(),
                ))
            }
            "at" => {
                let cluster = next();
                spec.target = Some(PromotionTarget {
                    cluster: (cluster != "-").then_some(cluster),
                    cluster_namespace: None,
                    namespace: next(),
                });
            }
            word => match word.strip_prefix('#') {
                Some(ordinal) => spec.ordinal = ordinal.parse().unwrap(),
                None => status.phase = Some(phase(word)),
            },
        }
    }
    if !is_unread && spec.needs_approval && status.change.is_none() {
        let digest = "drawn".to_owned();
        for approval in &mut spec.approvals {
            approval.change_digest.get_or_insert(digest.clone());
        }
        status.change = Some(PromotionChange {
            digest,
            ..PromotionChange::default()
        });
    }
    let place = site_of(&spec, "default");
    let name = promotion_name("shop", &place, &spec.revision, spec.ordinal);
    let mut promotion = Promotion::new(&name, spec);
    // Later lines are younger.
    let age = format!("{}s", 3000 - world.promotions.len());
    promotion.metadata.creation_timestamp = Some(ago(&age));
    promotion.metadata.uid = Some(format!("{name}-uid"));
    let owner = world.pipeline.controller_owner_ref(&());
    promotion.metadata.owner_references = owner.map(|owner| vec![owner]);
    promotion.status = Some(status);
    promotion
}

pub(crate) fn phase(word: &str) -> Phase {
    serde_json::from_value(word.into()).unwrap()
}
