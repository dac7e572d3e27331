//! The strategy pull-request: a branch with the change, and a pull request that proposes it.
//!
//! A pull request is found again by its branch and the promotion's uid in its text, whatever crashed
//! in between, so there is never a second one. A branch that somebody else pushed to is left alone.

mod merges;
mod pushes;
mod replace;
mod sight;

use std::{sync::Arc, time::Duration};

use api::pipeline::{Forge as ForgeKind, MergeMethod as Method, PullRequest as To};
use git::{
    forge::{
        Changes, Dressing, Kind, Merge, MergeMethod, Merged, NewPullRequest, PullRequest, State,
    },
    names::{BranchName, ObjectId},
    propose::{self, Proposed, branch_beside},
};
use planner::{Failure, Look, Outcome, PullRequestSeen, Remedy};

use super::{
    Looked, Task,
    channel::{Channel, Channels},
    failure::passing,
    permit::Permits,
    repositories::{Repositories, Repository},
    secrets::Contents,
    words::{Change, Words, promotion_in, uid},
};
use crate::Settings;
use merges::Merges;
use pushes::Pushes;
use sight::{is_own, seen};

/// What is said on a pull request whose promotion is gone.
const FAREWELL: &str = "The pipeline that asked for this is gone, and this pull request is no longer \
                        followed. It stays open; merge or close it as you see fit.";

pub(super) struct PullRequests {
    repositories: Arc<Repositories>,
    channels: Arc<Channels>,
    permits: Permits,
    merges: Merges,
    pushes: Pushes,
    /// How old a list of open pull requests may be.
    follow_every: Duration,
    /// Where people reach the dashboard.
    dashboard: Option<String>,
}

/// A repository that can be worked on.
struct Opened {
    repository: Repository,
    channel: Arc<Channel>,
    words: Words,
}

impl PullRequests {
    pub(super) fn new(
        repositories: Arc<Repositories>,
        channels: Arc<Channels>,
        permits: Permits,
        settings: &Settings,
    ) -> Self {
        Self {
            repositories,
            channels,
            permits,
            merges: Merges::default(),
            pushes: Pushes::default(),
            follow_every: settings.follow_every,
            dashboard: settings.dashboard_url.clone(),
        }
    }

    fn open(&self, task: Task<'_>, to: &To, secret: &Contents) -> Result<Opened, Failure> {
        let repository = self.repositories.open(&to.url, secret)?;
        let (url, credentials) = (&repository.url, &repository.credentials);
        let change = Change::from(to).linked(self.dashboard.as_deref());
        Ok(Opened {
            channel: self.channels.open(kind(to.forge), url, credentials)?,
            words: Words::of(task, &change)?,
            repository,
        })
    }

    /// What there is to see of the promotion's pull request.
    pub(super) async fn look(
        &self,
        task: Task<'_>,
        to: &To,
        secret: &Contents,
        how: Look,
    ) -> Result<Looked, Failure> {
        let opened = self.open(task, to, secret)?;
        let seen = |pull| seen(task, self.pushes.corrected(uid(task), pull));
        if how == Look::Follow {
            let is_own = |pull: &PullRequest| is_own(task, pull);
            let followed = opened.channel.followed(self.follow_every, is_own).await?;
            if let Some(pull) = followed.pull_request {
                return Ok(Looked {
                    seen: seen(pull),
                    again_in: followed.stale_in,
                });
            }
        }
        let found = opened.find_own(task).await?;
        Ok(Looked {
            seen: found.map_or(PullRequestSeen::Missing, seen),
            again_in: self.follow_every,
        })
    }

    /// Brings the change to its branch and proposes it.
    pub(super) async fn carry_out(
        &self,
        task: Task<'_>,
        to: &To,
        secret: &Contents,
    ) -> Result<Outcome, Failure> {
        let opened = self.open(task, to, secret)?;
        match self.propose(&opened).await? {
            propose::Outcome::NothingToChange { .. } => {
                self.close_stale(&opened).await?;
                Ok(Outcome::AlreadyThere)
            }
            propose::Outcome::Proposed(proposed) => {
                self.pushes.note(uid(task), proposed.replaced.as_ref());
                let mut pull = self.show(task, to, &opened, &proposed).await?;
                pull.head_commit = Some(proposed.commit.clone());
                opened.channel.note(&pull).await;
                let notes = self.dress(to, &opened, &pull).await?;
                // The next look at it asks for the merge of what is there now.
                self.merges.forget(uid(task));
                tracing::info!(url = pull.url, branch = %proposed.branch, "created PR");
                Ok(Outcome::Opened {
                    url: pull.url,
                    branch: proposed.branch.as_str().to_owned(),
                    commit: Some(proposed.commit.as_str().to_owned()),
                    notes,
                })
            }
        }
    }

    /// The pull request for a branch that holds the change: the one there is, brought up to date, or
    /// a new one.
    async fn show(
        &self,
        task: Task<'_>,
        to: &To,
        opened: &Opened,
        proposed: &Proposed,
    ) -> Result<PullRequest, Failure> {
        let (channel, words) = (&opened.channel, &opened.words);
        let all = channel.want(channel.forge.find(&proposed.branch)).await?;
        let ended = |pull: &&PullRequest| is_own(task, pull) && pull.state != State::Open;
        if all.iter().any(|pull| ended(&pull)) {
            let text = "the pull request was merged or closed in the meantime";
            return Err(passing("PullRequestChanged", text));
        }
        if let Some(pull) = opened.open_among(all) {
            // One that is for this promotion has its words already, or those that people gave it.
            return match promotion_in(&pull.body) == Some(uid(task)) {
                true => Ok(pull),
                false => self.bring_up_to_date(opened, pull).await,
            };
        }
        let new = NewPullRequest {
            head: proposed.branch.clone(),
            base: words.proposal.base.clone(),
            title: words.title.clone(),
            body: words.body.clone(),
            draft: to.draft,
        };
        channel
            .change(&self.permits, channel.forge.create(&new))
            .await
    }

    async fn bring_up_to_date(
        &self,
        opened: &Opened,
        pull: PullRequest,
    ) -> Result<PullRequest, Failure> {
        let words = &opened.words;
        let differs =
            |is: &str, should: &str| (is.trim() != should.trim()).then(|| should.to_owned());
        let changes = Changes {
            title: differs(&pull.title, &words.title),
            body: differs(&pull.body, &words.body),
            open: None,
        };
        if changes == Changes::default() {
            return Ok(pull);
        }
        let channel = &opened.channel;
        let update = channel.forge.update(pull.number, &changes);
        channel.change(&self.permits, update).await
    }

    /// Labels and reviewers. What the forge will never grant does not keep the pull request from being
    /// followed; the answer says what was left out.
    async fn dress(
        &self,
        to: &To,
        opened: &Opened,
        pull: &PullRequest,
    ) -> Result<Vec<String>, Failure> {
        let channel = &opened.channel;
        let dressing = Dressing {
            labels: to.labels.clone(),
            reviewers: to.reviewers.clone(),
        };
        if dressing == Dressing::default() {
            return Ok(Vec::new());
        }
        let dress = channel.forge.dress(pull.number, &dressing);
        let notes = match channel.change(&self.permits, dress).await {
            // What passes is tried again with all the rest.
            Err(failure) if failure.remedy == Remedy::WaitForEdit => vec![failure.message],
            dressed => dressed?,
        };
        for because in &notes {
            tracing::warn!(url = pull.url, because, "left out");
        }
        Ok(notes)
    }

    /// Has the forge merge the promotion's pull request. Where it cannot yet, it is asked again, as
    /// often as open pull requests are looked at.
    pub(super) async fn merge(
        &self,
        task: Task<'_>,
        to: &To,
        secret: &Contents,
    ) -> Result<Outcome, Failure> {
        if let Some(because) = self.merges.lately(uid(task)) {
            return Ok(Outcome::AskedForMerge { because });
        }
        let opened = self.open(task, to, secret)?;
        let channel = &opened.channel;
        let is_own = |pull: &PullRequest| is_own(task, pull);
        let followed = channel.followed(self.follow_every, is_own).await?;
        let status = task.promotion.status.as_ref();
        let head = status.and_then(|status| ObjectId::new(status.commit.as_deref()?).ok());
        let (Some(pull), Some(head)) = (followed.pull_request, head) else {
            return Ok(Outcome::AskedForMerge { because: None });
        };
        let merge = Merge {
            head,
            method: method(to.merge_method.unwrap_or_default()),
            when_ready: true,
        };
        let asked = channel.forge.merge(pull.number, &merge);
        let because = match channel.change(&self.permits, asked).await {
            Ok(Merged::Now) => return Ok(Outcome::Merged),
            Ok(Merged::Later) => None,
            Err(failure) => Some(failure),
        };
        let short = self.follow_every;
        self.merges.note(uid(task), because.as_ref(), short);
        Ok(Outcome::AskedForMerge { because })
    }

    /// The base says what is wanted, so an open pull request on the branch proposes something else.
    async fn close_stale(&self, opened: &Opened) -> Result<(), Failure> {
        let (channel, branch) = (&opened.channel, &opened.words.proposal.branch);
        let all = channel.want(channel.forge.find(branch)).await?;
        let names_owner = |pull: &PullRequest| opened.words.names_owner(&pull.body);
        match opened.open_among(all).filter(names_owner) {
            Some(pull) => self.close_one(opened, &pull).await,
            None => Ok(()),
        }
    }

    /// Closes the promotion's pull request if it is open.
    pub(super) async fn close(
        &self,
        task: Task<'_>,
        to: &To,
        secret: &Contents,
    ) -> Result<(), Failure> {
        let opened = self.open(task, to, secret)?;
        match opened.find_own(task).await? {
            Some(pull) if pull.state == State::Open => self.close_one(&opened, &pull).await,
            _ => Ok(()),
        }
    }

    async fn close_one(&self, opened: &Opened, pull: &PullRequest) -> Result<(), Failure> {
        let close = Changes {
            open: Some(false),
            ..Changes::default()
        };
        let channel = &opened.channel;
        let close = channel.forge.update(pull.number, &close);
        channel.change(&self.permits, close).await?;
        tracing::info!(url = pull.url, "pull request closed");
        Ok(())
    }

    /// Says on the promotion's pull request that nobody follows it any more.
    pub(super) async fn say_farewell(
        &self,
        task: Task<'_>,
        to: &To,
        secret: &Contents,
    ) -> Result<(), Failure> {
        let opened = self.open(task, to, secret)?;
        match opened.find_own(task).await? {
            Some(pull) if pull.state == State::Open => {
                let channel = &opened.channel;
                let comment = channel.forge.comment(pull.number, FAREWELL);
                channel.change(&self.permits, comment).await
            }
            _ => Ok(()),
        }
    }
}

impl Opened {
    /// The promotion's own pull request, the newest if there are several.
    async fn find_own(&self, task: Task<'_>) -> Result<Option<PullRequest>, Failure> {
        let proposal = &self.words.proposal;
        let pushed = task
            .promotion
            .status
            .as_ref()
            .and_then(|it| it.branch.clone());
        let pushed = pushed.and_then(|branch| BranchName::new(branch).ok());
        let first = pushed.as_ref().unwrap_or(&proposal.branch);
        let found = self.channel.want(self.channel.forge.find(first)).await?;
        let is_taken = !found.is_empty();
        let own = found.into_iter().find(|pull| is_own(task, pull));
        if own.is_some() || pushed.is_some() || !is_taken {
            return Ok(own);
        }
        let beside = branch_beside(&proposal.branch, &proposal.message.owner);
        let found = self.channel.want(self.channel.forge.find(&beside)).await?;
        Ok(found.into_iter().find(|pull| is_own(task, pull)))
    }

    /// The open one into our base.
    fn open_among(&self, all: Vec<PullRequest>) -> Option<PullRequest> {
        let base = self.words.proposal.base.as_str();
        let mut all = all.into_iter();
        all.find(|pull| pull.state == State::Open && pull.base == base)
    }
}

fn method(method: Method) -> MergeMethod {
    match method {
        Method::Merge => MergeMethod::Merge,
        Method::Squash => MergeMethod::Squash,
        Method::Rebase => MergeMethod::Rebase,
    }
}

pub(super) fn kind(forge: ForgeKind) -> Kind {
    match forge {
        ForgeKind::Github => Kind::GitHub,
        ForgeKind::Gitlab => Kind::GitLab,
        ForgeKind::BitbucketServer => Kind::BitbucketServer,
        ForgeKind::BitbucketCloud => Kind::BitbucketCloud,
        ForgeKind::Gitea => Kind::Gitea,
        ForgeKind::AzureDevops => Kind::AzureDevOps,
    }
}
