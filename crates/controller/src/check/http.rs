//! Measures by HTTP: a GET request to a URL, or a query of a Prometheus server.
//!
//! Only hosts that `--check-hosts` names are asked. Redirects are not followed, answers are bounded, and no part
//! of an answer but its status or value is shown. A Secret is sent only to the host that it names itself.

mod answer;
mod clients;

use std::sync::Arc;

use ::http::{HeaderValue, Method, header::AUTHORIZATION};
use api::{CheckRun, pipeline::Check, reference::LocalReference};
use base64::{Engine, engine::general_purpose::STANDARD};
use expression::{Condition, ConditionError, condition::Variable};
use kube::Client;
use net::{HostPatterns, HttpRequest, parse_url};
use planner::{CHECK_HOST_NOT_ALLOWED, Failure, Measurement, Remedy};
use runtime::ObjectKey;
use url::Url;

use super::unknown;
use crate::{
    Settings,
    strategy::secrets::{SecretContents, SecretReader},
};
use answer::Answer;
use clients::Clients;

/// The path of Prometheus' instant queries.
const QUERY_PATH: [&str; 3] = ["api", "v1", "query"];

/// The URL of a check, or why no check can ask it.
pub(crate) fn usable_url(text: &str) -> Result<Url, String> {
    let url = parse_url(text).map_err(|rule| format!("the URL is not usable: {rule}"))?;
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
    match is_http && url.username().is_empty() && url.password().is_none() {
        true => Ok(url),
        false => {
            let text = "write the URL as https://host/path, and credentials into the Secret";
            Err(text.to_owned())
        }
    }
}

/// Why a check may not send a request to a URL, unless it may.
pub(crate) fn refused_host(hosts: &HostPatterns, url: &Url) -> Option<String> {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}"));
    let port = port.unwrap_or_default();
    (!hosts.allow(url)).then(|| {
        format!(
            "checks may not ask {host}{port}: add it to --check-hosts of the controller (checks.hosts of the chart)"
        )
    })
}

/// Sends the requests of checks.
pub(super) struct HttpMeasurer {
    hosts: HostPatterns,
    clients: Clients,
    secrets: SecretReader,
}

impl HttpMeasurer {
    pub(super) fn new(hub: Client, settings: &Settings) -> Self {
        Self {
            hosts: settings.check_hosts.clone(),
            clients: Clients::new(settings),
            secrets: SecretReader::new(hub),
        }
    }

    /// One measurement; nothing while too many others ask the same host.
    pub(super) async fn measure(&self, run: &CheckRun) -> Option<Measurement> {
        let check = &run.spec.check;
        let url = match self.url(run) {
            Ok(url) => url,
            Err(refused) => return Some(refused),
        };
        let _permit = self.clients.permit(&url)?;
        let condition = match planner::condition_of(check) {
            Some(Ok(condition)) => condition,
            Some(Err(problem)) => return Some(unknown("InvalidCheck", problem, true)),
            None => return Some(unknown("InvalidCheck", "the check asks nothing", true)),
        };
        let answer = match self.ask(run, &url).await {
            Ok(answer) => answer,
            Err(measurement) => return Some(measurement),
        };
        Some(judged(check, condition, answer).await)
    }

    /// The URL to ask, if its host is allowed.
    fn url(&self, run: &CheckRun) -> Result<Url, Measurement> {
        let invalid = |problem: String| unknown("InvalidUrl", problem, true);
        let check = &run.spec.check;
        let text = match &check.prometheus {
            Some(prometheus) => prometheus.address.clone(),
            None => planner::http_url(&run.spec).map_err(invalid)?,
        };
        let url = usable_url(&text).map_err(invalid)?;
        if let Some(text) = refused_host(&self.hosts, &url) {
            return Err(unknown(CHECK_HOST_NOT_ALLOWED, text, true));
        }
        if check.prometheus.is_none() {
            return Ok(url);
        }
        let query = planner::prometheus_query(&run.spec);
        let query = query.map_err(|problem| unknown("InvalidCheck", problem, true))?;
        Ok(query_url(url, &query))
    }

    async fn ask(&self, run: &CheckRun, url: &Url) -> Result<Answer, Measurement> {
        let check = &run.spec.check;
        let secret = match secret_of(check) {
            Some(reference) => Some(self.secret(run, reference, url).await?),
            None => None,
        };
        let client = self.clients.get(url, secret.as_deref()).await;
        let client = client.map_err(|error| {
            let needs_edit = error.remedy() == net::Remedy::Edit;
            unknown(error.reason(), error.to_string(), needs_edit)
        })?;
        let mut request = HttpRequest::new(Method::GET, url.clone());
        if let Some(value) = secret.as_deref().and_then(authorization) {
            request = request.header(AUTHORIZATION, value);
        }
        match check.prometheus {
            Some(_) => answer::of_prometheus(client.send(request).await, url).await,
            None => answer::of_http(client.send(request).await, url).await,
        }
    }

    /// The Secret, if it names the host as the one that it is for.
    async fn secret(
        &self,
        run: &CheckRun,
        reference: &LocalReference,
        url: &Url,
    ) -> Result<Arc<SecretContents>, Measurement> {
        let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
        let key = ObjectKey::new(namespace, &reference.name);
        let secret = self.secrets.read(&key).await.map_err(from_failure)?;
        let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
        let port = url.port_or_known_default().unwrap_or_default();
        let named = secret.host.as_deref().unwrap_or_default();
        if named == host || named == format!("{host}:{port}") {
            return Ok(secret);
        }
        let annotation = api::names::HOST_ANNOTATION;
        let text = format!(
            "the Secret {key} is not for {host}: set its annotation {annotation} to {host}"
        );
        Err(unknown("SecretNotForHost", text, true))
    }
}

fn secret_of(check: &Check) -> Option<&LocalReference> {
    let prometheus = check.prometheus.as_ref();
    let http = check.http.as_ref();
    let of_http = http.and_then(|it| it.secret_ref.as_ref());
    prometheus.and_then(|it| it.secret_ref.as_ref()).or(of_http)
}

/// The header for a Secret with `token`, or with `username` and `password`.
fn authorization(secret: &SecretContents) -> Option<HeaderValue> {
    let entry = |name: &str| secret.entries.get(name).filter(|it| !it.is_empty());
    let value = match (entry("token"), entry("username"), entry("password")) {
        (Some(token), _, _) => [b"Bearer ".as_slice(), token.trim_ascii()].concat(),
        (None, Some(user), Some(password)) => {
            let login = [user.as_slice(), b":", password].concat();
            format!("Basic {}", STANDARD.encode(login)).into_bytes()
        }
        _ => return None,
    };
    let mut value = HeaderValue::from_bytes(&value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn query_url(mut url: Url, query: &str) -> Url {
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(QUERY_PATH);
    }
    url.set_query(None);
    url.set_fragment(None);
    url.query_pairs_mut().append_pair("query", query);
    url
}

fn from_failure(failure: Failure) -> Measurement {
    let needs_edit = failure.remedy == Remedy::WaitForEdit;
    unknown(&failure.reason, failure.message, needs_edit)
}

/// Compares an answer with the condition, on a thread where that may take some time.
async fn judged(check: &Check, condition: Arc<Condition>, answer: Answer) -> Measurement {
    let Answer {
        observed,
        variables,
    } = answer;
    let is_http = check.http.is_some();
    let evaluated = tokio::task::spawn_blocking(move || {
        let named: Vec<(&str, Variable)> = variables;
        condition.holds(&named)
    });
    let result = match evaluated.await {
        Ok(result) => result,
        Err(_) => Err(ConditionError::Failed("it ended unexpectedly")),
    };
    let text = planner::condition_text(check);
    match result {
        Ok(true) => Measurement::Passed {
            observed: Some(observed),
        },
        Ok(false) => Measurement::Failed {
            reason: "ConditionNotMet".to_owned(),
            message: format!("{observed} does not meet `{text}`"),
            observed: Some(observed),
        },
        // What was asked answered, but not with what is expected of it.
        Err(error) if is_http => Measurement::Failed {
            reason: "ConditionNotMet".to_owned(),
            message: format!("{observed} does not meet `{text}`: {error}"),
            observed: Some(observed),
        },
        Err(ConditionError::NoValue(_)) => {
            let text = "the query returned no value; test for that with size(values)";
            unknown("NoValue", text, false)
        }
        Err(error) => unknown("ConditionFailed", format!("`{text}`: {error}"), true),
    }
}
