//! Builds the Promotion object that starts, and withdraws or supersedes what is under way in its site.

use std::collections::BTreeMap;

use api::{
    Promotion,
    names::{ENVIRONMENT_LABEL, PIPELINE_LABEL, SITE_LABEL, label_value, promotion_name},
    pipeline::{RanRevision, Strategy},
    promotion::{PromotionRequest, PromotionSpec},
    revision::shown,
};
use kube::Resource;

use super::{
    Step,
    environment::summary,
    site::{SiteDecision, SitePlanner, WantedRevision},
};
use crate::{
    attempt::STRATEGY_CHANGED,
    gate::approvals::ApprovalQuestion,
    promotion_diff::source_range_of_new,
    promotion_phase::{is_deploying, is_unmerged, is_verifying, name_of, shown_by},
    release::failed_revision,
    site_state::SiteState,
    time::stored,
    version_order,
};

impl WantedRevision {
    /// The revision for people and for ordering: with its tag where it is a digest.
    pub(crate) fn shown(&self) -> String {
        shown(&self.revision, Some(&self.version))
    }
}

impl SitePlanner<'_> {
    pub(super) fn start(&self, wanted: &WantedRevision, site: &SiteState<'_>) -> SiteDecision {
        let promotion = self.promotion(wanted, site);
        let by = name_of(&promotion);
        let mut steps: Vec<_> = site
            .promotions
            .iter()
            .filter(|old| is_unmerged(old) || is_deploying(old) || is_verifying(old))
            // What is rolled back has failed its checks, and ends so.
            .filter(|old| wanted.cause.is_none() || old.metadata.uid != wanted.cause)
            .map(|old| end_for_successor(old, &promotion, &by))
            .collect();
        let hold = self.approvals(&promotion).hold();
        let decision = SiteDecision {
            waiting_approval: hold.as_ref().map(|_| wanted.revision.clone()),
            hold,
            promotion: Some(summary(&promotion)),
            ..SiteDecision::default()
        };
        steps.push(Step::StartPromotion(Box::new(promotion)));
        SiteDecision { steps, ..decision }
    }

    /// The approvals of a promotion as the gate is asked about them.
    pub(super) fn approvals<'b>(&'b self, promotion: &'b Promotion) -> ApprovalQuestion<'b> {
        ApprovalQuestion {
            promotion,
            pipeline: Some(self.input.pipeline),
            settings: Some(self.settings),
            now: self.input.now,
        }
    }

    /// The promotion that brings a revision into a site.
    pub(super) fn promotion(&self, wanted: &WantedRevision, site: &SiteState<'_>) -> Promotion {
        let input = self.input;
        let ordinal = ordinal(site, &wanted.revision);
        let is_approved = self.was_approved(wanted);
        let policy = self.settings.approval_policy.as_ref();
        let digest = input.artifact_digest(&self.environment.name, &wanted.revision);
        let name = promotion_name(input.name(), &site.site, &wanted.revision, ordinal);
        let mut promotion = Promotion::new(
            &name,
            PromotionSpec {
                pipeline: input.name().to_owned(),
                environment: self.environment.name.clone(),
                target: site.target.clone(),
                revision: wanted.revision.clone(),
                version: wanted.version.clone(),
                replaces: replaced(site, &wanted.revision),
                replaces_digest: replaced_digest(site, digest.as_deref()),
                digest,
                verified_at: wanted.verified_at.map(stored),
                source_range: None,
                ordinal,
                strategy: self.settings.strategy.clone(),
                rollout: self.settings.rollout.clone(),
                needs_approval: !is_approved && self.settings.needs_approval(),
                approval_policy: policy.filter(|_| !is_approved).cloned(),
                request: wanted.request.as_ref().map(|request| PromotionRequest {
                    id: request.id.clone(),
                    kind: request.kind,
                    by: request.by.clone(),
                }),
                cause: wanted.cause.clone(),
                withdrawn: None,
                approvals: Vec::new(),
                rejection: None,
                approval: None,
            },
        );
        promotion.spec.source_range =
            source_range_of_new(input.pipeline, input.model, &promotion.spec);
        promotion
            .metadata
            .namespace
            .clone_from(&input.pipeline.metadata.namespace);
        promotion.metadata.labels = Some(self.labels(site));
        let owner = input.pipeline.controller_owner_ref(&());
        promotion.metadata.owner_references = owner.map(|owner| vec![owner]);
        promotion
    }

    /// Whether a derived rollback returns to a revision that people approved for this environment before.
    fn was_approved(&self, wanted: &WantedRevision) -> bool {
        let status = self.input.status(&self.environment.name);
        let mut ran = status.into_iter().flat_map(|it| &it.ran);
        let is_it = |it: &RanRevision| it.revision == wanted.revision && it.approved;
        wanted.cause.is_some() && ran.any(is_it)
    }

    fn labels(&self, site: &SiteState<'_>) -> BTreeMap<String, String> {
        [
            (PIPELINE_LABEL, self.input.name()),
            (ENVIRONMENT_LABEL, &self.environment.name),
            (SITE_LABEL, &site.site.key()),
        ]
        .map(|(label, text)| (label.to_owned(), label_value(text)))
        .into()
    }
}

/// A number that no promotion of that revision into that site has yet.
pub(super) fn ordinal(site: &SiteState<'_>, revision: &str) -> i64 {
    let same = site
        .promotions
        .iter()
        .filter(|promotion| promotion.spec.revision == revision);
    same.map(|promotion| promotion.spec.ordinal + 1)
        .max()
        .unwrap_or_default()
}

/// The revision that runs in the site, the newest where its targets differ. Where the site goes back to what it
/// still runs, that is what git asks for: the release that failed or is being deployed.
fn replaced(site: &SiteState<'_>, revision: &str) -> Option<String> {
    let newest = |found: &mut dyn Iterator<Item = (String, &str)>| {
        let others = found.filter(|(_, it)| *it != revision);
        let newest = others.max_by(|(one, _), (other, _)| version_order::total(one, other));
        newest.map(|(_, revision)| revision.to_owned())
    };
    let targets = site.targets.iter();
    let mut running = targets
        .filter_map(|it| Some((it.shown_revision()?, it.revision.as_deref()?)))
        .chain(site.assumed.map(|it| (shown_by(&site.promotions, it), it)));
    let failed = site.targets.iter().filter_map(|it| failed_revision(it));
    let deploying = site.promotions.iter().filter(|it| is_deploying(it));
    let mut in_git = failed
        .map(|it| (it.to_owned(), it))
        .chain(deploying.map(|it| (it.spec.shown_revision(), it.spec.revision.as_str())));
    newest(&mut running).or_else(|| newest(&mut in_git))
}

/// The digest that runs in the site, where revisions are versions; nothing where its targets differ.
fn replaced_digest(site: &SiteState<'_>, digest: Option<&str>) -> Option<String> {
    let mut digests = site.targets.iter().map(|target| target.digest.as_deref());
    let first = digests.next()??;
    let is_shared = digests.all(|it| it == Some(first));
    (is_shared && digest != Some(first)).then(|| first.to_owned())
}

/// A successor takes over the old promotion's pull request, unless it would be opened elsewhere.
fn end_for_successor(old: &Promotion, new: &Promotion, by: &str) -> Step {
    let name = name_of(old);
    let is_in_git = is_deploying(old) || is_verifying(old);
    if is_in_git || destination(&old.spec.strategy) == destination(&new.spec.strategy) {
        return Step::SupersedePromotion {
            name,
            by: by.to_owned(),
        };
    }
    Step::WithdrawPromotion {
        name,
        reason: STRATEGY_CHANGED.to_owned(),
    }
}

/// Where a strategy leads: repository and branch, or URL.
fn destination(strategy: &Strategy) -> impl PartialEq + '_ {
    let pull_request = strategy.pull_request.as_ref();
    let commit = strategy.commit.as_ref();
    (
        pull_request.map(|to| (to.forge, to.url.as_str(), to.base_branch.as_str())),
        commit.map(|to| (to.url.as_str(), to.base_branch.as_str())),
        strategy.notification.is_some(),
        strategy.webhook.as_ref().map(|to| to.url.as_str()),
        strategy
            .oci
            .as_ref()
            .map(|to| (to.url.as_str(), to.tag.as_str())),
        strategy.resource_set_inputs.is_some(),
    )
}
