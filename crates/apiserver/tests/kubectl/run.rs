//! Running kubectl.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testbed::real::{Assets, ControlPlane};

/// A server and a kubectl that talks to it.
pub(crate) struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    folder: tempfile::TempDir,
    namespace: String,
    /// Lives as long as the test.
    _server: RunningServer,
}

enum RunningServer {
    Embedded(tokio::task::JoinHandle<()>),
    Real(#[expect(dead_code, reason = "held until the end")] Box<ControlPlane>),
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        if let Self::Embedded(task) = self {
            task.abort();
        }
    }
}

/// What one run said.
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Kubectl {
    /// Starts a server with a namespace for the test.
    pub(crate) async fn start(namespace: &str) -> Self {
        let assets = Assets::from_env().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let is_real = std::env::var("SLUICE_TEST_API").is_ok_and(|api| api == "real");
        let (server, kubeconfig) = match is_real {
            true => {
                let plane = ControlPlane::start(&assets).await.unwrap();
                let text = plane.kubeconfig().to_owned();
                (RunningServer::Real(Box::new(plane)), text)
            }
            false => serve().await,
        };
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, kubeconfig).unwrap();
        let kubectl = Self {
            program: assets.program("kubectl"),
            kubeconfig: path,
            folder,
            namespace: namespace.to_owned(),
            _server: server,
        };
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        kubectl.apply(&[], &object).await;
        kubectl
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .args(["--namespace", &self.namespace])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs kubectl with an input and some environment.
    pub(crate) async fn with(
        &self,
        arguments: &[&str],
        input: &str,
        environment: &[(&str, &str)],
    ) -> CommandOutput {
        let mut command = self.command(arguments);
        command.envs(environment.iter().copied());
        let input = input.to_owned();
        let output = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().unwrap();
            child
                .stdin
                .take()
                .unwrap()
                .write_all(input.as_bytes())
                .unwrap();
            child.wait_with_output().unwrap()
        });
        let output = output.await.unwrap();
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs kubectl, which must succeed, and gives what it printed.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> impl Future<Output = String> {
        let location = std::panic::Location::caller();
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        async move {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let said = self.with(&arguments, "", &[]).await;
            assert_eq!(
                said.code, 0,
                "{location}: {arguments:?}: {}{}",
                said.out, said.err
            );
            said.out
        }
    }

    /// Applies an object and gives what kubectl printed.
    pub(crate) async fn apply(&self, flags: &[&str], object: &Value) -> String {
        let said = self.try_apply(flags, object).await;
        assert_eq!(said.code, 0, "{}{}", said.out, said.err);
        said.out
    }

    /// Tries to apply an object.
    pub(crate) async fn try_apply(&self, flags: &[&str], object: &Value) -> CommandOutput {
        let arguments = [&["apply", "-f", "-"], flags].concat();
        self.with(&arguments, &object.to_string(), &[]).await
    }

    /// The object as the server has it.
    pub(crate) async fn object(&self, name: &str) -> Value {
        let text = self
            .run(&["get", name, "-o", "json", "--show-managed-fields"])
            .await;
        serde_json::from_str(&text).unwrap()
    }

    /// Starts a run that goes on, such as a watch.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> RunningCommand {
        let mut child = self.command(arguments).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        RunningCommand {
            child,
            lines: Arc::new(Mutex::new(lines)),
        }
    }
}

/// A kubectl that goes on until this is dropped.
pub(crate) struct RunningCommand {
    child: Child,
    lines: Arc<Mutex<Lines<BufReader<ChildStdout>>>>,
}

impl RunningCommand {
    /// The next line that it prints.
    pub(crate) async fn line(&self) -> String {
        let lines = Arc::clone(&self.lines);
        let next = tokio::task::spawn_blocking(move || lines.lock().unwrap().next());
        next.await.unwrap().unwrap().unwrap()
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An embedded server on a free port.
async fn serve() -> (RunningServer, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = apiserver::Server::in_memory().router(apiserver::User::in_process());
    let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let kubeconfig = kubeconfig(&format!("http://{address}"));
    (RunningServer::Embedded(task), kubeconfig.to_string())
}

fn kubeconfig(server: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": {"token": "unused"}}],
    })
}

/// A kind with printer columns, a status and lists of every sort.
pub(crate) fn definition() -> Value {
    let schema = json!({"type": "object", "description": "A thing to try things with.", "properties": {
        "spec": {"type": "object", "properties": {
            "color": {"type": "string", "description": "How it looks."},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "count": {"type": "integer"},
                }}},
        }},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let columns = json!([
        {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "Parts", "type": "string", "jsonPath": ".spec.parts[*].name", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.kubectl.example.com"},
        "spec": {
            "group": "kubectl.example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList", "shortNames": ["tg"]},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}}, "additionalPrinterColumns": columns}],
        },
    })
}

/// A Thing.
pub(crate) fn thing(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "kubectl.example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

impl Kubectl {
    /// Defines Things and waits until they are served and explained.
    pub(crate) async fn define(&self) {
        const DEFINITION: &str = "crd/things.kubectl.example.com";
        self.apply(&[], &definition()).await;
        self.run(&[
            "wait",
            "--for=condition=Established",
            DEFINITION,
            "--timeout=60s",
        ])
        .await;
        let give_up = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while self.with(&["explain", "things"], "", &[]).await.code != 0 {
            let is_waiting = std::time::Instant::now() < give_up;
            assert!(is_waiting, "the documents do not have the kind yet");
        }
    }
}

/// The words of each line: columns are padded as the longest name needs.
pub(crate) fn words(table: &str) -> Vec<Vec<&str>> {
    table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect()
}
