//! Finds the environments that lose a safeguard by an edit of a pipeline.
//!
//! Safeguards are `manual`, `soak` and `when`. Without the right to approve, nobody can weaken one, change
//! the targets or the strategy of an environment that has one, or delete its pipeline: otherwise a person
//! who may edit could remove a safeguard, promote, and restore it.

use std::time::Duration;

use api::{
    Pipeline,
    pipeline::{Environment, PipelineSpec, PromotionSettings, When},
};

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
    environment: &'a Environment,
    settings: Option<&'a PromotionSettings>,
}

impl<'a> PromotionRules<'a> {
    fn of(spec: &'a PipelineSpec, environment: &'a Environment) -> Self {
        let settings = environment.promotion.as_ref().or(spec.promotion.as_ref());
        Self {
            environment,
            settings,
        }
    }

    fn is_manual(&self) -> bool {
        self.settings.is_some_and(|settings| settings.manual)
    }

    fn soak(&self) -> Duration {
        let soak = self.settings.and_then(|settings| settings.soak.as_ref());
        soak.map(|soak| soak.length()).unwrap_or_default()
    }

    fn when(&self) -> Option<When> {
        self.settings.and_then(|settings| settings.when)
    }

    fn is_guarded(&self) -> bool {
        let is_strict = self.when() == Some(When::AllTargetsReady);
        self.is_manual() || !self.soak().is_zero() || is_strict
    }

    fn is_stricter_than(&self, new: &Self) -> bool {
        let all_to_less = self.when() == Some(When::AllTargetsReady) || new.allows_any();
        self.is_manual() && !new.is_manual()
            || self.soak() > new.soak()
            || self.when() != new.when() && all_to_less
            || self.is_guarded() && !self.leads_to_same(new)
    }

    fn allows_any(&self) -> bool {
        self.when() == Some(When::AnyTargetReady)
    }

    /// Whether both have the same targets and strategy.
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
            && self.settings.map(strategy_of) == other.settings.map(strategy_of)
    }
}
