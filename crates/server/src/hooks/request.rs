//! Checks of every hook request before its body is parsed: rate limit, method, path, size, pipeline
//! and signature, in this order.
//!
//! Requests with a valid signature are limited by pipeline, all others by client address. A request
//! that carries a signature is counted once it is known whether the signature is valid.

use std::{net::IpAddr, sync::Arc, time::Duration};

use api::{Pipeline, pipeline::PipelineSpec};
use axum::{
    body::Body,
    extract::{FromRequest, Request},
    response::Response,
};
use bytes::Bytes;
use futures::StreamExt;
use http::{Method, StatusCode, request::Parts};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use planner::hook::SIGNATURE_AGE;
use runtime::ObjectKey;
use tokio::time::timeout;
use tracing::warn;

use super::{
    body_budget::BodyReservation,
    response::{empty, not_found_page, too_many_requests},
};
use crate::{
    AppState,
    client::{Peer, rate_limit_key},
    signature::{SIGNATURE, TIMESTAMP, digest},
    signing_keys::SigningKeyLookup,
};

/// The longest body that is read.
const MAX_BODY: usize = 1 << 20;
/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The path of a hook, and the signature that it requires.
pub(super) trait HookRoute: Sized + Send {
    /// Parses the segments after the name of the route; nothing if no object can have such a name.
    fn parse(segments: Vec<String>) -> Option<Self>;
    /// The pipeline in the path.
    fn pipeline(&self) -> ObjectKey;
    /// The signature that the pipeline requires on this route.
    fn signature_requirement<'a>(&self, spec: &'a PipelineSpec) -> SignatureRequirement<'a>;
}

/// The signature that a route requires.
pub(super) struct SignatureRequirement<'a> {
    /// The Secret with the key.
    pub(super) secret: Option<&'a str>,
    /// Whether requests without a signature are refused.
    pub(super) is_required: bool,
    /// What the signature covers.
    pub(super) content: SignedContent,
}

/// What a signature covers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SignedContent {
    /// The body.
    Body,
    /// Timestamp, method, path and body. If the settings allow it and there is no timestamp, nothing
    /// at all, like the approvals of the Weave pipeline-controller.
    WholeRequest,
}

/// A request that has passed all checks.
pub(super) struct HookRequest<R> {
    pub(super) route: R,
    pub(super) key: ObjectKey,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) body: Bytes,
    pub(super) signature: Option<VerifiedSignature>,
    _reservation: BodyReservation,
}

/// A valid signature.
pub(super) struct VerifiedSignature {
    /// The Secret with the key.
    pub(super) secret: String,
    /// When it was made, and the digest of what was signed; nothing if it covers no timestamp.
    pub(super) made: Option<(Timestamp, String)>,
}

impl<R: HookRoute> FromRequest<Arc<AppState>> for HookRequest<R> {
    type Rejection = Response;

    async fn from_request(request: Request, app_state: &Arc<AppState>) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let peer = parts.extensions.get::<Peer>().copied().unwrap_or_default();
        let address = rate_limit_key(peer, &parts.headers, &app_state.settings.trusted_proxies);
        let count_unauthenticated = || app_state.unauthenticated_hooks.count(address, 1);
        let limited = |limit| too_many_requests(limit, app_state.clock.now());
        let has_signature = parts.headers.contains_key(SIGNATURE);
        if !has_signature {
            count_unauthenticated().map_err(limited)?;
        }
        let check = RequestCheck {
            app_state,
            parts,
            address,
        };
        let checked = check.run::<R>(body).await;
        if let Ok(request) = &checked
            && request.signature.is_some()
        {
            let targets = target_count(&request.pipeline);
            let counted = app_state.signed_hooks.count(request.key.clone(), targets);
            counted.map_err(limited)?;
        } else if has_signature {
            count_unauthenticated().map_err(limited)?;
        }
        checked
    }
}

/// How many targets may send reports for a pipeline.
pub(super) fn target_count(pipeline: &Pipeline) -> usize {
    let status = pipeline.status.iter();
    let environments = status.flat_map(|status| status.environments.values());
    let observed = environments.map(|it| it.targets.len()).sum::<usize>();
    let declared = pipeline.spec.environments.iter();
    declared
        .map(|it| it.targets.len())
        .sum::<usize>()
        .max(observed)
}

/// The segments of a path after the first. Each is decoded by itself, so that a name may contain a slash.
pub(super) fn decoded_segments(path: &str) -> Option<Vec<String>> {
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    let decoded = segments.skip(1).map(|segment| {
        let text = percent_decode_str(segment).decode_utf8().ok()?;
        Some(text.into_owned())
    });
    decoded.collect()
}

struct RequestCheck<'a> {
    app_state: &'a AppState,
    parts: Parts,
    address: IpAddr,
}

impl RequestCheck<'_> {
    async fn run<R: HookRoute>(&self, body: Body) -> Result<HookRequest<R>, Response> {
        if self.parts.method != Method::POST {
            return Err(empty(StatusCode::METHOD_NOT_ALLOWED));
        }
        let route = self.segments().and_then(R::parse);
        let route = route.ok_or_else(not_found_page)?;
        let reservation = self.app_state.body_budget.reserve(self.address);
        let body = timeout(BODY_TIMEOUT, read_body(reservation, body)).await;
        let body = body.unwrap_or(Err(StatusCode::REQUEST_TIMEOUT));
        let (body, reservation) = body.map_err(empty)?;
        let key = route.pipeline();
        let pipeline = self.pipeline(&key).await?;
        let requirement = route.signature_requirement(&pipeline.spec);
        let signature = self.verify_signature(&key, &requirement, &body).await?;
        Ok(HookRequest {
            route,
            key,
            pipeline,
            body,
            signature,
            _reservation: reservation,
        })
    }

    fn segments(&self) -> Option<Vec<String>> {
        decoded_segments(self.parts.uri.path())
    }

    async fn pipeline(&self, key: &ObjectKey) -> Result<Arc<Pipeline>, Response> {
        if let Some(cached) = self.app_state.objects.cached_pipeline(key) {
            return Ok(cached);
        }
        // Unknown names cost a read of the API server each: a client that sends many is refused.
        let limiter = &self.app_state.unauthenticated_hooks;
        let exhausted = limiter.is_exhausted(&self.address);
        if self.parts.headers.contains_key(SIGNATURE) {
            let now = self.app_state.clock.now();
            exhausted.map_err(|limit| too_many_requests(limit, now))?;
        }
        match self.app_state.objects.newest_pipeline(key).await {
            Ok(Some(pipeline)) => Ok(pipeline),
            Ok(None) => Err(empty(StatusCode::NOT_FOUND)),
            Err(error) => {
                warn!(pipeline = %key, %error, "could not read the pipeline of a hook request");
                Err(empty(StatusCode::INTERNAL_SERVER_ERROR))
            }
        }
    }

    async fn verify_signature(
        &self,
        key: &ObjectKey,
        requirement: &SignatureRequirement<'_>,
        body: &[u8],
    ) -> Result<Option<VerifiedSignature>, Response> {
        let unauthorized = || empty(StatusCode::UNAUTHORIZED);
        let header = self.parts.headers.get(SIGNATURE);
        let (Some(secret), Some(signature)) = (requirement.secret, header) else {
            return match requirement.is_required {
                true => Err(unauthorized()),
                false => Ok(None),
            };
        };
        let secret_key = ObjectKey::new(&key.namespace, secret);
        let signing_key = match self.app_state.signing_keys.get(secret_key).await {
            SigningKeyLookup::Found(signing_key) => signing_key,
            SigningKeyLookup::Missing => return Err(unauthorized()),
            SigningKeyLookup::Unavailable => return Err(empty(StatusCode::INTERNAL_SERVER_ERROR)),
        };
        let signature = signature.to_str().unwrap_or_default();
        let preamble = self.signed_preamble(requirement.content);
        let (preamble, at) = preamble.ok_or_else(unauthorized)?;
        let covers_nothing = requirement.content == SignedContent::WholeRequest && at.is_none();
        let body = if covers_nothing { b"" } else { body };
        if !signing_key.has_signed(&[preamble.as_bytes(), body], signature) {
            return Err(unauthorized());
        }
        let secret = secret.to_owned();
        let made = at.map(|at| (at, digest(&[preamble.as_bytes(), body])));
        Ok(Some(VerifiedSignature { secret, made }))
    }

    /// What is signed before the body, and the timestamp; nothing if the request has no acceptable
    /// timestamp.
    fn signed_preamble(&self, content: SignedContent) -> Option<(String, Option<Timestamp>)> {
        if content == SignedContent::Body {
            return Some((String::new(), None));
        }
        let Some(header) = self.parts.headers.get(TIMESTAMP) else {
            let is_accepted = self.app_state.settings.legacy_approval_signatures;
            return is_accepted.then(|| (String::new(), None));
        };
        let seconds = header.to_str().ok()?;
        let at = Timestamp::from_second(seconds.parse().ok()?).ok()?;
        let now = self.app_state.clock.now();
        let age = now.as_second().abs_diff(at.as_second());
        let path = self.parts.uri.path();
        let method = &self.parts.method;
        let is_recent = age <= SIGNATURE_AGE.as_secs();
        is_recent.then(|| (format!("{seconds}\n{method}\n{path}\n"), Some(at)))
    }
}

/// Reads a body within the budget of all bodies.
async fn read_body(
    mut reservation: BodyReservation,
    body: Body,
) -> Result<(Bytes, BodyReservation), StatusCode> {
    let mut chunks = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| StatusCode::BAD_REQUEST)?;
        if bytes.len() + chunk.len() > MAX_BODY {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        if !reservation.grow(chunk.len()).await {
            return Err(StatusCode::TOO_MANY_REQUESTS);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes.into(), reservation))
}
