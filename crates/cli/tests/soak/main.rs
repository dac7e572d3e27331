//! A fleet under continuous releases, faults and approvals, reconciled by the binary. `cargo xtask soak` runs
//! it for an hour and says whether memory, open files, tasks, log volume and API writes stay the same.
//!
//! The hub, three leaf clusters with the Flux stand-in and the forge run in this process, so that only the
//! binary's own use of resources is measured.
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

mod controller_process;
mod faults;
mod fleet;
mod leaf_proxy;
mod people;
mod plot;
mod releases;
mod samples;
mod verdict;

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::time::Instant;

use controller_process::ControllerProcess;
use fleet::Fleet;
use samples::{Recording, Sampler};

/// How long it runs, and how much happens.
struct SoakPlan {
    /// The longest that it takes.
    duration: Duration,
    /// Whether it can end earlier.
    is_enough: fn(&Recording) -> bool,
    apps: usize,
    /// Between the end of a release and the next one of the same app.
    pause: Duration,
    /// Between two faults; none without it.
    faults_every: Option<Duration>,
    /// Between two samples.
    sample_every: Duration,
}

/// Runs the plan; the recording says what was measured.
async fn soak(plan: &SoakPlan) -> Recording {
    testbed::tls::install_provider();
    let fleet = Arc::new(Fleet::start(plan.apps).await);
    let controller = Arc::new(ControllerProcess::start(&fleet));
    let started = Instant::now();
    let sampler = Arc::new(Sampler::new(started));
    let mut tasks = tokio::task::JoinSet::new();
    for app in 0..plan.apps {
        tasks.spawn(releases::release_forever(
            fleet.clone(),
            app,
            plan.pause,
            sampler.clone(),
        ));
    }
    tasks.spawn(people::approve_forever(fleet.clone()));
    tasks.spawn(people::read_forever(fleet.clone(), controller.clone()));
    if let Some(every) = plan.faults_every {
        // Killed only in the first quarter: afterwards the memory of one process is compared.
        let kills_until = started + plan.duration / 4;
        tasks.spawn(faults::inject_forever(
            fleet.clone(),
            controller.clone(),
            sampler.clone(),
            (every, kills_until),
        ));
    }
    let sampling = async {
        while started.elapsed() < plan.duration && !(plan.is_enough)(&sampler.recording()) {
            sampler
                .sample_after(&fleet, &controller, plan.sample_every)
                .await;
        }
    };
    tokio::select! {
        () = sampling => {}
        Some(ended) = tasks.join_next() => unreachable!("a task ended early: {ended:?}"),
    }
    tasks.shutdown().await;
    sampler.recording()
}

#[tokio::test]
async fn releases_reach_prod_although_the_forge_fails_and_the_controller_is_killed() {
    let is_enough = |recording: &Recording| {
        let has = |fault| recording.faults.iter().any(|(_, it)| *it == fault);
        recording.last().releases > 0.0 && ["forge", "kill", "leaf"].into_iter().all(has)
    };
    let plan = SoakPlan {
        duration: Duration::from_secs(240),
        is_enough,
        apps: 1,
        pause: Duration::from_millis(100),
        faults_every: Some(Duration::from_secs(2)),
        sample_every: Duration::from_millis(500),
    };
    let recording = soak(&plan).await;
    assert!(recording.samples.len() > 5, "{recording:?}");
    assert!(is_enough(&recording), "{recording:?}");
    assert!(recording.last().resident > 1.0, "{recording:?}");
}

/// `SLUICE_SOAK_MINUTES` and the file `SLUICE_SOAK_SVG` are set by `cargo xtask soak`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes an hour: cargo xtask soak"]
async fn everything_stays_flat() {
    let minutes = std::env::var("SLUICE_SOAK_MINUTES").ok();
    let minutes: f64 = minutes.and_then(|it| it.parse().ok()).unwrap_or(60.0);
    let plan = SoakPlan {
        duration: Duration::from_secs_f64(minutes * 60.0),
        is_enough: |_| false,
        apps: 4,
        pause: Duration::from_secs(4),
        faults_every: Some(Duration::from_secs(20)),
        sample_every: Duration::from_secs_f64((minutes * 60.0 / 360.0).clamp(0.5, 10.0)),
    };
    let recording = soak(&plan).await;
    let verdicts = verdict::verdicts(&recording);
    eprintln!("{}", verdict::table(&recording, &verdicts));
    if let Some(path) = std::env::var_os("SLUICE_SOAK_SVG").map(PathBuf::from) {
        std::fs::write(&path, plot::svg(&recording, &verdicts)).unwrap();
        eprintln!("the plot is in {}", path.display());
    }
    assert!(recording.stuck.is_empty(), "stuck: {:?}", recording.stuck);
    let grown: Vec<_> = verdicts.iter().filter(|it| !it.is_flat()).collect();
    assert!(grown.is_empty(), "not flat: {grown:?}");
}
