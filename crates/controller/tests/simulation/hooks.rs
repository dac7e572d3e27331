//! Programs that report by signed webhooks: the ticket system whose check prod waits for, and Flux's
//! notifications, which may be late, repeated or wrong.

use api::promotion::Phase;
use http::{Request, StatusCode};
use ring::hmac;
use serde_json::{Value, json};

use crate::{
    layout::TICKET,
    world::{HOOK_KEY, START, TICKET_KEY, World},
};

/// A report with its signature: whoever has it can send it again, byte by byte.
#[derive(Clone)]
pub(crate) struct SignedReport {
    path: String,
    body: String,
    at: Option<i64>,
    signature: String,
}

impl SignedReport {
    /// Signs the body, and with a time the whole request.
    fn new(path: String, body: &Value, key: &str, at: Option<i64>) -> Self {
        let body = body.to_string();
        let signed = match at {
            Some(at) => format!("{at}\nPOST\n{path}\n{body}"),
            None => body.clone(),
        };
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
        let signature = hmac::sign(&key, signed.as_bytes());
        let hex: Vec<String> = signature
            .as_ref()
            .iter()
            .map(|it| format!("{it:02x}"))
            .collect();
        Self {
            path,
            body,
            at,
            signature: format!("sha256={}", hex.concat()),
        }
    }

    fn request(&self) -> Request<axum::body::Body> {
        let mut request = Request::post(self.path.as_str()).header("x-signature", &self.signature);
        if let Some(at) = self.at {
            request = request.header("x-signature-timestamp", at.to_string());
        }
        request.body(self.body.clone().into()).unwrap()
    }
}

impl World {
    /// The time without anybody's mistakes.
    fn true_time(&self) -> i64 {
        START + i64::try_from(self.story.elapsed().as_secs()).unwrap()
    }

    async fn send(&self, who: &str, report: &SignedReport) -> Option<StatusCode> {
        let running: Vec<_> = self
            .replicas
            .iter()
            .filter(|it| it.link().is_some())
            .collect();
        if running.is_empty() {
            return None;
        }
        let status = self.dice.pick(&running).hook(report.request()).await;
        let shown = status.map_or("no answer".to_owned(), |it| it.as_u16().to_string());
        let (path, body) = (&report.path, &report.body);
        self.story.tell(who, format!("POST {path} {body}: {shown}"));
        status
    }

    /// The ticket system reports its check for whatever waits for it.
    pub(crate) async fn report_tickets(&self) {
        if !self.layout.has_ticket {
            return;
        }
        for promotion in self.promotions().await {
            let phase = promotion.status.as_ref().and_then(|status| status.phase);
            let is_open = phase.is_none_or(|phase| phase < Phase::Deploying);
            let (environment, version) = (&promotion.spec.environment, &promotion.spec.version);
            if is_open && self.layout.needs_ticket(environment) {
                self.report_ticket(environment, version).await;
            }
        }
    }

    async fn report_ticket(&self, environment: &str, version: &str) {
        let is_denied = self.watchdog.truth.lock().denied.contains(version);
        if !is_denied {
            let mut truth = self.watchdog.truth.lock();
            truth.ticketed.insert(version.to_owned());
        }
        let path = format!("/check/default/app/{environment}/{TICKET}");
        let body = json!({"revision": version, "passed": !is_denied});
        let report = SignedReport::new(path, &body, TICKET_KEY, Some(self.true_time()));
        self.send("tickets", &report).await;
        self.sent.lock().push(report);
    }

    /// A notification of Flux that may say what is not true. It is stored if the answer says so.
    pub(crate) async fn notify(&self, releases: u64) {
        let environment = *self.dice.pick(&["dev", "staging"]);
        let version = format!("1.{}.0", self.dice.below(releases + 2));
        let at = jiff::Timestamp::from_second(self.true_time()).unwrap();
        let body = json!({
            "involvedObject": {
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
                "namespace": environment, "name": "app",
            },
            "severity": "info", "reason": "UpgradeSucceeded", "message": "ready",
            "timestamp": at.to_string(), "metadata": {"revision": version},
        });
        let path = format!("/promotion/default/app/{environment}");
        let report = SignedReport::new(path, &body, HOOK_KEY, None);
        let status = self.send("notifier", &report).await;
        if status.is_some_and(|status| status.is_success()) {
            let stored = self.pipeline().await.status.unwrap_or_default().reports;
            if !stored.values().any(|it| it.revision == version) {
                self.story
                    .violation("a report was answered with success and is not stored");
            }
        }
        self.sent.lock().push(report);
    }

    /// Somebody sends again what was sent before.
    pub(crate) async fn resend(&self) {
        let sent = self.sent.lock().clone();
        if !sent.is_empty() {
            self.send("replayer", self.dice.pick(&sent)).await;
        }
    }
}
