//! `cargo xtask bench NAME`: runs benchmarks; `all` writes docs/benchmarks.md.

mod page;

use std::{path::Path, process::Command, time::Instant};

use anyhow::{Context, bail};

use crate::{
    command::{cargo, output, root, run},
    kube,
};
use page::{BenchRun, Highlight};

/// A benchmark.
struct Bench {
    name: &'static str,
    /// What it measures.
    what: &'static str,
    /// Where it runs with `--real`; without it, it has no such flag.
    real: Option<&'static str>,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "apiserver",
        what: "the embedded API over TLS, in memory and in a file, compared with kube-apiserver if it is built",
        real: None,
    },
    Bench {
        name: "checks",
        what: "1,000 pipelines with two checks each: requests, writes, CPU and memory while nothing changes",
        real: None,
    },
    Bench {
        name: "dashboard",
        what: "1,000 pipelines in Chromium: first load, first paint, change to screen, memory with 100 pages",
        real: None,
    },
    Bench {
        name: "fleet",
        what: "a rollout through 1,000 clusters in three waves with failures: requests and writes per target, memory, size of the status, planner",
        real: Some("on a real kube-apiserver"),
    },
    Bench {
        name: "hooks",
        what: "signed webhook requests compared with plain writes to the same API, and 10,000 wrong signatures",
        real: Some("on a real kube-apiserver"),
    },
    Bench {
        name: "inputs",
        what: "10,000 polls of `/inputs` a minute by 1,000 clusters, and the requests to the API server that they cause",
        real: Some("on a real kube-apiserver"),
    },
    Bench {
        name: "observe",
        what: "the pipeline reconciler: sync, memory, time from a leaf change to the status",
        real: Some("on real kube-apiservers"),
    },
    Bench {
        name: "promote",
        what: "promotions in one large repository with a mirror, compared with a clone for each",
        real: None,
    },
    Bench {
        name: "strategies",
        what: "pipeline and promotion reconcilers: leaf change to opened pull request, and the cost of a promotion by strategy",
        real: None,
    },
    Bench {
        name: "trigger",
        what: "1,000 triggers: from a source's event to the created run, calls and memory, in process",
        real: None,
    },
];

/// The summary of the page.
const HIGHLIGHTS: &[Highlight] = &[
    (
        "until every pipeline has its first status",
        "observe",
        "fully synced",
    ),
    (
        "from a change on a cluster to the pipeline's status",
        "observe",
        "single change to status",
    ),
    (
        "memory of the controller",
        "observe",
        "memory of the controller",
    ),
    (
        "from a change on a cluster to the open pull request",
        "strategies",
        "leaf change to opened pull request, one at a time",
    ),
    (
        "promotion in a large repository, compared with a clone for each",
        "promote",
        "median promotion",
    ),
    ("rollout through all clusters", "fleet", "rollout"),
    (
        "signed webhook requests stored, and how that compares with plain status patches",
        "hooks",
        "signed requests stored",
    ),
    (
        "10,000 polls of `/inputs` by clusters with Flux Operator",
        "inputs",
        "10000 polls, 100 at a time",
    ),
    ("processor time of checks", "checks", "CPU"),
    (
        "from an event of a Flux source to the Tekton run",
        "trigger",
        "one event at a time",
    ),
    (
        "dashboard: first contentful paint",
        "dashboard",
        "first contentful paint",
    ),
    (
        "dashboard: from a change to the screen",
        "dashboard",
        "change to screen with one page",
    ),
];

/// Where `bench all` writes.
const FILE: &str = "docs/benchmarks.md";

/// Runs one benchmark with further arguments, runs all and writes their page, or lists them.
pub(crate) fn bench(name: Option<&str>, is_real: bool, further: &[String]) -> anyhow::Result<()> {
    let Some(name) = name else {
        for bench in BENCHES {
            eprintln!("{}: {}", bench.name, bench.description());
        }
        return Ok(());
    };
    if name == "all" {
        return bench_all(is_real, further);
    }
    // The benchmark of promotions is spread over several crates.
    let of_promote = |known: &str| name == "promote" && ["hooks", "strategies"].contains(&known);
    let is_part = |known: &str| known == name || of_promote(known);
    let parts: Vec<_> = BENCHES.iter().filter(|bench| is_part(bench.name)).collect();
    if parts.is_empty() {
        let known: Vec<&str> = BENCHES.iter().map(|bench| bench.name).collect();
        bail!(
            "no benchmark is called {name:?}; available: all, {}",
            known.join(", ")
        );
    }
    for bench in parts {
        run(bench.command(is_real)?.args(further))?;
    }
    Ok(())
}

impl Bench {
    /// What it measures, and what `--real` changes.
    fn description(&self) -> String {
        match self.real {
            Some(real) => format!("{} (--real: {real})", self.what),
            None => self.what.to_owned(),
        }
    }

    fn command(&self, is_real: bool) -> anyhow::Result<Command> {
        // The features of the whole workspace, so that no crate is built twice.
        let mut command = cargo(&["bench", "--locked", "--workspace", "--bench", self.name]);
        command.arg("--");
        if is_real {
            command
                .arg("--real")
                .env("KUBEBUILDER_ASSETS", kube::kube()?);
        } else if let Some(assets) = kube::built() {
            command.env("KUBEBUILDER_ASSETS", assets);
        }
        Ok(command)
    }

    /// Runs it, shows what it prints, and returns that.
    fn measure(&self, is_real: bool, further: &[String]) -> anyhow::Result<BenchRun> {
        let is_real = is_real && self.real.is_some();
        let mut command = self.command(is_real)?;
        let began = Instant::now();
        let printed = output(command.args(further))?;
        eprintln!("{printed}");
        Ok(BenchRun {
            name: self.name,
            what: self.description(),
            command: self.typed(is_real, further),
            took: began.elapsed(),
            printed,
        })
    }

    /// The command as a person types it; files are called `FILE`.
    fn typed(&self, is_real: bool, further: &[String]) -> String {
        let mut words = vec!["cargo xtask bench", self.name];
        words.extend(is_real.then_some("--real"));
        words.extend((!further.is_empty()).then_some("--"));
        let shown = |it: &String| {
            if it.contains('/') {
                "FILE".to_owned()
            } else {
                it.clone()
            }
        };
        let further: Vec<String> = further.iter().map(shown).collect();
        words.extend(further.iter().map(String::as_str));
        words.join(" ")
    }
}

/// Runs every benchmark and writes what they print to [`FILE`]; with further arguments also `observe` with
/// these, for example `--weave FILE`, for the comparison with the Weave controller.
fn bench_all(is_real: bool, further: &[String]) -> anyhow::Result<()> {
    // Building is not part of the time that each takes.
    let mut build = cargo(&["bench", "--locked", "--workspace", "--no-run"]);
    run(build.args(BENCHES.iter().flat_map(|bench| ["--bench", bench.name])))?;
    let mut runs = Vec::new();
    for bench in BENCHES {
        runs.push(bench.measure(is_real, &[])?);
    }
    let older = std::fs::read_to_string(root().join(FILE)).unwrap_or_default();
    let observe = BENCHES.iter().find(|bench| bench.name == "observe");
    let beside_weave = match observe.filter(|_| !further.is_empty()) {
        Some(observe) => {
            let run = observe.measure(is_real, further)?;
            page::beside_weave(&run, &format!("on {}", today()?))?
        }
        None => page::kept_section(&older),
    };
    let page = page::page(&machine()?, HIGHLIGHTS, &runs, &beside_weave)?;
    std::fs::write(root().join(FILE), page).with_context(|| format!("cannot write {FILE}"))
}

/// The first line that a command prints.
fn line(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let printed = output(Command::new(program).args(arguments))?;
    Ok(printed.lines().next().unwrap_or_default().trim().to_owned())
}

fn today() -> anyhow::Result<String> {
    line("date", &["--utc", "+%F"])
}

/// The value of a line in a file of `/proc`.
fn from_proc(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(Path::new("/proc").join(file)).unwrap_or_default();
    let found = text.lines().find(|line| line.starts_with(name));
    let value = found.and_then(|line| line.split_once(':'));
    value
        .map_or("unknown", |(_, value)| value.trim())
        .to_owned()
}

/// What was measured, and on what.
fn machine() -> anyhow::Result<String> {
    let cores = std::thread::available_parallelism()?;
    let control_plane = kube::built().and_then(|folder| {
        let name = folder.file_name()?.to_string_lossy().into_owned();
        Some(format!("kube-apiserver {name}"))
    });
    let rows = [
        ("date", today()?),
        ("commit", line("git", &["log", "-1", "--format=%h of %cs"])?),
        (
            "processor",
            format!("{}, {cores} cores", from_proc("cpuinfo", "model name")),
        ),
        ("memory", from_proc("meminfo", "MemTotal")),
        (
            "load average at the end",
            std::fs::read_to_string("/proc/loadavg")?.trim().to_owned(),
        ),
        ("kernel", line("uname", &["-s", "-r", "-m"])?),
        ("compiler", line("rustc", &["--version"])?),
        (
            "control plane with `--real`",
            control_plane.unwrap_or_else(|| "none".to_owned()),
        ),
    ];
    let table = rows.map(|(what, value)| format!("| {what} | {value} |\n"));
    Ok(format!("| | |\n| --- | --- |\n{}", table.concat()))
}
