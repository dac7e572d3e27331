//! What a promotion brings, as a list of facts: edits, images, commits, how its checks stand, what else it
//! waits for, and who approved it so far.

use std::collections::BTreeMap;

use api::{
    Promotion,
    check_run::CheckCause,
    pipeline::ApprovalPolicy,
    promotion::{Approval, FieldEdit, SourceCommits},
};
use planner::{CheckProgress, ImageDiff, PromotionDiff, SoakProgress};

use super::DecisionContext;
use crate::dashboard::{
    checks::verdict,
    components::{counted, duration_since, external_link, sentence, timestamp},
    html::{Element, Html, tag},
    version::{chip, shortened},
};

/// How much of a commit's id is shown.
const COMMIT_LENGTH: usize = 8;

/// The facts about a promotion; nothing where none is known.
pub(super) fn facts(promotion: &Promotion, context: &DecisionContext<'_>) -> Option<Element> {
    let diff = context.diff.as_ref();
    let edits = diff.filter(|it| !it.edits.is_empty()).map(edit_list);
    let unknown = diff.and_then(|it| it.note.as_ref());
    let unknown = unknown.map(|note| tag("p").class("dim").text(note));
    let images = diff.filter(|it| !it.images.is_empty());
    let commits = diff.and_then(|it| it.commits.as_ref());
    let checks = diff.filter(|it| !it.checks.is_empty());
    let soak = diff.and_then(|it| it.soak.as_ref());
    let forecast = context.forecast.as_ref();
    let facts = [
        edits.or(unknown).map(|element| ("Change", element)),
        images.map(|diff| ("Images", image_list(&diff.images))),
        commits.map(|commits| ("Commits", commit_list(commits))),
        checks.map(|diff| ("Checks", check_list(&diff.checks))),
        soak.map(|soak| ("Ready", soak_text(soak, context.now))),
        forecast.map(|text| ("Forecast", tag("p").child(sentence(text)))),
        approvals(promotion).map(|element| ("Approvals", element)),
    ];
    let facts: Vec<_> = facts.into_iter().flatten().collect();
    if facts.is_empty() {
        return None;
    }
    let rows = facts.into_iter().map(|(name, value)| {
        let row = tag("dt").text(name);
        Html::all([row, tag("dd").child(value)])
    });
    Some(tag("dl").class("facts").children(rows))
}

fn check_list(checks: &[CheckProgress]) -> Element {
    let items = checks.iter().map(|it| {
        let place = match it.cause {
            CheckCause::Verify => format!("{} in {}", it.check, it.environment),
            CheckCause::Promotion => format!("{} before {}", it.check, it.environment),
        };
        let verdict = verdict(it.verdict, it.message.as_deref(), it.url.as_deref());
        tag("li").text(format_args!("{place} ")).child(verdict)
    });
    tag("ul").class("checks").children(items)
}

/// How long the revision has been ready in the source environment.
fn soak_text(soak: &SoakProgress, now: planner::Timestamp) -> Element {
    let line = tag("p")
        .text(format_args!("in {} ", soak.environment))
        .child(duration_since(&soak.since));
    let until = soak.until.as_ref().filter(|until| until.0 > now);
    line.child(until.map(|until| tag("span").text(", soaks until ").child(timestamp(until))))
}

/// The edits as lines that are removed and added, by file.
fn edit_list(change: &PromotionDiff) -> Element {
    let mut files: BTreeMap<&str, Vec<&FieldEdit>> = BTreeMap::new();
    for edit in &change.edits {
        files.entry(&edit.file).or_default().push(edit);
    }
    let more = (change.more_edits > 0).then(|| {
        let text = format!("and {} more", change.more_edits);
        tag("span").class("file").text(text)
    });
    let files = files.into_iter().map(|(file, edits)| {
        let lines = edits.into_iter().map(|edit| {
            let line = |sign: &str, value: &str| format!("{sign} {}: {value}", edit.path);
            let old = edit.old.as_deref();
            let old = old.map(|old| tag("del").text(line("-", old)));
            Html::all([old, Some(tag("ins").text(line("+", &edit.new)))])
        });
        let name = tag("span").class("file").text(file);
        tag("span").child(name).children(lines)
    });
    tag("pre")
        .class("diff")
        .with("tabindex", 0)
        .children(files)
        .child(more)
}

fn image_list(images: &[ImageDiff]) -> Element {
    let versions = |versions: &[String]| match versions.is_empty() {
        true => Html::from(tag("span").class("dim").text("none")),
        false => Html::all(versions.iter().map(|version| chip(version))),
    };
    let items = images.iter().map(|image| {
        let short = image.name.rsplit('/').next().unwrap_or(&image.name);
        tag("li")
            .with("title", &image.name)
            .text(format_args!("{short} "))
            .child(versions(&image.from))
            .text(" → ")
            .child(versions(&image.to))
    });
    tag("ul").children(items)
}

fn commit_list(commits: &SourceCommits) -> Element {
    let total = commits.total.and_then(|total| usize::try_from(total).ok());
    let count = total.map(|total| counted(total, "commit"));
    let short = |id: &str| id.chars().take(COMMIT_LENGTH).collect::<String>();
    let range = format!("{}…{}", short(&commits.from), short(&commits.to));
    let compare = match &commits.url {
        Some(url) => external_link(url, &format!("compare {range}")),
        None => tag("code").text(range),
    };
    let line = tag("p").text(count.unwrap_or_default()).text(" ");
    let newest = commits.newest.iter().map(|commit| {
        let author = commit.author.as_ref().map(|it| format!(" by {it}"));
        tag("li")
            .child(tag("code").text(short(&commit.id)))
            .text(format_args!(" {}", commit.title))
            .child(tag("span").class("dim").text(author.unwrap_or_default()))
    });
    let note = commits.note.as_ref();
    tag("div")
        .child(line.child(compare))
        .child(tag("ul").children(newest))
        .child(note.map(|note| tag("p").class("dim").text(note)))
}

/// Who approved so far, and how many approvals are needed.
fn approvals(promotion: &Promotion) -> Option<Element> {
    let spec = &promotion.spec;
    let needed = spec.approval_policy.as_ref().map(policy_text);
    let given: Vec<_> = spec.given_approvals().map(approval).collect();
    if needed.is_none() && given.is_empty() {
        return None;
    }
    let needed = needed.map(|text| tag("p").class("dim").text(text));
    Some(tag("div").child(needed).children(given))
}

fn approval(approval: &Approval) -> Element {
    let group = approval.group.as_ref().map(|it| format!(" ({it})"));
    let note = approval.note.as_deref().filter(|note| !note.is_empty());
    let note = note.map(|note| tag("span").text(format_args!(" “{note}”")));
    tag("p")
        .child(
            tag("span")
                .class("good")
                .with("aria-hidden", "true")
                .text("✓ "),
        )
        .child(tag("b").text(&approval.by))
        .text(group.unwrap_or_default())
        .text(" ")
        .child(approval.at.as_ref().map(timestamp))
        .child(note)
}

fn policy_text(policy: &ApprovalPolicy) -> String {
    let from = policy.from.iter().map(|it| match (&it.group, &it.user) {
        (Some(group), _) => format!("group {group}"),
        (None, Some(user)) => user.clone(),
        (None, None) => "nobody".to_owned(),
    });
    let from: Vec<_> = from.collect();
    let mut text = format!(
        "needs {}",
        counted(usize::try_from(policy.count).unwrap_or(1), "approval")
    );
    if !from.is_empty() {
        text += &format!(" from {}", from.join(" or "));
    }
    if policy.not_requester {
        text += ", not from who asked for it";
    }
    text
}

/// The title of a decision.
pub(in crate::dashboard) fn question(promotion: &Promotion) -> String {
    let spec = &promotion.spec;
    let revision = shortened(&spec.shown_revision());
    format!("Decision: let {revision} into {}?", spec.environment)
}
