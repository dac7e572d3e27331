//! What checks cost: the check reconciler in a process of its own, with a hub and whom it asks in this one.
//!
//! Two checks for each pipeline, one `http` and one `prometheus`, all of which run on. Printed are requests,
//! writes, CPU time and memory while nothing changes. Everything goes over loopback. `--pipelines N`,
//! `--interval TIME` and `--seconds N` set what is measured.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::{
    process::{Child, Command},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use api::{
    CheckRun, Pipeline,
    check_run::{CheckRunSpec, CheckVerdict},
};
use apiserver::{Server, User};
use axum::{Router, extract::Request, middleware};
use futures::{StreamExt, stream};
use kube::{
    Api, Client, Resource,
    api::{ListParams, PostParams},
};
use net::HostPatterns;
use runtime::LeaderGuard;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Set in the process that only runs the loop: the kubeconfig of the hub.
const ROLE: &str = "SLUICE_BENCH_HUB";
/// How many kernel ticks of CPU time are a second.
const TICKS: f64 = 100.0;
const ANSWER: &str = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0"]}]}}"#;

fn main() {
    // Neither `cargo test` nor a listing of benches should start anything.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|it| it == "--list" || it == "--test") {
        return;
    }
    let value_of = |flag: &str| {
        let at = arguments.iter().position(|it| it == flag)?;
        arguments.get(at + 1).cloned()
    };
    let number = |flag: &str, default: usize| {
        let text = value_of(flag);
        text.map_or(default, |text| text.parse().expect("a number"))
    };
    let (pipelines, seconds) = (number("--pipelines", 1_000), number("--seconds", 60));
    let interval = value_of("--interval").unwrap_or_else(|| "30s".to_owned());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime with the default settings starts");
    match std::env::var(ROLE) {
        Ok(kubeconfig) => runtime.block_on(run_loop(&kubeconfig)),
        Err(_) => runtime.block_on(bench(pipelines, &interval, seconds)),
    }
}

/// The process under measurement.
async fn run_loop(kubeconfig: &str) {
    use kube::config::{KubeConfigOptions, Kubeconfig};
    testbed::tls::install_provider();
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let hub = Client::try_from(config.expect("a usable kubeconfig")).expect("a client");
    let settings = controller::Settings {
        allow_internal_urls: true,
        check_hosts: HostPatterns::parse(["127.0.0.1"]).expect("a pattern"),
        ..controller::Settings::default()
    };
    let leader = LeaderGuard::without_election();
    let reconciler = controller::CheckReconciler::new(hub, settings, leader);
    controller::check::run(reconciler).await;
}

/// The hub and whom checks ask, with counters.
struct World {
    hub: Client,
    kubeconfig: String,
    endpoint: String,
    /// Writes to the hub by the process under measurement.
    writes: Arc<AtomicUsize>,
    /// Other requests to the hub by it.
    reads: Arc<AtomicUsize>,
    measurements: Arc<AtomicUsize>,
}

async fn listen(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

impl World {
    async fn start() -> Self {
        let server = Server::in_memory();
        let (writes, reads) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counters = (writes.clone(), reads.clone());
        let count = move |request: Request, next: middleware::Next| {
            let is_read = request.method() == http::Method::GET;
            let counter = if is_read { &counters.1 } else { &counters.0 };
            counter.fetch_add(1, Ordering::Relaxed);
            next.run(request)
        };
        let api = Router::new().fallback_service(server.router(User::in_process()));
        let address = listen(api.layer(middleware::from_fn(count))).await;
        let measurements = Arc::new(AtomicUsize::new(0));
        let counter = measurements.clone();
        let answer = move || {
            counter.fetch_add(1, Ordering::Relaxed);
            async { ANSWER }
        };
        Self {
            hub: server.client(),
            kubeconfig: format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
                 clusters: [{{name: c, cluster: {{server: '{address}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n\
                 contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n"
            ),
            endpoint: listen(Router::new().fallback(answer)).await,
            writes,
            reads,
            measurements,
        }
    }

    /// Pipelines, each with two check runs.
    async fn fill(&self, pipelines: usize, interval: &str) {
        let definitions = api::crds().into_iter().map(|it| json!(it));
        testbed::objects::apply(&self.hub, definitions.collect()).await;
        let create = |number| self.create(number, interval);
        stream::iter(0..pipelines)
            .for_each_concurrent(16, create)
            .await;
    }

    async fn create(&self, number: usize, interval: &str) {
        let name = format!("shop-{number}");
        let pipeline = json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"environments": [{"name": "staging", "targets": [{"namespace": "shop"}]}]},
        });
        let pipeline: Pipeline = serde_json::from_value(pipeline).expect("a pipeline");
        let pipelines: Api<Pipeline> = Api::namespaced(self.hub.clone(), "default");
        let created = pipelines.create(&PostParams::default(), &pipeline).await;
        let pipeline = created.expect("a created pipeline");
        let prometheus =
            json!({"address": self.endpoint, "query": "errors", "passExpr": "value < 1"});
        let http = json!({"url": self.endpoint, "passExpr": "status == 200"});
        for check in [
            json!({"name": "errors", "prometheus": prometheus}),
            json!({"name": "smoke", "http": http}),
        ] {
            let check = running(check, interval);
            let run = check_run(&pipeline, &name, check);
            let runs: Api<CheckRun> = Api::namespaced(self.hub.clone(), "default");
            let created = runs.create(&PostParams::default(), &run).await;
            created.expect("a created check run");
        }
    }

    /// How many check runs were measured.
    async fn running(&self) -> usize {
        let runs: Api<CheckRun> = Api::namespaced(self.hub.clone(), "default");
        let all = runs.list(&ListParams::default()).await.expect("check runs");
        let is_running = |run: &&CheckRun| {
            let status = run.status.as_ref();
            status.is_some_and(|it| it.verdict == CheckVerdict::Running)
        };
        all.iter().filter(is_running).count()
    }
}

/// A check that is measured for as long as the benchmark runs.
fn running(mut check: Value, interval: &str) -> Value {
    check["interval"] = json!(interval);
    check["successThreshold"] = json!(1000);
    check["timeout"] = json!("24h");
    check
}

fn check_run(pipeline: &Pipeline, name: &str, check: Value) -> CheckRun {
    let spec = CheckRunSpec {
        pipeline: name.to_owned(),
        environment: "staging".to_owned(),
        revision: "1.1.0".to_owned(),
        version: "1.1.0".to_owned(),
        check: serde_json::from_value(check).expect("a check"),
        ..CheckRunSpec::default()
    };
    let mut run = CheckRun::new(&api::names::check_run_name(&spec), spec);
    run.metadata.owner_references = Some(pipeline.owner_ref(&()).into_iter().collect());
    run
}

/// The loop in a process of its own; it ends with this.
struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Controller {
    /// Resident memory in MiB.
    fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.0.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.unwrap_or_default() / 1024
    }

    /// CPU time so far, in seconds.
    fn cpu(&self) -> f64 {
        let path = format!("/proc/{}/stat", self.0.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let after = text.rsplit_once(')').map_or("", |(_, after)| after);
        let fields: Vec<&str> = after.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|it| it.parse::<f64>().ok());
        // User and system time.
        (ticks(11).unwrap_or_default() + ticks(12).unwrap_or_default()) / TICKS
    }
}

async fn bench(pipelines: usize, interval: &str, seconds: usize) {
    println!("{pipelines} pipelines with 2 checks each, measured every {interval}");
    let world = World::start().await;
    world.fill(pipelines, interval).await;
    let started = Instant::now();
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.env(ROLE, &world.kubeconfig);
    let controller = Controller(command.spawn().expect("a second process"));
    while world.running().await < 2 * pipelines {
        if started.elapsed() > Duration::from_secs(120) {
            eprintln!("not all checks were measured within two minutes: giving up");
            std::process::exit(1);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("all measured after        {:>8.2?}", started.elapsed());
    println!(
        "writes to get there       {:>8}",
        world.writes.load(Ordering::Relaxed)
    );
    println!("memory of the controller  {:>8} MiB", controller.memory());
    let count = |counter: &AtomicUsize| counter.swap(0, Ordering::Relaxed);
    for counter in [&world.writes, &world.reads, &world.measurements] {
        count(counter);
    }
    let cpu = controller.cpu();
    tokio::time::sleep(Duration::from_secs(u64::try_from(seconds).unwrap_or(60))).await;
    let (measured, time) = (count(&world.measurements), seconds as f64);
    println!("in {seconds} seconds without changes:");
    println!(
        "measurements              {measured:>8} ({:.1} per second)",
        measured as f64 / time
    );
    println!("writes to the hub         {:>8}", count(&world.writes));
    println!("reads from the hub        {:>8}", count(&world.reads));
    println!(
        "CPU                       {:>8.2} % of a core",
        (controller.cpu() - cpu) / time * 100.0
    );
    println!("memory of the controller  {:>8} MiB", controller.memory());
}
