//! The strategy oci: points a tag of a repository at the digest that the environment before it runs.
//!
//! The manifest is put under the tag byte for byte, in the repository that the Pipeline names. A tag that
//! points to what Sluice did not put there is left alone. Registries cannot compare and set a tag in one
//! step: the tag is read again afterwards, and if somebody else set it meanwhile, the promotion says so.

use std::sync::Arc;

use api::{
    Promotion,
    pipeline::{Oci, OciProvider},
    promotion::FieldEdit,
};
use net::{AddressPolicy, OutboundHttp};
use planner::{Failure, Outcome, TAG_CHANGED_BY_OTHERS};
use registry::{
    CloudProvider, Credentials, Digest, Manifest, Reference, RegistryClient, Repository, Tag,
    WorkloadIdentity,
};

use super::{
    PromotionTask,
    batch_edits::shared_field,
    failure::{from_git, needs_edit, transient},
    promotion_description::PromotionDescription,
    rollout_part::{RolloutPart, TargetBatch, target_key},
    secrets::SecretContents,
    side_effect_guard::SideEffectGuard,
    template::fill,
};
use crate::Settings;

/// Reason and message when the registry does not answer in time.
const TOO_LATE: (&str, &str) = ("RegistryTimedOut", "the registry did not answer in time");

/// Carries out promotions by tags of OCI repositories.
pub(super) struct OciTags {
    http: OutboundHttp,
    /// For repositories that are reached without TLS.
    insecure_http: OutboundHttp,
    /// This process's workload identity, where Pipelines may use it.
    identity: Option<WorkloadIdentity>,
    guard: SideEffectGuard,
}

/// The tag of a promotion and the digest that it is to point to.
struct WantedTag {
    repository: Repository,
    tag: Tag,
    digest: Digest,
    /// `oci://host/name:tag`.
    reference: String,
    /// The key of the target that it is for, where each has its own.
    target: Option<String>,
}

impl OciTags {
    pub(super) fn new(settings: &Settings, guard: SideEffectGuard) -> Self {
        let http = |allow_insecure| {
            let policy = AddressPolicy {
                allow_internal: settings.allow_internal_urls,
                allow_insecure,
            };
            let http = settings.replacements.in_http(OutboundHttp::new(policy));
            let http = http.with_timeout(guard.timeout());
            http.with_proxy(settings.proxy.clone())
        };
        Self {
            http: http(false),
            insecure_http: http(true),
            identity: settings
                .allow_registry_identity
                .then(|| identity(settings, &guard)),
            guard,
        }
    }

    /// Points the tag at the promotion's digest. `promotions` are those of the pipeline, which tell what
    /// Sluice itself put there.
    pub(super) async fn carry_out(
        &self,
        task: PromotionTask<'_>,
        to: &Oci,
        secret: Option<Arc<SecretContents>>,
        promotions: &[Promotion],
    ) -> Result<Outcome, Failure> {
        refuse_shared_tags(task, to)?;
        let all = WantedTag::all_of(task, to)?;
        let Some(first) = all.first() else {
            return Ok(Outcome::AlreadyThere);
        };
        let credentials = self
            .credentials(to, &first.repository, secret.as_deref())
            .await?;
        let client = RegistryClient::new(self.http(to), &first.repository, &credentials);
        let client = client.map_err(|error| from_registry(&error))?;
        // A tag that was put before a crash is found to be right already.
        for wanted in &all {
            self.put(wanted, task, &client, promotions).await?;
        }
        Ok(tagged(first, all.len()))
    }

    /// Points one tag at the promotion's digest, unless it does so.
    async fn put(
        &self,
        wanted: &WantedTag,
        task: PromotionTask<'_>,
        client: &RegistryClient<'_>,
        promotions: &[Promotion],
    ) -> Result<(), Failure> {
        let manifest = wanted.manifest(client).await?;
        let before = wanted.current(client).await?;
        if before
            .as_ref()
            .is_some_and(|before| before.bytes == manifest.bytes)
        {
            return Ok(());
        }
        let replaceable = wanted.replaceable_digests(task, promotions);
        let replaceable: Vec<_> = replaceable.iter().map(String::as_str).collect();
        if let Some(before) = &before
            && !replaceable.contains(&before.digest.as_str())
        {
            return Err(wanted.changed_by_others(before, &replaceable));
        }
        let put = async {
            let put = client.put_manifest(&wanted.tag, &manifest).await;
            put.map_err(|error| from_registry(&error))
        };
        self.guard.run(put, TOO_LATE).await?;
        let after = wanted.current(client).await?;
        wanted.verify(&manifest, before.as_ref(), after.as_ref())
    }
}

impl OciTags {
    /// Whether the repository can be read with the Secret.
    pub(super) async fn check(&self, to: &Oci, secret: &SecretContents) -> Result<(), Failure> {
        let failed = |error: &registry::Error| from_registry(error);
        let repository = Repository::parse(&to.url, to.insecure).map_err(|it| failed(&it))?;
        let credentials = self.credentials(to, &repository, Some(secret)).await?;
        let client = RegistryClient::new(self.http(to), &repository, &credentials);
        let client = client.map_err(|it| failed(&it))?;
        // Whether there is such a tag does not matter.
        let tag = Tag::parse("latest").map_err(|it| failed(&it))?;
        let read = client.manifest(Reference::Tag(&tag)).await;
        read.map(drop).map_err(|it| failed(&it))
    }

    fn http(&self, to: &Oci) -> &OutboundHttp {
        match to.insecure {
            true => &self.insecure_http,
            false => &self.http,
        }
    }

    /// The credentials in the Secret, or those of this process.
    async fn credentials(
        &self,
        to: &Oci,
        repository: &Repository,
        secret: Option<&SecretContents>,
    ) -> Result<Credentials, Failure> {
        let credentials = match (to.provider.map(provider), &self.identity, secret) {
            (Some(_), None, _) => {
                let text = "the controller does not lend its workload identity; use a secretRef, or start \
                            it with --allow-registry-identity";
                return Err(needs_edit("IdentityNotAllowed", text));
            }
            (Some(provider), Some(identity), _) => identity.credentials(provider, repository).await,
            (None, _, Some(secret)) => {
                Credentials::from_entries(&secret.entries, repository.host())
            }
            (None, _, None) => Ok(Credentials::anonymous()),
        };
        credentials.map_err(|error| from_registry(&error))
    }
}

/// The identity that the cloud gave this process by environment variables.
fn identity(settings: &Settings, guard: &SideEffectGuard) -> WorkloadIdentity {
    let http = OutboundHttp::new(AddressPolicy::UNRESTRICTED).with_timeout(guard.timeout());
    let identity = WorkloadIdentity::new(|name| std::env::var(name).ok());
    identity.with_http(http.with_proxy(settings.proxy.clone()))
}

fn provider(provider: OciProvider) -> CloudProvider {
    match provider {
        OciProvider::Aws => CloudProvider::Aws,
        OciProvider::Azure => CloudProvider::Azure,
        OciProvider::Gcp => CloudProvider::Gcp,
    }
}

impl WantedTag {
    /// The tags of the promotion: one, or one for each of its targets.
    fn all_of(task: PromotionTask<'_>, to: &Oci) -> Result<Vec<Self>, Failure> {
        let description = PromotionDescription::of(task);
        if task.promotion.spec.rollout.is_none() {
            let target = description.site.target.clone().unwrap_or_default();
            let target = (target.0.unwrap_or_default(), target.1);
            let one = Self::of(&description, to, &target, None)?;
            return Ok(vec![one]);
        }
        let targets = description.targets_for(&to.tag)?.into_iter();
        let of = |target| Self::of(&description, to, &target, Some(target_key(&target)));
        let mut all: Vec<Self> = targets.map(of).collect::<Result<_, _>>()?;
        all.sort_by(|one, other| one.reference.cmp(&other.reference));
        all.dedup_by(|one, other| one.reference == other.reference);
        Ok(all)
    }

    fn of(
        description: &PromotionDescription<'_>,
        to: &Oci,
        target: &(String, String),
        key: Option<String>,
    ) -> Result<Self, Failure> {
        let task = description.task;
        let invalid = |error: &registry::Error| from_registry(error);
        let repository = Repository::parse(&to.url, to.insecure).map_err(|it| invalid(&it))?;
        let tag = Tag::parse(&tag_text(description, to, target)?).map_err(|it| invalid(&it))?;
        let spec = &task.promotion.spec;
        let digest = spec.artifact_digest().ok_or_else(|| {
            let text = format!(
                "no environment says which OCI artifact {} is, so that no tag can point to it",
                spec.version
            );
            needs_edit("NoArtifact", text)
        })?;
        let digest = Digest::parse(digest).map_err(|it| invalid(&it))?;
        Ok(Self {
            reference: format!("{}:{}", to.url, tag.as_str()),
            repository,
            tag,
            digest,
            target: key,
        })
    }

    /// The digests that the tag may point to. Where each target has its own, promotions that did not
    /// reach this one left its tag as it was.
    fn replaceable_digests(
        &self,
        task: PromotionTask<'_>,
        promotions: &[Promotion],
    ) -> Vec<String> {
        let namespace = task.pipeline.metadata.namespace.as_deref();
        let reaches = |promotion: &&Promotion| {
            let target = self.target.as_deref();
            target.is_none_or(|target| has_started(promotion, target))
        };
        let (reaching, others): (Vec<_>, Vec<_>) = promotions.iter().partition(reaches);
        let reaching: Vec<Promotion> = reaching.into_iter().cloned().collect();
        let namespace = namespace.unwrap_or_default();
        let replaceable = planner::replaceable_digests(task.promotion, &reaching, namespace);
        let replaceable = replaceable.into_iter().map(str::to_owned);
        let is_same_site = |other: &&Promotion| {
            planner::site_of(&other.spec, namespace)
                == planner::site_of(&task.promotion.spec, namespace)
                && other.spec.pipeline == task.promotion.spec.pipeline
        };
        let left = others.into_iter().filter(is_same_site);
        let left = left.filter_map(|other| other.spec.replaced_digest().map(str::to_owned));
        replaceable.chain(left).collect()
    }

    /// The manifest of the digest, which must be in the same repository.
    async fn manifest(&self, client: &RegistryClient<'_>) -> Result<Manifest, Failure> {
        let found = client.manifest(Reference::Digest(&self.digest)).await;
        found.map_err(|error| from_registry(&error))?.ok_or_else(|| {
            let (digest, name) = (&self.digest, self.repository.name());
            let text = format!(
                "{name} on {} has no {digest}, or the credentials do not show it: artifacts are not \
                 copied from another repository",
                self.repository.host()
            );
            transient("ArtifactNotFound", text)
        })
    }

    /// What the tag points to.
    async fn current(&self, client: &RegistryClient<'_>) -> Result<Option<Manifest>, Failure> {
        let read = client.manifest(Reference::Tag(&self.tag)).await;
        read.map_err(|error| from_registry(&error))
    }

    fn changed_by_others(&self, before: &Manifest, replaceable: &[&str]) -> Failure {
        let expected = match replaceable {
            [] => "nothing".to_owned(),
            some => some.join(" or "),
        };
        let text = format!(
            "{} points to {}, which this promotion does not replace (expected {expected}); somebody \
             else set it, and it is not overwritten",
            self.reference, before.digest
        );
        transient(TAG_CHANGED_BY_OTHERS, text)
    }

    /// Whether the tag points to the manifest after it was put there.
    fn verify(
        &self,
        manifest: &Manifest,
        before: Option<&Manifest>,
        after: Option<&Manifest>,
    ) -> Result<(), Failure> {
        if after.is_some_and(|after| after.bytes == manifest.bytes) {
            return Ok(());
        }
        if after == before {
            let text = format!(
                "the registry accepted {} and still shows what it pointed to before",
                self.reference
            );
            return Err(transient("TagNotVisible", text));
        }
        let now = after.map_or("nothing", |after| after.digest.as_str());
        let text = format!(
            "{} was set to {} and then points to {now}: somebody else set it at the same time",
            self.reference, manifest.digest
        );
        Err(transient(TAG_CHANGED_BY_OTHERS, text))
    }
}

/// Whether a promotion has started a target. One that does not go in waves starts all at once.
fn has_started(promotion: &Promotion, target: &str) -> bool {
    let status = promotion.status.as_ref();
    let Some(rollout) = status.and_then(|status| status.rollout.as_ref()) else {
        return promotion.spec.rollout.is_none();
    };
    let mut targets = rollout.targets.iter();
    targets.any(|it| it.target == target && it.batch.is_some())
}

fn tagged(first: &WantedTag, count: usize) -> Outcome {
    let reference = match count {
        1 => first.reference.clone(),
        _ => format!("each of {count} tags such as {}", first.reference),
    };
    Outcome::Tagged { reference }
}

/// The tags that the promotion sets, as edits: from the digest that it replaces to its own. Any other
/// digest at a tag is not overwritten.
pub(super) fn planned_edits(task: PromotionTask<'_>, to: &Oci) -> Result<Vec<FieldEdit>, Failure> {
    let replaced = task.promotion.spec.replaced_digest();
    let edits = WantedTag::all_of(task, to)?.into_iter();
    let edits = edits.map(|wanted| FieldEdit {
        file: to.url.clone(),
        path: wanted.tag.as_str().to_owned(),
        old: replaced.map(str::to_owned),
        new: wanted.digest.as_str().to_owned(),
    });
    Ok(edits.collect())
}

/// Refuses a tag that targets of a later batch follow, too.
fn refuse_shared_tags(task: PromotionTask<'_>, to: &Oci) -> Result<(), Failure> {
    let rest = task.with_part(RolloutPart::NotStarted);
    let is_batch = TargetBatch::of(task.promotion).is_some();
    if !is_batch || !PromotionDescription::of(rest).has_targets() {
        return Ok(());
    }
    let later = planned_edits(rest, to)?;
    match shared_field(task, &planned_edits(task, to)?, &later) {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

/// The tag with its fields filled in. Versions may have a `+`, which tags cannot: it becomes `_`, as in
/// Helm.
fn tag_text(
    description: &PromotionDescription<'_>,
    to: &Oci,
    (cluster, namespace): &(String, String),
) -> Result<String, Failure> {
    let cluster = cluster.replace('/', "-");
    let version = description.task.promotion.spec.version.replace('+', "_");
    let fields = [
        ("environment", description.site.environment.as_str()),
        ("cluster", cluster.as_str()),
        ("namespace", namespace.as_str()),
        ("version", version.as_str()),
    ];
    fill(&to.tag, &fields)
}

fn from_registry(error: &registry::Error) -> Failure {
    from_git(error.reason(), error.remedy(), error)
}
