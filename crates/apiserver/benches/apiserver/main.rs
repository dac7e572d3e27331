//! What the API does in a second, ours in memory and in a file and, if `KUBEBUILDER_ASSETS` names
//! it, a real one: the same client, the same objects, TLS on a loopback socket, one run.
//!
//! Each server is a process of its own, so that its memory can be told from the client's; both share
//! the machine's cores.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark prints its figures and ends at the first surprise"
)]

mod alone;
mod client;
mod cpu;
mod load;
mod target;

use std::{io::Write, sync::Arc, time::Instant};

use target::BenchServer;

/// How many objects there are, and how large the spec of each is.
const OBJECTS: usize = 10_000;
const SPEC_BYTES: usize = 1_500;

fn main() {
    if target::is_child() {
        return target::be_the_server();
    }
    testbed::tls::install_provider();
    println!("{OBJECTS} objects with {SPEC_BYTES} bytes of spec each; rates per second\n");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|it| !it.starts_with('-'))
        .collect();
    let is_wanted = |kind: &str| wanted.is_empty() || wanted.iter().any(|it| it == kind);
    if is_wanted("alone") {
        println!("one request at a time to a file, without sockets");
        alone::measure(row);
        println!();
    }
    for kind in ["memory", "file", "real"] {
        if is_wanted(kind) {
            runtime.block_on(measure(kind));
        }
    }
}

/// What a server is, for people.
fn caption(kind: &str) -> &'static str {
    match kind {
        "memory" => "the embedded API with a store in memory",
        "file" => "the embedded API with a store in a file",
        _ => "kube-apiserver with etcd",
    }
}

async fn measure(kind: &'static str) {
    let started = Instant::now();
    let Some(mut target) = BenchServer::start(kind).await else {
        println!("{kind}: not here (`cargo xtask kube` builds one)\n");
        return;
    };
    println!("{}", caption(kind));
    let ready = started.elapsed().as_secs_f64();
    row("start to ready", format!("{ready:.3} s"));
    row("memory, empty", target.memory());
    let connector = target.connector.clone();
    load::define(&connector).await;
    let bodies = (0..OBJECTS).map(|number| load::thing(number).to_string().into());
    let creates = load::creates(&connector, 16, Arc::new(bodies.collect()));
    rated(&target, "creates, 16 clients", creates).await;
    row("memory, all objects", target.memory());
    let (seconds, bytes) = load::list(&connector).await;
    let shown = format!("{seconds:.3} s, {} MB", bytes / 1_000_000);
    row("list of everything", shown);
    row("memory, after the list", target.memory());
    rated(&target, "gets, 16 clients", load::gets(&connector, 16)).await;
    if kind == "file" {
        let bound = format!("{:.0}  (what bounds a single client)", syncs());
        row("writes of 3 kB to the disk, synced", bound);
    }
    for clients in [1, 4, 16] {
        let what = format!("status merge patches, {clients} clients");
        rated(&target, &what, load::patches(&connector, clients)).await;
    }
    rated(
        &target,
        "applies, 16 clients",
        load::applies(&connector, 16),
    )
    .await;
    row("memory, after the patches", target.memory());
    for watchers in [1, 20, 100] {
        let (half, most) = load::latency(&connector, watchers).await;
        let shown = format!("p50 {half:.2} ms, p99 {most:.2} ms");
        row(&format!("patch to watch, {watchers} watchers"), shown);
    }
    if let ("file", Some(log)) = (kind, target.log()) {
        let storm = load::storm(&connector, || target.log() != Some(log)).await;
        let (count, most, longest) = storm;
        let outcome = match target.log() == Some(log) {
            true => "no rewrite",
            false => "the log rewritten once",
        };
        let shown = format!("{count}, {outcome}: p99 {most:.1} ms, the slowest {longest:.1} ms");
        row("patches during a rewrite", shown);
    }
    if let Some(seconds) = target.restart().await {
        row("start to ready with all objects", format!("{seconds:.3} s"));
        row("memory, after that", target.memory());
    }
    target.stop();
    println!();
}

/// Prints a rate, and what each request cost the server and this client.
async fn rated(target: &BenchServer, what: &str, work: impl Future<Output = usize>) {
    let spent = || (target.processor_time(), cpu::of(std::process::id()));
    let (started, (server, client)) = (Instant::now(), spent());
    let count = work.await as f64;
    let rate = count / started.elapsed().as_secs_f64();
    let (server_after, client_after) = spent();
    let [server, client] = [server_after - server, client_after - client]
        .map(|seconds| format!("{:.0} µs", seconds * 1_000_000.0 / count));
    row(
        what,
        format!("{rate:.0}  (processor time each: server {server}, client {client})"),
    );
}

fn row(what: &str, figure: String) {
    println!("  {what:<36} {figure}");
    let _ = std::io::stdout().flush();
}

/// How often in a second the disk takes something for good.
fn syncs() -> f64 {
    let mut file = tempfile::tempfile().unwrap();
    let rounds = 200;
    let started = Instant::now();
    for _ in 0..rounds {
        file.write_all(&[7; 3000]).unwrap();
        file.sync_data().unwrap();
    }
    f64::from(rounds) / started.elapsed().as_secs_f64()
}
