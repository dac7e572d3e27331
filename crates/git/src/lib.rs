//! Git and forges: mirrors, byte-exact YAML edits, commits, pushes, pull requests; all idempotent.
//!
//! Never hears of Kubernetes or pipelines. Empty so far.
#![warn(missing_docs)]
