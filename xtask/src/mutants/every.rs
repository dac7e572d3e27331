//! `cargo xtask mutants --all`: tries every mutation of packages with one build.

mod known;
mod places;
mod switch;
