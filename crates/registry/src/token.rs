//! Asks the token service that a registry names for a token.

use http::{HeaderValue, Method, StatusCode, header};
use net::{HttpRequest, parse_url};
use serde::Deserialize;
use url::{Url, form_urlencoded};

use crate::{
    Credentials, Error,
    client::{RegistryConnections, check_status, unanswered},
    credentials::{Login, sensitive},
};

/// How much of an answer is read.
const LONGEST_ANSWER: usize = 256 << 10;
/// The name that token services see.
const CLIENT: &str = "sluice";

/// The answer of a token service.
#[derive(Deserialize)]
struct TokenResponse {
    token: Option<String>,
    access_token: Option<String>,
}

/// What a token is asked for.
pub(crate) struct TokenRequest<'a> {
    pub(crate) realm: &'a str,
    pub(crate) service: Option<&'a str>,
    /// The name of the repository.
    pub(crate) repository: &'a str,
    pub(crate) is_insecure: bool,
}

impl TokenRequest<'_> {
    /// Gets a token that may read and tag, as an `Authorization` header.
    pub(crate) async fn send(
        &self,
        connections: &RegistryConnections<'_>,
        credentials: &Credentials,
    ) -> Result<HeaderValue, Error> {
        let url = self.url()?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let client = connections.client(&host)?;
        let response = client.send(self.request(url, credentials)).await;
        let response = response.map_err(|source| unanswered(&host, source))?;
        // Some services answer 400 for a password that they do not know.
        if response.status == StatusCode::BAD_REQUEST {
            return Err(Error::Unauthorized { host });
        }
        let response = check_status(&host, response).await?;
        let body = response.read_body(LONGEST_ANSWER).await;
        let body = body.map_err(|source| unanswered(&host, source))?;
        let answer: Option<TokenResponse> = serde_json::from_slice(&body).ok();
        let token = answer.and_then(|answer| answer.token.or(answer.access_token));
        let token = token.and_then(|token| sensitive(&format!("Bearer {token}")));
        token.ok_or(Error::NoToken { host })
    }

    /// The realm, which the registry chooses: over TLS, unless the registry itself is reached without.
    fn url(&self) -> Result<Url, Error> {
        let invalid = |because| Error::InvalidUrl { because };
        let url = parse_url(self.realm).map_err(invalid)?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        let is_allowed = url.scheme() == "https" || url.scheme() == "http" && self.is_insecure;
        match is_plain && is_allowed {
            true => Ok(url),
            false => Err(invalid("the registry names a token service without TLS")),
        }
    }

    fn request(&self, mut url: Url, credentials: &Credentials) -> HttpRequest {
        let scope = format!("repository:{}:pull,push", self.repository);
        let service = self.service.map(|service| ("service", service));
        let fields = service.into_iter().chain([("scope", scope.as_str())]);
        if let Login::IdentityToken(token) = &credentials.login {
            let token = token.expose_text().unwrap_or_default();
            let grant = [
                ("grant_type", "refresh_token"),
                ("client_id", CLIENT),
                ("refresh_token", token),
            ];
            let mut request = HttpRequest::new(Method::POST, url);
            let form = form_urlencoded::Serializer::new(String::new())
                .extend_pairs(fields.chain(grant))
                .finish();
            request.body = form.into_bytes();
            let form = HeaderValue::from_static("application/x-www-form-urlencoded");
            return request.header(header::CONTENT_TYPE, form);
        }
        url.query_pairs_mut().extend_pairs(fields);
        let request = HttpRequest::new(Method::GET, url);
        match credentials.basic() {
            Some(basic) => request.header(header::AUTHORIZATION, basic),
            None => request,
        }
    }
}
