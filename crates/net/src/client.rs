//! The HTTP client that all outbound requests go through, and the settings it is made from.
//!
//! A client is bound to one host. It applies the address policy before the first request and limits the
//! time of every request. Rate limits are shared by all clients with the same host and credential.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::reqwest_transport::{ConnectionSettings, ProxyChoice, ReqwestTransport};
use crate::{
    AddressError, AddressPolicy, HttpError, HttpRequest, HttpResponse, HttpTransport, Proxy,
    RateLimiter,
};

/// How long a request may take, unless configured otherwise: from connecting to the end of the body.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// A host, and the fingerprint of the credential that is used there.
type RateLimitKey = (String, [u8; 32]);

/// Settings for outbound HTTP, and the rate limits that its users share.
pub struct OutboundHttp {
    policy: AddressPolicy,
    proxy: Option<Proxy>,
    uses_environment_proxy: bool,
    timeout: Duration,
    /// Replaces the network, in simulations.
    transport: Option<Arc<dyn HttpTransport>>,
    rate_limiters: Mutex<HashMap<RateLimitKey, Arc<RateLimiter>>>,
}

impl OutboundHttp {
    /// Direct connections to where the policy allows.
    pub fn new(policy: AddressPolicy) -> Self {
        Self {
            policy,
            proxy: None,
            uses_environment_proxy: false,
            timeout: DEFAULT_TIMEOUT,
            transport: None,
            rate_limiters: Mutex::default(),
        }
    }

    /// Sets how long a request may take, from connecting to the end of the body.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Connects through a proxy, except to the hosts that it excludes.
    pub fn with_proxy(mut self, proxy: Option<Proxy>) -> Self {
        self.proxy = proxy;
        self
    }

    /// Connects through the proxies that `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` name.
    pub fn with_environment_proxy(mut self) -> Self {
        self.uses_environment_proxy = true;
        self
    }

    /// Sends all requests through this transport instead of the network.
    pub fn with_transport(mut self, transport: Arc<dyn HttpTransport>) -> Self {
        self.transport = Some(transport);
        self
    }

    /// The address policy.
    pub fn policy(&self) -> AddressPolicy {
        self.policy
    }

    /// A client for one host, which trusts the certificate authority beside the system's ones. Does
    /// not connect yet.
    pub fn client(
        &self,
        host: &str,
        certificate_authority: Option<&[u8]>,
    ) -> Result<HttpClient, AddressError> {
        self.policy.check_host(host)?;
        let proxy = self.proxy.as_ref().and_then(|proxy| proxy.url_for(host));
        let settings = ConnectionSettings {
            policy: self.policy,
            certificate_authority,
            proxy: match proxy {
                Some(url) => ProxyChoice::Url(url),
                None if self.uses_environment_proxy => ProxyChoice::Environment,
                None => ProxyChoice::Direct,
            },
        };
        let transport = match &self.transport {
            Some(transport) => transport.clone(),
            None => Arc::new(ReqwestTransport::new(&settings)?),
        };
        Ok(HttpClient {
            transport,
            timeout: self.timeout,
        })
    }

    /// The rate limiter for a host and the fingerprint of the credential that is used there.
    pub fn rate_limiter(&self, host: &str, credential: [u8; 32]) -> Arc<RateLimiter> {
        let mut limiters = self.rate_limiters.lock();
        let limiter = limiters.entry((host.to_owned(), credential));
        limiter.or_default().clone()
    }
}

/// Sends requests to one host.
#[derive(Clone)]
pub struct HttpClient {
    transport: Arc<dyn HttpTransport>,
    timeout: Duration,
}

impl HttpClient {
    /// Sends a request. Any status is a response. The time limit covers reading the body, too.
    pub async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (host, method) = (request.host().to_owned(), request.method.clone());
        let (start, limit) = (Instant::now(), self.timeout);
        let deadline = start + limit;
        let response = timeout_at(deadline, self.transport.send(request)).await;
        let response = match response {
            Ok(Ok(response)) => Ok(response.until(deadline, limit)),
            Ok(Err(source)) => Err(HttpError::Unreachable { source }),
            Err(_) => Err(HttpError::TimedOut { limit }),
        };
        let milliseconds = start.elapsed().as_millis();
        match &response {
            Ok(response) => {
                let status = response.status.as_u16();
                tracing::debug!(%host, %method, status, milliseconds, "outbound HTTP request answered");
            }
            Err(error) => {
                tracing::debug!(%host, %method, %error, milliseconds, "outbound HTTP request failed");
            }
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use http::{HeaderMap, Method, StatusCode};
    use url::Url;

    use super::*;
    use crate::transport::TransportError;

    /// Answers every request after a delay, with the given number of bytes.
    struct SimulatedNetwork {
        delay: Duration,
        bytes: usize,
    }

    impl HttpTransport for SimulatedNetwork {
        fn send(
            &self,
            _request: HttpRequest,
        ) -> BoxFuture<'_, Result<HttpResponse, TransportError>> {
            Box::pin(async move {
                tokio::time::sleep(self.delay).await;
                let body = vec![b'x'; self.bytes];
                let headers = HeaderMap::new();
                Ok(HttpResponse::with_body(StatusCode::OK, headers, body))
            })
        }
    }

    async fn fetch(network: SimulatedNetwork) -> Result<usize, HttpError> {
        let http = OutboundHttp::new(AddressPolicy::default()).with_transport(Arc::new(network));
        let client = http.client("forge.example", None).expect("a client");
        let url = Url::parse("https://forge.example/").expect("a URL");
        let response = client.send(HttpRequest::new(Method::GET, url)).await?;
        Ok(response.read_body(8).await?.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_transport_replaces_the_network_and_limits_still_apply() {
        let second = Duration::from_secs(1);
        let network = |delay, bytes| SimulatedNetwork { delay, bytes };
        assert_eq!(fetch(network(second, 8)).await.ok(), Some(8));
        let too_large = fetch(network(second, 9)).await;
        assert!(matches!(too_large, Err(HttpError::TooLarge { limit: 8 })));
        let late = fetch(network(second * 31, 8)).await;
        assert!(matches!(late, Err(HttpError::TimedOut { .. })));
    }

    #[test]
    fn an_internal_address_gets_no_client() {
        let http = OutboundHttp::new(AddressPolicy::default());
        let refused = http.client("127.0.0.1", None).err().expect("a refusal");
        assert_eq!(refused.reason(), "InternalUrl");
    }
}
