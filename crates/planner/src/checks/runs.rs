//! Which CheckRuns there should be: started where one is missing, deleted where nothing needs it.

use std::collections::BTreeSet;

use api::{
    CheckRun, Pipeline, Promotion,
    check_run::{CheckCause, CheckRunSpec, CheckVerdict},
    names::{ENVIRONMENT_LABEL, PIPELINE_LABEL, check_run_name, label_value},
    pipeline::{
        Check, CheckStatus, Environment, EnvironmentStatus, PipelineSpec, PipelineStatus, When,
    },
};
use kube::Resource;

use crate::{
    checks::runs_somewhere,
    conditions::cut,
    plan::{CandidateSource, PlanInput, SourceVotes, Step, default_when},
    promotion_phase::{is_unmerged, is_verifying, phase_of},
    sources::sources,
    time::Timestamp,
};

/// The longest message of a check in the status, in bytes.
const LONGEST: usize = 300;
/// How many checks of one environment the status holds at most.
const STORED: usize = 64;
/// Of how many rejected revisions, the newest of an environment, the failed CheckRuns stay.
const EXPLAINED_REJECTIONS: usize = 2;

/// The status with the checks as the CheckRuns of the pipeline have them.
pub fn fold_checks(
    pipeline: &Pipeline,
    runs: &[CheckRun],
    mut model: PipelineStatus,
) -> PipelineStatus {
    for environment in &pipeline.spec.environments {
        let Some(status) = model.environments.get_mut(&environment.name) else {
            continue;
        };
        let here = runs.iter().filter(|run| {
            run.spec.environment == environment.name
                && counts(pipeline, run)
                && is_newest(run, runs, pipeline)
        });
        let mut checks: Vec<_> = here.map(stored_status).collect();
        checks.sort_by(|one, other| order(one).cmp(&order(other)));
        checks.truncate(STORED);
        status.checks = checks;
    }
    model
}

fn order(check: &CheckStatus) -> (CheckCause, &str, &str) {
    (check.cause, &check.revision, &check.check)
}

fn stored_status(run: &CheckRun) -> CheckStatus {
    let status = run.status.clone().unwrap_or_default();
    CheckStatus {
        run: run.metadata.name.clone().unwrap_or_default(),
        check: run.spec.check.name.clone(),
        cause: run.spec.cause,
        revision: run.spec.revision.clone(),
        attempt: run.spec.attempt,
        verdict: status.verdict,
        reason: status.reason,
        message: status.message.map(|text| cut(&text, LONGEST)),
        at: status.decided_at,
        url: status.url,
    }
}

/// Whether a CheckRun is one that this pipeline made for a check that it still has.
fn counts(pipeline: &Pipeline, run: &CheckRun) -> bool {
    let spec = &run.spec;
    let name = check_run_name(spec);
    let owners = run.metadata.owner_references.iter().flatten();
    let mut owners = owners.map(|owner| &owner.uid);
    let is_owned = owners.any(|uid| Some(uid) == pipeline.metadata.uid.as_ref());
    let names = required_names(&pipeline.spec, &spec.environment, spec.cause);
    is_owned
        && run.metadata.name.as_ref() == Some(&name)
        && run.metadata.deletion_timestamp.is_none()
        && names.contains(&spec.check.name)
        && pipeline.spec.check(&spec.check.name) == Some(&spec.check)
}

fn is_newest(run: &CheckRun, runs: &[CheckRun], pipeline: &Pipeline) -> bool {
    let what = |run: &CheckRun| {
        let spec = &run.spec;
        let check = (spec.environment.clone(), spec.check.name.clone());
        (check, spec.cause, spec.revision.clone())
    };
    let is_later = |other: &CheckRun| {
        other.spec.attempt > run.spec.attempt && what(other) == what(run) && counts(pipeline, other)
    };
    !runs.iter().any(is_later)
}

/// The names of the checks that an environment asks for.
fn required_names<'a>(
    spec: &'a PipelineSpec,
    environment: &str,
    cause: CheckCause,
) -> &'a [String] {
    match cause {
        CheckCause::Verify => spec.verify_checks(environment),
        CheckCause::Promotion => {
            let settings = spec.promotion_into(environment);
            settings.map(|it| it.checks.as_slice()).unwrap_or_default()
        }
    }
}

/// Starts the checks of an environment that have no CheckRun: those of a revision that has arrived, and
/// those of a promotion before it enters, as it is after the planned steps.
pub(crate) fn missing(
    input: &PlanInput<'_>,
    environment: &Environment,
    planned: &[Step],
) -> Vec<Step> {
    let mut arrived = arrived(input, environment);
    let is_new = |it: &(String, String)| !arrived.contains(it);
    let rolled_out: Vec<_> = rolled_out(input, environment).filter(is_new).collect();
    arrived.extend(rolled_out);
    let entering = entering(input, environment, planned);
    let arrived = arrived.into_iter().map(|it| (CheckCause::Verify, it));
    let entering = entering.into_iter().map(|it| (CheckCause::Promotion, it));
    let mut steps = Vec::new();
    for (cause, revision) in arrived.chain(entering) {
        for check in checks(input.spec, &environment.name, cause) {
            let known = input.status(&environment.name);
            let known = known.map(|it| it.checks.as_slice()).unwrap_or_default();
            let is_it = |it: &CheckStatus| {
                it.cause == cause && it.check == check.name && it.revision == revision.0
            };
            if !known.iter().any(is_it) {
                steps.push(start(input, environment, (check, cause), &revision, 0));
            }
        }
    }
    steps
}

/// The checks that an environment asks for.
fn checks<'a>(
    spec: &'a PipelineSpec,
    environment: &str,
    cause: CheckCause,
) -> impl Iterator<Item = &'a Check> {
    let names = required_names(spec, environment, cause).iter();
    names.filter_map(|name| spec.check(name))
}

/// Starts one attempt of a check.
pub(super) fn start(
    input: &PlanInput<'_>,
    environment: &Environment,
    (check, cause): (&Check, CheckCause),
    (revision, version): &(String, String),
    attempt: i64,
) -> Step {
    let spec = CheckRunSpec {
        pipeline: input.name().to_owned(),
        environment: environment.name.clone(),
        check: check.clone(),
        revision: revision.clone(),
        version: version.clone(),
        attempt,
        cause,
        result: None,
    };
    let mut run = CheckRun::new(&check_run_name(&spec), spec);
    let metadata = &mut run.metadata;
    metadata
        .namespace
        .clone_from(&input.pipeline.metadata.namespace);
    let labels = [
        (PIPELINE_LABEL, input.name()),
        (ENVIRONMENT_LABEL, &environment.name),
    ];
    let labels = labels.map(|(label, text)| (label.to_owned(), label_value(text)));
    metadata.labels = Some(labels.into());
    let owner = input.pipeline.controller_owner_ref(&());
    metadata.owner_references = owner.map(|owner| vec![owner]);
    Step::StartCheckRun(Box::new(run))
}

/// The revisions that an environment is ready at, each with what people read of it. Whether one target is
/// enough is up to the environments after it.
fn arrived(input: &PlanInput<'_>, environment: &Environment) -> Vec<(String, String)> {
    let targets = input.targets(&environment.name);
    let mut ready: Vec<(String, String)> = Vec::new();
    for target in targets.iter().filter(|target| target.ready) {
        let Some(revision) = &target.revision else {
            continue;
        };
        let version = target.version.as_ref().unwrap_or(revision).clone();
        if ready.iter().all(|(known, _)| known != revision) {
            ready.push((revision.clone(), version));
        }
    }
    match when_of_followers(input, environment) {
        When::AllTargetsReady => {
            let is_whole = ready.len() == 1 && targets.iter().all(|target| target.ready);
            ready.retain(|_| is_whole);
        }
        When::AnyTargetReady => {
            let status = input.status(&environment.name);
            let reported = status.and_then(|status| status.reported.as_ref());
            let reported = reported.map(|it| (it.revision.clone(), it.revision.clone()));
            let is_new = |it: &(String, String)| ready.iter().all(|known| known.0 != it.0);
            ready.extend(reported.filter(is_new));
        }
    }
    ready
}

/// Whether all targets of an environment must be ready for one that comes after it; one is enough as soon as
/// it is for any of these.
fn when_of_followers(input: &PlanInput<'_>, environment: &Environment) -> When {
    let comes_after = |it: &&Environment| {
        let sources = sources(input.spec, &it.name);
        sources.iter().any(|it| it.name == environment.name)
    };
    let followers = input.spec.environments.iter().filter(comes_after);
    let settings = followers.map(|it| input.spec.promotion_into(&it.name));
    let default = default_when(input.targets(&environment.name));
    let all: Vec<When> = settings
        .map(|it| it.and_then(|settings| settings.when).unwrap_or(default))
        .collect();
    match all.contains(&When::AnyTargetReady) || all.is_empty() && default == When::AnyTargetReady {
        true => When::AnyTargetReady,
        false => When::AllTargetsReady,
    }
}

/// The revisions whose rollout has ended, also where it left targets out.
fn rolled_out<'a>(
    input: &'a PlanInput<'_>,
    environment: &'a Environment,
) -> impl Iterator<Item = (String, String)> {
    let here = input.promotions.iter().copied();
    let here = here.filter(|it| it.spec.environment == environment.name && is_verifying(it));
    let here = here.filter(|it| it.spec.rollout.is_some());
    here.map(|it| (it.spec.revision.clone(), it.spec.version.clone()))
}

/// The revisions whose promotion exists or is about to, and has not come into git yet.
fn entering(
    input: &PlanInput<'_>,
    environment: &Environment,
    planned: &[Step],
) -> Vec<(String, String)> {
    let is_ending = |promotion: &Promotion| {
        planned.iter().any(|step| match step {
            Step::SupersedePromotion { name, .. } | Step::WithdrawPromotion { name, .. } => {
                Some(name) == promotion.metadata.name.as_ref()
            }
            _ => false,
        })
    };
    let started = planned.iter().filter_map(|step| match step {
        Step::StartPromotion(promotion) => Some(&**promotion),
        _ => None,
    });
    let here = input.promotions.iter().copied();
    let here = here.filter(|it| is_unmerged(it) && !is_ending(it));
    // A derived rollback is not checked before it enters.
    let here = here
        .chain(started)
        .filter(|it| it.spec.environment == environment.name && it.spec.cause.is_none());
    let mut known = BTreeSet::new();
    let revisions = here.map(|it| (it.spec.revision.clone(), it.spec.version.clone()));
    revisions
        .filter(|(revision, _)| known.insert(revision.clone()))
        .collect()
}

/// Deletes the CheckRuns that are neither for what runs nor for what is to enter after the planned steps,
/// earlier attempts, and those that do not count. What failed stays for as long as it is why a revision is
/// rejected.
pub fn surplus_checks(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    (promotions, planned): (&[Promotion], &[Step]),
    runs: &[CheckRun],
) -> Vec<Step> {
    let starting = planned.iter().filter_map(|step| match step {
        Step::StartPromotion(promotion) => Some(&**promotion),
        _ => None,
    });
    let promotions: Vec<&Promotion> = promotions.iter().chain(starting).collect();
    let is_needed = |run: &&CheckRun| {
        let spec = &run.spec;
        let status = model.environments.get(&spec.environment);
        let is_promoted = promotions.iter().any(|it| is_under_way(it, spec));
        let is_for_promotion = spec.cause == CheckCause::Promotion && is_promoted;
        let explains = |it| !is_promoted && explains_rejection(it, run);
        counts(pipeline, run)
            && is_newest(run, runs, pipeline)
            && (is_for_promotion
                || status.is_some_and(|it| runs_somewhere(it, &spec.revision) || explains(it)))
    };
    let surplus = runs.iter().filter(|run| !is_needed(run));
    surplus
        .filter(|run| run.metadata.deletion_timestamp.is_none())
        .map(|run| Step::RemoveCheckRun {
            name: run.metadata.name.clone().unwrap_or_default(),
        })
        .collect()
}

/// Whether the environment rejected the revision, which had failed this check there.
fn explains_rejection(status: &EnvironmentStatus, run: &CheckRun) -> bool {
    let mut rejected = status.rejected.iter().take(EXPLAINED_REJECTIONS);
    let verdict = run.status.as_ref().map(|it| it.verdict);
    run.spec.cause == CheckCause::Verify
        && verdict == Some(CheckVerdict::Failed)
        && rejected.any(|it| *it == run.spec.revision)
}

fn is_under_way(promotion: &Promotion, spec: &CheckRunSpec) -> bool {
    let is_over = phase_of(promotion).is_some_and(|phase| phase.is_terminal());
    let it = &promotion.spec;
    let is_same = it.environment == spec.environment && it.revision == spec.revision;
    it.pipeline == spec.pipeline && is_same && !is_over
}

/// Whether a check that has passed is measured again: it has an `interval`, and the revision still soaks
/// for an environment that comes after.
pub fn measures_on(pipeline: &Pipeline, run: &CheckRun, now: Timestamp) -> bool {
    let spec = &run.spec;
    if spec.cause != CheckCause::Verify || spec.check.interval.is_none() || !counts(pipeline, run) {
        return false;
    }
    let nothing = PipelineStatus::default();
    let model = pipeline.status.as_ref().unwrap_or(&nothing);
    let input = PlanInput::new(pipeline, model, &[], now);
    let environments = pipeline.spec.environments.iter();
    let mut sources = environments.filter_map(|environment| {
        let settings = input.settings(&environment.name)?;
        let source = CandidateSource::new(&input, environment, settings, &|_| false);
        Some(source)
    });
    let is_soaking = |votes: &SourceVotes<'_>| {
        votes.source.name == spec.environment && votes.is_soaking(&spec.revision)
    };
    sources.any(|source| match source {
        CandidateSource::Environment(votes) => is_soaking(&votes),
        CandidateSource::Environments(sources) => sources.all.iter().any(is_soaking),
        CandidateSource::Nothing | CandidateSource::Proposal { .. } => false,
    })
}
