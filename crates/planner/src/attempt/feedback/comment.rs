//! The comment on a promotion's pull request, in Markdown that every forge renders.
//!
//! Nothing that people wrote, such as the reason of a Freeze, can mention anybody, add a line or be taken
//! for markup.

use api::promotion::Phase;

use super::PullRequestFeedback;
use crate::{
    attempt::{CHECK_FAILED, context::AttemptContext},
    site::site_of,
};

/// Before the site that a comment is about.
const MARKER: &str = "Sluice-Comment: ";
/// The longest text of others in a comment.
const LONGEST_TEXT: usize = 1000;

/// The line that the comment is found by.
pub(super) fn marker(context: &AttemptContext<'_>) -> String {
    let metadata = &context.pipeline.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().unwrap_or_default();
    let site = site_of(&context.promotion.spec, namespace).key();
    format!("{MARKER}{}", plain(&format!("{namespace}/{name}/{site}")))
}

/// What it brings, the gates and the steps.
pub(super) fn text(feedback: &PullRequestFeedback<'_>, dashboard: Option<&str>) -> String {
    let context = &feedback.context;
    let mut text = summary(feedback);
    if !feedback.phase().is_terminal() {
        text += "\n| gate | answer |\n| --- | --- |\n";
        for answer in context.gate_answers() {
            let message = answer.message().map(|it| format!(": {}", plain(&it)));
            let (word, message) = (answer.verdict.word(), message.unwrap_or_default());
            text += &format!("| {} | {word}{message} |\n", answer.gate);
        }
    }
    text += &steps(feedback);
    if let Some(dashboard) = dashboard {
        let metadata = &context.pipeline.metadata;
        let (home, namespace) = (dashboard.trim_end_matches('/'), &metadata.namespace);
        let namespace = namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        text += &format!("\n{home}/pipelines/{namespace}/{name}\n");
    }
    text
}

/// What it brings, and how it stands.
fn summary(feedback: &PullRequestFeedback<'_>) -> String {
    let spec = &feedback.context.promotion.spec;
    let environment = plain(&spec.environment);
    let to = plain(&spec.shown_revision());
    let change = match &spec.replaces {
        Some(replaced) => format!("{} → {to}", plain(replaced)),
        None => to,
    };
    let sentence = plain(&feedback.sentence());
    format!("**{environment}: {change}**\n\n{sentence}\n")
}

/// The steps of the promotion, and which are done.
fn steps(feedback: &PullRequestFeedback<'_>) -> String {
    let (spec, status) = (&feedback.context.promotion.spec, feedback.status);
    let approved = spec.approved_by().filter(|_| spec.needs_approval);
    let approved = approved.map(|by| format!("approved by {}", plain(&by)));
    let merged = match status.merged_at {
        Some(_) => "merged".to_owned(),
        None => "not merged".to_owned(),
    };
    // A revision whose checks failed runs all the same.
    let has_failed_checks = status.reason.as_deref() == Some(CHECK_FAILED);
    let deployed = match feedback.phase() == Phase::Succeeded || has_failed_checks {
        true => "deployed".to_owned(),
        false => "not deployed".to_owned(),
    };
    let proposed = Some("proposed".to_owned());
    let steps = [approved, proposed, Some(merged), Some(deployed)];
    let steps = (1..).zip(steps.into_iter().flatten());
    let lines: String = steps.map(|(n, step)| format!("{n}. {step}\n")).collect();
    format!("\n{lines}")
}

/// The text on one line, without markup and mentions.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars().take(LONGEST_TEXT) {
        match c {
            c if c.is_control() => plain.push(' '),
            '<' => plain.push_str("&lt;"),
            // A mention needs the name right after it.
            '@' => plain.push_str("@\u{200b}"),
            '|' | '`' | '*' | '[' | ']' | '\\' => plain.extend(['\\', c]),
            c => plain.push(c),
        }
    }
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_stay_texts() {
        let trap = "no | releases\n@everyone <img src=x> [a](b) `c`";
        let expected = "no \\| releases @\u{200b}everyone &lt;img src=x> \\[a\\](b) \\`c\\`";
        assert_eq!(plain(trap), expected);
    }
}
