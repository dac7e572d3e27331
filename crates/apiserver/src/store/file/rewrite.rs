//! Rewriting the log without what nobody needs any more, while it goes on being written.
//!
//! A thread of its own writes the state of one moment to a new file and copies after it what is
//! appended to the old one meanwhile, until little is left. Only that little is copied while writers
//! wait, before the new file takes the place of the old one.

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
    super::state::Unwound,
    log::{self, Durable, beside},
    record::{self, HEADER, Kind},
};

/// Writers wait while this much is copied, at most if the disk keeps up with them.
const LITTLE: u64 = 256 * 1024;
/// So often the thread tries to get that close.
const ROUNDS: usize = 20;

/// A rewrite on its way.
pub(super) struct Rewrite {
    temporary: PathBuf,
    thread: thread::JoinHandle<io::Result<Fresh>>,
}

/// The new file.
struct Fresh {
    file: fs::File,
    length: u64,
    /// How much of the old file it makes superfluous.
    covers: u64,
}

impl Rewrite {
    /// Begins; `state` is what the durable part of the log says.
    pub(super) fn start(
        path: &Path,
        state: Unwound,
        durable: Arc<Mutex<Durable>>,
    ) -> io::Result<Self> {
        let temporary = beside(path, ".new");
        let thread = thread::Builder::new().name("rewrite".to_owned()).spawn({
            let temporary = temporary.clone();
            let covers = durable.lock().length;
            move || Fresh::write(&temporary, &state, covers)?.follow(&durable)
        })?;
        Ok(Self { temporary, thread })
    }

    /// Whether finishing takes but a moment.
    pub(super) fn is_ready(&self) -> bool {
        self.thread.is_finished()
    }

    /// Puts the new file in the place of the old one; nothing may be appended meanwhile.
    pub(super) fn finish(self, path: &Path, old: &Durable) -> io::Result<Durable> {
        let gone = |_| Err(io::Error::other("the thread that rewrites the log is gone"));
        let outcome = self.thread.join().unwrap_or_else(gone).and_then(|fresh| {
            let fresh = fresh.copy(old)?;
            fs::rename(&self.temporary, path)?;
            log::sync_folder(path)?;
            Ok(Durable {
                file: Arc::new(fresh.file),
                length: fresh.length,
            })
        });
        if outcome.is_err() {
            let _ = fs::remove_file(&self.temporary);
        }
        outcome
    }
}

impl Fresh {
    fn write(path: &Path, state: &Unwound, covers: u64) -> io::Result<Self> {
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

    /// Copies what has been appended to the old file, until little is left.
    fn follow(mut self, durable: &Mutex<Durable>) -> io::Result<Self> {
        for _ in 0..ROUNDS {
            let old = durable.lock().clone();
            if old.length - self.covers < LITTLE {
                break;
            }
            self = self.copy(&old)?;
        }
        Ok(self)
    }

    /// Copies what the old file has and this one has not.
    fn copy(mut self, old: &Durable) -> io::Result<Self> {
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

/// Writes a whole file: header, objects, base, changes.
pub(super) fn write_state(writer: &mut impl io::Write, state: &Unwound) -> io::Result<u64> {
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
        record::encode(&mut bytes, Kind::Object, object.revision(), entry)
            .map_err(io::Error::other)?;
        flush(&mut bytes)?;
    }
    record::encode(&mut bytes, Kind::Base, state.base, None).map_err(io::Error::other)?;
    for event in &state.changes {
        record::encode_event(&mut bytes, event).map_err(io::Error::other)?;
        flush(&mut bytes)?;
    }
    flush(&mut bytes)?;
    Ok(length)
}
