//! Flux on the leaf clusters: brings each environment to what git asks for, in its own time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::world::{ENVIRONMENTS, World};

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
    releases: BTreeMap<&'static str, Release>,
    /// Environment and version that cannot be deployed.
    pub(crate) broken: BTreeSet<(String, String)>,
}

impl Flux {
    /// What runs in an environment.
    pub(crate) fn deployed(&self, environment: &str) -> &str {
        let release = self.releases.get(environment);
        release.map_or("", |it| it.deployed.as_str())
    }

    /// Whether everything that git asks for was tried.
    pub(crate) fn is_idle(&self) -> bool {
        self.releases.values().all(|release| release.ends.is_none())
    }

    /// Goes on where it is time.
    pub(crate) async fn sync(&mut self, world: &World) {
        for environment in ENVIRONMENTS {
            let wanted = world.version_in_git(environment);
            let release = self.releases.entry(environment).or_default();
            if release.attempted != wanted {
                world
                    .story
                    .tell("flux", format!("{environment}: upgrading to {wanted}"));
                release.attempted = wanted;
                release.ends = Some(Instant::now() + world.dice.seconds(40));
                let status = status(release, "Unknown", "Progressing");
                world.set_release(environment, &status).await;
            }
            if release.ends.is_some_and(|ends| ends <= Instant::now()) {
                release.ends = None;
                let key = (environment.to_owned(), release.attempted.clone());
                let is_broken = self.broken.contains(&key);
                finish(world, environment, release, is_broken).await;
            }
        }
    }
}

async fn finish(world: &World, environment: &str, release: &mut Release, is_broken: bool) {
    let version = release.attempted.clone();
    if is_broken {
        world
            .story
            .tell("flux", format!("{environment}: {version} failed"));
        let mut status = status(release, "False", "UpgradeFailed");
        let failed = json!({"chartVersion": version, "status": "failed"});
        status["history"].as_array_mut().unwrap().insert(0, failed);
        return world.set_release(environment, &status).await;
    }
    world
        .story
        .tell("flux", format!("{environment}: {version} is ready"));
    release.deployed = version.clone();
    let key = (environment.to_owned(), version);
    world.watchdog.truth.lock().ready.insert(key);
    let status = status(release, "True", "UpgradeSucceeded");
    world.set_release(environment, &status).await;
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
