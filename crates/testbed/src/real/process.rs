//! A program of a control plane, which is killed when the process that started it ends.
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
pub(super) struct SupervisedProcess {
    name: &'static str,
    program: PathBuf,
    folder: PathBuf,
    supervisor: Option<Child>,
}

impl SupervisedProcess {
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

impl Drop for SupervisedProcess {
    fn drop(&mut self) {
        if let Some(mut supervisor) = self.supervisor.take() {
            drop(supervisor.stdin.take());
            // The shell ends as soon as the program is dead; there is nobody to tell if not.
            let _ = supervisor.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    use super::*;

    const HOLDER: &str = "real::process::tests::holds_a_program_until_killed";
    const FOLDER_VARIABLE: &str = "TESTBED_PROCESS_TEST_FOLDER";

    /// A folder with three programs that do nothing until they are killed.
    fn idle_programs(folder: &Path, script: &str) -> Assets {
        for name in ["etcd", "kube-apiserver", "kube-controller-manager"] {
            let path = folder.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Assets::at(folder).unwrap()
    }

    /// Starts a program that writes its process id into its log and then waits.
    fn start_idle(folder: &Path) -> SupervisedProcess {
        let programs = folder.join("programs");
        std::fs::create_dir(&programs).unwrap();
        let assets = idle_programs(&programs, "echo $$; exec sleep 1000");
        let state = folder.join("state");
        std::fs::create_dir(&state).unwrap();
        let mut process = SupervisedProcess::prepare(&assets, "etcd", &state).unwrap();
        process.start(Vec::new()).unwrap();
        process
    }

    fn wait_until(what: &str, condition: impl Fn() -> bool) {
        let give_up = Instant::now() + Duration::from_secs(60);
        while !condition() {
            assert!(Instant::now() < give_up, "never happened: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The process id that the program wrote into its log.
    fn program_id(folder: &Path) -> u32 {
        let log = folder.join("state/etcd/log");
        let written = || std::fs::read_to_string(&log).ok()?.trim().parse().ok();
        wait_until("the program wrote its id", || written().is_some());
        written().unwrap()
    }

    fn is_running(id: u32) -> bool {
        // A dead process whose parent has not noticed yet is a zombie, not running.
        let status = std::fs::read_to_string(format!("/proc/{id}/stat"));
        status.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn dropping_ends_the_program_and_removes_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start_idle(folder.path());
        let id = program_id(folder.path());
        process.check_running().unwrap();
        drop(process);
        assert!(!is_running(id));
        assert!(!folder.path().join("state").exists());
    }

    #[test]
    fn a_program_that_ends_is_noticed_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let assets = idle_programs(folder.path(), "echo no such luck; exit 3");
        let state = folder.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let mut process = SupervisedProcess::prepare(&assets, "etcd", &state).unwrap();
        process.start(Vec::new()).unwrap();
        let give_up = Instant::now() + Duration::from_secs(60);
        let error = loop {
            match process.check_running() {
                Err(error) => break error.to_string(),
                Ok(()) => assert!(Instant::now() < give_up, "never ended"),
            }
        };
        assert!(
            error.contains("starting etcd") && error.contains("no such luck"),
            "{error}"
        );
        assert!(error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn a_program_does_not_outlive_a_killed_test() {
        let folder = tempfile::tempdir().unwrap();
        let mut holder = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", HOLDER, "--ignored"])
            .env(FOLDER_VARIABLE, folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let id = program_id(folder.path());
        assert!(is_running(id));
        holder.kill().unwrap();
        holder.wait().unwrap();
        wait_until("the program is dead", || !is_running(id));
        wait_until("its folder is gone", || {
            !folder.path().join("state").exists()
        });
    }

    #[test]
    #[ignore = "only a part of the test above, which runs it in a process of its own"]
    fn holds_a_program_until_killed() {
        let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else {
            return;
        };
        let _process = start_idle(Path::new(&folder));
        // Ends at the latest when the test above is gone.
        let _ = std::io::stdin().read(&mut [0]);
    }
}
