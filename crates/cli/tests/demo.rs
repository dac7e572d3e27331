//! `sluice demo` as a user runs it.
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use api::{Change, Pipeline, Promotion, change::ChangeSpec};
use kube::{
    Api, Client, Config,
    api::{ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn sluice(arguments: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(arguments)
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// What both scripted runs say about the release that fails its check.
const FAULTY: [&str; 3] = [
    "push 6.3.0-faulty to dev",
    "check smoke failed",
    "6.3.0-faulty failed its check in staging, which runs 6.2.0 again",
];

#[test]
fn the_script_promotes_a_release_to_prod_and_rolls_back_a_faulty_one() {
    let (code, out, errors) = sluice(&["demo", "--script", "--port", "0"]);
    assert_eq!(code, Some(0), "{out}\n{errors}");
    for told in [
        "push 6.2.0 to dev",
        "AwaitingApproval",
        "you      approve 6.2.0 for prod",
        "ann      approve 6.2.0 for prod",
        "pulls/2",
        "6.2.0 runs in prod",
    ]
    .iter()
    .chain(&FAULTY)
    {
        assert!(out.contains(told), "{told} is missing in\n{out}");
    }
    let mut prod = out.lines().filter(|line| line.contains("prod"));
    assert!(!prod.any(|line| line.contains("● 6.3.0-faulty")), "{out}");
}

#[test]
fn without_git_the_script_promotes_and_rolls_back_by_tag() {
    let (code, out, errors) = sluice(&["demo", "--gitless", "--script", "--port", "0"]);
    assert_eq!(code, Some(0), "{out}\n{errors}");
    for told in [
        "Sluice promotes by moving the tags",
        "6.2.0@sha256:",
        "you      approve 6.2.0 for prod",
        "ann      approve 6.2.0 for prod",
        "6.2.0 runs in prod",
    ]
    .iter()
    .chain(&FAULTY)
    {
        assert!(out.contains(told), "{told} is missing in\n{out}");
    }
    assert!(!out.contains("pulls/"), "{out}");
}

#[test]
fn push_without_a_demo_fails_with_advice() {
    let (code, _, errors) = sluice(&["demo", "push", "6.3.0"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("no demo is running"), "{errors}");
    let (code, _, errors) = sluice(&["demo", "push", "latest: {"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("is not a version"), "{errors}");
}

#[test]
fn a_port_in_use_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, out, errors) = sluice(&["demo", "--port", &port]);
    assert_eq!(code, Some(1), "{out}\n{errors}");
    assert_eq!(out, "", "it says that it runs");
    let address = format!("cannot listen on 127.0.0.1:{port} for REST");
    assert!(errors.contains(&address), "{errors}");
    assert!(errors.contains("choose another with --port"), "{errors}");
}

/// A demo of a folder for temporary files, and the shell commands that select it.
fn start_demo(folder: &Path) -> (Running, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["demo", "--port", "0"])
        .env("TMPDIR", folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let running = Running(child);
    let mut port = String::new();
    for line in lines.by_ref().map(Result::unwrap) {
        if let Some((_, rest)) = line.split_once("http://127.0.0.1:") {
            port = rest.chars().take_while(char::is_ascii_digit).collect();
        }
        if line.contains("demo env") {
            break;
        }
    }
    std::thread::spawn(move || lines.count());
    (running, port)
}

#[test]
fn of_two_demos_that_of_the_shell_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let demo = |arguments: &[&str], kubeconfig: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_sluice"))
            .arg("demo")
            .args(arguments)
            .env("TMPDIR", folder.path())
            .env("KUBECONFIG", kubeconfig)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (first, port) = start_demo(folder.path());
    let (_second, other) = start_demo(folder.path());
    let (code, _, errors) = demo(&["push", "6.3.0"], "");
    assert_eq!(code, Some(2), "{errors}");
    for choice in [&port, &other] {
        assert!(errors.contains(&format!("--demo {choice} ")), "{errors}");
    }
    let (code, variables, errors) = demo(&["env", "--demo", &port], "");
    assert_eq!(code, Some(0), "{errors}");
    let told = format!("use the demo http://127.0.0.1:{port} (--demo {port})");
    assert!(errors.contains(&told), "{errors}");
    let kubeconfig = variables.split('\'').nth(1).unwrap();
    let (code, again, _) = demo(&["env"], kubeconfig);
    assert_eq!((code, again), (Some(0), variables.clone()));
    let (code, pushed, errors) = demo(&["push", "6.3.0"], kubeconfig);
    assert_eq!(code, Some(0), "{errors}");
    let told = format!("pushed 6.3.0 to dev of the demo http://127.0.0.1:{port} (--demo {port})\n");
    assert_eq!((pushed, errors.as_str()), (told, ""));
    let (_, pushed, errors) = demo(&["push", "6.3.1", "--demo", &other], kubeconfig);
    assert!(pushed.contains(&format!("--demo {other})")), "{pushed}");
    let change = format!("eval \"$(sluice demo env --demo {other})\"");
    assert!(errors.contains(&change), "{errors}");
    // Its folder is removed when the demo ends by itself.
    let folder_of_first = Path::new(kubeconfig).parent().and_then(Path::parent);
    drop(first);
    drop(std::fs::remove_dir_all(folder_of_first.unwrap()));
    let (code, _, errors) = demo(&["push", "6.3.0"], kubeconfig);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("has ended; start another"), "{errors}");
}

/// What a page without TLS answers.
fn page(url: &str) -> String {
    let (host, path) = url
        .strip_prefix("http://")
        .unwrap()
        .split_once('/')
        .unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Waits until the pull request of the first promotion shows its commit status and its comment.
async fn until_feedback_is_shown(client: Client) {
    let promotions: Api<Promotion> = Api::default_namespaced(client);
    let mut last = String::new();
    for _ in 0..600 {
        let listed = promotions.list(&ListParams::default()).await.unwrap();
        let mut statuses = listed.items.into_iter().filter_map(|it| it.status);
        if let Some(url) = statuses.find_map(|it| it.url) {
            last = page(&url);
            // While it is open, or after it was merged.
            let headings = [
                "<h2>Commit status</h2>",
                "<h2>Last commit status while it was open</h2>",
            ];
            let all = ["sluice/", "Sluice-Comment: default/podinfo/"];
            if headings.iter().any(|text| last.contains(text))
                && all.iter().all(|text| last.contains(text))
            {
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    unreachable!("no feedback is shown: {last}");
}

#[tokio::test]
async fn a_proposed_pipeline_is_merged_and_appears() {
    testbed::tls::install_provider();
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["demo", "--port", "0"])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let _running = Running(child);
    assert!(lines.any(|line| line.unwrap().contains("demo env")));
    // What it goes on to say must have somewhere to go.
    std::thread::spawn(move || lines.count());
    let told = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["demo", "env"])
        .env("TMPDIR", folder.path())
        .env("PATH", "/usr/bin:/bin")
        .output();
    let told = String::from_utf8(told.unwrap().stdout).unwrap();
    let (file, path) = told.trim().split_once('\n').expect("two variables");
    let folder_of_binary = Path::new(env!("CARGO_BIN_EXE_sluice")).parent().unwrap();
    let expected = format!("export PATH='{}':\"$PATH\"", folder_of_binary.display());
    assert_eq!(path, expected);
    let file = file.strip_prefix("export KUBECONFIG='");
    let file = file.and_then(|file| file.strip_suffix('\''));
    let kubeconfig = Kubeconfig::read_from(file.unwrap()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let client = Client::try_from(config.unwrap()).unwrap();
    let spec = ChangeSpec {
        path: "pipelines/default/shop.yaml".to_owned(),
        content: "apiVersion: pipelines.weave.works/v1alpha1\nkind: Pipeline\n\
                  metadata: {name: shop, namespace: default}\nspec: {environments: []}\n"
            .to_owned(),
        title: "Add shop".to_owned(),
        by: None,
    };
    let changes: Api<Change> = Api::default_namespaced(client.clone());
    let (parameters, change) = (PostParams::default(), Change::new("shop", spec));
    changes.create(&parameters, &change).await.unwrap();
    until_feedback_is_shown(client.clone()).await;
    let pipelines: Api<Pipeline> = Api::default_namespaced(client);
    for _ in 0..1200 {
        if pipelines.get_opt("shop").await.unwrap().is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let change = changes.get("shop").await.unwrap();
    unreachable!("it never appears: {:?}", change.status);
}
