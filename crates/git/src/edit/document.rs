//! A YAML file as its scalars and comments, each with its place in the text.

use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle};

use super::Error;

/// How a scalar is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    None,
    Single,
    Double,
}

/// Nobody asks for anything further inside; a file made of brackets must not fill the memory.
const LONGEST: usize = 64;

/// One step of the way from a document to something in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Item(usize),
}

/// The way to something in a file: which of its documents, and the steps from there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) document: usize,
    pub(crate) steps: Vec<Step>,
}

/// A scalar that is not a key.
#[derive(Debug)]
pub(crate) struct Scalar {
    /// Which event of the stream it is.
    pub(crate) event: usize,
    pub(crate) way: Way,
    pub(super) range: Range<usize>,
    pub(crate) value: String,
    pub(super) quotes: Quotes,
    pub(super) is_block: bool,
    /// Nothing is written there.
    pub(super) is_null: bool,
    /// First and last line, from 1.
    pub(crate) line: usize,
    pub(super) end_line: usize,
    pub(super) key: Option<Key>,
    /// A block collection further to the right ended just before it.
    pub(super) follows_deeper: bool,
}

/// The key of a scalar.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) line: usize,
    pub(super) end_line: usize,
    pub(super) follows_deeper: bool,
}

impl Key {
    fn new(range: Range<usize>, line: usize, end_line: usize, follows_deeper: bool) -> Self {
        Self {
            start: range.start,
            end: range.end,
            line,
            end_line,
            follows_deeper,
        }
    }
}

/// A comment, `#` included.
#[derive(Debug)]
pub(super) struct Comment {
    pub(super) range: Range<usize>,
    pub(super) line: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) scalars: Vec<Scalar>,
    pub(super) comments: Vec<Comment>,
    /// Where something stands that is written elsewhere.
    pub(crate) aliases: Vec<Way>,
}

/// Where the reader is: inside a mapping or a sequence.
struct Level {
    column: Option<usize>,
    is_mapping: bool,
    expects_key: bool,
    key: Option<Key>,
    /// The last key that was read, or how many items were begun.
    name: String,
    items: usize,
}

#[derive(Default)]
struct Reader {
    document: Document,
    levels: Vec<Level>,
    /// How many documents were begun.
    documents: usize,
    /// Columns of the block collections that ended since the last node.
    ended: Vec<usize>,
}

pub(crate) fn read(text: &str) -> Result<Document, Error> {
    let mut reader = Reader::default();
    for (index, next) in Parser::new_from_str(text).enumerate() {
        let (event, span) = next.map_err(|error| Error::NotYaml {
            line: error.marker().line(),
        })?;
        reader.take(index, &event, span, text)?;
    }
    reader
        .document
        .comments
        .sort_by_key(|comment| comment.range.start);
    reader
        .document
        .scalars
        .sort_by_key(|scalar| scalar.range.start);
    Ok(reader.document)
}

impl Reader {
    fn take(
        &mut self,
        index: usize,
        event: &Event<'_>,
        span: Span,
        text: &str,
    ) -> Result<(), Error> {
        match event {
            Event::Comment(..) => {
                let range = byte_range(span)?;
                self.document.comments.push(Comment {
                    range,
                    line: span.start.line(),
                });
            }
            Event::Scalar(value, style, ..) => self.scalar(index, (value, *style), span, text)?,
            Event::Alias(_) => {
                self.begin();
                let way = self.way();
                self.document.aliases.push(way);
                self.node_passed();
            }
            Event::DocumentStart(..) => self.documents += 1,
            Event::SequenceStart(style, ..) => self.enter(*style, dash_column(text, span), false),
            Event::MappingStart(style, ..) => self.enter(*style, span.start.col(), true),
            Event::SequenceEnd | Event::MappingEnd => self.leave(),
            Event::DocumentEnd => self.ended.clear(),
            _ => {}
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        index: usize,
        (value, style): (&str, ScalarStyle),
        span: Span,
        text: &str,
    ) -> Result<(), Error> {
        self.begin();
        let range = byte_range(span)?;
        let follows_deeper = self.follows_deeper(text, range.start);
        let end_line = last_line(&text[range.clone()], span.start.line());
        let line = span.start.line();
        if let Some(level) = self.levels.last_mut().filter(|level| level.expects_key) {
            value.clone_into(&mut level.name);
            level.key = Some(Key::new(range, line, end_line, follows_deeper));
        } else {
            let key = self.levels.last_mut().and_then(|level| level.key.take());
            let is_null = range.is_empty() && style == ScalarStyle::Plain;
            let colon = key.as_ref().filter(|_| is_null);
            let colon = colon.and_then(|key| behind_colon(text, key));
            let range = colon.map_or(range, |place| place..place);
            self.document.scalars.push(Scalar {
                event: index,
                way: self.way(),
                range,
                value: value.to_owned(),
                quotes: quotes(style),
                is_block: matches!(style, ScalarStyle::Literal | ScalarStyle::Folded),
                is_null,
                line,
                end_line,
                key,
                follows_deeper,
            });
        }
        self.node_passed();
        Ok(())
    }

    /// A node begins.
    fn begin(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.items += 1;
        }
    }

    /// The way to the node that was begun last.
    fn way(&self) -> Way {
        let step = |level: &Level| match level.is_mapping {
            true => Step::Key(level.name.clone()),
            false => Step::Item(level.items.saturating_sub(1)),
        };
        Way {
            document: self.documents.saturating_sub(1),
            steps: self.levels.iter().take(LONGEST).map(step).collect(),
        }
    }

    /// A key was read if one was expected, a value otherwise.
    fn node_passed(&mut self) {
        self.ended.clear();
        if let Some(level) = self.levels.last_mut().filter(|level| level.is_mapping) {
            level.expects_key = !level.expects_key;
        }
    }

    fn enter(&mut self, style: StructureStyle, column: usize, is_mapping: bool) {
        // The collection is a node of the level around it; its key, if any, is used up.
        self.begin();
        if let Some(level) = self.levels.last_mut() {
            level.key = None;
            if level.expects_key {
                level.name.clear();
            }
        }
        self.node_passed();
        let column = (style == StructureStyle::Block).then_some(column);
        self.levels.push(Level {
            column,
            is_mapping,
            expects_key: is_mapping,
            key: None,
            name: String::new(),
            items: 0,
        });
    }

    fn leave(&mut self) {
        if let Some(column) = self.levels.pop().and_then(|level| level.column) {
            self.ended.push(column);
        }
    }

    fn follows_deeper(&self, text: &str, start: usize) -> bool {
        let line = line_start(text, start);
        let indentation = text[line..start].len() - text[line..start].trim_start().len();
        self.ended.iter().any(|column| *column > indentation)
    }
}

pub(super) fn line_start(text: &str, offset: usize) -> usize {
    text[..offset].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Where the first dash of a sequence is. The reader reports the place behind it where the sequence
/// is not indented.
fn dash_column(text: &str, span: Span) -> usize {
    let start = span.byte_range().map_or(0, |range| range.start);
    if text[start..].starts_with('-') {
        return span.start.col();
    }
    let lead = &text[line_start(text, start)..start];
    lead.rfind('-')
        .map_or(span.start.col(), |dash| lead[..dash].chars().count())
}

fn byte_range(span: Span) -> Result<Range<usize>, Error> {
    span.byte_range().ok_or(Error::NotYaml {
        line: span.start.line(),
    })
}

fn last_line(source: &str, first: usize) -> usize {
    first + source.matches('\n').count()
}

fn quotes(style: ScalarStyle) -> Quotes {
    match style {
        ScalarStyle::SingleQuoted => Quotes::Single,
        ScalarStyle::DoubleQuoted => Quotes::Double,
        _ => Quotes::None,
    }
}

/// Where the value of a key goes that has none.
fn behind_colon(text: &str, key: &Key) -> Option<usize> {
    let rest = &text[key.end..];
    let blank = rest.len() - rest.trim_start().len();
    let has_colon = rest[blank..].starts_with(':');
    has_colon.then_some(key.end + blank + 1)
}
