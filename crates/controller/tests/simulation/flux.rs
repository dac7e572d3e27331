//! Flux on the leaf clusters: brings each environment to what git asks for, in its own time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    forge::MAIN,
    layout::{environment_of, number},
    world::World,
};

/// What Flux knows of one environment.
#[derive(Default)]
struct Release {
    /// What it last tried to deploy.
    attempted: String,
    /// When that ends.
    ends: Option<Instant>,
    /// What it last deployed.
    deployed: String,
}

#[derive(Default)]
pub(crate) struct Flux {
    /// The commit of `main` that was read last, and what it asks for.
    head: Option<String>,
    wanted: BTreeMap<String, String>,
    /// By target.
    releases: BTreeMap<String, Release>,
    /// Target and version that cannot be deployed.
    pub(crate) broken: BTreeSet<(String, String)>,
}

impl Flux {
    /// The oldest version that runs in an environment.
    pub(crate) fn deployed(&self, environment: &str) -> &str {
        let targets = self.releases.iter();
        let own = targets.filter(|(target, _)| environment_of(target) == environment);
        let deployed = own.map(|(_, release)| release.deployed.as_str());
        deployed.min_by_key(|it| number(it)).unwrap_or_default()
    }

    /// Whether everything that git asks for was tried.
    pub(crate) fn is_idle(&self) -> bool {
        self.releases.values().all(|release| release.ends.is_none())
    }

    fn fetch(&mut self, world: &World) {
        let head = world.forge.references().remove(MAIN);
        if head != self.head {
            let targets = world.layout.targets().into_iter();
            let wanted = targets.map(|target| (target.clone(), world.version_in_git(&target)));
            self.wanted = wanted.collect();
            self.head = head;
        }
    }

    /// Goes on where it is time.
    pub(crate) async fn sync(&mut self, world: &World) {
        self.fetch(world);
        for (target, wanted) in &self.wanted {
            let release = self.releases.entry(target.clone()).or_default();
            if release.attempted != *wanted {
                world
                    .story
                    .tell("flux", format!("{target}: upgrading to {wanted}"));
                release.attempted.clone_from(wanted);
                release.ends = Some(Instant::now() + world.dice.seconds(40));
                let status = status(release, "Unknown", "Progressing");
                world.set_release(target, &status).await;
            }
            if release.ends.is_some_and(|ends| ends <= Instant::now()) {
                release.ends = None;
                let key = (target.clone(), release.attempted.clone());
                let is_broken = self.broken.contains(&key);
                finish(world, target, release, is_broken).await;
            }
        }
    }
}

async fn finish(world: &World, target: &str, release: &mut Release, is_broken: bool) {
    let version = release.attempted.clone();
    if is_broken {
        world
            .story
            .tell("flux", format!("{target}: {version} failed"));
        let key = (target.to_owned(), version.clone());
        world.watchdog.saw_failure(key);
        let mut status = status(release, "False", "UpgradeFailed");
        let failed = json!({"chartVersion": version, "status": "failed"});
        status["history"].as_array_mut().unwrap().insert(0, failed);
        return world.set_release(target, &status).await;
    }
    world
        .story
        .tell("flux", format!("{target}: {version} is ready"));
    release.deployed = version.clone();
    let key = (target.to_owned(), version);
    world.watchdog.saw_ready(key);
    let status = status(release, "True", "UpgradeSucceeded");
    world.set_release(target, &status).await;
}

fn status(release: &Release, ready: &str, reason: &str) -> Value {
    json!({
        "observedGeneration": 1,
        "conditions": [{
            "type": "Ready", "status": ready, "reason": reason, "message": reason,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "history": [{"chartVersion": release.deployed, "status": "deployed"}],
        "lastAttemptedRevision": release.attempted,
    })
}
