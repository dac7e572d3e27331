//! Questions about rights, answered and not stored: TokenReview, SubjectAccessReview and their kin,
//! and the TokenRequest of a service account.
//!
//! Whoever set the server up may answer the first two; otherwise the tokens and roles that the
//! server knows do.

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

/// Answers reviews. Both methods get the `spec` and give the `status`.
pub trait Reviewer: Send + Sync + 'static {
    /// Says whose token this is.
    fn token(&self, spec: &Value) -> Value;
    /// Says whether a subject may do something.
    fn access(&self, spec: &Value) -> Value;
}

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const LOCAL: &str = "LocalSubjectAccessReview";

/// Something that can be reviewed.
pub(crate) struct Review {
    pub(crate) group: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    /// Whether the question is about one namespace.
    pub(crate) namespaced: bool,
}

const fn review_of(group: &'static str, plural: &'static str, kind: &'static str) -> Review {
    Review {
        group,
        plural,
        kind,
        namespaced: false,
    }
}

/// All that can be reviewed.
pub(crate) const KINDS: &[Review] = &[
    review_of(AUTHENTICATION, "tokenreviews", "TokenReview"),
    review_of(AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview"),
    Review {
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

/// What is asked at a path.
pub(crate) enum Asked {
    Review {
        review: &'static Review,
        /// Empty where there is none.
        namespace: String,
    },
    Token {
        namespace: String,
        account: String,
    },
}

/// What can be asked at a path, if anything.
pub(crate) fn at(path: &str) -> Result<Option<Asked>> {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    Ok(match segments[..] {
        // Silence would look like protection.
        ["apis", "admissionregistration.k8s.io", ..] => {
            return Err(ApiError::not_supported(
                "admission by policies or webhooks (ValidatingAdmissionPolicy and its kin)",
            ));
        }
        ["apis", group, "v1", plural] => at_place(group, "", plural),
        ["apis", group, "v1", "namespaces", namespace, plural] => {
            at_place(group, namespace, plural)
        }
        [
            "api",
            "v1",
            "namespaces",
            namespace,
            "serviceaccounts",
            account,
            "token",
        ] => Some(Asked::Token {
            namespace: namespace.to_owned(),
            account: account.to_owned(),
        }),
        _ => None,
    })
}

fn at_place(group: &str, namespace: &str, plural: &str) -> Option<Asked> {
    let is_it = |it: &&Review| {
        (it.group, it.plural, it.namespaced) == (group, plural, !namespace.is_empty())
    };
    let review = KINDS.iter().find(is_it)?;
    Some(Asked::Review {
        review,
        namespace: namespace.to_owned(),
    })
}

impl Asked {
    /// Reads the question.
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

    /// Answers the question.
    pub(crate) async fn answer(
        &self,
        server: &Server,
        user: &User,
        question: Value,
    ) -> Result<Value> {
        match self {
            Self::Token { namespace, account } => {
                access::request_token(server, namespace, account, question).await
            }
            Self::Review { review, namespace } => {
                answered(server, user, (review, namespace), question)
            }
        }
    }
}

fn answered(
    server: &Server,
    user: &User,
    (&Review { group, kind, .. }, namespace): (&Review, &str),
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
        "SelfSubjectReview" => json!({"userInfo": shown(user)}),
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
        match access::authenticate_token(server, token, &texts(&spec["audiences"])) {
            Ok(found) => json!({
                "authenticated": true,
                "user": shown(&found.user),
                "audiences": found.audiences,
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
            groups: texts(&spec["groups"]),
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
        let mut told =
            json!({"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources});
        if !rule.names.is_empty() {
            told["resourceNames"] = json!(rule.names);
        }
        resources.push(told);
    }
    let mut status =
        json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    if let Some(problem) = granted.problem() {
        status["evaluationError"] = json!(problem);
    }
    Ok(status)
}

/// A user as reviews show one.
fn shown(user: &User) -> Value {
    let mut shown = Map::new();
    shown.insert("username".to_owned(), json!(user.name));
    if !user.uid.is_empty() {
        shown.insert("uid".to_owned(), json!(user.uid));
    }
    shown.insert("groups".to_owned(), json!(user.groups));
    if !user.extra.is_empty() {
        shown.insert("extra".to_owned(), json!(user.extra));
    }
    shown.into()
}

fn texts(list: &Value) -> Vec<String> {
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

/// A local question stays in its namespace.
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
    let fault = if !other.is_null() {
        let why = "disallowed on this kind of request";
        FieldError::invalid("spec.nonResourceAttributes", other, why)
    } else if asked != namespace {
        let field = "spec.resourceAttributes.namespace";
        FieldError::invalid(field, &json!(asked), "must match metadata.namespace")
    } else {
        return Ok(());
    };
    Err(ApiError::invalid_thing(LOCAL, AUTHORIZATION, "", &[fault]))
}

fn check_access(kind: &str, spec: &Value, is_self: bool) -> Result<()> {
    let has = |field: &str| {
        spec.get(field)
            .is_some_and(|value| !value.is_null() && value != "")
    };
    let fault = if !has("resourceAttributes") && !has("nonResourceAttributes") {
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
    Err(ApiError::invalid_thing(kind, AUTHORIZATION, "", &[fault]))
}
