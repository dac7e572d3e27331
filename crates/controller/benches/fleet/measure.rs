//! The process under measurement, and what is seen of the rollout from outside.

use std::{
    process::{Child, Command},
    time::{Duration, Instant},
};

use api::promotion::{Phase, PromotionStatus};
use serde_json::json;

use crate::{ROLE, world::World};

/// The reconcilers in a process of their own; it ends with this.
pub(crate) struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Controller {
    pub(crate) fn start(kubeconfig: &str) -> Self {
        let program = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(program);
        command.env(ROLE, kubeconfig);
        Self(command.spawn().expect("a second process"))
    }

    /// Resident memory in MiB.
    pub(crate) fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.0.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.unwrap_or_default() / 1024
    }
}

/// What was seen of the rollout so far.
#[derive(Default)]
pub(crate) struct Progress {
    largest_pipeline: usize,
    largest_promotion: usize,
    batches: usize,
    failed: usize,
    open_waves: usize,
    /// From the last ready target of a wave to the next one.
    gaps: Vec<Duration>,
}

impl Progress {
    /// Looks at the objects; true when the rollout has ended.
    pub(crate) async fn look(&mut self, world: &World) -> bool {
        let pipeline = world.pipeline().await;
        let size = json!(pipeline.status).to_string().len();
        self.largest_pipeline = self.largest_pipeline.max(size);
        let Some(promotion) = world.promotion().await else {
            return false;
        };
        let status = promotion.status.unwrap_or_default();
        let size = json!(status).to_string().len();
        self.largest_promotion = self.largest_promotion.max(size);
        self.note_waves(world, &status);
        if status.phase == Some(Phase::Failed) {
            eprintln!("the promotion failed: {:?}", status.message);
            std::process::exit(1);
        }
        status.phase == Some(Phase::Succeeded)
    }

    fn note_waves(&mut self, world: &World, status: &PromotionStatus) {
        let Some(rollout) = &status.rollout else {
            return;
        };
        if let Some(stop) = &rollout.stopped {
            eprintln!("the rollout was stopped: {}", stop.message);
            std::process::exit(1);
        }
        self.batches = rollout.batches.len();
        self.failed = rollout.failed.len();
        let open = rollout.waves.iter().filter(|it| it.opened_at.is_some());
        let open = open.count();
        if open > self.open_waves && self.open_waves > 0 {
            let last = world.last_deployment();
            self.gaps
                .extend(last.map(|last| Instant::now().duration_since(last)));
        }
        self.open_waves = open;
    }

    pub(crate) fn print(&self) {
        println!(
            "batches                    {:>8}, {} targets failed",
            self.batches, self.failed
        );
        println!(
            "largest status             {:>8} kB of the Pipeline, {} kB of the Promotion (goal: 700 kB)",
            self.largest_pipeline / 1000,
            self.largest_promotion / 1000
        );
        for (number, gap) in (2..).zip(&self.gaps) {
            println!("last target ready to wave {number}  {gap:>8.2?}");
        }
    }

    /// How often the Pipeline and the Promotion were written.
    pub(crate) async fn changes(&self, world: &World) -> usize {
        world.changes()
    }
}
