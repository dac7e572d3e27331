//! The strategy webhook: a signed call, and whoever answers makes the change.
//!
//! It is made at least once: again after a crash, in the same bytes and under the same key, which is
//! the promotion's uid. The URL may hold a secret, so no word of it but the host is ever shown.

mod answer;

use std::{error::Error, sync::Arc};

use api::pipeline::Webhook as To;
use git::{
    Proxy,
    address::{self, Reach},
    forge::Http,
};
use planner::{Failure, Outcome};
use reqwest::{
    Url,
    header::{CONTENT_TYPE, HeaderValue},
};
use ring::hmac;
use serde::Serialize;

use super::{
    Task,
    failure::{failure, passing, stuck},
    permit::Permits,
    secrets::Contents,
    subject::Subject,
};
use crate::Settings;

/// As Flux's generic-hmac provider signs: the digest's name, `=`, hexadecimal digits.
const SIGNATURE: &str = "X-Signature";
/// The same for every delivery of one promotion.
const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
/// The entry of the Secret that signs.
const KEY_ENTRY: &str = "token";
/// The entries of the Secret that may hold a certificate authority.
const AUTHORITY_ENTRIES: [&str; 2] = ["caFile", "ca.crt"];

pub(super) struct Webhooks {
    http: Http,
    permits: Permits,
}

/// What is sent.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    /// The promotion's uid.
    id: &'a str,
    promotion: &'a str,
    namespace: &'a str,
    pipeline: &'a str,
    environment: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Target<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    app: Option<App<'a>>,
    revision: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approved_by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_by: Option<&'a str>,
}

#[derive(Serialize)]
struct Target<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a str>,
    namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct App<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
}

impl<'a> Message<'a> {
    fn of(subject: &'a Subject<'a>) -> Self {
        let promotion = subject.task.promotion;
        let spec = &promotion.spec;
        let target = subject.place.target.as_ref();
        let app = subject.task.pipeline.spec.app_ref.as_ref();
        let request = spec.request.as_ref();
        Self {
            id: subject.uid,
            promotion: promotion.metadata.name.as_deref().unwrap_or_default(),
            namespace: subject.namespace,
            pipeline: subject.pipeline,
            environment: &spec.environment,
            target: target.map(|(cluster, namespace)| Target {
                cluster: cluster.as_deref(),
                namespace,
            }),
            app: app.map(|app| App {
                api_version: &app.api_version,
                kind: &app.kind,
                name: &app.name,
            }),
            revision: &spec.revision,
            version: &spec.version,
            replaces: spec.replaces.as_deref(),
            approved_by: spec.approval.as_ref().map(|approval| approval.by.as_str()),
            requested_by: request.and_then(|request| request.by.as_deref()),
        }
    }
}

impl Webhooks {
    pub(super) fn new(settings: &Settings, permits: Permits) -> Self {
        // What is sent holds no secret and is signed: inside a cluster it may go without TLS.
        let mut http = Http::new(Reach {
            allow_internal: settings.allow_internal_urls,
            allow_insecure: true,
        });
        if let Some(proxy) = &settings.proxy {
            http = http.with_proxy(Proxy::clone(proxy));
        }
        Self { http, permits }
    }

    /// Calls, and reads from the answer where people can look.
    pub(super) async fn carry_out(
        &self,
        task: Task<'_>,
        to: &To,
        secret: Option<Arc<Contents>>,
    ) -> Result<Outcome, Failure> {
        let url = parse(&to.url)?;
        let secret = secret.as_deref();
        let request = self.request(task, &url, secret)?;
        let call = async {
            let response = request.send().await;
            let response = response.map_err(|error| not_sent(&url, &error))?;
            answer::read(&url, response).await
        };
        let late = ("WebhookTimedOut", "the webhook did not answer in time");
        let url = self.permits.act(call, late).await?;
        Ok(Outcome::Delivered { url })
    }

    fn request(
        &self,
        task: Task<'_>,
        url: &Url,
        secret: Option<&Contents>,
    ) -> Result<reqwest::RequestBuilder, Failure> {
        let entry = |name: &str| secret.and_then(|secret| secret.entries.get(name));
        let authority = AUTHORITY_ENTRIES.iter().find_map(|name| entry(name));
        let client = self
            .http
            .client(
                url.host_str().unwrap_or_default(),
                authority.map(Vec::as_slice),
            )
            .map_err(|error| failure(error.reason(), error.remedy(), &error))?;
        let subject = Subject::of(task);
        let body = serde_json::to_vec(&Message::of(&subject));
        let body = body.map_err(|error| stuck("InvalidPromotion", error.to_string()))?;
        let mut request = client
            .post(url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(IDEMPOTENCY_KEY, subject.uid);
        if let Some(secret) = secret {
            request = request.header(SIGNATURE, signature(secret, &body)?);
        }
        Ok(request.body(body))
    }
}

fn parse(text: &str) -> Result<Url, Failure> {
    let invalid = || {
        let text = "the webhook's URL is not usable; write it as https://host/path, and credentials \
                    into the Secret";
        stuck("InvalidUrl", text)
    };
    let url = address::parse(text).map_err(|_| invalid())?;
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
    let is_plain = url.username().is_empty() && url.password().is_none();
    match is_http && is_plain {
        true => Ok(url),
        false => Err(invalid()),
    }
}

fn signature(secret: &Contents, body: &[u8]) -> Result<HeaderValue, Failure> {
    let key = secret.entries.get(KEY_ENTRY).filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| {
        let text = format!("the webhook's Secret has no `{KEY_ENTRY}` to sign with; add one");
        stuck("InvalidCredentials", text)
    })?;
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), body);
    let digits: String = tag.as_ref().iter().map(|it| format!("{it:02x}")).collect();
    let value = HeaderValue::from_str(&format!("sha256={digits}"));
    Ok(value.expect("hexadecimal digits are plain text"))
}

/// Why there was no answer. An address we do not go to waits for an edit.
fn not_sent(url: &Url, error: &reqwest::Error) -> Failure {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<address::Error>() {
            return failure(error.reason(), error.remedy(), error);
        }
        cause = error.source();
    }
    let host = url.host_str().unwrap_or_default();
    let text = format!("the webhook at {host} cannot be reached");
    passing("WebhookUnreachable", text)
}

#[cfg(test)]
mod tests;
