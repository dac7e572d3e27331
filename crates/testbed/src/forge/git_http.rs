//! Serves git over HTTP with `git http-backend`.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;

use super::ForgeState;

/// Maximum size of a request body.
const MAX_BODY: usize = 64 << 20;

/// Serves all paths outside the API.
pub(super) async fn serve(State(state): State<Arc<ForgeState>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if !is_authorized(&state, &parts.headers) {
        let challenge = [("www-authenticate", "Basic realm=\"forge\"")];
        return (StatusCode::UNAUTHORIZED, challenge, "Unauthorized").into_response();
    }
    if state.forbids_push.load(Ordering::SeqCst) && is_push(&parts) {
        return (StatusCode::FORBIDDEN, "the token may only read").into_response();
    }
    let Ok(body) = axum::body::to_bytes(body, MAX_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    match run(state.folder.path(), &parts, body).await {
        Ok(output) => answer(&output).unwrap_or_else(|| StatusCode::BAD_GATEWAY.into_response()),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

fn is_push(parts: &Parts) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    query.contains("git-receive-pack") || parts.uri.path().ends_with("/git-receive-pack")
}

/// Any user name with the token as the password is accepted.
fn is_authorized(state: &ForgeState, headers: &HeaderMap) -> bool {
    let value = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok());
    let login = value
        .and_then(|value| value.strip_prefix("Basic "))
        .and_then(|encoded| STANDARD.decode(encoded).ok())
        .and_then(|decoded| String::from_utf8(decoded).ok());
    login.is_some_and(|login| {
        login
            .split_once(':')
            .is_some_and(|(_, password)| password == state.token)
    })
}

async fn run(folder: &Path, parts: &Parts, body: Bytes) -> std::io::Result<Vec<u8>> {
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_PROJECT_ROOT", folder)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("REMOTE_USER", "forge")
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let stdin = child.stdin.take();
    let (output, ()) = tokio::join!(child.wait_with_output(), feed(stdin, &body));
    Ok(output?.stdout)
}

async fn feed(stdin: Option<ChildStdin>, body: &[u8]) {
    if let Some(mut stdin) = stdin {
        // A program that stops reading reports the error in its response.
        let _ = stdin.write_all(body).await;
    }
}

/// Parses a CGI response: headers with the status among them, an empty line, the body.
fn answer(output: &[u8]) -> Option<Response> {
    let end = output.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&output[..end]).ok()?;
    let mut response = Response::builder();
    for line in head.lines() {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        response = if name.eq_ignore_ascii_case("status") {
            response.status(value.split(' ').next()?.parse::<u16>().ok()?)
        } else {
            response.header(name, value)
        };
    }
    response.body(Body::from(output[end + 4..].to_vec())).ok()
}
