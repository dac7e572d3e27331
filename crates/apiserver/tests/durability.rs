//! A server in its own process that is killed in a storm of writes, and one whose disk is full.
//!
//! The child process is this test binary itself, told by its environment which part to play.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing case is a panic, as in any other test; the child reports on its output"
)]

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
};

use apiserver::{Options, Server};
use http::{Method, Request};
use serde_json::{Value, json};

const ROUNDS: usize = 20;
const WRITERS: usize = 8;
const OBJECTS: usize = 5;
/// Where the child finds its file.
const FILE: &str = "SLUICE_TEST_STORE";

async fn send(client: &kube::Client, method: Method, path: &str, body: Value) -> (u16, Value) {
    let content_type = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(kube::client::Body::from(body.to_string().into_bytes()))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await;
    let bytes = bytes.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str, step: usize) -> Value {
    let padding = "x".repeat(step % 700);
    json!({"metadata": {"name": name}, "data": {"step": step.to_string(), "padding": padding}})
}

/// Creates, changes and deletes its objects in turn, and says so after each answer.
async fn write_on(client: kube::Client, writer: usize, mut step: usize) {
    loop {
        let name = format!("w{writer}-{}", step % OBJECTS);
        let path = format!("{MAPS}/{name}");
        let is_removal = step % 7 == 6;
        let (code, object) = if is_removal {
            send(&client, Method::DELETE, &path, json!({})).await
        } else {
            let (code, object) = send(&client, Method::PATCH, &path, config_map(&name, step)).await;
            match code {
                404 => send(&client, Method::POST, MAPS, config_map(&name, step)).await,
                _ => (code, object),
            }
        };
        assert!(matches!(code, 200 | 201) || is_removal, "{code}: {object}");
        let revision = object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or("0");
        println!("{writer} {step} {revision}");
        step += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "only the child process of the storm below"]
async fn child_in_the_storm() {
    let server = Server::open(std::env::var(FILE).unwrap(), Options::default())
        .await
        .unwrap();
    let start: usize = std::env::var("SLUICE_TEST_STEP").unwrap().parse().unwrap();
    let writers = (0..WRITERS).map(|writer| write_on(server.client(), writer, start));
    futures::future::join_all(writers).await;
}

fn spawn(role: &str, file: &Path, step: usize, limit: Option<usize>) -> Child {
    let binary = std::env::current_exe().unwrap();
    let mut command = match limit {
        None => Command::new(&binary),
        Some(blocks) => {
            // A file that may not grow stands for a disk that is full.
            let mut shell = Command::new("sh");
            let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
            shell.arg("-c").arg(script).arg(&binary);
            shell
        }
    };
    command
        .args(["--exact", role, "--ignored", "--nocapture", "--quiet"])
        .env(FILE, file)
        .env("SLUICE_TEST_STEP", step.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The last step that each writer was told is done, and the highest revision anybody saw.
struct AcknowledgedWrites {
    steps: BTreeMap<usize, usize>,
    revision: u64,
}

/// Lets the child write for a while, kills it, and reads what it had been answered by then.
fn storm(file: &Path, start: usize, lines: usize) -> AcknowledgedWrites {
    let mut child = spawn("child_in_the_storm", file, start, None);
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut answered = AcknowledgedWrites {
        steps: BTreeMap::new(),
        revision: 0,
    };
    let mut read = 0;
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 {
        let is_whole = line.ends_with('\n');
        let numbers: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
        if let ([writer, step, revision], true) = (numbers.as_slice(), is_whole) {
            answered.steps.insert(*writer as usize, *step as usize);
            answered.revision = answered.revision.max(*revision);
            read += 1;
        }
        if read == lines {
            child.kill().unwrap(); // SIGKILL
        }
        line.clear();
    }
    child.wait().unwrap();
    assert!(
        read >= lines,
        "the child ended by itself after {read} lines"
    );
    answered
}

/// What one object must be after a step, going back to the last step that was about it.
fn expected(steps: std::ops::Range<usize>, object: usize) -> Option<Option<usize>> {
    let last = steps.rev().find(|step| step % OBJECTS == object)?;
    Some((last % 7 != 6).then_some(last))
}

async fn stored_step(client: &kube::Client, name: &str) -> Option<usize> {
    let (code, object) = send(client, Method::GET, &format!("{MAPS}/{name}"), json!({})).await;
    (code == 200).then(|| {
        let step: usize = object["data"]["step"].as_str().unwrap().parse().unwrap();
        let padding = object["data"]["padding"].as_str().unwrap();
        assert_eq!(padding.len(), step % 700, "half a write: {object}");
        step
    })
}

/// Opens the file, compares it with what was answered, and gives its revision.
async fn check(file: &Path, start: usize, answered: &AcknowledgedWrites) -> u64 {
    let server = Server::open(file, Options::default()).await.unwrap();
    let client = server.client();
    for (writer, done) in &answered.steps {
        for object in 0..OBJECTS {
            let name = format!("w{writer}-{object}");
            let found = stored_step(&client, &name).await;
            // One more step may have been on its way; before its first step anything may be.
            let allowed = [*done, done + 1].map(|last| expected(start..last + 1, object));
            let is_allowed = allowed.contains(&Some(found)) || allowed.contains(&None);
            assert!(is_allowed, "{name} is {found:?}, not {allowed:?}");
        }
    }
    let (_, list) = send(&client, Method::GET, MAPS, json!({})).await;
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    revision.parse().unwrap()
}

#[test]
fn what_was_answered_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store");
    let mut start = 0;
    let mut highest = 0;
    for round in 0..ROUNDS {
        let answered = storm(&file, start, 150 + 37 * round);
        // With its runtime the server is gone and the file free for the next round.
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let revision = runtime.block_on(check(&file, start, &answered));
        assert!(
            revision >= answered.revision && revision > highest,
            "round {round}"
        );
        highest = revision;
        start = answered.steps.values().max().unwrap() + 2;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "only the child process of the full disk below"]
async fn child_with_a_full_disk() {
    let server = Server::open(std::env::var(FILE).unwrap(), Options::default())
        .await
        .unwrap();
    let client = server.client();
    let mut stored = 0;
    let refused = loop {
        let name = format!("m{stored}");
        let (code, answer) = send(&client, Method::POST, MAPS, config_map(&name, 650)).await;
        match code {
            201 => stored += 1,
            _ => break (code, answer),
        }
    };
    assert_eq!(refused.0, 500, "{}", refused.1);
    assert_eq!(refused.1["reason"], "InternalError");
    let message = refused.1["message"].as_str().unwrap();
    assert!(
        message.contains("was not stored") && message.contains("too large"),
        "{message}"
    );
    let (code, list) = send(&client, Method::GET, MAPS, json!({})).await;
    assert_eq!(
        (code, list["items"].as_array().unwrap().len()),
        (200, stored)
    );
    // Something smaller still fits: the refused write left nothing behind.
    let (code, answer) = send(&client, Method::DELETE, &format!("{MAPS}/m0"), json!({})).await;
    assert_eq!(code, 200, "{answer}");
    println!("stored {stored}");
}

#[tokio::test]
async fn a_full_disk_is_said_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store");
    let mut child = spawn("child_with_a_full_disk", &file, 0, Some(64));
    let mut output = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .unwrap();
    assert!(child.wait().unwrap().success(), "{output}");
    let stored = output.lines().find_map(|line| line.split_once("stored "));
    let stored: usize = stored
        .unwrap_or_else(|| panic!("{output}"))
        .1
        .trim()
        .parse()
        .unwrap();
    let server = Server::open(&file, Options::default()).await.unwrap();
    let (_, list) = send(&server.client(), Method::GET, MAPS, json!({})).await;
    assert_eq!(list["items"].as_array().unwrap().len(), stored - 1);
}
