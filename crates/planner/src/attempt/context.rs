//! What is around a promotion: its pipeline, its place, its predecessors, its pull request.

use api::{
    Pipeline, Promotion,
    pipeline::{Environment, PromotionSettings, Reported, Request, TargetStatus},
    promotion::{Phase, PromotionSpec},
    revision::{identity, is_digest},
};

use crate::{
    backwards::{PlaceState, ask_again},
    evidence::is_silent,
    hold::{Hold, HoldReason},
    plan::{assumed, pending_request},
    release::failure_message,
    site::{cluster_key, cluster_of_status, is_report_of, site_of, target_name},
    validity,
};

/// What was seen around a promotion.
#[derive(Clone, Debug)]
pub struct AttemptInput<'a> {
    /// The pipeline as it is stored; none when it is gone.
    pub pipeline: Option<&'a Pipeline>,
    /// All promotions of that pipeline.
    pub promotions: &'a [Promotion],
    /// The promotion's own pull request.
    pub pull_request: ObservedPullRequest,
    /// Whether something that was at fault was edited since the last attempt, such as a Secret.
    pub edited: bool,
}

/// What was seen of a promotion's pull request, found by its branch and trailer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ObservedPullRequest {
    /// Nobody looked, because it does not matter.
    #[default]
    NotQueried,
    /// The forge did not answer, or was not asked because it lately did not. It may later.
    Unanswered,
    /// There is none.
    Missing,
    /// It is open.
    Open {
        /// Where people can look at it.
        url: String,
        /// Whether it proposes this promotion's change already.
        is_current: bool,
        /// Whether somebody else pushed to its branch.
        changed_by_others: bool,
    },
    /// It was merged.
    Merged {
        /// Where people can look at it.
        url: String,
        /// The commit it became.
        commit: Option<String>,
    },
    /// It was closed without being merged.
    Closed {
        /// Where people can look at it.
        url: String,
    },
}

impl<'a> AttemptInput<'a> {
    /// The pipeline, unless it is on its way out. When it goes, so will the promotion; its pull
    /// request is left to people.
    pub(super) fn staying_pipeline(&self) -> Option<&'a Pipeline> {
        self.pipeline
            .filter(|pipeline| pipeline.metadata.deletion_timestamp.is_none())
    }
}

/// Whether a target runs what a promotion brings. Where git names a tag alone nobody can see its
/// digest.
fn runs(target: &TargetStatus, spec: &PromotionSpec) -> bool {
    let is_tag = |revision: &str| is_digest(&spec.revision) && revision == spec.version;
    let revision = target.revision.as_deref();
    revision.is_some_and(|revision| revision == spec.revision || is_tag(revision))
}

/// A promotion with its surroundings and the questions asked about them.
pub(super) struct AttemptContext<'a> {
    pub(super) promotion: &'a Promotion,
    pub(super) pipeline: &'a Pipeline,
    pub(super) around: &'a AttemptInput<'a>,
}

impl<'a> AttemptContext<'a> {
    pub(super) fn environment(&self) -> Option<&'a Environment> {
        let name = &self.promotion.spec.environment;
        let environments = &self.pipeline.spec.environments;
        environments
            .iter()
            .find(|environment| environment.name == *name)
    }

    pub(super) fn settings(&self) -> Option<&'a PromotionSettings> {
        let name = &self.environment()?.name;
        self.pipeline.spec.promotion_into(name)
    }

    fn namespace(&self) -> &'a str {
        self.pipeline
            .metadata
            .namespace
            .as_deref()
            .unwrap_or_default()
    }

    /// The targets of the promotion's place.
    fn targets(&self) -> Vec<&'a TargetStatus> {
        let spec = &self.promotion.spec;
        let status = self.pipeline.status.as_ref();
        let environment = status.and_then(|status| status.environments.get(&spec.environment));
        let Some(environment) = environment else {
            return Vec::new();
        };
        let place = site_of(spec, self.namespace());
        let is_in_place = |target: &&TargetStatus| {
            let Some((cluster, namespace)) = &place.target else {
                return true;
            };
            let of_target = cluster_of_status(target).map(|one| cluster_key(one, self.namespace()));
            of_target == *cluster && target.namespace.as_ref() == Some(namespace)
        };
        environment.targets.iter().filter(is_in_place).collect()
    }

    /// Whether it needs an approval that nobody has given.
    pub(super) fn lacks_approval(&self) -> bool {
        let spec = &self.promotion.spec;
        let is_manual = self.settings().is_some_and(|settings| settings.manual);
        (spec.needs_approval || is_manual) && spec.approval.is_none()
    }

    /// Whether every target of the place runs the revision as it should.
    pub(super) fn has_arrived(&self) -> bool {
        let targets = self.targets();
        let spec = &self.promotion.spec;
        let is_there = |target: &&TargetStatus| target.ready && runs(target, spec);
        let is_reported = self
            .reported()
            .is_some_and(|it| it.revision == spec.revision);
        let has_arrived = !targets.is_empty() && targets.iter().all(is_there) || is_reported;
        has_arrived && !self.is_about_to_move()
    }

    /// What reports say about the place as a whole, where they tell nothing about its targets.
    fn reported(&self) -> Option<&'a Reported> {
        let spec = &self.promotion.spec;
        let status = self.pipeline.status.as_ref()?;
        let environment = status.environments.get(&spec.environment)?;
        let is_whole = spec.target.is_none() && environment.targets.iter().all(is_silent);
        environment.reported.as_ref().filter(|_| is_whole)
    }

    /// That nothing will tell whether the place runs the revision, if that is so: reports are all
    /// that is asked for, and none has ever come from there.
    pub(super) fn silence(&self) -> Option<String> {
        let spec = &self.promotion.spec;
        let name = &spec.environment;
        let targets = self.targets();
        let is_known = targets.is_empty() || !targets.into_iter().all(is_silent);
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

    /// Whether git holds another revision that the place has yet to get. Then what runs today says
    /// nothing about whether this promotion is still needed.
    fn is_about_to_move(&self) -> bool {
        let is_merged = |promotion: &Promotion| {
            let status = promotion.status.as_ref();
            status
                .and_then(|status| status.merged_at.clone())
                .map(|time| time.0)
        };
        if is_merged(self.promotion).is_some() {
            return false;
        }
        let merged = self.others().filter(|other| is_merged(other).is_some());
        let last = merged.max_by_key(|other| is_merged(other));
        last.is_some_and(|last| {
            let phase = last.status.as_ref().and_then(|status| status.phase);
            last.spec.revision != self.promotion.spec.revision && phase != Some(Phase::Succeeded)
        })
    }

    /// The other promotions of the place.
    fn others(&self) -> impl Iterator<Item = &'a Promotion> {
        let place = site_of(&self.promotion.spec, self.namespace());
        let name = self.promotion.metadata.name.clone();
        let pipeline = self.promotion.spec.pipeline.clone();
        let namespace = self.namespace();
        self.around.promotions.iter().filter(move |other| {
            other.metadata.name != name
                && other.spec.pipeline == pipeline
                && site_of(&other.spec, namespace) == place
        })
    }

    /// An earlier promotion of the place that could still bring its change into git.
    pub(super) fn predecessor(&self) -> Option<&'a Promotion> {
        let order = |promotion: &Promotion| {
            let created = promotion.metadata.creation_timestamp.clone();
            let name = promotion.metadata.name.clone();
            (created.map(|time| time.0), promotion.spec.ordinal, name)
        };
        let own = order(self.promotion);
        // Of two that are as old as each other to the second, one that was taken back goes first.
        let is_earlier = |other: &&Promotion| other.spec.withdrawn.is_some() || order(other) < own;
        let may_merge = |other: &&Promotion| {
            let phase = other.status.as_ref().and_then(|status| status.phase);
            phase.is_none_or(|phase| !phase.lets_successor_act())
        };
        self.others().filter(is_earlier).find(may_merge)
    }

    /// Where the revision failed, if it did.
    pub(super) fn failure(&self) -> Option<String> {
        let revision = &self.promotion.spec.revision;
        let targets = self.targets();
        let failed = targets
            .into_iter()
            .find(|target| !target.ready && target.failed.as_ref() == Some(revision))?;
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

    /// Whether the forge is to merge the pull request, and nothing is against that now.
    pub(super) fn may_merge(&self) -> bool {
        let is_held = self.lacks_approval() || self.pause().is_some();
        self.is_automatic() && self.refusal().is_none() && !is_held
    }

    /// Whether the forge is asked to merge the pull request.
    fn is_automatic(&self) -> bool {
        let to = self.promotion.spec.strategy.pull_request.as_ref();
        to.is_some_and(|to| to.auto_merge && !to.draft)
    }

    /// Why an open pull request is not merged by itself, or should not be merged by people either.
    pub(super) fn unmergeable(&self) -> Option<(&'static str, String)> {
        if self.is_automatic() {
            return self.pause();
        }
        let hold = self.out_of_order()?;
        Some((hold.reason.word(), hold.message()))
    }

    /// Why nothing may be started at the moment.
    pub(super) fn pause(&self) -> Option<(&'static str, String)> {
        if let Some(text) = validity::invalid_spec(&self.pipeline.spec) {
            return Some(("InvalidSpec", text));
        }
        if let Some(text) = self.invalid_source() {
            return Some((HoldReason::InvalidSource.word(), text));
        }
        let environment = self
            .environment()
            .is_some_and(|environment| environment.suspend);
        if self.pipeline.spec.suspend || environment {
            let text = "it goes on when the pipeline and the environment are resumed";
            return Some(("Suspended", text.to_owned()));
        }
        if let Some(predecessor) = self.predecessor() {
            let name = predecessor.metadata.name.clone().unwrap_or_default();
            let text = format!("it goes on when {name} has ended");
            return Some(("WaitingForPredecessor", text));
        }
        if let Some(request) = self.other_request() {
            let text = format!("a person asked for {}, which goes first", request.revision);
            return Some((HoldReason::RequestUnderWay.word(), text));
        }
        let hold = self.out_of_order()?;
        Some((hold.reason.word(), hold.message()))
    }

    /// Why the pipeline's source cannot have proposed it.
    fn invalid_source(&self) -> Option<String> {
        let spec = &self.promotion.spec;
        let mut environments = self.pipeline.spec.environments.iter();
        let first = environments.find(|environment| !environment.targets.is_empty());
        let is_proposed = first.is_some_and(|first| first.name == spec.environment);
        validity::invalid_source(&self.pipeline.spec)
            .filter(|_| is_proposed && spec.request.is_none())
    }

    /// A request for another revision that has not been taken up yet.
    fn other_request(&self) -> Option<Request> {
        let spec = &self.promotion.spec;
        let model = self.pipeline.status.as_ref()?;
        let pending = pending_request(self.pipeline, model, &spec.environment)?;
        let is_own = spec
            .request
            .as_ref()
            .is_some_and(|own| own.id == pending.id);
        let is_same =
            identity(&pending.revision) == spec.revision || pending.revision == spec.version;
        (!is_own && !is_same).then_some(pending)
    }

    /// Why bringing the revision now would be a step back.
    pub(super) fn out_of_order(&self) -> Option<Hold> {
        let environment = &self.promotion.spec.environment;
        let status = self.pipeline.status.as_ref()?;
        let status = status.environments.get(environment)?;
        let promotions: Vec<_> = self.others().chain([self.promotion]).collect();
        let targets = self.targets();
        let place = PlaceState {
            environment,
            assumed: assumed(&targets, self.reported(), &promotions),
            targets: &targets,
            promotions: &promotions,
            rejected: &status.rejected,
        };
        ask_again(self.promotion, &place, status.last_request.as_ref())
    }
}
