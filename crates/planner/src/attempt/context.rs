//! What an attempt is decided from: the promotion, its pipeline, its site and its pull request.

use api::{
    Pipeline, Promotion,
    pipeline::{
        CoveringFreeze, Environment, EnvironmentStatus, PipelineStatus, PromotionSettings,
        ReportedRevision, TargetStatus,
    },
    promotion::{CheckSummary, Phase, PromotionSpec},
    revision::is_digest,
};

use super::CHECK_FAILED;
use crate::{
    checks::{self, CheckStates},
    evidence::is_silent,
    gate::{self, GateAnswer, GateVerdict, PromotionQuestion, approvals::ApprovalQuestion, freeze},
    hold::Hold,
    promotion_phase::{merged_at, phase_of},
    release::failure_message,
    site::{cluster_key, cluster_of_status, is_report_of, site_of, target_name},
    site_state::SiteState,
    time::Timestamp,
};

/// What was observed for a promotion.
#[derive(Clone, Debug)]
pub struct AttemptInput<'a> {
    /// The pipeline as it is stored; none when it was deleted.
    pub pipeline: Option<&'a Pipeline>,
    /// All promotions of that pipeline.
    pub promotions: &'a [Promotion],
    /// The promotion's own pull request.
    pub pull_request: ObservedPullRequest,
    /// Whether what the last attempt failed on, such as a Secret, was edited since.
    pub edited: bool,
}

/// What was observed of a promotion's pull request, which is found by its branch and trailer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ObservedPullRequest {
    /// The forge was not queried, because the answer does not matter.
    #[default]
    NotQueried,
    /// The forge did not answer, or is not queried again yet after it did not.
    Unanswered,
    /// There is none.
    Missing,
    /// It is open.
    Open {
        /// The URL of the pull request.
        url: String,
        /// Whether it proposes this promotion's change already.
        is_current: bool,
        /// Whether somebody else pushed to its branch.
        changed_by_others: bool,
        /// Whether the forge shows that it will merge it by itself.
        is_merge_scheduled: bool,
    },
    /// It was merged.
    Merged {
        /// The URL of the pull request.
        url: String,
        /// The commit it became.
        commit: Option<String>,
    },
    /// It was closed without being merged.
    Closed {
        /// The URL of the pull request.
        url: String,
    },
}

impl<'a> AttemptInput<'a> {
    /// The pipeline, unless it is being deleted. The promotion is deleted with it, and its pull request
    /// is left to people.
    pub(super) fn live_pipeline(&self) -> Option<&'a Pipeline> {
        self.pipeline
            .filter(|pipeline| pipeline.metadata.deletion_timestamp.is_none())
    }
}

/// Whether a target runs the promotion's revision. Where git names only a tag, its digest is not
/// known.
pub(crate) fn runs(target: &TargetStatus, spec: &PromotionSpec) -> bool {
    let is_tag = |revision: &str| is_digest(&spec.revision) && revision == spec.version;
    let is_other = |digest: &String| spec.digest.as_ref().is_some_and(|it| it != digest);
    let revision = target.revision.as_deref();
    revision.is_some_and(|revision| revision == spec.revision || is_tag(revision))
        && !target.digest.as_ref().is_some_and(is_other)
}

/// A promotion with what its attempt is decided from.
pub(super) struct AttemptContext<'a> {
    pub(super) promotion: &'a Promotion,
    pub(super) pipeline: &'a Pipeline,
    pub(super) input: &'a AttemptInput<'a>,
    pub(super) site: SiteState<'a>,
    now: Timestamp,
}

impl<'a> AttemptContext<'a> {
    pub(super) fn new(
        promotion: &'a Promotion,
        pipeline: &'a Pipeline,
        input: &'a AttemptInput<'a>,
        now: Timestamp,
    ) -> Self {
        Self {
            site: site_state(promotion, pipeline, input.promotions),
            promotion,
            pipeline,
            input,
            now,
        }
    }

    /// The other promotions into the site.
    pub(super) fn other_promotions(&self) -> impl Iterator<Item = &'a Promotion> {
        self.site.others(self.promotion)
    }

    pub(super) fn environment(&self) -> Option<&'a Environment> {
        let name = &self.promotion.spec.environment;
        let mut environments = self.pipeline.spec.environments.iter();
        environments.find(|environment| environment.name == *name)
    }

    pub(super) fn status(&self) -> Option<&'a EnvironmentStatus> {
        let status = self.pipeline.status.as_ref()?;
        status.environments.get(&self.promotion.spec.environment)
    }

    pub(super) fn settings(&self) -> Option<&'a PromotionSettings> {
        let name = &self.environment()?.name;
        self.pipeline.spec.promotion_into(name)
    }

    /// Whether people must approve it, whether or not they have.
    pub(super) fn needs_approval(&self) -> bool {
        self.approvals().state().is_some()
    }

    /// Whether it needs an approval that nobody has given.
    pub(super) fn lacks_approval(&self) -> bool {
        self.approvals().is_missing()
    }

    /// Its approvals as the gate is asked about them.
    pub(super) fn approvals(&self) -> ApprovalQuestion<'a> {
        ApprovalQuestion {
            promotion: self.promotion,
            pipeline: Some(self.pipeline),
            settings: self.settings(),
            now: self.now,
        }
    }

    /// Whether every target of the site is ready at the revision.
    pub(super) fn is_deployed(&self) -> bool {
        let targets = &self.site.targets;
        let spec = &self.promotion.spec;
        let is_there = |target: &&TargetStatus| target.ready && runs(target, spec);
        let reported = self.reported();
        let is_reported = reported.is_some_and(|it| it.revision == spec.revision);
        let is_deployed = !targets.is_empty() && targets.iter().all(is_there) || is_reported;
        is_deployed && !self.is_about_to_change()
    }

    /// How the checks of the environment stand for the revision.
    pub(super) fn checks(&self) -> CheckStates<'a> {
        let spec = &self.promotion.spec;
        let environment = &spec.environment;
        let pipeline = &self.pipeline.spec;
        CheckStates::verify(pipeline, environment, self.status(), &spec.revision)
    }

    /// The verdicts of all its checks.
    pub(super) fn check_summaries(&self) -> Vec<CheckSummary> {
        let spec = &self.promotion.spec;
        let environment = &spec.environment;
        checks::summary(
            &self.pipeline.spec,
            environment,
            self.status(),
            &spec.revision,
        )
    }

    /// What the site runs instead of the revision, where no target runs that any more.
    pub(super) fn replaced_by(&self) -> Option<String> {
        let spec = &self.promotion.spec;
        let reported = self.reported().map(|it| it.revision.as_str());
        let targets = self.site.targets.iter();
        if reported == Some(spec.revision.as_str()) || targets.clone().any(|it| runs(it, spec)) {
            return None;
        }
        let mut known = targets.filter_map(|it| it.revision.as_deref());
        known.next().or(reported).map(str::to_owned)
    }

    /// What reports say about the whole environment, where they say nothing about its targets.
    fn reported(&self) -> Option<&'a ReportedRevision> {
        let status = self.status()?;
        let is_whole = self.site.site.target.is_none() && status.targets.iter().all(is_silent);
        status.reported.as_ref().filter(|_| is_whole)
    }

    /// Why it will never be known whether the site runs the revision: only reports would tell, and the
    /// site has never sent one.
    pub(super) fn nothing_reports(&self) -> Option<String> {
        let spec = &self.promotion.spec;
        let name = &spec.environment;
        let targets = &self.site.targets;
        let is_known = targets.is_empty() || !targets.iter().copied().all(is_silent);
        let reports = self.pipeline.status.iter().flat_map(|it| &it.reports);
        let mut signed = reports.filter(|(_, report)| report.signed);
        let has_reported = spec.target.is_none() && signed.any(|(key, _)| is_report_of(key, name));
        if is_known || has_reported || self.reported().is_some() {
            return None;
        }
        Some(format!(
            "the change is in git; nothing reports from {name}, so whether it runs {} is not known: \
             an Alert there would tell",
            spec.shown_revision()
        ))
    }

    /// Whether git has another revision that is not deployed in the site yet. Then what runs now does
    /// not say whether this promotion is still needed.
    fn is_about_to_change(&self) -> bool {
        if merged_at(self.promotion).is_some() {
            return false;
        }
        let others = self.site.others(self.promotion);
        let merged = others.filter(|other| merged_at(other).is_some());
        merged
            .max_by_key(|other| merged_at(other))
            .is_some_and(|last| {
                let is_other = last.spec.revision != self.promotion.spec.revision;
                is_other && !has_arrived(last)
            })
    }

    /// Where the revision failed, if it did.
    pub(super) fn failure(&self) -> Option<String> {
        let revision = &self.promotion.spec.revision;
        let mut targets = self.site.targets.iter();
        let failed =
            targets.find(|target| !target.ready && target.failed.as_ref() == Some(revision))?;
        let because = failure_message(failed)
            .map(|message| format!(": {message}"))
            .unwrap_or_default();
        Some(format!(
            "{} failed on {}{because}",
            self.promotion.spec.shown_revision(),
            target_name(failed)
        ))
    }

    /// Why the promotion may not be carried out as it stands.
    pub(super) fn refusal(&self) -> Option<String> {
        let spec = &self.promotion.spec;
        let Some(settings) = self.settings() else {
            return Some(format!(
                "the pipeline promotes nothing into {}",
                spec.environment
            ));
        };
        (settings.strategy != spec.strategy)
            .then(|| "the pipeline's strategy was edited; it is started again with that".to_owned())
    }

    /// Whether Sluice merges the pull request, and no gate is closed.
    pub(super) fn may_merge(&self) -> bool {
        let is_held = self.lacks_approval() || self.hold().is_some();
        self.is_automatic() && self.refusal().is_none() && !is_held
    }

    /// Whether Sluice, not a person, merges the pull request.
    pub(super) fn is_automatic(&self) -> bool {
        let to = self.promotion.spec.strategy.pull_request.as_ref();
        to.is_some_and(|to| to.auto_merge && !to.draft)
    }

    /// The hold of an open pull request: of any gate where Sluice merges it, approvals included, else of one that fails the
    /// revision or of a freeze, which people who merge it should know too.
    pub(super) fn merge_hold(&self) -> Option<Hold> {
        match self.is_automatic() {
            true => self.hold().or_else(|| self.approvals().hold()),
            false => self
                .ask(gate::first_failure)
                .or_else(|| self.ask(freeze::ask_again)),
        }
    }

    /// The hold of the first gate that is closed before the next external step. Approvals are not
    /// among them: they decide the phase.
    pub(super) fn hold(&self) -> Option<Hold> {
        self.ask(gate::ask_again)
    }

    /// The answer of every gate.
    pub(super) fn gate_answers(&self) -> Vec<GateAnswer> {
        self.with_question(gate::answers_of_promotion)
            .unwrap_or_default()
    }

    /// The answers of the gates that its request skips.
    pub(super) fn skipped_gates(&self) -> Vec<GateAnswer> {
        self.with_question(gate::skipped_gates).unwrap_or_default()
    }

    fn ask(&self, ask: fn(&PromotionQuestion<'_>) -> GateVerdict) -> Option<Hold> {
        self.with_question(ask)?.hold()
    }

    fn with_question<T>(&self, ask: fn(&PromotionQuestion<'_>) -> T) -> Option<T> {
        let unobserved = PipelineStatus::default();
        let status = self.status();
        let question = PromotionQuestion {
            pipeline: self.pipeline,
            model: self.pipeline.status.as_ref().unwrap_or(&unobserved),
            environment: self.environment()?,
            settings: self.settings(),
            site: &self.site,
            promotion: self.promotion,
            rejected: status.map(|it| it.rejected.as_slice()).unwrap_or_default(),
            now: self.now,
        };
        Some(ask(&question))
    }
}

/// Whether the site has run the revision of a promotion, whatever its checks said.
fn has_arrived(promotion: &Promotion) -> bool {
    let status = promotion.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref());
    let phase = phase_of(promotion);
    matches!(phase, Some(Phase::Succeeded | Phase::Verifying)) || reason == Some(CHECK_FAILED)
}

/// Why a promotion may not go on because of these Freezes, which cover its pipeline now.
pub fn freeze_hold(
    promotion: &Promotion,
    pipeline: &Pipeline,
    freezes: Vec<CoveringFreeze>,
    now: Timestamp,
) -> Option<Hold> {
    let mut pipeline = pipeline.clone();
    pipeline.status.get_or_insert_default().freezes = freezes;
    let input = AttemptInput {
        pipeline: Some(&pipeline),
        promotions: &[],
        pull_request: ObservedPullRequest::NotQueried,
        edited: false,
    };
    let context = AttemptContext::new(promotion, &pipeline, &input, now);
    context.ask(freeze::ask_again)
}

/// The site that a promotion leads into.
fn site_state<'a>(
    promotion: &'a Promotion,
    pipeline: &'a Pipeline,
    promotions: &'a [Promotion],
) -> SiteState<'a> {
    let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let site = site_of(&promotion.spec, namespace);
    let is_other = |other: &&Promotion| {
        other.metadata.name != promotion.metadata.name
            && other.spec.pipeline == promotion.spec.pipeline
            && site_of(&other.spec, namespace) == site
    };
    let promotions = promotions.iter().filter(is_other).chain([promotion]);
    let promotions = promotions.collect();
    let status = pipeline.status.as_ref();
    let status = status.and_then(|it| it.environments.get(&site.environment));
    let targets = status.into_iter().flat_map(|status| &status.targets);
    let is_in_site = |target: &&TargetStatus| {
        let Some((cluster, namespace_on_cluster)) = &site.target else {
            return true;
        };
        let own = cluster_of_status(target).map(|it| cluster_key(it, namespace));
        own == *cluster && target.namespace.as_ref() == Some(namespace_on_cluster)
    };
    let targets = targets.filter(is_in_site).collect();
    let reported = status.and_then(|status| status.reported.as_ref());
    let target = promotion.spec.target.clone();
    SiteState::new((site, target), targets, reported, promotions)
}
