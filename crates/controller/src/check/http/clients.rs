//! HTTP clients by host, and a limit of requests to one host at the same time: a host that does not answer
//! must not keep checks of others from being measured.

use std::{collections::HashMap, sync::Arc, time::Duration};

use net::{AddressError, AddressPolicy, HttpClient, OutboundHttp};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use runtime::TtlCache;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

use crate::{Settings, strategy::secrets::SecretContents};

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many requests to one host there are at the same time.
const PER_HOST: usize = 8;
/// How long a client and its connections are kept.
const CLIENT_TTL: Duration = Duration::from_secs(5 * 60);
/// How many clients are kept.
const CLIENTS: usize = 256;
/// The entries of a Secret that may hold a certificate authority.
const AUTHORITY_ENTRIES: [&str; 2] = ["caFile", "ca.crt"];

/// A host, and the fingerprint of the certificate authority that is trusted there.
type ClientKey = (String, Vec<u8>);

/// Clients by host.
pub(super) struct Clients {
    http: OutboundHttp,
    clients: TtlCache<ClientKey, Result<HttpClient, Arc<AddressError>>>,
    permits: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Clients {
    pub(super) fn new(settings: &Settings) -> Self {
        // Which hosts may be asked is a list of the operator; inside a cluster Prometheus has no TLS.
        let http = OutboundHttp::new(AddressPolicy {
            allow_internal: settings.allow_internal_urls,
            allow_insecure: true,
        });
        let http = settings.replacements.in_http(http);
        Self {
            http: http
                .with_timeout(TIMEOUT)
                .with_proxy(settings.proxy.clone()),
            clients: TtlCache::new(CLIENT_TTL, CLIENTS),
            permits: Mutex::default(),
        }
    }

    /// To ask a host; nothing while too many others do.
    pub(super) fn permit(&self, url: &Url) -> Option<OwnedSemaphorePermit> {
        let host = url.host_str().unwrap_or_default();
        let mut permits = self.permits.lock();
        if permits.len() > CLIENTS {
            permits.retain(|_, host| host.available_permits() < PER_HOST);
        }
        let host = permits.entry(host.to_owned());
        let host = host.or_insert_with(|| Arc::new(Semaphore::new(PER_HOST)));
        host.clone().try_acquire_owned().ok()
    }

    /// The client for a host, which trusts the certificate authority of the Secret beside the system's.
    pub(super) async fn get(
        &self,
        url: &Url,
        secret: Option<&SecretContents>,
    ) -> Result<HttpClient, Arc<AddressError>> {
        let host = url.host_str().unwrap_or_default().to_owned();
        let entry = |name: &&str| secret.and_then(|secret| secret.entries.get(*name));
        let authority = AUTHORITY_ENTRIES.iter().find_map(entry);
        let fingerprint = authority.map_or(Vec::new(), |it| digest(&SHA256, it).as_ref().to_vec());
        let key = (host.clone(), fingerprint);
        let lookup = async {
            let client = self.http.client(&host, authority.map(Vec::as_slice));
            client.map_err(Arc::new)
        };
        self.clients.get_with(key, lookup).await
    }
}
