//! Who may do what in a registry: nobody asked, a password, or a token for one repository.

use std::collections::BTreeMap;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::json;

use super::{RegistryState, refusal};

/// The one user.
pub const USER: &str = "sluice";
/// Its password.
pub const PASSWORD: &str = "the-right-password";
/// The refresh token that the token service accepts instead of the password.
pub const IDENTITY_TOKEN: &str = "the-right-refresh-token";

/// Where the token service is.
pub(super) const TOKEN_PATH: &str = "/token";
/// The name of the registry to its token service.
const SERVICE: &str = "small-registry";

/// How a registry authenticates requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// Not at all.
    Anonymous,
    /// By user name and password.
    Password,
    /// By a token of its token service.
    Token,
}

/// The scope of each token that was issued.
#[derive(Default)]
pub(super) struct Tokens(BTreeMap<String, String>);

/// Refuses a request without the right to read, or to write, a repository.
pub(super) fn check(
    state: &RegistryState,
    headers: &HeaderMap,
    repository: &str,
    is_write: bool,
) -> Result<(), Box<Response>> {
    let given = headers.get(header::AUTHORIZATION);
    let given = given
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let (is_allowed, challenge) = match state.authentication {
        Authentication::Anonymous => return Ok(()),
        Authentication::Password => (is_password(given), "Basic realm=\"small\"".to_owned()),
        Authentication::Token => {
            let tokens = state.tokens.lock();
            let scope = given
                .strip_prefix("Bearer ")
                .and_then(|token| tokens.0.get(token));
            let needed = if is_write { "push" } else { "pull" };
            let is_allowed = scope.is_some_and(|scope| allows(scope, repository, needed));
            let realm = format!("{}{TOKEN_PATH}", state.origin);
            let challenge = format!(
                "Bearer realm=\"{realm}\",service=\"{SERVICE}\",scope=\"repository:{repository}:{needed}\""
            );
            (is_allowed, challenge)
        }
    };
    if is_allowed {
        return Ok(());
    }
    let refused = refusal(StatusCode::UNAUTHORIZED, "UNAUTHORIZED");
    Err(Box::new(
        ([("www-authenticate", challenge)], refused).into_response(),
    ))
}

/// Answers a request for a token.
pub(super) async fn token(state: &RegistryState, request: Request) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).cloned();
    let given = given.as_ref().and_then(|value| value.to_str().ok());
    let is_form = request.method() == Method::POST;
    let given = given.map(str::to_owned);
    let fields = match is_form {
        true => {
            let body = axum::body::to_bytes(request.into_body(), 64 << 10).await;
            String::from_utf8(body.unwrap_or_default().to_vec()).unwrap_or_default()
        }
        false => request.uri().query().unwrap_or_default().to_owned(),
    };
    let find = |name: &str| {
        let mut pairs = fields.split('&').filter_map(|pair| pair.split_once('='));
        let found = pairs.find(|(key, _)| *key == name);
        found.map(|(_, value)| {
            value
                .replace("%3A", ":")
                .replace("%2F", "/")
                .replace("%2C", ",")
        })
    };
    let is_known = match is_form {
        true => {
            find("grant_type").as_deref() == Some("refresh_token")
                && find("refresh_token").as_deref() == Some(IDENTITY_TOKEN)
        }
        false => given.is_some_and(|given| is_password(&given)),
    };
    let scope = find("scope").filter(|_| find("service").as_deref() == Some(SERVICE));
    match (is_known, scope) {
        (true, Some(scope)) => {
            let mut tokens = state.tokens.lock();
            let token = format!("token-{}", tokens.0.len());
            tokens.0.insert(token.clone(), scope);
            axum::Json(json!({"token": token, "expires_in": 300})).into_response()
        }
        (true, None) => StatusCode::BAD_REQUEST.into_response(),
        (false, _) => StatusCode::UNAUTHORIZED.into_response(),
    }
}

fn is_password(given: &str) -> bool {
    let expected = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    given.strip_prefix("Basic ") == Some(&expected)
}

/// Whether a scope such as `repository:team/app:pull,push` allows an action.
fn allows(scope: &str, repository: &str, action: &str) -> bool {
    let rest = scope.strip_prefix("repository:");
    let found = rest.and_then(|rest| rest.rsplit_once(':'));
    found.is_some_and(|(name, actions)| {
        name == repository && actions.split(',').any(|allowed| allowed == action)
    })
}
