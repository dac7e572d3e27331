//! How fast, how small and how quiet the pipeline loop is.
//!
//! The clusters run in this process (or, with `--real`, as real control planes), the loop in a
//! process of its own, so that its memory is its own. Everything goes over loopback. `--pipelines N`
//! sets their number; `--binary FILE` measures that `sluice` with all its controllers and its server
//! instead of the pipeline reconciler alone. `--weave FILE` also measures the Weave pipeline-controller, with
//! `--enable-level-triggered`, on the same clusters one after the other: only figures of one run compare.
//! `--without-workloads` leaves out the Deployments of the apps: Sluice reads their images before it writes a
//! status, and the Weave controller does not.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod measure;
mod world;

use std::time::Duration;

use measure::Measured;
use world::{Scale, World};

/// Set in the process that only runs the loop: the kubeconfig of the hub.
const ROLE: &str = "SLUICE_BENCH_HUB";

fn main() {
    // Neither `cargo test` nor a listing of benches should start clusters.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has("--list") || has("--test") {
        return;
    }
    let (is_real, has_workloads) = (has("--real"), !has("--without-workloads"));
    let value_of = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1).cloned()
    };
    let pipelines = value_of("--pipelines").map(|text| text.parse().expect("a number"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime with the default settings starts");
    testbed::tls::install_provider();
    match std::env::var(ROLE) {
        Ok(kubeconfig) => runtime.block_on(run_loop(&kubeconfig)),
        Err(_) => {
            let own = value_of("--binary").map_or(Measured::Reconciler, Measured::Binary);
            let weave = value_of("--weave").map(Measured::Weave);
            let all: Vec<Measured> = [own].into_iter().chain(weave).collect();
            let scale = scale(is_real, has_workloads, pipelines);
            runtime.block_on(bench(&scale, &all));
        }
    }
}

/// The process under measurement.
async fn run_loop(kubeconfig: &str) {
    use kube::config::{KubeConfigOptions, Kubeconfig};
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let hub = kube::Client::try_from(config.expect("a usable kubeconfig")).expect("a client");
    let settings = controller::Settings::default();
    // Clusters in the process of the benchmark are behind plain HTTP on loopback.
    let policy = controller::KubeconfigPolicy(net::AddressPolicy::UNRESTRICTED);
    let shared =
        controller::PipelineReconciler::new(hub, controller::network_connector(policy), settings);
    controller::pipeline::run(shared).await;
}

fn scale(is_real: bool, has_workloads: bool, pipelines: Option<usize>) -> Scale {
    let (default, leaves) = match is_real {
        true => (1_000, 1),
        false => (10_000, 100),
    };
    Scale {
        pipelines: pipelines.unwrap_or(default),
        leaves,
        is_real,
        has_workloads,
    }
}

async fn bench(scale: &Scale, all: &[Measured]) {
    println!("{}", scale.describe());
    let mut world = World::build(scale).await;
    for measured in all {
        println!("{}:", measured.name());
        measure_one(&world, scale, measured).await;
        world.begin_another_round(scale).await;
    }
}

async fn measure_one(world: &World, scale: &Scale, measured: &Measured) {
    let mut watch = measure::Watch::start(world).await;
    let controller = measure::Controller::start(world, measured);

    let synced = watch.until_synced(scale.pipelines).await;
    println!("fully synced              {synced:>8.2?}");
    println!(
        "status writes to get there{:>8.2} per pipeline",
        watch.writes() as f64 / scale.pipelines as f64
    );
    println!("memory of the controller  {:>8} MiB", controller.memory());

    let idle = if scale.is_real { 20 } else { 60 };
    let before = watch.writes();
    tokio::time::sleep(Duration::from_secs(idle)).await;
    println!(
        "writes in {idle} idle seconds  {:>8}",
        watch.writes() - before
    );
    if !scale.is_real {
        println!(
            "connections per cluster   {:>8.2}",
            world.connections() as f64 / (scale.leaves + 1) as f64
        );
    }

    let steady = measure::steady(world, &mut watch, 100, Duration::from_secs(20)).await;
    println!(
        "100 changes/s for 20 s: leaf change to status p50 {:.1?}, p99 {:.1?}; {:.2} writes per change",
        steady.p50, steady.p99, steady.writes_per_change
    );
    let single = measure::single(world, &mut watch, 60).await;
    println!(
        "single change to status   p50 {:.1?}, p99 {:.1?}",
        single.p50, single.p99
    );
    let burst = measure::burst(world, &mut watch, scale.pipelines.min(1_000)).await;
    println!(
        "burst of {} changes       {:>8.2?}, of which making them {:.2?}; {:.2} writes per change",
        scale.pipelines.min(1_000),
        burst.took,
        burst.making,
        burst.writes_per_change
    );
    println!("memory of the controller  {:>8} MiB", controller.memory());
    println!(
        "CPU time of the controller{:>8.1} s",
        controller.cpu_seconds()
    );
    drop(controller);
}
