//! What is around a promotion: its pipeline, its place, its predecessors, its pull request.

use api::{
    Pipeline, Promotion,
    pipeline::{Environment, PromotionSettings, TargetStatus},
    promotion::Phase,
};

use crate::{
    place::{cluster_key, cluster_of_status, place_of, target_name},
    validity,
};

/// What was seen around a promotion.
#[derive(Clone, Debug)]
pub struct Surroundings<'a> {
    /// The pipeline as it is stored; none when it is gone.
    pub pipeline: Option<&'a Pipeline>,
    /// All promotions of that pipeline.
    pub promotions: &'a [Promotion],
    /// The promotion's own pull request.
    pub pull_request: PullRequestSeen,
    /// Whether something that was at fault was edited since the last attempt, such as a Secret.
    pub edited: bool,
}

/// What was seen of a promotion's pull request, found by its branch and trailer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PullRequestSeen {
    /// Nobody looked, because it does not matter.
    #[default]
    NotLooked,
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

impl<'a> Surroundings<'a> {
    /// The pipeline, unless it is on its way out. When it goes, so will the promotion; its pull
    /// request is left to people.
    pub(super) fn staying_pipeline(&self) -> Option<&'a Pipeline> {
        self.pipeline
            .filter(|pipeline| pipeline.metadata.deletion_timestamp.is_none())
    }
}

/// A promotion with its surroundings and the questions asked about them.
pub(super) struct Scene<'a> {
    pub(super) promotion: &'a Promotion,
    pub(super) pipeline: &'a Pipeline,
    pub(super) around: &'a Surroundings<'a>,
}

impl<'a> Scene<'a> {
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
        let place = place_of(spec, self.namespace());
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
        let revision = Some(&self.promotion.spec.revision);
        let is_there =
            |target: &&TargetStatus| target.ready && target.revision.as_ref() == revision;
        !targets.is_empty() && targets.iter().all(is_there) && !self.is_about_to_move()
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
        let place = place_of(&self.promotion.spec, self.namespace());
        let name = self.promotion.metadata.name.clone();
        let pipeline = self.promotion.spec.pipeline.clone();
        let namespace = self.namespace();
        self.around.promotions.iter().filter(move |other| {
            other.metadata.name != name
                && other.spec.pipeline == pipeline
                && place_of(&other.spec, namespace) == place
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
        let app = failed.apps.iter().find_map(|app| app.message.clone());
        let because = app
            .map(|message| format!(": {message}"))
            .unwrap_or_default();
        Some(format!(
            "{revision} failed on {}{because}",
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
        let to = self.promotion.spec.strategy.pull_request.as_ref();
        let is_automatic = to.is_some_and(|to| to.auto_merge && !to.draft);
        let is_held = self.lacks_approval() || self.pause().is_some();
        is_automatic && self.refusal().is_none() && !is_held
    }

    /// Why nothing may be started at the moment.
    pub(super) fn pause(&self) -> Option<(&'static str, String)> {
        if let Some(text) = validity::invalid_spec(&self.pipeline.spec) {
            return Some(("InvalidSpec", text));
        }
        let environment = self
            .environment()
            .is_some_and(|environment| environment.suspend);
        if self.pipeline.spec.suspend || environment {
            let text = "it goes on when the pipeline and the environment are resumed";
            return Some(("Suspended", text.to_owned()));
        }
        let predecessor = self
            .predecessor()?
            .metadata
            .name
            .clone()
            .unwrap_or_default();
        Some((
            "WaitingForPredecessor",
            format!("it goes on when {predecessor} has ended"),
        ))
    }
}
