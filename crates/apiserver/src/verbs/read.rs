//! The verbs get and list.

use std::time::Duration;

use axum::response::Response;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::{ObjectRequest, list_stream};
use crate::{
    Server,
    query::{Query, unsupported},
    representation::ResponseObject,
    schema::FieldError,
    selector::Selector,
    status::{ApiError, Result},
    store::{RevisionExpired, Snapshot, StoreRevision},
};

/// How long a read waits for a revision that is not reached yet, as in kube-apiserver.
const FRESHNESS_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) async fn get(request: &ObjectRequest<'_>) -> Result<Response> {
    let resource = request.resource();
    let requested = parse_revision(&request.query.resource_version).map_err(ApiError::internal)?;
    wait_for_revision(request.server, requested).await?;
    let key = resource.key(request.target.namespace.as_deref(), request.target.name());
    let stored = request.server.store().object(&key);
    let stored = stored.ok_or_else(|| ApiError::not_found(resource, request.target.name()))?;
    Ok(request.respond_with(&ResponseObject::Stored(stored)))
}

pub(super) async fn list(request: &ObjectRequest<'_>) -> Result<Response> {
    let selector = selector(request)?;
    let page = RequestedPage::parse(request).await?;
    let prefix = prefix(request);
    let Snapshot { revision, objects } = snapshot(request, &prefix, page.revision)?;
    let after = page.after.as_deref();
    let mut objects = objects;
    objects.retain(|(key, stored)| {
        after.is_none_or(|after| *key.path > *after)
            && selector.selects(request.resource(), key, stored)
    });
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let left = match limit {
        0 => 0,
        limit => objects.len().saturating_sub(limit),
    };
    objects.truncate(objects.len() - left);
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if let (true, Some((last, _))) = (left > 0, objects.last()) {
        metadata["continue"] = json!(RequestedPage::token(revision, &last.path));
        if selector.is_empty() {
            metadata["remainingItemCount"] = json!(left);
        }
    }
    Ok(list_stream::response(request, &metadata, objects))
}

fn snapshot(
    request: &ObjectRequest<'_>,
    prefix: &str,
    at: Option<StoreRevision>,
) -> Result<Snapshot> {
    let store = request.server.store();
    let lag = request.faults.list_lag;
    let storage = &request.resource().storage;
    if at.is_none() && lag > 0 {
        let earlier = store.revision().saturating_sub(lag).max(1);
        if let Ok(stale) = store.list(storage, prefix, Some(earlier)) {
            return Ok(stale);
        }
    }
    store.list(storage, prefix, at).map_err(|RevisionExpired { .. }| {
        ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.",
        )
    })
}

/// The prefix of the keys of the requested collection.
pub(super) fn prefix(request: &ObjectRequest<'_>) -> String {
    match &request.target.namespace {
        Some(namespace) => format!("{namespace}/"),
        None => String::new(),
    }
}

/// The selectors of a list, watch or deletecollection.
pub(super) fn selector(request: &ObjectRequest<'_>) -> Result<Selector> {
    let query = &request.query;
    Selector::parse(
        request.resource(),
        &query.label_selector,
        &query.field_selector,
    )
}

/// The requested page of a list.
struct RequestedPage {
    /// The revision to list; `None` is the newest.
    revision: Option<StoreRevision>,
    /// The last path of the previous page.
    after: Option<String>,
    limit: u64,
}

impl RequestedPage {
    async fn parse(request: &ObjectRequest<'_>) -> Result<Self> {
        let query = &request.query;
        let limit = query.limit;
        check_match(query)?;
        let requested = parse_revision(&query.resource_version)
            .map_err(|fault| ApiError::bad_request(format!("invalid resource version: {fault}")))?;
        if !query.continue_token.is_empty() {
            if requested > 0 {
                return Err(ApiError::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let (revision, after) = Self::read_token(&query.continue_token)?;
            return Ok(Self {
                revision: Some(revision),
                after: Some(after),
                limit,
            });
        }
        wait_for_revision(request.server, requested).await?;
        let is_exact = query.resource_version_match == "Exact";
        // A list that may be served from a cache is not cut into pages.
        let is_unpaged = query.resource_version == "0";
        Ok(Self {
            revision: Some(requested).filter(|_| is_exact),
            after: None,
            limit: if is_unpaged { 0 } else { limit },
        })
    }

    fn token(revision: StoreRevision, after: &str) -> String {
        URL_SAFE_NO_PAD.encode(json!({"rv": revision, "after": after}).to_string())
    }

    fn read_token(token: &str) -> Result<(StoreRevision, String)> {
        let refuse = || {
            ApiError::bad_request(
                "invalid continue token: continue key is not valid: not made by this server",
            )
        };
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| refuse())?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|_| refuse())?;
        match (token["rv"].as_u64(), token["after"].as_str()) {
            (Some(revision), Some(after)) => Ok((revision, after.to_owned())),
            _ => Err(refuse()),
        }
    }
}

fn check_match(query: &Query) -> Result<()> {
    const FIELD: &str = "resourceVersionMatch";
    let matching = query.resource_version_match.as_str();
    if query.send_initial_events.is_some() {
        let why = "sendInitialEvents is forbidden for list";
        return Err(forbidden_option("sendInitialEvents", why));
    }
    if matching.is_empty() {
        return Ok(());
    }
    if query.resource_version.is_empty() {
        let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        return Err(forbidden_option(FIELD, why));
    }
    if !query.continue_token.is_empty() {
        let why = "resourceVersionMatch is forbidden when continue is provided";
        return Err(forbidden_option(FIELD, why));
    }
    if !matches!(matching, "Exact" | "NotOlderThan") {
        let known = ["Exact", "NotOlderThan", ""];
        return Err(unsupported("ListOptions", FIELD, &json!(matching), &known));
    }
    if matching == "Exact" && query.resource_version == "0" {
        let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
        return Err(forbidden_option(FIELD, why));
    }
    Ok(())
}

/// The error of query parameters of a list or watch that exclude each other.
pub(super) fn forbidden_option(field: &str, why: &str) -> ApiError {
    let error = FieldError {
        reason: "FieldValueForbidden",
        field: field.to_owned(),
        message: format!("Forbidden: {why}"),
    };
    ApiError::invalid_options("ListOptions", error)
}

/// Reads a `resourceVersion` parameter; empty counts as 0.
pub(super) fn parse_revision(text: &str) -> Result<StoreRevision, String> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        )
    })
}

/// Waits for a revision that the client has seen on another server.
pub(super) async fn wait_for_revision(server: &Server, requested: StoreRevision) -> Result<()> {
    let mut revision_watch = server.store().revision_watch();
    let waited = tokio::time::timeout(FRESHNESS_TIMEOUT, revision_watch.reached(requested));
    if waited.await.is_ok_and(|reached| reached.is_ok()) {
        return Ok(());
    }
    Err(ApiError::revision_too_large(
        requested,
        server.store().revision(),
    ))
}
