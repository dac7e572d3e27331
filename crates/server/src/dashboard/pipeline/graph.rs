//! The picture of a pipeline whose environments do not simply follow each other: columns of cards, joined by
//! lines. Each card also says in words which environments it comes after.

use api::pipeline::Environment;

use super::PipelineView;
use crate::dashboard::html::{Element, tag};

/// The size of the drawing between two columns, which is stretched to their height.
const SIZE: usize = 1000;

impl PipelineView<'_> {
    pub(super) fn graph(&self) -> Element {
        let columns = planner::environment_columns(&self.pipeline.spec);
        let drawn = columns.iter().enumerate().map(|(index, column)| {
            let before = index
                .checked_sub(1)
                .map(|before| columns[before].as_slice());
            let lines = before.map(|before| self.lines(before, column));
            let stages = column.iter().map(|environment| {
                let mut all = self.pipeline.spec.environments.iter();
                let index = all.position(|it| it.name == environment.name);
                self.stage(environment, index.unwrap_or_default())
            });
            tag("li")
                .class("depth")
                .child(lines)
                .child(tag("ol").children(stages))
        });
        tag("ol").id("picture").class("flow graph").children(drawn)
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

    /// The lines from the environments of a column to those of the next. The cards of a column share its
    /// height equally, so that the middle of each is known. Screen readers have the words in the cards.
    fn lines(&self, from: &[&Environment], to: &[&Environment]) -> Element {
        let spec = &self.pipeline.spec;
        let mut lines = Vec::new();
        for (row, environment) in to.iter().enumerate() {
            for source in planner::sources(spec, &environment.name) {
                let Some(start) = from.iter().position(|it| it.name == source.name) else {
                    continue;
                };
                let ends = (middle(start, from.len()), middle(row, to.len()));
                lines.push(self.line(environment, ends));
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
        let is_going = self.current_promotion(&into.name).is_some();
        tag("path")
            .class(if is_going { "going" } else { "idle" })
            .with(
                "d",
                format_args!("M0 {start} C{half} {start} {half} {end} {SIZE} {end}"),
            )
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
