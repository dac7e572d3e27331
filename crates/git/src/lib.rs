//! Git repositories and forges: mirrors, byte-exact YAML edits, commits, pushes and pull requests.
//!
//! Every operation is bounded in time and size and is idempotent; every error says what was attempted
//! and whether a retry may succeed. Knows nothing about clusters and pipelines: the names of branches,
//! markers and owners are plain text to it.
#![warn(missing_docs)]

mod blocking;
pub mod commit;
pub mod credentials;
pub mod edit;
pub mod forge;
pub mod manifest;
pub mod mirror;
pub mod names;
pub mod paths;
pub mod propose;
pub mod push;
pub mod repository_url;
pub mod runner;
