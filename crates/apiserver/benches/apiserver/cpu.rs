//! Processor time, which says what work costs also when others use the machine.

/// How often the kernel counts in a second, on every Linux there is.
const TICKS: f64 = 100.0;

/// The seconds of processor time that a process has used.
pub(crate) fn of(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name of the program, in brackets, may hold anything.
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / TICKS
}
