//! What tests and the demo run against: real control planes ([`real`]), a small forge ([`forge`]) and
//! a stand-in for Flux ([`flux`]). And how to try what guides say ([`guide`]).

pub mod flux;
pub mod forge;
pub mod guide;
pub mod real;
