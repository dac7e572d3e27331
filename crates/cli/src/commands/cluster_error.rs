//! Turns errors of the Kubernetes API into messages that say what was attempted and what to do.

use std::fmt;

use anyhow::{Error, anyhow};
use kube::core::Status;
use tower::BoxError;

const DENIED: &str = "denied request: ";

/// A request that got no answer, with the address it was sent to.
#[derive(Debug)]
pub(super) struct NoAnswer {
    address: String,
    source: BoxError,
}

impl NoAnswer {
    /// Adds the address to the error of a connection. Other errors of the client stay as they are.
    pub(super) fn of(error: BoxError, address: &str) -> BoxError {
        match error.is::<kube::Error>() {
            true => error,
            false => Box::new(Self {
                address: address.trim_end_matches('/').to_owned(),
                source: error,
            }),
        }
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} does not respond", self.address)
    }
}

impl std::error::Error for NoAnswer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// The error message for a failed attempt.
pub(crate) fn cluster_error(attempted: &str, error: kube::Error) -> Error {
    let kube::Error::Api(status) = &error else {
        return no_response(attempted, error);
    };
    let why = match status.code {
        _ if is_foreign(status) => format!(
            "what answers is no Kubernetes API (HTTP status {}); check the address of the cluster in \
             the kubeconfig, or select another context with --context",
            status.code
        ),
        401 => "the cluster does not accept your credentials; log in again, or select another \
                context with --context"
            .to_owned(),
        403 => forbidden(&status.message),
        404 if is_unknown_kind(status) => "the cluster does not serve this kind; install Sluice's \
             CRDs with `sluice crds | kubectl apply --server-side -f -`"
            .to_owned(),
        409 if status.is_already_exists() => status.message.clone(),
        409 => format!(
            "{}; the object was changed in the meantime, try again",
            status.message
        ),
        _ => status.message.clone(),
    };
    anyhow!("cannot {attempted}: {why}")
}

fn no_response(attempted: &str, error: kube::Error) -> Error {
    let is_transport = matches!(error, kube::Error::HyperError(_) | kube::Error::Service(_));
    let is_unreadable = matches!(error, kube::Error::SerdeError(_));
    let error = Error::new(error);
    if let Some(why) = wrong_protocol(&error) {
        return anyhow!("cannot {attempted}: {why}");
    }
    let hint = match (is_transport, is_unreadable) {
        (true, _) => {
            // Of the chain of causes only the last one says something new.
            let cause = error.root_cause();
            let asked = error.chain().find_map(|it| it.downcast_ref::<NoAnswer>());
            let at = asked.map(|it| format!(" at {}", it.address));
            let at = at.unwrap_or_default();
            return anyhow!(
                "cannot {attempted}: the cluster{at} does not respond; check that it is running and that the \
                 context is right: {cause}"
            );
        }
        (_, true) => {
            ": the answer is not that of a Kubernetes API; check the address of the cluster in the \
             kubeconfig, or select another context with --context"
        }
        _ => "",
    };
    error.context(format!("cannot {attempted}{hint}"))
}

/// A request with TLS to a server without it, or the other way round. Libraries report both only as text.
fn wrong_protocol(error: &Error) -> Option<&'static str> {
    let text = super::error_text(error);
    if text.contains("invalid HTTP version parsed") {
        return Some(
            "the server does not answer in HTTP; probably its address in the kubeconfig has to begin \
             with https://",
        );
    }
    text.contains("InvalidContentType").then_some(
        "the server does not use TLS; probably its address in the kubeconfig has to begin with http://",
    )
}

/// Whether another server than a Kubernetes API answered: its body is not a `Status`. Kubernetes itself
/// answers in plain text for a path that it does not serve.
fn is_foreign(status: &Status) -> bool {
    status.reason == "Failed to parse error data"
        && !is_unknown_kind(status)
        && !matches!(status.code, 401 | 403 | 429 | 500..)
}

/// Whether the kind is missing, and not just the object.
fn is_unknown_kind(status: &Status) -> bool {
    let details = status.details.as_ref();
    let has_name = details.is_some_and(|details| !details.name.is_empty());
    let message = &status.message;
    !has_name
        && (message.contains("the server could not find") || message.contains("page not found"))
}

/// Adds the ClusterRole with the missing verb, which RBAC and the admission policy report differently.
fn forbidden(message: &str) -> String {
    let (text, verb) = match message.split_once(DENIED) {
        Some((_, text)) => (text, verb_needed(text)),
        None => (message, verb_refused(message)),
    };
    match verb.and_then(role_with) {
        // Approvers may request promotions, but not edit Pipelines.
        Some(role) if text.contains("patch resource \"pipelines\"") => format!(
            "{text}. The command edits the Pipeline: ask your cluster administrator to bind the ClusterRole \
             {role} to you in that namespace. The dashboard and REST need only the verb of what you do \
             (promote, suspend)"
        ),
        Some(role) => format!(
            "{text}. Ask your cluster administrator to bind the ClusterRole {role} to you in that \
             namespace"
        ),
        None => text.to_owned(),
    }
}

/// `…: the verb approve on pipelines is needed`
fn verb_needed(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("the verb ")?;
    rest.split_whitespace().next()
}

/// `User "jane" cannot patch resource "promotions" in …`
fn verb_refused(text: &str) -> Option<&'static str> {
    let (_, rest) = text.split_once(" cannot ")?;
    let verb = rest.split_whitespace().next()?;
    match (verb, rest.contains("\"promotions\"")) {
        ("get" | "list" | "watch", _) => Some("get"),
        ("patch", true) => Some("approve"),
        ("patch" | "create", false) => Some("patch"),
        _ => None,
    }
}

fn role_with(verb: &str) -> Option<&'static str> {
    match verb {
        "get" => Some("pipeline-controller-viewer"),
        "approve" | "suspend" => Some("pipeline-controller-approver"),
        "promote" | "patch" => Some("pipeline-controller-editor"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: u16, message: &str, expected: &str) {
        let mut status = Status::failure(message, "");
        status.code = code;
        let error = cluster_error("approve it", kube::Error::Api(status.boxed()));
        assert_eq!(
            format!("{error:#}"),
            format!("cannot approve it: {expected}")
        );
    }

    #[test]
    fn refusals_name_the_missing_role() {
        check(
            403,
            "promotions.pipelines.weave.works \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with \
             binding 'p' denied request: jane may not approve promotions of pipeline shop into prod: \
             the verb approve on pipelines is needed",
            "jane may not approve promotions of pipeline shop into prod: the verb approve on \
             pipelines is needed. Ask your cluster administrator to bind the ClusterRole \
             pipeline-controller-approver to you in that namespace",
        );
        check(
            403,
            "pipelines.pipelines.weave.works \"a\" is forbidden: User \"jane\" cannot patch resource \
             \"pipelines\" in API group \"pipelines.weave.works\" in the namespace \"shop\"",
            "pipelines.pipelines.weave.works \"a\" is forbidden: User \"jane\" cannot patch resource \
             \"pipelines\" in API group \"pipelines.weave.works\" in the namespace \"shop\". The \
             command edits the Pipeline: ask your cluster administrator to bind the ClusterRole \
             pipeline-controller-editor to you in that namespace. The dashboard and REST need only the \
             verb of what you do (promote, suspend)",
        );
        check(403, "no", "no");
    }

    /// The body may be a page of any length.
    #[test]
    fn another_server_is_named_as_such() {
        let status = Status::failure("<html>\nnothing here</html>", "Failed to parse error data");
        let error = kube::Error::Api(status.with_code(404).boxed());
        let text = format!("{:#}", cluster_error("read it", error));
        assert!(
            text.starts_with("cannot read it: what answers is no Kubernetes API (HTTP status 404)")
        );
        assert!(!text.contains("html"), "{text}");
    }

    #[test]
    fn a_missing_kind_differs_from_a_missing_object() {
        check(
            404,
            "the server could not find the requested resource",
            "the cluster does not serve this kind; install Sluice's CRDs with \
             `sluice crds | kubectl apply --server-side -f -`",
        );
        check(
            404,
            "pipelines \"a\" not found",
            "pipelines \"a\" not found",
        );
    }
}
