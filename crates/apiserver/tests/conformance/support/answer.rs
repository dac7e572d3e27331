//! What the server answered to one request, and what a case may expect of it.

use std::fmt;

use serde_json::Value;

/// One complete answer.
pub(crate) struct Answer {
    attempted: String,
    pub(crate) code: u16,
    content_type: String,
    /// The texts of the warnings that came with it.
    pub(crate) warnings: Vec<String>,
    pub(crate) text: String,
    /// The body as JSON, or null when it is not JSON.
    pub(crate) body: Value,
}

impl Answer {
    pub(super) fn new(attempted: String, head: http::response::Parts, bytes: Vec<u8>) -> Self {
        let content_type = head
            .headers
            .get("content-type")
            .and_then(|value| value.to_str().ok());
        Self {
            attempted,
            code: head.status.as_u16(),
            warnings: head
                .headers
                .get_all("warning")
                .iter()
                .map(warning)
                .collect(),
            content_type: content_type.unwrap_or_default().to_owned(),
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// The body of an answer that must have this code.
    #[track_caller]
    pub(crate) fn expect_code(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{self}");
        self.body
    }

    /// A `Status` of a refused request, with exactly this message.
    #[track_caller]
    pub(crate) fn refused(self, code: u16, reason: &str, message: &str) -> Value {
        let text = self.to_string();
        let status = self.refused_somehow(code, reason);
        assert_eq!(status["message"], message, "{text}");
        status
    }

    /// A `Status` of a refused request whose message is not fixed.
    #[track_caller]
    pub(crate) fn refused_somehow(self, code: u16, reason: &str) -> Value {
        assert_eq!(self.code, code, "{self}");
        assert_eq!(self.content_type, "application/json", "{self}");
        assert_eq!(self.body["kind"], "Status", "{self}");
        assert_eq!(self.body["apiVersion"], "v1", "{self}");
        assert_eq!(self.body["status"], "Failure", "{self}");
        assert_eq!(self.body["code"], code, "{self}");
        assert_eq!(
            self.body["reason"].as_str().unwrap_or_default(),
            reason,
            "{self}"
        );
        self.body
    }

    /// The status of a condition, or nothing.
    pub(crate) fn condition(&self, kind: &str) -> &str {
        let conditions = self.body["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let found = conditions.find(|condition| condition["type"] == kind);
        found
            .and_then(|condition| condition["status"].as_str())
            .unwrap_or_default()
    }

    /// The names of the items of a list, in its order.
    #[track_caller]
    pub(crate) fn names(&self) -> Vec<&str> {
        assert_eq!(self.code, 200, "{self}");
        let items = self.body["items"].as_array().expect("a list has items");
        items
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap_or_default())
            .collect()
    }
}

/// The text of a `Warning` header: `299 - "text"`.
fn warning(header: &http::HeaderValue) -> String {
    let text = header.to_str().unwrap_or_default();
    let text = text.split_once('"').map_or("", |(_, text)| text);
    let text = text.strip_suffix('"').unwrap_or(text);
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}

impl fmt::Display for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.text.chars().take(2000).collect();
        write!(
            formatter,
            "{} answered {}: {text}",
            self.attempted, self.code
        )
    }
}
