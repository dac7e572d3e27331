//! Reads the log file when a store is opened.
//!
//! A crash can leave an incomplete record of an unanswered write at the end: it is cut off and saved
//! next to the file. A broken record before a complete one is damage: opening fails and nothing is
//! changed.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    io::{BufReader, Read, Write as _},
    path::Path,
    sync::Arc,
};

use super::{
    super::{StoreKey, StoreRevision, StoredObject, state::StoreState},
    OpenError,
    record::{self, HEADER, Record, RecordKind},
};

/// What a file holds.
pub(super) struct LoadedLog {
    pub(super) state: StoreState,
    /// Where the last complete record ends.
    pub(super) length: u64,
    /// How much of that is about earlier revisions of objects.
    pub(super) obsolete_bytes: u64,
}

/// Reads everything there is.
pub(super) fn load(file: &fs::File, path: &Path, history: usize) -> Result<LoadedLog, OpenError> {
    let mut reader = LogReader::new(file, path)?;
    let mut contents = LogContents::default();
    while let Some(record) = reader.next()? {
        if !contents.add(record, history.max(1)) {
            return Err(reader.damaged("a record is out of order"));
        }
    }
    if !contents.has_base {
        return Err(reader.damaged("the records at its start are missing"));
    }
    let (length, obsolete_bytes) = (reader.offset, contents.obsolete_bytes);
    let state = contents
        .into_state(history)
        .map_err(|why| reader.damaged(&why))?;
    Ok(LoadedLog {
        state,
        length,
        obsolete_bytes,
    })
}

/// The content of the records. Objects are not parsed: the checksums are enough.
#[derive(Default)]
struct LogContents {
    base: StoreRevision,
    has_base: bool,
    objects: BTreeMap<StoreKey, Arc<StoredObject>>,
    events: VecDeque<(StoreKey, Option<StoredObject>)>,
    obsolete_bytes: u64,
}

impl LogContents {
    /// Adds a record; returns false if it is out of order.
    fn add(&mut self, record: Record, history: usize) -> bool {
        let newest = self.base + self.events.len() as StoreRevision;
        match (record.kind, record.object) {
            (RecordKind::Object, Some(object)) if !self.has_base => {
                self.objects.insert(record.key, Arc::new(object));
                true
            }
            (RecordKind::Base, _) if !self.has_base => {
                self.base = record.revision;
                self.has_base = true;
                true
            }
            (RecordKind::Put | RecordKind::Removal, object)
                if self.has_base && record.revision == newest + 1 =>
            {
                self.events.push_back((record.key, object));
                self.trim_history(history);
                true
            }
            (RecordKind::Closed, _) => self.has_base && record.revision == newest,
            _ => false,
        }
    }

    /// Merges the oldest events into the base.
    fn trim_history(&mut self, history: usize) {
        while self.events.len() > history
            && let Some((key, object)) = self.events.pop_front()
        {
            self.base += 1;
            let replaced = match object {
                None => self.objects.remove(&key),
                Some(object) => self.objects.insert(key, Arc::new(object)),
            };
            self.obsolete_bytes += replaced.map_or(0, |object| object.wire().len() as u64);
        }
    }

    fn into_state(self, history: usize) -> Result<StoreState, String> {
        let mut state = StoreState::at_revision(self.base, self.objects, history);
        for (key, object) in self.events {
            let revision = state.revision() + 1;
            let event = state.event(key, object, revision);
            let missing = |_| "an object is removed that is not there".to_owned();
            state.apply(Arc::new(event.map_err(missing)?));
        }
        Ok(state)
    }
}

/// Reads one record after the other.
struct LogReader<'a> {
    path: &'a Path,
    source: BufReader<&'a fs::File>,
    size: u64,
    offset: u64,
    buffer: Vec<u8>,
}

impl<'a> LogReader<'a> {
    fn new(file: &'a fs::File, path: &'a Path) -> Result<Self, OpenError> {
        let size = file.metadata().map_err(OpenError::reading(path))?.len();
        let mut reader = Self {
            path,
            source: BufReader::with_capacity(1 << 20, file),
            size,
            offset: 0,
            buffer: Vec::new(),
        };
        reader.fill(HEADER.len())?;
        if reader.buffer != HEADER {
            return Err(OpenError::Foreign {
                path: path.to_owned(),
            });
        }
        reader.consume(HEADER.len());
        Ok(reader)
    }

    /// The next record; `None` after the last complete one.
    fn next(&mut self) -> Result<Option<Record>, OpenError> {
        if self.offset == self.size {
            return Ok(None);
        }
        self.fill(12)?;
        let length = record::expected_length(&self.buffer);
        self.fill(length)?;
        if let Some((record, length)) = record::decode(&self.buffer) {
            self.consume(length);
            return Ok(Some(record));
        }
        self.source
            .read_to_end(&mut self.buffer)
            .map_err(OpenError::reading(self.path))?;
        // Without the first byte, which may start a record with a broken body.
        if record::contains_record(self.buffer.get(1..).unwrap_or_default()) {
            return Err(self.damaged("a record is broken, and complete ones follow"));
        }
        self.save_torn_end()?;
        Ok(None)
    }

    /// Saves a copy of what is about to be cut off.
    fn save_torn_end(&self) -> Result<(), OpenError> {
        let path = super::sibling(self.path, &format!(".torn-{}", self.offset));
        let saved = super::create_private(&path).and_then(|mut file| file.write_all(&self.buffer));
        saved.map_err(OpenError::reading(self.path))
    }

    fn fill(&mut self, length: usize) -> Result<(), OpenError> {
        let missing = length.saturating_sub(self.buffer.len()) as u64;
        (&mut self.source)
            .take(missing)
            .read_to_end(&mut self.buffer)
            .map_err(OpenError::reading(self.path))?;
        Ok(())
    }

    fn consume(&mut self, length: usize) {
        self.buffer.drain(..length);
        self.offset += length as u64;
    }

    fn damaged(&self, why: &str) -> OpenError {
        OpenError::Damaged {
            path: self.path.to_owned(),
            offset: self.offset,
            why: why.to_owned(),
        }
    }
}
