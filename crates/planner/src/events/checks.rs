//! Events of checks: one when a check passed, failed or could not be measured.

use api::{
    check_run::{CheckCause, CheckVerdict},
    pipeline::{CheckStatus, EnvironmentStatus},
};

use super::PipelineEvent;

/// The checks of an environment that got another verdict.
pub(super) fn decided(
    environment: &str,
    known: Option<&EnvironmentStatus>,
    now: &EnvironmentStatus,
) -> Vec<PipelineEvent> {
    let is_new = |check: &&CheckStatus| {
        let mut known = known.into_iter().flat_map(|it| &it.checks);
        !known.any(|it| it.run == check.run && it.verdict == check.verdict)
    };
    let new = now.checks.iter().filter(is_new);
    new.filter_map(|check| event(environment, check)).collect()
}

fn event(environment: &str, check: &CheckStatus) -> Option<PipelineEvent> {
    let (reason, verb) = match check.verdict {
        CheckVerdict::Pending | CheckVerdict::Running => return None,
        CheckVerdict::Passed => ("CheckPassed", "passed"),
        CheckVerdict::Failed => ("CheckFailed", "failed"),
        CheckVerdict::Error => ("CheckNotMeasured", "could not be measured"),
    };
    let before = match check.cause {
        CheckCause::Promotion => " before it enters",
        CheckCause::Verify => "",
    };
    let because = check.message.as_ref().map(|text| format!(": {text}"));
    Some(PipelineEvent {
        is_warning: check.verdict != CheckVerdict::Passed,
        reason: reason.to_owned(),
        message: format!(
            "{environment}: the check {} of {} {verb}{before}{}",
            check.check,
            check.revision,
            because.unwrap_or_default()
        ),
        environment: Some(environment.to_owned()),
        revision: Some(check.revision.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_reported_once() {
        let with = |verdict: CheckVerdict| EnvironmentStatus {
            checks: vec![CheckStatus {
                run: "shop-smoke-1".to_owned(),
                check: "smoke".to_owned(),
                revision: "1.0.0".to_owned(),
                verdict,
                ..CheckStatus::default()
            }],
            ..EnvironmentStatus::default()
        };
        let messages = |before: Option<&EnvironmentStatus>, after: &EnvironmentStatus| {
            let events = decided("dev", before, after).into_iter();
            events.map(|it| it.message).collect::<Vec<_>>()
        };
        let (running, failed) = (with(CheckVerdict::Running), with(CheckVerdict::Failed));
        assert!(messages(None, &running).is_empty());
        let expected = "dev: the check smoke of 1.0.0 failed";
        assert_eq!(messages(Some(&running), &failed), [expected]);
        assert!(messages(Some(&failed), &failed).is_empty());
        let warns = |verdict| decided("dev", None, &with(verdict))[0].is_warning;
        assert!(warns(CheckVerdict::Failed) && warns(CheckVerdict::Error));
        assert!(!warns(CheckVerdict::Passed));
    }
}
