//! What tests and the demo run against: real control planes ([`real`]), a small forge ([`forge`]) and
//! a stand-in for Flux ([`flux`]).

pub mod flux;
pub mod forge;
pub mod real;
