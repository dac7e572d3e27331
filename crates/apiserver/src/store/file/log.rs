//! The log file: records are appended and synced, and it is compacted from time to time
//! (`compaction.rs`).
//!
//! Bytes up to `length` are durable. A failed append leaves no trace. After a failed sync it is not
//! known what is on the disk, so the log accepts nothing more until it is opened again.

use std::{
    fs, io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    super::{
        StoreEvent, StoreRevision,
        state::{Checkpoint, StoreState},
    },
    OpenError,
    compaction::{Compaction, write_state},
    load::{LoadedLog, load},
    record::{self, HEADER, RecordKind},
};

/// A file is compacted when at least this much of it, and more than half, may be obsolete.
const COMPACTION_THRESHOLD: u64 = 32 * 1024 * 1024;

/// An open file with an exclusive lock.
pub(super) struct Log {
    path: PathBuf,
    /// Shared with backups, which read the file while it grows.
    durable: Arc<Mutex<DurableFile>>,
    /// The length after the last compaction, or an estimate of it when the file was opened.
    compacted_length: u64,
    compaction: Option<Compaction>,
}

/// A file, and how much of it is durable.
#[derive(Clone)]
pub(super) struct DurableFile {
    pub(super) file: Arc<fs::File>,
    pub(super) length: u64,
}

/// Why records were not appended.
pub(super) struct AppendError {
    pub(super) why: String,
    /// Nothing more can be appended.
    pub(super) is_final: bool,
}

impl Log {
    /// Opens or creates the file and reads what it holds.
    pub(super) fn open(path: &Path, history: usize) -> Result<(Self, StoreState), OpenError> {
        let failed = OpenError::reading(path);
        let file = lock(path)?;
        if file.metadata().map_err(&failed)?.len() <= HEADER.len() as u64 {
            initialize(&file, path).map_err(&failed)?;
        }
        let LoadedLog {
            state,
            length,
            obsolete_bytes,
        } = load(&file, path, history)?;
        file.set_len(length)
            .and_then(|()| file.sync_all())
            .map_err(&failed)?;
        let log = Self {
            path: path.to_owned(),
            durable: Arc::new(Mutex::new(DurableFile {
                file: Arc::new(file),
                length,
            })),
            compacted_length: length.saturating_sub(obsolete_bytes),
            compaction: None,
        };
        Ok((log, state))
    }

    pub(super) fn durable(&self) -> Arc<Mutex<DurableFile>> {
        self.durable.clone()
    }

    /// Makes events durable, all or none.
    pub(super) fn append(&mut self, events: &[Arc<StoreEvent>]) -> Result<(), AppendError> {
        let mut bytes = Vec::new();
        for event in events {
            record::encode_event(&mut bytes, event).map_err(|why| AppendError {
                why,
                is_final: false,
            })?;
        }
        self.write(&bytes)
    }

    /// Records that the file is complete.
    pub(super) fn close(&mut self, revision: StoreRevision) -> Result<(), AppendError> {
        let mut bytes = Vec::new();
        record::encode(&mut bytes, RecordKind::Closed, revision, None).map_err(|why| {
            AppendError {
                why,
                is_final: true,
            }
        })?;
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), AppendError> {
        let DurableFile { file, length } = self.durable.lock().clone();
        let failed = |doing: &str, error: &io::Error, is_final| AppendError {
            why: format!("{doing} {}: {error}", self.path.display()),
            is_final,
        };
        if let Err(error) = file.write_all_at(bytes, length) {
            // A partial record must not stay, or a later record would follow a broken one.
            let is_undone = file.set_len(length).is_ok();
            return Err(failed("writing", &error, !is_undone));
        }
        // After a failed sync it is not known what is on the disk.
        file.sync_data()
            .map_err(|error| failed("syncing", &error, true))?;
        self.durable.lock().length = length + bytes.len() as u64;
        Ok(())
    }

    /// Whether the file has grown enough for a compaction.
    pub(super) fn needs_compaction(&self) -> bool {
        let grown = self.durable.lock().length - self.compacted_length;
        self.compaction.is_none() && grown > COMPACTION_THRESHOLD.max(self.compacted_length)
    }

    /// Starts to replace the file by one with only this state, which must be the current one.
    pub(super) fn start_compaction(&mut self, state: Checkpoint) {
        self.compaction = Compaction::start(&self.path, state, self.durable()).ok();
        if self.compaction.is_none() {
            self.postpone_compaction();
        }
    }

    /// Replaces the file by the compacted one, if it is ready or `waits` is set.
    pub(super) fn finish_compaction(&mut self, waits: bool) {
        let is_due = |compaction: &mut Compaction| waits || compaction.is_ready();
        let Some(compaction) = self.compaction.take_if(is_due) else {
            return;
        };
        let old = self.durable.lock().clone();
        // No write is affected by a failure: the file only stays longer than needed.
        match compaction.finish(&self.path, &old) {
            Ok(durable) => {
                self.compacted_length = durable.length;
                *self.durable.lock() = durable;
            }
            Err(_) => self.postpone_compaction(),
        }
    }

    /// Lets the file, which is intact, grow as much again before the next compaction.
    fn postpone_compaction(&mut self) {
        self.compacted_length = self.durable.lock().length;
    }
}

/// Makes an empty file, or one that a crash left without a complete header, an empty store.
fn initialize(file: &fs::File, path: &Path) -> io::Result<()> {
    let mut bytes = [0; HEADER.len()];
    let length = file.read_at(&mut bytes, 0)?;
    if bytes[..length] != HEADER[..length] {
        return Ok(()); // not a store: loading it fails
    }
    let mut bytes = Vec::new();
    write_state(&mut bytes, &StoreState::new(1).checkpoint())?;
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
        // A compaction may have replaced it between opening and locking.
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

/// The path of a file next to this one.
pub(super) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
