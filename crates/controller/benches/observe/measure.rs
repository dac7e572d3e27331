//! What is measured, and how.

use std::{
    collections::{HashMap, HashSet},
    process::{Child, Command},
    time::{Duration, Instant},
};

use api::Pipeline;
use futures::StreamExt;
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use tokio::sync::mpsc;

use crate::{
    ROLE,
    world::{ENVIRONMENTS, World},
};

/// How many kernel ticks of CPU time are a second.
const TICKS: f64 = 100.0;

/// What is measured.
pub(crate) enum Measured {
    /// The pipeline reconciler alone.
    Reconciler,
    /// This `sluice`, with all its controllers and its server.
    Binary(String),
    /// This build of the Weave pipeline-controller.
    Weave(String),
}

impl Measured {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Reconciler => "the pipeline reconciler of Sluice",
            Self::Binary(_) => "Sluice with all its controllers and its server",
            Self::Weave(_) => "the Weave pipeline-controller",
        }
    }
}

/// The loop in a process of its own; it ends with this.
pub(crate) struct Controller {
    process: Child,
    _folder: tempfile::TempDir,
}

impl Controller {
    pub(crate) fn start(world: &World, measured: &Measured) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, &world.hub.kubeconfig).expect("a kubeconfig on disk");
        let listeners = |command: &mut Command, names: &[&str]| {
            for name in names {
                command.arg(format!("--{name}-bind-address=127.0.0.1:0"));
            }
        };
        let mut command = match measured {
            Measured::Reconciler => {
                let program = std::env::current_exe().expect("the path of this program");
                let mut command = Command::new(program);
                command.env(ROLE, &world.hub.kubeconfig);
                command
            }
            Measured::Binary(file) => {
                let mut command = Command::new(file);
                command.args(["controller", "--allow-internal-urls", "--kubeconfig"]);
                command.arg(kubeconfig);
                command.args(["--log-level", "warn", "--leader-elect=false"]);
                let names = ["promotion-hook", "rest", "metrics", "health-probe"];
                listeners(&mut command, &names);
                command
            }
            Measured::Weave(file) => {
                let mut command = Command::new(file);
                command.env("KUBECONFIG", kubeconfig);
                command.args(["--enable-level-triggered", "--log-level=error"]);
                listeners(&mut command, &["promotion-hook", "metrics", "health-probe"]);
                command
            }
        };
        Self {
            process: command.spawn().expect("a second process"),
            _folder: folder,
        }
    }

    /// CPU time so far, of user and system.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let path = format!("/proc/{}/stat", self.process.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks = fields.split_whitespace().skip(11).take(2);
        ticks.filter_map(|it| it.parse::<f64>().ok()).sum::<f64>() / TICKS
    }

    /// Resident memory in MiB.
    pub(crate) fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.unwrap_or_default() / 1024
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A status that appeared on the hub: pipeline, revisions by environment, and when.
struct WrittenStatus {
    pipeline: String,
    revisions: Vec<String>,
    at: Instant,
}

/// Follows the pipelines on the hub.
pub(crate) struct Watch {
    seen: mpsc::UnboundedReceiver<WrittenStatus>,
    writes: usize,
    revisions: HashMap<String, Vec<String>>,
    started: Instant,
}

impl Watch {
    pub(crate) async fn start(world: &World) -> Self {
        let (sender, seen) = mpsc::unbounded_channel();
        let api: Api<Pipeline> = Api::all(world.hub.client.clone());
        let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
        tokio::spawn(async move {
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                if let Ok(watcher::Event::Apply(pipeline)) = event
                    && sender.send(read(&pipeline)).is_err()
                {
                    return;
                }
            }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        Self {
            seen,
            writes: 0,
            revisions: HashMap::new(),
            started: Instant::now(),
        }
    }

    /// How many times a pipeline was written so far.
    pub(crate) fn writes(&mut self) -> usize {
        while let Ok(seen) = self.seen.try_recv() {
            self.take(seen);
        }
        self.writes
    }

    fn take(&mut self, seen: WrittenStatus) {
        self.writes += 1;
        self.revisions.insert(seen.pipeline, seen.revisions);
    }

    async fn next(&mut self) -> (String, Vec<String>, Instant) {
        let seen = tokio::time::timeout(Duration::from_secs(120), self.seen.recv()).await;
        let seen = seen.ok().flatten().unwrap_or_else(|| {
            eprintln!("nothing was written for two minutes: giving up");
            std::process::exit(1);
        });
        let copy = (seen.pipeline.clone(), seen.revisions.clone(), seen.at);
        self.take(seen);
        copy
    }

    /// Waits until every pipeline shows all its environments.
    pub(crate) async fn until_synced(&mut self, pipelines: usize) -> Duration {
        let started = self.started;
        let is_complete = |revisions: &Vec<String>| {
            revisions.len() == ENVIRONMENTS && revisions.iter().all(|it| !it.is_empty())
        };
        let mut complete = HashSet::new();
        let mut last = started;
        while complete.len() < pipelines {
            let (pipeline, revisions, at) = self.next().await;
            if is_complete(&revisions) && complete.insert(pipeline) {
                last = at;
            }
        }
        last - started
    }
}

fn read(pipeline: &Pipeline) -> WrittenStatus {
    let environments = pipeline
        .status
        .iter()
        .flat_map(|status| status.environments.values());
    let revisions = environments.map(|environment| {
        let target = environment.targets.first();
        target
            .and_then(|target| target.revision.clone())
            .unwrap_or_default()
    });
    WrittenStatus {
        pipeline: pipeline.metadata.name.clone().unwrap_or_default(),
        revisions: revisions.collect(),
        at: Instant::now(),
    }
}

pub(crate) struct Latency {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) writes_per_change: f64,
}

impl Latency {
    fn of(mut all: Vec<Duration>, writes: usize) -> Self {
        all.sort_unstable();
        let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize];
        Self {
            p50: at(0.5),
            p99: at(0.99),
            writes_per_change: writes as f64 / all.len() as f64,
        }
    }
}

/// Changes at a steady rate, each of another pipeline.
pub(crate) async fn steady(
    world: &World,
    watch: &mut Watch,
    per_second: usize,
    time: Duration,
) -> Latency {
    let changes = per_second * time.as_secs() as usize;
    let pipelines = watch.revisions.len();
    let before = watch.writes();
    let mut clock = tokio::time::interval(Duration::from_secs(1) / per_second as u32);
    // By pipeline, oldest first: who is slower than the changes shows only the newest of them, and then
    // the older ones have arrived with it.
    let mut sent: HashMap<String, Vec<(String, Instant)>> = HashMap::new();
    let mut latencies = Vec::new();
    let mut number = 0;
    while latencies.len() < changes {
        tokio::select! {
            _ = clock.tick(), if number < changes => {
                let pipeline = number % pipelines;
                let version = world.version(0, number);
                world.deploy(pipeline, 0, &version).await;
                let sent = sent.entry(format!("p-{pipeline}")).or_default();
                sent.push((version, Instant::now()));
                number += 1;
            }
            (pipeline, revisions, at) = watch.next() => {
                let sent = sent.entry(pipeline).or_default();
                let shown = sent.iter().position(|(version, _)| *version == revisions[0]);
                let arrived = sent.drain(..shown.map_or(0, |shown| shown + 1));
                latencies.extend(arrived.map(|(_, sent)| at.saturating_duration_since(sent)));
            }
        }
    }
    let writes = watch.writes() - before;
    Latency::of(latencies, writes)
}

/// How long nothing happens before a single change.
const QUIET: Duration = Duration::from_millis(250);

/// One change at a time, while nothing else happens.
pub(crate) async fn single(world: &World, watch: &mut Watch, count: usize) -> Latency {
    tokio::time::sleep(QUIET * 12).await;
    let before = watch.writes();
    let mut latencies = Vec::new();
    for number in 0..count {
        tokio::time::sleep(QUIET).await;
        let version = world.version(1, number);
        world.deploy(number, 1, &version).await;
        let sent = Instant::now();
        loop {
            let (pipeline, revisions, at) = watch.next().await;
            if pipeline == format!("p-{number}") && revisions[1] == version {
                latencies.push(at.saturating_duration_since(sent));
                break;
            }
        }
    }
    let writes = watch.writes() - before;
    Latency::of(latencies, writes)
}

pub(crate) struct Burst {
    pub(crate) took: Duration,
    /// Until the last change was made.
    pub(crate) making: Duration,
    pub(crate) writes_per_change: f64,
}

/// Many changes as fast as they can be made.
pub(crate) async fn burst(world: &World, watch: &mut Watch, count: usize) -> Burst {
    let before = watch.writes();
    let started = Instant::now();
    let version = world.version(2, 0);
    let changes = async {
        futures::stream::iter(0..count)
            .for_each_concurrent(16, |number| world.deploy(number, 2, &version))
            .await;
        started.elapsed()
    };
    let seen = async {
        let mut left = count;
        let mut last = started;
        while left > 0 {
            let (_, revisions, at) = watch.next().await;
            if revisions[2] == version {
                left -= 1;
                last = at;
            }
        }
        last
    };
    let (making, last) = tokio::join!(changes, seen);
    let writes = watch.writes() - before;
    Burst {
        took: last - started,
        making,
        writes_per_change: writes as f64 / count as f64,
    }
}
