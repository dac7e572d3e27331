//! The file itself: appended to, synced, now and then replaced (`rewrite.rs`).
//!
//! Bytes up to `length` are on disk for good. A failed append leaves no trace; when the disk cannot
//! say whether something is on it, the log is broken and takes nothing more until it is opened again.

use std::{
    fs, io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    super::{
        Event, Revision,
        state::{State, Unwound},
    },
    OpenError,
    load::{Loaded, load},
    record::{self, HEADER, Kind},
    rewrite::{Rewrite, write_state},
};

/// A file is rewritten when this much of it, and more than half, may be superfluous.
const WORTH_REWRITING: u64 = 32 * 1024 * 1024;

/// An open file with an exclusive lock.
pub(super) struct Log {
    path: PathBuf,
    /// Shared with backups, which read the file while it grows.
    durable: Arc<Mutex<Durable>>,
    /// The length after the last rewrite, or what it would have been at the start.
    rewritten: u64,
    rewrite: Option<Rewrite>,
}

/// A file, and how much of it is there for good.
#[derive(Clone)]
pub(super) struct Durable {
    pub(super) file: Arc<fs::File>,
    pub(super) length: u64,
}

/// An append that did not happen.
pub(super) struct Failure {
    pub(super) why: String,
    /// Nothing more can be appended.
    pub(super) is_final: bool,
}

impl Log {
    /// Opens or creates the file and reads what it holds.
    pub(super) fn open(path: &Path, history: usize) -> Result<(Self, State), OpenError> {
        let failed = OpenError::reading(path);
        let file = lock(path)?;
        if file.metadata().map_err(&failed)?.len() <= HEADER.len() as u64 {
            begin(&file, path).map_err(&failed)?;
        }
        let Loaded {
            state,
            length,
            superfluous,
        } = load(&file, path, history)?;
        file.set_len(length)
            .and_then(|()| file.sync_all())
            .map_err(&failed)?;
        let log = Self {
            path: path.to_owned(),
            durable: Arc::new(Mutex::new(Durable {
                file: Arc::new(file),
                length,
            })),
            rewritten: length.saturating_sub(superfluous),
            rewrite: None,
        };
        Ok((log, state))
    }

    pub(super) fn durable(&self) -> Arc<Mutex<Durable>> {
        self.durable.clone()
    }

    /// Makes changes durable, all or none.
    pub(super) fn append(&mut self, events: &[Arc<Event>]) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        for event in events {
            record::encode_event(&mut bytes, event).map_err(|why| Failure {
                why,
                is_final: false,
            })?;
        }
        self.write(&bytes)
    }

    /// Notes that nothing is missing at the end.
    pub(super) fn close(&mut self, revision: Revision) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        record::encode(&mut bytes, Kind::Closed, revision, None).map_err(|why| Failure {
            why,
            is_final: true,
        })?;
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Durable { file, length } = self.durable.lock().clone();
        let failure = |doing: &str, error: &io::Error, is_final| Failure {
            why: format!("{doing} {}: {error}", self.path.display()),
            is_final,
        };
        if let Err(error) = file.write_all_at(bytes, length) {
            // What was written of it must not stay, or a later record would follow a broken one.
            let is_undone = file.set_len(length).is_ok();
            return Err(failure("writing", &error, !is_undone));
        }
        // After a failed sync nobody knows what is on the disk: going on would be a guess.
        file.sync_data()
            .map_err(|error| failure("syncing", &error, true))?;
        self.durable.lock().length = length + bytes.len() as u64;
        Ok(())
    }

    /// Whether the file has grown enough for a rewrite.
    pub(super) fn is_worth_rewriting(&self) -> bool {
        let grown = self.durable.lock().length - self.rewritten;
        self.rewrite.is_none() && grown > WORTH_REWRITING.max(self.rewritten)
    }

    /// Begins to replace the file by one that holds this state and nothing else, which must be what
    /// the file says now.
    pub(super) fn begin_rewrite(&mut self, state: Unwound) {
        self.rewrite = Rewrite::start(&self.path, state, self.durable()).ok();
        if self.rewrite.is_none() {
            self.put_off();
        }
    }

    /// Puts a rewritten file in the place of the old one, if it is ready or worth waiting for.
    pub(super) fn finish_rewrite(&mut self, waits: bool) {
        let is_due = |rewrite: &mut Rewrite| waits || rewrite.is_ready();
        let Some(rewrite) = self.rewrite.take_if(is_due) else {
            return;
        };
        let old = self.durable.lock().clone();
        // A failure is not one of any write: the file only stays longer than needed.
        match rewrite.finish(&self.path, &old) {
            Ok(durable) => {
                self.rewritten = durable.length;
                *self.durable.lock() = durable;
            }
            Err(_) => self.put_off(),
        }
    }

    /// Lets the file grow as much again before the next rewrite; it is whole.
    fn put_off(&mut self) {
        self.rewritten = self.durable.lock().length;
    }
}

/// Makes a file that is empty, or was left so by a crash at its very start, an empty store.
fn begin(file: &fs::File, path: &Path) -> io::Result<()> {
    let mut bytes = [0; HEADER.len()];
    let length = file.read_at(&mut bytes, 0)?;
    if bytes[..length] != HEADER[..length] {
        return Ok(()); // somebody else's file: reading it will say so
    }
    let mut bytes = Vec::new();
    write_state(&mut bytes, &State::new(1).unwound())?;
    file.write_all_at(&bytes, 0)?;
    file.sync_all()?;
    sync_folder(path)
}

/// Opens the file so that no other process has it open.
fn lock(path: &Path) -> Result<fs::File, OpenError> {
    let failed = OpenError::reading(path);
    loop {
        let file = create(path, false).map_err(&failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(OpenError::InUse {
                    path: path.to_owned(),
                });
            }
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        // It may have been rewritten, which replaces it, between opening and locking.
        let (ours, there) = (file.metadata(), fs::metadata(path));
        if ours.map_err(&failed)?.ino() == there.map_err(&failed)?.ino() {
            return Ok(file);
        }
    }
}

pub(super) fn create(path: &Path, truncate: bool) -> io::Result<fs::File> {
    fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(truncate)
        .mode(0o600)
        .open(path)
}

/// Makes a new name in a folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// The path of a file beside this one.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
