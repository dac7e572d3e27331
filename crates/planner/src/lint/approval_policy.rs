//! Finds approval policies that nobody can meet.

use std::collections::BTreeSet;

use api::pipeline::{ApprovalPolicy, PromotionSettings};

use super::SettingsMistake;

/// The most approvals that a promotion can have.
const MAX_APPROVALS: i64 = 16;
const FIELD: &str = "approvalPolicy";

/// The mistakes in the approval policy of an environment.
pub(super) fn mistakes(environment: &str, settings: &PromotionSettings) -> Vec<SettingsMistake> {
    let Some(policy) = &settings.approval_policy else {
        return Vec::new();
    };
    let mut found: Vec<_> = errors(policy)
        .into_iter()
        .map(|text| format!("the approvalPolicy of {environment} {text}"))
        .map(|text| SettingsMistake::error(FIELD, text))
        .collect();
    if settings.manual {
        let text = format!("manual of {environment} has no effect beside approvalPolicy");
        found.push(SettingsMistake::warning("manual", text));
    }
    if let Some(text) = lacks_somebody_else(policy).filter(|_| found.is_empty()) {
        let text = format!("the approvalPolicy of {environment} {text}");
        found.push(SettingsMistake::warning(FIELD, text));
    }
    found
}

fn errors(policy: &ApprovalPolicy) -> Vec<String> {
    let mut errors = Vec::new();
    if !(1..=MAX_APPROVALS).contains(&policy.count) {
        errors.push(format!(
            "asks for {} approvals; from 1 to {MAX_APPROVALS} are possible",
            policy.count
        ));
    }
    if policy
        .from
        .iter()
        .any(|it| it.user.is_some() == it.group.is_some())
    {
        errors.push("has an entry in from that is not either a user or a group".to_owned());
    }
    if let Some(users) = named_users(policy)
        && i64::try_from(users).is_ok_and(|users| users < policy.count)
    {
        errors.push(format!(
            "can never be met: it asks for {} approvals, and from names {users} users and no group",
            policy.count
        ));
    }
    if policy
        .expires
        .as_ref()
        .is_some_and(|it| it.length().is_zero())
    {
        errors.push("can never be met: approvals expire at once".to_owned());
    }
    errors
}

/// How many users are named, where no group is.
fn named_users(policy: &ApprovalPolicy) -> Option<usize> {
    let users: Option<BTreeSet<_>> = policy.from.iter().map(|it| it.user.as_ref()).collect();
    users.map(|users| users.len()).filter(|count| *count > 0)
}

fn lacks_somebody_else(policy: &ApprovalPolicy) -> Option<String> {
    let users = i64::try_from(named_users(policy)?).ok()?;
    (policy.not_requester && users == policy.count)
        .then(|| "cannot be met for what one of its users requested: name one more".to_owned())
}
