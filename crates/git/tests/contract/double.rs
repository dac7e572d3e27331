//! A double of a forge, and clients that talk to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use git::credentials::Credentials;
use git::forge::{self, Forge, ForgeProduct, NewPullRequest};
use git::names::{BranchName, ObjectId};
use git::repository_url::RepositoryUrl;
use net::{AddressPolicy, OutboundHttp};
use parking_lot::Mutex;
use testbed::forge_doubles::{ForgeState, InjectedFault, PROJECT, SharedForgeState, TOKEN, serve};

pub(crate) const BRANCH: &str = "promotion-team-app-prod";

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
        lists_commits: kind != ForgeProduct::BitbucketCloud,
        has_validators: matches!(kind, ForgeProduct::GitHub | ForgeProduct::GitLab),
    }
}

/// A double that listens, and forges that talk to it.
pub(crate) struct ForgeDouble {
    pub(crate) state: SharedForgeState,
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
        let http = OutboundHttp::new(ANY_ADDRESS).with_timeout(Duration::from_secs(20));
        Self {
            state,
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
        self.forge_of(PROJECT, TOKEN, &self.http)
    }

    pub(crate) fn fail_next(&self, fault: InjectedFault) {
        self.state.lock().faults.push_back(fault);
    }

    pub(crate) fn requests(&self) -> usize {
        self.state.lock().requests
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
