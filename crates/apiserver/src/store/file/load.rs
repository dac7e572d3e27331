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

use serde_json::Value;

use super::{
    super::{Event, Kept, Key, Revision, Write, state::State},
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
    let state = content.parse(history).map_err(|why| reader.damaged(&why))?;
    Ok(Loaded {
        state,
        length,
        superfluous,
    })
}

/// Records, their objects still as text: most are replaced by later ones and never parsed.
#[derive(Default)]
struct Content {
    base: Revision,
    is_based: bool,
    objects: BTreeMap<Key, Box<[u8]>>,
    changes: VecDeque<Record>,
    superfluous: u64,
}

impl Content {
    /// Whether the record could come here.
    fn take(&mut self, record: Record, history: usize) -> bool {
        let newest = self.base + self.changes.len() as Revision;
        match record.kind {
            Kind::Object if !self.is_based => {
                self.objects.insert(record.key, record.object);
                true
            }
            Kind::Base if !self.is_based => {
                self.base = record.revision;
                self.is_based = true;
                true
            }
            Kind::Put | Kind::Removal if self.is_based && record.revision == newest + 1 => {
                self.changes.push_back(record);
                self.forget(history);
                true
            }
            Kind::Closed => self.is_based && record.revision == newest,
            _ => false,
        }
    }

    /// Makes the oldest changes part of the base.
    fn forget(&mut self, history: usize) {
        while self.changes.len() > history
            && let Some(record) = self.changes.pop_front()
        {
            self.base = record.revision;
            let replaced = match record.kind {
                Kind::Removal => self.objects.remove(&record.key),
                _ => self.objects.insert(record.key, record.object),
            };
            self.superfluous += replaced.map_or(0, |object| object.len() as u64);
        }
    }

    fn parse(self, history: usize) -> Result<State, String> {
        let mut objects = BTreeMap::new();
        for (key, text) in self.objects {
            let kept = Kept::from_text(text);
            let object = Arc::new(kept.map_err(|error| unreadable(&key, &error))?);
            objects.insert(key, object);
        }
        let mut state = State::starting_at(self.base, objects, history);
        for record in self.changes {
            let event = event(&state, record)?;
            state.apply(Arc::new(event));
        }
        Ok(state)
    }
}

fn unreadable(key: &Key, error: &serde_json::Error) -> String {
    format!("{} {} cannot be read: {error}", key.resource, key.path)
}

fn event(state: &State, record: Record) -> Result<Event, String> {
    let object: Option<Value> = match record.kind {
        Kind::Removal => None,
        _ => Some(
            serde_json::from_slice(&record.object)
                .map_err(|error| unreadable(&record.key, &error))?,
        ),
    };
    let write = Write {
        replaces: state.get(&record.key).map(|kept| kept.revision()),
        key: record.key,
        object,
    };
    let planned = state.plan(write, record.revision);
    planned.map_err(|_| "an object is removed that is not there".to_owned())
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
