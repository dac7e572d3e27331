//! What a source of Flux says about the signature of its artifact.

use kube::core::DynamicObject;

use super::SourceStatus;
use crate::{app::AppReading, revision::SourceRevision, third_party::read};

/// The condition that says whether a signature was verified.
const VERIFIED: &str = "SourceVerified";
/// The condition that says that the artifact is not the newest one.
const OUTDATED: &str = "ArtifactOutdated";

/// Whether Flux verified the signature of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactSignature {
    /// The revision of the artifact, as an app that applies it shows it.
    pub revision: String,
    /// Whether it is signed as the source demands.
    pub is_verified: bool,
}

impl ArtifactSignature {
    /// What a GitRepository or OCIRepository says about its artifact. Nothing where it demands no signature,
    /// has not observed its newest spec, or its condition is about an artifact that it has yet to fetch.
    pub fn of(source: &DynamicObject) -> Option<Self> {
        let status: SourceStatus = read(&source.data["status"]);
        let conditions = status.conditions.unwrap_or_default();
        let generation = source.metadata.generation.unwrap_or_default();
        let is_outdated = conditions.iter().any(|it| it.is_true(OUTDATED));
        if is_outdated || status.observed_generation.unwrap_or_default() < generation {
            return None;
        }
        let verified = conditions.iter().find(|it| it.type_ == VERIFIED)?;
        let is_current = |observed| observed >= generation;
        if !verified.observed_generation.is_none_or(is_current) {
            return None;
        }
        let is_verified = match verified.status.as_str() {
            "True" => true,
            "False" => false,
            _ => return None,
        };
        let revision = status.artifact?.revision?;
        let digest = SourceRevision::parse(&revision).content_digest();
        Some(Self {
            revision: digest.unwrap_or(revision),
            is_verified,
        })
    }

    /// What it says about what an app runs; nothing if that is another artifact.
    pub fn about(&self, app: &AppReading) -> Option<bool> {
        let revision = app.revision.as_ref()?.as_str();
        // The revision of a HelmRelease is a version; the digest of its artifact is beside it.
        let is_same = revision == self.revision || app.digest.as_ref() == Some(&self.revision);
        is_same.then_some(self.is_verified)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Revision;

    fn source(change: impl FnOnce(&mut Value)) -> Option<ArtifactSignature> {
        let mut object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository",
            "metadata": {"name": "app", "generation": 2},
            "status": {
                "observedGeneration": 2,
                "artifact": {"revision": "1.0.0@sha256:abc", "digest": "sha256:file"},
                "conditions": [
                    {"type": "Ready", "status": "True", "observedGeneration": 2},
                    {"type": "SourceVerified", "status": "True", "observedGeneration": 2},
                ],
            },
        });
        change(&mut object);
        ArtifactSignature::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn only_the_condition_about_the_current_artifact_counts() {
        let verified = source(|_| {}).unwrap();
        assert_eq!(verified.revision, "sha256:abc");
        assert!(verified.is_verified);
        let failed = source(|it| it["status"]["conditions"][1]["status"] = json!("False"));
        assert!(!failed.unwrap().is_verified);
        for change in [
            |it: &mut Value| it["status"]["conditions"][1]["status"] = json!("Unknown"),
            |it: &mut Value| it["status"]["conditions"][1]["type"] = json!("Other"),
            |it: &mut Value| it["status"]["conditions"][1]["observedGeneration"] = json!(1),
            |it: &mut Value| it["status"]["observedGeneration"] = json!(1),
            |it: &mut Value| it["status"]["artifact"] = Value::Null,
            |it: &mut Value| it["status"] = Value::Null,
            |it: &mut Value| {
                let outdated = json!({"type": "ArtifactOutdated", "status": "True"});
                it["status"]["conditions"][0] = outdated;
            },
        ] {
            assert_eq!(source(change), None);
        }
        let git = source(|it| it["status"]["artifact"]["revision"] = json!("main@sha1:abc"));
        assert_eq!(git.unwrap().revision, "main@sha1:abc");
    }

    #[test]
    fn it_says_nothing_about_another_artifact() {
        let signature = source(|_| {}).unwrap();
        let app = |revision: &str, digest: Option<&str>| AppReading {
            revision: Revision::new(revision),
            digest: digest.map(str::to_owned),
            ..AppReading::default()
        };
        assert_eq!(signature.about(&app("sha256:abc", None)), Some(true));
        assert_eq!(
            signature.about(&app("1.0.0", Some("sha256:abc"))),
            Some(true)
        );
        assert_eq!(signature.about(&app("1.0.0", Some("sha256:def"))), None);
        assert_eq!(signature.about(&app("sha256:def", None)), None);
        assert_eq!(signature.about(&AppReading::default()), None);
    }
}
