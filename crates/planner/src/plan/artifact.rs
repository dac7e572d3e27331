//! Finds the digest of the OCI artifact that a version was installed from.

use std::collections::BTreeSet;

use api::{pipeline::TargetStatus, revision::is_digest};

use super::input::PlanInput;
use crate::sources::sources;

impl PlanInput<'_> {
    /// The digest of the artifact of a version: that of the source environments, else that of any target,
    /// else that of the history or of an earlier promotion. Nothing where the revision is a digest itself, and where it is
    /// not clear.
    pub(super) fn artifact_digest(&self, environment: &str, revision: &str) -> Option<String> {
        if is_digest(revision) {
            return None;
        }
        let digest = |target: &'_ TargetStatus| {
            let is_here = target.revision.as_deref() == Some(revision);
            target.digest.clone().filter(|_| is_here)
        };
        let sources = sources(self.spec, environment);
        let source = sources.iter().flat_map(|it| self.targets(&it.name));
        let all = self.model.environments.values().flat_map(|it| &it.targets);
        let ran = self.model.environments.values().flat_map(|it| &it.ran);
        let ran = ran.filter(|ran| ran.revision == revision);
        let ran = ran.filter_map(|ran| ran.digest.clone());
        let promoted = self.promotions.iter().rev().map(|it| &it.spec);
        let promoted = promoted.filter(|spec| spec.revision == revision);
        only(source.filter_map(digest))
            .or_else(|| only(all.filter_map(digest)))
            .or_else(|| only(ran))
            .or_else(|| promoted.into_iter().find_map(|spec| spec.digest.clone()))
    }
}

/// The one digest; nothing where there are several.
fn only(digests: impl Iterator<Item = String>) -> Option<String> {
    let mut digests: BTreeSet<String> = digests.collect();
    digests.pop_first().filter(|_| digests.is_empty())
}
