//! Sends events that must not be lost: waits for the response of Kubernetes and of Flux.

use jiff::Timestamp;
use kube::Client;

use super::{
    DeliveryError, EventReporter, EventSink, ObjectEvent, PendingEvent, deduplication::EventRepeat,
    flux::FluxPoster, kubernetes::KubernetesWriter,
};

/// Sends one event at a time; the same event has the same content however often and by whichever
/// replica it is sent.
pub struct ReliableSender {
    kubernetes: KubernetesWriter,
    flux: Option<FluxPoster>,
}

impl ReliableSender {
    /// `controller` is the source of the events, `flux` the URL of notification-controller.
    pub fn new(
        client: Client,
        controller: &str,
        flux: Option<&str>,
    ) -> Result<Self, net::AddressError> {
        // Events are the same whichever replica sends them, so they do not name this process.
        let reporter = EventReporter {
            controller: controller.to_owned(),
            instance: controller.to_owned(),
        };
        let flux = flux.map(|address| FluxPoster::new(address, reporter.clone()));
        Ok(Self {
            kubernetes: KubernetesWriter::new(client, reporter),
            flux: flux.transpose()?,
        })
    }

    /// Sends an event, possibly again. An Event of that name that exists already counts as sent.
    pub async fn deliver(
        &self,
        event: ObjectEvent,
        name: String,
        at: Timestamp,
    ) -> Result<(), DeliveryError> {
        let entry = PendingEvent {
            event,
            at,
            repeat: EventRepeat { name, count: 1 },
        };
        let to = |receiver: &'static str| {
            move |error: DeliveryError| DeliveryError {
                because: format!("cannot send the event to {receiver}: {}", error.because),
                ..error
            }
        };
        let sent = self.kubernetes.send(&entry).await;
        sent.map_err(to("Kubernetes"))?;
        if let Some(flux) = &self.flux {
            let sent = flux.send(&entry).await;
            sent.map_err(to("Flux's notification-controller"))?;
        }
        Ok(())
    }
}
