//! What a plan is made from, and the questions asked about it.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    Pipeline, Promotion,
    names::PromotionSite,
    pipeline::{
        Environment, EnvironmentStatus, PipelineSpec, PipelineStatus, PromotionSettings, Reported,
        Scope, TargetStatus,
    },
    promotion::{Phase, PromotionSpec, PromotionTarget},
};

use super::Step;
use crate::{
    evidence::{is_reported, is_silent},
    site::{cluster_key, cluster_of_status, site_of},
    time::Timestamp,
    validity,
};

pub(super) struct PlanInput<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) spec: &'a PipelineSpec,
    pub(super) model: &'a PipelineStatus,
    /// This pipeline's promotions, oldest first.
    pub(super) promotions: Vec<&'a Promotion>,
    pub(super) now: Timestamp,
    /// The same promotions by place: a pipeline may have a thousand places.
    by_place: BTreeMap<PromotionSite, Vec<&'a Promotion>>,
}

/// A place promotions lead into, with what is known about it.
pub(super) struct SiteState<'a> {
    pub(super) place: PromotionSite,
    pub(super) target: Option<PromotionTarget>,
    pub(super) targets: Vec<&'a TargetStatus>,
    /// Its promotions, oldest first.
    pub(super) promotions: Vec<&'a Promotion>,
    /// The revision it is taken to have where no target tells.
    pub(super) assumed: Option<&'a str>,
}

impl<'a> SiteState<'a> {
    /// The targets that cannot be read and that nothing else tells about.
    pub(super) fn unreadable(&self) -> Vec<&'a TargetStatus> {
        let targets = self.targets.iter().copied();
        let unreadable = targets.filter(|it| it.problem.is_some() && !is_reported(it));
        unreadable.collect()
    }
}

impl<'a> PlanInput<'a> {
    pub(super) fn new(
        pipeline: &'a Pipeline,
        model: &'a PipelineStatus,
        promotions: &'a [Promotion],
        now: Timestamp,
    ) -> Self {
        let name = pipeline.metadata.name.as_deref().unwrap_or_default();
        let mut promotions: Vec<_> = promotions
            .iter()
            .filter(|promotion| promotion.spec.pipeline == name)
            .collect();
        promotions.sort_by_cached_key(|promotion| age_order(promotion));
        let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
        let mut by_place: BTreeMap<PromotionSite, Vec<&'a Promotion>> = BTreeMap::new();
        for promotion in &promotions {
            let place = site_of(&promotion.spec, namespace);
            by_place.entry(place).or_default().push(promotion);
        }
        Self {
            pipeline,
            spec: &pipeline.spec,
            model,
            promotions,
            now,
            by_place,
        }
    }

    pub(super) fn name(&self) -> &'a str {
        self.pipeline.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &'a str {
        self.pipeline
            .metadata
            .namespace
            .as_deref()
            .unwrap_or_default()
    }

    pub(super) fn environment_names(&self) -> impl Iterator<Item = &'a str> {
        self.spec
            .environments
            .iter()
            .map(|environment| environment.name.as_str())
    }

    pub(super) fn status(&self, environment: &str) -> Option<&'a EnvironmentStatus> {
        self.model.environments.get(environment)
    }

    pub(super) fn targets(&self, environment: &str) -> &'a [TargetStatus] {
        self.status(environment)
            .map(|status| status.targets.as_slice())
            .unwrap_or_default()
    }

    /// The settings for promotions into an environment, if they say how.
    pub(super) fn settings(&self, environment: &str) -> Option<&'a PromotionSettings> {
        self.spec
            .promotion_into(environment)
            .filter(|settings| !validity::strategies(&settings.strategy).is_empty())
    }

    /// The nearest earlier environment that has targets.
    pub(super) fn source_of(&self, index: usize) -> Option<&'a Environment> {
        let earlier = &self.spec.environments[..index];
        earlier
            .iter()
            .rev()
            .find(|environment| !environment.targets.is_empty())
    }

    /// The namespace of a cluster selector that matches nothing, if there is one. A selector is
    /// told from the others by its namespace.
    pub(super) fn unmatched_selector(&self, environment: &'a Environment) -> Option<&'a str> {
        let stored = self.targets(&environment.name);
        let is_named = |target: &TargetStatus| {
            environment.targets.iter().any(|wanted| {
                let is_same = |name: &str| {
                    cluster_of_status(target).is_some_and(|cluster| cluster.name == name)
                };
                target.namespace.as_deref() == Some(wanted.namespace.as_str())
                    && wanted
                        .cluster_ref
                        .as_ref()
                        .is_some_and(|cluster| is_same(&cluster.name))
            })
        };
        let is_match = |namespace: &str| {
            stored.iter().any(|target| {
                target.namespace.as_deref() == Some(namespace)
                    && cluster_of_status(target).is_some()
                    && !is_named(target)
            })
        };
        environment
            .targets
            .iter()
            .filter(|target| target.cluster_selector.is_some())
            .map(|target| target.namespace.as_str())
            .find(|namespace| !is_match(namespace))
    }

    /// The places of an environment: itself, or each of its targets once.
    pub(super) fn sites(
        &self,
        environment: &str,
        settings: &PromotionSettings,
    ) -> Vec<SiteState<'a>> {
        let stored = self.targets(environment);
        if settings.scope != Some(Scope::Target) {
            let place = PromotionSite::environment(environment);
            return vec![self.site(place, None, stored.iter().collect())];
        }
        let mut sites = Vec::new();
        let mut known = BTreeSet::new();
        for target in stored {
            let cluster = cluster_of_status(target);
            let key = cluster.map(|cluster| cluster_key(cluster, self.namespace()));
            let namespace = target.namespace.clone().unwrap_or_default();
            let place = PromotionSite::target(environment, key.as_deref(), &namespace);
            if !known.insert(place.clone()) {
                continue;
            }
            let target_of_promotion = PromotionTarget {
                cluster: cluster.map(|cluster| cluster.name.clone()),
                cluster_namespace: cluster.and_then(|cluster| cluster.namespace.clone()),
                namespace,
            };
            sites.push(self.site(place, Some(target_of_promotion), vec![target]));
        }
        sites
    }

    fn site(
        &self,
        place: PromotionSite,
        target: Option<PromotionTarget>,
        targets: Vec<&'a TargetStatus>,
    ) -> SiteState<'a> {
        let promotions = self.by_place.get(&place).cloned().unwrap_or_default();
        let status = self.status(&place.environment).filter(|_| target.is_none());
        let reported = status.and_then(|status| status.reported.as_ref());
        SiteState {
            assumed: assumed(&targets, reported, &promotions),
            promotions,
            place,
            target,
            targets,
        }
    }

    /// Takes back promotions into places that are no longer any: the environment or target is
    /// gone, or promotions cover something else now.
    pub(super) fn gone_places(&self) -> Vec<Step> {
        if self.spec.suspend {
            return Vec::new();
        }
        let places = self.all_sites();
        let is_gone = |place: &PromotionSite| match places.get(place.environment.as_str()) {
            None => true,
            // Targets that have not been looked at yet are not gone.
            Some(known) => !self.targets(&place.environment).is_empty() && !known.contains(place),
        };
        self.by_place
            .iter()
            .filter(|(place, _)| is_gone(place))
            .flat_map(|(_, promotions)| promotions)
            .filter(|promotion| is_unmerged(promotion))
            .map(|promotion| Step::WithdrawPromotion {
                name: name_of(promotion),
                reason: "PlaceGone".to_owned(),
            })
            .collect()
    }

    /// The youngest promotion of each revision into each place of an environment, oldest first.
    pub(super) fn last_tries(&self, environment: &str) -> Vec<&'a Promotion> {
        let places = self.by_place.iter();
        let here = places.filter(|(place, _)| place.environment == environment);
        let mut tries = Vec::new();
        for (_, promotions) in here {
            // By their numbers: times are no help once a clock was set back.
            let is_last = |promotion: &&&Promotion| {
                let mut others = promotions.iter().map(|other| &other.spec);
                let spec = &promotion.spec;
                others.all(|it| it.revision != spec.revision || it.ordinal <= spec.ordinal)
            };
            tries.extend(promotions.iter().filter(is_last).copied());
        }
        tries.sort_by_key(|promotion| age_order(promotion));
        tries
    }

    /// The places of every environment that is promoted into.
    fn all_sites(&self) -> BTreeMap<&'a str, BTreeSet<PromotionSite>> {
        let names = self.environment_names();
        names
            .filter_map(|name| {
                let sites = self.sites(name, self.settings(name)?);
                Some((name, sites.into_iter().map(|site| site.place).collect()))
            })
            .collect()
    }
}

/// The revision that a place is taken to have where no target tells: what reports say of its
/// environment, else what was last brought into git.
pub(crate) fn assumed<'a>(
    targets: &[&'a TargetStatus],
    reported: Option<&'a Reported>,
    promotions: &[&'a Promotion],
) -> Option<&'a str> {
    let is_silent = !targets.is_empty() && targets.iter().copied().all(is_silent);
    let reported = reported.map(|reported| reported.revision.as_str());
    reported
        .or_else(|| last_brought(promotions))
        .filter(|_| is_silent)
}

/// A revision as it is shown, by the promotion that brought it.
pub(crate) fn shown_by(promotions: &[&Promotion], revision: &str) -> String {
    let mut specs = promotions.iter().map(|promotion| &promotion.spec);
    let brought = specs.find(|spec| spec.revision == revision);
    brought.map_or_else(|| revision.to_owned(), PromotionSpec::shown_revision)
}

/// The revision that was last brought into git, of promotions that have ended well.
fn last_brought<'a>(promotions: &[&'a Promotion]) -> Option<&'a str> {
    let brought = promotions.iter().filter_map(|promotion| {
        let status = promotion.status.as_ref()?;
        let merged_at = status.merged_at.as_ref()?.0;
        (status.phase == Some(Phase::Succeeded)).then_some((merged_at, promotion))
    });
    let (_, last) = brought.max_by_key(|(merged_at, _)| *merged_at)?;
    Some(&last.spec.revision)
}

/// Promotions in the order they were created; objects are no more exact than a second.
fn age_order(promotion: &Promotion) -> (Option<Timestamp>, i64, String) {
    let created = promotion.metadata.creation_timestamp.as_ref();
    // One that is about to be created has no time yet and comes last.
    let created = created.map_or(Timestamp::MAX, |time| time.0);
    (Some(created), promotion.spec.ordinal, name_of(promotion))
}

pub(super) fn name_of(promotion: &Promotion) -> String {
    promotion.metadata.name.clone().unwrap_or_default()
}

pub(super) fn phase_of(promotion: &Promotion) -> Option<Phase> {
    promotion.status.as_ref()?.phase
}

/// Whether it could still bring its change into git.
pub(crate) fn is_unmerged(promotion: &Promotion) -> bool {
    let is_before_merge = phase_of(promotion).is_none_or(|phase| !phase.lets_successor_act());
    is_before_merge && promotion.spec.withdrawn.is_none()
}

/// Whether its change is in git and the place is on its way.
pub(crate) fn is_deploying(promotion: &Promotion) -> bool {
    phase_of(promotion) == Some(Phase::Deploying) && promotion.spec.withdrawn.is_none()
}

/// Whether its change has ever been in git.
pub(super) fn was_merged(promotion: &Promotion) -> bool {
    let status = promotion.status.as_ref();
    status
        .is_some_and(|status| status.merged_at.is_some() || status.phase == Some(Phase::Succeeded))
}
