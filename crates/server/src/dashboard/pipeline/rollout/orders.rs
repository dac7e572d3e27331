//! What a person can do about a rollout: stop it, resume it, retry what failed, go on without a target.

use planner::{RolloutState, RolloutView, TargetView};

use super::{super::actions::disclosure, PipelineView};
use crate::dashboard::{
    decision::note,
    html::{Element, tag},
};

/// How many targets are offered to skip; `sluice rollout --skip` takes any.
const MAX_OFFERED: usize = 100;

impl PipelineView<'_> {
    /// The forms; nothing where the rollout has ended, or the viewer may not promote.
    pub(super) fn rollout_orders(
        &self,
        environment: &str,
        index: usize,
        view: &RolloutView,
    ) -> Option<Element> {
        if view.has_ended || !self.allowed.contains("promote", environment) {
            return None;
        }
        let stop_or_resume = match &view.stopped {
            Some(_) => self.resume_rollout(environment, index),
            None => self.stop_rollout(environment, index),
        };
        let has_failed = view.count(RolloutState::Failed) > 0;
        let retry = has_failed.then(|| self.retry_rollout(environment, index));
        let orders = tag("div")
            .id(format_args!("orders-{index}"))
            .class("orders group")
            .child(stop_or_resume)
            .child(retry)
            .child(self.skip_target(environment, index, view));
        Some(orders)
    }

    fn stop_rollout(&self, environment: &str, index: usize) -> Element {
        let consequence = "No further target is started. Those that were started go on. The stop stays \
                           until somebody resumes the rollout.";
        let form = self
            .form("stop-rollout", environment)
            .child(tag("p").class("dim").text(consequence))
            .child(note())
            .child(tag("button").class("danger").text("Stop the rollout"));
        disclosure(&format!("stop-rollout-{index}"), "Stop the rollout…", form)
    }

    fn resume_rollout(&self, environment: &str, index: usize) -> Element {
        let consequence =
            "Goes on with the next targets. What failed before does not count any more.";
        let form = self
            .form("resume-rollout", environment)
            .child(tag("p").class("dim").text(consequence))
            .child(note())
            .child(tag("button").class("main").text("Resume the rollout"));
        disclosure(
            &format!("resume-rollout-{index}"),
            "Resume the rollout…",
            form,
        )
    }

    fn retry_rollout(&self, environment: &str, index: usize) -> Element {
        let consequence = "Gives the targets that failed the time to deploy again, and goes on.";
        let form = self
            .form("retry", environment)
            .child(tag("p").class("dim").text(consequence))
            .child(note())
            .child(tag("button").class("main").text("Retry what failed"));
        disclosure(
            &format!("retry-rollout-{index}"),
            "Retry what failed…",
            form,
        )
    }

    /// Offers the targets that the rollout waits for.
    fn skip_target(&self, environment: &str, index: usize, view: &RolloutView) -> Option<Element> {
        let is_waited_for =
            |it: &&TargetView| it.state.needs_attention() || it.state == RolloutState::InFlight;
        let mut offered: Vec<_> = view.targets().filter(is_waited_for).collect();
        offered.sort_by_key(|it| !it.state.needs_attention());
        if offered.is_empty() {
            return None;
        }
        let options = offered.into_iter().take(MAX_OFFERED).map(|it| {
            let text = format!("{} ({})", it.target, it.state.word());
            tag("option").with("value", &it.target).text(text)
        });
        let field = format!("skip-{index}-target");
        let select = tag("select")
            .id(&field)
            .with("name", "target")
            .children(options);
        let consequence =
            "The rollout goes on as if the target were not part of it. It keeps what it has.";
        let form = self
            .form("skip-target", environment)
            .child(tag("p").class("dim").text(consequence))
            .child(tag("label").with("for", &field).text("Target"))
            .child(select)
            .child(note())
            .child(tag("button").text("Skip the target"));
        Some(disclosure(
            &format!("skip-target-{index}"),
            "Skip a target…",
            form,
        ))
    }
}
