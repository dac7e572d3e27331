//! What one request costs without sockets, TLS and a client: the figure to look at when the machine
//! is busy, and the program to count instructions of (`valgrind --tool=callgrind`).

use apiserver::{Options, Server};
use axum::{Router, body::Body};
use http::{Method, Request};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::{client::BenchRequest, cpu, load};

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
            .router(apiserver::User::in_process());
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let definition = load::definition();
        ask(
            &server,
            BenchRequest::new(Method::POST, definitions.to_owned(), definition),
        )
        .await;
        let figures = [
            ("create", cost(&server, 1, create).await),
            ("status merge patch", cost(&server, ROUNDS, patch).await),
            ("get", cost(&server, ROUNDS, get).await),
        ];
        for (what, figure) in figures {
            row(what, format!("{figure:.0} µs of processor time"));
        }
    });
}

fn create(number: usize, _: usize) -> BenchRequest {
    let body = load::thing(number).to_string();
    BenchRequest::new(Method::POST, load::THINGS.to_owned(), body)
}

fn patch(number: usize, round: usize) -> BenchRequest {
    let path = format!("{}/status", get(number, round).path);
    BenchRequest::new(Method::PATCH, path, load::status(round, None))
}

fn get(number: usize, _: usize) -> BenchRequest {
    let path = format!("{}/thing-{number:05}", load::THINGS);
    BenchRequest::new(Method::GET, path, "")
}

async fn cost(
    server: &Router,
    rounds: usize,
    bench_request: fn(usize, usize) -> BenchRequest,
) -> f64 {
    let numbers = (0..rounds).flat_map(|round| (0..OBJECTS).map(move |number| (number, round)));
    let questions: Vec<BenchRequest> = numbers
        .map(|(number, round)| bench_request(number, round))
        .collect();
    let before = cpu::of(std::process::id());
    for bench_request in questions {
        ask(server, bench_request).await;
    }
    let spent = cpu::of(std::process::id()) - before;
    spent * 1_000_000.0 / (rounds * OBJECTS) as f64
}

async fn ask(server: &Router, bench_request: BenchRequest) {
    let request = Request::builder()
        .method(&bench_request.method)
        .uri(&bench_request.path);
    let request = request.header("content-type", bench_request.content_type());
    let request = request.body(Body::from(bench_request.body)).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status();
    assert!(code.is_success(), "{}: {code}", bench_request.path);
    response.into_body().collect().await.unwrap();
}
