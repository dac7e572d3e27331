//! The manifests of one file, asked by path: `spec.images.0.name`.

use crate::edit::document::{self, Document, Scalar, Step, Way};
use crate::edit::{self, split_mark};

/// The documents of one file.
pub(crate) struct Manifests(Document);

/// One of them.
#[derive(Clone, Copy)]
pub(super) struct Manifest<'a> {
    file: &'a Document,
    document: usize,
}

impl Manifests {
    pub(crate) fn read(content: &[u8]) -> Result<Self, edit::Error> {
        let (_, text) = split_mark(content)?;
        document::read(text).map(Self)
    }

    pub(super) fn each(&self) -> impl Iterator<Item = Manifest<'_>> {
        let last = self
            .0
            .scalars
            .iter()
            .map(|scalar| scalar.way.document)
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
        let way = self.way(path);
        self.file.scalars.iter().find(|scalar| scalar.way == way)
    }

    /// What is written at a path.
    pub(super) fn text(self, path: &str) -> Option<&'a str> {
        let scalar = self.scalar(path)?;
        Some(scalar.value.as_str()).filter(|value| !value.is_empty())
    }

    /// The scalars at a path and below it, each with the last step of its way.
    pub(super) fn below(self, path: &str) -> impl Iterator<Item = (Option<&'a Step>, &'a Scalar)> {
        let way = self.way(path);
        let scalars = self.file.scalars.iter().filter(move |scalar| {
            let steps = &scalar.way.steps;
            scalar.way.document == way.document && steps.starts_with(&way.steps)
        });
        scalars.map(|scalar| (scalar.way.steps.last(), scalar))
    }

    /// Whether something stands there that is written elsewhere.
    pub(super) fn is_alias(self, path: &str) -> bool {
        self.file.aliases.contains(&self.way(path))
    }

    /// How many items a list has. Empty ones at its end do not count.
    pub(super) fn count(self, list: &str) -> usize {
        let way = self.way(list);
        let items = self.file.scalars.iter().filter_map(|scalar| {
            let is_here = scalar.way.document == self.document;
            let rest = scalar.way.steps.strip_prefix(way.steps.as_slice());
            match rest.filter(|_| is_here)?.first()? {
                Step::Item(index) => Some(index + 1),
                Step::Key(_) => None,
            }
        });
        items.max().unwrap_or(0)
    }

    /// The plain items of a list.
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

    fn way(self, path: &str) -> Way {
        let step = |part: &str| match part.parse() {
            Ok(index) => Step::Item(index),
            Err(_) => Step::Key(part.to_owned()),
        };
        let parts = path.split('.').filter(|part| !part.is_empty());
        Way {
            document: self.document,
            steps: parts.map(step).collect(),
        }
    }
}

/// The path of an item. The file itself may be a list.
pub(super) fn join(list: &str, index: usize) -> String {
    format!("{list}.{index}")
}
