//! The picture of a pipeline whose environments do not simply follow each other: columns of cards, joined by
//! lines. Each card also says in words which environments it comes after.

use api::pipeline::Environment;

use super::PipelineView;
use crate::dashboard::html::{Element, tag};

/// The size of the drawing between two columns, which is stretched to their height.
const SIZE: usize = 1000;

/// A row of a column.
#[derive(Clone, Copy, PartialEq)]
enum Row<'a> {
    Card(&'a Environment),
    /// A line that passes the column: from an environment before it into one after it.
    Line {
        from: &'a Environment,
        into: &'a Environment,
    },
}

impl PipelineView<'_> {
    pub(super) fn graph(&self) -> Element {
        let columns = self.rows();
        let drawn = columns.iter().enumerate().map(|(index, column)| {
            let before = index
                .checked_sub(1)
                .map(|before| columns[before].as_slice());
            let lines = before.map(|before| self.lines(before, column));
            let stages = column.iter().map(|row| match row {
                Row::Card(environment) => {
                    let mut all = self.pipeline.spec.environments.iter();
                    let index = all.position(|it| it.name == environment.name);
                    self.stage(environment, index.unwrap_or_default())
                }
                Row::Line { into, .. } => tag("li")
                    .class(format_args!("passing {}", self.line_class(into)))
                    .with("aria-hidden", "true"),
            });
            tag("li")
                .class("depth")
                .child(lines)
                .child(tag("ol").children(stages))
        });
        tag("ol").id("picture").class("flow graph").children(drawn)
    }

    /// The cards of each column, and below them the lines that pass it.
    fn rows(&self) -> Vec<Vec<Row<'_>>> {
        let spec = &self.pipeline.spec;
        let columns = planner::environment_columns(spec);
        let column_of = |name: &str| {
            let mut all = columns.iter();
            all.position(|column| column.iter().any(|it| it.name == name))
        };
        let mut rows: Vec<Vec<Row<'_>>> = columns
            .iter()
            .map(|column| column.iter().copied().map(Row::Card).collect())
            .collect();
        for into in columns.iter().flatten().copied() {
            for from in planner::sources(spec, &into.name) {
                let ends = (column_of(&from.name), column_of(&into.name));
                if let (Some(first), Some(last)) = ends {
                    let passed = rows.iter_mut().take(last).skip(first + 1);
                    passed.for_each(|column| column.push(Row::Line { from, into }));
                }
            }
        }
        rows
    }

    /// The environments that an environment comes after, where the order of the list does not say so.
    pub(super) fn after(&self, environment: &Environment) -> Option<Element> {
        let spec = &self.pipeline.spec;
        let names = self.source_names(environment);
        if planner::is_chain(spec) || names.is_empty() {
            return None;
        }
        Some(tag("p").class("after").text(format_args!("after {names}")))
    }

    /// The names of the environments that an environment comes after, for people.
    pub(super) fn source_names(&self, environment: &Environment) -> String {
        let sources = planner::sources(&self.pipeline.spec, &environment.name);
        let names: Vec<_> = sources.iter().map(|it| it.name.as_str()).collect();
        names.join(", ")
    }

    /// The lines from the rows of a column to those of the next. The rows of a column share its height
    /// equally, so that the middle of each is known. Screen readers have the words in the cards.
    fn lines(&self, before: &[Row<'_>], column: &[Row<'_>]) -> Element {
        let spec = &self.pipeline.spec;
        let mut lines = Vec::new();
        for (number, row) in column.iter().enumerate() {
            let edges: Vec<(&Environment, &Environment)> = match row {
                Row::Card(into) => {
                    let sources = planner::sources(spec, &into.name).into_iter();
                    sources.map(|from| (from, *into)).collect()
                }
                Row::Line { from, into } => vec![(*from, *into)],
            };
            for (from, into) in edges {
                let starts = before.iter().position(|it| match it {
                    Row::Card(card) => card.name == from.name,
                    line => *line == Row::Line { from, into },
                });
                if let Some(start) = starts {
                    let ends = (middle(start, before.len()), middle(number, column.len()));
                    lines.push(self.line(into, ends));
                }
            }
        }
        tag("svg")
            .class("joins")
            .with("viewBox", format_args!("0 0 {SIZE} {SIZE}"))
            .with("preserveAspectRatio", "none")
            .with("aria-hidden", "true")
            .children(lines)
    }

    fn line(&self, into: &Environment, (start, end): (usize, usize)) -> Element {
        let half = SIZE / 2;
        tag("path").class(self.line_class(into)).with(
            "d",
            format_args!("M0 {start} C{half} {start} {half} {end} {SIZE} {end}"),
        )
    }
}

impl PipelineView<'_> {
    fn line_class(&self, into: &Environment) -> &'static str {
        match self.current_promotion(&into.name) {
            Some(_) => "going",
            None => "idle",
        }
    }
}

/// The middle of one of several equal parts of the height.
fn middle(index: usize, count: usize) -> usize {
    (2 * index + 1) * SIZE / (2 * count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_in_the_middle_of_each_card() {
        assert_eq!(middle(0, 1), 500);
        assert_eq!([middle(0, 2), middle(1, 2)], [250, 750]);
        assert_eq!(middle(2, 5), 500);
    }
}
