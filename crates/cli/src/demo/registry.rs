//! How `sluice demo env` and `sluice demo push` find the demos that run.
//!
//! Each demo that runs has a file with the path of its folder, and holds a lock on it. The files are
//! in a folder that only this user can read and write; one that others can write to is never read,
//! because what is in it ends up in this user's shell.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, bail, ensure};

/// The start of the names of files that are not complete yet.
const INCOMPLETE: &str = ".new-";

/// The registry of this user.
pub(super) struct Registry {
    folder: PathBuf,
    user: u32,
}

/// A demo can be found while this is there.
pub(super) struct Registration {
    file: PathBuf,
    /// Locked: whoever can lock the file knows that its demo has ended.
    _lock: File,
}

impl Registry {
    pub(super) fn of_this_user() -> anyhow::Result<Self> {
        let user = user().context("cannot find out who runs this")?;
        let shared = match (
            std::env::var_os("TMPDIR"),
            std::env::var_os("XDG_RUNTIME_DIR"),
        ) {
            (None, Some(private)) => PathBuf::from(private),
            _ => std::env::temp_dir(),
        };
        let folder = shared.join(format!("sluice-demos-{user}"));
        Ok(Self { folder, user })
    }

    /// Lets others find the demo in a folder.
    pub(super) fn register(&self, demo: &Path) -> anyhow::Result<Registration> {
        let attempted = || format!("cannot register the demo in {}", self.folder.display());
        match fs::DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).with_context(attempted);
            }
            _ => self.check_private()?,
        }
        self.write(demo).with_context(attempted)
    }

    fn write(&self, demo: &Path) -> io::Result<Registration> {
        let mut file = tempfile::Builder::new()
            .prefix(INCOMPLETE)
            .tempfile_in(&self.folder)?;
        file.as_file().lock()?;
        file.write_all(demo.as_os_str().as_encoded_bytes())?;
        let path = self.folder.join(file_name(demo));
        let lock = file.persist(&path).map_err(|error| error.error)?;
        Ok(Registration {
            file: path,
            _lock: lock,
        })
    }

    /// The folders of the demos that run, the one that was started last at the end.
    pub(super) fn running(&self) -> anyhow::Result<Vec<PathBuf>> {
        if !self.folder.exists() {
            return Ok(Vec::new());
        }
        self.check_private()?;
        let unreadable = || format!("cannot read {}", self.folder.display());
        let mut running: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder).with_context(unreadable)? {
            let path = entry.with_context(unreadable)?.path();
            running.extend(demo(&path).with_context(unreadable)?);
        }
        running.sort();
        Ok(running.into_iter().map(|(_, folder)| folder).collect())
    }

    /// Refuses a folder that somebody else made or may write to.
    fn check_private(&self) -> anyhow::Result<()> {
        let folder = self.folder.display();
        let found = fs::symlink_metadata(&self.folder);
        let found = found.with_context(|| format!("cannot look at {folder}"))?;
        ensure!(found.is_dir(), "{folder} is no folder; remove it");
        if found.uid() != self.user {
            bail!("{folder} belongs to another user; set TMPDIR to a folder of your own");
        }
        ensure!(
            found.mode() & 0o077 == 0,
            "{folder} can be used by others; remove it, or chmod it to 0700"
        );
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.file));
        // Only the last one leaves an empty folder behind.
        drop(self.file.parent().map(fs::remove_dir));
    }
}

/// The demo that a file is about and when that was started; removes the file of one that has ended.
fn demo(file: &Path) -> io::Result<Option<(SystemTime, PathBuf)>> {
    if file_name(file).starts_with(INCOMPLETE) {
        return Ok(None);
    }
    let opened = match File::open(file) {
        Ok(opened) => opened,
        // It has ended since the folder was read.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match opened.try_lock() {
        Ok(()) => {
            drop(fs::remove_file(file));
            Ok(None)
        }
        Err(TryLockError::WouldBlock) => {
            let folder = PathBuf::from(fs::read_to_string(file)?);
            Ok(Some((opened.metadata()?.modified()?, folder)))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Whom files that this process makes belong to.
fn user() -> io::Result<u32> {
    Ok(tempfile::tempfile()?.metadata()?.uid())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn registry(folder: &Path) -> Registry {
        Registry {
            folder: folder.join("demos"),
            user: user().unwrap(),
        }
    }

    #[test]
    fn a_second_demo_leaves_the_first_alone() {
        let folder = tempfile::tempdir().unwrap();
        let registry = registry(folder.path());
        assert!(registry.running().unwrap().is_empty());
        let first = registry.register(Path::new("/demo/first")).unwrap();
        let second = registry.register(Path::new("/demo/second")).unwrap();
        let mut running = registry.running().unwrap();
        running.sort();
        let both = ["/demo/first", "/demo/second"].map(PathBuf::from);
        assert_eq!(running, both);
        drop(second);
        assert_eq!(registry.running().unwrap(), both[..1]);
        drop(first);
        assert!(registry.running().unwrap().is_empty());
        assert!(!registry.folder.exists());
    }

    #[test]
    fn a_demo_that_was_killed_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let registry = registry(folder.path());
        let _running = registry.register(Path::new("/demo/running")).unwrap();
        let killed = registry.folder.join("killed");
        fs::write(&killed, "/demo/killed").unwrap();
        let running = registry.running().unwrap();
        assert_eq!(running, [PathBuf::from("/demo/running")]);
        assert!(!killed.exists());
    }

    #[test]
    fn what_others_can_write_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let registry = registry(folder.path());
        let refused = |registry: &Registry, why: &str| {
            let error = registry.running().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert!(registry.register(Path::new("/demo")).is_err());
        };
        fs::create_dir(&registry.folder).unwrap();
        fs::write(registry.folder.join("demo"), "$(touch /tmp/x)").unwrap();
        let open_to_all = fs::Permissions::from_mode(0o777);
        fs::set_permissions(&registry.folder, open_to_all).unwrap();
        refused(&registry, "can be used by others");
        let owner_only = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&registry.folder, owner_only).unwrap();
        let others = Registry {
            folder: registry.folder.clone(),
            user: registry.user + 1,
        };
        refused(&others, "belongs to another user");
        let link = Registry {
            folder: folder.path().join("link"),
            user: registry.user,
        };
        std::os::unix::fs::symlink(&registry.folder, &link.folder).unwrap();
        refused(&link, "is no folder");
    }
}
