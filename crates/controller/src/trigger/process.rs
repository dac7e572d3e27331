//! Figures of the process under the names that the operator's dashboard asks for.
//!
//! Two of them are named after Go's runtime; they stand for the process and its memory here. Where
//! the system does not tell, nothing is shown.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

/// Linux counts processor time in these parts of a second on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;
const PAGE: i64 = 4096;

/// Read anew at every look.
#[derive(Debug)]
pub(super) struct ProcessFigures;

impl Collector for ProcessFigures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        if let Some(seconds) = processor_seconds() {
            let about = "Processor time used, in seconds";
            let counter = ConstCounter::new(seconds);
            let kind = MetricType::Counter;
            let metric = encoder.encode_descriptor("process_cpu_seconds", about, None, kind)?;
            counter.encode(metric)?;
        }
        if let Some(bytes) = resident_bytes() {
            let about = "Memory in use, in bytes";
            let gauge = ConstGauge::new(bytes);
            let kind = MetricType::Gauge;
            let metric = encoder.encode_descriptor("go_memstats_alloc_bytes", about, None, kind)?;
            gauge.encode(metric)?;
        }
        let about = "One for each controller that runs";
        let kind = MetricType::Gauge;
        let metric = encoder.encode_descriptor("go_info", about, None, kind)?;
        ConstGauge::new(1_i64).encode(metric)
    }
}

/// User and system time, the 14th and 15th field; the second may hold spaces, in parentheses.
fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

fn resident_bytes() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: i64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * PAGE)
}
