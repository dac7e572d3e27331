//! One API of a forge as one credential: its URL, the authentication, and lists in pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::http::{Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use net::{OutboundHttp, SecretValue, parse_url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use super::api_client::{ApiClient, ApiRequest, ApiResponse};
use super::github::AppTokens;
use super::{Error, ListingValidator, PullRequestListing};
use crate::credentials::{Credentials, GitHubApp};
use crate::repository_url::{RepositoryUrl, Scheme};

/// The credential, in the form that the forge expects in the `Authorization` header.
pub(super) enum Authentication {
    Bearer(SecretValue),
    /// Gitea's name for a bearer token.
    Token(SecretValue),
    Basic(String, SecretValue),
    App(GitHubApp, Arc<AppTokens>),
}

impl Authentication {
    /// The token, or the password, which often is a token.
    pub(super) fn token(credentials: &Credentials) -> Result<SecretValue, Error> {
        let password = || credentials.password.as_ref().map(|(_, password)| password);
        let token = credentials.token.as_ref().or_else(password);
        token.cloned().ok_or_else(no_credential)
    }

    /// User name and password.
    pub(super) fn password(credentials: &Credentials) -> Result<Self, Error> {
        let password = credentials.password.clone();
        let (username, password) = password.ok_or_else(no_credential)?;
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

fn no_credential() -> Error {
    unusable("the secret has neither \"token\" nor \"username\" and \"password\"")
}

pub(super) fn unusable(because: &str) -> Error {
    Error::Unusable {
        because: because.to_owned(),
    }
}

/// The web address of the repository's host. The port of an ssh URL is not the port of the API.
pub(super) fn origin(url: &RepositoryUrl) -> String {
    match url.scheme() {
        Scheme::Http => format!("http://{}", url.authority()),
        Scheme::Ssh => format!("https://{}", url.host()),
        Scheme::Https | Scheme::File => format!("https://{}", url.authority()),
    }
}

/// The URL of the API: from the secret, else the default of this forge.
pub(super) fn api_url(
    credentials: &Credentials,
    default: impl Fn() -> String,
) -> Result<Url, Error> {
    let text = credentials.api_url.clone().unwrap_or_else(default);
    let url = parse_url(&text).map_err(|_| unusable("the API has no usable URL"))?;
    if url.host_str().is_none() || url.query().is_some() || !url.username().is_empty() {
        return Err(unusable("the API has no usable URL"));
    }
    Ok(url)
}

/// The path of the project without the path below which the forge itself is served.
pub(super) fn project_below<'a>(project: &'a str, api: &Url, suffix: &str) -> &'a str {
    let root = api.path().trim_end_matches('/').trim_end_matches(suffix);
    let root = root.trim_matches('/');
    let rest = project.strip_prefix(root).filter(|_| !root.is_empty());
    rest.and_then(|rest| rest.strip_prefix('/'))
        .unwrap_or(project)
}

/// A list that the API returns in pages.
#[derive(Clone)]
pub(super) struct PagedList<'a> {
    pub(super) attempted: &'static str,
    pub(super) path: Vec<&'a str>,
    pub(super) query: Vec<(&'static str, String)>,
}

impl<'a> PagedList<'a> {
    fn page(&self, parameter: &'static str, page: u64) -> ApiRequest<'a> {
        let mut request = ApiRequest::new(self.attempted, Method::GET, &self.path);
        request.query = self.query.clone();
        request.query(parameter, page.to_string())
    }
}

/// A page whose body says whether there is a next one.
pub(super) trait ListPage: DeserializeOwned {
    type Item;
    /// The query parameter that selects a page.
    const PARAMETER: &'static str;
    /// Its value for the first page.
    const FIRST: u64;

    /// Its value for the next page; `None` if this is the last one.
    fn next(&self, current: u64) -> Option<u64>;

    fn into_items(self) -> Vec<Self::Item>;
}

/// The first pages of a list.
pub(super) struct FetchedPages<T> {
    pub(super) items: Vec<T>,
    pub(super) validator: ListingValidator,
    pub(super) is_complete: bool,
}

impl<T> FetchedPages<T> {
    /// All items of the list. Fails if there are pages that were not fetched.
    pub(super) fn into_complete(self, attempted: &'static str) -> Result<Vec<T>, Error> {
        match self.is_complete {
            true => Ok(self.items),
            false => Err(too_many_pages(attempted)),
        }
    }
}

fn too_many_pages(attempted: &'static str) -> Error {
    Error::Unreadable {
        attempted,
        because: "too many pages",
    }
}

/// Sends requests to one API with one credential.
pub(super) struct ForgeSession {
    client: ApiClient,
    authentication: Arc<Authentication>,
    accept: &'static str,
    api_version: Option<&'static str>,
    /// Statuses with which this forge asks unknown clients to sign in.
    sign_in_statuses: &'static [u16],
}

/// The query parameter of [`ForgeSession::with_api_version`].
const API_VERSION: &str = "api-version";

impl ForgeSession {
    pub(super) fn new(
        http: &OutboundHttp,
        base: Url,
        credentials: &Credentials,
        authentication: impl Into<Arc<Authentication>>,
    ) -> Result<Self, Error> {
        Ok(Self {
            client: ApiClient::new(http, base, credentials)?,
            authentication: authentication.into(),
            accept: "application/json",
            api_version: None,
            sign_in_statuses: &[],
        })
    }

    pub(super) fn accepting(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    /// Adds `api-version` to the query of requests that do not have it.
    pub(super) fn with_api_version(mut self, version: &'static str) -> Self {
        self.api_version = Some(version);
        self
    }

    /// Treats these statuses as a refused token.
    pub(super) fn with_sign_in_statuses(mut self, statuses: &'static [u16]) -> Self {
        self.sign_in_statuses = statuses;
        self
    }

    pub(super) async fn send(&self, mut request: ApiRequest<'_>) -> Result<ApiResponse, Error> {
        let attempted = request.attempted;
        let has_version = request.query.iter().any(|(name, _)| *name == API_VERSION);
        if let Some(version) = self.api_version.filter(|_| !has_version) {
            request = request.query(API_VERSION, version);
        }
        let header = self.authentication.header().await?;
        let response = self.client.send(request, &header, self.accept).await?;
        match self.sign_in_statuses.contains(&response.status.as_u16()) {
            true => Err(Error::Unauthorized { attempted }),
            false => Ok(response),
        }
    }

    /// Sends a request and parses the response.
    pub(super) async fn fetch<T: DeserializeOwned>(
        &self,
        attempted: &'static str,
        method: Method,
        path: &[&str],
        body: Option<Value>,
    ) -> Result<T, Error> {
        let mut request = ApiRequest::new(attempted, method, path);
        request.body = body;
        self.send(request).await?.parse()
    }

    /// The permissions of a GitHub App, by name; nothing if the credential is no app or they are not told.
    pub(super) async fn app_permissions(&self) -> Result<Option<BTreeMap<String, String>>, Error> {
        match &*self.authentication {
            Authentication::App(app, tokens) => tokens.permissions(app).await,
            _ => Ok(None),
        }
    }

    /// Posts a body and expects success.
    pub(super) async fn post(
        &self,
        attempted: &'static str,
        path: &[&str],
        body: Value,
    ) -> Result<(), Error> {
        let request = ApiRequest::new(attempted, Method::POST, path).body(body);
        self.send(request).await?.success().map(drop)
    }

    /// Fetches the first pages of a list, at most `limit`, as long as a `Link` header names the next.
    pub(super) async fn first_pages<T: DeserializeOwned>(
        &self,
        list: &PagedList<'_>,
        limit: u64,
    ) -> Result<FetchedPages<T>, Error> {
        let mut pages = FetchedPages {
            items: Vec::new(),
            validator: ListingValidator::default(),
            is_complete: false,
        };
        for page in 1..=limit {
            let response = self.send(list.page("page", page)).await?.success()?;
            pages.validator.0.extend(response.etag());
            pages.is_complete = !response.has_next_page();
            pages.items.extend(response.parse::<Vec<T>>()?);
            if pages.is_complete {
                break;
            }
        }
        Ok(pages)
    }

    /// Fetches all pages of a list. Fails if there are more than `limit`.
    pub(super) async fn all_linked_pages<T: DeserializeOwned>(
        &self,
        list: &PagedList<'_>,
        limit: u64,
    ) -> Result<(Vec<T>, ListingValidator), Error> {
        let mut pages = self.first_pages(list, limit).await?;
        let validator = std::mem::take(&mut pages.validator);
        Ok((pages.into_complete(list.attempted)?, validator))
    }

    /// Fetches all pages of a list whose pages say themselves which one is next.
    pub(super) async fn all_pages<P: ListPage>(
        &self,
        list: &PagedList<'_>,
        limit: u64,
    ) -> Result<Vec<P::Item>, Error> {
        let mut items = Vec::new();
        let mut current = P::FIRST;
        for _ in 0..limit {
            let request = list.page(P::PARAMETER, current);
            let page: P = self.send(request).await?.parse()?;
            let next = page.next(current);
            items.extend(page.into_items());
            match next {
                Some(next) => current = next,
                None => return Ok(items),
            }
        }
        Err(too_many_pages(list.attempted))
    }

    /// Lists pull requests, unless the validators say that nothing has changed.
    pub(super) async fn list_if_changed<T: DeserializeOwned>(
        &self,
        list: &PagedList<'_>,
        limit: u64,
        since: Option<&ListingValidator>,
        into_pull_requests: impl FnOnce(Vec<T>) -> Vec<super::PullRequest>,
    ) -> Result<PullRequestListing, Error> {
        if let Some(since) = since
            && self.is_unchanged(list, since).await?
        {
            return Ok(PullRequestListing::Unchanged);
        }
        let (items, validator) = self.all_linked_pages(list, limit).await?;
        Ok(PullRequestListing::Changed {
            pull_requests: into_pull_requests(items),
            validator,
        })
    }

    /// Whether all pages still have the same `ETag`.
    async fn is_unchanged(
        &self,
        list: &PagedList<'_>,
        since: &ListingValidator,
    ) -> Result<bool, Error> {
        for (page, etag) in (1..).zip(&since.0) {
            let request = list.page("page", page).if_none_match(etag);
            let response = self.send(request).await?;
            if response.status != StatusCode::NOT_MODIFIED {
                response.success()?;
                return Ok(false);
            }
        }
        Ok(!since.0.is_empty())
    }
}
