//! Reading a store's file at start.
//!
//! A write that was never answered may be broken at the end of the file: it is cut off, and kept
//! beside the file in case somebody wants to look at it. Anything broken before a whole record is
//! damage: nothing is opened and nothing is changed.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    io::{BufReader, Read, Write as _},
    path::Path,
    sync::Arc,
};

use super::{
    super::{Kept, Key, Revision, state::State},
    OpenError,
    record::{self, HEADER, Kind, Record},
};

/// What a file holds.
pub(super) struct Loaded {
    pub(super) state: State,
    /// Up to where the file is whole.
    pub(super) length: u64,
    /// How much of that is about objects that have changed since.
    pub(super) superfluous: u64,
}

/// Reads everything there is.
pub(super) fn load(file: &fs::File, path: &Path, history: usize) -> Result<Loaded, OpenError> {
    let mut reader = Reader::new(file, path)?;
    let mut content = Content::default();
    while let Some(record) = reader.next()? {
        if !content.take(record, history.max(1)) {
            return Err(reader.damaged("a record is out of order"));
        }
    }
    if !content.is_based {
        return Err(reader.damaged("the records at its start are missing"));
    }
    let (length, superfluous) = (reader.offset, content.superfluous);
    let state = content
        .into_state(history)
        .map_err(|why| reader.damaged(&why))?;
    Ok(Loaded {
        state,
        length,
        superfluous,
    })
}

/// What the records say. Their objects stay text: the checksums vouch for it.
#[derive(Default)]
struct Content {
    base: Revision,
    is_based: bool,
    objects: BTreeMap<Key, Arc<Kept>>,
    changes: VecDeque<(Key, Option<Kept>)>,
    superfluous: u64,
}

impl Content {
    /// Whether the record could come here.
    fn take(&mut self, record: Record, history: usize) -> bool {
        let newest = self.base + self.changes.len() as Revision;
        match (record.kind, record.object) {
            (Kind::Object, Some(object)) if !self.is_based => {
                self.objects.insert(record.key, Arc::new(object));
                true
            }
            (Kind::Base, _) if !self.is_based => {
                self.base = record.revision;
                self.is_based = true;
                true
            }
            (Kind::Put | Kind::Removal, object)
                if self.is_based && record.revision == newest + 1 =>
            {
                self.changes.push_back((record.key, object));
                self.forget(history);
                true
            }
            (Kind::Closed, _) => self.is_based && record.revision == newest,
            _ => false,
        }
    }

    /// Makes the oldest changes part of the base.
    fn forget(&mut self, history: usize) {
        while self.changes.len() > history
            && let Some((key, object)) = self.changes.pop_front()
        {
            self.base += 1;
            let replaced = match object {
                None => self.objects.remove(&key),
                Some(object) => self.objects.insert(key, Arc::new(object)),
            };
            self.superfluous += replaced.map_or(0, |object| object.wire().len() as u64);
        }
    }

    fn into_state(self, history: usize) -> Result<State, String> {
        let mut state = State::starting_at(self.base, self.objects, history);
        for (key, object) in self.changes {
            let revision = state.revision() + 1;
            let event = state.event(key, object, revision);
            let missing = |_| "an object is removed that is not there".to_owned();
            state.apply(Arc::new(event.map_err(missing)?));
        }
        Ok(state)
    }
}

/// Gives one record after the other.
struct Reader<'a> {
    path: &'a Path,
    source: BufReader<&'a fs::File>,
    size: u64,
    offset: u64,
    buffer: Vec<u8>,
}

impl<'a> Reader<'a> {
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

    /// The next record; nothing at the end of what is whole.
    fn next(&mut self) -> Result<Option<Record>, OpenError> {
        if self.offset == self.size {
            return Ok(None);
        }
        self.fill(12)?;
        let needed = record::needed(&self.buffer);
        self.fill(needed)?;
        if let Some((record, length)) = record::decode(&self.buffer) {
            self.consume(length);
            return Ok(Some(record));
        }
        self.source
            .read_to_end(&mut self.buffer)
            .map_err(OpenError::reading(self.path))?;
        // The first byte is left out: it may start a record whose body alone is broken.
        if record::any_in(self.buffer.get(1..).unwrap_or_default()) {
            return Err(self.damaged("a record is broken, and whole ones follow"));
        }
        self.keep_torn_end()?;
        Ok(None)
    }

    /// Keeps a copy of what is about to be cut off.
    fn keep_torn_end(&self) -> Result<(), OpenError> {
        let path = super::beside(self.path, &format!(".torn-{}", self.offset));
        let kept = super::private(&path).and_then(|mut file| file.write_all(&self.buffer));
        kept.map_err(OpenError::reading(self.path))
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
