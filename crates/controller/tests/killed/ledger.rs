//! What the receiver of the calls knows, and what it must never see.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use crate::MAX_CONCURRENT;

/// Everything that was started.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    calls: usize,
    /// The targets of each batch, by its key.
    batches: BTreeMap<String, Vec<String>>,
    started: BTreeSet<String>,
    in_flight: BTreeSet<String>,
    is_stopped: bool,
    /// How often it was stopped.
    stops: usize,
    violations: Vec<String>,
}

impl Ledger {
    /// Enters a call. Returns the number of its batch, if it is a new one.
    pub(crate) fn enter(&self, key: &str, targets: &[String]) -> Option<usize> {
        let mut entries = self.0.lock().unwrap();
        entries.calls += 1;
        if let Some(known) = entries.batches.get(key) {
            if known != targets {
                let text = format!("{key} came with {targets:?} after {known:?}");
                entries.violations.push(text);
            }
            return None;
        }
        entries.batches.insert(key.to_owned(), targets.to_vec());
        if entries.is_stopped {
            let text = format!("{key} was started after a stop: {targets:?}");
            entries.violations.push(text);
        }
        for target in targets {
            if !entries.started.insert(target.clone()) {
                let text = format!("{target} was started again with {key}");
                entries.violations.push(text);
            }
            entries.in_flight.insert(target.clone());
        }
        if entries.in_flight.len() > MAX_CONCURRENT {
            let text = format!("with {key} these are changing: {:?}", entries.in_flight);
            entries.violations.push(text);
        }
        Some(entries.batches.len())
    }

    /// A target is about to become ready or to fail.
    pub(crate) fn land(&self, target: &str) {
        self.0.lock().unwrap().in_flight.remove(target);
    }

    /// The stored promotion says that it is stopped, or will be resumed.
    pub(crate) fn set_stopped(&self, is_stopped: bool) {
        let mut entries = self.0.lock().unwrap();
        entries.is_stopped = is_stopped;
        entries.stops += usize::from(is_stopped);
    }

    /// How often it was stopped.
    pub(crate) fn stops(&self) -> usize {
        self.0.lock().unwrap().stops
    }

    pub(crate) fn assert_sound(&self) {
        let entries = self.0.lock().unwrap();
        assert!(entries.violations.is_empty(), "{:#?}", entries.violations);
    }

    pub(crate) fn started(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().started.clone()
    }

    pub(crate) fn batches(&self) -> usize {
        self.0.lock().unwrap().batches.len()
    }

    pub(crate) fn calls(&self) -> usize {
        self.0.lock().unwrap().calls
    }
}

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    /// `PROPTEST_RNG_SEED` is the seed.
    pub(crate) fn from_environment() -> Self {
        let seed = std::env::var("PROPTEST_RNG_SEED").ok();
        Self(seed.and_then(|seed| seed.parse().ok()).unwrap_or(17))
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

#[test]
fn the_ledger_notices_each_violation() {
    let targets = |names: std::ops::Range<usize>| -> Vec<String> {
        names.map(|it| format!("c{it}/app")).collect()
    };
    let violations = |ledger: &Ledger| ledger.0.lock().unwrap().violations.len();
    let ledger = Ledger::default();
    assert_eq!(ledger.enter("u/1", &targets(0..2)), Some(1));
    assert_eq!(ledger.enter("u/1", &targets(0..2)), None);
    assert_eq!(violations(&ledger), 0, "the same again is allowed");
    ledger.enter("u/1", &targets(0..3));
    assert_eq!(violations(&ledger), 1, "other targets");
    ledger.enter("u/2", &targets(1..3));
    assert_eq!(violations(&ledger), 2, "a target twice");
    for target in targets(0..3) {
        ledger.land(&target);
    }
    ledger.enter("u/3", &targets(10..10 + MAX_CONCURRENT));
    assert_eq!(violations(&ledger), 2);
    ledger.enter("u/4", &targets(50..51));
    assert_eq!(violations(&ledger), 3, "one too many");
    ledger.set_stopped(true);
    for target in targets(0..100) {
        ledger.land(&target);
    }
    ledger.enter("u/5", &targets(60..61));
    assert_eq!(violations(&ledger), 4, "after a stop");
}
