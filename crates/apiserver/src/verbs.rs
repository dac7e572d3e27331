//! Requests, dispatched: each verb has its file, and all share what stands here.

mod apply;
mod create;
mod delete;
mod listing;
mod manner;
mod patch;
mod proposal;
mod read;
mod scale;
mod update;
mod watch;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, Method, Request, StatusCode, header, request::Parts};
use serde_json::Value;

pub(crate) use create::{create_default, create_first_namespaces};
pub(crate) use delete::{Deletion, FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Policy, delete_object};
pub(crate) use manner::Manner;
pub(crate) use scale::has_scale;
pub(crate) use update::{change_object, target_of};

use crate::{
    Server, User,
    access::{self, Caller},
    body,
    builtin::{self, NAMESPACES},
    discovery::{self, aggregated},
    faults::Verdict,
    metadata, openapi,
    query::Query,
    resource::Resource,
    reviews,
    route::{self, Route, Target},
    schema::FieldError,
    status::{ApiError, Result},
    types,
    view::{self, Shown, View},
};

/// As much of a client's own name is kept.
const MANAGER_LIMIT: usize = 128;

/// One request about objects, with everything it needs.
struct Call<'a> {
    server: &'a Server,
    user: User,
    target: Target,
    query: Query,
    parts: Parts,
    verdict: Verdict,
}

/// Answers any request.
pub(crate) async fn answer(server: Server, user: User, request: Request<Body>) -> Response {
    let verdict = server.0.fate.lock().judge(request.method());
    if let Some(refused) = verdict.refused {
        return refused.into_response();
    }
    let hidden = verdict.hidden.clone();
    let response = dispatch(&server, user, request, verdict)
        .await
        .unwrap_or_else(IntoResponse::into_response);
    match hidden {
        Some(error) => error.into_response(),
        None => response,
    }
}

async fn dispatch(
    server: &Server,
    user: User,
    request: Request<Body>,
    verdict: Verdict,
) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let user = access::authorize_request(server, user, &parts)?;
    check_accept(&parts.headers)?;
    let path = parts.uri.path();
    if let Some(asked) = reviews::at(path)? {
        if parts.method != Method::POST {
            return Err(ApiError::method_not_allowed());
        }
        let review = asked.decode(&parts.headers, &body::read(body).await?)?;
        return Ok(created(&asked.answer(server, &user, review).await?));
    }
    let route = route::parse(server, path)?;
    if !matches!(route, Route::Object(_)) && parts.method != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    let Route::Object(target) = route else {
        return about_the_server(server, route, &parts.headers);
    };
    let query = Query::parse(&parts.uri)?;
    let call = Call {
        server,
        user,
        target,
        query,
        parts,
        verdict,
    };
    let deprecation = call.target.resource.deprecation.clone();
    let response = call.carry_out(body).await?;
    Ok(with_warnings(response, deprecation.as_slice()))
}

/// Answers what is not about objects: health, version, discovery and documents.
fn about_the_server(server: &Server, route: Route, headers: &HeaderMap) -> Result<Response> {
    if wants_all(headers) && matches!(route, Route::CoreVersions | Route::Groups) {
        let all = aggregated::document(server, matches!(route, Route::CoreVersions));
        let media_type = [(header::CONTENT_TYPE, aggregated::MEDIA_TYPE)];
        return Ok((media_type, all.to_string()).into_response());
    }
    Ok(shown(&match route {
        Route::Health => return Ok("ok".into_response()),
        Route::Version => discovery::version(),
        Route::OpenApi => openapi::index(server),
        Route::OpenApiOf(path) => {
            openapi::document(server, &path).ok_or_else(ApiError::page_not_found)?
        }
        Route::CoreVersions => discovery::core_versions(),
        Route::Groups => discovery::groups(server),
        Route::Group(group) => discovery::group(server, &group)?,
        Route::Resources { group, version } => discovery::resources(server, &group, &version)?,
        Route::Object(_) => return Err(ApiError::page_not_found()), // answered by its verb
    }))
}

/// Whether the client wants all of discovery at once.
fn wants_all(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT);
    let accept = accept.and_then(|value| value.to_str().ok());
    accept.is_some_and(aggregated::is_wanted)
}

/// Only JSON is spoken here.
fn check_accept(headers: &HeaderMap) -> Result<()> {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("*/*");
    match accept.split(',').any(view::is_spoken) {
        true => Ok(()),
        false => Err(ApiError::not_acceptable()),
    }
}

impl Call<'_> {
    async fn carry_out(self, body: Body) -> Result<Response> {
        let is_object = self.target.name.is_some();
        let is_main = !self.target.is_status;
        if self.target.is_scale {
            return scale::answer(&self, body).await;
        }
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

    /// Who writes: as named, else as the client calls itself.
    fn manager(&self) -> String {
        if !self.query.field_manager.is_empty() {
            return self.query.field_manager.clone();
        }
        let agent = self.headers().get(header::USER_AGENT);
        let agent = agent.and_then(|value| value.to_str().ok());
        let name: String = agent
            .unwrap_or_default()
            .split('/')
            .next()
            .unwrap_or_default()
            .chars()
            .take(MANAGER_LIMIT)
            .collect();
        match name.is_empty() {
            true => "unknown".to_owned(),
            false => name,
        }
    }

    fn caller(&self) -> Caller {
        Caller::User(self.user.clone())
    }

    fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The object in the form that the client asked for.
    fn show(&self, object: &Shown) -> Response {
        let (view, resource) = (self.view(), self.resource());
        match object {
            Shown::Stored(kept) => json_response(view.text(self.server, resource, kept)),
            Shown::Made(object) => shown(&view.show(self.server, resource, object)),
        }
    }

    /// The form in which the client wants objects.
    fn view(&self) -> View {
        View::of(self.headers(), &self.query)
    }
}

fn json_response(body: impl Into<Body>) -> Response {
    let media_type = [(header::CONTENT_TYPE, "application/json")];
    (media_type, body.into()).into_response()
}

fn shown(object: &Value) -> Response {
    axum::Json(object).into_response()
}

fn created(object: &Value) -> Response {
    (StatusCode::CREATED, axum::Json(object)).into_response()
}

/// Drops unknown fields; says so, or refuses, as the client asked.
fn clean(resource: &Resource, object: &mut Value, manner: &Manner) -> Result<Vec<String>> {
    let mut unknown = metadata::prune(object);
    unknown.extend(match &resource.schema {
        Some(schema) => schema.prune(object),
        None => types::prune(&resource.shape, object),
    });
    unknown.sort_unstable();
    let repeated = manner.repeated.iter();
    let mut faults: Vec<String> = repeated
        .map(|path| format!("duplicate field {path:?}"))
        .collect();
    faults.extend(unknown.iter().map(|path| format!("unknown field {path:?}")));
    match manner.options.field_validation.as_str() {
        "Ignore" => Ok(Vec::new()),
        "Strict" if !faults.is_empty() => {
            let why = format!("strict decoding error: {}", faults.join(", "));
            Err(manner.undecodable(resource, object, &why))
        }
        _ => Ok(faults),
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
    // What does not change was right when it was written.
    if old.is_none_or(|old| old["metadata"] != new["metadata"]) {
        faults.extend(metadata::faults(resource, new));
    }
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
