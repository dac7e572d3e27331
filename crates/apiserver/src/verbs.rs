//! Dispatches requests to the verbs, which have a file each, and holds what they share.

mod apply;
mod create;
mod delete;
mod delete_options;
mod list_stream;
mod patch;
mod proposal;
mod read;
mod scale;
mod update;
mod watch;
mod write_options;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, Method, Request, StatusCode, header, request::Parts};
use serde_json::Value;

pub(crate) use create::{create_default, create_default_namespaces};
pub(crate) use delete::delete_object;
pub(crate) use delete_options::{
    DeleteOptions, FOREGROUND_FINALIZER, ORPHAN_FINALIZER, PropagationPolicy,
};
pub(crate) use scale::has_scale;
pub(crate) use update::{change_object, target_for};
pub(crate) use write_options::WriteOptions;

use crate::{
    Server, User,
    access::{self, Caller},
    body,
    builtin::{self, NAMESPACES},
    discovery::{self, aggregated},
    fault_injection::RequestFaults,
    metadata, openapi,
    query::Query,
    representation::{self, Representation, ResponseObject},
    resource::Resource,
    reviews,
    route::{self, RequestTarget, Route},
    schema::FieldError,
    status::{ApiError, Result},
    types,
};

/// The maximum length of a field manager that comes from the user agent.
const MANAGER_LIMIT: usize = 128;

/// A request for objects, parsed and authorized.
struct ObjectRequest<'a> {
    server: &'a Server,
    user: User,
    target: RequestTarget,
    query: Query,
    parts: Parts,
    faults: RequestFaults,
}

/// Answers any request.
pub(crate) async fn answer(server: Server, user: User, request: Request<Body>) -> Response {
    let faults = server.0.fault_injector.lock().draw(request.method());
    if let Some(error) = faults.instead {
        return error.into_response();
    }
    let error_afterwards = faults.afterwards.clone();
    let response = dispatch(&server, user, request, faults)
        .await
        .unwrap_or_else(IntoResponse::into_response);
    match error_afterwards {
        Some(error) => error.into_response(),
        None => response,
    }
}

async fn dispatch(
    server: &Server,
    user: User,
    request: Request<Body>,
    faults: RequestFaults,
) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let user = access::authorize_request(server, user, &parts)?;
    let path = parts.uri.path();
    if path == "/openapi/v2" && parts.method == Method::GET {
        return Ok(openapi::version_2());
    }
    check_accept(&parts.headers)?;
    if let Some(review) = reviews::parse_path(path)? {
        if parts.method != Method::POST {
            return Err(ApiError::method_not_allowed());
        }
        let body = review.decode(&parts.headers, &body::read(body).await?)?;
        return Ok(created_json(&review.answer(server, &user, body).await?));
    }
    let route = route::parse(server, path)?;
    if !matches!(route, Route::Object(_)) && parts.method != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    let Route::Object(target) = route else {
        return answer_non_object(server, route, &parts.headers);
    };
    let query = Query::parse(&parts.uri)?;
    let request = ObjectRequest {
        server,
        user,
        target,
        query,
        parts,
        faults,
    };
    let deprecation = request.target.resource.deprecation.clone();
    let response = request.run(body).await?;
    Ok(with_warnings(response, deprecation.as_slice()))
}

/// Answers requests that are not for objects: health, version, discovery and OpenAPI.
fn answer_non_object(server: &Server, route: Route, headers: &HeaderMap) -> Result<Response> {
    if wants_aggregated_discovery(headers) && matches!(route, Route::CoreVersions | Route::Groups) {
        let all = aggregated::document(server, matches!(route, Route::CoreVersions));
        let media_type = [(header::CONTENT_TYPE, aggregated::MEDIA_TYPE)];
        return Ok((media_type, all.to_string()).into_response());
    }
    Ok(ok_json(&match route {
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
        Route::Object(_) => return Err(ApiError::page_not_found()), // answered by the verbs
    }))
}

/// Whether the client accepts aggregated discovery.
fn wants_aggregated_discovery(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT);
    let accept = accept.and_then(|value| value.to_str().ok());
    accept.is_some_and(aggregated::is_wanted)
}

/// Refuses clients that do not accept JSON.
fn check_accept(headers: &HeaderMap) -> Result<()> {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("*/*");
    match accept.split(',').any(representation::is_supported) {
        true => Ok(()),
        false => Err(ApiError::not_acceptable()),
    }
}

impl ObjectRequest<'_> {
    async fn run(self, body: Body) -> Result<Response> {
        let is_object = self.target.name.is_some();
        let is_main = !self.target.is_status;
        if self.target.is_scale {
            return scale::answer(&self, body).await;
        }
        match (self.parts.method.clone(), is_object) {
            (Method::GET, false) if self.query.watch => watch::watch(self),
            (Method::GET, false) => read::list(&self).await,
            (Method::GET, true) => read::get(&self).await,
            (Method::POST, false) if self.names_one_collection() => {
                create::create(&self, body).await
            }
            (Method::PUT, true) => update::replace(&self, body).await,
            (Method::PATCH, true) => patch::patch(&self, body).await,
            (Method::DELETE, true) if is_main => delete::delete(&self, body).await,
            (Method::DELETE, false)
                if self.names_one_collection() && !self.is_about_namespaces() =>
            {
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

    /// Whether the path is that of one collection: with a namespace if the kind is namespaced.
    fn names_one_collection(&self) -> bool {
        self.target.resource.namespaced == self.target.namespace.is_some()
    }

    fn resource(&self) -> &Resource {
        &self.target.resource
    }

    /// The field manager: as given, else the name of the user agent.
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

    /// Responds with an object in the representation that the client accepts.
    fn respond_with(&self, object: &ResponseObject) -> Response {
        let (representation, resource) = (self.representation(), self.resource());
        match object {
            ResponseObject::Stored(object) => {
                json_response(representation.encode(self.server, resource, object))
            }
            ResponseObject::Computed(object) => {
                ok_json(&representation.of(self.server, resource, object))
            }
        }
    }

    /// The representation of objects that the client accepts.
    fn representation(&self) -> Representation {
        Representation::accepted(self.headers(), &self.query)
    }
}

fn json_response(body: impl Into<Body>) -> Response {
    let media_type = [(header::CONTENT_TYPE, "application/json")];
    (media_type, body.into()).into_response()
}

fn ok_json(object: &Value) -> Response {
    axum::Json(object).into_response()
}

fn created_json(object: &Value) -> Response {
    (StatusCode::CREATED, axum::Json(object)).into_response()
}

/// Drops unknown fields, and warns or refuses as the client requested.
fn prune(resource: &Resource, object: &mut Value, options: &WriteOptions) -> Result<Vec<String>> {
    let mut unknown = metadata::prune(object);
    unknown.extend(match &resource.schema {
        Some(schema) => schema.prune(object),
        None => types::prune(&resource.object_type, object),
    });
    unknown.sort_unstable();
    let duplicate_keys = options.duplicate_keys.iter();
    let mut errors: Vec<String> = duplicate_keys
        .map(|path| format!("duplicate field {path:?}"))
        .collect();
    errors.extend(unknown.iter().map(|path| format!("unknown field {path:?}")));
    match options.field_validation.as_str() {
        "Ignore" => Ok(Vec::new()),
        "Strict" if !errors.is_empty() => {
            let why = format!("strict decoding error: {}", errors.join(", "));
            Err(options.undecodable(resource, object, &why))
        }
        _ => Ok(errors),
    }
}

/// Validates an object; `errors` are those found before.
fn validate(
    resource: &Resource,
    new: &Value,
    old: Option<&Value>,
    is_status: bool,
    mut errors: Vec<FieldError>,
) -> Result<()> {
    // Unchanged metadata was valid when it was written.
    if old.is_none_or(|old| old["metadata"] != new["metadata"]) {
        errors.extend(metadata::validate(resource, new));
    }
    if let Some(old) = old {
        errors.extend(metadata::validate_update(new, old));
    }
    errors.extend(match (&resource.schema, old) {
        (Some(schema), Some(old)) if is_status => schema.validate_status(new, old),
        (Some(schema), _) => schema.validate(new, old),
        (None, _) => builtin::validate(resource, new, old),
    });
    match errors.is_empty() {
        true => Ok(()),
        false => Err(ApiError::invalid(resource, metadata::name_of(new), &errors)),
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
