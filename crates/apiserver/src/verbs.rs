//! Requests, dispatched: each verb has its file, and all share what stands here.

mod create;
mod delete;
mod patch;
mod read;
mod update;
mod watch;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, Method, Request, StatusCode, header, request::Parts};
use serde_json::{Value, json};

pub(crate) use create::{create_default, create_first_namespaces};
pub(crate) use delete::{Deletion, delete_object};
pub(crate) use update::{Manner, change_object, target_of};

use crate::{
    Server, access, body,
    builtin::{self, NAMESPACES},
    discovery,
    faults::Verdict,
    metadata,
    query::Query,
    resource::Resource,
    reviews,
    route::{self, Route, Target},
    schema::FieldError,
    status::{ApiError, Result},
};

/// One request about objects, with everything it needs.
struct Call<'a> {
    server: &'a Server,
    target: Target,
    query: Query,
    parts: Parts,
    verdict: Verdict,
}

/// Answers any request.
pub(crate) async fn answer(server: Server, request: Request<Body>) -> Response {
    let verdict = server.0.fate.lock().judge(request.method());
    if let Some(refused) = verdict.refused {
        return refused.into_response();
    }
    let hidden = verdict.hidden.clone();
    let response = dispatch(&server, request, verdict)
        .await
        .unwrap_or_else(IntoResponse::into_response);
    match hidden {
        Some(error) => error.into_response(),
        None => response,
    }
}

async fn dispatch(server: &Server, request: Request<Body>, verdict: Verdict) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let user = access::admit(server, &parts)?;
    access::on_behalf_of(user, admitted(server, (parts, body), verdict)).await
}

async fn admitted(
    server: &Server,
    (parts, body): (Parts, Body),
    verdict: Verdict,
) -> Result<Response> {
    check_accept(&parts.headers)?;
    let path = parts.uri.path();
    if let Some(asked) = reviews::at(path)? {
        if parts.method != Method::POST {
            return Err(ApiError::method_not_allowed());
        }
        let review = asked.decode(&parts.headers, &body::read(body).await?)?;
        return Ok(created(&asked.answer(server, review).await?));
    }
    let route = route::parse(server, path)?;
    if !matches!(route, Route::Object(_)) && parts.method != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    Ok(match route {
        Route::Health => "ok".into_response(),
        Route::Version => shown(&discovery::version()),
        Route::CoreVersions => shown(&discovery::core_versions()),
        Route::Groups => shown(&discovery::groups(server)),
        Route::Group(group) => shown(&discovery::group(server, &group)?),
        Route::Resources { group, version } => {
            shown(&discovery::resources(server, &group, &version)?)
        }
        Route::Object(target) => {
            let query = Query::parse(&parts.uri)?;
            let call = Call {
                server,
                target,
                query,
                parts,
                verdict,
            };
            let deprecation = call.target.resource.deprecation.clone();
            let response = call.carry_out(body).await?;
            with_warnings(response, deprecation.as_slice())
        }
    })
}

/// Only JSON is spoken here.
fn check_accept(headers: &HeaderMap) -> Result<()> {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("*/*");
    let is_known = |range: &str| {
        let media_type = range.split(';').next().unwrap_or_default().trim();
        matches!(
            media_type,
            "*/*" | "application/*" | "application/json" | ""
        )
    };
    match accept.split(',').any(is_known) {
        true => Ok(()),
        false => Err(ApiError::not_acceptable()),
    }
}

impl Call<'_> {
    async fn carry_out(self, body: Body) -> Result<Response> {
        let is_object = self.target.name.is_some();
        let is_main = !self.target.is_status;
        match (self.parts.method.clone(), is_object) {
            (Method::GET, false) if self.query.watch => watch::watch(self),
            (Method::GET, false) => read::list(&self).await,
            (Method::GET, true) => read::get(&self).await,
            (Method::POST, false) if self.has_place() => create::create(&self, body).await,
            (Method::PUT, true) => update::replace(&self, body).await,
            (Method::PATCH, true) => patch::patch(&self, body).await,
            (Method::DELETE, true) if is_main => delete::delete(&self, body).await,
            (Method::DELETE, false) if self.has_place() && !self.is_about_namespaces() => {
                delete::delete_collection(&self, body).await
            }
            _ => Err(self.wrong_verb()),
        }
    }

    fn wrong_verb(&self) -> ApiError {
        let verb = match self.parts.method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => return ApiError::method_not_allowed(),
        };
        match self.resource().schema {
            Some(_) => ApiError::verb_not_supported(self.resource(), verb),
            None => ApiError::method_not_allowed(),
        }
    }

    fn is_about_namespaces(&self) -> bool {
        &*self.resource().storage == NAMESPACES
    }

    /// Whether a collection is that of one namespace, where objects live in namespaces.
    fn has_place(&self) -> bool {
        self.target.resource.namespaced == self.target.namespace.is_some()
    }

    fn resource(&self) -> &Resource {
        &self.target.resource
    }

    fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The object in the form that the client asked for.
    fn show(&self, object: &Value) -> Response {
        if self.wants_metadata() {
            return shown(&partial(object, "PartialObjectMetadata"));
        }
        shown(object)
    }

    /// Whether the client wants no more of each object than its metadata.
    fn wants_metadata(&self) -> bool {
        let accept = self
            .headers()
            .get(header::ACCEPT)
            .and_then(|value| value.to_str().ok());
        let first = accept
            .unwrap_or_default()
            .split(',')
            .next()
            .unwrap_or_default();
        first.contains("as=PartialObjectMetadata")
    }
}

/// What is left of an object when only metadata is wanted.
fn partial(object: &Value, kind: &str) -> Value {
    json!({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

fn shown(object: &Value) -> Response {
    axum::Json(object).into_response()
}

fn created(object: &Value) -> Response {
    (StatusCode::CREATED, axum::Json(object)).into_response()
}

/// Drops unknown fields; says so, or refuses, as the client asked.
fn clean(resource: &Resource, object: &mut Value, field_validation: &str) -> Result<Vec<String>> {
    let mut unknown = metadata::prune(object);
    if let Some(schema) = &resource.schema {
        unknown.extend(schema.prune(object));
    }
    unknown.sort_unstable();
    let unknown: Vec<String> = unknown
        .iter()
        .map(|path| format!("unknown field {path:?}"))
        .collect();
    match field_validation {
        "Ignore" => Ok(Vec::new()),
        "Strict" if !unknown.is_empty() => Err(ApiError::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
            resource.kind,
            resource.version,
            resource.kind,
            unknown.join(", "),
        ))),
        _ => Ok(unknown),
    }
}

/// Checks an object against all rules of its kind, besides the faults found already.
fn check(
    resource: &Resource,
    new: &Value,
    old: Option<&Value>,
    is_status: bool,
    mut faults: Vec<FieldError>,
) -> Result<()> {
    faults.extend(metadata::faults(resource, new));
    if let Some(old) = old {
        faults.extend(metadata::update_faults(new, old));
    }
    faults.extend(match (&resource.schema, old) {
        (Some(schema), Some(old)) if is_status => schema.validate_status(new, old),
        (Some(schema), _) => schema.validate(new, old),
        (None, _) => builtin::faults(resource, new, old),
    });
    match faults.is_empty() {
        true => Ok(()),
        false => Err(ApiError::invalid(resource, metadata::name_of(new), &faults)),
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

fn with_warnings(mut response: Response, warnings: &[String]) -> Response {
    for warning in warnings {
        let text = format!(
            "299 - \"{}\"",
            warning.replace('\\', "\\\\").replace('"', "\\\"")
        );
        if let Ok(value) = http::HeaderValue::from_str(&text) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}
