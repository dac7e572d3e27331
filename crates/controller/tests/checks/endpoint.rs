//! Whom checks ask: a server on loopback that records requests and answers as the test says.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Response, Uri},
};
use futures::stream;
use tokio::{net::TcpListener, task::AbortHandle};

/// What it answers.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Status, location, body.
    Text(u16, Option<String>, String),
    /// 200 and a body without an end.
    Endless,
}

struct Inner {
    answer: Mutex<Answer>,
    requests: Mutex<Vec<(String, HeaderMap)>>,
    sent: AtomicUsize,
}

/// A server on loopback. It ends with the value.
pub(crate) struct Endpoint {
    port: u16,
    inner: Arc<Inner>,
    server: AbortHandle,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Endpoint {
    pub(crate) async fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let inner = Arc::new(Inner {
            answer: Mutex::new(answer),
            requests: Mutex::default(),
            sent: AtomicUsize::new(0),
        });
        let router = Router::new().fallback(take).with_state(inner.clone());
        let server = async move { axum::serve(listener, router).await.unwrap() };
        Self {
            port,
            inner,
            server: tokio::spawn(server).abort_handle(),
        }
    }

    pub(crate) async fn saying(status: u16, body: &str) -> Self {
        Self::start(Answer::Text(status, None, body.to_owned())).await
    }

    /// A Prometheus with one value.
    pub(crate) async fn prometheus(value: &str) -> Self {
        Self::saying(200, &prometheus_answer(value)).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn answer(&self, answer: Answer) {
        *self.inner.answer.lock().unwrap() = answer;
    }

    /// Path and query, and headers, of what came so far.
    pub(crate) fn requests(&self) -> Vec<(String, HeaderMap)> {
        self.inner.requests.lock().unwrap().clone()
    }

    /// How many bytes of endless bodies were taken.
    pub(crate) fn sent(&self) -> usize {
        self.inner.sent.load(Ordering::Relaxed)
    }
}

pub(crate) fn prometheus_answer(value: &str) -> String {
    format!(
        r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{{}},"value":[1,"{value}"]}}]}}}}"#
    )
}

async fn take(State(inner): State<Arc<Inner>>, uri: Uri, headers: HeaderMap) -> Response<Body> {
    let path = uri.path_and_query().map(ToString::to_string);
    let request = (path.unwrap_or_default(), headers);
    inner.requests.lock().unwrap().push(request);
    let answer = inner.answer.lock().unwrap().clone();
    match answer {
        Answer::Text(status, location, body) => {
            let mut response = Response::builder().status(status);
            if let Some(location) = location {
                response = response.header("location", location);
            }
            response.body(Body::from(body)).unwrap()
        }
        Answer::Endless => {
            let chunks = stream::repeat_with(move || {
                inner.sent.fetch_add(1 << 16, Ordering::Relaxed);
                Ok::<_, std::io::Error>(Bytes::from_static(&[b'a'; 1 << 16]))
            });
            Response::new(Body::from_stream(chunks))
        }
    }
}
