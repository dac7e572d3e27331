//! The scalars and comments of a YAML file with their positions in the text.

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

/// The longest path that is recorded, so that deeply nested files do not exhaust the memory.
const MAX_PATH_LENGTH: usize = 64;

/// One segment of the path to a node of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathSegment {
    Key(String),
    Item(usize),
}

/// The path to a node of a file: the index of its document, and the segments from there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct YamlPath {
    pub(crate) document: usize,
    pub(crate) segments: Vec<PathSegment>,
}

/// A scalar that is not a key.
#[derive(Debug)]
pub(crate) struct Scalar {
    /// The index of its event in the stream of the parser.
    pub(crate) event: usize,
    pub(crate) path: YamlPath,
    pub(super) range: Range<usize>,
    pub(crate) value: String,
    pub(super) quotes: Quotes,
    pub(super) is_block: bool,
    /// The value is missing.
    pub(super) is_null: bool,
    /// First and last line, from 1.
    pub(crate) line: usize,
    pub(super) end_line: usize,
    pub(super) key: Option<ScalarKey>,
    /// Whether a more deeply indented block collection ended just before it.
    pub(super) follows_deeper: bool,
}

/// The key of a scalar.
#[derive(Clone, Debug)]
pub(super) struct ScalarKey {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) line: usize,
    pub(super) end_line: usize,
    pub(super) follows_deeper: bool,
}

impl ScalarKey {
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
    /// The paths of aliases.
    pub(crate) aliases: Vec<YamlPath>,
}

/// A mapping or sequence that the reader is in.
struct NestingLevel {
    column: Option<usize>,
    is_mapping: bool,
    expects_key: bool,
    key: Option<ScalarKey>,
    /// The last key that was read.
    name: String,
    items: usize,
}

#[derive(Default)]
struct Reader {
    document: Document,
    levels: Vec<NestingLevel>,
    /// The number of documents so far.
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
        reader.process_event(index, &event, span, text)?;
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
    fn process_event(
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
                self.begin_node();
                let path = self.path();
                self.document.aliases.push(path);
                self.end_node();
            }
            Event::DocumentStart(..) => self.documents += 1,
            Event::SequenceStart(style, ..) => self.enter(*style, dash_column(text, span), false),
            Event::MappingStart(style, ..) => self.enter(*style, span.start.col(), true),
            Event::SequenceEnd | Event::MappingEnd => self.leave(),
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
        self.begin_node();
        let range = byte_range(span)?;
        let follows_deeper = self.follows_deeper(text, range.start);
        let end_line = last_line(&text[range.clone()], span.start.line());
        let line = span.start.line();
        if let Some(level) = self.levels.last_mut().filter(|level| level.expects_key) {
            value.clone_into(&mut level.name);
            level.key = Some(ScalarKey::new(range, line, end_line, follows_deeper));
        } else {
            let key = self.levels.last_mut().and_then(|level| level.key.take());
            let is_null = range.is_empty() && style == ScalarStyle::Plain;
            let colon = key.as_ref().filter(|_| is_null);
            let colon = colon.and_then(|key| position_after_colon(text, key));
            let range = colon.map_or(range, |position| position..position);
            self.document.scalars.push(Scalar {
                event: index,
                path: self.path(),
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
        self.end_node();
        Ok(())
    }

    /// Counts a node that begins.
    fn begin_node(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.items += 1;
        }
    }

    /// The path of the node that was begun last.
    fn path(&self) -> YamlPath {
        let segment = |level: &NestingLevel| match level.is_mapping {
            true => PathSegment::Key(level.name.clone()),
            false => PathSegment::Item(level.items.saturating_sub(1)),
        };
        YamlPath {
            document: self.documents.saturating_sub(1),
            segments: self
                .levels
                .iter()
                .take(MAX_PATH_LENGTH)
                .map(segment)
                .collect(),
        }
    }

    /// Switches between key and value after a node of a mapping.
    fn end_node(&mut self) {
        self.ended.clear();
        if let Some(level) = self.levels.last_mut().filter(|level| level.is_mapping) {
            level.expects_key = !level.expects_key;
        }
    }

    fn enter(&mut self, style: StructureStyle, column: usize, is_mapping: bool) {
        // The collection is a node of the surrounding level and has taken its key.
        self.begin_node();
        if let Some(level) = self.levels.last_mut() {
            level.key = None;
            if level.expects_key {
                level.name.clear();
            }
        }
        self.end_node();
        let column = (style == StructureStyle::Block).then_some(column);
        self.levels.push(NestingLevel {
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

/// The column of the first dash of a sequence. For a sequence that is not indented, the parser reports
/// the position after the dash.
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

/// The position for the value of a key that has none.
fn position_after_colon(text: &str, key: &ScalarKey) -> Option<usize> {
    let rest = &text[key.end..];
    let blank = rest.len() - rest.trim_start().len();
    let has_colon = rest[blank..].starts_with(':');
    has_colon.then_some(key.end + blank + 1)
}
