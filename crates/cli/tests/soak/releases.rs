//! Releases one version after the other and waits until each is in prod, or was rolled back because it
//! failed its check.

use std::{sync::Arc, time::Duration};

use api::{pipeline::EnvironmentStatus, promotion::Phase};
use tokio::time::{sleep, timeout};

use crate::{
    fleet::{ENVIRONMENTS, FIRST, Fleet},
    samples::Sampler,
};

/// Faults delay a release by backoff; longer than this it is stuck.
const LIMIT: Duration = Duration::from_secs(600);
/// Every so many releases, one fails its check in staging.
const FAULTY_EVERY: usize = 5;

pub(crate) async fn release_forever(
    fleet: Arc<Fleet>,
    app: usize,
    pause: Duration,
    sampler: Arc<Sampler>,
) {
    for environment in ENVIRONMENTS {
        until(&fleet, app, environment, |it| runs(it, FIRST)).await;
    }
    let mut good = FIRST.to_owned();
    for number in 1.. {
        let is_faulty = number % FAULTY_EVERY == 0;
        let version = match is_faulty {
            true => format!("1.0.{number}-faulty"),
            false => format!("1.0.{number}"),
        };
        fleet.push(app, &version).await;
        let arrived = async {
            match is_faulty {
                true => {
                    until(&fleet, app, "staging", |it| {
                        is_rolled_back(it, &version, &good)
                    })
                    .await
                }
                false => until(&fleet, app, "prod", |it| has_arrived(it, &version)).await,
            }
        };
        match timeout(LIMIT, arrived).await {
            Ok(()) => sampler.released(),
            Err(_) => sampler.stuck(format!("{} {version}", fleet.app_name(app))),
        }
        if !is_faulty {
            good = version;
        }
        sleep(pause).await;
    }
}

async fn until(
    fleet: &Fleet,
    app: usize,
    environment: &str,
    condition: impl Fn(&EnvironmentStatus) -> bool,
) {
    loop {
        let status = fleet.environment(app, environment).await;
        if status.is_some_and(|it| condition(&it)) {
            return;
        }
        sleep(Duration::from_millis(300)).await;
    }
}

fn runs(status: &EnvironmentStatus, revision: &str) -> bool {
    let mut targets = status.targets.iter();
    targets.all(|it| it.ready && it.revision.as_deref() == Some(revision))
        && !status.targets.is_empty()
}

fn has_ended(status: &EnvironmentStatus) -> bool {
    let phase = status.promotion.as_ref().and_then(|it| it.phase);
    phase.is_none_or(Phase::is_terminal)
}

fn has_arrived(status: &EnvironmentStatus, revision: &str) -> bool {
    runs(status, revision) && has_ended(status)
}

fn is_rolled_back(status: &EnvironmentStatus, rejected: &str, revision: &str) -> bool {
    status.rejected.iter().any(|it| it == rejected) && has_arrived(status, revision)
}
