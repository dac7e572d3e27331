//! One API as one credential: where it is, how it wants to be greeted, and its pages.

use std::sync::Arc;

use ::http::{Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use net::{OutboundHttp, SecretValue, parse_url};
use serde::de::DeserializeOwned;
use url::Url;

use super::api_client::{ApiClient, ApiRequest, ApiResponse};
use super::github::AppTokens;
use super::{Error, ListingValidator};
use crate::credentials::{Credentials, GitHubApp};
use crate::repository_url::{RepositoryUrl, Scheme};

/// How a forge wants to be told who asks.
pub(super) enum Authentication {
    Bearer(SecretValue),
    /// Gitea's own word for a bearer.
    Token(SecretValue),
    Basic(String, SecretValue),
    App(GitHubApp, Arc<AppTokens>),
}

impl Authentication {
    /// A token, or the password that often is one.
    pub(super) fn token(credentials: &Credentials) -> Result<SecretValue, Error> {
        let password = || credentials.password.as_ref().map(|(_, password)| password);
        let token = credentials.token.as_ref().or_else(password);
        token.cloned().ok_or_else(nothing_to_show)
    }

    /// User name and password.
    pub(super) fn password(credentials: &Credentials) -> Result<Self, Error> {
        let password = credentials.password.clone();
        let (username, password) = password.ok_or_else(nothing_to_show)?;
        Ok(Self::Basic(username, password))
    }

    async fn header(&self) -> Result<String, Error> {
        let text = |secret: &SecretValue| secret.expose_text().unwrap_or_default().to_owned();
        Ok(match self {
            Self::Bearer(token) => format!("Bearer {}", text(token)),
            Self::Token(token) => format!("token {}", text(token)),
            Self::Basic(username, password) => {
                let pair = STANDARD.encode(format!("{username}:{}", text(password)));
                format!("Basic {pair}")
            }
            Self::App(app, tokens) => format!("Bearer {}", text(&tokens.token(app).await?)),
        })
    }
}

fn nothing_to_show() -> Error {
    unusable("the secret has neither \"token\" nor \"username\" and \"password\"")
}

pub(super) fn unusable(because: &str) -> Error {
    Error::Unusable {
        because: because.to_owned(),
    }
}

/// Where the host of a repository is on the web. The port of ssh is not the API's.
pub(super) fn origin(url: &RepositoryUrl) -> String {
    match url.scheme() {
        Scheme::Http => format!("http://{}", url.authority()),
        Scheme::Ssh => format!("https://{}", url.host()),
        Scheme::Https | Scheme::File => format!("https://{}", url.authority()),
    }
}

/// Where the API is: as the secret says, else where this forge usually has it.
pub(super) fn api(credentials: &Credentials, usual: impl Fn() -> String) -> Result<Url, Error> {
    let text = credentials.api_url.clone().unwrap_or_else(usual);
    let url = parse_url(&text).map_err(|_| unusable("the API has no usable URL"))?;
    if url.host_str().is_none() || url.query().is_some() || !url.username().is_empty() {
        return Err(unusable("the API has no usable URL"));
    }
    Ok(url)
}

/// The repository's path without the path that the forge itself lives below.
pub(super) fn below<'a>(project: &'a str, api: &Url, suffix: &str) -> &'a str {
    let root = api.path().trim_end_matches('/').trim_end_matches(suffix);
    let root = root.trim_matches('/');
    let rest = project.strip_prefix(root).filter(|_| !root.is_empty());
    rest.and_then(|rest| rest.strip_prefix('/'))
        .unwrap_or(project)
}

/// A list of pages that link to each other.
#[derive(Clone)]
pub(super) struct List<'a> {
    pub(super) attempted: &'static str,
    pub(super) path: Vec<&'a str>,
    pub(super) query: Vec<(&'static str, String)>,
}

impl<'a> List<'a> {
    pub(super) fn page(&self, page: usize) -> ApiRequest<'a> {
        let mut request = ApiRequest::new(self.attempted, Method::GET, &self.path);
        request.query = self.query.clone();
        request.query("page", page.to_string())
    }
}

/// Some pages of a list.
pub(super) struct Pages<T> {
    pub(super) items: Vec<T>,
    pub(super) validator: ListingValidator,
    pub(super) is_whole: bool,
}

impl<T> Pages<T> {
    /// Only if there are no more.
    pub(super) fn whole(
        self,
        attempted: &'static str,
    ) -> Result<(Vec<T>, ListingValidator), Error> {
        if self.is_whole {
            return Ok((self.items, self.validator));
        }
        Err(Error::Unreadable {
            attempted,
            because: "too many pages",
        })
    }
}

/// Talks to one API as one credential.
pub(super) struct ForgeSession {
    client: ApiClient,
    login: Arc<Authentication>,
    accept: &'static str,
}

impl ForgeSession {
    pub(super) fn new(
        http: &OutboundHttp,
        base: Url,
        credentials: &Credentials,
        login: impl Into<Arc<Authentication>>,
    ) -> Result<Self, Error> {
        Ok(Self {
            client: ApiClient::new(http, base, credentials)?,
            login: login.into(),
            accept: "application/json",
        })
    }

    pub(super) fn accepting(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    pub(super) async fn send(&self, request: ApiRequest<'_>) -> Result<ApiResponse, Error> {
        let authorization = self.login.header().await?;
        self.client.send(request, &authorization, self.accept).await
    }

    /// The first pages of a list, as many as `limit`.
    pub(super) async fn pages<T: DeserializeOwned>(
        &self,
        list: &List<'_>,
        limit: usize,
    ) -> Result<Pages<T>, Error> {
        let mut pages = Pages {
            items: Vec::new(),
            validator: ListingValidator::default(),
            is_whole: false,
        };
        for page in 1..=limit {
            let response = self.send(list.page(page)).await?.success()?;
            pages.validator.0.extend(response.etag());
            pages.is_whole = !response.has_next_page();
            pages.items.extend(response.parse::<Vec<T>>()?);
            if pages.is_whole {
                break;
            }
        }
        Ok(pages)
    }

    /// Whether every page still is what it was.
    pub(super) async fn is_same(
        &self,
        list: &List<'_>,
        since: &ListingValidator,
    ) -> Result<bool, Error> {
        for (index, etag) in since.0.iter().enumerate() {
            let request = list.page(index + 1).if_none_match(etag);
            let response = self.send(request).await?;
            if response.status != StatusCode::NOT_MODIFIED {
                response.success()?;
                return Ok(false);
            }
        }
        Ok(!since.0.is_empty())
    }
}
