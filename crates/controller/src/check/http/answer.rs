//! What answers say, as the variables of a condition. No text of an answer's body is shown.

use std::collections::BTreeMap;

use ::http::{HeaderMap, StatusCode};
use expression::condition::Variable;
use net::{HttpError, HttpResponse};
use planner::Measurement;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::check::unknown;

/// The longest body that is read.
const MAX_BODY: usize = 256 << 10;
/// How much of the headers a condition sees.
const MAX_HEADERS: usize = 16 << 10;
/// The error types of Prometheus.
const ERROR_TYPES: [&str; 7] = [
    "bad_data",
    "canceled",
    "execution",
    "internal",
    "not_found",
    "timeout",
    "unavailable",
];

/// What was answered.
pub(super) struct Answer {
    /// The part that is shown.
    pub(super) observed: String,
    pub(super) variables: Vec<(&'static str, Variable)>,
}

/// The answer to a GET request. No answer is a failed measurement: what is checked is whether it answers.
pub(super) async fn of_http(
    response: Result<HttpResponse, HttpError>,
    url: &Url,
) -> Result<Answer, Measurement> {
    let failed = |error: HttpError| no_answer(&error, url, false);
    let response = response.map_err(failed)?;
    let status = response.status;
    let headers = headers(&response.headers);
    let body = response.read_body(MAX_BODY).await.map_err(failed)?;
    let mut variables = vec![
        ("status", Variable::Json(json!(status.as_u16()))),
        ("headers", Variable::Json(headers)),
    ];
    if let Ok(json) = serde_json::from_slice::<Value>(&body) {
        variables.push(("json", Variable::Json(json)));
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    variables.push(("body", Variable::Json(Value::String(body))));
    Ok(Answer {
        observed: format!("status {}", status.as_u16()),
        variables,
    })
}

/// The headers by name, as far as they are not too long.
fn headers(headers: &HeaderMap) -> Value {
    let mut size = 0;
    let mut kept = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        size += name.as_str().len() + value.len();
        if size > MAX_HEADERS {
            break;
        }
        kept.entry(name.as_str()).or_insert(value);
    }
    json!(kept)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueryResponse {
    status: String,
    #[serde(default)]
    data: Option<QueryData>,
    #[serde(default)]
    error_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueryData {
    result_type: String,
    result: Value,
}

/// The answer of Prometheus to a query. No answer is no measurement: it says nothing about the app.
pub(super) async fn of_prometheus(
    response: Result<HttpResponse, HttpError>,
    url: &Url,
) -> Result<Answer, Measurement> {
    let failed = |error: HttpError| no_answer(&error, url, true);
    let response = response.map_err(failed)?;
    let status = response.status;
    let body = response.read_body(MAX_BODY).await.map_err(failed)?;
    let response: Option<QueryResponse> = serde_json::from_slice(&body).ok();
    let data = match response {
        Some(QueryResponse {
            status,
            data: Some(data),
            ..
        }) if status == "success" => data,
        other => return Err(refused_query(status, other, url)),
    };
    let values = values(&data).ok_or_else(|| {
        let text = "the query must return a vector or a scalar";
        unknown("QueryRefused", text, true)
    })?;
    let mut variables = Vec::new();
    if let Some(value) = values.first() {
        variables.push(("value", Variable::Number(*value)));
    }
    let observed = match values.as_slice() {
        [] => "no value".to_owned(),
        [value] => format!("value {value}"),
        [value, rest @ ..] => format!("value {value} and {} more", rest.len()),
    };
    variables.push(("values", Variable::Numbers(values)));
    Ok(Answer {
        observed,
        variables,
    })
}

/// Why Prometheus gave no result.
fn refused_query(status: StatusCode, response: Option<QueryResponse>, url: &Url) -> Measurement {
    let host = url.host_str().unwrap_or_default();
    let error = response.and_then(|it| it.error_type);
    let error = error.filter(|it| ERROR_TYPES.contains(&it.as_str()));
    match (error.as_deref(), status.as_u16()) {
        (Some("bad_data"), _) => {
            let text = format!("{host} cannot parse the query (bad_data); correct it");
            unknown("QueryRefused", text, true)
        }
        (Some(error), _) => unknown(
            "QueryRefused",
            format!("{host} could not run the query ({error})"),
            false,
        ),
        (None, 401 | 403) => {
            let text = format!(
                "{host} refused the credentials (status {})",
                status.as_u16()
            );
            unknown("CredentialsRefused", text, true)
        }
        (None, code @ 300..=399) => {
            let text = format!(
                "{host} answers with a redirect (status {code}), which is not followed; name the final address"
            );
            unknown("RedirectNotFollowed", text, true)
        }
        (None, code) => {
            let text = format!("{host} gave no answer of Prometheus (status {code})");
            unknown("NoAnswer", text, false)
        }
    }
}

/// The values of an instant vector or a scalar.
fn values(data: &QueryData) -> Option<Vec<f64>> {
    let number = |sample: &Value| sample.get(1)?.as_str()?.parse::<f64>().ok();
    match (data.result_type.as_str(), &data.result) {
        ("vector", Value::Array(series)) => {
            series.iter().map(|it| number(it.get("value")?)).collect()
        }
        ("scalar", sample) => Some(vec![number(sample)?]),
        _ => None,
    }
}

/// Why there is no answer. An address that the policy refuses waits for an edit.
fn no_answer(error: &HttpError, url: &Url, is_prometheus: bool) -> Measurement {
    if let Some(refused) = error.refused_address() {
        return unknown(refused.reason(), refused.to_string(), true);
    }
    let host = url.host_str().unwrap_or_default();
    let reason = match error {
        HttpError::TooLarge { .. } => "AnswerTooLarge",
        HttpError::Unreachable { .. } | HttpError::TimedOut { .. } => "NoAnswer",
    };
    let message = format!("{host}: {error}");
    match is_prometheus {
        true => unknown(reason, message, reason == "AnswerTooLarge"),
        false => Measurement::Failed {
            reason: reason.to_owned(),
            message,
            observed: None,
        },
    }
}
