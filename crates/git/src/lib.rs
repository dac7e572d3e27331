//! Git and forges: mirrors, byte-exact YAML edits, commits, pushes, pull requests; all idempotent.
//!
//! Everything here is bounded in time and size, can be done twice, and says in its errors what was
//! attempted and what would help. Never hears of clusters or pipelines: names of branches, markers
//! and owners come in as plain text.
#![warn(missing_docs)]

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
