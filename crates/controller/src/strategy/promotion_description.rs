//! The names and texts of a promotion: branch, marker, title and text of the pull request, paths.
//!
//! Branch, title, the block in the text and the marker are those of the Weave pipeline-controller, byte
//! for byte, so that tools that search for them keep working. Only a rollback, which it did not have,
//! has another title.

use std::collections::BTreeSet;

use api::{
    names::{PromotionSite, short_hash, slug},
    pipeline::{RequestKind, TargetStatus},
    promotion::Approval,
};
use git::{names::BranchName, paths::PathLimits};
use planner::Failure;

use super::{
    PromotionTask,
    failure::{from_git, needs_edit, transient},
    rollout_part::{RolloutPart, TargetBatch},
    template::fill,
};

/// What stands before the promotion's uid in the text of its pull request.
pub(super) const TRAILER: &str = "Sluice-Promotion: ";
/// The requester, where the request does not name one.
const SOMEBODY: &str = "somebody";
/// The longest title that every forge accepts.
const LONGEST_TITLE: usize = 250;

/// What is promoted into which environment or target.
pub(super) struct PromotionDescription<'a> {
    pub(super) task: PromotionTask<'a>,
    pub(super) namespace: &'a str,
    pub(super) pipeline: &'a str,
    /// What its pull request, commits and calls are found again by.
    pub(super) uid: String,
    pub(super) site: PromotionSite,
    pub(super) batch: Option<TargetBatch<'a>>,
    /// The keys of the targets that it is about; nothing where these are all of the site.
    keys: Option<BTreeSet<&'a str>>,
    /// The keys of the other targets of the rollout whose manifests must not be edited.
    protected: BTreeSet<&'a str>,
}

impl<'a> PromotionDescription<'a> {
    pub(super) fn of(task: PromotionTask<'a>) -> Self {
        let metadata = &task.pipeline.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        Self {
            task,
            namespace,
            pipeline: metadata.name.as_deref().unwrap_or_default(),
            uid: task.uid(),
            site: planner::site_of(&task.promotion.spec, namespace),
            batch: TargetBatch::of(task.promotion),
            keys: task.part.keys(task.promotion),
            protected: match task.part {
                RolloutPart::BatchAlone => RolloutPart::NotStarted.keys(task.promotion),
                _ => None,
            }
            .unwrap_or_default(),
        }
    }

    /// The branch, with the suffix `-cluster-namespace` for a single target and `-b2` for a batch.
    pub(super) fn branch(&self) -> Result<BranchName, Failure> {
        let environment = &self.site.environment;
        let target = self.site.target.as_ref();
        let suffix = target.map(|(cluster, namespace)| match cluster {
            Some(cluster) => format!("-{cluster}-{namespace}"),
            None => format!("-{namespace}"),
        });
        let batch = self.batch.map(|batch| format!("-b{}", batch.number()));
        let suffix = suffix.or(batch).unwrap_or_default();
        let start = format!("promotion-{}-{}", self.namespace, self.pipeline);
        let name = format!("{start}-{environment}{suffix}");
        BranchName::new(name.as_str())
            .or_else(|_| {
                // Not every name of an environment can be part of a branch name.
                let readable = slug(environment, 40, "environment");
                let hash = short_hash(&[&name]);
                BranchName::new(format!("{start}-{readable}{suffix}-{hash}"))
            })
            .map_err(|error| needs_edit("InvalidBranch", error.to_string()))
    }

    pub(super) fn marker(&self) -> String {
        planner::marker(self.namespace, self.pipeline, &self.site)
    }

    pub(super) fn owner(&self) -> String {
        format!("{}/{}/{}", self.namespace, self.pipeline, self.site.key())
    }

    pub(super) fn title(&self) -> String {
        let spec = &self.task.promotion.spec;
        let (namespace, pipeline) = (self.namespace, self.pipeline);
        let (environment, version) = (&spec.environment, &spec.version);
        let verb = match self.is_rollback() {
            true => "Roll back",
            false => "Promote",
        };
        let title = format!("{verb} {namespace}/{pipeline} in {environment} to {version}");
        one_line(&format!("{title}{}{}", self.on_target(), self.in_batch()))
    }

    /// `, batch 2 (10 targets)` for a batch, empty otherwise.
    pub(super) fn in_batch(&self) -> String {
        self.batch.map(TargetBatch::in_title).unwrap_or_default()
    }

    /// The users who approved the change that is made; nothing if nobody did.
    pub(super) fn approved_by(&self) -> Option<String> {
        let spec = &self.task.promotion.spec;
        let Some(digest) = self.task.approved_change else {
            return spec.approved_by();
        };
        let is_for_it = |it: &&Approval| it.change_digest.as_deref() == Some(digest);
        let approvals = spec.approvals.iter().filter(is_for_it);
        let names = spec.approval.iter().chain(approvals);
        let names: Vec<_> = names.map(|it| it.by.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    fn is_rollback(&self) -> bool {
        let spec = &self.task.promotion.spec;
        let request = spec.request.as_ref();
        let is_asked = request.is_some_and(|request| request.kind == RequestKind::Rollback);
        is_asked || spec.cause.is_some()
    }

    /// The default text of a pull request: versions, who requested and approved it, and a link to the
    /// dashboard. Short, because lists of Azure DevOps cut texts after 400 characters.
    pub(super) fn text(&self, dashboard: Option<&str>) -> String {
        let spec = &self.task.promotion.spec;
        let verb = match self.is_rollback() {
            true => "Rolls back",
            false => "Promotes",
        };
        let from = spec
            .replaces
            .as_deref()
            .map(|it| format!(" from {}", quoted(it)));
        let site = format!("{}{}", spec.environment, self.on_target());
        let mut text = format!(
            "{verb} {} in {}{} to {}.",
            quoted(&format!("{}/{}", self.namespace, self.pipeline)),
            quoted(&site),
            from.unwrap_or_default(),
            quoted(&spec.version),
        );
        if spec.cause.is_some() {
            text += " A check failed there.";
        }
        if let Some(request) = &spec.request {
            let by = request.by.as_deref().unwrap_or(SOMEBODY);
            text += &format!(" Requested by {}.", quoted(by));
        }
        if let Some(overriding) = planner::override_of(self.task.pipeline, self.task.promotion) {
            let by = overriding.by.as_deref().unwrap_or(SOMEBODY);
            let passes = overriding.passes.join(", ");
            let (passes, reason) = (quoted(&passes), quoted(&overriding.reason));
            text += &format!(" {} overrides {passes}: {reason}.", quoted(by));
        }
        if let Some(names) = self.approved_by() {
            text += &format!(" Approved by {}.", quoted(&names));
        }
        if let Some(dashboard) = dashboard {
            let (home, namespace) = (dashboard.trim_end_matches('/'), self.namespace);
            text += &format!("\n\n{home}/pipelines/{namespace}/{}", self.pipeline);
        }
        text
    }

    /// Who ended the promotion, and why, where a person did.
    pub(super) fn why_closed(&self) -> Option<String> {
        let promotion = self.task.promotion;
        let Some(rejection) = &promotion.spec.rejection else {
            return planner::cancellation(promotion).map(one_line);
        };
        let note = rejection.note.as_deref().map(one_line);
        let note = note.filter(|note| !note.is_empty());
        let note = note.map(|note| format!(": {note}")).unwrap_or_default();
        Some(format!("Rejected by {}{note}", quoted(&rejection.by)))
    }

    /// ` on cluster/namespace` for a single target, empty for a whole environment.
    pub(super) fn on_target(&self) -> String {
        match &self.site.target {
            Some((Some(cluster), namespace)) => format!(" on {cluster}/{namespace}"),
            Some((None, namespace)) => format!(" on {namespace}"),
            None => String::new(),
        }
    }

    /// The whole text of a pull request: the given one, the metadata block, and the uid.
    pub(super) fn body(&self, text: &str) -> String {
        let is_ours = |line: &&str| !line.trim().starts_with(TRAILER);
        let text: Vec<_> = text.trim().lines().filter(is_ours).collect();
        let text = match text.is_empty() {
            true => String::new(),
            false => format!("{}\n\n", text.join("\n")),
        };
        format!(
            "{text}<details>\n<summary>metadata</summary>\n!!! DO NOT EDIT !!!\n\n\
             {}\n</details>\n\n{TRAILER}{}\n",
            self.environment(),
            self.uid
        )
    }

    /// `namespace/pipeline/environment`, as it stands in the metadata block.
    pub(super) fn environment(&self) -> String {
        let environment = &self.site.environment;
        format!("{}/{}/{environment}", self.namespace, self.pipeline)
    }

    /// Fills in the `${field}`s of a title or text of the strategy.
    pub(super) fn fill(&self, text: &str) -> Result<String, Failure> {
        let spec = &self.task.promotion.spec;
        let app = self.task.pipeline.spec.app_ref.as_ref();
        let request = spec.request.as_ref();
        let targets = self.targets_for(text)?;
        let joined = |pick: fn(&(String, String)) -> &String| {
            let mut all: Vec<_> = targets.iter().map(pick).cloned().collect();
            all.dedup();
            Some(all.join(", "))
        };
        // Never empty: "requested by ${requestedBy}" must read well where nobody requested it.
        let or = |value: Option<String>, other: &str| value.or_else(|| Some(other.to_owned()));
        let requester = request.map(|it| it.by.clone().unwrap_or_else(|| SOMEBODY.to_owned()));
        let fields = [
            ("pipeline", Some(self.pipeline.to_owned())),
            ("pipelineNamespace", Some(self.namespace.to_owned())),
            ("environment", Some(spec.environment.clone())),
            ("cluster", joined(|target| &target.0)),
            ("namespace", joined(|target| &target.1)),
            ("app", app.map(|app| app.name.clone())),
            ("revision", Some(spec.revision.clone())),
            ("version", Some(spec.version.clone())),
            ("replaces", or(spec.replaces.clone(), "nothing")),
            ("approvedBy", or(self.approved_by(), "nobody")),
            ("requestedBy", or(requester, "Sluice")),
        ];
        let fields = fields.map(|(name, value)| (name, one_line(&value.unwrap_or_default())));
        let fields = fields
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        fill(text, &fields)
    }

    /// The files that may change. A pattern with a cluster or namespace is filled in for each target.
    pub(super) fn paths(&self, patterns: &[String]) -> Result<PathLimits, Failure> {
        let mut filled = Vec::new();
        for pattern in patterns {
            for target in self.targets_for(pattern)? {
                filled.push(fill_path(pattern, &self.site.environment, &target)?);
            }
        }
        PathLimits::new(filled.iter().map(String::as_str))
            .map_err(|error| from_git(error.reason(), error.remedy(), &error))
    }

    /// Every target in the pipeline's status, with its environment.
    pub(super) fn all_targets(&self) -> impl Iterator<Item = (&'a str, &'a TargetStatus)> {
        let status = self.task.pipeline.status.as_ref();
        let environments = status.into_iter().flat_map(|status| &status.environments);
        environments.flat_map(|(name, environment)| {
            let targets = environment.targets.iter();
            targets.map(move |target| (name.as_str(), target))
        })
    }

    /// Whether the promotion leads into a target, with the batch under way if it goes in waves.
    pub(super) fn covers(&self, environment: &str, target: &TargetStatus) -> bool {
        if environment != self.site.environment {
            return false;
        }
        if let Some(keys) = &self.keys {
            return keys.contains(planner::target_key(target, self.namespace).as_str());
        }
        let Some((cluster, namespace)) = &self.site.target else {
            return true;
        };
        let (on, named) = self.target(target);
        on == cluster.as_deref().unwrap_or_default() && named == *namespace
    }

    /// Whether a target that it does not cover belongs to the same rollout, and its manifests need no
    /// protection from it: they are compared edit by edit, or had their turn.
    pub(super) fn is_of_other_batch(&self, environment: &str, target: &TargetStatus) -> bool {
        if !self.is_same_rollout(environment) {
            return false;
        }
        let key = planner::target_key(target, self.namespace);
        !self.protected.contains(key.as_str())
    }

    /// Whether it goes in waves through this environment.
    pub(super) fn is_same_rollout(&self, environment: &str) -> bool {
        self.keys.is_some() && environment == self.site.environment
    }

    /// Whether a target is there that it covers. Where it does not go in waves that is not known.
    pub(super) fn has_targets(&self) -> bool {
        let mut targets = self.all_targets();
        self.keys.is_none() || targets.any(|(name, target)| self.covers(name, target))
    }

    /// Cluster and namespace of each target that the promotion leads into; where the text does not use
    /// them, a single empty pair.
    pub(super) fn targets_for(&self, text: &str) -> Result<Vec<(String, String)>, Failure> {
        let is_used = ["${cluster}", "${namespace}"].map(|field| text.contains(field));
        if is_used == [false, false] {
            return Ok(vec![Default::default()]);
        }
        if let Some((cluster, namespace)) = &self.site.target {
            let cluster = cluster.clone().unwrap_or_default();
            return Ok(vec![(cluster, namespace.clone())]);
        }
        let here = |(environment, target): &(&str, &TargetStatus)| self.covers(environment, target);
        let targets = self.all_targets().filter(here);
        let all: Vec<_> = targets.map(|(_, target)| self.target(target)).collect();
        match all.is_empty() {
            // The cache may have the promotion before the status it was planned from.
            true => Err(transient("NotObserved", "the targets are not known yet")),
            false => Ok(all),
        }
    }

    /// Cluster, empty for the hub, and namespace.
    pub(super) fn target(&self, target: &TargetStatus) -> (String, String) {
        let app = target.cluster_app_ref.as_ref();
        let cluster = app.and_then(|app| app.cluster_ref.as_ref());
        let cluster = cluster.map(|cluster| planner::cluster_key(cluster, self.namespace));
        let namespace = target.namespace.clone().unwrap_or_default();
        (cluster.unwrap_or_default(), namespace)
    }
}

/// A pattern of `paths`, filled in for one target of an environment.
pub(super) fn fill_path(
    pattern: &str,
    environment: &str,
    (cluster, namespace): &(String, String),
) -> Result<String, Failure> {
    let fields = [
        ("environment", environment),
        ("cluster", cluster.as_str()),
        ("namespace", namespace),
    ];
    fill(pattern, &fields)
}

/// The text as code in Markdown.
fn quoted(text: &str) -> String {
    format!("`{}`", one_line(text).replace('`', "'"))
}

/// The text without line breaks, cut to the length of a title.
pub(super) fn one_line(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(LONGEST_TITLE)
        .collect();
    text.trim().to_owned()
}
