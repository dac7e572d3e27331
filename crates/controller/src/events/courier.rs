//! Delivers what must not get lost: waits until it is told, to Kubernetes and to Flux.

use jiff::Timestamp;
use kube::Client;

use super::{
    Entry, Failure, Occurrence, REPORTER, Reporter, Sink, flux, kubernetes, memory::Repeat,
};

/// Tells one thing at a time, in the same words however often and by whichever replica.
pub(crate) struct Courier {
    kubernetes: kubernetes::Writer,
    flux: Option<flux::Poster>,
}

impl Courier {
    /// `flux` is where notification-controller takes events.
    pub(crate) fn new(client: Client, flux: Option<&str>) -> Result<Self, reqwest::Error> {
        // A message is the same whoever sends it, so nothing in it names this process.
        let reporter = Reporter {
            controller: REPORTER.to_owned(),
            instance: REPORTER.to_owned(),
        };
        let flux = flux.map(|address| flux::Poster::new(address, reporter.clone()));
        Ok(Self {
            kubernetes: kubernetes::Writer::new(client, reporter),
            flux: flux.transpose()?,
        })
    }

    /// Delivers it once more. An Event of that name that exists already is the one meant.
    pub(crate) async fn deliver(
        &self,
        occurrence: Occurrence,
        name: String,
        at: Timestamp,
    ) -> Result<(), Failure> {
        let entry = Entry {
            occurrence,
            at,
            repeat: Repeat { name, count: 1 },
        };
        let to = |whom: &'static str| {
            move |failure: Failure| Failure {
                because: format!("cannot tell {whom}: {}", failure.because),
                ..failure
            }
        };
        let told = self.kubernetes.send(&entry).await;
        told.map_err(to("Kubernetes"))?;
        if let Some(flux) = &self.flux {
            let told = flux.send(&entry).await;
            told.map_err(to("Flux's notification-controller"))?;
        }
        Ok(())
    }
}
