//! The lines that `sluice watch` prints for watch events: only what changed.

use std::collections::BTreeMap;

use api::{Pipeline, Promotion, pipeline::PipelineStatus, promotion::Phase};
use kube::ResourceExt;

use planner::{PipelineEvent, running_revisions};

use super::super::cluster::key;

/// The last state of each pipeline and promotion.
#[derive(Default)]
pub(super) struct PipelineUpdates {
    pipelines: BTreeMap<String, Pipeline>,
    phases: BTreeMap<String, Option<Phase>>,
    /// Only this environment.
    only: Option<String>,
}

impl PipelineUpdates {
    /// Those of one environment, if one is named.
    pub(super) fn of(only: Option<&str>) -> Self {
        Self {
            only: only.map(str::to_owned),
            ..Self::default()
        }
    }

    /// Whether there was no event yet.
    pub(super) fn is_empty(&self) -> bool {
        self.pipelines.is_empty() && self.phases.is_empty()
    }

    /// The whole state at the first event, then the changes.
    pub(super) fn pipeline(&mut self, now: Pipeline) -> Vec<String> {
        let (namespace, name) = key(&now);
        let name = format!("{namespace}/{name}");
        let texts = match self.pipelines.get(&name) {
            None => vec![current_state(&now, self.only.as_deref())],
            Some(before) => changes(before, &now, self.only.as_deref()),
        };
        let lines = texts.into_iter().map(|text| format!("{name}  {text}"));
        let lines = lines.collect();
        self.pipelines.insert(name, now);
        lines
    }

    /// A line for each change of phase. Promotions that had ended before the first event are skipped.
    pub(super) fn promotion(&mut self, promotion: &Promotion) -> Vec<String> {
        let status = promotion.status.clone().unwrap_or_default();
        let uid = promotion.uid().unwrap_or_else(|| promotion.name_any());
        let before = self.phases.insert(uid, status.phase);
        let was_finished = before.is_none() && status.phase.is_some_and(Phase::is_terminal);
        let spec = &promotion.spec;
        let is_other = !is_meant(&spec.environment, self.only.as_deref());
        if before == Some(status.phase) || was_finished || is_other {
            return Vec::new();
        }
        let namespace = promotion.namespace().unwrap_or_default();
        let phase = status
            .phase
            .map_or("Pending".to_owned(), |phase| format!("{phase:?}"));
        let site = planner::site_of(spec, &namespace).key();
        let text = format!("{site}: promotion of {}: {phase}", spec.shown_revision());
        let message = status.message.map(|it| format!(": {it}"));
        let url = status.url.map(|it| format!(" {it}"));
        let remarks: String = message.into_iter().chain(url).collect();
        vec![format!("{namespace}/{}  {text}{remarks}", spec.pipeline)]
    }
}

fn is_meant(environment: &str, only: Option<&str>) -> bool {
    only.is_none_or(|only| only == environment)
}

fn current_state(pipeline: &Pipeline, only: Option<&str>) -> String {
    let nothing = PipelineStatus::default();
    let status = pipeline.status.as_ref().unwrap_or(&nothing);
    let names = pipeline.spec.environments.iter().map(|it| it.name.as_str());
    let all = names.filter(|name| is_meant(name, only)).map(|name| {
        let state = planner::environment_state(pipeline, status, name).word();
        format!(
            "{name} {} ({state})",
            running_revisions(status.environments.get(name))
        )
    });
    all.collect::<Vec<_>>().join(" > ")
}

fn changes(before: &Pipeline, now: &Pipeline, only: Option<&str>) -> Vec<String> {
    let nothing = PipelineStatus::default();
    let previous = before.status.as_ref();
    let status = now.status.as_ref().unwrap_or(&nothing);
    let events = planner::pipeline_events(previous, status);
    // Holds are events, too; below they have their reason.
    let is_hold = |message: &str| {
        let mut environments = status.environments.iter();
        environments.any(|(name, environment)| {
            let hold = environment.hold.as_ref();
            hold.is_some_and(|hold| message == format!("{name}: {}", hold.message))
        })
    };
    // What is about no environment is about each.
    let is_told = |it: &PipelineEvent| {
        it.environment
            .as_deref()
            .is_none_or(|it| is_meant(it, only))
    };
    let messages = events.into_iter().filter(is_told).map(|it| it.message);
    let mut texts: Vec<String> = messages.filter(|it| !is_hold(it)).collect();
    if before.spec.suspend != now.spec.suspend {
        texts.push(match now.spec.suspend {
            true => "suspended".to_owned(),
            false => "resumed".to_owned(),
        });
    }
    let shown = status.environments.iter();
    for (name, environment) in shown.filter(|(name, _)| is_meant(name, only)) {
        let before = previous.and_then(|previous| previous.environments.get(name));
        let hold_before = before.and_then(|before| before.hold.as_ref());
        match &environment.hold {
            Some(hold) if hold_before.map(|it| &it.message) != Some(&hold.message) => {
                let label = planner::hold_label(&hold.reason);
                texts.push(format!(
                    "{name}: {label}: {} [{}]",
                    hold.message, hold.reason
                ));
            }
            None if hold_before.is_some() => texts.push(format!("{name}: no longer waits")),
            _ => {}
        }
    }
    texts
}
