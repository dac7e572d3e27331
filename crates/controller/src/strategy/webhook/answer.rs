//! Reads the response of a webhook, which is not trusted.

use std::time::Duration;

use http::{
    StatusCode,
    header::{LOCATION, RETRY_AFTER},
};
use net::HttpResponse;
use planner::{Failure, Remedy};
use serde::Deserialize;
use url::Url;

use crate::strategy::failure::{needs_edit, transient};

/// How much of a response is read.
const LONGEST_BODY: usize = 64 << 10;
/// The longest URL that is shown.
const LONGEST_URL: usize = 2048;
/// The longest `Retry-After` that is honoured.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

#[derive(Default, Deserialize)]
struct Body {
    url: Option<String>,
}

/// The URL for people, if the request was accepted.
pub(super) async fn read(url: &Url, response: HttpResponse) -> Result<Option<String>, Failure> {
    let status = response.status;
    if !status.is_success() {
        return Err(refusal(url, &response));
    }
    let location = response.headers.get(LOCATION);
    let location = location.and_then(|location| location.to_str().ok());
    if let Some(shown) = location.and_then(|location| shown(url, location)) {
        return Ok(Some(shown));
    }
    // It was accepted: an unreadable body is no reason to send it again.
    let body = response.read_body(LONGEST_BODY).await.unwrap_or_default();
    let body: Body = serde_json::from_slice(&body).unwrap_or_default();
    Ok(body.url.and_then(|link| shown(url, &link)))
}

/// A URL that can be shown: absolute, or a path on the same host.
fn shown(url: &Url, link: &str) -> Option<String> {
    let link = match link.starts_with('/') {
        true => url.join(link).ok()?,
        false => Url::parse(link).ok()?,
    };
    let is_plain = link.username().is_empty() && link.password().is_none();
    let is_http = matches!(link.scheme(), "http" | "https");
    let text = String::from(link);
    (is_http && is_plain && text.len() <= LONGEST_URL).then_some(text)
}

fn refusal(url: &Url, response: &HttpResponse) -> Failure {
    let status = response.status;
    let host = url.host_str().unwrap_or_default();
    let answered = format!("the webhook at {host} answered {}", status.as_u16());
    match status {
        StatusCode::REQUEST_TIMEOUT
        | StatusCode::CONFLICT
        | StatusCode::TOO_EARLY
        | StatusCode::TOO_MANY_REQUESTS => {
            later(transient("WebhookUnavailable", answered), response)
        }
        _ if status.is_server_error() => later(transient("WebhookUnavailable", answered), response),
        _ if status.is_redirection() => {
            let text = format!("{answered}, a redirection; write the address it leads to");
            needs_edit("WebhookRefused", text)
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let text = format!("{answered}; check the key in the Secret");
            needs_edit("WebhookRefused", text)
        }
        _ => needs_edit("WebhookRefused", format!("{answered}; check its URL")),
    }
}

/// The failure with the delay that the response asks for.
fn later(failure: Failure, response: &HttpResponse) -> Failure {
    let asked = response.headers.get(RETRY_AFTER);
    let seconds = asked.and_then(|asked| asked.to_str().ok()?.trim().parse().ok());
    match seconds {
        Some(seconds) => Failure {
            remedy: Remedy::RetryAfter(Duration::from_secs(seconds).min(LONGEST_WAIT)),
            ..failure
        },
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_opened_safely_is_shown() {
        let url = Url::parse("https://ci.example/hooks/secret").expect("a URL");
        for (link, expected) in [
            ("https://ci.example/job/5", Some("https://ci.example/job/5")),
            ("/job/5", Some("https://ci.example/job/5")),
            // It would show part of the hook's own address.
            ("5", None),
            ("javascript:alert(1)", None),
            ("https://joe:secret@ci.example/", None),
            ("//other.example/x", Some("https://other.example/x")),
        ] {
            assert_eq!(shown(&url, link).as_deref(), expected, "{link}");
        }
        let long = format!("https://ci.example/{}", "x".repeat(LONGEST_URL));
        assert_eq!(shown(&url, &long), None);
    }
}
