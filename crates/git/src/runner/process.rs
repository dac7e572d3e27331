//! Runs one process with its child processes, within limits of time, output and disk space.
//!
//! A process that exceeds a limit, or whose future is dropped, is killed with its whole process group.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::{GitExecutionError, GitOutput, ProcessLimits};
use crate::blocking;

/// How many bytes of the error output are kept.
const MAX_STDERR: u64 = 64 << 10;

/// How often the size of the directory is measured while the process runs.
const MEASURE_INTERVAL: Duration = Duration::from_millis(500);

/// Kills the process group when dropped, unless the leader has exited: its id may be reused then.
struct ProcessGroup(Option<Pid>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // Fails only if it has just exited.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Runs a command until it exits or exceeds a limit. Dropping the future kills it.
pub(super) async fn run(
    mut command: Command,
    input: Vec<u8>,
    limits: ProcessLimits,
) -> Result<GitOutput, GitExecutionError> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
    let leader = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    let mut group = ProcessGroup(leader);
    let output = tokio::select! {
        output = communicate(&mut child, input, limits.output) => output?,
        () = tokio::time::sleep(limits.time) => return Err(GitExecutionError::TimedOut(limits.time)),
        limit = exceeds_size(limits.directory.as_ref()) => return Err(GitExecutionError::TooLarge(limit)),
    };
    group.0 = None;
    Ok(output)
}

async fn communicate(
    child: &mut Child,
    input: Vec<u8>,
    limit: u64,
) -> Result<GitOutput, GitExecutionError> {
    let stdin = child.stdin.take();
    let stdout = child.stdout.take().expect("stdout and stderr are piped");
    let stderr = child.stderr.take().expect("stdout and stderr are piped");
    let write_input = async {
        if let Some(mut stdin) = stdin {
            // A process that does not read its input reports that by its exit code.
            let _ = stdin.write_all(&input).await;
        }
        Ok(())
    };
    // The first failure ends the wait: the others may never end by themselves.
    let (stdout, stderr, ()) =
        tokio::try_join!(read_within(stdout, limit), read_start(stderr), write_input)?;
    let status = child.wait().await?;
    Ok(GitOutput {
        success: status.success(),
        stdout,
        stderr,
    })
}

async fn read_within(
    from: impl AsyncRead + Unpin,
    limit: u64,
) -> Result<Vec<u8>, GitExecutionError> {
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 > limit {
        return Err(GitExecutionError::TooLarge(limit));
    }
    Ok(bytes)
}

/// Reads to the end and keeps only the start: a process whose output is not read would block.
async fn read_start(mut from: impl AsyncRead + Unpin) -> Result<Vec<u8>, GitExecutionError> {
    let mut kept = Vec::new();
    (&mut from).take(MAX_STDERR).read_to_end(&mut kept).await?;
    tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Ok(kept)
}

async fn exceeds_size(directory: Option<&(PathBuf, u64)>) -> u64 {
    let Some((directory, limit)) = directory else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(MEASURE_INTERVAL).await;
        if directory_size(directory).await > *limit {
            return *limit;
        }
    }
}

/// The bytes of all files below a directory. Files that are removed meanwhile do not count.
pub(crate) async fn directory_size(directory: &Path) -> u64 {
    let directory = directory.to_owned();
    blocking::run(move || measure(&directory))
        .await
        .unwrap_or_default()
}

fn measure(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 0;
    };
    let mut bytes = 0;
    for entry in entries.flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes += measure(&entry.path()),
            Ok(metadata) => bytes += metadata.len(),
            Err(_) => {}
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_directory_is_as_large_as_all_files_below_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("a/b");
        std::fs::create_dir_all(&inner).expect("a folder");
        for (path, length) in [("one", 5), ("a/two", 7), ("a/b/three", 11)] {
            std::fs::write(folder.path().join(path), vec![0; length]).expect("written");
        }
        assert_eq!(directory_size(folder.path()).await, 23);
        assert_eq!(directory_size(&folder.path().join("none")).await, 0);
    }
}
