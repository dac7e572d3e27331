//! Compaction of the log, in the background.
//!
//! A thread writes a checkpoint to a new file and copies the records that are appended to the old
//! file meanwhile, until few are left. Writers wait only while these few are copied and the new file
//! replaces the old one.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use parking_lot::Mutex;

use super::{
    super::state::Checkpoint,
    log::{self, DurableFile, sibling},
    record::{self, HEADER, RecordKind},
};

/// Writers wait while at most this much is copied, if the disk keeps up with them.
const FINAL_COPY_BYTES: u64 = 256 * 1024;
/// How often the thread tries to get that close.
const COPY_ROUNDS: usize = 20;

/// A running compaction.
pub(super) struct Compaction {
    temporary: PathBuf,
    thread: thread::JoinHandle<io::Result<CompactedFile>>,
}

/// The new file.
struct CompactedFile {
    file: fs::File,
    length: u64,
    /// How much of the old file it replaces.
    covers: u64,
}

impl Compaction {
    /// Starts; `state` is the state at the durable end of the log.
    pub(super) fn start(
        path: &Path,
        state: Checkpoint,
        durable: Arc<Mutex<DurableFile>>,
    ) -> io::Result<Self> {
        let temporary = sibling(path, ".new");
        let thread = thread::Builder::new()
            .name("compaction".to_owned())
            .spawn({
                let temporary = temporary.clone();
                let covers = durable.lock().length;
                move || CompactedFile::write(&temporary, &state, covers)?.follow(&durable)
            })?;
        Ok(Self { temporary, thread })
    }

    /// Whether [`Compaction::finish`] will not wait.
    pub(super) fn is_ready(&self) -> bool {
        self.thread.is_finished()
    }

    /// Replaces the old file by the new one; nothing may be appended meanwhile.
    pub(super) fn finish(self, path: &Path, old: &DurableFile) -> io::Result<DurableFile> {
        let panicked = |_| Err(io::Error::other("the compaction thread panicked"));
        let replaced = self
            .thread
            .join()
            .unwrap_or_else(panicked)
            .and_then(|fresh| {
                let fresh = fresh.copy(old)?;
                fs::rename(&self.temporary, path)?;
                log::sync_folder(path)?;
                Ok(DurableFile {
                    file: Arc::new(fresh.file),
                    length: fresh.length,
                })
            });
        if replaced.is_err() {
            let _ = fs::remove_file(&self.temporary);
        }
        replaced
    }
}

impl CompactedFile {
    fn write(path: &Path, state: &Checkpoint, covers: u64) -> io::Result<Self> {
        let file = log::create(path, true)?;
        file.try_lock().map_err(io::Error::from)?;
        let mut writer = io::BufWriter::with_capacity(1 << 20, &file);
        let length = write_state(&mut writer, state)?;
        writer.flush()?;
        drop(writer);
        file.sync_all()?;
        Ok(Self {
            file,
            length,
            covers,
        })
    }

    /// Copies what was appended to the old file, until little is left.
    fn follow(mut self, durable: &Mutex<DurableFile>) -> io::Result<Self> {
        for _ in 0..COPY_ROUNDS {
            let old = durable.lock().clone();
            if old.length - self.covers < FINAL_COPY_BYTES {
                break;
            }
            self = self.copy(&old)?;
        }
        Ok(self)
    }

    /// Copies what the old file has beyond what this one covers.
    fn copy(mut self, old: &DurableFile) -> io::Result<Self> {
        let mut buffer = vec![0; 1 << 20];
        while self.covers < old.length {
            let left = usize::try_from(old.length - self.covers).unwrap_or(usize::MAX);
            let part = &mut buffer[..left.min(1 << 20)];
            old.file.read_exact_at(part, self.covers)?;
            self.file.write_all_at(part, self.length)?;
            self.covers += part.len() as u64;
            self.length += part.len() as u64;
        }
        self.file.sync_data()?;
        Ok(self)
    }
}

/// Writes a whole file: header, objects, base revision, events.
pub(super) fn write_state(writer: &mut impl io::Write, state: &Checkpoint) -> io::Result<u64> {
    writer.write_all(HEADER)?;
    let mut length = HEADER.len() as u64;
    let mut bytes = Vec::new();
    let mut flush = |bytes: &mut Vec<u8>| {
        length += bytes.len() as u64;
        writer.write_all(bytes)?;
        bytes.clear();
        io::Result::Ok(())
    };
    for (key, object) in &state.objects {
        let entry = Some((key, Some(&**object)));
        record::encode(&mut bytes, RecordKind::Object, object.revision(), entry)
            .map_err(io::Error::other)?;
        flush(&mut bytes)?;
    }
    record::encode(&mut bytes, RecordKind::Base, state.base_revision, None)
        .map_err(io::Error::other)?;
    for event in &state.events {
        record::encode_event(&mut bytes, event).map_err(io::Error::other)?;
        flush(&mut bytes)?;
    }
    flush(&mut bytes)?;
    Ok(length)
}
