//! What is known about a site: an environment, or one target of it, that promotions lead into.

use api::{
    Promotion,
    names::PromotionSite,
    pipeline::{ReportedRevision, TargetStatus},
    promotion::{Phase, PromotionTarget},
};

use crate::{
    evidence::{is_reported, is_silent},
    promotion_phase::{has_failed, is_deploying, merged_at, phase_of, shown_by},
    release::failed_revision,
    site::target_key,
    version_order,
};

/// A site with its targets and promotions.
pub(crate) struct SiteState<'a> {
    pub(crate) site: PromotionSite,
    /// The target, where the site is one target of an environment.
    pub(crate) target: Option<PromotionTarget>,
    pub(crate) targets: Vec<&'a TargetStatus>,
    /// The promotions into the site.
    pub(crate) promotions: Vec<&'a Promotion>,
    /// The revision that it is assumed to run where no target tells: what reports say about the
    /// environment, else what was last brought into git.
    pub(crate) assumed: Option<&'a str>,
}

impl<'a> SiteState<'a> {
    /// A site; `reported` is what reports say about its whole environment.
    pub(crate) fn new(
        (site, target): (PromotionSite, Option<PromotionTarget>),
        targets: Vec<&'a TargetStatus>,
        reported: Option<&'a ReportedRevision>,
        promotions: Vec<&'a Promotion>,
    ) -> Self {
        let reported = reported.filter(|_| site.target.is_none());
        Self {
            assumed: assumed(&targets, reported, &promotions),
            site,
            target,
            targets,
            promotions,
        }
    }

    /// The promotions into the site apart from one.
    pub(crate) fn others(&self, promotion: &Promotion) -> impl Iterator<Item = &'a Promotion> {
        let name = promotion.metadata.name.clone();
        let promotions = self.promotions.iter().copied();
        promotions.filter(move |other| other.metadata.name != name)
    }

    /// The targets that cannot be read and that no report stands in for.
    pub(crate) fn unreadable(&self) -> Vec<&'a TargetStatus> {
        let targets = self.targets.iter().copied();
        targets.filter(|it| is_unreadable(it)).collect()
    }

    /// Whether every target that can be read runs the revision, and there is one.
    pub(crate) fn all_reachable_run(&self, revision: &str) -> bool {
        let mut reachable = self
            .targets
            .iter()
            .filter(|it| !is_unreadable(it))
            .peekable();
        reachable.peek().is_some() && reachable.all(|it| it.revision.as_deref() == Some(revision))
    }

    /// Whether every target runs the revision.
    pub(crate) fn runs(&self, revision: &str) -> bool {
        let is_there = |target: &&TargetStatus| target.revision.as_deref() == Some(revision);
        let is_assumed = self.assumed == Some(revision);
        let mut targets = self.targets.iter();
        let runs_all = targets.all(|it| is_there(it) || self.is_left_out(it, revision));
        runs_all && self.targets.iter().any(is_there) || is_assumed
    }

    /// Whether the rollout of a revision ended well without a target: that failed, a person skipped it, or it
    /// cannot be reached.
    fn is_left_out(&self, target: &TargetStatus, revision: &str) -> bool {
        let mut newest_first = self.promotions.iter().rev();
        let last = newest_first.find(|it| it.spec.revision == revision);
        let Some(last) = last.filter(|it| phase_of(it) == Some(Phase::Succeeded)) else {
            return false;
        };
        let rollout = last.status.as_ref().and_then(|it| it.rollout.as_ref());
        let home = last.metadata.namespace.as_deref().unwrap_or_default();
        let key = target_key(target, home);
        let mut members = rollout.into_iter().flat_map(|it| &it.targets);
        members.any(|it| it.target == key && (it.failed || it.skipped || target.problem.is_some()))
    }

    /// Whether the release of another revision failed here: git asks for that one.
    pub(crate) fn failed_at_another(&self, revision: &str) -> bool {
        let targets = self.targets.iter();
        let mut failed = targets.filter_map(|target| failed_revision(target));
        failed.any(|failed| failed != revision)
    }

    /// A newer revision that runs here or is being deployed.
    pub(crate) fn newer_than(&self, shown: &str) -> Option<String> {
        let running = self.targets.iter();
        let running = running.filter_map(|target| target.shown_revision());
        let promotions = self.promotions.iter();
        let deploying = promotions.filter(|promotion| is_deploying(promotion));
        let assumed = self.assumed.map(|it| shown_by(&self.promotions, it));
        running
            .chain(assumed)
            .chain(deploying.map(|promotion| promotion.spec.shown_revision()))
            .find(|other| version_order::is_older(shown, other))
    }

    /// The last promotion of the revision, if it failed because of the revision.
    pub(crate) fn failed(&self, revision: &str) -> Option<&'a Promotion> {
        let of_revision = |promotion: &&&Promotion| promotion.spec.revision == revision;
        let all = self.promotions.iter().filter(of_revision);
        let last = all.max_by_key(|promotion| promotion.spec.ordinal)?;
        has_failed(last).then_some(*last)
    }
}

fn is_unreadable(target: &TargetStatus) -> bool {
    target.problem.is_some() && !is_reported(target)
}

fn assumed<'a>(
    targets: &[&'a TargetStatus],
    reported: Option<&'a ReportedRevision>,
    promotions: &[&'a Promotion],
) -> Option<&'a str> {
    let is_silent = !targets.is_empty() && targets.iter().copied().all(is_silent);
    let reported = reported.map(|reported| reported.revision.as_str());
    reported
        .or_else(|| last_brought(promotions))
        .filter(|_| is_silent)
}

/// The revision of the promotion that was merged last, of those that succeeded.
fn last_brought<'a>(promotions: &[&'a Promotion]) -> Option<&'a str> {
    let succeeded = promotions
        .iter()
        .filter(|promotion| phase_of(promotion) == Some(Phase::Succeeded))
        .filter_map(|promotion| Some((merged_at(promotion)?, promotion)));
    let (_, last) = succeeded.max_by_key(|(merged_at, _)| *merged_at)?;
    Some(&last.spec.revision)
}
