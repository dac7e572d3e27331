//! The columns of the list: one for each environment name that many pipelines have.

use std::collections::BTreeMap;

use super::row::PipelineRow;
use crate::dashboard::html::{Element, tag};

/// More names than this share the last column.
const MAX_COLUMNS: usize = 6;
/// Then names have a column of their own if at least one in this many pipelines has them.
const MIN_SHARE: usize = 10;

/// The environments that have a column of their own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) names: Vec<String>,
    /// Whether some environments of the rows are in no column.
    pub(super) has_others: bool,
}

impl Columns {
    pub(super) fn of<'a>(rows: impl Iterator<Item = &'a PipelineRow>) -> Self {
        Self::of_names(rows.map(|row| row.environments.as_slice()))
    }

    /// The most frequent names, in the order in which pipelines have them on average.
    fn of_names<'a>(pipelines: impl Iterator<Item = &'a [String]>) -> Self {
        let mut seen: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let mut total = 0;
        for names in pipelines {
            total += 1;
            for (index, name) in names.iter().enumerate() {
                let (count, position) = seen.entry(name).or_default();
                *count += 1;
                *position += index * 1000 / names.len();
            }
        }
        let mut names: Vec<_> = seen.into_iter().collect();
        names.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        let has_others = names.len() > MAX_COLUMNS;
        // A column that is almost empty takes the room of those that are not.
        let is_frequent = |count: usize| count > 1 && count * MIN_SHARE >= total;
        if has_others && is_frequent(names[0].1.0) {
            names.retain(|(_, (count, _))| is_frequent(*count));
        }
        names.truncate(MAX_COLUMNS);
        names.sort_by_key(|(name, (count, position))| (position / count, *name));
        let names = names.into_iter().map(|(name, _)| name.to_owned());
        Self {
            names: names.collect(),
            has_others,
        }
    }

    /// How many columns the table has.
    pub(super) fn count(&self) -> usize {
        self.names.len() + usize::from(self.has_others) + 3
    }

    pub(super) fn head(&self) -> Element {
        let others = self.has_others.then_some("Other environments");
        let names = self.names.iter().map(String::as_str).chain(others);
        let heads = ["Pipeline"].into_iter().chain(names);
        let heads = heads.chain(["Why it waits", "Last change"]);
        let heads = heads.map(|head| tag("th").with("scope", "col").text(head));
        tag("thead").id("columns").child(tag("tr").children(heads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pipelines: &[&str], expected: &str, has_others: bool) {
        let names: Vec<Vec<String>> = pipelines
            .iter()
            .map(|names| names.split(' ').map(str::to_owned).collect())
            .collect();
        let columns = Columns::of_names(names.iter().map(Vec::as_slice));
        assert_eq!(columns.names.join(" "), expected);
        assert_eq!(columns.has_others, has_others);
    }

    #[test]
    fn columns_follow_the_order_of_promotion() {
        check(&[], "", false);
        check(&["dev prod", "dev staging prod"], "dev staging prod", false);
        check(&["dev qa eu us", "dev eu", "dev us"], "dev qa eu us", false);
    }

    #[test]
    fn rare_names_share_a_column() {
        let rare = ["a1 b1 c1", "dev prod", "dev prod", "a2 b2 c2"];
        check(&rare, "dev prod", true);
        check(&["a b c d e f g"], "a b c d e f", true);
    }
}
