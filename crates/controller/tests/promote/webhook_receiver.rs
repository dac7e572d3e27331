//! The receiver of the webhook strategy: records requests and answers as the test says.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Response, Uri},
};
use ring::hmac;
use tokio::{net::TcpListener, task::AbortHandle};

use crate::world::HOOK_KEY;

/// A call that came.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .map(|value| value.to_str().unwrap())
            .unwrap_or_default()
    }
}

/// Status, headers and body.
type Answer = (u16, Vec<(String, String)>, String);

#[derive(Default)]
struct Inner {
    calls: Vec<Call>,
    answers: VecDeque<Answer>,
}

/// A server on loopback. It ends with the value.
pub(crate) struct Receiver {
    port: u16,
    inner: Arc<Mutex<Inner>>,
    server: AbortHandle,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        Self::behind(|router| router).await
    }

    /// With something before it.
    pub(crate) async fn behind(before: impl FnOnce(Router) -> Router) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let inner = Arc::new(Mutex::new(Inner::default()));
        let router = before(Router::new().fallback(take).with_state(inner.clone()));
        let server = async move { axum::serve(listener, router).await.unwrap() };
        Self {
            port,
            inner,
            server: tokio::spawn(server).abort_handle(),
        }
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/hooks/XoLZfgK", self.origin())
    }

    /// Answers the next call like this. Without one of these it is 200.
    pub(crate) fn answer(&self, status: u16, headers: &[(&str, &str)], body: &str) {
        let headers = headers.iter();
        let headers = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let answer = (status, headers.collect(), body.to_owned());
        self.inner.lock().unwrap().answers.push_back(answer);
    }

    /// What came so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.inner.lock().unwrap().calls.clone()
    }
}

async fn take(
    State(inner): State<Arc<Mutex<Inner>>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let mut inner = inner.lock().unwrap();
    inner.calls.push(Call {
        path: uri.path().to_owned(),
        headers,
        body: body.to_vec(),
    });
    let (status, headers, body) =
        inner
            .answers
            .pop_front()
            .unwrap_or((200, Vec::new(), String::new()));
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(Body::from(body)).unwrap()
}

/// The signature of a body, as whoever is called computes it.
pub(crate) fn hmac_of(body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, HOOK_KEY.as_bytes());
    let tag = hmac::sign(&key, body);
    let digits: String = tag.as_ref().iter().map(|it| format!("{it:02x}")).collect();
    format!("sha256={digits}")
}
