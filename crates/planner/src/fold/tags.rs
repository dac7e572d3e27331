//! Resolves tags to digests that are known from elsewhere in the pipeline.
//!
//! One environment may pin an image by tag and digest and the next by the tag alone. The tag then
//! stands for the digest it is known by, or the two would never be the same revision.

use std::collections::BTreeMap;

use api::{
    Revision,
    app::AppReading,
    pipeline::{Proposal, TargetStatus},
    revision::is_digest,
};

use crate::observation::{ObservedPipeline, TargetState};

/// The digest of each tag; nothing for a tag that stands for several.
#[derive(Default)]
pub(super) struct KnownDigests(BTreeMap<String, Option<String>>);

impl KnownDigests {
    /// The digests of the observed apps and of the pipeline's source.
    pub(super) fn of(seen: &ObservedPipeline, proposal: Option<&Proposal>) -> Self {
        let mut tags = Self::default();
        let targets = seen.environments.iter().flat_map(|it| &it.targets);
        for target in targets {
            let TargetState::Observed(apps) = &target.state else {
                continue;
            };
            for reading in apps.iter().map(|app| &app.reading) {
                let revision = reading.revision.as_ref().map(Revision::as_str);
                tags.learn(reading.version.as_deref(), revision);
            }
        }
        if let Some(proposal) = proposal {
            tags.learn(proposal.version.as_deref(), proposal.revision.as_deref());
        }
        tags
    }

    fn learn(&mut self, tag: Option<&str>, revision: Option<&str>) {
        let (Some(tag), Some(digest)) = (tag, revision.filter(|it| is_digest(it))) else {
            return;
        };
        let known = self.0.get(tag);
        let is_same = known.is_none_or(|known| known.as_deref() == Some(digest));
        let digest = is_same.then(|| digest.to_owned());
        self.0.insert(tag.to_owned(), digest);
    }

    /// The reading with the digest of its tag. A target keeps the digest that its tag had before.
    pub(super) fn resolve(&self, reading: &mut AppReading, before: Option<&TargetStatus>) {
        let Some(tag) = reading.revision.as_ref().map(Revision::as_str) else {
            return;
        };
        let kept = || {
            let before = before.filter(|before| before.version.as_deref() == Some(tag))?;
            before.revision.as_deref().filter(|it| is_digest(it))
        };
        let known = self.0.get(tag).and_then(Option::as_deref);
        let digest = known.or_else(kept);
        let Some(digest) = digest.and_then(Revision::new) else {
            return;
        };
        if reading.attempted == reading.revision {
            reading.attempted = Some(digest.clone());
        }
        reading.revision = Some(digest);
    }
}
