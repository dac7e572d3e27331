//! Sends events to Flux's notification-controller: one POST each, in the format of
//! `event.toolkit.fluxcd.io/v1beta1`.

use std::{collections::BTreeMap, time::Duration};

use http::{Method, StatusCode};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use net::{AddressError, AddressPolicy, HttpClient, HttpRequest, OutboundHttp};
use serde::Serialize;
use url::Url;

use super::{DeliveryError, EventReporter, EventSeverity, EventSink, PendingEvent};

const TIMEOUT: Duration = Duration::from_secs(5);
/// What notification-controller accepts at most.
const MESSAGE_CHARACTERS: usize = 39_000;

pub(super) struct FluxPoster {
    http: HttpClient,
    url: Url,
    reporter: EventReporter,
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

impl FluxPoster {
    pub(super) fn new(address: &str, reporter: EventReporter) -> Result<Self, AddressError> {
        let invalid = |because| AddressError::Invalid { because };
        let url = net::parse_url(address).map_err(invalid)?;
        // The address comes from the flags of the process, so it may be in its own pod.
        let http = OutboundHttp::new(AddressPolicy::UNRESTRICTED)
            .with_environment_proxy()
            .with_timeout(TIMEOUT)
            .client(url.host_str().unwrap_or_default(), None)?;
        Ok(Self {
            http,
            url,
            reporter,
        })
    }

    fn event<'a>(&'a self, entry: &'a PendingEvent) -> Event<'a> {
        let event = &entry.event;
        Event {
            involved_object: &event.regarding,
            severity: match event.severity {
                EventSeverity::Info => "info",
                EventSeverity::Error => "error",
            },
            timestamp: to_the_second(entry.at),
            message: event.note.chars().take(MESSAGE_CHARACTERS).collect(),
            reason: &event.reason,
            metadata: event.all_metadata(),
            reporting_controller: &self.reporter.controller,
            reporting_instance: &self.reporter.instance,
        }
    }
}

impl EventSink for FluxPoster {
    async fn send(&self, entry: &PendingEvent) -> Result<(), DeliveryError> {
        let request = HttpRequest::new(Method::POST, self.url.clone());
        let request = request.json(&self.event(entry));
        let request = request.map_err(|error| DeliveryError {
            because: format!("the event cannot be written as JSON: {error}"),
            is_retryable: false,
        })?;
        let response = self.http.send(request).await;
        let response = response.map_err(|error| DeliveryError {
            because: error.to_string(),
            is_retryable: true,
        })?;
        match response.status {
            status if status.is_success() => Ok(()),
            // It received the same event a moment ago.
            StatusCode::TOO_MANY_REQUESTS => Ok(()),
            status => Err(DeliveryError {
                because: format!("the response was {status}"),
                is_retryable: status.is_server_error(),
            }),
        }
    }
}

fn to_the_second(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
