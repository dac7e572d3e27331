//! Whether what was measured stayed the same: the second quarter of the run beside the last.

use crate::samples::{Recording, Sample};

/// Something that must stay flat.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    value: Value,
    /// The last quarter may be higher by this part of the second quarter, ...
    relative: f64,
    /// ... or by this much, whichever is more.
    absolute: f64,
}

enum Value {
    /// Medians of the samples are compared.
    Level(fn(&Sample) -> f64),
    /// A count that only grows: its growth per release is compared.
    PerRelease(fn(&Sample) -> f64),
}

pub(crate) const SERIES: &[Series] = &[
    Series {
        name: "resident memory",
        unit: "MiB",
        value: Value::Level(|it| it.resident),
        relative: 0.15,
        absolute: 8.0,
    },
    Series {
        name: "open files",
        unit: "",
        value: Value::Level(|it| it.open_files),
        relative: 0.2,
        absolute: 8.0,
    },
    Series {
        name: "threads",
        unit: "",
        value: Value::Level(|it| it.threads),
        relative: 0.2,
        absolute: 4.0,
    },
    Series {
        name: "tasks",
        unit: "",
        value: Value::Level(|it| it.tasks),
        relative: 0.2,
        absolute: 20.0,
    },
    Series {
        name: "Promotions and CheckRuns",
        unit: "",
        value: Value::Level(|it| it.objects),
        relative: 0.2,
        absolute: 10.0,
    },
    Series {
        name: "log per release",
        unit: "bytes",
        value: Value::PerRelease(|it| it.logged),
        relative: 0.25,
        absolute: 500.0,
    },
    Series {
        name: "API writes per release",
        unit: "",
        value: Value::PerRelease(|it| it.writes),
        relative: 0.25,
        absolute: 5.0,
    },
];

/// The comparison of one series.
#[derive(Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) second_quarter: f64,
    pub(crate) last_quarter: f64,
    /// The highest value of the last quarter that counts as flat.
    pub(crate) limit: f64,
}

impl Verdict {
    /// Not a number, as without any release, is not flat.
    pub(crate) fn is_flat(&self) -> bool {
        self.last_quarter <= self.limit
    }
}

impl Series {
    /// The values that are drawn: levels as they are, and of a count its growth per release from each sample
    /// to one that is a twelfth of the run later.
    pub(crate) fn drawn(&self, samples: &[Sample]) -> Vec<(f64, f64)> {
        match self.value {
            Value::Level(level) => samples.iter().map(|it| (it.minutes, level(it))).collect(),
            Value::PerRelease(count) => {
                let window = (samples.len() / 12).max(1);
                let windows = samples.windows(window + 1);
                let drawn = windows.filter_map(|it| {
                    let rate = per_release(it, count);
                    rate.is_finite().then(|| (it[window].minutes, rate))
                });
                drawn.collect()
            }
        }
    }

    fn value_of(&self, samples: &[Sample]) -> f64 {
        match self.value {
            Value::Level(level) => median(samples.iter().map(level).collect()),
            Value::PerRelease(count) => per_release(samples, count),
        }
    }

    fn verdict(&self, recording: &Recording) -> Verdict {
        let quarters = quarters(recording);
        let (second, last) = (self.value_of(quarters.0), self.value_of(quarters.1));
        Verdict {
            name: self.name,
            unit: self.unit,
            second_quarter: second,
            last_quarter: last,
            limit: second + (second * self.relative).max(self.absolute),
        }
    }
}

pub(crate) fn verdicts(recording: &Recording) -> Vec<Verdict> {
    SERIES.iter().map(|it| it.verdict(recording)).collect()
}

/// The samples of the second and of the last quarter of the time.
fn quarters(recording: &Recording) -> (&[Sample], &[Sample]) {
    let samples = recording.samples.as_slice();
    let end = samples.last().map_or(0.0, |it| it.minutes);
    let at = |part: f64| samples.partition_point(|it| it.minutes < end * part);
    (&samples[at(0.25)..at(0.5)], &samples[at(0.75)..])
}

fn per_release(samples: &[Sample], count: fn(&Sample) -> f64) -> f64 {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return f64::NAN;
    };
    let releases = last.releases - first.releases;
    match releases > 0.0 {
        true => (count(last) - count(first)) / releases,
        false => f64::NAN,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The result for people.
pub(crate) fn table(recording: &Recording, verdicts: &[Verdict]) -> String {
    let last = recording.last();
    let count = |kind| recording.faults.iter().filter(|it| it.1 == kind).count();
    let mut text = format!(
        "{:.0} minutes, {:.0} releases ({} stuck); {} outages of the forge, {} of leaf clusters, {} kills\n\
         | | second quarter | last quarter | limit | |\n| --- | --- | --- | --- | --- |\n",
        last.minutes,
        last.releases,
        recording.stuck.len(),
        count("forge"),
        count("leaf"),
        count("kill"),
    );
    for it in verdicts {
        let word = if it.is_flat() { "flat" } else { "GROWS" };
        text += &format!(
            "| {} | {:.1} {unit} | {:.1} {unit} | {:.1} {unit} | {word} |\n",
            it.name,
            it.second_quarter,
            it.last_quarter,
            it.limit,
            unit = it.unit,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 samples; the memory after the first quarter grows by `growth` MiB for each, and each release costs
    /// `writes` of them plus one more for each `more` samples.
    fn recording(growth: f64, more: f64) -> Recording {
        let mut recording = Recording::default();
        let mut writes = 0.0;
        for minute in 0..100 {
            let minutes = f64::from(minute);
            writes += 10.0 + minutes * more;
            recording.samples.push(Sample {
                minutes,
                resident: 100.0 + growth * (minutes - 25.0).max(0.0),
                open_files: 20.0,
                threads: 4.0,
                tasks: 50.0,
                objects: 30.0,
                logged: minutes * 1000.0,
                writes,
                releases: minutes,
            });
        }
        recording
    }

    fn grown(recording: &Recording) -> Vec<&'static str> {
        let grown = verdicts(recording).into_iter().filter(|it| !it.is_flat());
        grown.map(|it| it.name).collect()
    }

    #[test]
    fn a_leak_and_rising_costs_are_found() {
        assert_eq!(grown(&recording(0.0, 0.0)), [""; 0]);
        assert_eq!(grown(&recording(1.0, 0.0)), ["resident memory"]);
        assert_eq!(grown(&recording(0.0, 1.0)), ["API writes per release"]);
    }

    #[test]
    fn a_peak_in_the_first_quarter_and_a_single_one_do_not_count() {
        let mut peaks = recording(0.0, 0.0);
        peaks.samples[80].resident = 900.0;
        peaks.samples[3].resident = 5.0;
        assert_eq!(grown(&peaks), [""; 0]);
    }

    #[test]
    fn without_releases_nothing_is_flat_per_release() {
        let mut idle = recording(0.0, 0.0);
        idle.samples.iter_mut().for_each(|it| it.releases = 0.0);
        assert_eq!(grown(&idle), ["log per release", "API writes per release"]);
    }
}
