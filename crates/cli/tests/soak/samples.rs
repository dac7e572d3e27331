//! Measures the binary at intervals.

use std::sync::Mutex;
use std::time::Duration;

use kube::{
    Api,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use tokio::time::{Instant, sleep};

use crate::{
    controller_process::{ControllerProcess, number},
    fleet::Fleet,
    people::get,
};

/// What was measured at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Minutes since the start.
    pub(crate) minutes: f64,
    /// MiB.
    pub(crate) resident: f64,
    pub(crate) open_files: f64,
    pub(crate) threads: f64,
    /// Tasks of the async runtime.
    pub(crate) tasks: f64,
    /// Promotions and CheckRuns on the hub.
    pub(crate) objects: f64,
    /// Bytes of log so far.
    pub(crate) logged: f64,
    /// Writes to the hub so far: its resourceVersion.
    pub(crate) writes: f64,
    /// Releases that have ended so far.
    pub(crate) releases: f64,
}

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    pub(crate) samples: Vec<Sample>,
    /// When, in minutes, and what.
    pub(crate) faults: Vec<(f64, &'static str)>,
    /// Releases that did not end in time.
    pub(crate) stuck: Vec<String>,
    releases: u32,
}

impl Recording {
    pub(crate) fn last(&self) -> Sample {
        self.samples.last().cloned().unwrap_or_default()
    }
}

pub(crate) struct Sampler {
    started: Instant,
    recording: Mutex<Recording>,
}

impl Sampler {
    pub(crate) fn new(started: Instant) -> Self {
        Self {
            started,
            recording: Mutex::default(),
        }
    }

    fn minutes(&self) -> f64 {
        self.started.elapsed().as_secs_f64() / 60.0
    }

    pub(crate) fn released(&self) {
        self.recording.lock().unwrap().releases += 1;
    }

    pub(crate) fn stuck(&self, release: String) {
        self.recording.lock().unwrap().stuck.push(release);
    }

    pub(crate) fn fault(&self, what: &'static str) {
        let minutes = self.minutes();
        self.recording.lock().unwrap().faults.push((minutes, what));
    }

    pub(crate) fn recording(&self) -> Recording {
        self.recording.lock().unwrap().clone()
    }

    /// Takes a sample after a while. One that is not complete, as after a kill, is left out.
    pub(crate) async fn sample_after(
        &self,
        fleet: &Fleet,
        controller: &ControllerProcess,
        pause: Duration,
    ) {
        sleep(pause).await;
        controller.assert_running();
        let Some(sample) = self.sample(fleet, controller).await else {
            return;
        };
        let mut recording = self.recording.lock().unwrap();
        let previous = recording.samples.last().map_or(0.0, |it| it.minutes);
        if sample.minutes.floor() > previous.floor() {
            eprintln!("{sample:.1?}");
        }
        recording.samples.push(sample);
    }

    async fn sample(&self, fleet: &Fleet, controller: &ControllerProcess) -> Option<Sample> {
        let metrics = get(controller.metrics, "/metrics").await?;
        let (objects, writes) = hub(fleet).await?;
        Some(Sample {
            minutes: self.minutes(),
            resident: controller.resident()?,
            open_files: controller.open_files()?,
            threads: controller.threads()?,
            tasks: metric(&metrics, "sluice_tasks")?,
            objects,
            logged: controller.logged(),
            writes,
            releases: f64::from(self.recording.lock().unwrap().releases),
        })
    }
}

fn metric(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

/// The number of promotions and check runs on the hub, and how often something was written to it.
async fn hub(fleet: &Fleet) -> Option<(f64, f64)> {
    let mut objects = 0;
    let mut writes = 0;
    for kind in ["Promotion", "CheckRun"] {
        let kind = GroupVersionKind::gvk("pipelines.weave.works", "v1alpha1", kind);
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::all_with(fleet.hub(), &resource);
        let list = api.list(&ListParams::default()).await.ok()?;
        objects += list.items.len() as u64;
        writes = list.metadata.resource_version?.parse().ok()?;
    }
    Some((number(objects), number(writes)))
}
