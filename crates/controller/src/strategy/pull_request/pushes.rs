//! What was on branches before we pushed. Forges find out about a push some time after it, and until
//! then show what was there before: that is nobody else's change.

use std::{collections::HashMap, time::Duration};

use git::{forge::PullRequest, names::ObjectId};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a forge may take to find out.
const LATE: Duration = Duration::from_secs(600);

/// By promotion: until when it may be shown, and what it is.
#[derive(Default)]
pub(super) struct Pushes(Mutex<HashMap<String, (Instant, ObjectId)>>);

impl Pushes {
    pub(super) fn note(&self, uid: &str, replaced: Option<&ObjectId>) {
        let now = Instant::now();
        let mut all = self.0.lock();
        all.retain(|_, (until, _)| now < *until);
        if let Some(replaced) = replaced {
            all.insert(uid.to_owned(), (now + LATE, replaced.clone()));
        }
    }

    /// The pull request without the tip that it had before.
    pub(super) fn corrected(&self, uid: &str, mut pull: PullRequest) -> PullRequest {
        let all = self.0.lock();
        let late = all.get(uid).filter(|(until, _)| Instant::now() < *until);
        pull.head_commit = pull
            .head_commit
            .filter(|tip| late.is_none_or(|(_, replaced)| replaced != tip));
        pull
    }
}

#[cfg(test)]
mod tests {
    use git::forge::State;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_a_push_replaced_is_not_anothers_change_for_a_while() {
        let [before, other] = ["a", "b"].map(|digit| ObjectId::new(digit.repeat(40)).unwrap());
        let pushes = Pushes::default();
        pushes.note("uid", Some(&before));
        let tip = |uid: &str, tip: &ObjectId| {
            let pull = PullRequest {
                number: 1,
                url: String::new(),
                title: String::new(),
                body: String::new(),
                state: State::Open,
                draft: false,
                head: String::new(),
                head_commit: Some(tip.clone()),
                base: String::new(),
                merge_commit: None,
            };
            pushes.corrected(uid, pull).head_commit
        };
        assert_eq!(tip("uid", &before), None);
        assert_eq!(tip("uid", &other), Some(other.clone()));
        assert_eq!(tip("another", &before), Some(before.clone()));
        tokio::time::advance(LATE).await;
        assert_eq!(tip("uid", &before), Some(before.clone()));
    }
}
