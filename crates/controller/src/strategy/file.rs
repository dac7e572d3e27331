//! A Change: one file on a branch of its own, and the pull request that proposes it, in the one
//! repository that was given for that.
//!
//! The branch is a function of the Change's name, and the pull request carries its uid, so that both
//! are found again whatever crashed in between. A branch that somebody else pushed to is left alone.

use std::{sync::Arc, time::Duration};

use api::{
    Change,
    names::{short_hash, slug},
};
use git::{
    forge::{Changes, NewPullRequest, PullRequest, State},
    names::BranchName,
    paths::PathLimits,
    propose::{self, Alteration, Message, Proposal, Proposed},
};
use kube::ResourceExt;
use planner::{Failure, Look, Outcome, PullRequestSeen};

use super::{
    Looked,
    channel::{Channel, Channels},
    failure::{passing, stuck},
    permit::Permits,
    pull_request::kind,
    repositories::{Repositories, Repository},
    secrets::Secrets,
    subject::one_line,
};
use crate::{Settings, settings::Authoring};

/// Says in a pull request which Change it is for.
const TRAILER: &str = "Sluice-Change: ";

pub(super) struct Files {
    repositories: Arc<Repositories>,
    channels: Arc<Channels>,
    permits: Permits,
    /// How old a list of open pull requests may be.
    follow_every: Duration,
    to: Option<Authoring>,
}

/// The repository, ready to be worked on.
struct Opened {
    repository: Repository,
    channel: Arc<Channel>,
    base: BranchName,
}

impl Files {
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
            follow_every: settings.follow_every,
            to: settings.authoring.clone(),
        }
    }

    async fn open(&self, secrets: &Secrets) -> Result<Opened, Failure> {
        let Some(to) = &self.to else {
            let text = "no repository is configured; start the controller with --authoring-url";
            return Err(stuck(planner::change::NOT_CONFIGURED, text));
        };
        let secret = secrets.named(&to.secret).await?;
        let repository = self.repositories.open(&to.url, &secret)?;
        let (url, credentials) = (&repository.url, &repository.credentials);
        let channel = self.channels.open(kind(to.forge), url, credentials)?;
        let base = BranchName::new(to.branch.as_str());
        let base = base.map_err(|error| stuck("InvalidBranch", error.to_string()))?;
        Ok(Opened {
            repository,
            channel,
            base,
        })
    }

    /// What changes when somebody edits the credentials.
    pub(super) async fn dependencies(&self, secrets: &Secrets) -> String {
        let Some(to) = &self.to else {
            return String::new();
        };
        let secret = secrets.named(&to.secret).await.ok();
        secret.map_or("-".to_owned(), |secret| secret.version.clone())
    }

    /// What there is to see of the change's pull request.
    pub(super) async fn look(
        &self,
        change: &Change,
        secrets: &Secrets,
        how: Look,
    ) -> Result<Looked, Failure> {
        let opened = self.open(secrets).await?;
        let channel = &opened.channel;
        let is_own = |pull: &PullRequest| is_own(change, pull);
        if how == Look::Follow {
            let followed = channel.followed(self.follow_every, is_own).await?;
            if let Some(pull) = followed.pull_request {
                return Ok(Looked {
                    seen: seen(pull),
                    again_in: followed.stale_in,
                });
            }
        }
        let all = channel.want(channel.forge.find(&branch(change)?)).await?;
        let own = all.into_iter().find(is_own);
        Ok(Looked {
            seen: own.map_or(PullRequestSeen::Missing, seen),
            again_in: self.follow_every,
        })
    }

    /// Brings the file to its branch and proposes it.
    pub(super) async fn propose(
        &self,
        change: &Change,
        secrets: &Secrets,
    ) -> Result<Outcome, Failure> {
        let opened = self.open(secrets).await?;
        let proposal = proposal(change, &opened.base)?;
        let repository = &opened.repository;
        match self.repositories.propose(repository, &proposal).await? {
            propose::Outcome::NothingToChange { .. } => Ok(Outcome::AlreadyThere),
            propose::Outcome::Proposed(proposed) => {
                let pull = self.show(change, &opened, &proposed).await?;
                opened.channel.note(&pull).await;
                Ok(Outcome::Opened {
                    url: pull.url,
                    branch: proposed.branch.as_str().to_owned(),
                    commit: Some(proposed.commit.as_str().to_owned()),
                    notes: Vec::new(),
                })
            }
        }
    }

    /// The pull request for a branch that holds the file: the one there is, or a new one.
    async fn show(
        &self,
        change: &Change,
        opened: &Opened,
        proposed: &Proposed,
    ) -> Result<PullRequest, Failure> {
        let (channel, base) = (&opened.channel, &opened.base);
        let all = channel.want(channel.forge.find(&proposed.branch)).await?;
        let ended = |pull: &PullRequest| is_own(change, pull) && pull.state != State::Open;
        if all.iter().any(ended) {
            let text = "the pull request was merged or closed in the meantime";
            return Err(passing("PullRequestChanged", text));
        }
        let (title, body) = (title(change), body(change));
        let is_open = |pull: &PullRequest| pull.state == State::Open && pull.base == base.as_str();
        let act = match all.into_iter().find(is_open) {
            Some(pull) if is_own(change, &pull) => return Ok(pull),
            // It was for a Change of the same name that somebody deleted.
            Some(pull) => {
                let words = Changes {
                    title: Some(title),
                    body: Some(body),
                    open: None,
                };
                let update = channel.forge.update(pull.number, &words);
                return channel.change(&self.permits, update).await;
            }
            None => NewPullRequest {
                head: proposed.branch.clone(),
                base: base.clone(),
                title,
                body,
                draft: false,
            },
        };
        let create = channel.forge.create(&act);
        channel.change(&self.permits, create).await
    }
}

/// Readable, and no other change's.
fn branch(change: &Change) -> Result<BranchName, Failure> {
    let (namespace, name) = (change.namespace().unwrap_or_default(), change.name_any());
    let readable = slug(&format!("{namespace}-{name}"), 60, "file");
    let hash = short_hash(&[&namespace, &name]);
    let branch = BranchName::new(format!("change-{readable}-{hash}"));
    branch.map_err(|error| stuck("InvalidBranch", error.to_string()))
}

fn proposal(change: &Change, base: &BranchName) -> Result<Proposal, Failure> {
    let created = change.metadata.creation_timestamp.as_ref();
    Ok(Proposal {
        base: base.clone(),
        branch: branch(change)?,
        message: Message {
            title: title(change),
            body: String::new(),
            promotion: uid(change).to_owned(),
            owner: format!("change {}", key(change)),
        },
        at: created.map(|time| time.0).unwrap_or_default(),
        alteration: Alteration::File {
            path: change.spec.path.clone(),
            content: change.spec.content.clone().into_bytes(),
        },
        // Which files may change was asked before.
        paths: PathLimits::default(),
        replaceable: None,
    })
}

fn title(change: &Change) -> String {
    one_line(&change.spec.title)
}

/// Names are quoted so that they are read as they are.
fn body(change: &Change) -> String {
    let plain = |text: &str| one_line(text).replace('`', "'");
    let by = change.spec.by.as_deref().map(plain);
    let by = by.map_or(String::new(), |by| format!(", asked for by `{by}`"));
    let (path, key) = (plain(&change.spec.path), key(change));
    format!(
        "Proposes `{path}`{by}.\n\nThis is Change `{key}`; closing it unmerged abandons that.\n\n\
         {TRAILER}{}\n",
        uid(change)
    )
}

fn key(change: &Change) -> String {
    let namespace = change.namespace().unwrap_or_default();
    format!("{namespace}/{}", change.name_any())
}

fn uid(change: &Change) -> &str {
    change.metadata.uid.as_deref().unwrap_or_default()
}

/// Whether a pull request is this change's: by the uid in its text, or, where somebody removed that,
/// by its address.
fn is_own(change: &Change, pull: &PullRequest) -> bool {
    let mut lines = pull.body.lines().rev();
    match lines.find_map(|line| line.trim().strip_prefix(TRAILER)) {
        Some(named) => named == uid(change),
        None => {
            let status = change.status.as_ref();
            status.and_then(|status| status.url.as_ref()) == Some(&pull.url)
        }
    }
}

fn seen(pull: PullRequest) -> PullRequestSeen {
    let url = pull.url;
    match pull.state {
        State::Open => PullRequestSeen::Open {
            url,
            is_current: true,
            changed_by_others: false,
        },
        State::Merged => PullRequestSeen::Merged { url, commit: None },
        State::Closed => PullRequestSeen::Closed { url },
    }
}
