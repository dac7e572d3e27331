//! The history of a pipeline: promotions and failed releases, newest first.

use api::{Promotion, Time, pipeline::FailedRelease, promotion::Phase};
use kube::ResourceExt;

use super::{PipelineView, progress::result_line};
use crate::dashboard::{
    components::{sentence, timestamp},
    decision::from_to,
    html::{Element, tag},
    version::chip,
};

/// How many entries are shown.
const MAX_ENTRIES: usize = 50;

impl PipelineView<'_> {
    pub(super) fn history(&self) -> Element {
        let promotions = self.promotions.iter();
        let promotions = promotions.map(|it| (shown_time(it), entry(it, &self.promotions)));
        let mut all: Vec<_> = promotions.chain(self.failures()).collect();
        if all.is_empty() {
            return tag("div")
                .id("history")
                .child(tag("p").class("dim").text("No promotions yet."));
        }
        all.sort_by(|(one, _), (other, _)| other.cmp(one));
        let items = all.into_iter().take(MAX_ENTRIES).map(|(_, item)| item);
        let list = tag("ol").class("timeline").children(items);
        tag("div").id("history").child(list)
    }

    /// Failed releases that are not part of a failed promotion.
    fn failures(&self) -> impl Iterator<Item = (Option<Time>, Element)> {
        let is_promotion = |environment: &str, revision: &str| {
            self.promotions.iter().any(|promotion| {
                let phase = promotion.status.as_ref().and_then(|status| status.phase);
                let spec = &promotion.spec;
                let is_same = spec.environment == environment && spec.revision == revision;
                is_same && phase == Some(Phase::Failed)
            })
        };
        let status = self.pipeline.status.iter();
        let environments = status.flat_map(|status| &status.environments);
        environments.flat_map(move |(name, environment)| {
            let failures = environment.failures.iter();
            let others = failures.filter(move |it| !is_promotion(name, &it.revision));
            others.map(move |failure| (failure.at.clone(), failed(name, failure)))
        })
    }
}

/// A failed release that is not part of a failed promotion.
fn failed(environment: &str, failure: &FailedRelease) -> Element {
    let line = tag("div")
        .child(tag("b").text(environment))
        .text(format_args!(" ({}) ", failure.target))
        .child(chip(&failure.revision))
        .text(" failed");
    let message = failure.message.as_ref();
    tag("li")
        .class("failed")
        .child(failure.at.as_ref().map(timestamp))
        .child(line)
        .child(message.map(|message| tag("p").class("bad").text(message)))
}

fn entry(promotion: &Promotion, promotions: &[Promotion]) -> Element {
    let spec = &promotion.spec;
    let status = promotion.status.clone().unwrap_or_default();
    let class = match status.phase {
        Some(Phase::Succeeded) => "ready",
        Some(Phase::Failed | Phase::Abandoned) => "failed",
        Some(phase) if phase.is_terminal() => "unknown",
        Some(Phase::AwaitingApproval) => "approval",
        _ => "promoting",
    };
    let at = shown_time(promotion);
    let mut people = planner::people(promotion);
    people.extend(planner::ended_because(promotion, promotions));
    let target = spec.target.as_ref();
    let target = target.map(|target| tag("span").text(format_args!(" ({})", target.namespace)));
    let line = tag("div")
        .child(tag("b").text(&spec.environment))
        .child(target)
        .text(" ")
        .child(from_to(promotion))
        .text(" ")
        .child(result_line(promotion));
    // Who rejected it says why.
    let message = status
        .message
        .filter(|_| class == "failed" && spec.rejection.is_none());
    tag("li")
        .class(class)
        .child(at.as_ref().map(timestamp))
        .child(line)
        .child((!people.is_empty()).then(|| tag("p").class("dim").text(people.join(", "))))
        .child(message.map(|message| tag("p").class("bad").child(sentence(&message))))
}

/// When a promotion ended, or since when it is under way.
fn shown_time(promotion: &Promotion) -> Option<Time> {
    let status = promotion.status.as_ref();
    let ended = status.and_then(|it| it.finished_at.clone());
    ended.or_else(|| promotion.creation_timestamp())
}
