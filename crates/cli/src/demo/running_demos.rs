//! The list of running demos, by which `sluice demo env` and `sluice demo push` find them.
//!
//! Each running demo has a file that contains the path of its folder, and holds a lock on it. The files
//! are in a folder that only this user can read and write. A folder that others can write to is never
//! read, because its content is evaluated by this user's shell.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, bail, ensure};

/// Prefix of files that are still being written.
const INCOMPLETE: &str = ".new-";

/// The running demos of this user.
pub(super) struct RunningDemos {
    folder: PathBuf,
    user: u32,
}

/// Lists a demo until this is dropped.
pub(super) struct Registration {
    file: PathBuf,
    /// Held while the demo runs: a file that can be locked belongs to a demo that has ended.
    _lock: File,
}

impl RunningDemos {
    pub(super) fn of_this_user() -> anyhow::Result<Self> {
        let user = user().context("cannot determine the current user")?;
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

    /// Lists the demo in a folder.
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

    /// The folders of the running demos, in the order in which they were started.
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

    /// Refuses a folder that another user owns or can write to.
    fn check_private(&self) -> anyhow::Result<()> {
        let folder = self.folder.display();
        let metadata = fs::symlink_metadata(&self.folder);
        let metadata = metadata.with_context(|| format!("cannot read {folder}"))?;
        ensure!(metadata.is_dir(), "{folder} is not a folder; remove it");
        if metadata.uid() != self.user {
            bail!("{folder} belongs to another user; set TMPDIR to a folder of your own");
        }
        ensure!(
            metadata.mode() & 0o077 == 0,
            "{folder} is accessible to other users; remove it, or chmod it to 0700"
        );
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.file));
        // Succeeds only for the last demo: the folder must be empty.
        drop(self.file.parent().map(fs::remove_dir));
    }
}

/// The start time and folder of the demo of a file. Removes the file if the demo has ended.
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

/// The owner of files that this process creates.
fn user() -> io::Result<u32> {
    Ok(tempfile::tempfile()?.metadata()?.uid())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn registry(folder: &Path) -> RunningDemos {
        RunningDemos {
            folder: folder.join("demos"),
            user: user().unwrap(),
        }
    }

    #[test]
    fn two_demos_are_listed_independently() {
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
    fn a_demo_that_was_killed_is_not_listed() {
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
    fn a_folder_that_others_can_write_to_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let registry = registry(folder.path());
        let refused = |registry: &RunningDemos, why: &str| {
            let error = registry.running().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert!(registry.register(Path::new("/demo")).is_err());
        };
        fs::create_dir(&registry.folder).unwrap();
        fs::write(registry.folder.join("demo"), "$(touch /tmp/x)").unwrap();
        let open_to_all = fs::Permissions::from_mode(0o777);
        fs::set_permissions(&registry.folder, open_to_all).unwrap();
        refused(&registry, "is accessible to other users");
        let owner_only = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&registry.folder, owner_only).unwrap();
        let others = RunningDemos {
            folder: registry.folder.clone(),
            user: registry.user + 1,
        };
        refused(&others, "belongs to another user");
        let link = RunningDemos {
            folder: folder.path().join("link"),
            user: registry.user,
        };
        std::os::unix::fs::symlink(&registry.folder, &link.folder).unwrap();
        refused(&link, "is not a folder");
    }
}
