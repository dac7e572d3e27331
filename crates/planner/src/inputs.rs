//! What clusters that ask for it should run (`strategy.resourceSetInputs`): what promotions published, and
//! the answer to one question.
//!
//! The value changes only when a promotion lands; that its Promotion was deleted later changes nothing. Of
//! the values of a target and of its environment the later one counts, so that another `scope` takes no
//! target back to an older value. What is not known is a refusal, never an empty answer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use api::{
    Pipeline, Promotion, Time,
    names::PromotionSite,
    pipeline::{DesiredRevision, EnvironmentStatus, PipelineSpec, PipelineStatus, TargetStatus},
    promotion::Phase,
    revision::shown,
};

use crate::{
    promotion_phase::{creation_order, is_deploying, merged_at},
    rollout::landed_at,
    site::{HUB, cluster_key, cluster_of_status, site_of, site_of_key},
    time::{self, Timestamp},
};

/// What a cluster asks for.
#[derive(Clone, Copy, Debug)]
pub struct InputQuestion<'a> {
    /// The environment.
    pub environment: &'a str,
    /// The name of its GitopsCluster, with its namespace as `namespace/name` or `namespace.name` where that
    /// differs from the pipeline's; `-` for the hub.
    pub cluster: Option<&'a str>,
    /// The namespace of the target, where a cluster has several.
    pub namespace: Option<&'a str>,
}

/// The input that a cluster gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedInput {
    /// The same whatever the revision: an operator takes another id for another input.
    pub id: String,
    /// What to write to a manifest.
    pub version: String,
    /// The revision.
    pub revision: String,
    /// The digest of the artifact; empty where it is not known.
    pub digest: String,
}

/// Why a cluster gets no input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputsRefusal {
    /// The environment does not publish inputs.
    NotPublished {
        /// The environment.
        environment: String,
    },
    /// It depends on the target.
    TargetsDiffer {
        /// The environment.
        environment: String,
        /// What the question lacks.
        missing: &'static str,
    },
    /// No promotion has landed yet.
    Unknown {
        /// The environment.
        environment: String,
    },
}

impl fmt::Display for InputsRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPublished { environment } => {
                write!(f, "the pipeline publishes no inputs for {environment}")
            }
            Self::TargetsDiffer {
                environment,
                missing,
            } => write!(
                f,
                "the targets of {environment} should run different revisions; add `{missing}` to the \
                 address"
            ),
            Self::Unknown { environment } => write!(
                f,
                "no promotion into {environment} has been published yet; nothing is changed until one is"
            ),
        }
    }
}

/// The Secret with the token for the inputs of an environment.
pub fn inputs_secret<'a>(spec: &'a PipelineSpec, environment: &str) -> Option<&'a str> {
    let mut environments = spec.environments.iter();
    environments.find(|it| it.name == environment)?;
    let strategy = &spec.promotion_into(environment)?.strategy;
    let inputs = strategy.resource_set_inputs.as_ref()?;
    Some(&inputs.secret_ref.name)
}

/// The status with what clusters should run, of all environments and targets.
pub fn with_desired(
    pipeline: &Pipeline,
    mut status: PipelineStatus,
    promotions: &[Promotion],
) -> PipelineStatus {
    let home = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let landed = landed_by_site(pipeline, promotions, home);
    for (name, environment) in &mut status.environments {
        let publishes = inputs_secret(&pipeline.spec, name).is_some();
        let site = PromotionSite::environment(name);
        environment.desired = desired(&landed, &site, environment.desired.take(), publishes);
        for target in &mut environment.targets {
            let site = site_of_target(name, target, home);
            target.desired = desired(&landed, &site, target.desired.take(), publishes);
        }
    }
    status
}

/// The promotions that landed in a site, and when.
type LandedBySite<'a> = BTreeMap<PromotionSite, Vec<(&'a Promotion, Timestamp)>>;

fn landed_by_site<'a>(
    pipeline: &Pipeline,
    promotions: &'a [Promotion],
    home: &str,
) -> LandedBySite<'a> {
    let mut by_site = LandedBySite::new();
    let is_ours =
        |promotion: &&Promotion| pipeline.metadata.name.as_ref() == Some(&promotion.spec.pipeline);
    for promotion in promotions.iter().filter(is_ours) {
        for (site, at) in landed_sites(promotion, home) {
            by_site.entry(site).or_default().push((promotion, at));
        }
    }
    by_site
}

/// The sites in which a promotion landed, and when. A rollout lands in its environment as a whole when it
/// has ended well, and in each target with its batch.
fn landed_sites(promotion: &Promotion, home: &str) -> Vec<(PromotionSite, Timestamp)> {
    let status = promotion.status.as_ref();
    let whole = site_of(&promotion.spec, home);
    let Some(rollout) = status.and_then(|it| it.rollout.as_ref()) else {
        let landed_at = merged_at(promotion).filter(|_| promotion.spec.rollout.is_none());
        return Vec::from_iter(landed_at.map(|at| (whole, at)));
    };
    let environment = &promotion.spec.environment;
    let targets = rollout.targets.iter().filter_map(|target| {
        let at = landed_at(target, &rollout.batches)?;
        Some((site_of_key(environment, &target.target), at))
    });
    let has_succeeded = status.and_then(|it| it.phase) == Some(Phase::Succeeded);
    let finished = status.and_then(|it| it.finished_at.as_ref());
    let finished = finished.filter(|_| has_succeeded);
    let finished = finished.map(|at| (whole, at.0));
    targets.chain(finished).collect()
}

fn site_of_target(environment: &str, target: &TargetStatus, home: &str) -> PromotionSite {
    let cluster = cluster_of_status(target).map(|it| cluster_key(it, home));
    let namespace = target.namespace.as_deref().unwrap_or_default();
    PromotionSite::target(environment, cluster.as_deref(), namespace)
}

/// What a site should run: what its last promotion brought, if that was published as an input.
fn desired(
    landed: &LandedBySite<'_>,
    site: &PromotionSite,
    stored: Option<DesiredRevision>,
    publishes: bool,
) -> Option<DesiredRevision> {
    if !publishes {
        return None;
    }
    let landed = landed.get(site).into_iter().flatten();
    let last = landed.max_by_key(|(it, at)| (is_deploying(it), *at, creation_order(it)));
    let inputs = last.filter(|(it, _)| it.spec.strategy.resource_set_inputs.is_some());
    let Some((promotion, landed_at)) = inputs else {
        return stored;
    };
    let replaced_at = stored.as_ref().and_then(|it| Some(it.since.as_ref()?.0));
    let landed_at = Some(*landed_at);
    // What a later promotion published stays, also after that one was deleted.
    let is_older = landed_at < replaced_at && !is_deploying(promotion);
    let published = published(promotion, landed_at, replaced_at);
    match stored {
        Some(stored) if is_older || is_same(&stored, &published) => Some(stored),
        _ => Some(published),
    }
}

/// What a promotion publishes. After a clock was set back it still counts as later than what it replaces.
fn published(
    promotion: &Promotion,
    landed_at: Option<Timestamp>,
    replaced_at: Option<Timestamp>,
) -> DesiredRevision {
    let spec = &promotion.spec;
    let since = match replaced_at {
        Some(replaced_at) if landed_at < Some(replaced_at) => {
            Some(time::later(replaced_at, Duration::from_secs(1)))
        }
        _ => landed_at,
    };
    DesiredRevision {
        revision: spec.revision.clone(),
        version: spec.version.clone(),
        digest: spec.artifact_digest().map(str::to_owned),
        since: since.map(Time),
    }
}

fn is_same(one: &DesiredRevision, other: &DesiredRevision) -> bool {
    (&one.revision, &one.version, &one.digest) == (&other.revision, &other.version, &other.digest)
}

/// The answer to a cluster.
pub fn published_input(
    pipeline: &Pipeline,
    question: InputQuestion<'_>,
) -> Result<PublishedInput, InputsRefusal> {
    let environment = question.environment.to_owned();
    if inputs_secret(&pipeline.spec, question.environment).is_none() {
        return Err(InputsRefusal::NotPublished { environment });
    }
    let status = pipeline.status.as_ref();
    let status = status.and_then(|it| it.environments.get(question.environment));
    let of_environment = status.and_then(|it| it.desired.as_ref());
    let home = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let targets = status.into_iter().flat_map(|it| &it.targets);
    let meant = targets.filter(|target| question.means(target, home));
    let mut values = meant.map(|target| later(target.desired.as_ref(), of_environment));
    // A target that joins gets what its environment has.
    let first = values.next().unwrap_or(of_environment);
    if !values.all(|other| is_same_answer(first, other)) {
        let missing = match question.cluster {
            Some(_) => "namespace",
            None => "cluster",
        };
        return Err(InputsRefusal::TargetsDiffer {
            environment,
            missing,
        });
    }
    let desired = first.ok_or(InputsRefusal::Unknown { environment })?;
    let name = pipeline.metadata.name.as_deref().unwrap_or_default();
    Ok(PublishedInput {
        id: format!("{name}-{}", question.environment),
        version: desired.version.clone(),
        revision: desired.revision.clone(),
        digest: desired.digest.clone().unwrap_or_default(),
    })
}

/// What the targets of an environment are answered, for people.
pub fn published_revisions(status: &EnvironmentStatus) -> Vec<String> {
    let of_environment = status.desired.as_ref();
    let targets = status.targets.iter();
    let answers = targets.filter_map(|it| later(it.desired.as_ref(), of_environment));
    let without_targets = of_environment.filter(|_| status.targets.is_empty());
    let all = answers.chain(without_targets);
    let all: BTreeSet<String> = all
        .map(|it| shown(&it.revision, Some(&it.version)))
        .collect();
    all.into_iter().collect()
}

fn is_same_answer(one: Option<&DesiredRevision>, other: Option<&DesiredRevision>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => is_same(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// The later of the values of a target and of its environment.
fn later<'a>(
    own: Option<&'a DesiredRevision>,
    of_environment: Option<&'a DesiredRevision>,
) -> Option<&'a DesiredRevision> {
    match (own, of_environment) {
        (Some(own), Some(other)) if own.since < other.since => Some(other),
        (own, other) => own.or(other),
    }
}

impl InputQuestion<'_> {
    fn means(&self, target: &TargetStatus, home: &str) -> bool {
        let namespace = self.namespace;
        let is_there = namespace.is_none_or(|it| target.namespace.as_deref() == Some(it));
        is_there && self.cluster.is_none_or(|it| is_cluster(it, target, home))
    }
}

fn is_cluster(text: &str, target: &TargetStatus, home: &str) -> bool {
    let Some(cluster) = cluster_of_status(target) else {
        return text == HUB;
    };
    if let Some((namespace, name)) = text.split_once('/') {
        let own = cluster.namespace.as_deref().filter(|it| !it.is_empty());
        return name == cluster.name && namespace == own.unwrap_or(home);
    }
    text == cluster_key(cluster, home)
}
