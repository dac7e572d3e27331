//! Commit statuses and comments as the doubles store them.

use super::ForgeState;

/// A commit status as a forge stores it. The last one of a context counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredStatus {
    /// The commit it is on.
    pub commit: String,
    /// Its context, or key.
    pub context: String,
    /// Its state, in the words of the forge.
    pub state: String,
    /// Its text.
    pub description: String,
    /// Its link; empty without one.
    pub url: String,
}

/// How many comments a pull request of a double can have: the ids follow from its number.
const MAX_COMMENTS: u64 = 10_000;

impl ForgeState {
    /// Whether a branch points to the commit.
    pub(crate) fn has_commit(&self, commit: &str) -> bool {
        self.branches.values().any(|own| own == commit)
    }

    /// What the statuses of a commit say: the last one of each context, as `context state: description`.
    pub fn statuses_of(&self, commit: &str) -> Vec<String> {
        let mut last: Vec<&StoredStatus> = Vec::new();
        for status in self.statuses.iter().filter(|it| it.commit == commit) {
            last.retain(|known| known.context != status.context);
            last.push(status);
        }
        let shown = last.iter().map(|it| {
            let (context, state, description) = (&it.context, &it.state, &it.description);
            format!("{context} {state}: {description}")
        });
        shown.collect()
    }

    /// Adds a comment; its id.
    pub(crate) fn add_comment(&mut self, number: u64, text: &str) -> Option<u64> {
        let pull = self.find(number)?;
        pull.comments.push(text.to_owned());
        Some(number * MAX_COMMENTS + pull.comments.len() as u64)
    }

    /// The comments of a pull request with their ids.
    pub(crate) fn comments_of(&mut self, number: u64) -> Option<Vec<(u64, String)>> {
        let pull = self.find(number)?;
        let ids = number * MAX_COMMENTS + 1..;
        Some(ids.zip(pull.comments.clone()).collect())
    }

    /// The text of a comment.
    pub(crate) fn comment_text(&mut self, id: u64) -> Option<&mut String> {
        let index = usize::try_from(id % MAX_COMMENTS).ok()?.checked_sub(1)?;
        self.find(id / MAX_COMMENTS)?.comments.get_mut(index)
    }
}

/// Whether a link has a scheme that forges accept.
pub(crate) fn is_link(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}
