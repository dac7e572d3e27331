//! What a promotion changes: its digest and edits, and how they read in a pull request.

use std::collections::BTreeSet;

use api::promotion::{ChangeContent, FieldEdit, PromotionChange, SourceCommits, edit_hash};
use git::propose::ProposedEdit;

use super::{PromotionTask, promotion_description::one_line, rollout_part::TargetBatch};

/// How many edits the text of a pull request lists.
const LISTED: usize = 50;
/// How many digits of a commit's id people read.
const SHORT_ID: usize = 8;

/// The change that these edits are.
pub(super) fn of_edits(task: PromotionTask<'_>, edits: &[FieldEdit]) -> PromotionChange {
    let change = PromotionChange::new(&task.promotion.spec, ChangeContent::Edits(edits));
    with_commits(task, change)
}

/// The change that the receiver of an event or a call makes.
pub(super) fn delegated(task: PromotionTask<'_>) -> PromotionChange {
    let spec = &task.promotion.spec;
    let change = PromotionChange::new(spec, ChangeContent::Delegated(&spec.strategy));
    with_commits(task, change)
}

fn with_commits(task: PromotionTask<'_>, change: PromotionChange) -> PromotionChange {
    match task.commits {
        Some(commits) => change.with_commits(commits.clone()),
        None => change,
    }
}

/// Whether these edits may be made: any, or exactly those that people approved. A batch has a part of
/// them; targets that joined later were not there to be approved.
pub(super) fn is_approved(task: PromotionTask<'_>, edits: &[FieldEdit]) -> bool {
    let Some(approved) = task.approved_change else {
        return true;
    };
    match TargetBatch::of(task.promotion) {
        None => of_edits(task, edits).digest == approved,
        Some(batch) if batch.has_joined() => true,
        Some(batch) => {
            let approved: BTreeSet<_> = batch.approved_edits().iter().collect();
            edits.iter().all(|edit| approved.contains(&edit_hash(edit)))
        }
    }
}

/// Edits of git as they are stored.
pub(super) fn field_edits(proposed: &[ProposedEdit]) -> Vec<FieldEdit> {
    let edits = proposed.iter().map(|proposed| FieldEdit {
        file: proposed.file.clone(),
        path: proposed.edit.path.clone(),
        old: proposed.edit.old.clone(),
        new: proposed.edit.new.clone(),
    });
    edits.collect()
}

/// Targets of a batch, edits and commits as a list for people. No line of it can be taken for a trailer.
pub(super) fn as_text(task: PromotionTask<'_>, edits: &[ProposedEdit]) -> String {
    let batch = TargetBatch::of(task.promotion).map(targets_as_text);
    let mut text = batch.unwrap_or_default() + "\nChanges:\n\n";
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

fn targets_as_text(batch: TargetBatch<'_>) -> String {
    let mut text = format!("\nTargets of batch {}:\n\n", batch.number());
    for target in batch.targets().take(LISTED) {
        text += &format!("- {}\n", quoted(&target.target));
    }
    let all = batch.targets().count();
    if let Some(more) = all.checked_sub(LISTED).filter(|more| *more > 0) {
        text += &format!("- and {more} more\n");
    }
    if batch.has_joined() {
        text += "\nThey joined the environment after the rollout had begun: what they need was not part of \
                 what people approved.\n";
    }
    text
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
