//! What a promotion is called in git and on forges: branch, marker, title, text.
//!
//! Branch, title, the block in the text and the marker are the ancestor's, byte for byte, so that
//! whoever looks for them goes on finding them.

use api::{
    names::{Place, short_hash, slug},
    pipeline::{PullRequest, TargetStatus},
};
use git::{
    names::BranchName,
    paths::PathLimits,
    propose::{Alteration, Message, Proposal},
};
use planner::Failure;

use super::{
    Task,
    failure::{failure, passing, stuck},
    template::fill,
};

/// Says in a pull request which promotion it is for.
const TRAILER: &str = "Sluice-Promotion: ";
/// The longest title that every forge takes.
const LONGEST_TITLE: usize = 250;

/// The words of one promotion.
pub(super) struct Words {
    pub(super) proposal: Proposal,
    pub(super) title: String,
    pub(super) body: String,
    /// `namespace/pipeline/environment`, as it stands in the text.
    environment: String,
}

impl Words {
    pub(super) fn of(task: Task<'_>, to: &PullRequest) -> Result<Self, Failure> {
        let subject = Subject::of(task);
        let title = match &to.title {
            Some(title) => one_line(&subject.fill(title)?),
            None => subject.title(),
        };
        let text = to.body.as_deref().unwrap_or_default();
        let body = subject.body(&subject.fill(text)?);
        let base = BranchName::new(to.base_branch.as_str());
        let base = base.map_err(|error| stuck("InvalidBranch", error.to_string()))?;
        let created = task.promotion.metadata.creation_timestamp.as_ref();
        let proposal = Proposal {
            base,
            branch: subject.branch()?,
            message: Message {
                title: title.clone(),
                body: String::new(),
                promotion: subject.uid.to_owned(),
                owner: subject.owner(),
            },
            at: created.map(|time| time.0).unwrap_or_default(),
            alteration: Alteration::Marked {
                marker: subject.marker(),
                value: task.promotion.spec.version.clone(),
            },
            paths: subject.paths(to)?,
        };
        Ok(Self {
            proposal,
            title,
            body,
            environment: subject.environment(),
        })
    }
}

impl Words {
    /// Whether a pull request's text names the place that this promotion leads into.
    pub(super) fn names_owner(&self, body: &str) -> bool {
        let is_named = body.lines().any(|line| line.trim() == self.environment);
        is_named && promotion_in(body).is_some()
    }
}

/// The promotion whose pull request this text is from.
pub(super) fn promotion_in(body: &str) -> Option<&str> {
    let mut lines = body.lines().rev();
    lines.find_map(|line| line.trim().strip_prefix(TRAILER))
}

/// The uid that tells a promotion from all others.
pub(super) fn uid(task: Task<'_>) -> &str {
    task.promotion.metadata.uid.as_deref().unwrap_or_default()
}

/// What is promoted where.
struct Subject<'a> {
    task: Task<'a>,
    namespace: &'a str,
    pipeline: &'a str,
    uid: &'a str,
    place: Place,
}

impl<'a> Subject<'a> {
    fn of(task: Task<'a>) -> Self {
        let metadata = &task.pipeline.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        Self {
            task,
            namespace,
            pipeline: metadata.name.as_deref().unwrap_or_default(),
            uid: uid(task),
            place: planner::place_of(&task.promotion.spec, namespace),
        }
    }

    /// `-cluster-namespace` for one target, nothing for a whole environment.
    fn branch(&self) -> Result<BranchName, Failure> {
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

    fn marker(&self) -> String {
        let environment = &self.place.environment;
        let start = format!("{}:{}:{environment}", self.namespace, self.pipeline);
        match &self.place.target {
            Some((cluster, namespace)) => {
                let cluster = cluster.as_deref().unwrap_or("-");
                format!("{start}:{cluster}/{namespace}")
            }
            None => start,
        }
    }

    fn owner(&self) -> String {
        format!("{}/{}/{}", self.namespace, self.pipeline, self.place.key())
    }

    fn title(&self) -> String {
        let spec = &self.task.promotion.spec;
        let (namespace, pipeline) = (self.namespace, self.pipeline);
        let (environment, version) = (&spec.environment, &spec.version);
        let title = format!("Promote {namespace}/{pipeline} in {environment} to {version}");
        one_line(&match &self.place.target {
            Some((Some(cluster), namespace)) => format!("{title} on {cluster}/{namespace}"),
            Some((None, namespace)) => format!("{title} on {namespace}"),
            None => title,
        })
    }

    fn body(&self, text: &str) -> String {
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

    fn environment(&self) -> String {
        let environment = &self.place.environment;
        format!("{}/{}/{environment}", self.namespace, self.pipeline)
    }

    fn fill(&self, text: &str) -> Result<String, Failure> {
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
        let fields = [
            ("pipeline", Some(self.pipeline.to_owned())),
            ("pipelineNamespace", Some(self.namespace.to_owned())),
            ("environment", Some(spec.environment.clone())),
            ("cluster", joined(|target| &target.0)),
            ("namespace", joined(|target| &target.1)),
            ("app", app.map(|app| app.name.clone())),
            ("revision", Some(spec.revision.clone())),
            ("version", Some(spec.version.clone())),
            ("replaces", spec.replaces.clone()),
            ("approvedBy", approval.map(|approval| approval.by.clone())),
            (
                "requestedBy",
                request.and_then(|request| request.by.clone()),
            ),
        ];
        let fields = fields.map(|(name, value)| (name, one_line(&value.unwrap_or_default())));
        let fields = fields
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        fill(text, &fields)
    }

    /// Which files may change. A pattern with a cluster or namespace stands for one per target.
    fn paths(&self, to: &PullRequest) -> Result<PathLimits, Failure> {
        let mut patterns = Vec::new();
        for pattern in &to.paths {
            for (cluster, namespace) in self.targets_for(pattern)? {
                let fields = [
                    ("environment", self.place.environment.as_str()),
                    ("cluster", &cluster),
                    ("namespace", &namespace),
                ];
                patterns.push(fill(pattern, &fields)?);
            }
        }
        PathLimits::new(patterns.iter().map(String::as_str))
            .map_err(|error| failure(error.reason(), error.remedy(), &error))
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
        let status = self.task.pipeline.status.as_ref();
        let environment = status.and_then(|it| it.environments.get(&self.place.environment));
        let targets = environment.into_iter().flat_map(|it| &it.targets);
        let all: Vec<_> = targets.map(|target| self.target(target)).collect();
        match all.is_empty() {
            // The promotion may be seen a moment before the status it was planned from.
            true => Err(passing("NotObserved", "the targets are not known yet")),
            false => Ok(all),
        }
    }

    fn target(&self, target: &TargetStatus) -> (String, String) {
        let app = target.cluster_app_ref.as_ref();
        let cluster = app.and_then(|app| app.cluster_ref.as_ref());
        let cluster = cluster.map(|cluster| planner::cluster_key(cluster, self.namespace));
        let namespace = target.namespace.clone().unwrap_or_default();
        (cluster.unwrap_or_default(), namespace)
    }
}

/// The text without line breaks and not too long.
fn one_line(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(LONGEST_TITLE)
        .collect();
    text.trim().to_owned()
}
