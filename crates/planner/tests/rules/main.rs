//! The planner's rules, each as a drawing: a small picture of the world in, the answer out.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod fold;
