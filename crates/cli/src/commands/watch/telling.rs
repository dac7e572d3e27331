//! What to say about each thing seen: only what is new, in the planner's words where it has some.

use std::collections::BTreeMap;

use api::{Pipeline, Promotion, pipeline::PipelineStatus, promotion::Phase};
use kube::ResourceExt;

use super::super::{cluster::key, words::runs};

/// Remembers what has been told.
#[derive(Default)]
pub(super) struct Teller {
    pipelines: BTreeMap<String, Pipeline>,
    phases: BTreeMap<String, Option<Phase>>,
}

impl Teller {
    pub(super) fn has_seen_anything(&self) -> bool {
        !self.pipelines.is_empty() || !self.phases.is_empty()
    }

    /// The first time where everything is, then what changed.
    pub(super) fn pipeline(&mut self, now: Pipeline) -> Vec<String> {
        let (namespace, name) = key(&now);
        let name = format!("{namespace}/{name}");
        let texts = match self.pipelines.get(&name) {
            None => vec![first(&now)],
            Some(before) => news(before, &now),
        };
        let lines = texts.into_iter().map(|text| format!("{name}  {text}"));
        let lines = lines.collect();
        self.pipelines.insert(name, now);
        lines
    }

    /// Each phase once. Promotions that ended before are not told at the start.
    pub(super) fn promotion(&mut self, promotion: &Promotion) -> Vec<String> {
        let status = promotion.status.clone().unwrap_or_default();
        let uid = promotion.uid().unwrap_or_else(|| promotion.name_any());
        let before = self.phases.insert(uid, status.phase);
        let is_old = before.is_none() && status.phase.is_some_and(Phase::is_terminal);
        if before == Some(status.phase) || is_old {
            return Vec::new();
        }
        let spec = &promotion.spec;
        let namespace = promotion.namespace().unwrap_or_default();
        let phase = status
            .phase
            .map_or("begins".to_owned(), |phase| format!("{phase:?}"));
        let place = planner::site_of(spec, &namespace).key();
        let text = format!("{place}: promotion of {}: {phase}", spec.shown_revision());
        let remarks = [status.message, status.url].into_iter().flatten();
        let remarks: String = remarks.map(|remark| format!(" {remark}")).collect();
        vec![format!("{namespace}/{}  {text}{remarks}", spec.pipeline)]
    }
}

fn first(pipeline: &Pipeline) -> String {
    let nothing = PipelineStatus::default();
    let status = pipeline.status.as_ref().unwrap_or(&nothing);
    let all = pipeline.spec.environments.iter().map(|environment| {
        let name = environment.name.as_str();
        let state = planner::environment_state(pipeline, status, name).word();
        format!("{name} {} ({state})", runs(status.environments.get(name)))
    });
    all.collect::<Vec<_>>().join(" > ")
}

fn news(before: &Pipeline, now: &Pipeline) -> Vec<String> {
    let nothing = PipelineStatus::default();
    let known = before.status.as_ref();
    let status = now.status.as_ref().unwrap_or(&nothing);
    let news = planner::pipeline_events(known, status);
    let mut texts: Vec<String> = news.into_iter().map(|news| news.message).collect();
    if before.spec.suspend != now.spec.suspend {
        texts.push(match now.spec.suspend {
            true => "suspended".to_owned(),
            false => "resumed".to_owned(),
        });
    }
    for (name, environment) in &status.environments {
        let known = known.and_then(|known| known.environments.get(name));
        let known = known.and_then(|known| known.hold.as_ref());
        match &environment.hold {
            Some(hold) if known.map(|it| &it.message) != Some(&hold.message) => {
                texts.push(format!("{name}: waits: {} [{}]", hold.message, hold.reason));
            }
            None if known.is_some() => texts.push(format!("{name}: waits no more")),
            _ => {}
        }
    }
    texts
}
