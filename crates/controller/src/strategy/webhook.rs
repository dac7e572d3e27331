//! The strategy webhook: sends a signed request, and its receiver makes the change.
//!
//! Delivery is at least once: after a crash again, with the same bytes and the same idempotency key, the
//! promotion's uid. The URL may hold a secret, so only its host is ever shown.

mod answer;

use std::{error::Error, sync::Arc};

use api::pipeline::Webhook as WebhookStrategy;
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
    PromotionTask,
    failure::{from_git, needs_edit, transient},
    promotion_description::PromotionDescription,
    secrets::SecretContents,
    side_effect_guard::SideEffectGuard,
};
use crate::Settings;

/// As Flux's generic-hmac provider signs: the name of the digest, `=`, hexadecimal digits.
const SIGNATURE: &str = "X-Signature";
/// The same for every delivery of one promotion.
const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
/// The entry of the Secret with the signing key.
const KEY_ENTRY: &str = "token";
/// The entries of the Secret that may hold a certificate authority.
const AUTHORITY_ENTRIES: [&str; 2] = ["caFile", "ca.crt"];

/// Carries out promotions by webhook.
pub(super) struct Webhooks {
    http: Http,
    guard: SideEffectGuard,
}

/// The body of the request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WebhookBody<'a> {
    /// The promotion's uid.
    id: &'a str,
    promotion: &'a str,
    namespace: &'a str,
    pipeline: &'a str,
    environment: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<BodyTarget<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    app: Option<BodyApp<'a>>,
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
struct BodyTarget<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a str>,
    namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BodyApp<'a> {
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
}

impl<'a> WebhookBody<'a> {
    fn of(description: &'a PromotionDescription<'a>) -> Self {
        let promotion = description.task.promotion;
        let spec = &promotion.spec;
        let target = description.site.target.as_ref();
        let app = description.task.pipeline.spec.app_ref.as_ref();
        let request = spec.request.as_ref();
        Self {
            id: description.uid,
            promotion: promotion.metadata.name.as_deref().unwrap_or_default(),
            namespace: description.namespace,
            pipeline: description.pipeline,
            environment: &spec.environment,
            target: target.map(|(cluster, namespace)| BodyTarget {
                cluster: cluster.as_deref(),
                namespace,
            }),
            app: app.map(|app| BodyApp {
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
    pub(super) fn new(settings: &Settings, guard: SideEffectGuard) -> Self {
        // The body holds no secret and is signed, so that plain HTTP is allowed inside a cluster.
        let mut http = Http::new(Reach {
            allow_internal: settings.allow_internal_urls,
            allow_insecure: true,
        });
        if let Some(proxy) = &settings.proxy {
            http = http.with_proxy(Proxy::clone(proxy));
        }
        Self { http, guard }
    }

    /// Sends the request, and reads from the response a URL for people.
    pub(super) async fn carry_out(
        &self,
        task: PromotionTask<'_>,
        to: &WebhookStrategy,
        secret: Option<Arc<SecretContents>>,
    ) -> Result<Outcome, Failure> {
        let url = parse(&to.url)?;
        let secret = secret.as_deref();
        let request = self.request(task, &url, secret)?;
        let send = async {
            let response = request.send().await;
            let response = response.map_err(|error| not_sent(&url, &error))?;
            answer::read(&url, response).await
        };
        let too_late = ("WebhookTimedOut", "the webhook did not answer in time");
        let url = self.guard.run(send, too_late).await?;
        Ok(Outcome::Delivered { url })
    }

    fn request(
        &self,
        task: PromotionTask<'_>,
        url: &Url,
        secret: Option<&SecretContents>,
    ) -> Result<reqwest::RequestBuilder, Failure> {
        let entry = |name: &str| secret.and_then(|secret| secret.entries.get(name));
        let authority = AUTHORITY_ENTRIES.iter().find_map(|name| entry(name));
        let client = self
            .http
            .client(
                url.host_str().unwrap_or_default(),
                authority.map(Vec::as_slice),
            )
            .map_err(|error| from_git(error.reason(), error.remedy(), &error))?;
        let description = PromotionDescription::of(task);
        let body = serde_json::to_vec(&WebhookBody::of(&description));
        let body = body.map_err(|error| needs_edit("InvalidPromotion", error.to_string()))?;
        let mut request = client
            .post(url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(IDEMPOTENCY_KEY, description.uid);
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
        needs_edit("InvalidUrl", text)
    };
    let url = address::parse(text).map_err(|_| invalid())?;
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
    let is_plain = url.username().is_empty() && url.password().is_none();
    match is_http && is_plain {
        true => Ok(url),
        false => Err(invalid()),
    }
}

fn signature(secret: &SecretContents, body: &[u8]) -> Result<HeaderValue, Failure> {
    let key = secret.entries.get(KEY_ENTRY).filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| {
        let text = format!("the webhook's Secret has no `{KEY_ENTRY}` to sign with; add one");
        needs_edit("InvalidCredentials", text)
    })?;
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), body);
    let digits: String = tag.as_ref().iter().map(|it| format!("{it:02x}")).collect();
    let value = HeaderValue::from_str(&format!("sha256={digits}"));
    Ok(value.expect("hexadecimal digits are plain text"))
}

/// Why there is no response. An address that the policy refuses waits for an edit.
fn not_sent(url: &Url, error: &reqwest::Error) -> Failure {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<address::Error>() {
            return from_git(error.reason(), error.remedy(), error);
        }
        cause = error.source();
    }
    let host = url.host_str().unwrap_or_default();
    let text = format!("the webhook at {host} cannot be reached");
    transient("WebhookUnreachable", text)
}

#[cfg(test)]
mod tests;
