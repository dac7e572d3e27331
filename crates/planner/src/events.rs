//! What is worth an event: the differences between two states of a pipeline that people care about.

use api::{
    conditions,
    pipeline::{EnvironmentStatus, PipelineStatus, TargetStatus},
};

use crate::{hold::HoldReason, release::failure_message, site::target_name};

/// Something that happened to a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineEvent {
    /// Whether it is bad.
    pub is_warning: bool,
    /// A fixed word.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// The environment it is about, if it is about one.
    pub environment: Option<String>,
    /// The revision it is about, if it is about one.
    pub revision: Option<String>,
}

/// What happened between two states. Nothing happened between equal ones.
pub fn pipeline_events(
    before: Option<&PipelineStatus>,
    after: &PipelineStatus,
) -> Vec<PipelineEvent> {
    let mut news: Vec<PipelineEvent> = readiness(before, after).into_iter().collect();
    for (name, environment) in &after.environments {
        let known = before.and_then(|before| before.environments.get(name));
        news.extend(not_signed(name, known, environment));
        for target in &environment.targets {
            let place = target_name(target);
            let known = known.and_then(|known| {
                known
                    .targets
                    .iter()
                    .find(|known| target_name(known) == place)
            });
            news.extend(arrival(name, &place, known, target));
        }
    }
    news
}

/// Something waits for a signature that it did not wait for before.
fn not_signed(
    environment: &str,
    known: Option<&EnvironmentStatus>,
    now: &EnvironmentStatus,
) -> Option<PipelineEvent> {
    let hold = now.hold.as_ref()?;
    let is_known = known.and_then(|known| known.hold.as_ref()) == Some(hold);
    let is_unsigned = hold.reason == HoldReason::ReportNotSigned.word();
    (is_unsigned && !is_known).then(|| PipelineEvent {
        is_warning: true,
        reason: hold.reason.clone(),
        message: format!("{environment}: {}", hold.message),
        environment: Some(environment.to_owned()),
        revision: None,
    })
}

/// The pipeline became readable, or stopped being so.
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

/// A target came to run another revision, or failed to.
fn arrival(
    environment: &str,
    place: &str,
    known: Option<&TargetStatus>,
    now: &TargetStatus,
) -> Option<PipelineEvent> {
    let told = |reason: &str, message: String, is_warning, revision: &str| PipelineEvent {
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
        let message = format!("{environment}: {failed} failed in {place}{because}");
        return Some(told("DeploymentFailed", message, true, failed));
    }
    let revision = now.revision.as_ref().filter(|_| now.ready)?;
    let is_known = known.is_some_and(|known| {
        known.revision.as_ref() == Some(revision) && known.ready_since.is_some()
    });
    let shown = now.shown_revision().unwrap_or_default();
    let message = format!("{environment}: {place} runs {shown}");
    (!is_known).then(|| told("Deployed", message, false, revision))
}

#[cfg(test)]
mod tests {
    use api::{Time, pipeline::HoldStatus};

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

    fn told(before: Option<&PipelineStatus>, after: &PipelineStatus) -> Vec<String> {
        pipeline_events(before, after)
            .into_iter()
            .map(|news| news.message)
            .collect()
    }

    #[test]
    fn arrivals_and_failures_are_told_once() {
        let one = status("1.0.0", true, None);
        assert_eq!(told(None, &one), ["dev: x runs 1.0.0"]);
        assert!(told(Some(&one), &one).is_empty());
        let two = status("1.1.0", true, None);
        assert_eq!(told(Some(&one), &two), ["dev: x runs 1.1.0"]);
        let failed = status("1.1.0", false, Some("1.2.0"));
        assert_eq!(told(Some(&two), &failed), ["dev: 1.2.0 failed in x"]);
        assert!(told(Some(&failed), &failed).is_empty());
        let mut failed = failed;
        let dev = failed.environments.get_mut("dev").unwrap();
        dev.targets[0].failed_because = Some("no such image".to_owned());
        let expected = "dev: 1.2.0 failed in x: no such image";
        assert_eq!(told(Some(&two), &failed), [expected]);
    }

    #[test]
    fn a_missing_signature_is_told_once() {
        let held = |reason: &str| {
            let mut status = status("1.0.0", true, None);
            let dev = status.environments.get_mut("dev").unwrap();
            dev.hold = Some(HoldStatus {
                reason: reason.to_owned(),
                message: "sign it".to_owned(),
                opens_at: None,
            });
            status
        };
        let unsigned = held("ReportNotSigned");
        let soaking = held("Soaking");
        assert_eq!(told(Some(&soaking), &unsigned), ["dev: sign it"]);
        assert!(told(Some(&unsigned), &unsigned).is_empty());
        assert!(told(Some(&unsigned), &soaking).is_empty());
    }
}
