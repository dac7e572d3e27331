//! testbed

pub mod real;
