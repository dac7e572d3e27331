//! The review APIs, which are answered and not stored: TokenReview, the access reviews, and the
//! TokenRequest of a service account.
//!
//! A [`Reviewer`] of the embedding process answers TokenReviews and SubjectAccessReviews if there is
//! one, otherwise the server's own tokens and roles do.

use http::HeaderMap;
use serde_json::{Map, Value, json};

use crate::{
    Server,
    access::{self, Attributes, User},
    body, metadata,
    schema::FieldError,
    status::{ApiError, Result},
    types::Type,
};

/// Answers reviews. Both methods get the `spec` and return the `status`.
pub trait Reviewer: Send + Sync + 'static {
    /// Authenticates a token.
    fn token(&self, spec: &Value) -> Value;
    /// Authorizes a subject.
    fn access(&self, spec: &Value) -> Value;
}

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const LOCAL: &str = "LocalSubjectAccessReview";

/// A kind of review.
pub(crate) struct ReviewKind {
    pub(crate) group: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    /// Whether it is about one namespace.
    pub(crate) namespaced: bool,
}

const fn review_of(group: &'static str, plural: &'static str, kind: &'static str) -> ReviewKind {
    ReviewKind {
        group,
        plural,
        kind,
        namespaced: false,
    }
}

/// All kinds of reviews.
pub(crate) const KINDS: &[ReviewKind] = &[
    review_of(AUTHENTICATION, "tokenreviews", "TokenReview"),
    review_of(AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview"),
    ReviewKind {
        namespaced: true,
        ..review_of(AUTHORIZATION, "localsubjectaccessreviews", LOCAL)
    },
    review_of(AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview"),
    review_of(
        AUTHORIZATION,
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
    ),
    review_of(
        AUTHORIZATION,
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
    ),
];

/// A request for a review or a token.
pub(crate) enum ReviewRequest {
    Review {
        review: &'static ReviewKind,
        /// Empty where there is none.
        namespace: String,
    },
    Token {
        namespace: String,
        account: String,
    },
}

/// The review or token that a path is for.
pub(crate) fn parse_path(path: &str) -> Result<Option<ReviewRequest>> {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    Ok(match segments[..] {
        // An empty list would look as if policies were enforced.
        ["apis", "admissionregistration.k8s.io", ..] => {
            return Err(ApiError::not_supported(
                "admission by policies or webhooks (such as ValidatingAdmissionPolicy)",
            ));
        }
        ["apis", group, "v1", plural] => find_review(group, "", plural),
        ["apis", group, "v1", "namespaces", namespace, plural] => {
            find_review(group, namespace, plural)
        }
        [
            "api",
            "v1",
            "namespaces",
            namespace,
            "serviceaccounts",
            account,
            "token",
        ] => Some(ReviewRequest::Token {
            namespace: namespace.to_owned(),
            account: account.to_owned(),
        }),
        _ => None,
    })
}

fn find_review(group: &str, namespace: &str, plural: &str) -> Option<ReviewRequest> {
    let is_it = |it: &&ReviewKind| {
        (it.group, it.plural, it.namespaced) == (group, plural, !namespace.is_empty())
    };
    let review = KINDS.iter().find(is_it)?;
    Some(ReviewRequest::Review {
        review,
        namespace: namespace.to_owned(),
    })
}

impl ReviewRequest {
    /// Decodes the body.
    pub(crate) fn decode(&self, headers: &HeaderMap, bytes: &[u8]) -> Result<Value> {
        let kind = self.kind();
        body::decode(headers, bytes, kind, Some(&Type::named(kind)))
    }

    /// The kind of the body.
    fn kind(&self) -> &'static str {
        match self {
            Self::Review { review, .. } => review.kind,
            Self::Token { .. } => "TokenRequest",
        }
    }

    /// Answers the request.
    pub(crate) async fn answer(&self, server: &Server, user: &User, body: Value) -> Result<Value> {
        match self {
            Self::Token { namespace, account } => {
                access::request_token(server, namespace, account, body).await
            }
            Self::Review { review, namespace } => {
                answer_review(server, user, (review, namespace), body)
            }
        }
    }
}

fn answer_review(
    server: &Server,
    user: &User,
    (&ReviewKind { group, kind, .. }, namespace): (&ReviewKind, &str),
    mut review: Value,
) -> Result<Value> {
    if !review.is_object() || !(review["spec"].is_object() || review["spec"].is_null()) {
        return Err(ApiError::bad_request(format!("expected a {kind}")));
    }
    if kind == LOCAL {
        check_local(&mut review, namespace)?;
    }
    let status = match kind {
        "TokenReview" => token(server, &review["spec"])?,
        "SelfSubjectReview" => json!({"userInfo": user_info(user)}),
        "SelfSubjectRulesReview" => rules(server, user, &review["spec"])?,
        _ => access_to(server, user, kind, &review["spec"])?,
    };
    review["apiVersion"] = json!(format!("{group}/v1"));
    review["kind"] = json!(kind);
    review["status"] = status;
    Ok(review)
}

fn token(server: &Server, spec: &Value) -> Result<Value> {
    check_token(spec)?;
    if let Some(reviewer) = &server.0.reviewer {
        return Ok(reviewer.token(spec));
    }
    let token = metadata::text(spec, "/token");
    Ok(
        match access::authenticate_token(server, token, &strings(&spec["audiences"])) {
            Ok(authenticated) => json!({
                "authenticated": true,
                "user": user_info(&authenticated.user),
                "audiences": authenticated.audiences,
            }),
            Err(why) => json!({"user": {}, "error": why}),
        },
    )
}

fn access_to(server: &Server, caller: &User, kind: &str, spec: &Value) -> Result<Value> {
    let is_self = kind == "SelfSubjectAccessReview";
    check_access(kind, spec, is_self)?;
    if let (Some(reviewer), false) = (&server.0.reviewer, is_self) {
        return Ok(reviewer.access(spec));
    }
    let user = match is_self {
        true => caller.clone(),
        false => User {
            name: metadata::text(spec, "/user").to_owned(),
            groups: strings(&spec["groups"]),
            ..User::default()
        },
    };
    let decision = access::decide(server, &user, &Attributes::of_review(spec));
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = json!(decision.reason);
    }
    Ok(status)
}

fn rules(server: &Server, user: &User, spec: &Value) -> Result<Value> {
    let namespace = metadata::text(spec, "/namespace");
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let granted = access::rules_for(server, user, namespace);
    let mut resources = Vec::new();
    let mut paths = Vec::new();
    for rule in granted.rules.iter().map(|grant| &grant.rule) {
        if rule.resources.is_empty() {
            paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.paths}));
            continue;
        }
        let mut shown =
            json!({"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources});
        if !rule.names.is_empty() {
            shown["resourceNames"] = json!(rule.names);
        }
        resources.push(shown);
    }
    let mut status =
        json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    if let Some(error) = granted.error() {
        status["evaluationError"] = json!(error);
    }
    Ok(status)
}

/// The `userInfo` of a user.
fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    info.insert("username".to_owned(), json!(user.name));
    if !user.uid.is_empty() {
        info.insert("uid".to_owned(), json!(user.uid));
    }
    info.insert("groups".to_owned(), json!(user.groups));
    if !user.extra.is_empty() {
        info.insert("extra".to_owned(), json!(user.extra));
    }
    info.into()
}

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|one| one.as_str().map(str::to_owned))
        .collect()
}

fn check_token(spec: &Value) -> Result<()> {
    match spec["token"].as_str() {
        None | Some("") => Err(ApiError::bad_request(
            "token is required for TokenReview in authentication",
        )),
        Some(_) => Ok(()),
    }
}

/// A LocalSubjectAccessReview must be about its own namespace.
fn check_local(review: &mut Value, namespace: &str) -> Result<()> {
    let given = metadata::text(review, "/metadata/namespace");
    if !given.is_empty() && given != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    review["metadata"] = json!({"namespace": namespace});
    check_access(LOCAL, &review["spec"], false)?;
    let asked = metadata::text(review, "/spec/resourceAttributes/namespace");
    let other = &review["spec"]["nonResourceAttributes"];
    let error = if !other.is_null() {
        let why = "disallowed on this kind of request";
        FieldError::invalid("spec.nonResourceAttributes", other, why)
    } else if asked != namespace {
        let field = "spec.resourceAttributes.namespace";
        FieldError::invalid(field, &json!(asked), "must match metadata.namespace")
    } else {
        return Ok(());
    };
    Err(ApiError::invalid_kind(LOCAL, AUTHORIZATION, "", &[error]))
}

fn check_access(kind: &str, spec: &Value, is_self: bool) -> Result<()> {
    let has = |field: &str| {
        spec.get(field)
            .is_some_and(|value| !value.is_null() && value != "")
    };
    let error = if !has("resourceAttributes") && !has("nonResourceAttributes") {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        FieldError::invalid("spec.resourceAttributes", &Value::Null, why)
    } else if has("resourceAttributes") && has("nonResourceAttributes") {
        let why = "cannot be specified in combination with resourceAttributes";
        FieldError::invalid(
            "spec.nonResourceAttributes",
            &spec["nonResourceAttributes"],
            why,
        )
    } else if !is_self && !has("user") && !has("groups") {
        FieldError::invalid(
            "spec.user",
            &json!(""),
            "at least one of user or group must be specified",
        )
    } else {
        return Ok(());
    };
    Err(ApiError::invalid_kind(kind, AUTHORIZATION, "", &[error]))
}
