//! Decides which approvals and rejections a person may write into a promotion.
//!
//! Everybody writes only their own approval, in their own name, as a member of a group they are in, and
//! only where the promotion's policy lets their approval count. A rejection is in the name of its writer.

use api::promotion::{Approval, PromotionSpec};

use super::WritingUser;
use crate::gate::approvals::KEY_PREFIX;

/// Why the approvals and the rejection of a promotion may not be written so; `None` if they may.
pub(super) fn refuse(
    old: &PromotionSpec,
    new: &PromotionSpec,
    writer: &WritingUser<'_>,
) -> Option<String> {
    let name = writer.name;
    if others(old, name) != others(new, name) {
        return Some("everybody gives and replaces only their own approval".to_owned());
    }
    let rejection = new.rejection.as_ref();
    let rejection = rejection.filter(|it| old.rejection.as_ref() != Some(it));
    if rejection.is_some_and(|rejection| rejection.by != name) {
        return Some(format!("spec.rejection.by must be {name}"));
    }
    let approval = own(new, name).filter(|it| own(old, name) != Some(it));
    if approval.is_none() && rejection.is_none() {
        return None;
    }
    if !writer.may_in("approve", &new.environment) {
        return Some(format!(
            "{name} may not approve or reject promotions of pipeline {} into {}: \
             the verb approve on pipelines is needed",
            new.pipeline, new.environment
        ));
    }
    refuse_approval(new, approval?, writer)
}

/// Why the approval of a writer who may approve would not be one.
fn refuse_approval(
    spec: &PromotionSpec,
    approval: &Approval,
    writer: &WritingUser<'_>,
) -> Option<String> {
    let name = writer.name;
    if approval.signature.is_some() || name.starts_with(KEY_PREFIX) {
        return Some("approvals by the key of a webhook are written by Sluice".to_owned());
    }
    if let Some(group) = &approval.group
        && !writer.groups.contains(group)
    {
        return Some(format!("{name} is not in the group {group}"));
    }
    refused_by_policy(spec, name, approval.group.as_deref())
}

/// Why the promotion's policy does not count an approval by a user, as a member of a group or by name.
fn refused_by_policy(spec: &PromotionSpec, user: &str, group: Option<&str>) -> Option<String> {
    let policy = spec.approval_policy.as_ref()?;
    let mut from = policy.from.iter();
    let is_named = from.any(|it| {
        it.user.as_deref() == Some(user) || it.group.is_some() && it.group.as_deref() == group
    });
    if !policy.from.is_empty() && !is_named {
        return Some(format!(
            "approvals of this promotion do not count from {user}: spec.approvalPolicy.from names neither \
             the user nor the group of the approval"
        ));
    }
    let request = spec.request.as_ref().filter(|_| policy.not_requester)?;
    (request.by.as_deref().is_none_or(|by| by == user))
        .then(|| format!("{user} requested this promotion, so somebody else must approve it"))
}

/// The group as whose member a user approves: none where the policy names the user or asks for no group.
/// The error says why their approval would not count.
pub fn approving_group(
    spec: &PromotionSpec,
    user: &str,
    groups: &[String],
) -> Result<Option<String>, String> {
    let policy = spec.approval_policy.as_ref();
    let from = policy
        .map(|policy| policy.from.as_slice())
        .unwrap_or_default();
    let by_name = from.iter().any(|it| it.user.as_deref() == Some(user));
    let mut named = from.iter().filter_map(|it| it.group.as_ref());
    let group = named.find(|group| !by_name && groups.contains(group));
    match refused_by_policy(spec, user, group.map(String::as_str)) {
        Some(refusal) => Err(refusal),
        None => Ok(group.cloned()),
    }
}

/// The approvals of other people, whatever their order.
fn others<'a>(spec: &'a PromotionSpec, name: &str) -> Vec<&'a Approval> {
    let mut others: Vec<_> = spec.approvals.iter().filter(|it| it.by != name).collect();
    others.sort_by(|one, other| one.by.cmp(&other.by));
    others
}

fn own<'a>(spec: &'a PromotionSpec, name: &str) -> Option<&'a Approval> {
    spec.approvals.iter().find(|it| it.by == name)
}
