//! Authentication and authorization of people: TokenReviews, sessions and SubjectAccessReviews.
//!
//! TokenReviews are cached for a minute, and SubjectAccessReviews that decide what to show for some
//! seconds. Every action is reviewed.

mod request;

use std::{
    collections::{BTreeMap, HashSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, header, request::Parts},
};
use futures::future::try_join_all;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use ring::digest::{SHA256, digest};
use runtime::TtlCache;

use crate::{
    AppState,
    client::{Peer, rate_limit_key},
    oidc::OidcUser,
    problem::Problem,
    session::{Identity, Session},
};

pub(crate) use request::{
    AccessRequest, CHANGES, CHECK_RUNS, CLUSTERS, EVENTS, FREEZES, PIPELINES, ResourceType,
    SECRETS, TRIGGERS,
};

/// The header that carries the CSRF token of a session with requests to REST that change something.
const CSRF_HEADER: &str = "x-csrf-token";
/// How long the result of a TokenReview is used.
const TOKEN_TTL: Duration = Duration::from_secs(60);
/// How long the result of a SubjectAccessReview is used to decide what to show.
const ACCESS_TTL: Duration = Duration::from_secs(15);
/// How many tokens and access requests are remembered.
const MAX_CACHED: usize = 10_000;
const MAX_TOKEN_LENGTH: usize = 16 << 10;
/// The group of everybody whom the API server has authenticated.
const AUTHENTICATED: &str = "system:authenticated";

/// How long a token counts as known to be valid.
const KNOWN_TOKEN_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The SHA-256 of a token.
type TokenHash = Vec<u8>;

/// Creates TokenReviews and SubjectAccessReviews.
pub(crate) struct AccessReviewer {
    client: Client,
    tokens: TtlCache<TokenHash, Result<Option<Arc<UserInfo>>, Problem>>,
    known_tokens: TtlCache<TokenHash, ()>,
    access: TtlCache<CachedAccessRequest, Result<bool, Problem>>,
}

impl AccessReviewer {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            tokens: TtlCache::new(TOKEN_TTL, MAX_CACHED),
            known_tokens: TtlCache::new(KNOWN_TOKEN_TTL, MAX_CACHED),
            access: TtlCache::new(ACCESS_TTL, MAX_CACHED),
        }
    }

    /// The user of a token; nothing if the token is not valid.
    pub(crate) async fn user(&self, token: &str) -> Result<Option<Arc<UserInfo>>, Problem> {
        let lookup = async {
            let user = self.review(token).await;
            if let Ok(Some(_)) = user {
                self.known_tokens.get_with(hash(token), async {}).await;
            } else if user.is_ok() {
                self.known_tokens.remove(&hash(token));
            }
            cached_unless_failed(user.map(|user| user.map(Arc::new)), TOKEN_TTL)
        };
        self.tokens.get_with_ttl(hash(token), lookup).await
    }

    /// Whether a token was valid when it was last reviewed.
    pub(crate) fn is_known_good(&self, token: &str) -> bool {
        self.known_tokens.get(&hash(token)).is_some()
    }

    async fn review(&self, token: &str) -> Result<Option<UserInfo>, Problem> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let review = reviews.create(&PostParams::default(), &review).await?;
        let status = review.status.unwrap_or_default();
        let is_named = |user: &UserInfo| user.username.as_ref().is_some_and(|it| !it.is_empty());
        let user = status.user.filter(is_named);
        Ok(user.filter(|_| status.authenticated == Some(true)))
    }

    async fn allows(
        &self,
        user: &UserInfo,
        attributes: ResourceAttributes,
    ) -> Result<bool, Problem> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username.clone(),
                groups: user.groups.clone(),
                uid: user.uid.clone(),
                extra: user.extra.clone(),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = reviews.create(&PostParams::default(), &review).await?;
        Ok(review.status.is_some_and(|status| status.allowed))
    }
}

fn hash(token: &str) -> TokenHash {
    digest(&SHA256, token.as_bytes()).as_ref().to_vec()
}

/// A result and how long to cache it: a failure not at all.
fn cached_unless_failed<T>(
    result: Result<T, Problem>,
    ttl: Duration,
) -> (Result<T, Problem>, Duration) {
    let ttl = if result.is_ok() { ttl } else { Duration::ZERO };
    (result, ttl)
}

/// An authenticated user.
#[derive(Clone)]
pub(crate) struct Caller {
    user: Arc<UserInfo>,
    app_state: Arc<AppState>,
}

/// An access request of a user, as the key of a cache.
#[derive(Clone, PartialEq, Eq, Hash)]
struct CachedAccessRequest {
    user: Option<String>,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Vec<String>>>,
    resource_type: ResourceType,
    verb: &'static str,
    namespace_name_environment: [Option<String>; 3],
}

impl Caller {
    /// The user of a token; nothing if the token is not valid.
    pub(crate) async fn authenticate(
        app_state: &Arc<AppState>,
        token: &str,
    ) -> Result<Option<Self>, Problem> {
        let user = app_state.access.user(token).await?;
        let app_state = app_state.clone();
        Ok(user.map(|user| Self { user, app_state }))
    }

    /// The user of a session; nothing if its token is not valid any more, or if its provider is not the
    /// one that is configured.
    pub(crate) async fn of_session(
        app_state: &Arc<AppState>,
        session: &Session,
    ) -> Result<Option<Self>, Problem> {
        match &session.identity {
            None => Ok(None),
            Some(Identity::Token(token)) => Self::authenticate(app_state, token).await,
            Some(Identity::User(user)) => {
                let settings = app_state.oidc.as_ref().map(|oidc| &oidc.settings);
                let is_configured = settings.is_some_and(|it| it.issuer_url == user.issuer);
                Ok(is_configured.then(|| Self::of_provider(app_state, user)))
            }
        }
    }

    /// A user of the OpenID provider. The API server counts them as authenticated, too.
    fn of_provider(app_state: &Arc<AppState>, user: &OidcUser) -> Self {
        let groups = user.groups.iter().cloned();
        let groups = groups.chain([AUTHENTICATED.to_owned()]).collect();
        let user = UserInfo {
            username: Some(user.name.clone()),
            groups: Some(groups),
            ..UserInfo::default()
        };
        Self {
            user: Arc::new(user),
            app_state: app_state.clone(),
        }
    }

    pub(crate) fn app_state(&self) -> &Arc<AppState> {
        &self.app_state
    }

    pub(crate) fn name(&self) -> &str {
        self.user.username.as_deref().unwrap_or_default()
    }

    /// The groups that they are in.
    pub(crate) fn groups(&self) -> &[String] {
        self.user.groups.as_deref().unwrap_or_default()
    }

    /// Whether they may, for the whole pipeline or for the environment that is asked about.
    pub(crate) async fn may(&self, access_request: &AccessRequest<'_>) -> Result<bool, Problem> {
        let attributes = |subresource: Option<&str>| ResourceAttributes {
            group: Some(access_request.resource_type.0.to_owned()),
            version: Some("v1alpha1".to_owned()),
            resource: Some(access_request.resource_type.1.to_owned()),
            subresource: subresource.map(str::to_owned),
            verb: Some(access_request.verb.to_owned()),
            namespace: access_request.namespace.map(str::to_owned),
            name: access_request.name.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        let reviewer = &self.app_state.access;
        if reviewer.allows(&self.user, attributes(None)).await? {
            return Ok(true);
        }
        match access_request.environment {
            None => Ok(false),
            environment => reviewer.allows(&self.user, attributes(environment)).await,
        }
    }

    /// Whether they may, as of some seconds ago: only to decide what to show.
    pub(crate) async fn may_see(
        &self,
        access_request: &AccessRequest<'_>,
    ) -> Result<bool, Problem> {
        let cache_key = CachedAccessRequest {
            user: self.user.username.clone(),
            groups: self.user.groups.clone(),
            extra: self.user.extra.clone(),
            resource_type: access_request.resource_type,
            verb: access_request.verb,
            namespace_name_environment: [
                access_request.namespace,
                access_request.name,
                access_request.environment,
            ]
            .map(|it| it.map(str::to_owned)),
        };
        let lookup = async { cached_unless_failed(self.may(access_request).await, ACCESS_TTL) };
        let access = &self.app_state.access.access;
        access.get_with_ttl(cache_key, lookup).await
    }

    /// Those of the objects that they may list.
    pub(crate) async fn visible<T>(
        &self,
        resource_type: ResourceType,
        mut objects: Vec<T>,
        namespace_of: impl Fn(&T) -> String,
    ) -> Result<Vec<T>, Problem> {
        let everywhere =
            AccessRequest::list(resource_type, self.app_state.settings.namespace.as_deref());
        if self.may_see(&everywhere).await? {
            return Ok(objects);
        }
        let namespaces: HashSet<String> = objects.iter().map(&namespace_of).collect();
        let asked = namespaces.into_iter().map(|namespace| async {
            let may = self
                .may_see(&AccessRequest::list(resource_type, Some(&namespace)))
                .await?;
            Ok::<_, Problem>(Some(namespace).filter(|_| may))
        });
        let allowed = try_join_all(asked).await?;
        let allowed: HashSet<String> = allowed.into_iter().flatten().collect();
        objects.retain(|object| allowed.contains(&namespace_of(object)));
        Ok(objects)
    }

    /// Fails unless they may.
    pub(crate) async fn authorize(&self, access_request: AccessRequest<'_>) -> Result<(), Problem> {
        if self.may(&access_request).await? {
            return Ok(());
        }
        let resource = access_request.resource_type.1;
        let environment = access_request.environment;
        let environment = environment.map(|it| format!(" or {resource}/{it}"));
        let environment = environment.unwrap_or_default();
        let namespace = access_request
            .namespace
            .map(|it| format!(" in namespace {it}"));
        let detail = format!(
            "{} may not {} {resource}{environment}{}: a role with that verb is needed",
            self.name(),
            access_request.verb,
            namespace.unwrap_or_default()
        );
        Err(Problem::new(StatusCode::FORBIDDEN, detail))
    }
}

impl FromRequestParts<Arc<AppState>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        app_state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        let peer = parts.extensions.get::<Peer>().copied().unwrap_or_default();
        let caller = rate_limit_key(peer, &parts.headers, &app_state.settings.trusted_proxies);
        let authenticated = match token(parts) {
            Some(token) => {
                check_token_attempts(app_state, &caller, token)?;
                Self::authenticate(app_state, token).await?
            }
            None => with_session(parts, app_state).await?,
        };
        let Some(authenticated) = authenticated else {
            let counted = app_state.unauthenticated_requests.count(caller, 1);
            counted.map_err(|it| Problem::too_many_requests(it.retry_after.as_secs() + 1))?;
            let detail = "send a token that the Kubernetes API accepts, as `Authorization: Bearer`";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, detail));
        };
        Ok(authenticated)
    }
}

/// The user of the browser's session, if any. A request that changes something needs the session's CSRF
/// token, too: browsers send cookies with requests of other web sites.
async fn with_session(parts: &Parts, app_state: &Arc<AppState>) -> Result<Option<Caller>, Problem> {
    let Some(session) = app_state.sessions.read(&parts.headers).await? else {
        return Ok(None);
    };
    let csrf = parts.headers.get(CSRF_HEADER);
    let csrf = csrf.and_then(|it| it.to_str().ok()).unwrap_or_default();
    if !parts.method.is_safe() && !session.has_csrf_token(csrf) {
        let detail = format!("send the session's CSRF token in the header {CSRF_HEADER}");
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    Caller::of_session(app_state, &session).await
}

/// Fails if the address has sent too many invalid tokens. A token that was valid before is reviewed
/// in any case, whoever else shares its address.
pub(crate) fn check_token_attempts(
    app_state: &AppState,
    caller: &IpAddr,
    token: &str,
) -> Result<(), Problem> {
    if app_state.access.is_known_good(token) {
        return Ok(());
    }
    let exhausted = app_state.unauthenticated_requests.is_exhausted(caller);
    exhausted.map_err(|it| Problem::too_many_requests(it.retry_after.as_secs() + 1))
}

fn token(parts: &Parts) -> Option<&str> {
    let header = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    let is_token = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty();
    (is_token && token.len() <= MAX_TOKEN_LENGTH).then_some(token)
}
