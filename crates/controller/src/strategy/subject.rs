//! What a promotion is about, and what that is called: branch, marker, title, text, paths.
//!
//! Branch, title, the block in the text and the marker are the ancestor's, byte for byte, so that
//! whoever looks for them goes on finding them. Only a rollback, which it did not have, has another
//! title.

use api::{
    names::{Place, short_hash, slug},
    pipeline::{RequestKind, TargetStatus},
};
use git::{names::BranchName, paths::PathLimits};
use planner::Failure;

use super::{
    Task,
    failure::{failure, passing, stuck},
    template::fill,
};

/// Says in a pull request which promotion it is for.
pub(super) const TRAILER: &str = "Sluice-Promotion: ";
/// Who asked, where the request does not say.
const SOMEBODY: &str = "somebody";
/// The longest title that every forge takes.
const LONGEST_TITLE: usize = 250;

/// What is promoted where.
pub(super) struct Subject<'a> {
    pub(super) task: Task<'a>,
    pub(super) namespace: &'a str,
    pub(super) pipeline: &'a str,
    pub(super) uid: &'a str,
    pub(super) place: Place,
}

impl<'a> Subject<'a> {
    pub(super) fn of(task: Task<'a>) -> Self {
        let metadata = &task.pipeline.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        Self {
            task,
            namespace,
            pipeline: metadata.name.as_deref().unwrap_or_default(),
            uid: super::words::uid(task),
            place: planner::place_of(&task.promotion.spec, namespace),
        }
    }

    /// `-cluster-namespace` for one target, nothing for a whole environment.
    pub(super) fn branch(&self) -> Result<BranchName, Failure> {
        let environment = &self.place.environment;
        let target = self.place.target.as_ref();
        let suffix = target.map(|(cluster, namespace)| match cluster {
            Some(cluster) => format!("-{cluster}-{namespace}"),
            None => format!("-{namespace}"),
        });
        let suffix = suffix.unwrap_or_default();
        let start = format!("promotion-{}-{}", self.namespace, self.pipeline);
        let name = format!("{start}-{environment}{suffix}");
        BranchName::new(name.as_str())
            .or_else(|_| {
                // Not every environment's name can be part of a branch's.
                let readable = slug(environment, 40, "environment");
                let hash = short_hash(&[&name]);
                BranchName::new(format!("{start}-{readable}{suffix}-{hash}"))
            })
            .map_err(|error| stuck("InvalidBranch", error.to_string()))
    }

    pub(super) fn marker(&self) -> String {
        planner::marker(self.namespace, self.pipeline, &self.place)
    }

    pub(super) fn owner(&self) -> String {
        format!("{}/{}/{}", self.namespace, self.pipeline, self.place.key())
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
        one_line(&format!("{title}{}", self.on_target()))
    }

    fn is_rollback(&self) -> bool {
        let request = self.task.promotion.spec.request.as_ref();
        request.is_some_and(|request| request.kind == RequestKind::Rollback)
    }

    /// What a pull request says unless the strategy has a `body`: from which version to which, who
    /// wanted it, and where to see more. Short, because lists of Azure DevOps cut texts after 400
    /// characters.
    pub(super) fn text(&self, dashboard: Option<&str>) -> String {
        let spec = &self.task.promotion.spec;
        let quoted = |text: &str| format!("`{}`", one_line(text).replace('`', "'"));
        let verb = match self.is_rollback() {
            true => "Rolls back",
            false => "Promotes",
        };
        let from = spec
            .replaces
            .as_deref()
            .map(|it| format!(" from {}", quoted(it)));
        let place = format!("{}{}", spec.environment, self.on_target());
        let mut text = format!(
            "{verb} {} in {}{} to {}.",
            quoted(&format!("{}/{}", self.namespace, self.pipeline)),
            quoted(&place),
            from.unwrap_or_default(),
            quoted(&spec.version),
        );
        if let Some(request) = &spec.request {
            let by = request.by.as_deref().unwrap_or(SOMEBODY);
            text += &format!(" Requested by {}.", quoted(by));
        }
        if let Some(approval) = &spec.approval {
            text += &format!(" Approved by {}.", quoted(&approval.by));
        }
        if let Some(dashboard) = dashboard {
            let (home, namespace) = (dashboard.trim_end_matches('/'), self.namespace);
            text += &format!("\n\n{home}/pipelines/{namespace}/{}", self.pipeline);
        }
        text
    }

    /// ` on cluster/namespace` for one target, nothing for a whole environment.
    pub(super) fn on_target(&self) -> String {
        match &self.place.target {
            Some((Some(cluster), namespace)) => format!(" on {cluster}/{namespace}"),
            Some((None, namespace)) => format!(" on {namespace}"),
            None => String::new(),
        }
    }

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

    pub(super) fn environment(&self) -> String {
        let environment = &self.place.environment;
        format!("{}/{}/{environment}", self.namespace, self.pipeline)
    }

    pub(super) fn fill(&self, text: &str) -> Result<String, Failure> {
        let spec = &self.task.promotion.spec;
        let app = self.task.pipeline.spec.app_ref.as_ref();
        let approval = spec.approval.as_ref();
        let request = spec.request.as_ref();
        let targets = self.targets_for(text)?;
        let joined = |pick: fn(&(String, String)) -> &String| {
            let mut all: Vec<_> = targets.iter().map(pick).cloned().collect();
            all.dedup();
            Some(all.join(", "))
        };
        // Never empty: "asked by ${requestedBy}" must read well where nobody asked.
        let or = |value: Option<String>, other: &str| value.or_else(|| Some(other.to_owned()));
        let asked = request.map(|it| it.by.clone().unwrap_or_else(|| SOMEBODY.to_owned()));
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
            (
                "approvedBy",
                or(approval.map(|approval| approval.by.clone()), "nobody"),
            ),
            ("requestedBy", or(asked, "Sluice")),
        ];
        let fields = fields.map(|(name, value)| (name, one_line(&value.unwrap_or_default())));
        let fields = fields
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        fill(text, &fields)
    }

    /// Which files may change. A pattern with a cluster or namespace stands for one per target.
    pub(super) fn paths(&self, patterns: &[String]) -> Result<PathLimits, Failure> {
        let mut filled = Vec::new();
        for pattern in patterns {
            for target in self.targets_for(pattern)? {
                filled.push(fill_path(pattern, &self.place.environment, &target)?);
            }
        }
        PathLimits::new(filled.iter().map(String::as_str))
            .map_err(|error| failure(error.reason(), error.remedy(), &error))
    }

    /// Every target of the pipeline as it was last seen, with its environment.
    pub(super) fn all_targets(&self) -> impl Iterator<Item = (&'a str, &'a TargetStatus)> {
        let status = self.task.pipeline.status.as_ref();
        let environments = status.into_iter().flat_map(|status| &status.environments);
        environments.flat_map(|(name, environment)| {
            let targets = environment.targets.iter();
            targets.map(move |target| (name.as_str(), target))
        })
    }

    /// Whether a target is part of the place.
    pub(super) fn covers(&self, environment: &str, target: &TargetStatus) -> bool {
        if environment != self.place.environment {
            return false;
        }
        let Some((cluster, namespace)) = &self.place.target else {
            return true;
        };
        let (on, named) = self.target(target);
        on == cluster.as_deref().unwrap_or_default() && named == *namespace
    }

    /// Cluster and namespace of each target of the place; where the text does not ask for them, just
    /// one that stands for all.
    fn targets_for(&self, text: &str) -> Result<Vec<(String, String)>, Failure> {
        let asks = ["${cluster}", "${namespace}"].map(|field| text.contains(field));
        if asks == [false, false] {
            return Ok(vec![Default::default()]);
        }
        if let Some((cluster, namespace)) = &self.place.target {
            let cluster = cluster.clone().unwrap_or_default();
            return Ok(vec![(cluster, namespace.clone())]);
        }
        let here = |(environment, _): &(&str, _)| *environment == self.place.environment;
        let targets = self.all_targets().filter(here);
        let all: Vec<_> = targets.map(|(_, target)| self.target(target)).collect();
        match all.is_empty() {
            // The promotion may be seen a moment before the status it was planned from.
            true => Err(passing("NotObserved", "the targets are not known yet")),
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

/// A path for one target of an environment.
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

/// The text without line breaks and not too long.
pub(super) fn one_line(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(LONGEST_TITLE)
        .collect();
    text.trim().to_owned()
}
