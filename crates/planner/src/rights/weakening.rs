//! Finds the environments that lose a safeguard by an edit of a pipeline.
//!
//! Safeguards are `manual`, `approvalPolicy`, `verify`, `checks`, `soak`, `when` and
//! `requireVerifiedSource`. Without the right to approve, nobody can
//! weaken one, change the targets or the strategy of an environment that has one or the environments that it
//! comes after, or delete its pipeline: otherwise a person who may edit could remove a safeguard, promote,
//! and restore it.

use std::{collections::BTreeSet, time::Duration};

use api::{
    Pipeline,
    pipeline::{
        ApprovalPolicy, Check, Environment, OnFailure, PipelineSpec, PromotionSettings, When,
    },
};

use crate::sources::sources;

/// The names of the environments that lose a safeguard by an edit, or, without a new pipeline, by its
/// deletion.
pub(super) fn weakened<'a>(old: &'a Pipeline, new: Option<&Pipeline>) -> Vec<&'a str> {
    let owners_change =
        new.is_some_and(|new| new.metadata.owner_references != old.metadata.owner_references);
    let weakened = old.spec.environments.iter().filter(|environment| {
        let before = PromotionRules::of(&old.spec, environment);
        // Whoever owns a pipeline can have it deleted.
        before.is_guarded() && owners_change || is_weakened(&before, new.map(|it| &it.spec))
    });
    weakened.map(|it| it.name.as_str()).collect()
}

fn is_weakened(before: &PromotionRules<'_>, new: Option<&PipelineSpec>) -> bool {
    let environments = new.into_iter().flat_map(|spec| {
        let same = |it: &&Environment| it.name == before.environment.name;
        let same = spec.environments.iter().filter(same);
        same.map(move |it| PromotionRules::of(spec, it))
    });
    let now: Vec<_> = environments.collect();
    let is_gone = now.is_empty() && before.is_guarded();
    is_gone || now.iter().any(|now| before.is_stricter_than(now))
}

/// The safeguards, targets and strategy of one environment.
struct PromotionRules<'a> {
    spec: &'a PipelineSpec,
    environment: &'a Environment,
    settings: Option<&'a PromotionSettings>,
}

impl<'a> PromotionRules<'a> {
    fn of(spec: &'a PipelineSpec, environment: &'a Environment) -> Self {
        let settings = environment.promotion.as_ref().or(spec.promotion.as_ref());
        Self {
            spec,
            environment,
            settings,
        }
    }

    /// The checks before the environment.
    fn checks(&self) -> &'a [String] {
        let settings = self.settings;
        settings.map(|it| it.checks.as_slice()).unwrap_or_default()
    }

    /// The checks in the environment.
    fn verify(&self) -> &'a [String] {
        let verify = self.environment.verify.as_ref();
        verify.map(|it| it.checks.as_slice()).unwrap_or_default()
    }

    fn rolls_back(&self) -> bool {
        let verify = self.environment.verify.as_ref();
        verify.is_some_and(|it| it.on_failure == OnFailure::Rollback)
    }

    /// How its checks are defined.
    fn definitions(&self) -> Vec<&'a Check> {
        let names = self.checks().iter().chain(self.verify());
        names.filter_map(|name| self.spec.check(name)).collect()
    }

    /// Whether the other one lacks a check, or has it defined differently.
    fn has_more_checks_than(&self, new: &Self) -> bool {
        let lacks = |old: &[String], new: &[String]| !old.iter().all(|it| new.contains(it));
        let definitions = new.definitions();
        let is_redefined = |check: &&Check| !definitions.contains(check);
        lacks(self.checks(), new.checks())
            || lacks(self.verify(), new.verify())
            || self.rolls_back() && !new.rolls_back()
            || self.definitions().iter().any(is_redefined)
    }

    fn needs_approval(&self) -> bool {
        self.settings.is_some_and(PromotionSettings::needs_approval)
    }

    fn approval_policy(&self) -> Option<&'a ApprovalPolicy> {
        self.settings?.approval_policy.as_ref()
    }

    fn soak(&self) -> Duration {
        let soak = self.settings.and_then(|settings| settings.soak.as_ref());
        soak.map(|soak| soak.length()).unwrap_or_default()
    }

    fn when(&self) -> Option<When> {
        self.settings.and_then(|settings| settings.when)
    }

    fn requires_verified_source(&self) -> bool {
        self.settings.is_some_and(|it| it.require_verified_source)
    }

    fn is_guarded(&self) -> bool {
        let is_strict = self.when() == Some(When::AllTargetsReady);
        let is_verified = self.requires_verified_source();
        let is_checked = !self.checks().is_empty() || !self.verify().is_empty();
        let waits = self.needs_approval() || !self.soak().is_zero() || is_strict;
        waits || is_verified || is_checked
    }

    fn is_stricter_than(&self, new: &Self) -> bool {
        let all_to_less = self.when() == Some(When::AllTargetsReady) || new.allows_any();
        self.needs_approval() && !new.needs_approval()
            || is_stricter(self.approval_policy(), new.approval_policy())
            || self.has_more_checks_than(new)
            || self.soak() > new.soak()
            || self.requires_verified_source() && !new.requires_verified_source()
            || self.when() != new.when() && all_to_less
            || self.is_guarded() && !self.leads_to_same(new)
    }

    fn allows_any(&self) -> bool {
        self.when() == Some(When::AnyTargetReady)
    }

    /// The names of the environments that it comes after. Without targets nothing is promoted into it.
    fn sources(&self) -> BTreeSet<&'a str> {
        let environment = self.environment;
        match &environment.after {
            Some(names) => names.iter().map(String::as_str).collect(),
            None if environment.targets.is_empty() => BTreeSet::new(),
            None => {
                let sources = sources(self.spec, &environment.name).into_iter();
                sources.map(|it| it.name.as_str()).collect()
            }
        }
    }

    /// Whether both have the same targets and strategy, and come after the same environments.
    fn leads_to_same(&self, other: &Self) -> bool {
        let strategy_of = |settings: &PromotionSettings| {
            let PromotionSettings {
                strategy,
                pull_request,
                webhook,
                ..
            } = settings.clone();
            (strategy, pull_request, webhook)
        };
        self.environment.targets == other.environment.targets
            && self.sources() == other.sources()
            && self.settings.map(strategy_of) == other.settings.map(strategy_of)
    }
}

/// Whether fewer approvals, or approvals of more people or for a longer time, would do. Without a policy
/// one approval is enough, also by the key of a webhook.
fn is_stricter(old: Option<&ApprovalPolicy>, new: Option<&ApprovalPolicy>) -> bool {
    let Some(old) = old else { return false };
    let Some(new) = new else { return true };
    let is_widened = new.from.is_empty() || !new.from.iter().all(|it| old.from.contains(it));
    let expires_later = old.expires.as_ref().is_some_and(|old| {
        let new = new.expires.as_ref();
        new.is_none_or(|new| new.length() > old.length())
    });
    new.count < old.count
        || !old.from.is_empty() && is_widened
        || old.not_requester && !new.not_requester
        || expires_later
}
