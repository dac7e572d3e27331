//! The table of a run, and the mutations that need a test or a reason.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::accepted::Accepted;
use super::build::LeftOut;
use super::trial::Outcome;

/// What is known about a mutation.
pub(super) enum Status {
    LeftOut(LeftOut),
    Tried(Outcome),
    /// The time was over before.
    NotTried,
}

/// A mutation with what is known about it.
pub(super) struct Entry {
    pub(super) package: String,
    /// The folder of the package, such as `crates/planner/`.
    pub(super) folder: String,
    /// File, line, column and what is replaced.
    pub(super) shown: String,
    /// The same without line and column.
    pub(super) key: String,
    pub(super) status: Status,
    /// How long its tests took.
    pub(super) time: Duration,
}

#[derive(Default)]
struct Row {
    mutations: usize,
    killed: usize,
    timed_out: usize,
    survived: usize,
    not_reached: usize,
    not_switchable: usize,
    not_viable: usize,
    not_tried: usize,
    time: Duration,
}

impl Row {
    fn add(&mut self, entry: &Entry) {
        self.mutations += 1;
        self.time += entry.time;
        let count = match &entry.status {
            Status::LeftOut(LeftOut::NotSwitchable(_)) => &mut self.not_switchable,
            Status::LeftOut(LeftOut::NotViable(_)) => &mut self.not_viable,
            Status::NotTried => &mut self.not_tried,
            Status::Tried(Outcome::Killed { timed_out, .. }) => {
                self.timed_out += usize::from(*timed_out);
                &mut self.killed
            }
            Status::Tried(Outcome::Survived | Outcome::SurvivedFor { .. }) => &mut self.survived,
            Status::Tried(Outcome::NotReached) => &mut self.not_reached,
        };
        *count += 1;
    }
}

const HEAD: &str = "\
| package | mutations | killed | of them by timeout | survived | not reached | not switchable | not viable | not tried | minutes |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

/// Prints the results; fails for survivors without a reason. `is_whole` is whether all mutations of the
/// packages were selected, `of_changes` whether only those of changed lines were.
pub(super) fn print(
    entries: &[Entry],
    accepted: &Accepted,
    is_whole: bool,
    of_changes: bool,
) -> Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "{}", table(entries))?;
    let not_switchable =
        |it: &&Entry| matches!(it.status, Status::LeftOut(LeftOut::NotSwitchable(_)));
    let not_tried = |it: &&Entry| matches!(it.status, Status::NotTried);
    list(
        &mut out,
        "Not switchable",
        entries.iter().filter(not_switchable),
    )?;
    list(
        &mut out,
        "Not tried, because the time was over",
        entries.iter().filter(not_tried),
    )?;
    if of_changes {
        let title = "Not decided, because slow tests or tests of other packages may reach it";
        let undecided = entries.iter().filter(|it| is_undecided(it));
        list(&mut out, title, undecided)?;
    }
    let survivors: Vec<&Entry> = entries
        .iter()
        .filter(|it| is_survivor(it) && !(of_changes && is_undecided(it)))
        .collect();
    let unexplained = survivors.iter().filter(|it| !accepted.contains(&it.key));
    let count = unexplained.clone().count();
    let title = "No test fails: add a test, or a reason to xtask/survivors.toml";
    list(&mut out, title, unexplained.copied())?;
    if is_whole {
        let killed = |it: &&Entry| matches!(it.status, Status::Tried(Outcome::Killed { .. }));
        let others = entries.iter().filter(|it| !killed(it));
        let keys: BTreeSet<String> = others.map(|it| it.key.clone()).collect();
        let folders: BTreeSet<&str> = entries.iter().map(|it| it.folder.as_str()).collect();
        for folder in folders {
            for mutation in accepted.outdated(folder, &keys) {
                writeln!(out, "no survivor any more: {mutation}")?;
            }
        }
    }
    ensure!(count == 0, "{count} mutations survived without a reason");
    Ok(())
}

/// Whether tests that were not run may notice it.
fn is_undecided(entry: &Entry) -> bool {
    matches!(
        entry.status,
        Status::Tried(Outcome::NotReached | Outcome::SurvivedFor { .. })
    )
}

fn is_survivor(entry: &Entry) -> bool {
    match &entry.status {
        Status::Tried(outcome) => !matches!(outcome, Outcome::Killed { .. }),
        _ => false,
    }
}

fn table(entries: &[Entry]) -> String {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for entry in entries {
        rows.entry(&entry.package).or_default().add(entry);
    }
    let rows = rows.iter().map(|(package, row)| {
        format!(
            "| {package} | {} | {} | {} | {} | {} | {} | {} | {} | {:.1} |\n",
            row.mutations,
            row.killed,
            row.timed_out,
            row.survived,
            row.not_reached,
            row.not_switchable,
            row.not_viable,
            row.not_tried,
            row.time.as_secs_f64() / 60.0,
        )
    });
    HEAD.to_owned() + &rows.collect::<String>()
}

fn list<'a>(
    out: &mut impl Write,
    title: &str,
    entries: impl Iterator<Item = &'a Entry>,
) -> Result<()> {
    let mut entries = entries.peekable();
    if entries.peek().is_some() {
        writeln!(out, "\n{title}:")?;
    }
    for entry in entries {
        writeln!(out, "- {}{}", entry.shown, remark(&entry.status))?;
    }
    Ok(())
}

fn remark(status: &Status) -> String {
    match status {
        Status::LeftOut(LeftOut::NotSwitchable(why) | LeftOut::NotViable(why)) => {
            format!(" ({why})")
        }
        Status::Tried(Outcome::NotReached) => " (no test reaches it)".to_owned(),
        Status::Tried(Outcome::SurvivedFor {
            seconds,
            tests_left,
        }) => format!(" (survived within {seconds} s; {tests_left} tests were not run)"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(status: Status) -> Entry {
        Entry {
            package: "a".to_owned(),
            folder: "crates/a/".to_owned(),
            shown: "crates/a/src/b.rs:1:2: delete ! in c".to_owned(),
            key: "crates/a/src/b.rs: delete ! in c".to_owned(),
            status,
            time: Duration::from_secs(6),
        }
    }

    #[test]
    fn every_mutation_is_counted_once() {
        let killed = |timed_out| Outcome::Killed {
            program: String::new(),
            test: String::new(),
            timed_out,
        };
        let survived = Outcome::SurvivedFor {
            seconds: 1,
            tests_left: 2,
        };
        let entries = [
            Status::Tried(killed(false)),
            Status::Tried(killed(true)),
            Status::Tried(Outcome::Survived),
            Status::Tried(survived),
            Status::Tried(Outcome::NotReached),
            Status::LeftOut(LeftOut::NotSwitchable(String::new())),
            Status::LeftOut(LeftOut::NotViable(String::new())),
            Status::NotTried,
        ]
        .map(entry);
        let row = "| a | 8 | 2 | 1 | 2 | 1 | 1 | 1 | 1 | 0.8 |\n";
        assert_eq!(table(&entries), format!("{HEAD}{row}"));
        assert_eq!(entries.iter().filter(|it| is_survivor(it)).count(), 3);
        assert_eq!(entries.iter().filter(|it| is_undecided(it)).count(), 2);
    }
}
