//! What one request costs without sockets, TLS and a client: the figure to look at when the machine
//! is busy, and the program to count instructions of (`valgrind --tool=callgrind`).

use apiserver::{Options, Server};
use axum::{Router, body::Body};
use http::{Method, Request};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::{client::Asked, cpu, load};

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
            Asked::new(Method::POST, definitions.to_owned(), definition),
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

fn create(number: usize, _: usize) -> Asked {
    let body = load::thing(number).to_string();
    Asked::new(Method::POST, load::THINGS.to_owned(), body)
}

fn patch(number: usize, round: usize) -> Asked {
    let path = format!("{}/status", get(number, round).path);
    Asked::new(Method::PATCH, path, load::status(round, None))
}

fn get(number: usize, _: usize) -> Asked {
    let path = format!("{}/thing-{number:05}", load::THINGS);
    Asked::new(Method::GET, path, "")
}

async fn cost(server: &Router, rounds: usize, asked: fn(usize, usize) -> Asked) -> f64 {
    let numbers = (0..rounds).flat_map(|round| (0..OBJECTS).map(move |number| (number, round)));
    let questions: Vec<Asked> = numbers
        .map(|(number, round)| asked(number, round))
        .collect();
    let before = cpu::of(std::process::id());
    for asked in questions {
        ask(server, asked).await;
    }
    let spent = cpu::of(std::process::id()) - before;
    spent * 1_000_000.0 / (rounds * OBJECTS) as f64
}

async fn ask(server: &Router, asked: Asked) {
    let request = Request::builder().method(&asked.method).uri(&asked.path);
    let request = request.header("content-type", asked.content_type());
    let request = request.body(Body::from(asked.body)).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status();
    assert!(code.is_success(), "{}: {code}", asked.path);
    response.into_body().collect().await.unwrap();
}
