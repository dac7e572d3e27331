//! Answers as the ancestor gave them.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use jiff::{Timestamp, fmt::rfc2822::DateTimePrinter};
use planner::hook::{HookRefusal, PromotionResult};

use crate::limiter::TooMany;

const CANNOT_PROMOTE: &str =
    "error promoting application, please consult the promotion server's logs";

pub(super) fn empty(code: StatusCode) -> Response {
    code.into_response()
}

pub(super) fn text(code: StatusCode, text: impl Into<String>) -> Response {
    (code, text.into()).into_response()
}

pub(super) fn no_such_page() -> Response {
    let nosniff = [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (StatusCode::NOT_FOUND, nosniff, "404 page not found\n").into_response()
}

pub(super) fn cannot_promote() -> Response {
    text(StatusCode::INTERNAL_SERVER_ERROR, CANNOT_PROMOTE)
}

pub(super) fn too_many(too_many: TooMany) -> Response {
    let mut response = empty(StatusCode::TOO_MANY_REQUESTS);
    if let Some(date) = date_in(too_many.retry_after) {
        response.headers_mut().insert(header::RETRY_AFTER, date);
    }
    response
}

/// A moment from now as HTTP writes it, not before that much has passed.
fn date_in(time: Duration) -> Option<HeaderValue> {
    let whole_seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    let moment = Timestamp::now()
        .checked_add(Duration::from_secs(whole_seconds))
        .ok()?;
    let date = DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&moment)
        .ok()?;
    date.parse().ok()
}

/// What was refused. The text may hold names from the call, and somebody may look at it in a
/// browser.
pub(super) fn refused(refusal: &HookRefusal) -> Response {
    let said = refusal.to_string();
    let said = match refusal {
        HookRefusal::NoRevision | HookRefusal::BadRevision | HookRefusal::NoHook => said,
        _ => html(&said),
    };
    text(StatusCode::UNPROCESSABLE_ENTITY, said)
}

/// What is stored and has no effect.
pub(super) fn not_signed(how: &str) -> Response {
    let said = format!("the event is not signed: it is stored and does not count; use {how}");
    text(StatusCode::ACCEPTED, html(&said))
}

pub(super) fn html(text: &str) -> String {
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

/// What became of it.
pub(super) fn outcome(outcome: Option<PromotionResult>) -> Response {
    match outcome {
        Some(PromotionResult::Proposed { url }) => match HeaderValue::from_str(&url) {
            Ok(url) => (StatusCode::CREATED, [(header::LOCATION, url)]).into_response(),
            Err(_) => empty(StatusCode::CREATED),
        },
        Some(PromotionResult::Quiet) => empty(StatusCode::NO_CONTENT),
        Some(PromotionResult::Failed) => cannot_promote(),
        Some(PromotionResult::Held) | None => empty(StatusCode::ACCEPTED),
    }
}
