//! testbed

pub mod forge;
pub mod real;
