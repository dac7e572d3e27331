//! `sluice demo`: runs three clusters with a Flux stand-in, a git forge and Sluice in this process, and
//! promotes a release from dev to prod: by pull requests, or with `--gitless` by tags of an OCI registry. A
//! release that fails its check in staging is rolled back there. Everything is removed at the end.

mod releases;
mod running_demos;
mod selection;
mod setup;
mod walkthrough;

use std::{
    ffi::OsStr,
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use crate::{
    args::demo::{Arguments, DemoCommand},
    commands::print_message,
    controller::{logs, signals},
    kubeconfig::DEMO_FOLDER,
};
use running_demos::RunningDemos;
use setup::DemoSetup;
use walkthrough::Walkthrough;

/// The release that is deployed at the start, the one that is pushed then, and a suggestion for the next.
const RELEASES: [&str; 3] = ["6.1.0", "6.2.0", "6.3.0"];
/// A release that is deployed without an error and fails its check.
const FAULTY_RELEASE: &str = "6.3.0-faulty";

/// Runs the demo, or a subcommand that talks to a running demo.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.command {
        Some(DemoCommand::Push { version, choice }) => return push(version, choice.demo),
        Some(DemoCommand::Env { choice }) => return env(choice.demo),
        None => {}
    }
    let folder = tempfile::Builder::new()
        .prefix(DEMO_FOLDER)
        .permissions(Permissions::from_mode(0o700))
        .tempdir();
    let folder = folder.context("cannot create a folder for the demo")?;
    if let Some(level) = arguments.logs() {
        logs::start(level);
    }
    let shutdown = signals::shutdown().context("cannot listen for signals")?;
    let (setup, listening) = DemoSetup::start(folder.path(), arguments, &shutdown).await?;
    let running = async {
        let outcome = listening.run(setup.standalone.server.client()).await;
        // Without the controller the walkthrough cannot continue.
        shutdown.cancel();
        outcome
    };
    let walkthrough = async {
        let walkthrough = Walkthrough::new(&setup, arguments.script);
        let outcome = tokio::select! {
            outcome = walk_through(walkthrough, &setup) => outcome,
            () = setup.merge_changes() => Ok(()),
            () = shutdown.cancelled() => Ok(()),
        };
        shutdown.cancel();
        outcome
    };
    let (controller, walkthrough) = tokio::join!(running, walkthrough);
    walkthrough.and(controller)
}

async fn walk_through(mut walkthrough: Walkthrough<'_>, setup: &DemoSetup) -> anyhow::Result<()> {
    if walkthrough.is_script {
        walkthrough.wait_for_first_release().await?;
        return walkthrough.run_script(RELEASES[1], FAULTY_RELEASE).await;
    }
    let _registered = RunningDemos::of_this_user()?.register(setup.folder())?;
    walkthrough.wait_for_first_release().await?;
    std::fs::write(
        selection::port_file(setup.folder()),
        setup.port().to_string(),
    )
    .context("cannot store the port of the dashboard")?;
    walkthrough.print_suggestions(RELEASES[2], FAULTY_RELEASE);
    setup.releases.push(RELEASES[1]).await?;
    let requests = next_release(setup.folder());
    tokio::pin!(requests);
    loop {
        tokio::select! {
            version = &mut requests => {
                setup.releases.push(&version).await?;
                requests.set(next_release(setup.folder()));
            }
            outcome = walkthrough.print_changes() => return outcome,
        }
    }
}

/// Waits for the next `sluice demo push` to the demo in a folder.
async fn next_release(folder: &Path) -> String {
    let file = pushed_release_file(folder);
    loop {
        if let Ok(version) = std::fs::read_to_string(&file) {
            drop(std::fs::remove_file(&file));
            return version.trim().to_owned();
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

/// The file through which `sluice demo push` passes a version to the demo.
fn pushed_release_file(folder: &Path) -> PathBuf {
    folder.join("next-release")
}

/// Passes a release to the running demo.
fn push(version: &str, demo: Option<u16>) -> anyhow::Result<()> {
    if !setup::is_version(version) {
        bail!("{version:?} is not a version; use one such as 6.3.0");
    }
    let demo = selection::select(demo, true)?;
    std::fs::write(pushed_release_file(&demo.folder), version)
        .context("the demo has ended; start another with `sluice demo`")?;
    anstream::println!("pushed {version} to dev of {}", demo.name());
    if !demo.is_in_use {
        print_message(&format!(
            "this shell does not use that demo; change that with: eval \"$({})\"",
            demo.env_command()
        ));
    }
    Ok(())
}

/// Prints the environment variables of the running demo, for a shell to evaluate, and on stderr which demo that is.
fn env(demo: Option<u16>) -> anyhow::Result<()> {
    let demo = selection::select(demo, false)?;
    let kubeconfig = setup::kubeconfig(&demo.folder);
    let path = kubeconfig
        .to_str()
        .context("the path of the demo is not valid UTF-8")?;
    anstream::println!("export KUBECONFIG={}", quoted(path));
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(folder) = own_folder().and_then(|it| missing_folder(it, &search_path)) {
        anstream::println!("export PATH={}:\"$PATH\"", quoted(&folder));
    }
    print_message(&format!(
        "with these variables, kubectl and sluice use {}",
        demo.name()
    ));
    Ok(())
}

/// The folder of this binary, if a shell that searches it finds the binary as `sluice`.
fn own_folder() -> Option<PathBuf> {
    let binary = std::env::current_exe().ok()?;
    let is_found = binary.file_name()? == "sluice";
    binary.parent().filter(|_| is_found).map(Path::to_owned)
}

/// The folder as text, unless the search path has it or cannot have it.
fn missing_folder(folder: PathBuf, search_path: &OsStr) -> Option<String> {
    if std::env::split_paths(search_path).any(|it| it == folder) {
        return None;
    }
    folder
        .into_os_string()
        .into_string()
        .ok()
        .filter(|it| !it.contains(':'))
}

/// The text quoted as one word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_one_word_for_a_shell() {
        for text in ["/tmp/a b", "it's", "$(exit 3); `exit 4`\n#", "'", ""] {
            let script = format!("printf %s {}", quoted(text));
            let output = std::process::Command::new("sh")
                .args(["-c", &script])
                .output();
            assert_eq!(output.unwrap().stdout, text.as_bytes(), "{script}");
        }
    }

    #[test]
    fn the_folder_of_the_binary_is_added_to_the_search_path_once() {
        let missing = |folder: &str, path: &str| missing_folder(folder.into(), OsStr::new(path));
        assert_eq!(
            missing("/opt/a b", "/usr/bin:/bin"),
            Some("/opt/a b".to_owned())
        );
        assert_eq!(missing("/opt/a b", "/usr/bin:/opt/a b"), None);
        assert_eq!(missing("/opt/a:b", "/usr/bin"), None, "PATH cannot have it");
    }
}
