//! Responses of the hooks, with the codes and texts of the Weave pipeline-controller.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use jiff::{Timestamp, fmt::rfc2822::DateTimePrinter};
use planner::hook::{HookRefusal, PromotionResult};

use crate::rate_limiter::RateLimited;

const CANNOT_PROMOTE: &str =
    "error promoting application, please consult the promotion server's logs";

pub(super) fn empty(code: StatusCode) -> Response {
    code.into_response()
}

pub(super) fn text(code: StatusCode, text: impl Into<String>) -> Response {
    (code, text.into()).into_response()
}

pub(super) fn not_found_page() -> Response {
    let nosniff = [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (StatusCode::NOT_FOUND, nosniff, "404 page not found\n").into_response()
}

pub(super) fn cannot_promote() -> Response {
    text(StatusCode::INTERNAL_SERVER_ERROR, CANNOT_PROMOTE)
}

pub(super) fn too_many_requests(limited: RateLimited, now: Timestamp) -> Response {
    let mut response = empty(StatusCode::TOO_MANY_REQUESTS);
    if let Some(date) = http_date_after(limited.retry_after, now) {
        response.headers_mut().insert(header::RETRY_AFTER, date);
    }
    response
}

/// The HTTP date after a duration, rounded up to whole seconds.
fn http_date_after(time: Duration, now: Timestamp) -> Option<HeaderValue> {
    let whole_seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    let date = now.checked_add(Duration::from_secs(whole_seconds)).ok()?;
    let date = DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&date)
        .ok()?;
    date.parse().ok()
}

/// A refusal. Its text may contain names from the request, and may be shown by a browser.
pub(super) fn refused(refusal: &HookRefusal) -> Response {
    let text_of_refusal = refusal.to_string();
    let escaped = match refusal {
        HookRefusal::NoRevision | HookRefusal::BadRevision | HookRefusal::NoHook => text_of_refusal,
        _ => escape_html(&text_of_refusal),
    };
    text(StatusCode::UNPROCESSABLE_ENTITY, escaped)
}

/// A report that is stored and ignored.
pub(super) fn not_signed(how: &str) -> Response {
    let warning = format!("the event is not signed: it is stored but ignored; use {how}");
    text(StatusCode::ACCEPTED, escape_html(&warning))
}

fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => escaped.push_str("&#34;"),
            '\'' => escaped.push_str("&#39;"),
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// What the controller did about a promotion.
pub(super) fn promotion_result(result: Option<PromotionResult>) -> Response {
    match result {
        Some(PromotionResult::Proposed { url }) => match HeaderValue::from_str(&url) {
            Ok(url) => (StatusCode::CREATED, [(header::LOCATION, url)]).into_response(),
            Err(_) => empty(StatusCode::CREATED),
        },
        Some(PromotionResult::Quiet) => empty(StatusCode::NO_CONTENT),
        Some(PromotionResult::Failed) => cannot_promote(),
        Some(PromotionResult::Held) | None => empty(StatusCode::ACCEPTED),
    }
}
