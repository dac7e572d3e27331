//! Mirrors: one bare copy per repository and credential, as deep as one commit.
//!
//! A mirror holds every file of the branches it was asked for and no history. One fetch is under
//! way at a time; what is in the files is remembered by blob, so that a fetch re-reads only what
//! changed. Mirrors that are old or take too much room are removed; losing one costs a fetch.

mod error;
mod index;
mod remote;
mod store;

pub use error::Error;
pub(crate) use error::sort;
pub use index::SkippedFile;
pub(crate) use index::{list, read};
pub use store::{MirrorRetention, Mirrors};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, RwLock, RwLockReadGuard};

use crate::credentials::Credentials;
use crate::forge::AppTokens;
use crate::names::{BranchName, ObjectId};
use crate::repository_url::RepositoryUrl;
use crate::runner::{Access, GitRunner, Run};

pub(crate) use index::Entry;
use index::MarkerIndex;

/// After how many fetches what is no longer needed is thrown out.
const FETCHES_BEFORE_CLEANING: u32 = 100;

/// A file must not be larger than this to be edited.
pub(crate) const FILE_LIMIT: u64 = 1 << 20;

/// The name that goes with a token.
const TOKEN_USER: &str = "x-access-token";

/// A file that is written at every use, for its time.
const USED: &str = "used";

/// How often a mirror talked to its remote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Lists of branches.
    pub looks: u64,
    /// Transfers of new commits.
    pub fetches: u64,
    /// Pushes.
    pub pushes: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    looks: AtomicU64,
    fetches: AtomicU64,
    pub(crate) pushes: AtomicU64,
}

/// One repository as one credential sees it.
pub struct Mirror {
    pub(crate) runner: GitRunner,
    pub(crate) folder: PathBuf,
    pub(crate) url: RepositoryUrl,
    credentials: Credentials,
    tokens: Arc<AppTokens>,
    /// Held while fetching.
    state: Mutex<State>,
    /// Read while objects are in use, written while they are thrown out.
    objects: RwLock<()>,
    pub(crate) counters: Counters,
    is_distrusted: AtomicBool,
}

#[derive(Default)]
struct State {
    is_ready: bool,
    branches: BTreeMap<BranchName, ObjectId>,
    index: MarkerIndex,
    fetches_since_cleaning: u32,
}

/// Keeps the objects of a mirror from being thrown out.
pub(crate) type InUse<'a> = RwLockReadGuard<'a, ()>;

impl Mirror {
    pub(crate) fn new(
        runner: GitRunner,
        folder: PathBuf,
        url: RepositoryUrl,
        credentials: Credentials,
        tokens: Arc<AppTokens>,
    ) -> Self {
        Self {
            runner,
            folder,
            url,
            credentials,
            tokens,
            state: Mutex::default(),
            objects: RwLock::default(),
            counters: Counters::default(),
            is_distrusted: AtomicBool::new(false),
        }
    }

    /// How often the remote was asked so far.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            looks: self.counters.looks.load(Ordering::Relaxed),
            fetches: self.counters.fetches.load(Ordering::Relaxed),
            pushes: self.counters.pushes.load(Ordering::Relaxed),
        }
    }

    pub(crate) async fn hold(&self) -> InUse<'_> {
        self.objects.read().await
    }

    /// Who we are to the remote, right now.
    pub(crate) async fn access(&self) -> Result<Access, Error> {
        let proxy = self.runner.proxy_to(&self.url);
        let addresses = match &proxy {
            Some(_) => Vec::new(),
            None => self.url.resolve(self.runner.policy()).await?,
        };
        let user = |secret| self.credentials.git_user(self.url.host(), secret);
        let login = match (
            &self.credentials.password,
            &self.credentials.app,
            &self.credentials.token,
        ) {
            (Some((username, password)), ..) => {
                let user = user(password).unwrap_or(username);
                Some((user.to_owned(), password.clone()))
            }
            (None, Some(app), _) => {
                let token = self
                    .tokens
                    .token(app)
                    .await
                    .map_err(|source| Error::Token { source })?;
                Some((TOKEN_USER.to_owned(), token))
            }
            (None, None, Some(token)) => {
                let user = user(token).unwrap_or(TOKEN_USER);
                Some((user.to_owned(), token.clone()))
            }
            (None, None, None) => None,
        };
        let authority = self.credentials.certificate_authority.clone();
        let access = Access::new(&self.url, login, self.credentials.ssh.clone(), authority);
        Ok(match proxy {
            Some(proxy) => access.through(proxy),
            None => access.tied_to(&self.url, &addresses),
        })
    }

    /// Asks the remote where the branches are and brings their tips here. Branches that do not
    /// exist are absent from the answer.
    pub(crate) async fn refresh(
        &self,
        access: &Access,
        wanted: &[&BranchName],
    ) -> Result<BTreeMap<BranchName, ObjectId>, Error> {
        let mut state = self.state.lock().await;
        self.prepare(&mut state).await?;
        // Without it the mirror only looks older than it is.
        let _ = tokio::fs::write(self.folder.join(USED), b"").await;
        self.counters.looks.fetch_add(1, Ordering::Relaxed);
        let remote = remote::look(self, access, wanted).await?;
        let is_new =
            |(branch, id): &(&BranchName, &ObjectId)| state.branches.get(branch) != Some(id);
        let missing: Vec<&BranchName> = remote
            .iter()
            .filter(is_new)
            .map(|(branch, _)| branch)
            .collect();
        if !missing.is_empty() {
            self.counters.fetches.fetch_add(1, Ordering::Relaxed);
            remote::fetch(self, access, &missing).await?;
            state.branches = self.local_branches().await?;
            state.fetches_since_cleaning += 1;
        }
        let tips = wanted.iter().filter(|branch| remote.contains_key(**branch));
        let tips = tips
            .filter_map(|branch| Some(((*branch).clone(), state.branches.get(*branch)?.clone())));
        Ok(tips.collect())
    }

    /// Asks the remote where the branches are, without fetching them. Branches that do not exist are
    /// absent from the answer.
    pub async fn tips(
        &self,
        wanted: &[&BranchName],
    ) -> Result<BTreeMap<BranchName, ObjectId>, Error> {
        let access = self.access().await?;
        let _in_use = self.hold().await;
        self.prepare(&mut *self.state.lock().await).await?;
        self.counters.looks.fetch_add(1, Ordering::Relaxed);
        remote::look(self, &access, wanted).await
    }

    /// After a failure that is git's own, not the remote's: next time starts with a new mirror. It
    /// costs one fetch, and no damage can last.
    pub(crate) fn distrust(&self) {
        self.is_distrusted.store(true, Ordering::Relaxed);
    }

    /// Remembers that the remote now has what we pushed.
    pub(crate) async fn pushed(&self, branch: &BranchName, commit: &ObjectId) -> Result<(), Error> {
        let mut state = self.state.lock().await;
        let reference = local_reference(branch);
        let arguments = ["update-ref", "--", &reference, commit.as_str()];
        self.runner
            .run(Run::new("note what was pushed", &self.folder, &arguments))
            .await?;
        state.branches.insert(branch.clone(), commit.clone());
        Ok(())
    }

    /// The files of a commit that carry a marker, and those that could not be read.
    pub(crate) async fn marked(
        &self,
        commit: &ObjectId,
        marker: &str,
    ) -> Result<(Vec<Entry>, Vec<SkippedFile>), Error> {
        let mut state = self.state.lock().await;
        index::marked(self, &mut state.index, commit, marker).await
    }

    async fn prepare(&self, state: &mut State) -> Result<(), Error> {
        let is_there = tokio::fs::try_exists(self.folder.join("HEAD"))
            .await
            .unwrap_or(false);
        if state.is_ready && is_there {
            return Ok(());
        }
        if !is_there {
            // Left half made by a crash, or evicted.
            remove(&self.folder).await;
            let arguments = [
                "init",
                "--quiet",
                "--bare",
                "--template=",
                "--initial-branch=none",
            ];
            self.runner
                .run(Run::new("create a mirror", &self.folder, &arguments))
                .await?;
        }
        remove_stale_locks(&self.folder).await;
        state.branches = self.local_branches().await?;
        state.is_ready = true;
        Ok(())
    }

    async fn local_branches(&self) -> Result<BTreeMap<BranchName, ObjectId>, Error> {
        let arguments = [
            "for-each-ref",
            "--format=%(objectname) %(refname)",
            "--",
            "refs/mirror/",
        ];
        let listed = self
            .runner
            .line(Run::new(
                "list a mirror's branches",
                &self.folder,
                &arguments,
            ))
            .await?;
        let parse = |line: &str| {
            let (id, name) = line.split_once(' ')?;
            let name = name.strip_prefix("refs/mirror/")?;
            Some((BranchName::new(name).ok()?, ObjectId::new(id).ok()?))
        };
        Ok(listed.lines().filter_map(parse).collect())
    }

    /// Makes a distrusted mirror anew as soon as nobody uses it, and throws out what nobody needs
    /// now and then. Failing at either costs only time and room.
    pub(crate) async fn tidy(&self) {
        if self.is_distrusted.load(Ordering::Relaxed) && self.empty().await {
            self.is_distrusted.store(false, Ordering::Relaxed);
        }
        self.clean_sometimes().await;
    }

    async fn clean_sometimes(&self) {
        let (Ok(mut state), Ok(_alone)) = (self.state.try_lock(), self.objects.try_write()) else {
            return;
        };
        if state.fetches_since_cleaning < FETCHES_BEFORE_CLEANING {
            return;
        }
        state.fetches_since_cleaning = 0;
        let run = Run::new(
            "clean a mirror",
            &self.folder,
            &["gc", "--quiet", "--prune=now"],
        );
        if let Err(error) = self.runner.run(run).await {
            tracing::warn!(url = %self.url, %error, "mirror not cleaned");
        }
    }

    /// Forgets everything, unless somebody is using it.
    pub(crate) async fn empty(&self) -> bool {
        let (Ok(mut state), Ok(_alone)) = (self.state.try_lock(), self.objects.try_write()) else {
            return false;
        };
        *state = State::default();
        remove(&self.folder).await;
        true
    }
}

/// Where a remote's branch is kept here.
pub(crate) fn local_reference(branch: &BranchName) -> String {
    format!("refs/mirror/{branch}")
}

async fn remove(folder: &Path) {
    if let Err(error) = tokio::fs::remove_dir_all(folder).await
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), %error, "mirror not removed");
    }
}

/// A git that was killed leaves its locks behind; nobody else works in this folder.
async fn remove_stale_locks(folder: &Path) {
    for name in [
        "shallow.lock",
        "packed-refs.lock",
        "config.lock",
        "HEAD.lock",
    ] {
        let _ = tokio::fs::remove_file(folder.join(name)).await;
    }
}

/// 32 hexadecimal digits that stand for the parts.
pub(crate) fn short_hash(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize()
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
