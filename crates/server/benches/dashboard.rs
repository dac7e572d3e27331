//! The dashboard with 1,000 pipelines and 10,000 targets, in Chromium: bytes of the first load, first
//! paint, how long a change takes to the screen, and the server's memory with 100 open pages; then the page
//! of a rollout through 1,000 targets.
//!
//! The server is a process of its own, so that its memory is nobody else's; the API is in this one.
//! `SLUICE_BENCH_PIPELINES` and `SLUICE_BENCH_PAGES` set how many there are.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing benchmark is a panic"
)]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "dashboard/fleet.rs"]
mod fleet;

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use api::Pipeline;
use apiserver::{ServeOptions, Server, User};
use futures::StreamExt;
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use server::{Metrics, Settings};
use testbed::browser::Chromium;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::Runtime,
};
use tokio_util::sync::CancellationToken;

const TOKEN: &str = "token-of-the-benchmark";
const TARGETS: usize = 10;
const LOADS: usize = 5;
const CHANGES: usize = 20;

fn main() {
    testbed::tls::install_provider();
    let words: Vec<String> = std::env::args().collect();
    let runtime = Runtime::new().unwrap();
    match words.iter().position(|word| word == "--server") {
        Some(at) => runtime.block_on(run_server(Path::new(&words[at + 1]))),
        None => measure(&runtime),
    }
}

/// The other process: the server on the API that a kubeconfig names.
async fn run_server(kubeconfig: &Path) {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let client = Client::try_from(config.unwrap()).unwrap();
    let settings = Settings {
        rest_address: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        rate_limit: 0,
        ..Settings::default()
    };
    let stop = CancellationToken::new();
    let serving = server::start(client, settings, Metrics::default(), stop.clone()).await;
    println!("{}", serving.unwrap().rest.unwrap());
    stop.cancelled().await;
}

/// The server process, for as long as the value lives.
struct ServerProcess {
    child: Child,
    address: SocketAddr,
}

impl ServerProcess {
    fn start(kubeconfig: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("--server")
            .arg(kubeconfig)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let address = line.trim().parse().unwrap();
        Self { child, address }
    }

    /// Resident memory, in megabytes.
    fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
        kilobytes.parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn measure(runtime: &Runtime) {
    let count = number("SLUICE_BENCH_PIPELINES", 1000);
    let pages = number("SLUICE_BENCH_PAGES", 100);
    let folder = tempfile::tempdir().unwrap();
    let (client, served, _server) = runtime.block_on(prepare(folder.path(), count));
    println!("{count} pipelines, {} targets", count * TARGETS);
    let process = ServerProcess::start(served.kubeconfig());
    let Some(mut browser) = Chromium::start() else {
        panic!("the benchmark needs Chromium");
    };
    sign_in(&mut browser, &process, count);
    println!(
        "memory of the server: {:.0} MB with one page",
        process.memory()
    );
    first_load(&mut browser, &process);
    let pipelines: Api<Pipeline> = Api::namespaced(client, "shop");
    change_to_screen(&mut browser, runtime, &pipelines, "one page");
    let open = runtime.block_on(open_pages(&mut browser, &process, pages));
    println!(
        "memory of the server: {:.0} MB with {pages} open pages",
        process.memory()
    );
    change_to_screen(
        &mut browser,
        runtime,
        &pipelines,
        &format!("{pages} open pages"),
    );
    println!(
        "memory of the server: {:.0} MB after {CHANGES} changes to all of them",
        process.memory()
    );
    drop(open);
    one_pipeline(&mut browser, &process);
    fleet::measure(&mut browser, runtime, &pipelines, process.address);
    println!(
        "memory of the server: {:.0} MB after the rollout",
        process.memory()
    );
}

async fn prepare(folder: &Path, count: usize) -> (Client, apiserver::ServeHandle, Server) {
    let server = Server::in_memory();
    server.add_token(TOKEN, User::new("bench", &["system:masters"]));
    let client = server.client();
    let parameters = PostParams::default();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api::crds() {
        let created = definitions.create(&parameters, &definition).await;
        created.unwrap();
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in ["shop", "pipeline-system"] {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        let created = namespaces.create(&parameters, &namespace).await;
        created.unwrap();
    }
    let api: Api<Pipeline> = Api::namespaced(client.clone(), "shop");
    let all = (0..count).map(|number| create(api.clone(), number));
    let all = futures::stream::iter(all).buffer_unordered(16);
    assert_eq!(all.count().await, count);
    let served = server.serve(ServeOptions::new(folder)).await.unwrap();
    (client, served, server)
}

async fn create(api: Api<Pipeline>, number: usize) {
    let name = format!("service-{number:04}");
    let targets = |names: std::ops::Range<usize>| -> Vec<Value> {
        names
            .map(|target| json!({"namespace": format!("n{target}")}))
            .collect()
    };
    let strategy = json!({"pull-request": {
        "type": "github", "url": "https://forge.example/shop.git", "baseBranch": "main",
        "secretRef": {"name": "forge"},
    }});
    let pipeline = json!({
        "metadata": {"name": name},
        "spec": {
            "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": name},
            "environments": [
                {"name": "dev", "targets": targets(0..2)},
                {"name": "staging", "targets": targets(2..4)},
                {"name": "prod", "targets": targets(4..TARGETS)},
            ],
            "promotion": {"strategy": strategy},
        },
    });
    let pipeline = serde_json::from_value(pipeline).unwrap();
    api.create(&PostParams::default(), &pipeline).await.unwrap();
    set_status(&api, &name, &format!("6.{number}.0")).await;
}

/// What a controller says of a pipeline whose dev runs a revision.
async fn set_status(api: &Api<Pipeline>, name: &str, revision: &str) {
    let target = |number: usize, revision: &str| {
        json!({
            "clusterAppRef": {
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": name,
                "clusterRef": {"kind": "GitopsCluster", "name": format!("cluster-{number}")},
            },
            "namespace": format!("n{number}"), "ready": true, "revision": revision,
            "readySince": "2026-11-01T10:00:00Z", "source": "Watch",
            "apps": [{
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": name,
                "ready": true, "revision": revision,
                "images": [format!("registry.example/team/{name}:{revision}")],
            }],
        })
    };
    let of = |numbers: std::ops::Range<usize>, revision: &str| -> Vec<Value> {
        numbers.map(|number| target(number, revision)).collect()
    };
    let status = json!({"status": {"environments": {
        "dev": {"targets": of(0..2, revision)},
        "staging": {"targets": of(2..4, "5.0.0")},
        "prod": {"targets": of(4..TARGETS, "5.0.0")},
    }}});
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(status));
    api.patch_status(name, &parameters, &patch).await.unwrap();
}

fn sign_in(browser: &mut Chromium, process: &ServerProcess, count: usize) {
    browser.go(&format!("http://{}/pipelines", process.address));
    browser.fill("#token", TOKEN);
    browser.press("Sign in");
    browser.shows(&format!("{count} pipelines"));
}

/// Loads the list again and again, with an empty cache.
fn first_load(browser: &mut Chromium, process: &ServerProcess) {
    browser.call("Network.setCacheDisabled", json!({"cacheDisabled": true}));
    let entries = "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        .filter((it) => !it.name.includes('/live'))";
    let mut paints = Vec::new();
    for _ in 0..LOADS {
        browser.go(&format!("http://{}/pipelines", process.address));
        browser.until("performance.getEntriesByName('first-contentful-paint').length > 0");
        let paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
        paints.push(browser.evaluate(paint).as_f64().unwrap());
    }
    for (what, field) in [
        ("over the wire", "transferSize"),
        ("unpacked", "decodedBodySize"),
    ] {
        let sum = format!("{entries}.reduce((sum, it) => sum + it.{field}, 0)");
        println!(
            "first load: {} kB {what}",
            browser.evaluate(&sum).as_u64().unwrap() / 1000
        );
    }
    println!("first contentful paint: {}", spread(paints));
}

/// From the call that changes a status to the pixel tree of the browser.
fn change_to_screen(browser: &mut Chromium, runtime: &Runtime, api: &Api<Pipeline>, with: &str) {
    let mut took = Vec::new();
    for number in 0..CHANGES {
        let revision = format!("7.{}.{number}", with.len());
        let wanted = json!(revision);
        browser.evaluate(&format!(
            "window.shown = new Promise((done) => {{
               const rows = document.getElementById('rows');
               const look = () => rows.textContent.includes({wanted}) && requestAnimationFrame(() => done(Date.now()));
               new MutationObserver(look).observe(rows, {{childList: true, subtree: true}});
             }}); true"
        ));
        let began = jiff::Timestamp::now().as_millisecond();
        runtime.block_on(set_status(api, &format!("service-{number:04}"), &revision));
        let shown = browser.evaluate("window.shown").as_i64().unwrap();
        took.push((shown - began) as f64);
    }
    println!("change to screen with {with}: {}", spread(took));
}

/// Pages that somebody looks at: each is loaded and then followed, until it is dropped.
async fn open_pages(
    browser: &mut Chromium,
    process: &ServerProcess,
    count: usize,
) -> Vec<tokio::task::JoinHandle<()>> {
    let cookies = browser.call("Network.getCookies", json!({}));
    let cookies = cookies["cookies"].as_array().unwrap().iter();
    let cookies: Vec<String> = cookies
        .map(|it| {
            format!(
                "{}={}",
                it["name"].as_str().unwrap(),
                it["value"].as_str().unwrap()
            )
        })
        .collect();
    let cookies = cookies.join("; ");
    let mut open = Vec::new();
    for _ in 0..count {
        let mut page = ask(process.address, "/pipelines", &cookies).await;
        let mut whole = String::new();
        page.read_to_string(&mut whole).await.unwrap();
        let digest = whole.split("data-digest=\"").nth(1).unwrap();
        let digest = digest.split('"').next().unwrap();
        let live = format!("/live?page=%2Fpipelines&digest={digest}");
        let mut stream = ask(process.address, &live, &cookies).await;
        let mut first = [0; 1024];
        let read = stream.read(&mut first).await.unwrap();
        assert!(first[..read].starts_with(b"HTTP/1.1 200"));
        open.push(tokio::spawn(async move {
            let mut some = vec![0; 64 << 10];
            while stream.read(&mut some).await.is_ok_and(|read| read > 0) {}
        }));
    }
    open
}

async fn ask(address: SocketAddr, path: &str, cookies: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookies}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

fn one_pipeline(browser: &mut Chromium, process: &ServerProcess) {
    let mut paints = Vec::new();
    for _ in 0..LOADS {
        browser.go(&format!(
            "http://{}/pipelines/shop/service-0000",
            process.address
        ));
        browser.until("performance.getEntriesByName('first-contentful-paint').length > 0");
        let paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
        paints.push(browser.evaluate(paint).as_f64().unwrap());
    }
    println!("first contentful paint of one pipeline: {}", spread(paints));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

/// The middle and the worst of some milliseconds.
fn spread(mut all: Vec<f64>) -> String {
    all.sort_by(f64::total_cmp);
    let (middle, worst) = (all[all.len() / 2], all[all.len() - 1]);
    format!(
        "median {middle:.0} ms, worst {worst:.0} ms of {}",
        all.len()
    )
}
