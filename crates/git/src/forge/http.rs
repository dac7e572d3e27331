//! The one place that talks HTTP: bounded, without redirects, never to internal addresses.

use std::collections::HashMap;
use std::sync::{Arc, Once};
use std::time::Duration;

use ::http::{HeaderMap, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::Error;
use super::rate::Limiter;
use crate::address::{self, Reach, check_address};
use crate::credentials::Credentials;
use crate::{Proxy, Secret};

/// How long one call may take, answer included.
const TIME: Duration = Duration::from_secs(30);

/// How much one answer may hold.
const BODY: usize = 8 << 20;

/// A host, and the fingerprint of who asks it.
type Who = (String, [u8; 32]);

/// What all forges of a process share: where they may go, and what they were told to wait for.
pub struct Http {
    reach: Reach,
    proxy: Option<Proxy>,
    time: Duration,
    limiters: Mutex<HashMap<Who, Arc<Limiter>>>,
}

impl Http {
    /// Talks to where it may.
    pub fn new(reach: Reach) -> Self {
        Self {
            reach,
            proxy: None,
            time: TIME,
            limiters: Mutex::default(),
        }
    }

    /// The same with another bound on the time of one call.
    pub fn with_time_limit(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// The same through a proxy.
    pub fn with_proxy(mut self, proxy: Proxy) -> Self {
        self.proxy = Some(proxy);
        self
    }

    pub(super) fn reach(&self) -> Reach {
        self.reach
    }

    /// A client for a host that is no forge, bound by the same rules: no redirects, no internal
    /// addresses, the same proxy. Times and sizes are up to whoever uses it.
    pub fn client(
        &self,
        host: &str,
        authority: Option<&[u8]>,
    ) -> Result<reqwest::Client, address::Error> {
        if let Ok(address) = host.trim_matches(['[', ']']).parse() {
            check_address(host, address, self.reach)?;
        }
        let proxy = self.proxy.as_ref().and_then(|proxy| proxy.to(host));
        client(self.reach, authority, proxy).map_err(|because| address::Error::Invalid { because })
    }

    /// A client for one API and one credential.
    pub(super) fn caller(&self, base: Url, credentials: &Credentials) -> Result<Caller, Error> {
        let host = base.host_str().unwrap_or_default().to_owned();
        let authority = credentials.certificate_authority.as_deref();
        let client = self.client(&host, authority);
        let client = client.map_err(|error| Error::Unusable {
            because: match error {
                address::Error::Invalid { because } => because.to_owned(),
                error => error.to_string(),
            },
        })?;
        let key = (host, *credentials.fingerprint());
        let limiter = self.limiters.lock().entry(key).or_default().clone();
        Ok(Caller {
            client,
            base,
            limiter,
            time: self.time,
        })
    }
}

fn client(
    reach: Reach,
    authority: Option<&[u8]>,
    proxy: Option<&Secret>,
) -> Result<reqwest::Client, &'static str> {
    static PROVIDER: Once = Once::new();
    // Another part of the process may have chosen one before us, which is just as good.
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    let mut builder = reqwest::Client::builder()
        .no_proxy()
        .user_agent("sluice")
        .redirect(reqwest::redirect::Policy::none())
        .https_only(!reach.allow_insecure)
        .connect_timeout(Duration::from_secs(10))
        .dns_resolver(Arc::new(CheckedResolver(reach)));
    if let Some(proxy) = proxy {
        let proxy = reqwest::Proxy::all(proxy.expose_text().unwrap_or_default());
        builder = builder.proxy(proxy.map_err(|_| "the proxy's URL is not usable")?);
    }
    if let Some(authority) = authority {
        let certificates = reqwest::Certificate::from_pem_bundle(authority)
            .map_err(|_| "the certificate authority is not readable")?;
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(|_| "TLS is not available")
}

/// Finds addresses, and refuses internal ones.
struct CheckedResolver(Reach);

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<_> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            for address in &found {
                check_address(&host, address.ip(), reach)?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// One call, described.
pub(super) struct Call<'a> {
    /// Completes "cannot …".
    pub(super) attempted: &'static str,
    pub(super) method: Method,
    pub(super) path: Vec<&'a str>,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) body: Option<Value>,
    pub(super) since: Option<&'a str>,
}

impl<'a> Call<'a> {
    pub(super) fn new(attempted: &'static str, method: Method, path: &[&'a str]) -> Self {
        let path = path.to_vec();
        Self {
            attempted,
            method,
            path,
            query: Vec::new(),
            body: None,
            since: None,
        }
    }

    pub(super) fn query(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub(super) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    pub(super) fn since(mut self, validator: Option<&'a str>) -> Self {
        self.since = validator;
        self
    }
}

/// What came back.
pub(super) struct Reply {
    pub(super) attempted: &'static str,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Vec<u8>,
}

impl Reply {
    /// Reads the answer of a call that succeeded.
    pub(super) fn read<T: DeserializeOwned>(self) -> Result<T, Error> {
        let attempted = self.attempted;
        let body = self.accepted()?.body;
        serde_json::from_slice(&body).map_err(|_| Error::Unreadable {
            attempted,
            because: "unexpected JSON",
        })
    }

    /// Fails with the error that fits the status, unless it says the call succeeded.
    pub(super) fn accepted(self) -> Result<Self, Error> {
        let attempted = self.attempted;
        let message = || self.message();
        Err(match self.status.as_u16() {
            200..=299 => return Ok(self),
            401 => Error::Unauthorized { attempted },
            403 => Error::Forbidden {
                attempted,
                message: message(),
            },
            404 | 410 => Error::NotFound { attempted },
            status @ (408 | 425 | 500..=599) => Error::Unavailable { attempted, status },
            300..=399 => Error::Refused {
                attempted,
                message: "the API has moved".to_owned(),
            },
            _ => Error::Refused {
                attempted,
                message: message(),
            },
        })
    }

    /// What the forge said, shortened: its message and the messages of its details.
    pub(super) fn message(&self) -> String {
        let body = self.json();
        let mut parts = Vec::new();
        for place in ["message", "error", "errors"] {
            sentences(&body[place], &mut parts);
        }
        let text = parts.join("; ");
        let text: String = text.chars().filter(|c| !c.is_control()).take(300).collect();
        if text.is_empty() {
            format!("status {}", self.status.as_u16())
        } else {
            text
        }
    }

    /// The answer whatever it is; nothing if it is not JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Whether the forge has another page.
    pub(super) fn has_next(&self) -> bool {
        let links = self
            .headers
            .get_all("link")
            .iter()
            .filter_map(|link| link.to_str().ok());
        links
            .flat_map(|link| link.split(','))
            .any(|link| link.contains("rel=\"next\""))
    }

    pub(super) fn etag(&self) -> Option<String> {
        self.headers.get("etag")?.to_str().ok().map(str::to_owned)
    }
}

/// The sentences in an error: alone, in lists, under a field's name, or as the message of an object.
fn sentences<'a>(said: &'a Value, parts: &mut Vec<&'a str>) {
    match said {
        Value::String(text) => parts.push(text),
        Value::Array(items) => items.iter().for_each(|item| sentences(item, parts)),
        Value::Object(fields) if fields.contains_key("message") => {
            for place in ["message", "detail", "fields", "vetoes"] {
                sentences(&said[place], parts);
            }
        }
        Value::Object(fields) => fields.values().for_each(|field| sentences(field, parts)),
        _ => {}
    }
}

/// Talks to one API.
pub(super) struct Caller {
    client: reqwest::Client,
    base: Url,
    limiter: Arc<Limiter>,
    time: Duration,
}

impl Caller {
    /// Makes one call. Any status is an answer, except "too much".
    pub(super) async fn call(
        &self,
        call: Call<'_>,
        authorization: &str,
        accept: &'static str,
    ) -> Result<Reply, Error> {
        let attempted = call.attempted;
        if let Some(after) = self.limiter.wait() {
            return Err(Error::RateLimited { attempted, after });
        }
        let request = self.request(call, authorization, accept)?;
        let answer = tokio::time::timeout(self.time, receive(request, attempted)).await;
        let reply = answer.map_err(|_| Error::TimedOut {
            attempted,
            limit: self.time,
        })??;
        match self
            .limiter
            .learn(reply.status, &reply.headers, &reply.message())
        {
            Some(after) => Err(Error::RateLimited { attempted, after }),
            None => Ok(reply),
        }
    }

    fn request(
        &self,
        call: Call<'_>,
        authorization: &str,
        accept: &'static str,
    ) -> Result<reqwest::RequestBuilder, Error> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(&call.path);
        }
        let mut authorization =
            HeaderValue::from_str(authorization).map_err(|_| Error::Unusable {
                because: "the token is not one line of plain text".to_owned(),
            })?;
        authorization.set_sensitive(true);
        let mut request = self.client.request(call.method, url).query(&call.query);
        request = request
            .header("authorization", authorization)
            .header("accept", accept);
        if let Some(since) = call.since {
            request = request.header("if-none-match", since);
        }
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        Ok(request)
    }
}

async fn receive(
    request: reqwest::RequestBuilder,
    attempted: &'static str,
) -> Result<Reply, Error> {
    let unreachable = |error: reqwest::Error| Error::Unreachable {
        attempted,
        source: error.without_url().into(),
    };
    let mut response = request.send().await.map_err(unreachable)?;
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > BODY {
            return Err(Error::Unreadable {
                attempted,
                because: "too long",
            });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Reply {
        attempted,
        status,
        headers,
        body,
    })
}
