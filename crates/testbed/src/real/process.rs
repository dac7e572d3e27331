//! One program of a control plane, which never outlives the process that started it.
//!
//! The program runs under a small shell that holds the reading end of a pipe. The writing end is
//! ours alone: when it closes, because we stopped, were dropped or were killed, the shell kills the
//! program and removes its folder. A program that ends by itself ends the shell and leaves its log.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Assets, Error, system};

/// How much of a log an error shows.
const TAIL_BYTES: usize = 4000;

/// Arguments: the folder, the program, its arguments.
///
/// The program is killed outright: its data is thrown away, and an API server that cannot reach
/// etcd any more would take a minute to end politely.
const SUPERVISOR: &str = r#"
folder=$1
shift
exec 3<&0
"$@" </dev/null 3<&- >"$folder/log" 2>&1 &
program=$!
(
    while read -r _; do :; done <&3
    : >"$folder/stopped"
    kill -KILL "$program"
) >&- 2>&- &
watcher=$!
exec 3<&-
wait "$program"
status=$?
if [ -e "$folder/stopped" ]; then
    rm -rf "$folder"
    rmdir "$(dirname "$folder")"
else
    kill "$watcher"
fi
exit "$status"
"#;

/// A program in its own folder, started or about to be.
pub(super) struct Process {
    name: &'static str,
    program: PathBuf,
    folder: PathBuf,
    supervisor: Option<Child>,
}

impl Process {
    /// Makes the folder of a program, so that its files can be put there before it starts.
    pub(super) fn prepare(
        assets: &Assets,
        name: &'static str,
        parent: &Path,
    ) -> Result<Self, Error> {
        let folder = parent.join(name);
        std::fs::create_dir(&folder)
            .map_err(system(format!("creating the folder {}", folder.display())))?;
        Ok(Self {
            name,
            program: assets.program(name),
            folder,
            supervisor: None,
        })
    }

    pub(super) fn start(&mut self, arguments: Vec<OsString>) -> Result<(), Error> {
        let supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR, "sh"])
            .arg(&self.folder)
            .arg(&self.program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(system(format!(
                "starting {} under a shell",
                self.program.display()
            )))?;
        self.supervisor = Some(supervisor);
        Ok(())
    }

    /// Fails when the program has ended.
    pub(super) fn check_running(&mut self) -> Result<(), Error> {
        let Some(supervisor) = &mut self.supervisor else {
            return Ok(());
        };
        let ended = supervisor
            .try_wait()
            .map_err(system(format!("watching {}", self.name)))?;
        match ended {
            None => Ok(()),
            Some(status) => Err(Error::Ended {
                program: self.name,
                status,
                log: self.log_tail(),
            }),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The last lines the program wrote.
    pub(super) fn log_tail(&self) -> String {
        let bytes = match std::fs::read(self.folder.join("log")) {
            Ok(bytes) => bytes,
            Err(error) => return format!("(no log: {error})"),
        };
        let tail = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        String::from_utf8_lossy(tail).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut supervisor) = self.supervisor.take() {
            drop(supervisor.stdin.take());
            // The shell ends as soon as the program is dead; there is nobody to tell if not.
            let _ = supervisor.wait();
        }
    }
}
