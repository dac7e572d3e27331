//! Sends the requests of the distribution API for one repository.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use net::{HttpClient, HttpError, HttpRequest, HttpResponse, OutboundHttp};
use parking_lot::Mutex;
use serde::Deserialize;
use url::Url;

use crate::{
    Credentials, Error, Manifest, Reference, Repository, Tag,
    challenge::Challenge,
    credentials::{Login, sensitive},
    manifest::ACCEPTED,
    redirect::{self, MOST_REDIRECTS},
    token::TokenRequest,
};

/// The largest manifest that is read. Registries accept at least this much.
const LARGEST_MANIFEST: usize = 4 << 20;
/// How much of a refusal is read.
const LONGEST_REFUSAL: usize = 16 << 10;
/// The digest that a registry claims for its answer.
const CLAIMED_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// Reads and tags manifests in one repository with the same credentials. Made for one operation: it
/// keeps its token until dropped.
pub struct RegistryClient<'a> {
    connections: RegistryConnections<'a>,
    repository: &'a Repository,
    credentials: &'a Credentials,
    client: HttpClient,
    authorization: Mutex<Option<HeaderValue>>,
}

/// Makes clients for the hosts of one operation.
pub(crate) struct RegistryConnections<'a> {
    http: &'a OutboundHttp,
    credentials: &'a Credentials,
}

impl RegistryConnections<'_> {
    /// A client for a host, if the address policy allows that.
    pub(crate) fn client(&self, host: &str) -> Result<HttpClient, Error> {
        let authority = self.credentials.certificate_authority.as_deref();
        let client = self.http.client(host, authority);
        client.map_err(|source| Error::Address {
            host: host.to_owned(),
            source,
        })
    }
}

impl<'a> RegistryClient<'a> {
    /// A client for a repository. Does not connect yet. `http` must allow connections without TLS
    /// exactly where the repository is insecure.
    pub fn new(
        http: &'a OutboundHttp,
        repository: &'a Repository,
        credentials: &'a Credentials,
    ) -> Result<Self, Error> {
        let connections = RegistryConnections { http, credentials };
        let client = connections.client(repository.reached_host())?;
        let authorization = match &credentials.login {
            Login::RegistryToken(token) => sensitive(&format!(
                "Bearer {}",
                token.expose_text().unwrap_or_default()
            )),
            _ => None,
        };
        Ok(Self {
            connections,
            repository,
            credentials,
            client,
            authorization: Mutex::new(authorization),
        })
    }

    /// Reads a manifest; nothing where the repository has none by that reference.
    pub async fn manifest(&self, reference: Reference<'_>) -> Result<Option<Manifest>, Error> {
        let url = self.repository.manifest_url(reference.as_str());
        let request = || {
            HttpRequest::new(Method::GET, url.clone())
                .header(header::ACCEPT, HeaderValue::from_static(ACCEPTED))
        };
        let response = self.send(request).await?;
        let (host, response) = self.follow(&url, response).await?;
        if response.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let response = check_status(&host, response).await?;
        let headers = response.headers.clone();
        let body = response.read_body(LARGEST_MANIFEST).await;
        let body = body.map_err(|source| unanswered(&host, source))?;
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let (content_type, claimed) = (text(header::CONTENT_TYPE), text(CLAIMED_DIGEST));
        Manifest::received(body, content_type, claimed, reference).map(Some)
    }

    /// Puts a manifest under a tag. What the tag pointed to is not looked at.
    pub async fn put_manifest(&self, tag: &Tag, manifest: &Manifest) -> Result<(), Error> {
        let url = self.repository.manifest_url(tag.as_str());
        let host = self.repository.reached_host();
        let refused = |because| Error::Redirected {
            host: host.to_owned(),
            because,
        };
        let media_type = HeaderValue::from_str(&manifest.media_type);
        let media_type = media_type.map_err(|_| Error::Refused {
            host: host.to_owned(),
            status: 0,
            code: Some("MEDIA_TYPE_INVALID".to_owned()),
        })?;
        let request = || {
            let mut request = HttpRequest::new(Method::PUT, url.clone())
                .header(header::CONTENT_TYPE, media_type.clone());
            request.body.clone_from(&manifest.bytes);
            request
        };
        let response = self.send(request).await?;
        if redirect::is_redirect(response.status) {
            return Err(refused(
                "tags are set at the registry itself; name that in the url",
            ));
        }
        check_status(host, response).await.map(drop)
    }

    /// Sends a request, with authentication where the registry asks for it.
    async fn send(&self, request: impl Fn() -> HttpRequest) -> Result<HttpResponse, Error> {
        let known = self.authorization.lock().clone();
        let first = self.send_once(request(), known).await?;
        if first.status != StatusCode::UNAUTHORIZED {
            return Ok(first);
        }
        let authorization = self.authenticate(&first.headers).await?;
        *self.authorization.lock() = Some(authorization.clone());
        self.send_once(request(), Some(authorization)).await
    }

    async fn send_once(
        &self,
        mut request: HttpRequest,
        authorization: Option<HeaderValue>,
    ) -> Result<HttpResponse, Error> {
        let host = self.repository.reached_host();
        let fingerprint = self.credentials.fingerprint();
        let limiter = self
            .connections
            .http
            .rate_limiter(self.repository.host(), fingerprint);
        let limited = |after| Error::RateLimited {
            host: host.to_owned(),
            after,
        };
        if let Some(after) = limiter.remaining_delay() {
            return Err(limited(after));
        }
        if let Some(authorization) = authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let response = self.client.send(request).await;
        let response = response.map_err(|source| unanswered(host, source))?;
        let delay = limiter.record_response(response.status, &response.headers, String::new);
        match delay {
            Some(after) => Err(limited(after)),
            None => Ok(response),
        }
    }

    /// The `Authorization` header that the registry asks for.
    async fn authenticate(&self, headers: &HeaderMap) -> Result<HeaderValue, Error> {
        let host = self.repository.reached_host();
        let unauthorized = || Error::Unauthorized {
            host: host.to_owned(),
        };
        match Challenge::from_headers(headers).ok_or_else(unauthorized)? {
            // A token that the registry itself should have accepted.
            _ if matches!(self.credentials.login, Login::RegistryToken(_)) => Err(unauthorized()),
            Challenge::Basic => self.credentials.basic().ok_or_else(unauthorized),
            Challenge::Bearer { realm, service } => {
                let request = TokenRequest {
                    realm: &realm,
                    service: service.as_deref(),
                    repository: self.repository.name(),
                    is_insecure: self.repository.is_insecure(),
                };
                request.send(&self.connections, self.credentials).await
            }
        }
    }

    /// Follows redirects without credentials. Returns the host that answered, too.
    async fn follow(
        &self,
        url: &Url,
        mut response: HttpResponse,
    ) -> Result<(String, HttpResponse), Error> {
        let mut url = url.clone();
        for _ in 0..MOST_REDIRECTS {
            let host = url.host_str().unwrap_or_default().to_owned();
            if !redirect::is_redirect(response.status) {
                return Ok((host, response));
            }
            url = redirect::target(&url, &response.headers, self.repository.is_insecure())?;
            let host = url.host_str().unwrap_or_default();
            let request = HttpRequest::new(Method::GET, url.clone())
                .header(header::ACCEPT, HeaderValue::from_static(ACCEPTED));
            let sent = self.connections.client(host)?.send(request).await;
            response = sent.map_err(|source| unanswered(host, source))?;
        }
        let host = url.host_str().unwrap_or_default().to_owned();
        Err(Error::Redirected {
            host,
            because: "too often",
        })
    }
}

/// A response with a 2xx status.
pub(crate) async fn check_status(
    host: &str,
    response: HttpResponse,
) -> Result<HttpResponse, Error> {
    let host = host.to_owned();
    let status = response.status;
    Err(match status {
        StatusCode::UNAUTHORIZED => Error::Unauthorized { host },
        StatusCode::FORBIDDEN => Error::Forbidden { host },
        _ if status.is_success() => return Ok(response),
        _ if status.is_server_error() => Error::Unavailable {
            host,
            status: status.as_u16(),
        },
        _ => Error::Refused {
            host,
            status: status.as_u16(),
            code: code(response).await,
        },
    })
}

/// The code in the body of a refusal, if it is one.
async fn code(response: HttpResponse) -> Option<String> {
    #[derive(Deserialize)]
    struct Refusal {
        errors: Vec<ErrorEntry>,
    }
    #[derive(Deserialize)]
    struct ErrorEntry {
        code: String,
    }
    let body = response.read_body(LONGEST_REFUSAL).await.ok()?;
    let refusal: Refusal = serde_json::from_slice(&body).ok()?;
    let code = refusal.errors.into_iter().next()?.code;
    let is_code = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    (code.len() <= 64 && code.bytes().all(is_code)).then_some(code)
}

/// Why there is no answer.
pub(crate) fn unanswered(host: &str, source: HttpError) -> Error {
    let host = host.to_owned();
    Error::Unanswered { host, source }
}
