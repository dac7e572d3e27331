//! A client for an API server in this process, whose requests pass through a [`Link`].

use std::{convert::Infallible, sync::Arc};

use apiserver::{Server, User};
use axum::body::{Body, Bytes};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use http::{Method, Request, Response, StatusCode, request::Parts};
use kube::Client;
use serde_json::json;
use tokio::time::sleep;
use tower::{BoxError, ServiceExt, service_fn};

use crate::link::{Destination, Link, Loss};

type Answer = Result<Response<Body>, BoxError>;

/// A client of a server for one process.
pub(crate) fn client(server: &Server, to: Destination, link: &Arc<Link>) -> Client {
    let (router, link) = (server.router(User::in_process()), link.clone());
    let service = service_fn(move |request: Request<kube::client::Body>| {
        let (router, link) = (router.clone(), link.clone());
        async move { send(router, to, &link, request).await }
    });
    Client::new(service, "default")
}

async fn send(
    router: axum::Router,
    to: Destination,
    link: &Arc<Link>,
    request: Request<kube::client::Body>,
) -> Answer {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(Body::new(body), usize::MAX).await?;
    refuse_leaf_writes(to, link, &parts);
    let what = format!("{} {}", parts.method, short_path(&parts));
    let (is_update, sent) = (is_update(&parts.method), parts.clone());
    let perform = move || perform(router.clone(), sent.clone(), body.clone());
    let lost = |loss| lost(loss, is_update);
    let response = link.call(to, &what, perform, lost).await?;
    match is_watch(&parts) {
        true => Ok(watch(link, response)),
        false => Ok(response),
    }
}

fn perform(router: axum::Router, parts: Parts, body: Bytes) -> BoxFuture<'static, Answer> {
    let request = Request::from_parts(parts, Body::from(body));
    async move { router.oneshot(request).await.map_err(BoxError::from) }.boxed()
}

/// Reviews are questions, although they are created.
fn refuse_leaf_writes(to: Destination, link: &Link, parts: &Parts) {
    let is_review = parts.uri.path().contains("reviews");
    if to == Destination::Leaf && parts.method != Method::GET && !is_review {
        let (method, path) = (&parts.method, parts.uri.path());
        link.story
            .violation(format!("{} wrote to a leaf: {method} {path}", link.name()));
    }
}

fn is_update(method: &Method) -> bool {
    matches!(*method, Method::PUT | Method::PATCH)
}

fn is_watch(parts: &Parts) -> bool {
    parts.uri.query().is_some_and(|it| it.contains("watch="))
}

/// The path without the group and version.
fn short_path(parts: &Parts) -> String {
    let path: Vec<&str> = parts.uri.path().split('/').collect();
    let from = path.len().saturating_sub(3);
    let watch = if is_watch(parts) { " (watch)" } else { "" };
    format!("{}{watch}", path[from..].join("/"))
}

/// A watch whose events may be late or repeated, and that may end after some of them.
fn watch(link: &Arc<Link>, response: Response<Body>) -> Response<Body> {
    let events = link.watch_gap().unwrap_or(usize::MAX);
    let (parts, body) = response.into_parts();
    let link = link.clone();
    let arriving = body.into_data_stream().take(events).then(move |event| {
        let (times, delay) = link.event();
        async move {
            if !delay.is_zero() {
                sleep(delay).await;
            }
            let repeated = event.ok().into_iter().flat_map(move |it| vec![it; times]);
            stream::iter(repeated.map(Ok::<_, Infallible>))
        }
    });
    Response::from_parts(parts, Body::from_stream(arriving.flatten()))
}

fn lost(loss: Loss, is_update: bool) -> Answer {
    let (code, reason) = match loss {
        Loss::Answer => return Err("the connection was closed".into()),
        Loss::Conflict if is_update => (StatusCode::CONFLICT, "Conflict"),
        Loss::Conflict => (StatusCode::GONE, "Expired"),
        Loss::Refused => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
    };
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason,
        "code": code.as_u16(), "message": format!("simulated: {reason}"), "metadata": {},
    });
    let response = Response::builder().status(code);
    let response = response.header("content-type", "application/json");
    Ok(response.body(Body::from(status.to_string()))?)
}
