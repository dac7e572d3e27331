//! Who asks, and whether they may.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
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
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use tokio::time::Instant;

use super::Problem;
use crate::{
    Door,
    client::{Peer, bucket},
    watched::ObjectKey,
};

/// How long the API server's word about a token is taken.
const FRESH: Duration = Duration::from_secs(60);
/// How long its word about what to show is taken. Who acts is asked about each time.
const SHOWN: Duration = Duration::from_secs(15);
/// How many tokens are remembered.
const REMEMBERED: usize = 10_000;
const LONGEST_TOKEN: usize = 16 << 10;

/// A user by the hash of their token; nobody, where it is no good; and when that was asked.
type Known = HashMap<Vec<u8>, (Instant, Option<Arc<UserInfo>>)>;
/// What the roles said, and when.
type Said = HashMap<Question, (Instant, bool)>;

/// Asks the API server about tokens and rights.
pub(crate) struct Access {
    client: Client,
    known: Mutex<Known>,
    said: Mutex<Said>,
}

impl Access {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
            said: Mutex::default(),
        }
    }

    /// Whose token it is; nobody, where it is no good.
    pub(crate) async fn user(&self, token: &str) -> Result<Option<Arc<UserInfo>>, kube::Error> {
        let fingerprint = digest(&SHA256, token.as_bytes()).as_ref().to_vec();
        if let Some((asked_at, user)) = self.known.lock().get(&fingerprint)
            && asked_at.elapsed() < FRESH
        {
            return Ok(user.clone());
        }
        let asked_at = Instant::now();
        let user = self.review(token).await?.map(Arc::new);
        let mut known = self.known.lock();
        if known.len() >= REMEMBERED {
            known.retain(|_, (asked_at, _)| asked_at.elapsed() < FRESH);
        }
        if known.len() < REMEMBERED {
            known.insert(fingerprint, (asked_at, user.clone()));
        }
        Ok(user)
    }

    /// Whether a token was good when it was last asked about.
    pub(crate) fn knows(&self, token: &str) -> bool {
        let fingerprint = digest(&SHA256, token.as_bytes());
        let known = self.known.lock();
        matches!(known.get(fingerprint.as_ref()), Some((_, Some(_))))
    }

    async fn review(&self, token: &str) -> Result<Option<UserInfo>, kube::Error> {
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
    ) -> Result<bool, kube::Error> {
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

/// Somebody whose token the API server knows.
#[derive(Clone)]
pub(crate) struct Caller {
    user: Arc<UserInfo>,
    door: Arc<Door>,
}

/// A group and a resource of it.
pub(crate) type Kind = (&'static str, &'static str);
pub(crate) const PIPELINES: Kind = ("pipelines.weave.works", "pipelines");
pub(crate) const CHANGES: Kind = ("pipelines.weave.works", "changes");
pub(crate) const TRIGGERS: Kind = ("pipeline.jquad.rocks", "pipelinetriggers");
pub(crate) const CLUSTERS: Kind = ("gitops.weave.works", "gitopsclusters");

/// What somebody wants to do to what.
#[derive(Clone, Copy)]
pub(crate) struct Wish<'a> {
    pub(super) kind: Kind,
    pub(super) verb: &'static str,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) environment: Option<&'a str>,
}

impl<'a> Wish<'a> {
    pub(crate) fn new(verb: &'static str, pipeline: &'a ObjectKey) -> Self {
        Self {
            kind: PIPELINES,
            verb,
            namespace: Some(&pipeline.namespace),
            name: Some(&pipeline.name),
            environment: None,
        }
    }

    /// All of a kind, in one namespace or everywhere.
    pub(crate) fn list(kind: Kind, namespace: Option<&'a str>) -> Self {
        Self {
            kind,
            verb: "list",
            namespace,
            name: None,
            environment: None,
        }
    }

    /// To look into a cluster, into all of a namespace, or into all there are.
    pub(crate) fn inspect(namespace: Option<&'a str>, name: Option<&'a str>) -> Self {
        Self {
            kind: CLUSTERS,
            verb: "inspect",
            namespace,
            name,
            environment: None,
        }
    }

    /// Another of a kind, in one namespace or in any.
    pub(crate) fn create(kind: Kind, namespace: Option<&'a str>) -> Self {
        Self {
            verb: "create",
            ..Self::list(kind, namespace)
        }
    }

    /// The same of an object of another kind.
    pub(crate) fn of(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    pub(crate) fn environment(self, environment: &'a str) -> Self {
        Self {
            environment: Some(environment),
            ..self
        }
    }
}

/// A wish of somebody, to be remembered.
#[derive(PartialEq, Eq, Hash)]
struct Question {
    user: Option<String>,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Vec<String>>>,
    kind: Kind,
    verb: &'static str,
    place: [Option<String>; 3],
}

impl Caller {
    /// Whose token it is; nobody, where it is no good.
    pub(crate) async fn find(door: &Arc<Door>, token: &str) -> Result<Option<Self>, kube::Error> {
        let user = door.access.user(token).await?;
        let door = door.clone();
        Ok(user.map(|user| Self { user, door }))
    }

    pub(crate) fn door(&self) -> &Arc<Door> {
        &self.door
    }

    pub(crate) fn name(&self) -> &str {
        self.user.username.as_deref().unwrap_or_default()
    }

    /// Whether they may: for the pipeline, or where one is meant for its environment.
    pub(crate) async fn may(&self, wish: &Wish<'_>) -> Result<bool, kube::Error> {
        let attributes = |subresource: Option<&str>| ResourceAttributes {
            group: Some(wish.kind.0.to_owned()),
            version: Some("v1alpha1".to_owned()),
            resource: Some(wish.kind.1.to_owned()),
            subresource: subresource.map(str::to_owned),
            verb: Some(wish.verb.to_owned()),
            namespace: wish.namespace.map(str::to_owned),
            name: wish.name.map(str::to_owned),
            ..ResourceAttributes::default()
        };
        let access = &self.door.access;
        if access.allows(&self.user, attributes(None)).await? {
            return Ok(true);
        }
        match wish.environment {
            None => Ok(false),
            environment => access.allows(&self.user, attributes(environment)).await,
        }
    }

    /// Whether they may, as of a few seconds ago: good enough for what to show.
    pub(crate) async fn may_see(&self, wish: &Wish<'_>) -> Result<bool, kube::Error> {
        let question = Question {
            user: self.user.username.clone(),
            groups: self.user.groups.clone(),
            extra: self.user.extra.clone(),
            kind: wish.kind,
            verb: wish.verb,
            place: [wish.namespace, wish.name, wish.environment].map(|it| it.map(str::to_owned)),
        };
        let said = &self.door.access.said;
        if let Some((asked_at, answer)) = said.lock().get(&question)
            && asked_at.elapsed() < SHOWN
        {
            return Ok(*answer);
        }
        let asked_at = Instant::now();
        let answer = self.may(wish).await?;
        let mut said = said.lock();
        if said.len() >= REMEMBERED {
            said.retain(|_, (asked_at, _)| asked_at.elapsed() < SHOWN);
        }
        if said.len() < REMEMBERED {
            said.insert(question, (asked_at, answer));
        }
        Ok(answer)
    }

    /// Those of some objects that they may list.
    pub(crate) async fn visible<T>(
        &self,
        kind: Kind,
        mut objects: Vec<T>,
        namespace_of: impl Fn(&T) -> String,
    ) -> Result<Vec<T>, kube::Error> {
        let everywhere = Wish::list(kind, self.door.settings.namespace.as_deref());
        if self.may_see(&everywhere).await? {
            return Ok(objects);
        }
        let namespaces: HashSet<String> = objects.iter().map(&namespace_of).collect();
        let asked = namespaces.into_iter().map(|namespace| async {
            let may = self.may_see(&Wish::list(kind, Some(&namespace))).await?;
            Ok::<_, kube::Error>(Some(namespace).filter(|_| may))
        });
        let allowed = try_join_all(asked).await?;
        let allowed: HashSet<String> = allowed.into_iter().flatten().collect();
        objects.retain(|object| allowed.contains(&namespace_of(object)));
        Ok(objects)
    }

    /// Fails unless they may.
    pub(super) async fn must(&self, wish: Wish<'_>) -> Result<(), Problem> {
        if self.may(&wish).await? {
            return Ok(());
        }
        let resource = wish.kind.1;
        let place = wish.environment.map(|it| format!(" or {resource}/{it}"));
        let place = place.unwrap_or_default();
        let namespace = wish.namespace.map(|it| format!(" in namespace {it}"));
        let detail = format!(
            "{} may not {} {resource}{place}{}: a role with that verb is needed",
            self.name(),
            wish.verb,
            namespace.unwrap_or_default()
        );
        Err(Problem::new(StatusCode::FORBIDDEN, detail))
    }
}

impl FromRequestParts<Arc<Door>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Arc<Door>) -> Result<Self, Problem> {
        let peer = parts.extensions.get::<Peer>().copied().unwrap_or_default();
        let caller = bucket(peer, &parts.headers, &door.settings.trusted_proxies);
        let user = match token(parts) {
            Some(token) => {
                may_try(door, &caller, token)?;
                door.access.user(token).await?
            }
            None => None,
        };
        let Some(user) = user else {
            let counted = door.guests.count(caller, 1);
            counted.map_err(|it| Problem::too_many(it.retry_after.as_secs() + 1))?;
            let detail = "send a token that the Kubernetes API knows, as `Authorization: Bearer`";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, detail));
        };
        let door = door.clone();
        Ok(Self { user, door })
    }
}

/// Whoever shows one wrong token after the other is not asked about any more. Tokens that were good
/// are, whoever else calls from the same address.
pub(crate) fn may_try(door: &Door, caller: &IpAddr, token: &str) -> Result<(), Problem> {
    if door.access.knows(token) {
        return Ok(());
    }
    let slow_down = door.guests.is_exhausted(caller);
    slow_down.map_err(|it| Problem::too_many(it.retry_after.as_secs() + 1))
}

fn token(parts: &Parts) -> Option<&str> {
    let said = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = said.split_once(' ')?;
    let token = token.trim();
    let is_token = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty();
    (is_token && token.len() <= LONGEST_TOKEN).then_some(token)
}
