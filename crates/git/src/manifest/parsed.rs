//! The manifests of one file, with access by path, such as `spec.images.0.name`.

use crate::edit::document::{self, Document, PathSegment, Scalar, YamlPath};
use crate::edit::{self, split_byte_order_mark};

/// The documents of one file.
pub(crate) struct Manifests(Document);

/// One manifest.
#[derive(Clone, Copy)]
pub(super) struct Manifest<'a> {
    file: &'a Document,
    document: usize,
}

impl Manifests {
    pub(crate) fn read(content: &[u8]) -> Result<Self, edit::Error> {
        let (_, text) = split_byte_order_mark(content)?;
        document::read(text).map(Self)
    }

    pub(super) fn each(&self) -> impl Iterator<Item = Manifest<'_>> {
        let last = self
            .0
            .scalars
            .iter()
            .map(|scalar| scalar.path.document)
            .max();
        (0..last.map_or(0, |last| last + 1)).map(|document| Manifest {
            file: &self.0,
            document,
        })
    }
}

impl<'a> Manifest<'a> {
    /// The scalar at a path.
    pub(super) fn scalar(self, path: &str) -> Option<&'a Scalar> {
        let path = self.path(path);
        self.file.scalars.iter().find(|scalar| scalar.path == path)
    }

    /// The text at a path, unless it is empty.
    pub(super) fn text(self, path: &str) -> Option<&'a str> {
        let scalar = self.scalar(path)?;
        Some(scalar.value.as_str()).filter(|value| !value.is_empty())
    }

    /// The scalars at a path and below it, each with the last segment of its path.
    pub(super) fn below(
        self,
        path: &str,
    ) -> impl Iterator<Item = (Option<&'a PathSegment>, &'a Scalar)> {
        let path = self.path(path);
        let scalars = self.file.scalars.iter().filter(move |scalar| {
            let segments = &scalar.path.segments;
            scalar.path.document == path.document && segments.starts_with(&path.segments)
        });
        scalars.map(|scalar| (scalar.path.segments.last(), scalar))
    }

    /// Whether there is a YAML alias at a path.
    pub(super) fn is_alias(self, path: &str) -> bool {
        self.file.aliases.contains(&self.path(path))
    }

    /// The number of items of a list, without empty ones at its end.
    pub(super) fn count(self, list: &str) -> usize {
        let list = self.path(list);
        let items = self.file.scalars.iter().filter_map(|scalar| {
            let is_here = scalar.path.document == self.document;
            let rest = scalar.path.segments.strip_prefix(list.segments.as_slice());
            match rest.filter(|_| is_here)?.first()? {
                PathSegment::Item(index) => Some(index + 1),
                PathSegment::Key(_) => None,
            }
        });
        items.max().unwrap_or(0)
    }

    /// The scalar items of a list.
    pub(super) fn texts(self, list: &str) -> Vec<&'a str> {
        let items = 0..self.count(list);
        items
            .filter_map(|index| self.text(&join(list, index)))
            .collect()
    }

    /// `group/version` without the version.
    pub(super) fn group(self) -> &'a str {
        let version = self.text("apiVersion").unwrap_or_default();
        version.split_once('/').map_or("", |(group, _)| group)
    }

    pub(super) fn kind(self) -> &'a str {
        self.text("kind").unwrap_or_default()
    }

    fn path(self, path: &str) -> YamlPath {
        let segment = |part: &str| match part.parse() {
            Ok(index) => PathSegment::Item(index),
            Err(_) => PathSegment::Key(part.to_owned()),
        };
        let parts = path.split('.').filter(|part| !part.is_empty());
        YamlPath {
            document: self.document,
            segments: parts.map(segment).collect(),
        }
    }
}

/// The path of an item of a list. The root may be a list, too.
pub(super) fn join(list: &str, index: usize) -> String {
    format!("{list}.{index}")
}
