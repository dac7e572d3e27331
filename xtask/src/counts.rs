//! `cargo xtask counts`: instructions of the planner and of the embedded API under callgrind, compared with
//! `xtask/counts.toml`.
//!
//! Unlike times, they are the same on every machine. Each is the difference between two runs, so that the
//! start of the program does not count. Costs of requests and writes are tested by
//! `crates/controller/tests/observe/counts.rs`.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::command::{cargo, is_installed, root, run};

/// The program and what it is asked to do.
const COUNTED: &[(&str, &str)] = &[
    ("planner", "fold"),
    ("planner", "plan"),
    ("planner", "attempt"),
    ("apiserver", "create"),
    ("apiserver", "patch"),
    ("apiserver", "list"),
];
/// How often: once more than this, compared with once.
const TIMES: u64 = 10;
const BUDGETS: &str = "xtask/counts.toml";

/// What one call may cost.
#[derive(Deserialize)]
struct Budgets {
    /// Compilers differ a little.
    tolerance_percent: u64,
    /// By program and function.
    instructions: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Counts and compares; with `is_write`, stores the counts as the new budgets.
pub(crate) fn counts(is_write: bool) -> Result<()> {
    if !is_installed("valgrind") {
        eprintln!("SKIPPED: instructions are not counted, because valgrind is not installed");
        return Ok(());
    }
    let budgets = read_budgets()?;
    let mut build = cargo(&["build", "--locked", "--workspace"]);
    for program in ["count_planner", "count_apiserver"] {
        build.args(["--example", program]);
    }
    run(&mut build)?;
    let mut counted: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    let mut exceeded = Vec::new();
    for (program, function) in COUNTED {
        let count = count(program, function)?;
        let budget = budgets.instructions.get(*program);
        let budget = budget.and_then(|it| it.get(*function)).copied();
        let limit = budget.map(|it| it + it * budgets.tolerance_percent / 100);
        let shown = budget.map_or("none".to_owned(), |it| it.to_string());
        eprintln!("{program} {function}: {count} instructions, budget {shown}");
        if limit.is_none_or(|limit| count > limit) {
            exceeded.push(format!("{program} {function}"));
        }
        let functions = counted.entry((*program).to_owned()).or_default();
        functions.insert((*function).to_owned(), count);
    }
    if is_write {
        return write_budgets(&budgets, &counted);
    }
    ensure!(
        exceeded.is_empty(),
        "over budget by more than {} %: {}. Make it cheaper, or accept it with `cargo xtask counts --write`",
        budgets.tolerance_percent,
        exceeded.join(", "),
    );
    Ok(())
}

fn read_budgets() -> Result<Budgets> {
    let text = std::fs::read_to_string(root().join(BUDGETS));
    let text = text.with_context(|| format!("cannot read {BUDGETS}"))?;
    toml::from_str(&text).with_context(|| format!("cannot parse {BUDGETS}"))
}

fn write_budgets(
    budgets: &Budgets,
    counted: &BTreeMap<String, BTreeMap<String, u64>>,
) -> Result<()> {
    let mut text = format!(
        "# Instructions of one call in a debug build; `cargo xtask counts --write` updates them.\n\
         tolerance_percent = {}\n",
        budgets.tolerance_percent,
    );
    for (program, functions) in counted {
        text += &format!("\n[instructions.{program}]\n");
        for (function, count) in functions {
            text += &format!("{function} = {count}\n");
        }
    }
    std::fs::write(root().join(BUDGETS), text).with_context(|| format!("cannot write {BUDGETS}"))
}

/// Instructions of one call.
fn count(program: &str, function: &str) -> Result<u64> {
    let once = instructions(program, function, 1)?;
    let often = instructions(program, function, TIMES + 1)?;
    Ok(often.saturating_sub(once) / TIMES)
}

/// Instructions of a whole run.
fn instructions(program: &str, function: &str, times: u64) -> Result<u64> {
    let path = target_folder().join(format!("debug/examples/count_{program}"));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(&path)
        .args([function, &times.to_string()])
        .output()
        .context("cannot start valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{} failed under callgrind: {said}", path.display());
    }
    collected(&said).with_context(|| format!("callgrind did not say how much it counted: {said}"))
}

/// The number in `==1== Collected : 123`.
fn collected(said: &str) -> Option<u64> {
    let (_, rest) = said.split_once("Collected : ")?;
    rest.split_whitespace().next()?.parse().ok()
}

fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_a_budget() {
        let budgets = read_budgets().expect("budgets");
        for (program, function) in COUNTED {
            let budget = budgets.instructions[*program][*function];
            assert!(budget > 0, "{program} {function}");
        }
    }

    #[test]
    fn the_count_is_read() {
        let said = "==7== Events    : Ir\n==7== Collected : 28129\n==7==\n";
        assert_eq!(collected(said), Some(28129));
        assert_eq!(collected("==7== nothing"), None);
    }
}
