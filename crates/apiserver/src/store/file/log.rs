//! The file itself: appended to, synced, now and then rewritten without what nobody needs any more.
//!
//! Bytes up to `length` are on disk for good. A failed append leaves no trace; when the disk cannot
//! say whether something is on it, the log is broken and takes nothing more until it is opened again.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    super::{Event, Revision, state::State},
    OpenError,
    load::{Loaded, load},
    record::{self, HEADER, Kind},
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
            let kind = match event.object {
                Some(_) => Kind::Put,
                None => Kind::Removal,
            };
            let entry = Some((&event.key, event.object.as_deref()));
            record::encode(&mut bytes, kind, event.revision, entry).map_err(|why| Failure {
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
        grown > WORTH_REWRITING.max(self.rewritten)
    }

    /// Replaces the file by one that holds the state and its history and nothing else.
    pub(super) fn rewrite(&mut self, state: &State) -> io::Result<()> {
        let temporary = beside(&self.path, ".new");
        let outcome = self.rewrite_as(&temporary, state);
        match outcome {
            Ok(durable) => {
                self.rewritten = durable.length;
                *self.durable.lock() = durable;
                Ok(())
            }
            Err(error) => {
                // Tried again after as much growth; the old file is whole.
                self.rewritten = self.durable.lock().length;
                let _ = fs::remove_file(&temporary);
                Err(error)
            }
        }
    }

    fn rewrite_as(&self, temporary: &Path, state: &State) -> io::Result<Durable> {
        let file = create(temporary, true)?;
        file.try_lock().map_err(io::Error::from)?;
        let mut writer = io::BufWriter::with_capacity(1 << 20, &file);
        let length = write_state(&mut writer, state)?;
        writer.flush()?;
        drop(writer);
        file.sync_all()?;
        fs::rename(temporary, &self.path)?;
        sync_folder(&self.path)?;
        Ok(Durable {
            file: Arc::new(file),
            length,
        })
    }
}

/// Writes a whole file: header, objects, base, changes.
fn write_state(writer: &mut impl io::Write, state: &State) -> io::Result<u64> {
    let (base, objects, changes) = state.unwound();
    writer.write_all(HEADER)?;
    let mut length = HEADER.len() as u64;
    let mut bytes = Vec::new();
    let mut flush = |bytes: &mut Vec<u8>| {
        length += bytes.len() as u64;
        writer.write_all(bytes)?;
        bytes.clear();
        io::Result::Ok(())
    };
    for (key, object) in &objects {
        record::encode(&mut bytes, Kind::Object, 0, Some((key, Some(object))))
            .map_err(io::Error::other)?;
        flush(&mut bytes)?;
    }
    record::encode(&mut bytes, Kind::Base, base, None).map_err(io::Error::other)?;
    for event in &changes {
        let kind = event.object.as_ref().map_or(Kind::Removal, |_| Kind::Put);
        let entry = Some((&event.key, event.object.as_deref()));
        record::encode(&mut bytes, kind, event.revision, entry).map_err(io::Error::other)?;
        flush(&mut bytes)?;
    }
    flush(&mut bytes)?;
    Ok(length)
}

/// Makes a file that is empty, or was left so by a crash at its very start, an empty store.
fn begin(file: &fs::File, path: &Path) -> io::Result<()> {
    let mut bytes = [0; HEADER.len()];
    let length = file.read_at(&mut bytes, 0)?;
    if bytes[..length] != HEADER[..length] {
        return Ok(()); // somebody else's file: reading it will say so
    }
    let mut bytes = Vec::new();
    write_state(&mut bytes, &State::new(1))?;
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

fn create(path: &Path, truncate: bool) -> io::Result<fs::File> {
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
