//! The strategy commit: the change goes straight to the branch.
//!
//! Promotions to one branch take turns, so that they do not push past each other; somebody else's
//! push in between is built upon. What the branch says already is not pushed again, whatever crashed.

use std::{collections::HashMap, sync::Arc};

use api::pipeline::Commit as To;
use git::propose;
use parking_lot::Mutex;
use planner::{Failure, Outcome};
use tokio::time::timeout;

use super::{
    Task,
    failure::passing,
    permit::Permits,
    repositories::Repositories,
    secrets::Contents,
    words::{Change, Words},
};

/// Who may push to a branch of a repository next.
type Turns = HashMap<(String, String), Arc<tokio::sync::Mutex<()>>>;

pub(super) struct Commits {
    repositories: Arc<Repositories>,
    permits: Permits,
    turns: Mutex<Turns>,
}

impl Commits {
    pub(super) fn new(repositories: Arc<Repositories>, permits: Permits) -> Self {
        Self {
            repositories,
            permits,
            turns: Mutex::default(),
        }
    }

    /// Pushes the change, unless the branch has it.
    pub(super) async fn carry_out(
        &self,
        task: Task<'_>,
        to: &To,
        secret: &Contents,
    ) -> Result<Outcome, Failure> {
        let repository = self.repositories.open(&to.url, secret)?;
        let words = Words::of(task, &Change::from(to))?;
        let turn = self.turn(to);
        // One repository that hangs must not have everybody wait for it.
        let turn = timeout(self.permits.act_time(), turn.lock()).await;
        let busy = |_| passing("BranchBusy", "other promotions to the branch are under way");
        let _turn = turn.map_err(busy)?;
        let proposal = &words.proposal;
        Ok(
            match self.repositories.propose(&repository, proposal).await? {
                propose::Outcome::NothingToChange { .. } => Outcome::AlreadyThere,
                propose::Outcome::Proposed(pushed) => Outcome::Pushed {
                    branch: pushed.branch.as_str().to_owned(),
                    commit: pushed.commit.as_str().to_owned(),
                },
            },
        )
    }

    fn turn(&self, to: &To) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock();
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        let key = (to.url.clone(), to.base_branch.clone());
        turns.entry(key).or_default().clone()
    }
}
