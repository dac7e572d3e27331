//! The events of one watch, read as they come.

use std::pin::Pin;
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt};
use http::Request;
use kube::Client;
use serde_json::Value;

const EVENT_WITHIN: Duration = Duration::from_secs(60);

/// An open watch.
pub(crate) struct Events {
    path: String,
    lines: Pin<Box<dyn AsyncBufRead + Send>>,
}

impl Events {
    pub(super) async fn open(client: &Client, path: &str) -> Self {
        let request = Request::get(path).body(Vec::new()).unwrap();
        let lines = client.request_stream(request).await.expect(path);
        Self {
            path: path.to_owned(),
            lines: Box::pin(lines),
        }
    }

    /// The next event as (type, object), or nothing when the server ended the watch.
    pub(crate) async fn next_or_end(&mut self) -> Option<(String, Value)> {
        let mut line = String::new();
        let read = tokio::time::timeout(EVENT_WITHIN, self.lines.read_line(&mut line)).await;
        let read =
            read.unwrap_or_else(|_| panic!("no event within {EVENT_WITHIN:?}: {}", self.path));
        if read.expect(&self.path) == 0 {
            return None;
        }
        let mut event: Value = serde_json::from_str(&line).expect(&line);
        let kind = event["type"]
            .as_str()
            .expect("an event has a type")
            .to_owned();
        Some((kind, event["object"].take()))
    }

    /// The next event; the watch must not end.
    pub(crate) async fn next(&mut self) -> (String, Value) {
        self.next_or_end()
            .await
            .unwrap_or_else(|| panic!("the watch ended: {}", self.path))
    }

    /// The next event as text: `ADDED name`.
    pub(crate) async fn line(&mut self) -> String {
        let (kind, object) = self.next().await;
        format!(
            "{kind} {}",
            object["metadata"]["name"].as_str().unwrap_or("-")
        )
    }

    /// The next event, which must be this one; gives its object.
    #[track_caller]
    pub(crate) fn expect<'a>(&'a mut self, expected: &'a str) -> impl Future<Output = Value> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let (kind, object) = self.next().await;
            let name = object["metadata"]["name"].as_str().unwrap_or("-");
            assert_eq!(format!("{kind} {name}"), expected, "at {caller}: {object}");
            object
        }
    }
}
