//! The commits that our pushes replaced. A forge notices a push after a delay and shows the replaced
//! commit until then, which must not count as somebody else's push.

use std::{collections::HashMap, time::Duration};

use git::{forge::PullRequest, names::ObjectId};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a forge may take to notice a push.
const LONGEST_DELAY: Duration = Duration::from_secs(600);

/// By promotion: the replaced commit, and until when the forge may show it.
#[derive(Default)]
pub(super) struct ReplacedCommits(Mutex<HashMap<String, (Instant, ObjectId)>>);

impl ReplacedCommits {
    pub(super) fn record(&self, uid: &str, replaced: Option<&ObjectId>) {
        let now = Instant::now();
        let mut all = self.0.lock();
        all.retain(|_, (until, _)| now < *until);
        if let Some(replaced) = replaced {
            all.insert(uid.to_owned(), (now + LONGEST_DELAY, replaced.clone()));
        }
    }

    /// The pull request without its head commit, if that is the one that was replaced.
    pub(super) fn hide(&self, uid: &str, mut pull: PullRequest) -> PullRequest {
        let all = self.0.lock();
        let known = all.get(uid).filter(|(until, _)| Instant::now() < *until);
        pull.head_commit = pull
            .head_commit
            .filter(|commit| known.is_none_or(|(_, replaced)| replaced != commit));
        pull
    }
}

#[cfg(test)]
mod tests {
    use git::forge::PullRequestState;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_replaced_commit_does_not_count_as_a_push_of_others() {
        let [before, other] = ["a", "b"].map(|digit| ObjectId::new(digit.repeat(40)).unwrap());
        let replaced = ReplacedCommits::default();
        replaced.record("uid", Some(&before));
        let head_commit = |uid: &str, commit: &ObjectId| {
            let pull = PullRequest {
                number: 1,
                url: String::new(),
                title: String::new(),
                body: String::new(),
                state: PullRequestState::Open,
                draft: false,
                head: String::new(),
                head_commit: Some(commit.clone()),
                base: String::new(),
                merge_commit: None,
                is_merge_scheduled: false,
            };
            replaced.hide(uid, pull).head_commit
        };
        assert_eq!(head_commit("uid", &before), None);
        assert_eq!(head_commit("uid", &other), Some(other.clone()));
        assert_eq!(head_commit("another", &before), Some(before.clone()));
        tokio::time::advance(LONGEST_DELAY).await;
        assert_eq!(head_commit("uid", &before), Some(before.clone()));
    }
}
