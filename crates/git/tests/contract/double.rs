//! A double of a forge or a real one, clients that talk to it, and what people do to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use git::credentials::Credentials;
use git::forge::{self, Error, Forge, ForgeProduct, MergeOptions, MergeResult, NewPullRequest};
use git::names::{BranchName, ObjectId};
use git::repository_url::RepositoryUrl;
use net::{AddressPolicy, OutboundHttp};
use parking_lot::Mutex;
use serde_json::json;
use testbed::forge_doubles::{
    ForgeState, InjectedFault, PROJECT, SharedForgeState, StoredCommit, StoredPullRequest, TOKEN,
    serve,
};

use crate::real::{RealRepository, commit};

pub(crate) const BRANCH: &str = "promotion-team-app-prod";

/// What Gitea says while it looks for conflicts, and where it found some.
pub(crate) const LATER: &str = "try again later";

const ANY_ADDRESS: AddressPolicy = AddressPolicy::UNRESTRICTED;

/// What a forge does not have, or does in its own way.
#[derive(Clone, Copy)]
pub(crate) struct ForgeFeatures {
    pub(crate) has_labels: bool,
    pub(crate) asks_teams: bool,
    pub(crate) reopens: bool,
    /// It can merge by itself later, and shows whether it will.
    pub(crate) merges_later: bool,
    /// It does not say whether checks will come, and is looked at twice.
    pub(crate) is_looked_at_twice: bool,
    /// It opens no pull request whose branches are the same commit.
    pub(crate) refuses_equal_branches: bool,
    /// It says that a pull request to comment on, or the commit of a status, is not there.
    pub(crate) misses_comments: bool,
    /// Its lists name whole commits.
    pub(crate) lists_commits: bool,
    pub(crate) has_validators: bool,
}

pub(crate) fn features(kind: ForgeProduct) -> ForgeFeatures {
    let is_bitbucket = matches!(
        kind,
        ForgeProduct::BitbucketServer | ForgeProduct::BitbucketCloud
    );
    ForgeFeatures {
        has_labels: !is_bitbucket,
        asks_teams: !is_bitbucket && kind != ForgeProduct::GitLab,
        reopens: kind != ForgeProduct::BitbucketCloud,
        merges_later: !is_bitbucket && kind != ForgeProduct::Gitea,
        is_looked_at_twice: kind == ForgeProduct::GitLab,
        misses_comments: kind != ForgeProduct::Gitea,
        refuses_equal_branches: kind != ForgeProduct::Gitea,
        lists_commits: kind != ForgeProduct::BitbucketCloud,
        has_validators: matches!(kind, ForgeProduct::GitHub | ForgeProduct::GitLab),
    }
}

/// A double that listens, and forges that talk to it.
pub(crate) struct ForgeDouble {
    /// The state of the double. For a real forge only faults, counts and the remark.
    pub(crate) state: SharedForgeState,
    pub(crate) real: Option<RealRepository>,
    pub(crate) kind: ForgeProduct,
    pub(crate) address: String,
    pub(crate) http: Arc<OutboundHttp>,
}

impl ForgeDouble {
    pub(crate) async fn start(kind: ForgeProduct, router: fn(SharedForgeState) -> Router) -> Self {
        testbed::tls::install_provider();
        let mut state = ForgeState::default();
        state.branches.insert("main".to_owned(), "a".repeat(40));
        state.branches.insert(BRANCH.to_owned(), "b".repeat(40));
        let state: SharedForgeState = Arc::new(Mutex::new(state));
        let address = serve(&state, router).await;
        Self::at(state, None, kind, address)
    }

    /// A repository on a real Gitea, behind a proxy that injects faults.
    pub(crate) async fn start_gitea() -> Self {
        testbed::tls::install_provider();
        let real = RealRepository::create().await;
        let state = SharedForgeState::default();
        let address = serve(&state, |_| real.proxy()).await;
        Self::at(state, Some(real), ForgeProduct::Gitea, address)
    }

    fn at(
        state: SharedForgeState,
        real: Option<RealRepository>,
        kind: ForgeProduct,
        address: String,
    ) -> Self {
        let http = OutboundHttp::new(ANY_ADDRESS).with_timeout(Duration::from_secs(60));
        Self {
            state,
            real,
            kind,
            address,
            http: Arc::new(http),
        }
    }

    /// Where people would clone the repository from, and what else the secret has to say.
    fn address_of(&self, project: &str) -> (String, Option<String>) {
        let address = &self.address;
        match self.kind {
            ForgeProduct::BitbucketServer => (format!("{address}/scm/{project}.git"), None),
            ForgeProduct::BitbucketCloud => {
                let url = format!("https://bitbucket.org/{project}.git");
                (url, Some(format!("{address}/2.0")))
            }
            ForgeProduct::AzureDevOps => {
                let (project, name) = project.split_once('/').expect("two parts");
                (format!("{address}/collection/{project}/_git/{name}"), None)
            }
            _ => (format!("{address}/{project}.git"), None),
        }
    }

    /// The forge as who has this token sees this repository.
    pub(crate) fn forge_of(
        &self,
        project: &str,
        token: &str,
        http: &Arc<OutboundHttp>,
    ) -> Box<dyn Forge> {
        let (url, api) = self.address_of(project);
        let url = RepositoryUrl::parse(&url, ANY_ADDRESS).expect("a URL");
        let mut entries: BTreeMap<String, Vec<u8>> =
            [("token".to_owned(), token.as_bytes().to_vec())].into();
        entries.extend(api.map(|api| ("apiURL".to_owned(), api.into_bytes())));
        let login = Credentials::from_entries(&entries).expect("credentials");
        forge::open(self.kind, http, &url, &login).expect("a forge")
    }

    pub(crate) fn features(&self) -> ForgeFeatures {
        features(self.kind)
    }

    pub(crate) fn remark(&self, remark: &'static str) {
        self.state.lock().remark = Some(remark);
    }

    pub(crate) fn forge(&self) -> Box<dyn Forge> {
        self.forge_of(self.project(), self.token(), &self.http)
    }

    pub(crate) fn project(&self) -> &str {
        self.real.as_ref().map_or(PROJECT, |real| &real.project)
    }

    pub(crate) fn token(&self) -> &str {
        self.real.as_ref().map_or(TOKEN, RealRepository::token)
    }

    pub(crate) fn fail_next(&self, fault: InjectedFault) {
        self.state.lock().faults.push_back(fault);
    }

    pub(crate) fn requests(&self) -> usize {
        self.state.lock().requests
    }
}

/// What people and other programs do to the repository.
impl ForgeDouble {
    /// The commit of the branch.
    pub(crate) async fn tip(&self) -> ObjectId {
        match &self.real {
            Some(real) => real.tip(BRANCH).await,
            None => ObjectId::new(self.state.lock().commit_of(BRANCH)).expect("an id"),
        }
    }

    /// Makes the branch the same commit as its base.
    pub(crate) async fn equal_branches(&self) {
        match &self.real {
            Some(real) => {
                real.import(&format!(
                    "reset refs/heads/{BRANCH}\nfrom refs/heads/main\n\n"
                ))
                .await;
            }
            None => self.set_branch(BRANCH, &"a".repeat(40)),
        }
    }

    /// Replaces the commit of the branch.
    pub(crate) async fn force_push(&self) {
        match &self.real {
            Some(real) => real.force_push().await,
            None => self.set_branch(BRANCH, &"f".repeat(40)),
        }
    }

    /// Deletes the branch, which closes its open pull request.
    pub(crate) async fn delete_branch(&self) {
        match &self.real {
            Some(real) => real.delete_branch().await,
            None => self.state.lock().delete_branch(BRANCH),
        }
    }

    /// A token of our user with these scopes.
    pub(crate) async fn token_with(&self, scopes: &[&str]) -> String {
        match &self.real {
            Some(real) => real.token_with(scopes).await,
            None => testbed::forge_doubles::token_with(scopes),
        }
    }

    /// A token, with all scopes, of a user who may read the repository and not write to it.
    pub(crate) async fn token_of_reader(&self) -> String {
        match &self.real {
            Some(real) => real.token_of_reader().await,
            None => testbed::forge_doubles::READER_TOKEN.to_owned(),
        }
    }

    pub(crate) async fn forbid_squash(&self) {
        match &self.real {
            Some(real) => {
                let settings = json!({"allow_squash_merge": false});
                real.administer("PATCH", "", settings).await;
            }
            None => self.state.lock().forbids_squash = true,
        }
    }

    fn set_branch(&self, name: &str, commit: &str) {
        let mut state = self.state.lock();
        state.branches.insert(name.to_owned(), commit.to_owned());
    }

    /// Opens many other pull requests and ends some of them; how many stay open.
    pub(crate) async fn open_hundreds(&self) -> usize {
        let Some(real) = &self.real else {
            for number in 0..260 {
                let mut state = self.state.lock();
                let name = format!("other-{number}");
                let opened = state.open("other", "", &name, "main").expect("another");
                if number % 2 == 0 {
                    state.merge(opened.number);
                }
            }
            return 130;
        };
        // More than one page of open ones.
        let others = real.open_others(58).await;
        for number in others.iter().take(6) {
            real.close(*number).await;
        }
        52
    }

    /// Opens more pull requests than fit on a page.
    pub(crate) async fn open_another_page(&self) {
        match &self.real {
            Some(real) => {
                real.open_others(51).await;
            }
            None => {
                for number in 0..120 {
                    let name = format!("other-{number}");
                    let opened = self.state.lock().open("other", "", &name, "main");
                    opened.expect("another");
                }
            }
        }
    }

    pub(crate) async fn open_from_fork(&self) {
        if let Some(real) = &self.real {
            return real.open_from_fork().await;
        }
        let mut state = self.state.lock();
        let opened = state.open("from a fork", "team/app/prod", BRANCH, "main");
        let number = opened.expect("one").number;
        state.find(number).expect("it is there").head_project = "team/fork".to_owned();
    }

    /// Somebody else merges it.
    pub(crate) async fn merge_by_person(&self, number: u64) {
        match &self.real {
            Some(real) => real.merge(number).await,
            None => self.state.lock().merge(number),
        }
    }

    /// Merges it as soon as the forge knows whether it can be merged. A real Gitea looks again in the
    /// background after each change of branches and rules.
    pub(crate) async fn merge(
        &self,
        forge: &dyn Forge,
        number: u64,
        options: &MergeOptions,
    ) -> Result<MergeResult, Error> {
        let began = std::time::Instant::now();
        loop {
            let merged = forge.merge(number, options).await;
            let is_looking = |error: &Error| error.to_string().contains(LATER);
            let is_early = self.real.is_some() && merged.as_ref().is_err_and(is_looking);
            if !is_early || began.elapsed() > Duration::from_secs(60) {
                return merged;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the forge knows whether it can be merged.
    pub(crate) async fn until_mergeable(&self, number: u64) {
        if let Some(real) = &self.real {
            real.until_mergeable(number).await;
        }
    }

    pub(crate) async fn make_conflict(&self) {
        match &self.real {
            Some(real) => {
                let other = commit("main", "main", "Conflict", "3.0.0\n");
                real.import(&other).await;
            }
            None => self.state.lock().has_conflicts = true,
        }
    }

    pub(crate) async fn set_pending_checks(&self, are_pending: bool) {
        match &self.real {
            Some(real) => {
                let state = if are_pending { "pending" } else { "success" };
                real.set_check(state).await;
            }
            None => self.state.lock().has_pending_checks = are_pending,
        }
    }

    /// Whether branch protection keeps our user from merging.
    pub(crate) async fn set_protected(&self, is_protected: bool) {
        match &self.real {
            Some(real) if is_protected => {
                let rule = json!({
                    "enable_merge_whitelist": true, "merge_whitelist_usernames": ["ann"],
                });
                real.protect(&rule).await;
            }
            Some(real) => real.unprotect().await,
            None => self.state.lock().is_protected = is_protected,
        }
    }

    /// Creates the labels `label-0` to `label-69`.
    pub(crate) async fn create_labels(&self) {
        for name in (0..70).map(|number| format!("label-{number}")) {
            match &self.real {
                Some(real) => {
                    let label = json!({"name": name, "color": "#00ff00"});
                    real.administer("POST", "/labels", label).await;
                }
                None => self.state.lock().labels.push(name),
            }
        }
    }

    /// The pull request as the forge has it.
    pub(crate) async fn stored(&self, number: u64) -> StoredPullRequest {
        match &self.real {
            Some(real) => real.stored(number).await,
            None => self.state.lock().find(number).expect("stored").clone(),
        }
    }

    /// The newest status of each context on the commit of the branch.
    pub(crate) async fn statuses(&self) -> Vec<String> {
        match &self.real {
            Some(real) => real.statuses().await,
            None => self.state.lock().statuses_of(tip().as_str()),
        }
    }

    /// Somebody comments more often than fits on a page, where the forge has pages; how often.
    pub(crate) async fn comment_often(&self, number: u64, text: &str) -> usize {
        let Some(real) = &self.real else {
            let mut state = self.state.lock();
            let pull = state.find(number).expect("it is there");
            pull.comments.extend(vec![text.to_owned(); 130]);
            return 130;
        };
        for _ in 0..10 {
            let path = format!("/issues/{number}/comments");
            real.administer("POST", &path, json!({"body": text})).await;
        }
        10
    }

    pub(crate) async fn delete_comments(&self, number: u64) {
        match &self.real {
            Some(real) => real.delete_comments(number).await,
            None => {
                let mut state = self.state.lock();
                state.find(number).expect("it is there").comments.clear();
            }
        }
    }

    /// Commits 150 times; the ids, the oldest first.
    pub(crate) async fn commit_history(&self) -> Vec<ObjectId> {
        let message = |number| format!("Commit {number}\n\nwith a body\n");
        let Some(real) = &self.real else {
            let history = (0..150).map(|number| StoredCommit {
                id: format!("{number:040x}"),
                message: message(number),
                author: "Ann".to_owned(),
            });
            let history: Vec<_> = history.collect();
            let ids = history.iter().map(|it| ObjectId::new(&*it.id));
            let ids = ids.map(|id| id.expect("an id")).collect();
            self.state.lock().history = history;
            return ids;
        };
        let commits = (0..150).map(|number| {
            let from = if number == 0 { "main" } else { "" };
            commit("history", from, &message(number), &format!("{number}\n"))
        });
        real.import(&commits.collect::<String>()).await;
        real.commits("history", 150).await
    }
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::new(name).expect("a branch name")
}

pub(crate) fn tip() -> ObjectId {
    ObjectId::new("b".repeat(40)).expect("an id")
}

pub(crate) fn new_pull() -> NewPullRequest {
    NewPullRequest {
        head: branch(BRANCH),
        base: branch("main"),
        title: "Promote team/app in prod to 2.0.0".to_owned(),
        body: "team/app/prod".to_owned(),
        draft: false,
    }
}
