//! Flux's notification-controller: one POST per event, in the form of `event.toolkit.fluxcd.io/v1beta1`.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use reqwest::{StatusCode, redirect::Policy};
use serde::Serialize;

use super::{Entry, Failure, Reporter, Severity, Sink};

const TIMEOUT: Duration = Duration::from_secs(5);
/// What notification-controller accepts at most.
const MESSAGE_CHARACTERS: usize = 39_000;

pub(super) struct Poster {
    http: reqwest::Client,
    address: String,
    reporter: Reporter,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    involved_object: &'a ObjectReference,
    severity: &'static str,
    timestamp: String,
    message: String,
    reason: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    reporting_controller: &'a str,
    reporting_instance: &'a str,
}

impl Poster {
    pub(super) fn new(address: &str, reporter: Reporter) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(Policy::none())
            .build()?;
        Ok(Self {
            http,
            address: address.to_owned(),
            reporter,
        })
    }

    fn event<'a>(&'a self, entry: &'a Entry) -> Event<'a> {
        let occurrence = &entry.occurrence;
        Event {
            involved_object: &occurrence.regarding,
            severity: match occurrence.severity {
                Severity::Info => "info",
                Severity::Error => "error",
            },
            timestamp: to_the_second(entry.at),
            message: occurrence.note.chars().take(MESSAGE_CHARACTERS).collect(),
            reason: &occurrence.reason,
            metadata: occurrence.all_metadata(),
            reporting_controller: &self.reporter.controller,
            reporting_instance: &self.reporter.instance,
        }
    }
}

impl Sink for Poster {
    async fn send(&self, entry: &Entry) -> Result<(), Failure> {
        let request = self.http.post(&self.address).json(&self.event(entry));
        let response = request.send().await.map_err(|error| Failure {
            because: error.without_url().to_string(),
            may_pass: true,
        })?;
        match response.status() {
            status if status.is_success() => Ok(()),
            // It heard the same a moment ago.
            StatusCode::TOO_MANY_REQUESTS => Ok(()),
            status => Err(Failure {
                because: format!("the answer was {status}"),
                may_pass: status.is_server_error(),
            }),
        }
    }
}

fn to_the_second(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
