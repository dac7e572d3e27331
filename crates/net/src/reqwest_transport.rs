//! The transport over the real network, built on reqwest.
//!
//! Resolves host names itself and refuses addresses that the policy forbids, so that a host name cannot
//! change its address between the check and the connection. The process must have installed a TLS provider.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::transport::TransportError;
use crate::{AddressError, AddressPolicy, HttpRequest, HttpResponse, HttpTransport, SecretValue};

/// How long establishing a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which proxy requests go through.
pub(crate) enum ProxyChoice<'a> {
    Direct,
    Url(&'a SecretValue),
    Environment,
}

/// How connections to one host are made.
pub(crate) struct ConnectionSettings<'a> {
    pub(crate) policy: AddressPolicy,
    pub(crate) certificate_authority: Option<&'a [u8]>,
    pub(crate) proxy: ProxyChoice<'a>,
}

pub(crate) struct ReqwestTransport(reqwest::Client);

impl ReqwestTransport {
    pub(crate) fn new(settings: &ConnectionSettings<'_>) -> Result<Self, AddressError> {
        let client = build(settings);
        client
            .map(Self)
            .map_err(|because| AddressError::Invalid { because })
    }
}

fn build(settings: &ConnectionSettings<'_>) -> Result<reqwest::Client, &'static str> {
    let mut builder = reqwest::Client::builder()
        .user_agent("sluice")
        .redirect(reqwest::redirect::Policy::none())
        .https_only(!settings.policy.allow_insecure)
        .connect_timeout(CONNECT_TIMEOUT)
        .dns_resolver(Arc::new(PolicyResolver(settings.policy)));
    if !matches!(settings.proxy, ProxyChoice::Environment) {
        builder = builder.no_proxy();
    }
    if let ProxyChoice::Url(url) = settings.proxy {
        let proxy = reqwest::Proxy::all(url.expose_text().unwrap_or_default());
        builder = builder.proxy(proxy.map_err(|_| "the proxy's URL is not usable")?);
    }
    if let Some(authority) = settings.certificate_authority {
        let certificates = reqwest::Certificate::from_pem_bundle(authority)
            .map_err(|_| "the certificate authority is not readable")?;
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(|_| "TLS is not available")
}

/// Resolves host names and refuses addresses that the policy forbids.
struct PolicyResolver(AddressPolicy);

impl Resolve for PolicyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0;
        Box::pin(async move {
            match policy.resolve(name.as_str(), 0).await {
                Ok(addresses) => Ok(Box::new(addresses.into_iter()) as Addrs),
                // To the caller a name that does not resolve is a host that cannot be reached.
                Err(AddressError::Unresolvable { source, .. }) => Err(source.into()),
                Err(refused) => Err(refused.into()),
            }
        })
    }
}

impl HttpTransport for ReqwestTransport {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, TransportError>> {
        let mut prepared = self.0.request(request.method, request.url);
        prepared = prepared.headers(request.headers);
        if !request.body.is_empty() {
            prepared = prepared.body(request.body);
        }
        Box::pin(async move {
            let response = prepared.send().await.map_err(without_url)?;
            let (status, headers) = (response.status(), response.headers().clone());
            let body = stream::unfold(response, |mut response| async {
                let chunk = response.chunk().await.map_err(without_url).transpose()?;
                Some((chunk, response))
            });
            Ok(HttpResponse::new(status, headers, body.boxed()))
        })
    }
}

/// The URL may contain a secret, and errors are shown.
fn without_url(error: reqwest::Error) -> TransportError {
    error.without_url().into()
}
