//! Authentication and authorization of people: TokenReviews and SubjectAccessReviews.
//!
//! TokenReviews are cached for a minute, and SubjectAccessReviews that decide what to show for some
//! seconds. Every action is reviewed.

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
use runtime::{ObjectKey, TtlCache};

use crate::{
    AppState,
    client::{Peer, rate_limit_key},
    problem::Problem,
};

/// How long the result of a TokenReview is used.
const TOKEN_TTL: Duration = Duration::from_secs(60);
/// How long the result of a SubjectAccessReview is used to decide what to show.
const ACCESS_TTL: Duration = Duration::from_secs(15);
/// How many tokens and access requests are remembered.
const MAX_CACHED: usize = 10_000;
const MAX_TOKEN_LENGTH: usize = 16 << 10;

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

/// An API group and a resource of it.
pub(crate) type ResourceType = (&'static str, &'static str);
pub(crate) const PIPELINES: ResourceType = ("pipelines.weave.works", "pipelines");
pub(crate) const CHANGES: ResourceType = ("pipelines.weave.works", "changes");
pub(crate) const FREEZES: ResourceType = ("pipelines.weave.works", "freezes");
pub(crate) const TRIGGERS: ResourceType = ("pipeline.jquad.rocks", "pipelinetriggers");
pub(crate) const CLUSTERS: ResourceType = ("gitops.weave.works", "gitopsclusters");

/// A verb and what it is used on.
#[derive(Clone, Copy)]
pub(crate) struct AccessRequest<'a> {
    resource_type: ResourceType,
    verb: &'static str,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
    environment: Option<&'a str>,
}

impl<'a> AccessRequest<'a> {
    pub(crate) fn new(verb: &'static str, pipeline: &'a ObjectKey) -> Self {
        Self {
            resource_type: PIPELINES,
            verb,
            namespace: Some(&pipeline.namespace),
            name: Some(&pipeline.name),
            environment: None,
        }
    }

    /// To stop promotions in a namespace, and to let them go on.
    pub(crate) fn freeze(namespace: &'a str) -> Self {
        Self {
            verb: "freeze",
            ..Self::list(PIPELINES, Some(namespace))
        }
    }

    /// To list a resource, in one namespace or everywhere.
    pub(crate) fn list(resource_type: ResourceType, namespace: Option<&'a str>) -> Self {
        Self {
            resource_type,
            verb: "list",
            namespace,
            name: None,
            environment: None,
        }
    }

    /// To inspect a cluster, all clusters of a namespace, or all there are.
    pub(crate) fn inspect(namespace: Option<&'a str>, name: Option<&'a str>) -> Self {
        Self {
            resource_type: CLUSTERS,
            verb: "inspect",
            namespace,
            name,
            environment: None,
        }
    }

    /// To create an object, in one namespace or in any.
    pub(crate) fn create(resource_type: ResourceType, namespace: Option<&'a str>) -> Self {
        Self {
            verb: "create",
            ..Self::list(resource_type, namespace)
        }
    }

    /// The same verb on an object of another resource.
    pub(crate) fn of(self, resource_type: ResourceType) -> Self {
        Self {
            resource_type,
            ..self
        }
    }

    pub(crate) fn environment(self, environment: &'a str) -> Self {
        Self {
            environment: Some(environment),
            ..self
        }
    }
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
        let user = match token(parts) {
            Some(token) => {
                check_token_attempts(app_state, &caller, token)?;
                app_state.access.user(token).await?
            }
            None => None,
        };
        let Some(user) = user else {
            let counted = app_state.unauthenticated_requests.count(caller, 1);
            counted.map_err(|it| Problem::too_many_requests(it.retry_after.as_secs() + 1))?;
            let detail = "send a token that the Kubernetes API accepts, as `Authorization: Bearer`";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, detail));
        };
        let app_state = app_state.clone();
        Ok(Self { user, app_state })
    }
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
