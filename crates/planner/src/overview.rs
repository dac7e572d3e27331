//! One line about a pipeline, as `kubectl get pipelines` shows it.

use api::{
    Pipeline,
    names::RECONCILE_ANNOTATION,
    pipeline::{Environment, EnvironmentStatus, PipelineStatus, TargetStatus},
};

use crate::{
    check_definition::is_about_checks,
    gate::{approvals::is_unapprovable, freeze::frozen_now},
    hold::HoldReason,
    release::release,
    sources::{environment_columns, is_chain},
    summary::{PipelineSummary, pipeline_summary},
    time::Timestamp,
};

/// How many characters of the state and of what runs are stored.
const MAX_STATE: usize = 300;
const MAX_RUNS: usize = 1000;
/// How many digits of a digest or a commit are shown.
const SHORT: usize = 12;

/// The status with its state and what each environment runs in words, and with the reconcile request
/// that has been handled.
pub fn summarised(pipeline: &Pipeline, mut status: PipelineStatus) -> PipelineStatus {
    status.state = Some(cut(state_text(pipeline, &status), MAX_STATE));
    status.runs = Some(cut(shortened(&runs_text(pipeline, &status)), MAX_RUNS));
    let annotations = pipeline.metadata.annotations.as_ref();
    let requested = annotations.and_then(|it| it.get(RECONCILE_ANNOTATION));
    status.last_handled_reconcile_at = requested.map(|it| cut(it.clone(), 256));
    status
}

/// `prod awaiting approval`, or `ready`.
pub fn state_text(pipeline: &Pipeline, status: &PipelineStatus) -> String {
    if pipeline.spec.environments.is_empty() {
        return "no environments".to_owned();
    }
    let PipelineSummary { state, environment } = pipeline_summary(pipeline, status);
    match environment {
        Some(environment) => format!("{environment} {}", state.word()),
        None => state.word().to_owned(),
    }
}

/// `dev 1.1.0 > prod 1.0.0`; environments beside each other as `dev 1.2.0 > eu 1.1.0, us 1.1.0 > prod 1.0.0`.
pub fn runs_text(pipeline: &Pipeline, status: &PipelineStatus) -> String {
    let text = |environment: &Environment| {
        let name = &environment.name;
        let runs = running_revisions(status.environments.get(name));
        format!("{name} {runs}")
    };
    let spec = &pipeline.spec;
    let steps: Vec<String> = match is_chain(spec) {
        true => spec.environments.iter().map(text).collect(),
        false => {
            let columns = environment_columns(spec).into_iter();
            let columns = columns.map(|it| it.into_iter().map(text).collect::<Vec<_>>());
            columns.map(|it| it.join(", ")).collect()
        }
    };
    steps.join(" > ")
}

/// Why an environment waits, also where nobody can approve, and, where that does not say so, that it is frozen;
/// nothing where neither is so.
pub fn hold_text(model: &PipelineStatus, environment: &str, now: Timestamp) -> Option<String> {
    let status = model.environments.get(environment);
    let hold = status.and_then(|it| it.hold.as_ref());
    let is_told = hold.is_some_and(|it| it.reason == HoldReason::Frozen.word());
    let frozen = frozen_now(model, environment, now).filter(|_| !is_told);
    let unapprovable = || {
        let promotion = status?.promotion.as_ref()?;
        let message = promotion.message.as_deref();
        message.filter(|_| is_unapprovable(promotion.phase, message))
    };
    let held = hold.map(|it| it.message.as_str()).or_else(unapprovable);
    let texts = [frozen, held.map(str::to_owned)];
    let texts: Vec<_> = texts.into_iter().flatten().collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// What would keep the next promotion into an environment, or its checks, from succeeding, as the preflight check
/// found; nothing where people are `told` already.
pub fn preflight_text(model: &PipelineStatus, environment: &str, told: &str) -> Option<String> {
    let problem = model.preflight.get(environment)?;
    let (message, reason) = (&problem.message, &problem.reason);
    let is_told = told.contains(message);
    // A check that cannot be measured does not fail, but holds what comes after it.
    let effect = match is_about_checks(problem) {
        true => "",
        false => "a promotion would fail: ",
    };
    (!is_told).then(|| format!("{effect}{message} [{reason}]"))
}

/// The revisions that the targets of an environment run, with failed releases; `-` where none is known.
pub fn running_revisions(status: Option<&EnvironmentStatus>) -> String {
    let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
    let mut revisions: Vec<String> = targets.iter().flat_map(revisions).collect();
    revisions.sort_unstable();
    revisions.dedup();
    match revisions.as_slice() {
        [] => "-".to_owned(),
        several => several.join(" + "),
    }
}

/// The revisions of a target: apps that are selected by label may have different ones.
fn revisions(target: &TargetStatus) -> Vec<String> {
    let apps = target.apps.iter();
    let mut each: Vec<_> = match release(target) {
        Some(release) => vec![release],
        None => apps.filter_map(|app| app.revision.clone()).collect(),
    };
    if each.is_empty() {
        each.push("-".to_owned());
    }
    each
}

/// The text with digests and commits cut to their first digits.
pub fn shortened(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    let mut word = String::new();
    for c in text.chars().map(Some).chain([None]) {
        match c {
            Some(c) if c.is_ascii_alphanumeric() => word.push(c),
            other => {
                let is_hash = word.len() >= 40 && word.chars().all(|c| c.is_ascii_hexdigit());
                short.push_str(if is_hash { &word[..SHORT] } else { &word });
                word.clear();
                short.extend(other);
            }
        }
    }
    short
}

fn cut(text: String, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use api::pipeline::AppStatus;

    use super::*;

    #[test]
    fn apps_with_revisions_of_their_own_are_all_named() {
        let app = |revision: &str| AppStatus {
            revision: Some(revision.to_owned()),
            ..AppStatus::default()
        };
        let target = TargetStatus {
            apps: vec![app("6.1.0"), app("7")],
            ..TargetStatus::default()
        };
        let environment = |targets| EnvironmentStatus {
            targets,
            ..EnvironmentStatus::default()
        };
        assert_eq!(
            running_revisions(Some(&environment(vec![target]))),
            "6.1.0 + 7"
        );
        let nothing = environment(vec![TargetStatus::default()]);
        assert_eq!(running_revisions(Some(&nothing)), "-");
    }

    #[test]
    fn digests_and_commits_are_shortened_and_nothing_else() {
        let digest = "0123456789abcdef".repeat(4);
        let text = format!(
            "dev 1.2.0@sha256:{digest} > prod main@sha1:{}",
            &digest[..40]
        );
        assert_eq!(
            shortened(&text),
            "dev 1.2.0@sha256:0123456789ab > prod main@sha1:0123456789ab"
        );
        assert_eq!(shortened("6.1.0-rc.1"), "6.1.0-rc.1");
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(cut("ääää".to_owned(), 2), "ää…");
        assert_eq!(cut("ää".to_owned(), 2), "ää");
    }
}
