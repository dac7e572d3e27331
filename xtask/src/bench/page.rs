//! docs/benchmarks.md as text, from what the benchmarks printed.
//!
//! A printed line is a label and a figure, with `: ` or two spaces between them; any other line is a caption
//! of the lines that follow it.

use std::time::Duration;

use anyhow::{Context, Result};

/// The section that is kept when the Weave controller was not measured.
const WEAVE: &str = "## Beside the Weave pipeline-controller\n";

/// A benchmark that ran.
pub(super) struct BenchRun {
    pub(super) name: &'static str,
    /// What it measures.
    pub(super) what: String,
    /// The command that repeats it.
    pub(super) command: String,
    pub(super) took: Duration,
    /// What it printed.
    pub(super) printed: String,
}

/// A figure of the summary: what it is, the benchmark that prints it, and the label it has there.
pub(super) type Highlight = (&'static str, &'static str, &'static str);

/// Lines below one caption.
struct PrintedTable<'a> {
    caption: &'a str,
    rows: Vec<(&'a str, &'a str)>,
}

/// The whole page. `beside_weave` is the section of [`beside_weave`] or [`kept_section`].
pub(super) fn page(
    machine: &str,
    highlights: &[Highlight],
    runs: &[BenchRun],
    beside_weave: &str,
) -> Result<String> {
    let mut page = format!(
        "# Benchmarks\n\n\
         `cargo xtask bench all --real` wrote this page: every figure was printed by the command that is named \
         beside or above it. Times depend on the machine, and a busy machine is slower; the numbers of requests \
         and writes do not.\n\n\
         {machine}\n## In short\n\n| figure | measured | with | printed by |\n| --- | --- | --- | --- |\n"
    );
    for (what, bench, label) in highlights {
        let run = runs.iter().find(|run| run.name == *bench);
        let run = run.with_context(|| format!("{what}: {bench} did not run"))?;
        let tables = tables(&run.printed);
        let mut rows = tables.iter().flat_map(|table| &table.rows);
        let row = rows.find(|(printed, _)| printed == label);
        let (_, figure) = row.with_context(|| format!("{bench} prints no {label:?}"))?;
        let setup = tables.first().map_or("", |table| table.caption);
        let (figure, setup) = (cell(figure), cell(setup));
        page += &format!("| {what} | {figure} | {setup} | `{}` |\n", run.command);
    }
    page += &format!("\n{beside_weave}");
    for run in runs {
        page += &section(run);
    }
    Ok(page)
}

fn section(run: &BenchRun) -> String {
    let mut text = format!(
        "\n## {}\n\nMeasured: {}. `{}` took {} s.\n",
        run.name,
        run.what,
        run.command,
        run.took.as_secs()
    );
    for PrintedTable { caption, rows } in tables(&run.printed) {
        if !caption.is_empty() {
            text += &format!("\n{}:\n", caption.trim_end_matches(':'));
        }
        if !rows.is_empty() {
            text += "\n| | |\n| --- | --- |\n";
        }
        for (label, figure) in rows {
            text += &format!("| {} | {} |\n", cell(label), cell(figure));
        }
    }
    text
}

/// The section that compares two controllers, which one run of `observe` measured one after the other.
pub(super) fn beside_weave(run: &BenchRun, measured: &str) -> Result<String> {
    let tables = tables(&run.printed);
    let [.., ours, theirs] = tables.as_slice() else {
        anyhow::bail!("{} measured no second controller", run.command);
    };
    let setup = tables.first().map_or("", |table| table.caption);
    let mut text = format!(
        "{WEAVE}\nMeasured {measured}, one after the other on the same clusters, by `{}`: {setup}. The file of \
         `--weave` is a binary of that controller, the file of `--binary` one of Sluice.\n\n\
         | | {} | {} |\n| --- | --- | --- |\n",
        run.command,
        ours.caption.trim_end_matches(':'),
        theirs.caption.trim_end_matches(':'),
    );
    for ((label, ours), (other_label, theirs)) in ours.rows.iter().zip(&theirs.rows) {
        anyhow::ensure!(label == other_label, "{label} beside {other_label}");
        text += &format!("| {} | {} | {} |\n", cell(label), cell(ours), cell(theirs));
    }
    Ok(text)
}

/// The comparison with the Weave controller that an older page has.
pub(super) fn kept_section(page: &str) -> String {
    let Some((_, rest)) = page.split_once(WEAVE) else {
        return String::new();
    };
    let section = rest.split("\n## ").next().unwrap_or_default();
    format!("{WEAVE}{}\n", section.trim_end())
}

fn tables(printed: &str) -> Vec<PrintedTable<'_>> {
    let mut tables = vec![PrintedTable {
        caption: "",
        rows: Vec::new(),
    }];
    for line in printed.lines().map(str::trim).filter(|it| !it.is_empty()) {
        match (row(line), tables.last_mut()) {
            (Some(row), Some(table)) => table.rows.push(row),
            _ => tables.push(PrintedTable {
                caption: line,
                rows: Vec::new(),
            }),
        }
    }
    tables.retain(|it| !it.caption.is_empty() || !it.rows.is_empty());
    tables
}

/// Label and figure of a line.
fn row(line: &str) -> Option<(&str, &str)> {
    let ends = [line.find("  "), line.find(": ")];
    let at = ends.into_iter().flatten().min()?;
    let figure = line[at..].trim_start_matches(':').trim();
    Some((&line[..at], figure))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
1000 pipelines, real kube-apiservers
the reconciler of Sluice:
fully synced                  3.31s
burst of 1,000 changes       2.90s, of which making them 1.1s
the Weave pipeline-controller:
fully synced                 49.2s
burst of 1,000 changes      49.6s, of which making them 1.1s
";

    fn run(printed: &str) -> BenchRun {
        BenchRun {
            name: "observe",
            what: "the loop".to_owned(),
            command: "cargo xtask bench observe --real".to_owned(),
            took: Duration::from_secs(61),
            printed: printed.to_owned(),
        }
    }

    #[test]
    fn every_printed_line_is_a_row_or_a_caption() {
        let printed = "100 pipelines\n\nhooks: 7/s | each\n  p50   3 ms\ncalm:\nwrites  0\n";
        let highlights = [("hooks stored", "observe", "hooks")];
        let page = page("a machine\n", &highlights, &[run(printed)], "").unwrap();
        let (summary, sections) = page.split_once("\n## observe\n").unwrap();
        let row =
            "| hooks stored | 7/s \\| each | 100 pipelines | `cargo xtask bench observe --real` |";
        assert!(summary.contains(row), "{summary}");
        let table = "| | |\n| --- | --- |\n";
        assert_eq!(
            sections,
            format!(
                "\nMeasured: the loop. `cargo xtask bench observe --real` took 61 s.\n\n100 pipelines:\n\n\
                 {table}| hooks | 7/s \\| each |\n| p50 | 3 ms |\n\ncalm:\n\n{table}| writes | 0 |\n"
            )
        );
    }

    #[test]
    fn a_figure_that_is_not_printed_is_an_error() {
        let highlights = [("memory", "observe", "memory")];
        let error = page("", &highlights, &[run(PRINTED)], "").unwrap_err();
        assert_eq!(error.to_string(), "observe prints no \"memory\"");
    }

    #[test]
    fn two_controllers_stand_side_by_side_and_are_kept() {
        let section = beside_weave(&run(PRINTED), "on 2026-11-18").unwrap();
        assert!(section.contains("1000 pipelines, real kube-apiservers"));
        assert!(section.contains("| | the reconciler of Sluice | the Weave pipeline-controller |"));
        assert!(section.contains("| fully synced | 3.31s | 49.2s |"));
        let older = page("", &[], &[run(PRINTED)], &section).unwrap();
        assert_eq!(kept_section(&older), section);
        assert_eq!(kept_section("# Benchmarks\n"), "");
    }

    #[test]
    fn one_controller_is_no_comparison() {
        assert!(beside_weave(&run("1000 pipelines\n"), "").is_err());
    }
}
