//! `sluice demo`: three clusters, Flux on each, a forge and Sluice, all in this process. A release
//! walks from dev to prod while a person watches. Nothing is left behind.

mod registry;
mod story;
mod world;

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};

use crate::{
    args::demo::{Arguments, Command},
    controller::{logs, signals},
};
use registry::Registry;
use story::Story;
use world::World;

/// The release that runs when the demo starts, the one that is on its way then, and the next.
const RELEASES: [&str; 3] = ["6.1.0", "6.2.0", "6.3.0"];

/// Runs the demo, or hands the next release to one that runs.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.command {
        Some(Command::Push { version }) => return push(version),
        Some(Command::Env) => return env(),
        None => {}
    }
    let folder = tempfile::Builder::new()
        .prefix("sluice-demo-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir();
    let folder = folder.context("cannot make a folder for the demo")?;
    if let Some(level) = arguments.logs() {
        logs::start(level);
    }
    let shutdown = signals::shutdown().context("cannot listen for signals")?;
    let (world, listening) = World::start(folder.path(), arguments.port, &shutdown).await?;
    let running = async {
        let outcome = listening.run(world.standalone.server.client()).await;
        // Without Sluice there is nothing to tell.
        shutdown.cancel();
        outcome
    };
    let told = async {
        let story = Story::new(&world, arguments.script);
        let outcome = tokio::select! {
            outcome = tell(story, &world) => outcome,
            () = world.review() => Ok(()),
            () = shutdown.cancelled() => Ok(()),
        };
        shutdown.cancel();
        outcome
    };
    let (ran, told) = tokio::join!(running, told);
    told.and(ran)
}

async fn tell(mut story: Story<'_>, world: &World) -> anyhow::Result<()> {
    story.begin().await?;
    if story.is_script {
        return story.play(RELEASES[1]).await;
    }
    let _registered = Registry::of_this_user()?.register(world.folder())?;
    story.show_what_to_try(RELEASES[2]);
    world.push(RELEASES[1]).await?;
    let requests = next_release(world.folder());
    tokio::pin!(requests);
    loop {
        tokio::select! {
            version = &mut requests => {
                world.push(&version).await?;
                requests.set(next_release(world.folder()));
            }
            outcome = story.follow() => return outcome,
        }
    }
}

/// The next release that somebody pushes to the demo in a folder.
async fn next_release(folder: &Path) -> String {
    let inbox = inbox(folder);
    loop {
        if let Ok(version) = std::fs::read_to_string(&inbox) {
            drop(std::fs::remove_file(&inbox));
            return version.trim().to_owned();
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

fn inbox(folder: &Path) -> PathBuf {
    folder.join("next-release")
}

/// The folder of the demo that runs; of several, the one that was started last.
fn find() -> anyhow::Result<PathBuf> {
    let mut running = Registry::of_this_user()?.running()?;
    let found = running
        .pop()
        .context("no demo is running; start one with `sluice demo` in another terminal")?;
    if !running.is_empty() {
        let others = running.len();
        anstream::eprintln!(
            "{others} more run; this is about the demo that was started last, in {}",
            found.display()
        );
    }
    Ok(found)
}

/// Hands a release to the demo that runs.
fn push(version: &str) -> anyhow::Result<()> {
    if !world::is_version(version) {
        bail!("{version:?} is no version; try something like 6.3.0");
    }
    std::fs::write(inbox(&find()?), version)
        .context("the demo has ended; start another with `sluice demo`")?;
    anstream::println!("{version} is pushed to dev; watch it go on.");
    Ok(())
}

/// Says how to reach the demo that runs, for a shell to evaluate.
fn env() -> anyhow::Result<()> {
    let kubeconfig = world::kubeconfig(&find()?);
    let path = kubeconfig
        .to_str()
        .context("the path of the demo is no text")?;
    anstream::println!("export KUBECONFIG={}", quoted(path));
    Ok(())
}

/// A text as one word of a shell, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for text in ["/tmp/a b", "it's", "$(exit 3); `exit 4`\n#", "'", ""] {
            let script = format!("printf %s {}", quoted(text));
            let output = std::process::Command::new("sh")
                .args(["-c", &script])
                .output();
            assert_eq!(output.unwrap().stdout, text.as_bytes(), "{script}");
        }
    }
}
