//! `sluice demo`: three clusters, Flux on each, a forge and Sluice, all in this process. A release
//! walks from dev to prod while a person watches. Nothing is left behind.

mod story;
mod world;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::{
    args::demo::{Arguments, Command},
    controller::{logs, signals},
};
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
    let folder = tempfile::Builder::new().prefix("sluice-demo-").tempdir();
    let folder = folder.context("cannot make a folder for the demo")?;
    if let Some(level) = arguments.logs() {
        logs::start(level);
    }
    let shutdown = signals::shutdown().context("cannot listen for signals")?;
    let world = World::start(folder.path(), arguments.port).await?;
    let running = world.sluice(shutdown.clone());
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
    let address = Address::publish(world.folder())?;
    story.show_what_to_try(RELEASES[2]);
    world.push(RELEASES[1]).await?;
    let requests = address.releases(world.folder());
    tokio::pin!(requests);
    loop {
        tokio::select! {
            version = &mut requests => {
                world.push(&version).await?;
                requests.set(address.releases(world.folder()));
            }
            outcome = story.follow() => return outcome,
        }
    }
}

/// The file by which a demo that runs can be found, and the one through which it is told what to do.
struct Address(PathBuf);

impl Address {
    fn file() -> PathBuf {
        let user = std::env::var("USER").unwrap_or_default();
        let name: String = user.chars().filter(char::is_ascii_alphanumeric).collect();
        std::env::temp_dir().join(format!("sluice-demo.{name}"))
    }

    fn publish(folder: &Path) -> anyhow::Result<Self> {
        let file = Self::file();
        std::fs::write(&file, folder.display().to_string())
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Self(file))
    }

    /// The folder of the demo that runs.
    fn find() -> anyhow::Result<PathBuf> {
        let folder = std::fs::read_to_string(Self::file())
            .context("no demo is running; start one with `sluice demo` in another terminal")?;
        Ok(PathBuf::from(folder.trim()))
    }

    /// The next release somebody pushes.
    async fn releases(&self, folder: &Path) -> String {
        let inbox = inbox(folder);
        loop {
            if let Ok(version) = std::fs::read_to_string(&inbox) {
                drop(std::fs::remove_file(&inbox));
                return version.trim().to_owned();
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

fn inbox(folder: &Path) -> PathBuf {
    folder.join("next-release")
}

/// Hands a release to the demo that runs.
fn push(version: &str) -> anyhow::Result<()> {
    if !world::is_version(version) {
        bail!("{version:?} is no version; try something like 6.3.0");
    }
    let inbox = inbox(&Address::find()?);
    std::fs::write(&inbox, version)
        .context("the demo has ended; start another with `sluice demo`")?;
    anstream::println!("{version} is pushed to dev; watch it go on.");
    Ok(())
}

/// Says how to reach the demo that runs.
fn env() -> anyhow::Result<()> {
    let kubeconfig = world::kubeconfig(&Address::find()?);
    anstream::println!("export KUBECONFIG={}", kubeconfig.display());
    Ok(())
}
