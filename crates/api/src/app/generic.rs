//! Any other kind that has conditions and a `lastAppliedRevision`, such as a source with an artifact
//! or a policy with a latest image.

use super::{AppReading, FluxHealth, why_unknown};
use crate::{
    Revision,
    flux::{Artifact, ImagePolicyStatus, ImageReference},
    image::Image,
    revision::{SourceRevision, tag},
    third_party::{Object, StatusCondition, lenient_structs},
};

pub(super) type App = Object<AppSpec, GenericStatus>;

lenient_structs! {
    /// What the app asks for.
    pub(super) struct AppSpec {
        /// Its controller leaves it alone.
        suspend: bool,
    }

    /// What became of the app.
    pub(super) struct GenericStatus {
        /// The generation last dealt with.
        observed_generation: Option<i64>,
        /// Conditions.
        conditions: Option<Vec<StatusCondition>>,
        /// The revision that runs.
        last_applied_revision: Option<String>,
        /// The revision last tried.
        last_attempted_revision: Option<String>,
        /// What a source last fetched.
        artifact: Option<Artifact>,
        /// The image that a policy chose, since 2025.
        latest_ref: Option<ImageReference>,
        /// The image that a policy chose, until 2025.
        latest_image: Option<String>,
    }
}

impl GenericStatus {
    /// What runs; of a source, what it has; of a policy, what it chose. With what to write to git
    /// for it.
    fn revision(&self) -> Option<(String, String)> {
        if let Some(text) = &self.last_applied_revision {
            return Some((text.clone(), tag(text).to_owned()));
        }
        if let Some(text) = self.artifact.as_ref().and_then(|it| it.revision.as_ref()) {
            let source = SourceRevision::parse(text);
            let digest = source.content_digest().zip(source.oci_version());
            return digest.or_else(|| Some((text.clone(), text.clone())));
        }
        let latest = self.latest()?;
        Some((latest.revision().to_owned(), latest.version().to_owned()))
    }

    fn latest(&self) -> Option<Image> {
        let policy = ImagePolicyStatus {
            latest_ref: self.latest_ref.clone(),
            latest_image: self.latest_image.clone(),
            ..ImagePolicyStatus::default()
        };
        policy.latest()
    }
}

pub(super) fn reading(app: &App, generation: i64) -> AppReading {
    let status = &app.status;
    let Some(conditions) = &status.conditions else {
        return AppReading {
            suspended: app.spec.suspend,
            ..AppReading::default()
        };
    };
    let health = FluxHealth::of(conditions, status.observed_generation, generation);
    let (revision, version) = status.revision().unzip();
    let revision = revision.as_deref().and_then(Revision::new);
    AppReading {
        ready: health.is_ready && !health.lagging && revision.is_some(),
        error: (health.is_ready && revision.is_none())
            .then(|| why_unknown(status.last_applied_revision.as_deref())),
        version: version.filter(|_| revision.is_some()),
        revision,
        digest: None,
        source_commit: None,
        attempted: status
            .last_attempted_revision
            .as_deref()
            .and_then(Revision::new),
        lagging: health.lagging,
        failed: health.failed,
        suspended: app.spec.suspend,
        message: health.message,
    }
}
