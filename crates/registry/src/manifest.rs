//! A manifest as the bytes that a registry stores, of any media type.

use serde::Deserialize;

use crate::{Digest, Error, Tag};

/// The media type of a manifest that says nothing about it.
const DEFAULT_MEDIA_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// The media types that a registry may answer with. Some answer 404 for a type that is not listed.
pub(crate) const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.oci.artifact.manifest.v1+json, */*";

/// What a manifest is read by.
#[derive(Clone, Copy, Debug)]
pub enum Reference<'a> {
    /// A tag, which may move.
    Tag(&'a Tag),
    /// A digest, which the answer must have.
    Digest(&'a Digest),
}

impl<'a> Reference<'a> {
    pub(crate) fn as_str(self) -> &'a str {
        match self {
            Self::Tag(tag) => tag.as_str(),
            Self::Digest(digest) => digest.as_str(),
        }
    }
}

/// A manifest: an image, an index of images, a Helm chart, a Flux artifact, or anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its media type.
    pub media_type: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The digest of the bytes.
    pub digest: Digest,
}

impl Manifest {
    /// A manifest that arrived. `claimed` is the digest in the header, which must be that of the bytes;
    /// so must the digest that it was read by.
    pub(crate) fn received(
        bytes: Vec<u8>,
        content_type: Option<&str>,
        claimed: Option<&str>,
        reference: Reference<'_>,
    ) -> Result<Self, Error> {
        let claimed = claimed.map(Digest::parse).transpose()?;
        let expected = match reference {
            Reference::Digest(digest) => Some(digest),
            Reference::Tag(_) => None,
        };
        for expected in [expected, claimed.as_ref()].into_iter().flatten() {
            let actual = expected.of_same_algorithm(&bytes);
            if actual != *expected {
                return Err(Error::DigestMismatch {
                    expected: expected.clone(),
                    actual,
                });
            }
        }
        let digest = expected.or(claimed.as_ref()).cloned();
        let digest = digest.unwrap_or_else(|| Digest::of(&bytes));
        let media_type = media_type(&bytes, content_type);
        Ok(Self {
            media_type,
            bytes,
            digest,
        })
    }
}

/// The type that the manifest itself names, else that of the answer: one from a content delivery
/// network may be `application/octet-stream`.
fn media_type(bytes: &[u8], content_type: Option<&str>) -> String {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(rename = "mediaType")]
        media_type: Option<String>,
    }
    let own = serde_json::from_slice::<Typed>(bytes).ok();
    let own = own.and_then(|typed| typed.media_type);
    let own = own.filter(|text| !text.is_empty() && text.bytes().all(|it| it.is_ascii_graphic()));
    let named = content_type.filter(|text| text.starts_with("application/vnd."));
    own.or(named.map(str::to_owned))
        .unwrap_or_else(|| DEFAULT_MEDIA_TYPE.to_owned())
}
