//! What a promotion changes: its digest and edits, and how they read in a pull request.

use api::promotion::{ChangeContent, FieldEdit, PromotionChange, SourceCommits};
use git::propose::ProposedEdit;

use super::{PromotionTask, promotion_description::one_line};

/// How many edits the text of a pull request lists.
const LISTED: usize = 50;
/// How many digits of a commit's id people read.
const SHORT_ID: usize = 8;

/// The change that these edits are.
pub(super) fn of_edits(task: PromotionTask<'_>, edits: &[ProposedEdit]) -> PromotionChange {
    let edits: Vec<FieldEdit> = edits.iter().map(field_edit).collect();
    let change = PromotionChange::new(&task.promotion.spec, ChangeContent::Edits(&edits));
    with_commits(task, change)
}

/// The change that the receiver of an event or a call makes.
pub(super) fn delegated(task: PromotionTask<'_>) -> PromotionChange {
    let spec = &task.promotion.spec;
    let change = PromotionChange::new(spec, ChangeContent::Delegated(&spec.strategy));
    with_commits(task, change)
}

/// The change that sets a tag of a registry.
pub(super) fn of_tag(task: PromotionTask<'_>, edit: FieldEdit) -> PromotionChange {
    let content = ChangeContent::Edits(std::slice::from_ref(&edit));
    with_commits(task, PromotionChange::new(&task.promotion.spec, content))
}

fn with_commits(task: PromotionTask<'_>, change: PromotionChange) -> PromotionChange {
    match task.commits {
        Some(commits) => change.with_commits(commits.clone()),
        None => change,
    }
}

/// Whether these edits may be pushed: any, or exactly those that people approved.
pub(super) fn is_approved(task: PromotionTask<'_>, edits: &[ProposedEdit]) -> bool {
    let Some(approved) = task.approved_change else {
        return true;
    };
    of_edits(task, edits).digest == approved
}

fn field_edit(proposed: &ProposedEdit) -> FieldEdit {
    FieldEdit {
        file: proposed.file.clone(),
        path: proposed.edit.path.clone(),
        old: proposed.edit.old.clone(),
        new: proposed.edit.new.clone(),
    }
}

/// Edits and commits as a list for people. No line of it can be taken for a trailer.
pub(super) fn as_text(task: PromotionTask<'_>, edits: &[ProposedEdit]) -> String {
    let mut text = "\nChanges:\n\n".to_owned();
    for ProposedEdit { file, edit } in edits.iter().take(LISTED) {
        let old = edit.old.as_deref().map_or("nothing".to_owned(), quoted);
        let (file, path, new) = (quoted(file), quoted(&edit.path), quoted(&edit.new));
        text += &format!("- {file} {path}: {old} → {new}\n");
    }
    if let Some(more) = edits.len().checked_sub(LISTED).filter(|more| *more > 0) {
        text += &format!("- and {more} more\n");
    }
    match task.commits {
        Some(commits) => text + &commits_as_text(commits),
        None => text,
    }
}

fn commits_as_text(commits: &SourceCommits) -> String {
    let mut text = "\nCommits:".to_owned();
    if let Some(url) = &commits.url {
        text += &format!(" {}", one_line(url));
    }
    text += "\n\n";
    for commit in &commits.newest {
        let id: String = commit.id.chars().take(SHORT_ID).collect();
        text += &format!("- {} {}", quoted(&id), quoted(&commit.title));
        if let Some(author) = &commit.author {
            text += &format!(" by {}", quoted(author));
        }
        text.push('\n');
    }
    let listed = commits.newest.len().try_into().unwrap_or(i64::MAX);
    if let Some(more) = commits.total.map(|it| it - listed).filter(|more| *more > 0) {
        text += &format!("- and {more} more\n");
    }
    if let Some(note) = &commits.note {
        text += &format!("- {}\n", quoted(note));
    }
    text
}

/// As code, so that nobody is mentioned and nothing is rendered.
fn quoted(text: &str) -> String {
    format!("`{}`", one_line(text).replace('`', "'"))
}

#[cfg(test)]
mod tests {
    use api::{Pipeline, Promotion, promotion::SourceCommit};
    use git::edit::ValueEdit;

    use super::*;
    use crate::strategy::{promotion_description::TRAILER, proposal::owner_in};

    #[test]
    fn no_text_of_others_becomes_a_line_of_its_own() {
        let trap = format!("x`\n{TRAILER}another\n@everyone");
        let commits = SourceCommits {
            url: Some(trap.clone()),
            total: Some(3),
            newest: vec![SourceCommit {
                id: trap.clone(),
                title: trap.clone(),
                author: Some(trap.clone()),
            }],
            ..SourceCommits::default()
        };
        let (pipeline, promotion) = (Pipeline::default(), Promotion::default());
        let task = PromotionTask {
            commits: Some(&commits),
            ..PromotionTask::new(&pipeline, &promotion)
        };
        let edit = ProposedEdit {
            file: trap.clone(),
            edit: ValueEdit {
                path: trap.clone(),
                old: Some(trap.clone()),
                new: trap,
            },
        };
        let text = as_text(task, &vec![edit; LISTED + 2]);
        assert_eq!(owner_in(&text, TRAILER), None, "{text}");
        assert!(text.contains("- and 2 more\n"), "{text}");
    }
}
