//! Controls a real Chromium over two pipes with the DevTools protocol, for tests of the dashboard.
//!
//! Failures panic, as in a test.
#![expect(
    clippy::panic,
    reason = "used only by tests, in which a failure is a panic"
)]

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, MutexGuard, mpsc},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// Time limit of each operation, for a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(40);

/// Only one browser runs at a time.
static ONE_BROWSER: Mutex<()> = Mutex::new(());

/// JavaScript that lists the accessibility faults of the current page.
pub const ACCESSIBILITY_CHECK: &str = include_str!("browser/accessibility.js");

/// A browser with one page, closed on drop.
pub struct Chromium {
    child: Child,
    commands: ChildStdin,
    answers: mpsc::Receiver<Value>,
    session: String,
    next: u64,
    /// Errors and dialogs of the page.
    pub complaints: Vec<String>,
    _profile: tempfile::TempDir,
    _guard: MutexGuard<'static, ()>,
}

impl Chromium {
    /// Starts a browser. Prints a message and returns `None` if none is installed.
    pub fn start() -> Option<Self> {
        let program = ["chromium", "chromium-browser", "google-chrome"].into_iter();
        let Some(program) = program.into_iter().find(|name| is_installed(name)) else {
            eprintln!(
                "\nSKIPPED: Chromium is not installed, so the dashboard was not tested in a browser\n"
            );
            return None;
        };
        let guard = ONE_BROWSER
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let profile = tempfile::tempdir().expect("a temporary folder can be created");
        // The protocol uses descriptors 3 and 4, which a shell can set up without unsafe code.
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
            .expect("a shell can be started");
        let commands = child.stdin.take().expect("stdin is piped");
        let answers = listen(child.stdout.take().expect("stdout is piped"));
        let mut browser = Self {
            child,
            commands,
            answers,
            session: String::new(),
            next: 0,
            complaints: Vec::new(),
            _profile: profile,
            _guard: guard,
        };
        browser.open_page();
        Some(browser)
    }

    fn open_page(&mut self) {
        let target = self.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", target);
        self.session = attached["sessionId"]
            .as_str()
            .expect("the browser names the session")
            .to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        self.resize(1280, 860);
    }

    /// Sends a command and returns its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        let answer = self.send(method, parameters);
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Sends a command and returns its result or error.
    fn send(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        self.next += 1;
        let mut command = json!({"id": self.next, "method": method, "params": parameters});
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands
            .write_all(&bytes)
            .expect("the browser is running");
        loop {
            let answer = self.answers.recv_timeout(TIMEOUT);
            let answer = answer.unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == self.next {
                return match &answer["error"] {
                    Value::Null => Ok(answer["result"].clone()),
                    error => Err(error.clone()),
                };
            }
            self.record_complaint(&answer);
        }
    }

    fn record_complaint(&mut self, event: &Value) {
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

    /// Sets the size of the page.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Selects the dark or light colour scheme.
    pub fn dark(&mut self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Evaluates an expression.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", parameters);
        let failure = &answer["exceptionDetails"];
        assert!(failure.is_null(), "{expression}: {failure}");
        answer["result"]["value"].clone()
    }

    /// Opens an address.
    pub fn go(&mut self, address: &str) {
        self.evaluate("window.isLeft = true");
        self.call("Page.navigate", json!({"url": address}));
        self.until("!window.isLeft && document.readyState === 'complete'");
    }

    /// Clicks the button with this label and waits for the next page.
    pub fn press(&mut self, label: &str) {
        let label = json!(label);
        self.follow(&format!(
            "[...document.querySelectorAll('button')].find((it) => it.textContent === {label})"
        ));
    }

    /// Clicks the element that an expression finds, as soon as it does, and waits for the next page.
    pub fn follow(&mut self, element: &str) {
        self.evaluate("window.isLeft = true");
        self.until(&format!(
            "(() => {{ const found = {element};
               if (found && window.isLeft) {{ found.closest('details')?.setAttribute('open', ''); found.click(); }}
               return Boolean(found) || !window.isLeft; }})()"
        ));
        self.until("!window.isLeft && document.readyState === 'complete'");
    }

    /// Sets the value of a field, and opens the menu that it is in: a closed one is replaced by live
    /// updates.
    pub fn fill(&mut self, selector: &str, value: &str) {
        let (selector, value) = (json!(selector), json!(value));
        self.evaluate(&format!(
            "(() => {{ const field = document.querySelector({selector});
               field.closest('details')?.setAttribute('open', '');
               field.value = {value}; }})()"
        ));
    }

    /// The visible text of the page.
    pub fn text(&mut self) -> String {
        let text = self.evaluate("document.body.innerText");
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page shows a text.
    pub fn shows(&mut self, text: &str) {
        let needle = json!(text);
        self.until(&format!("document.body.innerText.includes({needle})"));
    }

    /// Waits until an expression is true, also across page loads.
    pub fn until(&mut self, expression: &str) {
        if !self.becomes_true(expression) {
            let text = self.text();
            panic!("{expression} did not become true; the page shows:\n{text}");
        }
    }

    /// Waits until an expression is true, also across page loads; false if it does not become true.
    pub fn becomes_true(&mut self, expression: &str) -> bool {
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            let parameters = json!({"expression": expression, "returnByValue": true});
            // The result is lost if another page loads.
            let answer = self.send("Runtime.evaluate", parameters);
            if answer.is_ok_and(|answer| answer["result"]["value"] == true) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        false
    }

    /// Saves a screenshot of the whole page as `NAME.png` in the folder `SLUICE_SCREENSHOTS`; without it, in
    /// `tmp/dashboard` in the target folder.
    pub fn screenshot(&mut self, name: &str) {
        let whole = json!({"captureBeyondViewport": true});
        let shot = self.call("Page.captureScreenshot", whole);
        let bytes = STANDARD
            .decode(shot["data"].as_str().unwrap_or_default())
            .expect("a screenshot is base64");
        let folder = std::env::var_os("SLUICE_SCREENSHOTS").map(PathBuf::from);
        let folder = folder.unwrap_or_else(|| target_folder().join("tmp/dashboard"));
        std::fs::create_dir_all(&folder).expect("the folder of screenshots can be created");
        std::fs::write(folder.join(format!("{name}.png")), bytes)
            .expect("a screenshot can be written");
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

/// The target folder of cargo, which contains the running test as `PROFILE/deps/TEST`.
fn target_folder() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test is known");
    test.ancestors().nth(3).unwrap_or(&test).to_owned()
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
