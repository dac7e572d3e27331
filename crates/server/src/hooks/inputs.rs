//! `GET /inputs/{namespace}/{pipeline}/{environment}?cluster=NAME`: what a cluster should run, for Flux
//! Operator's ResourceSetInputProvider of the type ExternalService.
//!
//! The operator keeps the inputs it has when the answer is an error, and deletes what it deployed when the
//! list is empty. So there is one input or an error. The answer is never older than the request.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use api::{Pipeline, names::INPUTS_TOKEN};
use axum::{
    Json,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, Method, StatusCode, header};
use percent_encoding::percent_decode_str;
use planner::{InputQuestion, InputsRefusal, PublishedInput, inputs_secret, published_input};
use runtime::ObjectKey;
use serde_json::json;

use super::{
    request::{decoded_segments, target_count},
    response::{empty, not_found_page, text, too_many_requests},
};
use crate::{
    AppState,
    client::{Peer, rate_limit_key},
    object_names::parse_key,
    signing_keys::SigningKeyLookup,
};

/// Who may ask for the inputs of a pipeline, and how many may.
pub(crate) struct InputsAccess {
    /// The Secret with the token of each environment that publishes inputs.
    secrets: BTreeMap<String, String>,
    target_count: usize,
}

impl InputsAccess {
    /// Nothing if the pipeline publishes no inputs.
    pub(crate) fn of(pipeline: &Pipeline) -> Option<Self> {
        let names = pipeline.spec.environments.iter().map(|it| &it.name);
        let with_secret = |name: &String| {
            let secret = inputs_secret(&pipeline.spec, name)?;
            Some((name.clone(), secret.to_owned()))
        };
        let secrets: BTreeMap<_, _> = names.filter_map(with_secret).collect();
        (!secrets.is_empty()).then(|| Self {
            secrets,
            target_count: target_count(pipeline),
        })
    }
}

/// Who asks, and for what.
struct InputsRequest {
    pipeline: ObjectKey,
    environment: String,
    cluster: Option<String>,
    namespace: Option<String>,
    token: Option<String>,
    address: IpAddr,
}

pub(super) async fn handle(State(app_state): State<Arc<AppState>>, request: Request) -> Response {
    if request.method() != Method::GET {
        return empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    let Some(request) = InputsRequest::parse(&app_state, &request) else {
        return not_found_page();
    };
    let answered = request.answer(&app_state).await;
    answered.map_or_else(|refusal| refusal, |input| as_json(&input))
}

/// The answer in Flux Operator's format. The digest is there even if it is not known: a template that names a
/// missing field fails.
fn as_json(input: &PublishedInput) -> Response {
    let input = json!({
        "id": input.id,
        "version": input.version,
        "revision": input.revision,
        "digest": input.digest,
    });
    let no_store = [(header::CACHE_CONTROL, "no-store")];
    (no_store, Json(json!({"inputs": [input]}))).into_response()
}

impl InputsRequest {
    /// Nothing if no object can have such a name.
    fn parse(app_state: &AppState, request: &Request) -> Option<Self> {
        let segments = decoded_segments(request.uri().path())?;
        let [namespace, name, environment] = &segments[..] else {
            return None;
        };
        let query = request.uri().query().unwrap_or_default();
        let peer = request.extensions().get::<Peer>().copied();
        let proxies = &app_state.settings.trusted_proxies;
        Some(Self {
            pipeline: parse_key(namespace, name)?,
            environment: environment.clone(),
            cluster: parameter(query, "cluster"),
            namespace: parameter(query, "namespace"),
            token: bearer_token(request.headers()),
            address: rate_limit_key(peer.unwrap_or_default(), request.headers(), proxies),
        })
    }

    async fn answer(&self, app_state: &AppState) -> Result<PublishedInput, Response> {
        let (secret, weight) = match self.authenticate(app_state).await {
            Ok(authenticated) => authenticated,
            Err(refusal) => {
                let counted = app_state.unauthenticated_hooks.count(self.address, 1);
                counted.map_err(|limit| too_many_requests(limit, app_state.clock.now()))?;
                return Err(refusal);
            }
        };
        let counted = app_state.input_polls.count(self.pipeline.clone(), weight);
        counted.map_err(|limit| too_many_requests(limit, app_state.clock.now()))?;
        let pipeline = self.newest(app_state).await?;
        // The cache that it was authenticated by may be behind.
        let stored = inputs_secret(&pipeline.spec, &self.environment);
        if stored.ok_or_else(not_found_page)? != secret {
            return Err(empty(StatusCode::UNAUTHORIZED));
        }
        let question = InputQuestion {
            environment: &self.environment,
            cluster: self.cluster.as_deref(),
            namespace: self.namespace.as_deref(),
        };
        published_input(&pipeline, question).map_err(|refusal| refused(&refusal))
    }

    /// The Secret that the token is in, and how many targets the pipeline has.
    async fn authenticate(&self, app_state: &AppState) -> Result<(String, usize), Response> {
        let access = match app_state.objects.inputs_access(&self.pipeline) {
            Some(access) => access,
            None => {
                // Unknown names cost a request to the API server each.
                let exhausted = app_state.unauthenticated_hooks.is_exhausted(&self.address);
                exhausted.map_err(|limit| too_many_requests(limit, app_state.clock.now()))?;
                let newest = self.newest(app_state).await?;
                Arc::new(InputsAccess::of(&newest).ok_or_else(not_found_page)?)
            }
        };
        let secret = access.secrets.get(&self.environment);
        let secret = secret.ok_or_else(not_found_page)?;
        let token = self.token.as_deref();
        let token = token.ok_or_else(|| empty(StatusCode::UNAUTHORIZED))?;
        let key = ObjectKey::new(&self.pipeline.namespace, secret);
        match app_state.inputs_tokens.get(key).await {
            SigningKeyLookup::Found(key) if key.is_token(token) => {
                Ok((secret.clone(), access.target_count))
            }
            SigningKeyLookup::Unavailable => {
                let because = format!("the Secret with the {INPUTS_TOKEN} cannot be read");
                Err(text(StatusCode::SERVICE_UNAVAILABLE, because))
            }
            _ => Err(empty(StatusCode::UNAUTHORIZED)),
        }
    }

    /// The pipeline as it is stored now.
    async fn newest(&self, app_state: &AppState) -> Result<Arc<Pipeline>, Response> {
        let fresh = &app_state.fresh_pipelines;
        let newest = fresh.get(&app_state.objects, &self.pipeline).await;
        let newest = newest.map_err(|_| {
            let because = "the API server does not say what is stored; ask again later";
            text(StatusCode::SERVICE_UNAVAILABLE, because)
        })?;
        newest.ok_or_else(not_found_page)
    }
}

fn refused(refusal: &InputsRefusal) -> Response {
    let code = match refusal {
        InputsRefusal::NotPublished { .. } => StatusCode::NOT_FOUND,
        InputsRefusal::TargetsDiffer { .. } => StatusCode::BAD_REQUEST,
        InputsRefusal::Unknown { .. } => StatusCode::SERVICE_UNAVAILABLE,
    };
    text(code, refusal.to_string())
}

/// A parameter of the query; nothing if it is empty.
fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    let value = percent_decode_str(value).decode_utf8().ok()?;
    Some(value.into_owned()).filter(|value| !value.is_empty())
}

fn bearer_token(headers: &HeaderMap) -> Option<String> {
    let header = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}
