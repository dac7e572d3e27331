//! The strategy webhook: sends a signed request, and its receiver makes the change.
//!
//! Delivery is at least once: after a crash again, with the same bytes and the same idempotency key, the
//! promotion's uid and the number of the batch, if it goes in waves. The URL may hold a secret, so only its host is ever shown.

mod answer;

use std::{error::Error, sync::Arc};

use api::pipeline::Webhook as WebhookStrategy;
use http::{HeaderName, HeaderValue, Method};
use net::{AddressPolicy, HttpClient, HttpError, HttpRequest, OutboundHttp, parse_url};
use planner::{Failure, Outcome};
use ring::hmac;
use serde::Serialize;
use url::Url;

use super::{
    PromotionTask,
    failure::{from_git, needs_edit, transient},
    promotion_description::PromotionDescription,
    rollout_part::{TargetBatch, split_key},
    secrets::SecretContents,
    side_effect_guard::SideEffectGuard,
};
use crate::Settings;

/// As Flux's generic-hmac provider signs: the name of the digest, `=`, hexadecimal digits.
const SIGNATURE: HeaderName = HeaderName::from_static("x-signature");
/// The same for every delivery of one promotion or batch.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Reason and message when there is no response in time.
const TOO_LATE: (&str, &str) = ("WebhookTimedOut", "the webhook did not answer in time");
/// The entry of the Secret with the signing key.
const KEY_ENTRY: &str = "token";
/// The entries of the Secret that may hold a certificate authority.
const AUTHORITY_ENTRIES: [&str; 2] = ["caFile", "ca.crt"];

/// Carries out promotions by webhook.
pub(super) struct Webhooks {
    http: OutboundHttp,
    guard: SideEffectGuard,
}

/// The body of the request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WebhookBody<'a> {
    /// The promotion's uid, and the number of the batch.
    id: &'a str,
    promotion: &'a str,
    namespace: &'a str,
    pipeline: &'a str,
    environment: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<BodyTarget<'a>>,
    /// The number of the batch, where the promotion goes in waves.
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<i64>,
    /// The targets of the batch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    targets: Vec<BodyTarget<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    app: Option<BodyApp<'a>>,
    revision: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approved_by: Option<String>,
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
            id: &description.uid,
            promotion: promotion.metadata.name.as_deref().unwrap_or_default(),
            namespace: description.namespace,
            pipeline: description.pipeline,
            environment: &spec.environment,
            target: target.map(|(cluster, namespace)| BodyTarget {
                cluster: cluster.as_deref(),
                namespace,
            }),
            batch: description.batch.map(TargetBatch::number),
            targets: batch_targets(description),
            app: app.map(|app| BodyApp {
                api_version: &app.api_version,
                kind: &app.kind,
                name: &app.name,
            }),
            revision: &spec.revision,
            version: &spec.version,
            replaces: spec.replaces.as_deref(),
            approved_by: spec.approved_by(),
            requested_by: request.and_then(|request| request.by.as_deref()),
        }
    }
}

/// The targets of the batch, in the order in which they are stored: each delivery has the same bytes.
fn batch_targets<'a>(description: &PromotionDescription<'a>) -> Vec<BodyTarget<'a>> {
    let targets = description.batch.into_iter().flat_map(TargetBatch::targets);
    let targets = targets.map(|target| {
        let (cluster, namespace) = split_key(&target.target);
        BodyTarget { cluster, namespace }
    });
    targets.collect()
}

impl Webhooks {
    pub(super) fn new(settings: &Settings, guard: SideEffectGuard) -> Self {
        // The body holds no secret and is signed, so that plain HTTP is allowed inside a cluster.
        let http = OutboundHttp::new(AddressPolicy {
            allow_internal: settings.allow_internal_urls,
            allow_insecure: true,
        });
        let http = settings.replacements.in_http(http);
        let http = http.with_timeout(guard.timeout());
        let http = http.with_proxy(settings.proxy.clone());
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
        let client = self.client(&url, secret)?;
        let request = request(task, &url, secret)?;
        let send = async {
            let response = client.send(request).await;
            let response = response.map_err(|error| not_sent(&url, &error))?;
            answer::read(&url, response).await
        };
        let url = self.guard.run(send, TOO_LATE).await?;
        Ok(Outcome::Delivered { url })
    }

    fn client(&self, url: &Url, secret: Option<&SecretContents>) -> Result<HttpClient, Failure> {
        let entry = |name: &&str| secret.and_then(|secret| secret.entries.get(*name));
        let authority = AUTHORITY_ENTRIES.iter().find_map(entry);
        let host = url.host_str().unwrap_or_default();
        let client = self.http.client(host, authority.map(Vec::as_slice));
        client.map_err(|error| from_git(error.reason(), error.remedy(), &error))
    }
}

fn request(
    task: PromotionTask<'_>,
    url: &Url,
    secret: Option<&SecretContents>,
) -> Result<HttpRequest, Failure> {
    let description = PromotionDescription::of(task);
    let invalid = |error: &dyn Error| needs_edit("InvalidPromotion", error.to_string());
    let key = HeaderValue::from_str(&description.uid).map_err(|error| invalid(&error))?;
    let mut request = HttpRequest::new(Method::POST, url.clone())
        .header(IDEMPOTENCY_KEY, key)
        .json(&WebhookBody::of(&description))
        .map_err(|error| invalid(&error))?;
    if let Some(secret) = secret {
        let signature = signature(secret, &request.body)?;
        request = request.header(SIGNATURE, signature);
    }
    Ok(request)
}

fn parse(text: &str) -> Result<Url, Failure> {
    let invalid = || {
        let text = "the webhook's URL is not usable; write it as https://host/path, and credentials \
                    into the Secret";
        needs_edit("InvalidUrl", text)
    };
    let url = parse_url(text).map_err(|_| invalid())?;
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
fn not_sent(url: &Url, error: &HttpError) -> Failure {
    if let Some(refused) = error.refused_address() {
        return from_git(refused.reason(), refused.remedy(), refused);
    }
    if matches!(error, HttpError::TimedOut { .. }) {
        return transient(TOO_LATE.0, TOO_LATE.1);
    }
    let host = url.host_str().unwrap_or_default();
    let text = format!("the webhook at {host} cannot be reached");
    transient("WebhookUnreachable", text)
}

#[cfg(test)]
mod tests;
