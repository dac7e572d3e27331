//! What tests and the demo run against: today real control planes ([`real`]); leaf clusters, a Flux
//! stand-in and a small forge come later.

pub mod forge;
pub mod real;
