//! What a rollout through a fleet costs: the reconcilers of pipelines and promotions in a process of their own,
//! with a hub, the clusters and the receiver of a webhook in this one.
//!
//! One environment has all clusters, in three waves; the receiver brings the targets of each batch to the new
//! version, and some of them fail. Printed are requests and writes per target, memory, the largest status, the
//! time from the last ready target of a wave to the next wave, and the time of one pass of the planner.
//! `--targets N` sets the number of clusters; with `--real` the hub is a real kube-apiserver.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod measure;
mod objects;
mod planner_pass;
mod world;

use std::time::{Duration, Instant};

use measure::{Controller, Progress};
use runtime::LeaderGuard;
use world::World;

/// Set in the process that only runs the reconcilers: the kubeconfig of the hub.
const ROLE: &str = "SLUICE_BENCH_HUB";
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(900);
/// What the rollout brings.
const VERSION: &str = "1.1.0";

fn main() {
    // Neither `cargo test` nor a listing of benches should start anything.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|it| it == "--list" || it == "--test") {
        return;
    }
    let is_real = arguments.iter().any(|it| it == "--real");
    let at = arguments.iter().position(|it| it == "--targets");
    let targets = at.and_then(|at| arguments.get(at + 1));
    let targets = targets.map_or(1_000, |text| text.parse().expect("a number"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime with the default settings starts");
    match std::env::var(ROLE) {
        Ok(kubeconfig) => runtime.block_on(run_reconcilers(&kubeconfig)),
        Err(_) => runtime.block_on(bench(targets, is_real)),
    }
}

/// The process under measurement.
async fn run_reconcilers(kubeconfig: &str) {
    use kube::config::{KubeConfigOptions, Kubeconfig};
    testbed::tls::install_provider();
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let hub = kube::Client::try_from(config.expect("a usable kubeconfig")).expect("a client");
    let settings = controller::Settings {
        allow_internal_urls: true,
        ..controller::Settings::default()
    };
    // The clusters are behind plain HTTP on loopback.
    let policy = controller::KubeconfigPolicy(net::AddressPolicy::UNRESTRICTED);
    let connector = controller::network_connector(policy);
    let pipelines = controller::PipelineReconciler::new(hub.clone(), connector, settings.clone());
    let leader = LeaderGuard::without_election();
    let promotions = controller::PromotionReconciler::new(hub, settings, leader);
    let promotions = promotions.expect("a folder for git");
    tokio::join!(
        controller::pipeline::run(pipelines),
        controller::promotion::run(promotions)
    );
}

async fn bench(targets: usize, is_real: bool) {
    let hub = if is_real { "a real" } else { "an embedded" };
    println!("{targets} clusters in one environment, three waves, webhook, {hub} hub");
    let world = World::build(targets, is_real).await;
    let controller = Controller::start(&world.kubeconfig);
    let began = Instant::now();
    until("all targets are observed", || world.are_observed(targets)).await;
    println!("all targets observed after {:>8.2?}", began.elapsed());
    println!("memory of the controller   {:>8} MiB", controller.memory());
    let before = world.counts();
    let mut progress = Progress::default();
    let began = Instant::now();
    world.release().await;
    let finished = until("the rollout has ended", async || {
        let has_ended = progress.look(&world).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        has_ended
    });
    finished.await;
    println!("rollout                    {:>8.2?}", began.elapsed());
    progress.print();
    if let (Some(before), Some(after)) = (before, world.counts()) {
        let per_target = |count: usize| count as f64 / targets as f64;
        println!(
            "requests per target        {:>8.2}, of which writes {:.2} (goal: 3)",
            per_target(after.0 - before.0),
            per_target(after.1 - before.1)
        );
    }
    println!(
        "changes of objects         {:>8.2} per target",
        progress.changes(&world).await as f64 / targets as f64
    );
    println!(
        "memory of the controller   {:>8} MiB (goal: 400 MiB)",
        controller.memory()
    );
    planner_pass::measure(&world).await;
}

/// Waits until it is so, and gives up after long.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        if began.elapsed() > PATIENCE {
            eprintln!("waited too long until {what}: giving up");
            std::process::exit(1);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
