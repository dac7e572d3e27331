//! The targets of the environments: what each runs, since when, its images, and why it is not ready.

use api::{
    image::Image,
    pipeline::{AppStatus, Environment, EnvironmentStatus, Strategy, TargetStatus},
};
use planner::SummaryState;

use super::{
    PipelineView,
    picture::{shown, target_text},
};
use crate::{
    dashboard::{
        components::{counted, duration_since, screen_reader_text, state_icon},
        html::{Element, tag},
        objects::objects_address,
        version::{chip, colour},
    },
    view,
};

/// Up to this many targets are shown as cards; more as squares.
const MAX_CARDS: usize = 8;
/// More targets than this have small squares.
const MAX_LARGE_SQUARES: usize = 150;

impl PipelineView<'_> {
    pub(super) fn environment_targets(&self, environment: &Environment, index: usize) -> Element {
        let status = view::status_of(&self.pipeline, &environment.name);
        let title = format!("targets-{index}-title");
        tag("section")
            .id(format_args!("targets-{index}"))
            .class("card")
            .with("aria-labelledby", &title)
            .child(
                tag("h2")
                    .id(&title)
                    .child(tag("span").class("vh").text("Targets of "))
                    .text(&environment.name),
            )
            .child(self.strategy(environment, index))
            .child(status.map(|status| self.targets(&environment.name, status)))
    }

    /// How revisions are promoted into the environment.
    fn strategy(&self, environment: &Environment, index: usize) -> Element {
        let settings = self.pipeline.spec.promotion_into(&environment.name);
        let line = tag("p").class("dim strategy");
        if planner::receives_nothing(&self.pipeline.spec, &environment.name) {
            return line.text(match index {
                0 => "first environment: changed outside of Sluice",
                _ => "comes after no environment: changed outside of Sluice",
            });
        }
        let Some(settings) = settings else {
            return line.text("no promotion is configured");
        };
        let (name, url) = strategy_of(&settings.strategy);
        let line = line.text(name);
        let line = match url {
            Some((url, branch)) => line
                .text(" to ")
                .child(tag("code").text(url.trim_start_matches("https://")))
                .text(format_args!(" {branch}")),
            None => line,
        };
        match settings.needs_approval() {
            true => line.text(", after approval"),
            false => line,
        }
    }

    fn targets(&self, environment: &str, status: &EnvironmentStatus) -> Element {
        let all = &status.targets;
        let ready = all.iter().filter(|target| target.ready).count();
        let count = format!("{ready} of {} ready", counted(all.len(), "target"));
        let block = tag("div").child(tag("p").class("dim").text(count));
        let reported = status.reported.as_ref().map(|reported| {
            tag("p")
                .text("Reported for one target: ")
                .child(chip(&reported.revision))
        });
        let published = planner::published_revisions(status);
        let published = (!published.is_empty()).then(|| {
            let text = tag("p").text("Clusters that ask get ");
            text.children(published.iter().map(|revision| chip(revision)))
        });
        let block = block.child(reported).child(published);
        let objects = |target: &TargetStatus| objects_address(self.key, environment, target);
        let card = |target| card(target, &objects(target));
        if all.len() <= MAX_CARDS {
            return block.child(tag("ul").class("targets").children(all.iter().map(card)));
        }
        let is_not_ready =
            |target: &&TargetStatus| planner::target_state(target) != SummaryState::Ready;
        let not_ready = all.iter().filter(is_not_ready).take(MAX_CARDS);
        let squares = all.iter().map(|target| square(target, &objects(target)));
        let class = match all.len() > MAX_LARGE_SQUARES {
            true => "fleet small",
            false => "fleet",
        };
        block
            .child(tag("ol").class(class).children(squares))
            .child(tag("ul").class("targets").children(not_ready.map(card)))
    }
}

/// The name of a strategy, and its repository and branch.
fn strategy_of(strategy: &Strategy) -> (&'static str, Option<(&str, &str)>) {
    match strategy {
        Strategy {
            pull_request: Some(it),
            ..
        } => ("by pull request", Some((&it.url, &it.base_branch))),
        Strategy {
            commit: Some(it), ..
        } => ("by commit", Some((&it.url, &it.base_branch))),
        Strategy {
            webhook: Some(_), ..
        } => ("by calling a webhook", None),
        Strategy {
            notification: Some(_),
            ..
        } => ("by notification", None),
        Strategy { oci: Some(_), .. } => ("by tag", None),
        Strategy {
            resource_set_inputs: Some(_),
            ..
        } => ("as an input that clusters ask for", None),
        _ => ("no strategy", None),
    }
}

/// A target of an environment with many, in the colour of its version.
fn square(target: &TargetStatus, objects: &str) -> Element {
    let state = planner::target_state(target);
    let text = target_text(target);
    let link = tag("a").link(objects).with("title", &text);
    let link = link.child(screen_reader_text(&text));
    let class = format!("{} {}", state.id(), colour(&shown(target)));
    tag("li").class(class).child(link)
}

fn card(target: &TargetStatus, objects: &str) -> Element {
    let state = planner::target_state(target);
    let since = target.ready_since.as_ref();
    let since = since.map(|since| {
        tag("span")
            .class("dim")
            .text(" ")
            .child(duration_since(since))
    });
    let failed = planner::failed_revision(target);
    let runs = running(target, failed).map(|runs| runs.child(since));
    let reported = target.failed_because.as_deref();
    let failed = failed.map(|revision| {
        tag("p")
            .class("bad")
            .child(tag("code").text(revision))
            .text(" failed")
            .child(reported.map(|text| tag("span").text(format_args!(": {text}"))))
    });
    let error = target.error.as_ref();
    let error = error.map(|error| tag("p").class("bad").text(error));
    tag("li")
        .class(format_args!("target {}", state.id()))
        .child(
            tag("p")
                .class("target-name")
                .child(state_icon(state))
                .child(tag("a").link(objects).text(view::target_label(target)))
                .child(screen_reader_text(&format!(" ({})", state.word()))),
        )
        .child(failed)
        .child(runs)
        .child(error)
        .child(images(&target.apps))
        .children(
            target
                .apps
                .iter()
                .filter_map(|app| app_message(app, target)),
        )
}

/// The revision of a target; of several apps, that of each. Nothing if the only release failed, which
/// is shown above.
fn running(target: &TargetStatus, failed: Option<&str>) -> Option<Element> {
    if target.apps.len() < 2 {
        let is_last_good = failed.is_some() && failed != target.revision.as_deref();
        let (before, revision) = match (target.shown_revision(), failed) {
            (Some(good), Some(_)) if is_last_good => ("last successful: ", good),
            (None, None) => ("", "not deployed yet".to_owned()),
            (revision, None) => ("", revision?),
            (_, Some(_)) => return None,
        };
        let line = tag("p").text(before);
        return Some(match target.shown_revision() {
            Some(_) => line.child(chip(&revision)),
            None => line.text(revision),
        });
    }
    let apps = target.apps.iter().map(|app| {
        let revision = app.revision.as_deref().unwrap_or("not deployed yet");
        tag("p")
            .text(format_args!("{} {} ", app.kind, app.name))
            .child(tag("code").text(revision))
    });
    Some(tag("div").children(apps))
}

/// The message of an app that is not ready, unless it is the error of the target.
fn app_message(app: &AppStatus, target: &TargetStatus) -> Option<Element> {
    let message = app.message.as_ref().filter(|_| !app.ready)?;
    let is_new = target.error.as_ref() != Some(message);
    // What is still being deployed is not an error.
    let is_failed = planner::target_state(target) == SummaryState::Failed;
    let class = if is_failed { "bad" } else { "progress" };
    is_new.then(|| tag("p").class(class).text(message))
}

/// A version; of a digest only the first characters.
fn shortened(version: &str) -> &str {
    match version.strip_prefix("sha256:") {
        Some(_) => version.get(..19).unwrap_or(version),
        None => version,
    }
}

fn images(apps: &[AppStatus]) -> Option<Element> {
    let mut images: Vec<_> = apps.iter().flat_map(|app| &app.images).collect();
    images.sort();
    images.dedup();
    if images.is_empty() {
        return None;
    }
    let items = images.into_iter().map(|text| {
        let item = tag("li").with("title", text);
        match Image::parse(text) {
            Some(image) => {
                let name = image.name().rsplit('/').next().unwrap_or_default();
                item.text(name)
                    .text(" ")
                    .child(tag("code").text(shortened(image.tag().unwrap_or(image.version()))))
            }
            None => item.text(text),
        }
    });
    Some(
        tag("ul")
            .class("images")
            .with("aria-label", "Images")
            .children(items),
    )
}
