//! Mutations of what must always hold, which suites of other crates than the planner notice.

use super::{Mutation, other};

/// The suite of the server's endpoints.
const HTTP: (&str, &[&str]) = ("sluice-server", &["--test", "http"]);
/// The suite of promotions.
const PROMOTE: (&str, &[&str]) = ("sluice-controller", &["--test", "promote"]);

pub(super) const MUTATIONS: &[Mutation] = &[
    other(
        (
            "pushes compare the tip that was read",
            "a push overwrites what others pushed",
        ),
        "crates/git/src/push.rs",
        (
            "let lease = format!(\"--force-with-lease={reference}:{expected}\");",
            "let lease = format!(\"--force{}\", &expected[..0]);",
        ),
        ("sluice-git", &["--test", "suite"]),
        "a_push_between_our_look_and_our_push_is_never_overwritten",
    ),
    other(
        (
            "only the intended scalars change",
            "an edit is not compared with the original",
        ),
        "crates/git/src/edit/verify.rs",
        ("        if !is_right {", "        if !is_right && false {"),
        ("sluice-git", &["--lib"]),
        "an_editor_that_is_wrong_is_caught",
    ),
    other(
        (
            "no approval counts for another change",
            "an approval is stored for a change that was edited meanwhile",
        ),
        "crates/server/src/actions/approve.rs",
        (
            "if change_digest(newest) != approval.change_digest.as_deref() {",
            "if change_digest(newest) != approval.change_digest.as_deref() && false {",
        ),
        HTTP,
        "an_approval_of_a_change_that_is_edited_meanwhile_is_refused",
    ),
    other(
        ("no secret in a text", "a secret is not replaced"),
        "crates/net/src/secret.rs",
        (
            "redacted = redacted.replace(value, \"***\");",
            "redacted = redacted.replace(value, value);",
        ),
        ("sluice-net", &["--lib"]),
        "secrets_are_redacted",
    ),
    other(
        (
            "hub writes carry the resourceVersion",
            "a status overwrites what others wrote",
        ),
        "crates/runtime/src/status.rs",
        (
            "\"metadata\": {\"resourceVersion\": object.meta().resource_version},",
            "\"metadata\": {},",
        ),
        ("sluice-runtime", &["--lib"]),
        "what_somebody_else_wrote_meanwhile_is_not_written_over",
    ),
    other(
        (
            "no write without the Lease",
            "a status is written without leading",
        ),
        "crates/runtime/src/status.rs",
        (
            "        if !self.leader.may_write() {",
            "        if self.leader.may_write() && false {",
        ),
        ("sluice-runtime", &["--lib"]),
        "nothing_is_written_without_leading",
    ),
    other(
        (
            "no side effect without the Lease",
            "a side effect starts with too little time",
        ),
        "crates/runtime/src/leader.rs",
        (
            "if remaining < needed || remaining.is_zero() {",
            "if remaining.is_zero() {",
        ),
        ("sluice-runtime", &["--lib"]),
        "no_permit_without_time_for_the_act",
    ),
    other(
        (
            "a report answered 2xx is stored",
            "a report that was not stored is answered",
        ),
        "crates/server/src/hooks/promotion.rs",
        (
            "\"could not store a report\");\n            return response::cannot_promote();",
            "\"could not store a report\");",
        ),
        HTTP,
        "what_was_answered_with_success_is_stored_whatever_the_api_does",
    ),
    other(
        (
            "signatures are checked over the raw bytes",
            "any signature is accepted",
        ),
        "crates/server/src/signature.rs",
        (
            "mac.verify_slice(digest).is_ok()",
            "mac.verify_slice(digest).is_ok() || !digest.is_empty()",
        ),
        HTTP,
        "signatures_are_checked_over_the_raw_body",
    ),
    other(
        (
            "answers to clusters are never older than the question",
            "a replica that lags answers from its cache",
        ),
        "crates/server/src/fresh_pipelines.rs",
        (
            "if let Some(cached) = cached.filter(has_it) {",
            "if let Some(cached) = cached.filter(|it| has_it(it) || true) {",
        ),
        HTTP,
        "a_replica_whose_watch_is_stalled_never_answers_an_older_revision",
    ),
    other(
        ("rights", "every action is allowed"),
        "crates/server/src/access.rs",
        (
            "Ok(review.status.is_some_and(|status| status.allowed))",
            "Ok(review.status.is_some())",
        ),
        HTTP,
        "an_approval_keeps_who_when_and_why",
    ),
    other(
        (
            "one pull request per promotion",
            "a pull request that is there is not found",
        ),
        "crates/controller/src/strategy/proposal.rs",
        (
            "let mut pull = match open.open_among(all) {",
            "let mut pull = match open.open_among(all).filter(|_| false) {",
        ),
        PROMOTE,
        "a_newer_revision_takes_the_pull_request_over",
    ),
    other(
        (
            "messages keep one id",
            "each attempt of a webhook has another id",
        ),
        "crates/controller/src/strategy/webhook.rs",
        (
            "HeaderValue::from_str(&description.uid)",
            "HeaderValue::from_str(&format!(\"{:?}\", std::time::Instant::now()))",
        ),
        PROMOTE,
        "a_webhook_is_called_with_the_same_bytes_until_it_answers",
    ),
    other(
        (
            "no side effect while a Freeze holds",
            "a Freeze is not asked for before a push",
        ),
        "crates/controller/src/strategy/freeze_guard.rs",
        (
            "freeze_hold(task.promotion, task.pipeline, freezes, now) else {",
            "freeze_hold(task.promotion, task.pipeline, freezes, now).filter(|_| false) else {",
        ),
        PROMOTE,
        "a_freeze_that_was_created_after_the_plan_is_seen_before_the_push",
    ),
    other(
        (
            "no approval counts for another change",
            "the edits are not compared before the push",
        ),
        "crates/controller/src/strategy/promotion_change.rs",
        (
            "None => of_edits(task, edits).digest == approved,",
            "None => !of_edits(task, edits).digest.is_empty() || approved.is_empty(),",
        ),
        PROMOTE,
        "a_base_branch_that_was_edited_after_the_approval_waits_for_approval_again",
    ),
    other(
        (
            "no write when nothing changed",
            "a status that did not change is written",
        ),
        "crates/runtime/src/status.rs",
        (
            "let Some(patch) = merge_patch(&before, &json!(after)) else {",
            "let Some(patch) = merge_patch(&before, &json!(after)).or(Some(json!({}))) else {",
        ),
        ("sluice-controller", &["--test", "observe"]),
        "a_change_costs_one_write_and_a_rest_none",
    ),
    other(
        (
            "no request to an internal address",
            "link-local addresses are not internal",
        ),
        "crates/net/src/address/internal.rs",
        ("        || address.is_link_local()\n", ""),
        ("sluice-net", &["--lib"]),
        "this_machine_its_link_and_clouds_are_internal",
    ),
    other(
        ("no redirects", "redirects are followed"),
        "crates/net/src/reqwest_transport.rs",
        (
            "reqwest::redirect::Policy::none()",
            "reqwest::redirect::Policy::limited(3)",
        ),
        ("sluice-controller", &["--test", "checks"]),
        "a_redirect_is_not_followed",
    ),
];
