//! What the operating system knows about this process, and ages, read at each scrape.

use std::{fs, sync::Arc};

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use tokio::time::Instant;

/// Linux counts processor time for programs in hundredths of a second on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Process {
    started: Timestamp,
    oldest_observation: Arc<Mutex<Option<Instant>>>,
}

impl Process {
    pub(super) fn new(oldest_observation: &Arc<Mutex<Option<Instant>>>) -> Self {
        Self {
            started: Timestamp::now(),
            oldest_observation: oldest_observation.clone(),
        }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        if let Some(seconds) = processor_seconds() {
            let metric = encoder.encode_descriptor(
                "process_cpu_seconds",
                "Processor time used",
                None,
                MetricType::Counter,
            )?;
            ConstCounter::new(seconds).encode(metric)?;
        }
        if let Some(bytes) = resident_bytes() {
            let help = "Memory in use";
            encode_gauge(&mut encoder, "process_resident_memory_bytes", help, bytes)?;
            // Under the name that the trigger operator's dashboard asks for.
            encode_gauge(&mut encoder, "go_memstats_alloc_bytes", help, bytes)?;
        }
        let help = "One for each controller, as the trigger operator's dashboard counts them";
        encode_gauge(&mut encoder, "go_info", help, 1.0)?;
        if let Some(files) = open_files() {
            encode_gauge(&mut encoder, "process_open_fds", "Open files", files)?;
        }
        if let Some(tasks) = tasks() {
            encode_gauge(
                &mut encoder,
                "sluice_tasks",
                "Tasks of the async runtime",
                tasks,
            )?;
        }
        encode_gauge(
            &mut encoder,
            "process_start_time_seconds",
            "When the process started, since 1970",
            self.started.as_duration().as_secs_f64(),
        )?;
        if let Some(seen) = *self.oldest_observation.lock() {
            let help = "How long ago the target that was seen longest ago was seen";
            let age = seen.elapsed().as_secs_f64();
            encode_gauge(&mut encoder, "sluice_observation_age_seconds", help, age)?;
        }
        Ok(())
    }
}

fn processor_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, the program's name in parentheses, may itself contain spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = |position| fields.split_whitespace().nth(position)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

fn resident_bytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024.0)
}

fn open_files() -> Option<f64> {
    let files = fs::read_dir("/proc/self/fd").ok()?.count();
    u32::try_from(files).ok().map(f64::from)
}

/// Tasks that have not ended; a number that only grows is a leak.
fn tasks() -> Option<f64> {
    let runtime = tokio::runtime::Handle::try_current().ok()?;
    let tasks = runtime.metrics().num_alive_tasks();
    u32::try_from(tasks).ok().map(f64::from)
}

/// Encodes one gauge without labels.
fn encode_gauge(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    value: f64,
) -> Result<(), std::fmt::Error> {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}
