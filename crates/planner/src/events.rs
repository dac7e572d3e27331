//! Events of a pipeline: the differences between two of its statuses that people care about.

mod checks;
mod promotion;
mod rollout;

use std::collections::HashMap;

use api::{
    conditions,
    pipeline::{EnvironmentStatus, PipelineStatus, TargetStatus},
};

use crate::{
    gate::is_asked_of_promotion,
    hold::HoldReason,
    release::failure_message,
    site::{cluster_of_status, target_name},
};

pub use promotion::promotion_events;

/// An event of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineEvent {
    /// Whether it is a warning.
    pub is_warning: bool,
    /// A fixed reason.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// The environment it is about, if it is about one.
    pub environment: Option<String>,
    /// The revision it is about, if it is about one.
    pub revision: Option<String>,
}

/// The events between two statuses; none between equal ones.
pub fn pipeline_events(
    before: Option<&PipelineStatus>,
    after: &PipelineStatus,
) -> Vec<PipelineEvent> {
    let mut events: Vec<PipelineEvent> = readiness(before, after).into_iter().collect();
    for (name, environment) in &after.environments {
        let known = before.and_then(|before| before.environments.get(name));
        events.extend(held(name, known, environment));
        events.extend(overridden(name, known, environment));
        events.extend(checks::decided(name, known, environment));
        events.extend(rollout::moved(name, known, environment));
        events.extend(deployments(name, known, environment));
    }
    events
}

/// What the targets of an environment run now, or failed to.
fn deployments(
    environment: &str,
    known: Option<&EnvironmentStatus>,
    now: &EnvironmentStatus,
) -> Vec<PipelineEvent> {
    let known = known.map_or(&[][..], |known| &known.targets);
    let known: HashMap<TargetIdentity<'_>, &TargetStatus> =
        known.iter().map(|it| (identity(it), it)).collect();
    let targets = now.targets.iter();
    let events = targets.filter_map(|target| {
        let known = known.get(&identity(target)).copied();
        deployment(environment, &target_name(target), known, target)
    });
    events.collect()
}

/// The namespace and name of a cluster, if it is not the hub, and the namespace on it.
type TargetIdentity<'a> = (Option<(Option<&'a str>, &'a str)>, Option<&'a str>);

fn identity(target: &TargetStatus) -> TargetIdentity<'_> {
    let cluster = cluster_of_status(target);
    let cluster = cluster.map(|it| (it.namespace.as_deref(), it.name.as_str()));
    (cluster, target.namespace.as_deref())
}

/// An environment has begun to wait for something else than before. What an existing promotion waits for
/// is an event of that promotion.
fn held(
    environment: &str,
    known: Option<&EnvironmentStatus>,
    now: &EnvironmentStatus,
) -> Option<PipelineEvent> {
    let hold = now.hold.as_ref()?;
    let known = known.and_then(|known| known.hold.as_ref());
    let is_known = known.is_some_and(|known| known.reason == hold.reason);
    let mut reasons = HoldReason::ALL.iter();
    let reason = reasons.find(|reason| reason.word() == hold.reason)?;
    let is_silent = *reason == HoldReason::NotObserved || is_asked_of_promotion(*reason);
    (!is_known && !is_silent).then(|| PipelineEvent {
        is_warning: needs_attention(*reason),
        reason: hold.reason.clone(),
        message: format!("{environment}: {}", hold.message),
        environment: Some(environment.to_owned()),
        revision: None,
    })
}

/// Whether a hold stays until somebody edits or repairs something.
fn needs_attention(reason: HoldReason) -> bool {
    matches!(
        reason,
        HoldReason::InvalidSpec
            | HoldReason::InvalidSource
            | HoldReason::SourceUnreadable
            | HoldReason::NoTargetsMatch
            | HoldReason::AppMissing
            | HoldReason::TargetUnreachable
            | HoldReason::TargetsNotDistinguishable
            | HoldReason::ReportNotSigned
            | HoldReason::DigestDiffers
    )
}

/// A person has overridden a gate.
fn overridden(
    environment: &str,
    known: Option<&EnvironmentStatus>,
    now: &EnvironmentStatus,
) -> Option<PipelineEvent> {
    let newest = now.overrides.first()?;
    let is_known = known.is_some_and(|known| known.overrides.first() == Some(newest));
    let by = newest.by.as_deref().unwrap_or("somebody");
    (!is_known).then(|| PipelineEvent {
        is_warning: true,
        reason: "GateOverridden".to_owned(),
        message: format!(
            "{environment}: {by} overrides {} for {}: {}",
            newest.passes.join(", "),
            newest.promotion,
            newest.reason
        ),
        environment: Some(environment.to_owned()),
        revision: None,
    })
}

/// The `Ready` condition changed.
fn readiness(before: Option<&PipelineStatus>, after: &PipelineStatus) -> Option<PipelineEvent> {
    let now = conditions::find(&after.conditions, conditions::READY)?;
    let known = before.and_then(|before| conditions::find(&before.conditions, conditions::READY));
    let is_same = known.is_some_and(|known| {
        known.status == now.status && known.reason == now.reason && known.message == now.message
    });
    (!is_same).then(|| PipelineEvent {
        is_warning: now.status == "False",
        reason: now.reason.clone(),
        message: now.message.clone(),
        environment: None,
        revision: None,
    })
}

/// A target runs another revision, or failed to.
fn deployment(
    environment: &str,
    target_name: &str,
    known: Option<&TargetStatus>,
    now: &TargetStatus,
) -> Option<PipelineEvent> {
    let event = |reason: &str, message: String, is_warning, revision: &str| PipelineEvent {
        is_warning,
        reason: reason.to_owned(),
        message,
        environment: Some(environment.to_owned()),
        revision: Some(revision.to_owned()),
    };
    if let Some(failed) = &now.failed
        && known.and_then(|known| known.failed.as_ref()) != Some(failed)
    {
        let because = failure_message(now).map(|text| format!(": {text}"));
        let because = because.unwrap_or_default();
        let message = format!("{environment}: {failed} failed in {target_name}{because}");
        return Some(event("DeploymentFailed", message, true, failed));
    }
    let revision = now.revision.as_ref().filter(|_| now.ready)?;
    let is_known = known.is_some_and(|known| {
        known.revision.as_ref() == Some(revision) && known.ready_since.is_some()
    });
    let shown = now.shown_revision().unwrap_or_default();
    let message = format!("{environment}: {target_name} runs {shown}");
    (!is_known).then(|| event("Deployed", message, false, revision))
}

#[cfg(test)]
mod tests {
    use api::{
        Time,
        pipeline::{HoldStatus, StoredOverride},
    };

    use super::*;

    fn status(revision: &str, ready: bool, failed: Option<&str>) -> PipelineStatus {
        let target = TargetStatus {
            namespace: Some("x".to_owned()),
            ready,
            ready_since: ready.then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
            revision: Some(revision.to_owned()),
            failed: failed.map(str::to_owned),
            ..TargetStatus::default()
        };
        let environment = EnvironmentStatus {
            targets: vec![target],
            ..EnvironmentStatus::default()
        };
        PipelineStatus {
            environments: [("dev".to_owned(), environment)].into(),
            ..PipelineStatus::default()
        }
    }

    fn messages(before: Option<&PipelineStatus>, after: &PipelineStatus) -> Vec<String> {
        pipeline_events(before, after)
            .into_iter()
            .map(|event| event.message)
            .collect()
    }

    #[test]
    fn deployments_and_failures_are_reported_once() {
        let one = status("1.0.0", true, None);
        assert_eq!(messages(None, &one), ["dev: x runs 1.0.0"]);
        assert!(messages(Some(&one), &one).is_empty());
        let two = status("1.1.0", true, None);
        assert_eq!(messages(Some(&one), &two), ["dev: x runs 1.1.0"]);
        let failed = status("1.1.0", false, Some("1.2.0"));
        assert_eq!(messages(Some(&two), &failed), ["dev: 1.2.0 failed in x"]);
        assert!(messages(Some(&failed), &failed).is_empty());
        let mut failed = failed;
        let dev = failed.environments.get_mut("dev").unwrap();
        dev.targets[0].failed_because = Some("no such image".to_owned());
        let expected = "dev: 1.2.0 failed in x: no such image";
        assert_eq!(messages(Some(&two), &failed), [expected]);
    }

    #[test]
    fn targets_are_told_apart_by_cluster_and_namespace() {
        let target = |cluster: Option<(&str, &str)>, revision: &str| {
            let reference = cluster.map(|(namespace, name)| {
                serde_json::json!({"kind": "GitopsCluster", "name": name, "namespace": namespace})
            });
            let target = serde_json::json!({
                "clusterAppRef": {"clusterRef": reference}, "namespace": "x", "revision": revision,
                "ready": true, "readySince": "2026-11-01T10:00:00Z",
            });
            serde_json::from_value::<TargetStatus>(target).unwrap()
        };
        let all = |revisions: [&str; 3]| {
            let clusters = [None, Some(("one", "eu")), Some(("two", "eu"))];
            let targets = clusters.into_iter().zip(revisions);
            let mut status = status("-", true, None);
            let dev = status.environments.get_mut("dev").unwrap();
            dev.targets = targets.map(|(cluster, it)| target(cluster, it)).collect();
            status
        };
        let before = all(["1", "1", "1"]);
        for (now, expected) in [
            (["2", "1", "1"], "dev: x runs 2"),
            (["1", "2", "1"], "dev: eu/x runs 2"),
            (["1", "1", "2"], "dev: eu/x runs 2"),
        ] {
            assert_eq!(messages(Some(&before), &all(now)), [expected]);
        }
        let different = all(["1", "2", "3"]);
        assert_eq!(messages(Some(&different), &different), [""; 0]);
    }

    #[test]
    fn a_hold_is_reported_once() {
        let held = |reason: &str| {
            let mut status = status("1.0.0", true, None);
            let dev = status.environments.get_mut("dev").unwrap();
            dev.hold = Some(HoldStatus {
                reason: reason.to_owned(),
                message: "sign it".to_owned(),
                ..HoldStatus::default()
            });
            status
        };
        let unsigned = held("ReportNotSigned");
        let soaking = held("Soaking");
        assert_eq!(messages(Some(&soaking), &unsigned), ["dev: sign it"]);
        assert!(messages(Some(&unsigned), &unsigned).is_empty());
        assert_eq!(messages(Some(&unsigned), &soaking), ["dev: sign it"]);
        let warns = |status: &PipelineStatus| pipeline_events(None, status)[0].is_warning;
        assert!(warns(&unsigned) && !warns(&soaking));
        // The promotion that waits tells of these.
        for reason in ["AwaitingApproval", "Frozen", "NotObserved"] {
            assert!(
                messages(Some(&soaking), &held(reason)).is_empty(),
                "{reason}"
            );
        }
    }

    #[test]
    fn an_override_is_reported_once() {
        let overridden = |requests: &[(&str, Option<&str>)]| {
            let mut status = status("1.0.0", true, None);
            let stored = requests.iter().map(|(request, by)| StoredOverride {
                request: (*request).to_owned(),
                promotion: "shop-dev".to_owned(),
                by: by.map(str::to_owned),
                passes: vec!["freeze/a".to_owned(), "check/b".to_owned()],
                reason: "outage".to_owned(),
                ..StoredOverride::default()
            });
            let dev = status.environments.get_mut("dev").unwrap();
            dev.overrides = stored.collect();
            status
        };
        let (none, one) = (overridden(&[]), overridden(&[("1", Some("ann"))]));
        let two = overridden(&[("2", None), ("1", Some("ann"))]);
        let by_ann = "dev: ann overrides freeze/a, check/b for shop-dev: outage";
        let by_somebody = "dev: somebody overrides freeze/a, check/b for shop-dev: outage";
        assert_eq!(messages(Some(&none), &one), [by_ann]);
        assert_eq!(messages(Some(&one), &two), [by_somebody]);
        assert!(messages(Some(&one), &one).is_empty());
        assert!(pipeline_events(Some(&none), &one)[0].is_warning);
    }

    #[test]
    fn every_change_of_ready_is_reported() {
        let ready = |value: &str, reason: &str, message: &str| {
            let condition = serde_json::json!({
                "type": "Ready", "status": value, "reason": reason, "message": message,
                "lastTransitionTime": "2026-11-01T10:00:00Z",
            });
            PipelineStatus {
                conditions: vec![serde_json::from_value(condition).unwrap()],
                ..PipelineStatus::default()
            }
        };
        let before = ready("True", "Succeeded", "all is well");
        for (status, reason, message, is_reported) in [
            ("True", "Succeeded", "all is well", false),
            ("False", "Succeeded", "all is well", true),
            ("True", "Other", "all is well", true),
            ("True", "Succeeded", "still well", true),
        ] {
            let after = ready(status, reason, message);
            let events = pipeline_events(Some(&before), &after);
            let found: Vec<_> = events
                .iter()
                .map(|it| (it.is_warning, it.message.as_str()))
                .collect();
            let expected = (status == "False", message);
            assert_eq!(
                found,
                is_reported
                    .then_some(expected)
                    .into_iter()
                    .collect::<Vec<_>>()
            );
        }
        assert_eq!(messages(None, &before), ["all is well"]);
    }
}
