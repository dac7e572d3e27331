//! Manifests in OCI registries: reads one by tag or digest, and puts one under a tag, byte for byte.
//!
//! Digests are computed from the bytes that arrived, never taken from a header. Answers are bounded in
//! time and size. Credentials go to the registry and to the token service that it names, never to where
//! it redirects; every host is checked against the address policy. No Kubernetes, no pipelines.
#![warn(missing_docs)]

mod challenge;
mod client;
mod credentials;
mod digest;
mod error;
mod identity;
mod manifest;
mod names;
mod redirect;
mod token;

pub use client::RegistryClient;
pub use credentials::Credentials;
pub use digest::Digest;
pub use error::Error;
pub use identity::{CloudProvider, WorkloadIdentity};
pub use manifest::{Manifest, Reference};
pub use names::{Repository, Tag};
