//! What a registry stores: manifests by digest, tags, blobs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The media type of an OCI image manifest.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A manifest as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredManifest {
    /// The media type that it was put with.
    pub media_type: String,
    /// The digest of its bytes.
    pub digest: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

#[derive(Default)]
pub(super) struct Store {
    repositories: BTreeMap<String, Contents>,
    pub(super) puts: Vec<(String, String)>,
}

#[derive(Default)]
struct Contents {
    manifests: BTreeMap<String, StoredManifest>,
    tags: BTreeMap<String, String>,
    blobs: BTreeSet<String>,
}

impl Store {
    pub(super) fn push_artifact(&mut self, repository: &str, version: &str) -> String {
        let blob = |media_type: &str, content: &str| {
            json!({
                "mediaType": media_type, "size": content.len(), "digest": digest(content.as_bytes()),
            })
        };
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": blob("application/vnd.cncf.flux.config.v1+json", "{}"),
            "layers": [blob("application/vnd.cncf.flux.content.v1.tar+gzip", version)],
            "annotations": {
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.revision": format!("{version}@sha1:{}", "0".repeat(40)),
            },
        });
        // Registries store what they are given: not in the form that a serializer would choose.
        let bytes = format!("{manifest:#}\n").into_bytes();
        self.push(repository, MANIFEST, &bytes)
    }

    pub(super) fn push(&mut self, repository: &str, media_type: &str, bytes: &[u8]) -> String {
        let contents = self.repositories.entry(repository.to_owned()).or_default();
        let parsed: Value = serde_json::from_slice(bytes).unwrap_or_default();
        contents.blobs.extend(blobs(&parsed));
        contents.insert(media_type, bytes)
    }

    pub(super) fn tag(&mut self, repository: &str, tag: &str, digest: &str) {
        let contents = self.repositories.entry(repository.to_owned()).or_default();
        contents.tags.insert(tag.to_owned(), digest.to_owned());
    }

    pub(super) fn delete(&mut self, repository: &str, digest: &str) {
        if let Some(contents) = self.repositories.get_mut(repository) {
            contents.manifests.remove(digest);
        }
    }

    pub(super) fn digest_of(&self, repository: &str, tag: &str) -> Option<String> {
        self.repositories.get(repository)?.tags.get(tag).cloned()
    }

    pub(super) fn manifest(&self, repository: &str, reference: &str) -> Option<StoredManifest> {
        let contents = self.repositories.get(repository)?;
        let digest = contents.tags.get(reference);
        let digest = digest.map_or(reference, String::as_str);
        contents.manifests.get(digest).cloned()
    }

    /// Stores what a client puts; the code of the refusal if it is refused.
    pub(super) fn put(
        &mut self,
        repository: &str,
        reference: &str,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<String, &'static str> {
        let parsed: Value = serde_json::from_slice(bytes).map_err(|_| "MANIFEST_INVALID")?;
        let named = parsed["mediaType"].as_str();
        if parsed["schemaVersion"] != 2 || named.is_some_and(|named| named != media_type) {
            return Err("MANIFEST_INVALID");
        }
        if reference.contains(':') && reference != digest(bytes) {
            return Err("DIGEST_INVALID");
        }
        let contents = self
            .repositories
            .get_mut(repository)
            .ok_or("NAME_UNKNOWN")?;
        if !blobs(&parsed).all(|blob| contents.blobs.contains(&blob)) {
            return Err("MANIFEST_BLOB_UNKNOWN");
        }
        let digest = contents.insert(media_type, bytes);
        if !reference.contains(':') {
            contents.tags.insert(reference.to_owned(), digest.clone());
            self.puts.push((reference.to_owned(), digest.clone()));
        }
        Ok(digest)
    }
}

impl Contents {
    fn insert(&mut self, media_type: &str, bytes: &[u8]) -> String {
        let digest = digest(bytes);
        let stored = StoredManifest {
            media_type: media_type.to_owned(),
            digest: digest.clone(),
            bytes: bytes.to_owned(),
        };
        self.manifests.insert(digest.clone(), stored);
        digest
    }
}

/// The digests of what a manifest refers to.
fn blobs(manifest: &Value) -> impl Iterator<Item = String> {
    let lists = ["layers", "manifests", "blobs"].map(|name| manifest[name].as_array());
    let listed = lists.into_iter().flatten().flatten();
    let all = listed.chain([&manifest["config"]]);
    all.filter_map(|it| it["digest"].as_str().map(str::to_owned))
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    let digits: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{digits}")
}
