//! A real browser, told what to do over two pipes with the DevTools protocol.

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, MutexGuard, mpsc},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// How long anything may take on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// One browser at a time is enough for two cores.
static TURN: Mutex<()> = Mutex::new(());

/// A browser with one page. Ends with its test.
pub(crate) struct Chromium {
    child: Child,
    commands: ChildStdin,
    answers: mpsc::Receiver<Value>,
    session: String,
    next: u64,
    /// What the page complained about.
    pub(crate) complaints: Vec<String>,
    _profile: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Chromium {
    /// Nothing, said loudly, where no browser is installed.
    pub(crate) fn start() -> Option<Self> {
        let program = ["chromium", "chromium-browser", "google-chrome"].into_iter();
        let Some(program) = program.into_iter().find(|name| is_installed(name)) else {
            eprintln!(
                "\nSKIPPED: no Chromium is installed, so the dashboard was NOT tested in a browser\n"
            );
            return None;
        };
        let turn = TURN
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let profile = tempfile::tempdir().unwrap();
        // The protocol is spoken on descriptors 3 and 4, which only a shell can arrange safely.
        let script = format!(
            "exec {program} --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
             --disable-background-networking --disable-component-update --disable-sync \
             --disable-dev-shm-usage --remote-debugging-pipe --user-data-dir='{}' about:blank \
             3<&0 4>&1 </dev/null >/dev/null 2>&1",
            profile.path().display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = listen(child.stdout.take().unwrap());
        let mut browser = Self {
            child,
            commands,
            answers,
            session: String::new(),
            next: 0,
            complaints: Vec::new(),
            _profile: profile,
            _turn: turn,
        };
        browser.open_page();
        Some(browser)
    }

    fn open_page(&mut self) {
        let target = self.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", target);
        self.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        self.resize(1280, 860);
    }

    /// One command and its answer.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        let answer = self.ask(method, parameters);
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// One command and its answer, or what is wrong.
    fn ask(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        self.next += 1;
        let mut command = json!({"id": self.next, "method": method, "params": parameters});
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).unwrap();
        loop {
            let answer = self.answers.recv_timeout(PATIENCE);
            let answer = answer.unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == self.next {
                return match &answer["error"] {
                    Value::Null => Ok(answer["result"].clone()),
                    error => Err(error.clone()),
                };
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let text = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => event["params"]["exceptionDetails"].to_string(),
            Some("Log.entryAdded") if event["params"]["entry"]["level"] == "error" => {
                event["params"]["entry"]["text"].to_string()
            }
            Some("Page.javascriptDialogOpening") => format!("DIALOG {}", event["params"]),
            _ => return,
        };
        self.complaints.push(text);
    }

    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    pub(crate) fn dark(&mut self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// What an expression is.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", parameters);
        let failure = &answer["exceptionDetails"];
        assert!(failure.is_null(), "{expression}: {failure}");
        answer["result"]["value"].clone()
    }

    pub(crate) fn go(&mut self, address: &str) {
        self.evaluate("window.isLeft = true");
        self.call("Page.navigate", json!({"url": address}));
        self.until("!window.isLeft && document.readyState === 'complete'");
    }

    /// Submits the form of a button, as a click does, and waits for the page after it.
    pub(crate) fn press(&mut self, label: &str) {
        self.evaluate("window.isLeft = true");
        let label = json!(label);
        self.until(&format!(
            "(() => {{ const all = [...document.querySelectorAll('button')];
               const found = all.find((it) => it.textContent === {label});
               if (found && window.isLeft) {{ found.closest('details')?.setAttribute('open', ''); found.click(); }}
               return Boolean(found) || !window.isLeft; }})()"
        ));
        self.until("!window.isLeft && document.readyState === 'complete'");
    }

    pub(crate) fn fill(&mut self, selector: &str, value: &str) {
        let (selector, value) = (json!(selector), json!(value));
        self.evaluate(&format!(
            "document.querySelector({selector}).value = {value}"
        ));
    }

    pub(crate) fn text(&mut self) -> String {
        let text = self.evaluate("document.body.innerText");
        text.as_str().unwrap().to_owned()
    }

    /// Waits for the page to show something.
    pub(crate) fn shows(&mut self, text: &str) {
        let needle = json!(text);
        self.until(&format!("document.body.innerText.includes({needle})"));
    }

    /// Waits for an expression to hold. Another page may come meanwhile.
    pub(crate) fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let parameters = json!({"expression": expression, "returnByValue": true});
            // A page that goes takes the question with it.
            let answer = self.ask("Runtime.evaluate", parameters);
            if answer.is_ok_and(|answer| answer["result"]["value"] == true) {
                return;
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        let text = self.text();
        panic!("{expression} never holds; the page says:\n{text}");
    }

    /// Keeps a picture of the whole page for people to look at.
    pub(crate) fn picture(&mut self, name: &str) {
        let whole = json!({"captureBeyondViewport": true});
        let shot = self.call("Page.captureScreenshot", whole);
        let bytes = STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("dashboard");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self
            .commands
            .write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(stdout: ChildStdout) -> mpsc::Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        loop {
            let mut bytes = Vec::new();
            match stdout.read_until(0, &mut bytes) {
                Ok(count) if count > 0 => {
                    bytes.pop();
                    let message = serde_json::from_slice(&bytes).unwrap_or_default();
                    if sender.send(message).is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
    });
    receiver
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
