//! Local bare copies of repositories, one per repository and credential, with a depth of one commit.
//!
//! A mirror contains all files of the requested branches and no history. Fetches do not overlap. The
//! markers in files are cached by blob, so that only changed files are parsed again. Mirrors that are
//! unused for long or take too much disk space are removed and fetched again when needed.

mod error;
mod index;
mod remote;
mod store;

pub use error::Error;
pub(crate) use error::classify_failure;
pub use index::SkippedFile;
pub(crate) use index::{list_files, read_blobs};
pub use store::{MirrorRetention, Mirrors};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, RwLock, RwLockReadGuard};

use crate::blocking;
use crate::commit;
use crate::credentials::Credentials;
use crate::forge::AppTokens;
use crate::names::{BranchName, ObjectId};
use crate::repository_url::RepositoryUrl;
use crate::runner::{GitCommand, GitRunner, RemoteAccess};

use index::MarkerIndex;
pub(crate) use index::TreeEntry;

/// After how many fetches unreachable objects are removed.
const FETCHES_BEFORE_GC: u32 = 100;

/// The largest file that is edited, in bytes.
pub(crate) const MAX_FILE_SIZE: u64 = 1 << 20;

/// The default user name for a token.
const TOKEN_USER: &str = "x-access-token";

/// A file whose modification time is that of the last use.
const LAST_USE_FILE: &str = "used";

/// How many requests a mirror has sent to its remote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteRequestCounts {
    /// Lists of branches.
    pub lists: u64,
    /// Transfers of new commits.
    pub fetches: u64,
    /// Pushes.
    pub pushes: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    lists: AtomicU64,
    fetches: AtomicU64,
    pub(crate) pushes: AtomicU64,
}

/// The mirror of one repository for one credential.
pub struct Mirror {
    pub(crate) runner: GitRunner,
    pub(crate) folder: PathBuf,
    pub(crate) url: RepositoryUrl,
    pub(crate) credentials: Credentials,
    tokens: Arc<AppTokens>,
    /// Locked during a fetch.
    state: Mutex<MirrorState>,
    /// Locked for reading while objects are used, for writing while they are removed.
    objects: RwLock<()>,
    pub(crate) counters: Counters,
    may_be_damaged: AtomicBool,
}

#[derive(Default)]
struct MirrorState {
    is_ready: bool,
    branches: BTreeMap<BranchName, ObjectId>,
    index: MarkerIndex,
    fetches_since_gc: u32,
}

/// Prevents the removal of objects while it is held.
pub(crate) type ObjectsInUse<'a> = RwLockReadGuard<'a, ()>;

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
            may_be_damaged: AtomicBool::new(false),
        }
    }

    /// The requests that were sent to the remote so far.
    pub fn remote_requests(&self) -> RemoteRequestCounts {
        RemoteRequestCounts {
            lists: self.counters.lists.load(Ordering::Relaxed),
            fetches: self.counters.fetches.load(Ordering::Relaxed),
            pushes: self.counters.pushes.load(Ordering::Relaxed),
        }
    }

    pub(crate) async fn use_objects(&self) -> ObjectsInUse<'_> {
        self.objects.read().await
    }

    /// Current credentials and addresses for the remote.
    pub(crate) async fn access(&self) -> Result<RemoteAccess, Error> {
        let proxy = self.runner.proxy_for(&self.url);
        let addresses = match &proxy {
            Some(_) => Vec::new(),
            None => self.url.resolve(self.runner.policy()).await?,
        };
        let user = |secret| self.credentials.git_user(self.url.host(), secret);
        let basic_auth = match (
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
        let access = RemoteAccess::new(
            &self.url,
            basic_auth,
            self.credentials.ssh.clone(),
            authority,
        );
        Ok(match proxy {
            Some(proxy) => access.through_proxy(proxy),
            None => access.pinned_to(&self.url, &addresses),
        })
    }

    /// Fetches the head commits of branches. Branches that do not exist are absent.
    pub(crate) async fn refresh(
        &self,
        access: &RemoteAccess,
        wanted: &[&BranchName],
    ) -> Result<BTreeMap<BranchName, ObjectId>, Error> {
        let mut state = self.state.lock().await;
        self.prepare(&mut state).await?;
        // If this fails, the mirror is only removed earlier.
        let file = self.folder.join(LAST_USE_FILE);
        let _ = blocking::on_files(move || std::fs::write(file, b"")).await;
        self.counters.lists.fetch_add(1, Ordering::Relaxed);
        let remote = remote::list_branches(self, access, wanted).await?;
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
            state.fetches_since_gc += 1;
        }
        let tips = wanted.iter().filter(|branch| remote.contains_key(**branch));
        let tips = tips
            .filter_map(|branch| Some(((*branch).clone(), state.branches.get(*branch)?.clone())));
        Ok(tips.collect())
    }

    /// Lists the head commits of branches on the remote without fetching them. Branches that do not
    /// exist are absent.
    pub async fn tips(
        &self,
        wanted: &[&BranchName],
    ) -> Result<BTreeMap<BranchName, ObjectId>, Error> {
        let access = self.access().await?;
        let _objects = self.use_objects().await;
        self.prepare(&mut *self.state.lock().await).await?;
        self.counters.lists.fetch_add(1, Ordering::Relaxed);
        remote::list_branches(self, &access, wanted).await
    }

    /// Checks that the credentials may push and that their key can sign, without pushing anything.
    pub async fn check_push(&self) -> Result<(), Error> {
        let access = self.access().await?;
        let _objects = self.use_objects().await;
        self.prepare(&mut *self.state.lock().await).await?;
        remote::check_push(self, &access).await?;
        commit::check_signing(self).await
    }

    /// Marks the mirror to be fetched again, after a failure that may be due to damaged files.
    pub(crate) fn mark_damaged(&self) {
        self.may_be_damaged.store(true, Ordering::Relaxed);
    }

    /// Updates the mirror after a push.
    pub(crate) async fn record_push(
        &self,
        branch: &BranchName,
        commit: &ObjectId,
    ) -> Result<(), Error> {
        let mut state = self.state.lock().await;
        let reference = local_reference(branch);
        let arguments = ["update-ref", "--", &reference, commit.as_str()];
        self.runner
            .run(GitCommand::new("record a push", &self.folder, &arguments))
            .await?;
        state.branches.insert(branch.clone(), commit.clone());
        Ok(())
    }

    /// The files of a commit that contain a marker, and those that could not be read.
    pub(crate) async fn files_with_marker(
        &self,
        commit: &ObjectId,
        marker: &str,
    ) -> Result<(Vec<TreeEntry>, Vec<SkippedFile>), Error> {
        let mut state = self.state.lock().await;
        index::files_with_marker(self, &mut state.index, commit, marker).await
    }

    /// Creates the repository on disk if it does not exist.
    async fn prepare(&self, state: &mut MirrorState) -> Result<(), Error> {
        let head = self.folder.join("HEAD");
        let is_there = blocking::on_files(move || head.try_exists()).await;
        let is_there = is_there.unwrap_or(false);
        if state.is_ready && is_there {
            return Ok(());
        }
        if !is_there {
            // Incomplete after a crash, or removed.
            remove(&self.folder).await;
            let arguments = [
                "init",
                "--quiet",
                "--bare",
                "--template=",
                "--initial-branch=none",
            ];
            self.runner
                .run(GitCommand::new("create a mirror", &self.folder, &arguments))
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
            .run_for_text(GitCommand::new(
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

    /// Removes a damaged mirror, and runs `git gc` now and then; both only while it is not in use.
    pub(crate) async fn maintain(&self) {
        if self.may_be_damaged.load(Ordering::Relaxed) && self.clear().await {
            self.may_be_damaged.store(false, Ordering::Relaxed);
        }
        self.collect_garbage().await;
    }

    async fn collect_garbage(&self) {
        let (Ok(mut state), Ok(_exclusive)) = (self.state.try_lock(), self.objects.try_write())
        else {
            return;
        };
        if state.fetches_since_gc < FETCHES_BEFORE_GC {
            return;
        }
        state.fetches_since_gc = 0;
        let run = GitCommand::new(
            "run git gc in a mirror",
            &self.folder,
            &["gc", "--quiet", "--prune=now"],
        );
        if let Err(error) = self.runner.run(run).await {
            tracing::warn!(url = %self.url, %error, "could not run git gc in the mirror");
        }
    }

    /// Removes all files, unless the mirror is in use. Returns whether it did.
    pub(crate) async fn clear(&self) -> bool {
        let (Ok(mut state), Ok(_exclusive)) = (self.state.try_lock(), self.objects.try_write())
        else {
            return false;
        };
        *state = MirrorState::default();
        remove(&self.folder).await;
        true
    }
}

/// The local reference of a branch of the remote.
pub(crate) fn local_reference(branch: &BranchName) -> String {
    format!("refs/mirror/{branch}")
}

async fn remove(folder: &Path) {
    let gone = folder.to_owned();
    if let Err(error) = blocking::on_files(move || std::fs::remove_dir_all(gone)).await
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), %error, "could not remove the directory of the mirror");
    }
}

/// Removes the lock files of git processes that were killed. No other process uses this directory.
async fn remove_stale_locks(folder: &Path) {
    let names = [
        "shallow.lock",
        "packed-refs.lock",
        "config.lock",
        "HEAD.lock",
    ];
    let locks = names.map(|name| folder.join(name));
    let remove = move || {
        locks
            .iter()
            .for_each(|lock| drop(std::fs::remove_file(lock)))
    };
    blocking::run(remove).await;
}

/// A hash of the parts in 32 hexadecimal digits.
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
