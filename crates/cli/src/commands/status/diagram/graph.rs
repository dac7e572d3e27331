//! Draws environments that do not simply follow each other: boxes in columns, joined by lines.
//!
//! A line joins an environment to one of the next column. Where an environment comes after one that is
//! further to the left, only the text in its box says so.

use super::{
    super::super::terminal::columns,
    boxes::{self, EnvironmentBox},
};

/// The boxes, the columns that they are in, and who comes after whom, all by their position in the list.
pub(super) struct Graph<'a> {
    pub(super) boxes: &'a [EnvironmentBox],
    pub(super) columns: Vec<Vec<usize>>,
    /// Pairs of an environment and one that comes after it.
    pub(super) edges: Vec<(usize, usize)>,
}

/// Where the lines of a box go to: the first row of its content.
const CONTENT: usize = 1;
const LEFT: u8 = 1;
const RIGHT: u8 = 2;
const UP: u8 = 4;
const DOWN: u8 = 8;

impl Graph<'_> {
    /// The drawing, if it fits.
    pub(super) fn draw(&self, width: usize) -> Option<String> {
        let height = self.columns.iter().map(|it| self.height(it)).max()?;
        let mut rows = vec![String::new(); height];
        for (index, column) in self.columns.iter().enumerate() {
            if let Some(next) = index.checked_sub(1).map(|before| &self.columns[before]) {
                let gap = self.gap(next, column, height);
                rows.iter_mut()
                    .zip(gap)
                    .for_each(|(row, gap)| row.push_str(&gap));
            }
            let drawn = self.column(column, height);
            rows.iter_mut()
                .zip(drawn)
                .for_each(|(row, part)| row.push_str(&part));
        }
        let plain = rows
            .iter()
            .map(|row| anstream::adapter::strip_str(row).to_string());
        let widest = plain.map(|row| columns(row.trim_end())).max()?;
        (widest <= width).then(|| rows.iter().map(|row| format!("{row}\n")).collect())
    }

    /// How many rows a column takes: its boxes with an empty row between them.
    fn height(&self, column: &[usize]) -> usize {
        let boxes = column.iter().map(|it| self.boxes[*it].height() + 1);
        boxes.sum::<usize>().saturating_sub(1)
    }

    /// The first row of each box of a column, which is in the middle of the drawing.
    fn tops(&self, column: &[usize], height: usize) -> Vec<(usize, usize)> {
        let mut top = (height - self.height(column)) / 2;
        let tops = column.iter().map(|index| {
            let own = top;
            top += self.boxes[*index].height() + 1;
            (*index, own)
        });
        tops.collect()
    }

    /// The rows of a column.
    fn column(&self, column: &[usize], height: usize) -> Vec<String> {
        let widths = column.iter().map(|it| self.boxes[*it].width());
        let width = widths.max().unwrap_or_default();
        let mut rows = vec![" ".repeat(width + boxes::FRAME); height];
        for (index, top) in self.tops(column, height) {
            let it = &self.boxes[index];
            for row in 0..it.height() {
                rows[top + row] = it.row(row, it.height(), width);
            }
        }
        rows
    }

    /// The lines between two columns.
    fn gap(&self, from: &[usize], to: &[usize], height: usize) -> Vec<String> {
        let row_of = |tops: &[(usize, usize)], wanted: usize| {
            let found = tops.iter().find(|(index, _)| *index == wanted);
            found.map(|(_, top)| top + CONTENT)
        };
        let (from, to) = (self.tops(from, height), self.tops(to, height));
        let lines = self
            .edges
            .iter()
            .filter_map(|(source, target)| Some((row_of(&from, *source)?, row_of(&to, *target)?)));
        let lanes = lanes(&lines.collect::<Vec<_>>());
        let width = 2 * lanes.len().max(1) + 4;
        let mut cells = vec![vec![0_u8; width]; height];
        let mut arrows = Vec::new();
        for (lane, lines) in lanes.iter().enumerate() {
            for (source, target) in lines {
                route(&mut cells, (*source, *target), 2 + 2 * lane);
                arrows.push(*target);
            }
        }
        let rows = cells.iter().enumerate().map(|(row, cells)| {
            let mut text: Vec<char> = cells.iter().map(|cell| glyph(*cell)).collect();
            if arrows.contains(&row) {
                text[width - 2] = '▶';
            }
            text.into_iter().collect()
        });
        rows.collect()
    }
}

/// Puts the lines into lanes: those that share an end share a lane, and others that would overlap do not.
fn lanes(lines: &[(usize, usize)]) -> Vec<Vec<(usize, usize)>> {
    let mut groups: Vec<Vec<(usize, usize)>> = Vec::new();
    for line in lines {
        let shares_end =
            |group: &Vec<(usize, usize)>| group.iter().any(|it| it.0 == line.0 || it.1 == line.1);
        let (mut same, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(shares_end);
        let mut merged = vec![*line];
        same.iter_mut().for_each(|group| merged.append(group));
        groups = others;
        groups.push(merged);
    }
    groups.sort_by_key(|group| range(group));
    let mut lanes: Vec<Vec<Vec<(usize, usize)>>> = Vec::new();
    for group in groups {
        let (top, bottom) = range(&group);
        let is_free = |lane: &&mut Vec<Vec<(usize, usize)>>| {
            let mut taken = lane.iter().map(|group| range(group));
            taken.all(|(first, last)| last < top || bottom < first)
        };
        match lanes.iter_mut().find(is_free) {
            Some(lane) => lane.push(group),
            None => lanes.push(vec![group]),
        }
    }
    lanes.into_iter().map(|lane| lane.concat()).collect()
}

/// The first and last row of a group of lines.
fn range(group: &[(usize, usize)]) -> (usize, usize) {
    let rows = || group.iter().flat_map(|(from, to)| [*from, *to]);
    let (first, last) = (rows().min(), rows().max());
    (first.unwrap_or_default(), last.unwrap_or_default())
}

/// Draws a line from the left to the right side, through a lane.
fn route(cells: &mut [Vec<u8>], (source, target): (usize, usize), lane: usize) {
    let end = cells[source].len() - 2;
    let through = |cells: &mut [u8]| cells.iter_mut().for_each(|cell| *cell |= LEFT | RIGHT);
    through(&mut cells[source][1..lane]);
    cells[source][lane] |= LEFT;
    cells[target][lane] |= RIGHT;
    through(&mut cells[target][lane + 1..end]);
    let (top, bottom) = (source.min(target), source.max(target));
    for row in &mut cells[top..bottom] {
        row[lane] |= DOWN;
    }
    for row in &mut cells[top + 1..=bottom] {
        row[lane] |= UP;
    }
}

fn glyph(cell: u8) -> char {
    const SIDES: u8 = LEFT | RIGHT;
    const HEIGHT: u8 = UP | DOWN;
    match (cell & SIDES, cell & HEIGHT) {
        (0, 0) => ' ',
        (0, _) => '│',
        (_, 0) => '─',
        (RIGHT, DOWN) => '┌',
        (LEFT, DOWN) => '┐',
        (RIGHT, UP) => '└',
        (LEFT, UP) => '┘',
        (SIDES, DOWN) => '┬',
        (SIDES, UP) => '┴',
        (RIGHT, _) => '├',
        (LEFT, _) => '┤',
        _ => '┼',
    }
}
