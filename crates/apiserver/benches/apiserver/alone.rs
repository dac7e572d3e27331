//! What one request costs without sockets, TLS and a client: the figure to look at when the machine
//! is busy, and the program to count instructions of (`valgrind --tool=callgrind`).

use apiserver::{Options, Server};
use axum::{Router, body::Body};
use http::{Method, Request};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::{cpu, load};

/// As many objects, and patches of them.
const OBJECTS: usize = 500;
const ROUNDS: usize = 10;

/// Prints microseconds of processor time per request on a file.
pub(crate) fn measure(row: fn(&str, String)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        let server = Server::open(store, Options::default())
            .await
            .unwrap()
            .router();
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        ask(&server, Method::POST, definitions, load::definition()).await;
        let figures = [
            ("create", cost(&server, Method::POST, 1, create).await),
            (
                "status merge patch",
                cost(&server, Method::PATCH, ROUNDS, patch).await,
            ),
            ("get", cost(&server, Method::GET, ROUNDS, get).await),
        ];
        for (what, figure) in figures {
            row(what, format!("{figure:.0} µs of processor time"));
        }
    });
}

type Asked = fn(usize, usize) -> (String, String);

fn create(number: usize, _: usize) -> (String, String) {
    (load::THINGS.to_owned(), load::thing(number).to_string())
}

fn patch(number: usize, round: usize) -> (String, String) {
    (
        format!("{}/status", get(number, round).0),
        load::status(round, None),
    )
}

fn get(number: usize, _: usize) -> (String, String) {
    (format!("{}/thing-{number:05}", load::THINGS), String::new())
}

async fn cost(server: &Router, method: Method, rounds: usize, asked: Asked) -> f64 {
    let before = cpu::of(std::process::id());
    for round in 0..rounds {
        for number in 0..OBJECTS {
            let (path, body) = asked(number, round);
            ask(server, method.clone(), &path, body).await;
        }
    }
    let spent = cpu::of(std::process::id()) - before;
    spent * 1_000_000.0 / (rounds * OBJECTS) as f64
}

async fn ask(server: &Router, method: Method, path: &str, body: String) {
    let content_type = load::content_type(&method);
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", content_type);
    let request = request.body(Body::from(body)).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    assert!(
        response.status().is_success(),
        "{path}: {}",
        response.status()
    );
    response.into_body().collect().await.unwrap();
}
