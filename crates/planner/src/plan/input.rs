//! The pipeline, its status and its promotions that a plan is computed from.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    Pipeline, Promotion,
    names::PromotionSite,
    pipeline::{
        Environment, EnvironmentStatus, PipelineSpec, PipelineStatus, PromotionSettings, Scope,
        TargetStatus,
    },
    promotion::PromotionTarget,
};

use super::{Step, withdrawal::SITE_GONE};
use crate::{
    promotion_phase::{creation_order, is_unmerged, name_of},
    site::{cluster_key, cluster_of_status, site_of},
    site_state::SiteState,
    time::Timestamp,
    validity,
};

pub(crate) struct PlanInput<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) spec: &'a PipelineSpec,
    pub(crate) model: &'a PipelineStatus,
    /// This pipeline's promotions, oldest first.
    pub(crate) promotions: Vec<&'a Promotion>,
    pub(crate) now: Timestamp,
    /// The same promotions by site: a pipeline may have a thousand sites.
    by_site: BTreeMap<PromotionSite, Vec<&'a Promotion>>,
}

impl<'a> PlanInput<'a> {
    pub(crate) fn new(
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
        promotions.sort_by_cached_key(|promotion| creation_order(promotion));
        let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
        let mut by_site: BTreeMap<PromotionSite, Vec<&'a Promotion>> = BTreeMap::new();
        for promotion in &promotions {
            let site = site_of(&promotion.spec, namespace);
            by_site.entry(site).or_default().push(promotion);
        }
        Self {
            pipeline,
            spec: &pipeline.spec,
            model,
            promotions,
            now,
            by_site,
        }
    }

    pub(crate) fn name(&self) -> &'a str {
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

    pub(crate) fn status(&self, environment: &str) -> Option<&'a EnvironmentStatus> {
        self.model.environments.get(environment)
    }

    pub(crate) fn targets(&self, environment: &str) -> &'a [TargetStatus] {
        self.status(environment)
            .map(|status| status.targets.as_slice())
            .unwrap_or_default()
    }

    /// What people read of a revision.
    pub(crate) fn version_of(&self, revision: &str) -> String {
        super::request::known_version(self, revision)
    }

    /// The settings for promotions into an environment, if they say how.
    pub(crate) fn settings(&self, environment: &str) -> Option<&'a PromotionSettings> {
        self.spec
            .promotion_into(environment)
            .filter(|settings| !validity::strategies(&settings.strategy).is_empty())
    }

    /// The sites of an environment: itself, or each of its targets once.
    pub(super) fn sites(
        &self,
        environment: &str,
        settings: &PromotionSettings,
    ) -> Vec<SiteState<'a>> {
        if settings.scope != Some(Scope::Target) {
            return vec![self.whole(environment)];
        }
        let stored = self.targets(environment);
        let mut sites = Vec::new();
        let mut known = BTreeSet::new();
        for target in stored {
            let cluster = cluster_of_status(target);
            let key = cluster.map(|cluster| cluster_key(cluster, self.namespace()));
            let namespace = target.namespace.clone().unwrap_or_default();
            let site = PromotionSite::target(environment, key.as_deref(), &namespace);
            if !known.insert(site.clone()) {
                continue;
            }
            let target_of_promotion = PromotionTarget {
                cluster: cluster.map(|cluster| cluster.name.clone()),
                cluster_namespace: cluster.and_then(|cluster| cluster.namespace.clone()),
                namespace,
            };
            sites.push(self.site(site, Some(target_of_promotion), vec![target]));
        }
        sites
    }

    /// The environment as one site.
    pub(super) fn whole(&self, environment: &str) -> SiteState<'a> {
        let site = PromotionSite::environment(environment);
        self.site(site, None, self.targets(environment).iter().collect())
    }

    fn site(
        &self,
        site: PromotionSite,
        target: Option<PromotionTarget>,
        targets: Vec<&'a TargetStatus>,
    ) -> SiteState<'a> {
        let promotions = self.by_site.get(&site).cloned().unwrap_or_default();
        let status = self.status(&site.environment);
        let reported = status.and_then(|status| status.reported.as_ref());
        SiteState::new((site, target), targets, reported, promotions)
    }

    /// Withdraws promotions into sites that no longer exist: the environment or target was removed, or
    /// promotions have another scope now.
    pub(super) fn withdraw_from_removed_sites(&self) -> Vec<Step> {
        if self.spec.suspend {
            return Vec::new();
        }
        let sites = self.all_sites();
        let is_removed = |site: &PromotionSite| match sites.get(site.environment.as_str()) {
            None => true,
            // Targets that have not been observed yet may still exist.
            Some(known) => !self.targets(&site.environment).is_empty() && !known.contains(site),
        };
        let removed = self.by_site.iter().filter(|(site, _)| is_removed(site));
        let promotions = removed.flat_map(|(_, promotions)| promotions);
        promotions
            .filter(|promotion| is_unmerged(promotion))
            .map(|promotion| Step::WithdrawPromotion {
                name: name_of(promotion),
                reason: SITE_GONE.to_owned(),
            })
            .collect()
    }

    /// The promotions into an environment by site, oldest first.
    pub(super) fn promotions_by_site(
        &self,
        environment: &str,
    ) -> impl Iterator<Item = &[&'a Promotion]> {
        let sites = self.by_site.iter();
        let here = sites.filter(move |(site, _)| site.environment == environment);
        here.map(|(_, promotions)| promotions.as_slice())
    }

    /// The last promotion of each revision into each site of an environment, oldest first.
    pub(super) fn last_attempts(&self, environment: &str) -> Vec<&'a Promotion> {
        let mut attempts = Vec::new();
        for promotions in self.promotions_by_site(environment) {
            // By ordinal: timestamps are wrong after a clock was set back.
            let is_last = |promotion: &&&Promotion| {
                let mut others = promotions.iter().map(|other| &other.spec);
                let spec = &promotion.spec;
                others.all(|it| it.revision != spec.revision || it.ordinal <= spec.ordinal)
            };
            attempts.extend(promotions.iter().filter(is_last).copied());
        }
        attempts.sort_by_key(|promotion| creation_order(promotion));
        attempts
    }

    /// The sites of every environment that is promoted into.
    fn all_sites(&self) -> BTreeMap<&'a str, BTreeSet<PromotionSite>> {
        let names = self.environment_names();
        names
            .filter_map(|name| {
                let sites = self.sites(name, self.settings(name)?);
                Some((name, sites.into_iter().map(|it| it.site).collect()))
            })
            .collect()
    }
}

/// The namespace of a cluster selector that matches nothing, if there is one. Selectors of an
/// environment are told apart by their namespaces.
pub(crate) fn unmatched_selector<'a>(
    model: &PipelineStatus,
    environment: &'a Environment,
) -> Option<&'a str> {
    let status = model.environments.get(&environment.name);
    let stored = status.map(|it| it.targets.as_slice()).unwrap_or_default();
    let is_named = |target: &TargetStatus| {
        environment.targets.iter().any(|wanted| {
            let cluster = wanted.cluster_ref.as_ref();
            target.namespace.as_deref() == Some(wanted.namespace.as_str())
                && cluster.is_some_and(|wanted| {
                    cluster_of_status(target).is_some_and(|it| it.name == wanted.name)
                })
        })
    };
    let is_match = |namespace: &str| {
        stored.iter().any(|target| {
            target.namespace.as_deref() == Some(namespace)
                && cluster_of_status(target).is_some()
                && !is_named(target)
        })
    };
    let targets = environment.targets.iter();
    let selectors = targets.filter(|target| target.cluster_selector.is_some());
    let mut namespaces = selectors.map(|target| target.namespace.as_str());
    namespaces.find(|namespace| !is_match(namespace))
}
