//! All mirrors of a process, and the removal of those that are old or too large.

use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::{Mirror, remove, short_hash};
use crate::blocking;
use crate::credentials::Credentials;
use crate::forge::AppTokens;
use crate::repository_url::RepositoryUrl;
use crate::runner::{self, GitRunner, directory_size};

/// How long and up to which size mirrors are kept.
#[derive(Clone, Copy, Debug)]
pub struct MirrorRetention {
    /// Size of all mirrors together in bytes.
    pub bytes: u64,
    /// Time since the last use.
    pub age: Duration,
}

impl Default for MirrorRetention {
    fn default() -> Self {
        Self {
            bytes: 8 << 30,
            age: Duration::from_secs(24 * 3600),
        }
    }
}

/// The mirrors below one directory, which only this process uses.
pub struct Mirrors {
    runner: GitRunner,
    folder: PathBuf,
    salt: Vec<u8>,
    retention: MirrorRetention,
    tokens: Arc<AppTokens>,
    open: Mutex<HashMap<String, Arc<Mirror>>>,
}

impl Mirrors {
    /// Uses a directory, including the mirrors of an earlier process in it.
    pub fn new(
        runner: GitRunner,
        folder: &Path,
        retention: MirrorRetention,
        tokens: Arc<AppTokens>,
    ) -> Result<Self, runner::Error> {
        let folder = folder.join("mirrors");
        let prepare = || {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&folder)?;
            salt(&folder.join("salt"))
        };
        let salt = prepare().map_err(|source| runner::Error::Start {
            attempted: "prepare a folder for mirrors".to_owned(),
            source,
        })?;
        Ok(Self {
            runner,
            folder,
            salt,
            retention,
            tokens,
            open: Mutex::default(),
        })
    }

    /// The mirror of a repository for a credential. Accesses neither disk nor network.
    pub fn open(&self, url: &RepositoryUrl, credentials: &Credentials) -> Arc<Mirror> {
        // Salted, so that the name of the directory reveals nothing about the password.
        let name = short_hash(&[
            &self.salt,
            url.as_str().as_bytes(),
            credentials.fingerprint(),
        ]);
        let mut open = self.open.lock();
        let mirror = open.entry(name).or_insert_with_key(|name| {
            let folder = self.folder.join(name);
            let (runner, tokens) = (self.runner.clone(), self.tokens.clone());
            Arc::new(Mirror::new(
                runner,
                folder,
                url.clone(),
                credentials.clone(),
                tokens,
            ))
        });
        mirror.clone()
    }

    /// Removes mirrors that are unused for too long, then the least recently used ones until the
    /// rest fits. Mirrors in use are kept.
    pub async fn remove_unused(&self) {
        let now = SystemTime::now();
        let mut kept = Vec::new();
        for (name, used) in self.list().await {
            let is_old = now
                .duration_since(used)
                .is_ok_and(|age| age > self.retention.age);
            if !(is_old && self.evict(&name).await) {
                kept.push((used, directory_size(&self.folder.join(&name)).await, name));
            }
        }
        kept.sort();
        let mut total: u64 = kept.iter().map(|(_, size, _)| size).sum();
        for (_, size, name) in kept {
            if total <= self.retention.bytes {
                break;
            }
            if self.evict(&name).await {
                total -= size;
            }
        }
    }

    async fn list(&self) -> Vec<(String, SystemTime)> {
        let folder = self.folder.clone();
        let listed = blocking::run(move || list(&folder)).await;
        listed.unwrap_or_default()
    }

    async fn evict(&self, name: &str) -> bool {
        let open = self.open.lock().get(name).cloned();
        let Some(mirror) = open else {
            remove(&self.folder.join(name)).await;
            return true;
        };
        if !mirror.clear().await {
            return false;
        }
        // Other users of the object fetch again; there is only one object per directory.
        let mut open = self.open.lock();
        if Arc::strong_count(&mirror) == 2 {
            open.remove(name);
        }
        true
    }
}

/// The mirrors in a folder, and when they were last used.
fn list(folder: &Path) -> Vec<(String, SystemTime)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mirror = |entry: std::fs::DirEntry| {
        let used = std::fs::metadata(entry.path().join(super::LAST_USE_FILE));
        let used = used.and_then(|used| used.modified());
        let name = entry.file_name().into_string().ok()?;
        Some((name, used.unwrap_or(SystemTime::UNIX_EPOCH)))
    };
    folders.filter_map(mirror).collect()
}

fn salt(path: &Path) -> std::io::Result<Vec<u8>> {
    match std::fs::read(path) {
        Ok(salt) if salt.len() == 32 => return Ok(salt),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut salt = vec![0; 32];
    let random = ring::rand::SystemRandom::new();
    ring::rand::SecureRandom::fill(&random, &mut salt)
        .map_err(|_| std::io::Error::other("no randomness"))?;
    let mut options = std::fs::OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?
        .write_all(&salt)?;
    Ok(salt)
}
