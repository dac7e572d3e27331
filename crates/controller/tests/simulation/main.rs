//! The whole of Sluice in one process on a simulated clock, with faults and people that a seed chooses.
//!
//! Two replicas with all controllers and the server run against the embedded API as their hub and a leaf
//! cluster, an in-memory git and the double of a forge. There are no sockets, no processes and no threads, so
//! that a seed repeats exactly. `SLUICE_SEED=N` runs one seed and prints its story; `SLUICE_SEEDS=N` sets how
//! many are tried, `SLUICE_FIRST_SEED=N` which is the first. Each run ends with a hub that is restored without any
//! status.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod cluster_client;
mod dice;
mod flux;
mod forge;
mod git_contract;
mod git_executor;
mod git_objects;
mod hooks;
mod layout;
mod link;
mod people;
mod replica;
mod rest;
mod run;
mod story;
mod watchdog;
mod world;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use parking_lot::Mutex;
use run::Outcome;

/// How many seeds are tried unless told otherwise.
const SEEDS: u64 = 20;

/// The seeds that are run twice and compared, line by line.
const REPEATED: [u64; 4] = [3, 7, 10, 12];

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn every_seed_keeps_what_must_always_hold() {
    if let Some(seed) = number("SLUICE_SEED") {
        let outcome = run::run(seed);
        println!("{}", outcome.story);
        assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
        return;
    }
    let first = number("SLUICE_FIRST_SEED").unwrap_or(1);
    let count = number("SLUICE_SEEDS").unwrap_or(SEEDS);
    let began = Instant::now();
    let failed = try_all(first, count);
    let seconds = began.elapsed().as_secs_f64();
    println!("{count} seeds in {seconds:.1} s");
    let seeds: Vec<u64> = failed.iter().map(|(seed, _)| *seed).collect();
    let first = failed.first().map(|(_, outcome)| outcome);
    let violations = first.map(|outcome| {
        println!("{}", outcome.story);
        &outcome.violations
    });
    assert!(failed.is_empty(), "{violations:#?}\nseeds: {seeds:?}");
}

/// The seeds that fail, in order.
fn try_all(first: u64, count: u64) -> Vec<(u64, Outcome)> {
    let (next, failed) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let outcome = run::run(seed);
                    if !outcome.violations.is_empty() {
                        failed.lock().push((seed, outcome));
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner();
    failed.sort_by_key(|(seed, _)| *seed);
    failed
}

#[test]
fn a_seed_repeats_exactly() {
    for seed in REPEATED {
        let (one, other) = (run::run(seed), run::run(seed));
        for (number, (left, right)) in one.story.lines().zip(other.story.lines()).enumerate() {
            assert_eq!(left, right, "seed {seed}, line {number}");
        }
        assert_eq!(one.story, other.story);
    }
}
