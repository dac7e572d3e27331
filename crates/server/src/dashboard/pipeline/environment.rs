//! One environment: what its targets run and since when, the promotion under way, and why it waits.

use api::{
    image::Image,
    pipeline::{AppStatus, Environment, EnvironmentStatus, Strategy, TargetStatus},
};

use super::Subject;
use crate::{
    dashboard::{
        html::{Element, tag},
        objects::address_of,
        words::{aside, badge, moment, outward, shape},
    },
    view,
};
use planner::SummaryState;

/// Up to how many targets each have a card; more are squares.
const CARDS: usize = 8;

impl Subject<'_> {
    pub(super) fn environment(&self, environment: &Environment, index: usize) -> Element {
        let status = view::status_of(&self.pipeline, &environment.name);
        let title = tag("h2")
            .id(format_args!("title-{index}"))
            .text(&environment.name);
        let state = view::environment_state(&self.pipeline, &environment.name);
        tag("div")
            .class("facts")
            .child(tag("header").child(title).child(badge(state)))
            .child(self.way(environment, index))
            .child(self.why(&environment.name))
            .child(self.under_way(&environment.name))
            .child(status.map(|status| self.targets(&environment.name, status)))
    }

    /// How promotions get in.
    fn way(&self, environment: &Environment, index: usize) -> Element {
        let settings = self.pipeline.spec.promotion_into(&environment.name);
        let line = tag("p").class("dim way");
        if index == 0 && self.pipeline.spec.source.is_none() {
            return line.text("where releases come in");
        }
        let Some(settings) = settings else {
            return line.text("nothing is promoted into it");
        };
        let (name, url) = strategy(&settings.strategy);
        let line = line.text(name);
        let line = match url {
            Some((url, branch)) => line
                .text(" to ")
                .child(outward(url, url.trim_start_matches("https://")))
                .text(format_args!(" {branch}")),
            None => line,
        };
        match settings.manual {
            true => line.text(", after approval"),
            false => line,
        }
    }

    /// In the planner's words.
    fn why(&self, environment: &str) -> Option<Element> {
        let hold = self.plan.environments.get(environment)?.hold.as_ref()?;
        let opens = hold.opens_at.map(|at| {
            let time = api::Time(at);
            tag("span").text(" Opens ").child(moment(&time)).text(".")
        });
        let why = tag("p")
            .class("why")
            .child(tag("strong").text("Waits: "))
            .text(format_args!("{}. ", hold.sentence))
            .child(tag("span").text(capital(&hold.lifted_by)).text("."))
            .child(opens)
            .child(tag("small").text(format_args!(" {}", hold.reason.word())));
        Some(why)
    }

    fn targets(&self, environment: &str, status: &EnvironmentStatus) -> Element {
        let all = &status.targets;
        let ready = all.iter().filter(|target| target.ready).count();
        let count = format!("{ready} of {} targets ready", all.len());
        let block = tag("div").child(tag("p").class("dim").text(count));
        let reported = status.reported.as_ref().map(|reported| {
            tag("p")
                .text("A report says that one target runs ")
                .child(tag("code").text(&reported.revision))
        });
        let block = block.child(reported);
        let objects = |target: &TargetStatus| address_of(self.key, environment, target);
        let card = |target| card(target, &objects(target));
        if all.len() <= CARDS {
            return block.child(tag("ul").class("targets").children(all.iter().map(card)));
        }
        let is_troubled =
            |target: &&TargetStatus| planner::target_state(target) != SummaryState::Ready;
        let troubled = all.iter().filter(is_troubled).take(CARDS);
        let squares = all.iter().map(|target| square(target, &objects(target)));
        block
            .child(tag("ol").class("heat").children(squares))
            .child(tag("ul").class("targets").children(troubled.map(card)))
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// The strategy as people say it, and where it leads.
fn strategy(strategy: &Strategy) -> (&'static str, Option<(&str, &str)>) {
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
        _ => ("no strategy", None),
    }
}

/// One of many.
fn square(target: &TargetStatus, objects: &str) -> Element {
    let state = planner::target_state(target);
    let release = planner::release(target).unwrap_or("nothing yet".to_owned());
    let said = format!("{}: {release}, {}", view::place(target), state.word());
    let link = tag("a").link(objects).with("title", &said);
    tag("li").child(link.child(shape(state)).child(aside(&said)))
}

fn card(target: &TargetStatus, objects: &str) -> Element {
    let state = planner::target_state(target);
    let since = target.ready_since.as_ref();
    let since = since.map(|since| {
        tag("span")
            .class("dim")
            .text(" since ")
            .child(moment(since))
    });
    let failed = planner::failed_revision(target);
    let runs = running(target, failed).map(|runs| runs.child(since));
    let reported = target.failed_because.as_deref();
    let failed = failed.map(|revision| {
        tag("p")
            .class("bad")
            .child(tag("code").text(revision))
            .text(" failed here")
            .child(reported.map(|text| tag("span").text(format_args!(": {text}"))))
    });
    let error = target.error.as_ref();
    let error = error.map(|error| tag("p").class("bad").text(error));
    tag("li")
        .class(format_args!("card {}", state.id()))
        .child(
            tag("p")
                .class("place")
                .child(shape(state))
                .child(tag("a").link(objects).text(view::place(target)))
                .child(aside(&format!(" ({})", state.word()))),
        )
        .child(failed)
        .child(runs)
        .child(error)
        .child(images(&target.apps))
        .children(target.apps.iter().filter_map(|app| says(app, target)))
}

/// What a target runs: several apps, such as those found by label, by name. Nothing where the only
/// release failed, which is said beside it.
fn running(target: &TargetStatus, failed: Option<&str>) -> Option<Element> {
    if target.apps.len() < 2 {
        let is_last_good = failed.is_some() && failed != target.revision.as_deref();
        let (before, revision) = match (target.shown_revision(), failed) {
            (Some(good), Some(_)) if is_last_good => ("last good ", good),
            (None, None) => ("", "nothing yet".to_owned()),
            (revision, None) => ("", revision?),
            (_, Some(_)) => return None,
        };
        let line = tag("p").text(before);
        return Some(line.child(tag("code").text(revision)));
    }
    let apps = target.apps.iter().map(|app| {
        let revision = app.revision.as_deref().unwrap_or("nothing yet");
        tag("p")
            .text(format_args!("{} {} ", app.kind, app.name))
            .child(tag("code").text(revision))
    });
    Some(tag("div").children(apps))
}

/// What an app that is not ready says about itself, unless that is the target's error already.
fn says(app: &AppStatus, target: &TargetStatus) -> Option<Element> {
    let message = app.message.as_ref().filter(|_| !app.ready)?;
    let is_new = target.error.as_ref() != Some(message);
    is_new.then(|| tag("p").class("bad").text(message))
}

/// Enough of a digest to tell it apart.
fn short(version: &str) -> &str {
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
                    .child(tag("code").text(short(image.tag().unwrap_or(image.version()))))
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
