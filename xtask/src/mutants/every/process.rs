//! Runs tests of a program, and ends it with everything that it started when it takes too long.

use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::suites::Suite;

/// What a mutated test may allocate; an endless loop that fills a Vec ends here.
const KILOBYTES: u64 = 4 << 20;
/// The randomness of property tests, and how many cases they try.
const PROPERTY_TESTS: [(&str, &str); 2] =
    [("PROPTEST_RNG_SEED", "20261115"), ("PROPTEST_CASES", CASES)];
/// Fewer cases than usual: these tests run for thousands of mutations.
pub(super) const CASES: &str = "32";

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum End {
    Passed,
    Failed,
    TimedOut,
}

/// A process that has ended.
pub(super) struct Finished {
    pub(super) end: End,
    pub(super) printed: String,
    pub(super) time: Duration,
}

/// The command that runs tests of a program, one after the other.
pub(super) fn tests(suite: &Suite, names: &[&str]) -> Command {
    let mut command = limited(suite);
    command.args(["--test-threads=1", "--exact"]).args(names);
    command
}

/// The program with a limit of its memory.
pub(super) fn limited(suite: &Suite) -> Command {
    let script = format!("ulimit -d {KILOBYTES}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).arg(&suite.program);
    command
        .current_dir(&suite.folder)
        .env("CARGO_MANIFEST_DIR", &suite.folder)
        .envs(PROPERTY_TESTS);
    command
}

/// Runs a command in a process group of its own, for a limited time.
pub(super) fn run(command: &mut Command, limit: Duration) -> Result<Finished> {
    let started = Instant::now();
    let mut log = tempfile::tempfile().context("cannot create a log")?;
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .spawn()
        .context("cannot start a test")?;
    let status = wait(&mut child, started, limit)?;
    // Also after the test has ended: it may have left processes behind.
    end_group(&child);
    if status.is_none() {
        child.wait()?;
    }
    let time = started.elapsed();
    log.rewind()?;
    let mut printed = Vec::new();
    log.read_to_end(&mut printed)?;
    Ok(Finished {
        end: match status {
            None => End::TimedOut,
            Some(status) if status.success() => End::Passed,
            Some(_) => End::Failed,
        },
        printed: String::from_utf8_lossy(&printed).into_owned(),
        time,
    })
}

fn wait(child: &mut Child, started: Instant, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > limit {
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 3 / 2).min(Duration::from_millis(20));
    }
}

fn end_group(child: &Child) {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(id) = id {
        // Fails if all processes of the group have ended.
        let _ = kill_process_group(id, Signal::KILL);
    }
}

/// The test that a program with several tests did not end or that failed first, by what it printed.
pub(super) fn failed_test<'a>(names: &[&'a str], printed: &str) -> Option<&'a str> {
    let mut last = None;
    for line in printed.lines() {
        let Some(rest) = line.strip_prefix("test ") else {
            continue;
        };
        // After the longest name that fits comes ` ...`, or ` - should panic ...`.
        let is_of = |name: &&&str| {
            rest.strip_prefix(**name)
                .is_some_and(|it| it.starts_with(' '))
        };
        let Some(name) = names.iter().find(is_of) else {
            continue;
        };
        if rest.ends_with("FAILED") {
            return Some(name);
        }
        last = (!rest.ends_with("ok")).then_some(*name);
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_found_by_what_was_printed() {
        let names = ["a", "a::b", "c"];
        let table = [
            (
                "test a ... ok\ntest a::b ... FAILED\ntest c ... FAILED\n",
                Some("a::b"),
            ),
            ("test a - should panic ... FAILED\n", Some("a")),
            (
                "test a ... ok\ntest a::b ... thread overflowed its stack\n",
                Some("a::b"),
            ),
            ("test a ... ok\ntest c ... ", Some("c")),
            ("test a ... ok\ntest c ... ok\n", None),
        ];
        for (printed, expected) in table {
            assert_eq!(failed_test(&names, printed), expected, "{printed}");
        }
    }

    #[test]
    fn a_process_that_takes_too_long_is_ended_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]);
        let finished = run(&mut command, Duration::from_millis(300)).expect("sh runs");
        assert_eq!(finished.end, End::TimedOut);
        let child = std::path::Path::new("/proc").join(finished.printed.trim());
        while child.join("exe").exists() {
            thread::sleep(Duration::from_millis(5));
        }
    }
}
