//! TTL cache of the sources that Kustomizations follow, and of the folders that Flux applied apps from.
//!
//! An object is read when an app that refers to it is reconciled; such objects are few and seldom edited.
//! When the app or the object itself changes, its entry is removed. What cannot be read is left out.

use std::{collections::HashMap, time::Duration};

use api::{
    app::source_commit,
    flux::{ArtifactSignature, KUSTOMIZE_GROUP, Kustomization, ObjectReference, SOURCE_GROUP},
    pipeline::Origin,
    revision::identity,
};
use kube::{Api, Client, api::DynamicObject, core::ApiResource};
use parking_lot::Mutex;
use runtime::TtlCache;
use serde_json::Value;

use super::{AppRecord, app_watch::discover};
use crate::keys::{AppKind, ClusterKey};

/// How long a summary is cached.
const TIME_TO_LIVE: Duration = Duration::from_secs(300);
/// The same if the object does not exist: it may be created soon.
const MISSING_TIME_TO_LIVE: Duration = Duration::from_secs(15);
/// How many summaries are cached.
const CAPACITY: usize = 65_536;
/// How long reading an object may take.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest path of a folder.
const LONGEST_PATH: usize = 1024;
/// The longest name of a branch.
const LONGEST_BRANCH: usize = 256;

/// The annotation of OCI artifacts with their version.
const VERSION_ANNOTATION: &str = "org.opencontainers.image.version";
/// The annotation of OCI artifacts with the revision of the source code they were built from.
const REVISION_ANNOTATION: &str = "org.opencontainers.image.revision";

/// Cluster, kind, namespace and name.
type SourceKey = (ClusterKey, AppKind, String, String);

/// The cached fields of an object.
#[derive(Clone, Default)]
struct SourceSummary {
    /// What a source follows.
    follows: Option<String>,
    /// Where a git repository is.
    address: Option<String>,
    /// Its branch, if it follows a branch and nothing else.
    branch: Option<String>,
    /// The folder that a Kustomization applies, and the source the folder is in.
    applies: Option<(String, ObjectReference)>,
    /// The revision of the artifact that Flux fetched, and the version in its annotations.
    artifact: Option<(String, String)>,
    /// Whether Flux verified the signature of that artifact.
    signature: Option<ArtifactSignature>,
    /// The revision of that artifact, and the commit in its annotations.
    built_from: Option<(String, String)>,
}

impl SourceSummary {
    fn of(kind: &str, object: &DynamicObject) -> Self {
        let spec = &object.data["spec"];
        Self {
            follows: api::flux::followed(kind, spec),
            address: api::flux::git_address(kind, spec),
            branch: branch(&spec["ref"]),
            applies: (kind == "Kustomization").then(|| applies(&object.data)),
            artifact: artifact(&object.data["status"]["artifact"]),
            signature: ArtifactSignature::of(object),
            built_from: built_from(&object.data["status"]["artifact"]),
        }
    }
}

fn artifact(artifact: &Value) -> Option<(String, String)> {
    let revision = artifact["revision"].as_str()?;
    let version = artifact["metadata"][VERSION_ANNOTATION].as_str()?;
    let is_usable = !version.is_empty() && version.len() <= LONGEST_BRANCH;
    let is_usable = is_usable && version.chars().all(|it| it.is_ascii_graphic());
    is_usable.then(|| (identity(revision).to_owned(), version.to_owned()))
}

fn built_from(artifact: &Value) -> Option<(String, String)> {
    let revision = artifact["revision"].as_str()?;
    let source = artifact["metadata"][REVISION_ANNOTATION].as_str()?;
    let commit = source_commit(source).filter(|it| it.len() <= LONGEST_BRANCH)?;
    Some((identity(revision).to_owned(), commit))
}

fn branch(reference: &Value) -> Option<String> {
    let others = ["tag", "semver", "commit", "name"];
    let is_pinned = others.iter().any(|field| !reference[field].is_null());
    let branch = reference["branch"].as_str().filter(|_| !is_pinned)?;
    (branch.len() <= LONGEST_BRANCH).then(|| branch.to_owned())
}

fn applies(fields: &Value) -> (String, ObjectReference) {
    let object: Kustomization = serde_json::from_value(fields.clone()).unwrap_or_default();
    let path = object.spec.path.filter(|path| path.len() <= LONGEST_PATH);
    (path.unwrap_or("./".to_owned()), object.spec.source_ref)
}

/// The cluster and namespace of an app.
#[derive(Clone, Copy)]
pub(crate) struct AppNamespace<'a> {
    pub(crate) client: &'a Client,
    pub(crate) cluster: &'a ClusterKey,
    pub(crate) namespace: &'a str,
}

/// The sources of the apps on all clusters.
pub(crate) struct SourceCache {
    summaries: TtlCache<SourceKey, SourceSummary>,
    /// How clusters serve kinds.
    discovered: Mutex<HashMap<(ClusterKey, AppKind), ApiResource>>,
}

impl Default for SourceCache {
    fn default() -> Self {
        Self {
            summaries: TtlCache::new(TIME_TO_LIVE, CAPACITY),
            discovered: Mutex::default(),
        }
    }
}

impl SourceCache {
    /// What the source follows that an app refers to.
    pub(crate) async fn follows(
        &self,
        app_namespace: AppNamespace<'_>,
        source: &ObjectReference,
    ) -> Option<String> {
        self.source(app_namespace, source).await?.follows
    }

    /// The version that the artifact of a source names, if it is the artifact of that revision.
    pub(crate) async fn artifact_version(
        &self,
        app_namespace: AppNamespace<'_>,
        source: &ObjectReference,
        revision: &str,
    ) -> Option<String> {
        let (digest, version) = self.source(app_namespace, source).await?.artifact?;
        (digest == revision).then_some(version)
    }

    /// What a source says about the signature of its artifact.
    pub(crate) async fn signature(
        &self,
        app_namespace: AppNamespace<'_>,
        source: &ObjectReference,
    ) -> Option<ArtifactSignature> {
        self.source(app_namespace, source).await?.signature
    }

    /// The commit that the artifact of a source was built from, if it is the artifact of that digest.
    pub(crate) async fn source_commit(
        &self,
        app_namespace: AppNamespace<'_>,
        source: &ObjectReference,
        digest: &str,
    ) -> Option<String> {
        let (of, commit) = self.source(app_namespace, source).await?.built_from?;
        (of == digest).then_some(commit)
    }

    /// The folder that Flux applied an app from: that of the Kustomization in its labels, else, for a
    /// Kustomization, its own.
    pub(crate) async fn origin(
        &self,
        app_namespace: AppNamespace<'_>,
        app: &AppRecord,
        own: Option<&str>,
    ) -> Option<Origin> {
        let (namespace, name) = match (app.applier.as_deref(), own) {
            (Some((namespace, name)), _) => (namespace.as_str(), name.as_str()),
            (None, Some(own)) => (app_namespace.namespace, own),
            (None, None) => return None,
        };
        let kind = AppKind::new(KUSTOMIZE_GROUP, "Kustomization");
        let key = (
            app_namespace.cluster.clone(),
            kind,
            namespace.to_owned(),
            name.to_owned(),
        );
        let (path, source) = self.summary(app_namespace.client, key).await.applies?;
        let source = self
            .source(
                AppNamespace {
                    namespace,
                    ..app_namespace
                },
                &source,
            )
            .await?;
        Some(Origin {
            url: source.address?,
            path,
            branch: source.branch,
        })
    }

    async fn source(
        &self,
        app_namespace: AppNamespace<'_>,
        reference: &ObjectReference,
    ) -> Option<SourceSummary> {
        let (kind, namespace, name) = named(reference, app_namespace.namespace)?;
        let key = (app_namespace.cluster.clone(), kind, namespace, name);
        Some(self.summary(app_namespace.client, key).await)
    }

    async fn summary(&self, client: &Client, key: SourceKey) -> SourceSummary {
        let lookup = async {
            match self.read_in_time(client, &key).await {
                Some(summary) => (summary, TIME_TO_LIVE),
                None => (SourceSummary::default(), MISSING_TIME_TO_LIVE),
            }
        };
        self.summaries.get_with_ttl(key.clone(), lookup).await
    }

    /// `None` if the object does not exist or cannot be read.
    async fn read_in_time(&self, client: &Client, key: &SourceKey) -> Option<SourceSummary> {
        match tokio::time::timeout(READ_TIMEOUT, self.read(client, key)).await {
            Ok(Ok(summary)) => summary,
            Ok(Err(error)) => {
                tracing::debug!(cluster = %key.0, object = key.3, %error, "could not read a source");
                self.discovered
                    .lock()
                    .remove(&(key.0.clone(), key.1.clone()));
                None
            }
            Err(_) => {
                tracing::debug!(cluster = %key.0, object = key.3, "reading a source timed out");
                None
            }
        }
    }

    /// Removes an object, so that it is read again when it is needed. A read that is under way is not
    /// cached.
    pub(crate) fn invalidate(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        (namespace, name): (&str, &str),
    ) {
        let key = (
            cluster.clone(),
            kind.clone(),
            namespace.to_owned(),
            name.to_owned(),
        );
        self.summaries.remove(&key);
    }

    /// Removes the source that an app in a namespace refers to.
    pub(crate) fn invalidate_source_of(
        &self,
        cluster: &ClusterKey,
        namespace: &str,
        source: &ObjectReference,
    ) {
        if let Some((kind, namespace, name)) = named(source, namespace) {
            self.invalidate(cluster, &kind, (&namespace, &name));
        }
    }

    async fn read(
        &self,
        client: &Client,
        key: &SourceKey,
    ) -> Result<Option<SourceSummary>, kube::Error> {
        let (cluster, kind, namespace, name) = key;
        let of_kind = (cluster.clone(), kind.clone());
        let discovered = self.discovered.lock().get(&of_kind).cloned();
        let resource = match discovered {
            Some(resource) => resource,
            None => match discover(client, kind).await? {
                Some(resource) => resource,
                None => return Ok(None),
            },
        };
        self.discovered.lock().insert(of_kind, resource.clone());
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let object = api.get_opt(name).await?;
        Ok(object.map(|object| SourceSummary::of(&kind.kind, &object)))
    }

    /// Forgets everything about a cluster.
    pub(crate) fn forget_cluster(&self, cluster: &ClusterKey) {
        self.summaries.remove_if(|(of, ..)| of == cluster);
        self.discovered.lock().retain(|(of, _), _| of != cluster);
    }
}

/// Kind, namespace and name of a source that something in a namespace refers to.
pub(crate) fn named(
    source: &ObjectReference,
    namespace: &str,
) -> Option<(AppKind, String, String)> {
    let kind = AppKind::new(SOURCE_GROUP, source.kind.as_deref()?);
    let namespace = source.namespace.as_deref().unwrap_or(namespace);
    Some((kind, namespace.to_owned(), source.name.clone()?))
}
