//! Faults, one after the other: a forge that answers with 503, a leaf cluster that is not reachable, and a
//! controller that is killed.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    controller_process::ControllerProcess,
    fleet::{ENVIRONMENTS, Fleet},
    samples::Sampler,
};

/// How long an outage takes.
const OUTAGE: Duration = Duration::from_secs(4);

/// Injects a fault after each interval, in a fixed order. The controller is killed until a time.
pub(crate) async fn inject_forever(
    fleet: Arc<Fleet>,
    controller: Arc<ControllerProcess>,
    sampler: Arc<Sampler>,
    (every, kills_until): (Duration, Instant),
) {
    for number in 0.. {
        sleep(every).await;
        match number % 3 {
            0 => {
                sampler.fault("forge");
                fleet.forge.set_available(false);
                sleep(OUTAGE).await;
                fleet.forge.set_available(true);
            }
            1 if Instant::now() < kills_until => {
                sampler.fault("kill");
                controller.kill_and_restart();
            }
            _ => {
                sampler.fault("leaf");
                let leaf = (number / 3) % ENVIRONMENTS.len();
                fleet.set_leaf_connected(leaf, false);
                sleep(OUTAGE).await;
                fleet.set_leaf_connected(leaf, true);
            }
        }
    }
}
