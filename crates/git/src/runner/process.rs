//! One child process and its children: fed, read, timed, bounded, and ended together.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::Error;

/// How much a process may complain before the rest is dropped.
const COMPLAINT: u64 = 64 << 10;

/// How often the folder is measured while the process runs.
const MEASURE_EVERY: Duration = Duration::from_millis(500);

/// What a process may take.
pub(super) struct Bounds {
    pub(super) time: Duration,
    pub(super) output: u64,
    /// A folder it fills, and how far.
    pub(super) folder: Option<(PathBuf, u64)>,
}

/// What it left.
pub(super) struct Ended {
    pub(super) success: bool,
    pub(super) output: Vec<u8>,
    pub(super) complaint: Vec<u8>,
}

/// Why it was ended, or never began.
pub(super) enum Stopped {
    System(std::io::Error),
    TimedOut(Duration),
    TooLarge(u64),
}

impl Stopped {
    pub(super) fn of(self, attempted: String) -> Error {
        match self {
            Self::System(source) => Error::Start { attempted, source },
            Self::TimedOut(limit) => Error::TimedOut { attempted, limit },
            Self::TooLarge(limit) => Error::TooLarge { attempted, limit },
        }
    }
}

impl From<std::io::Error> for Stopped {
    fn from(error: std::io::Error) -> Self {
        Self::System(error)
    }
}

/// Kills the whole group unless the leader was waited for: after that its number may be another's.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // It may have ended a moment ago; there is nothing else that could go wrong.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Runs a command to its end or to its bounds. Dropping the future ends the process too.
pub(super) async fn run(
    mut command: Command,
    input: Vec<u8>,
    bounds: Bounds,
) -> Result<Ended, Stopped> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
    let leader = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    let mut group = Group(leader);
    let ended = tokio::select! {
        ended = attend(&mut child, input, bounds.output) => ended?,
        () = tokio::time::sleep(bounds.time) => return Err(Stopped::TimedOut(bounds.time)),
        limit = outgrown(bounds.folder.as_ref()) => return Err(Stopped::TooLarge(limit)),
    };
    group.0 = None;
    Ok(ended)
}

async fn attend(child: &mut Child, input: Vec<u8>, limit: u64) -> Result<Ended, Stopped> {
    let stdin = child.stdin.take();
    let stdout = child.stdout.take().expect("it was asked to be piped");
    let stderr = child.stderr.take().expect("it was asked to be piped");
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A process that does not want its input says so by its exit code.
            let _ = stdin.write_all(&input).await;
        }
        Ok(())
    };
    // Whoever fails first ends the wait: the others may never end by themselves.
    let (output, complaint, ()) =
        tokio::try_join!(read_within(stdout, limit), read_start(stderr), feed)?;
    let status = child.wait().await?;
    Ok(Ended {
        success: status.success(),
        output,
        complaint,
    })
}

async fn read_within(from: impl AsyncRead + Unpin, limit: u64) -> Result<Vec<u8>, Stopped> {
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 > limit {
        return Err(Stopped::TooLarge(limit));
    }
    Ok(bytes)
}

/// Reads to the end, keeps only the start: who is not read from would stop.
async fn read_start(mut from: impl AsyncRead + Unpin) -> Result<Vec<u8>, Stopped> {
    let mut kept = Vec::new();
    (&mut from).take(COMPLAINT).read_to_end(&mut kept).await?;
    tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Ok(kept)
}

async fn outgrown(folder: Option<&(PathBuf, u64)>) -> u64 {
    let Some((folder, limit)) = folder else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(MEASURE_EVERY).await;
        if size_of(folder).await > *limit {
            return *limit;
        }
    }
}

/// Bytes below a folder. What vanishes meanwhile does not count.
pub(crate) async fn size_of(folder: &Path) -> u64 {
    let folder = folder.to_owned();
    tokio::task::spawn_blocking(move || measure(&folder))
        .await
        .unwrap_or_default()
}

fn measure(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
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
