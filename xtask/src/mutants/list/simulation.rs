//! Old defects of the whole system, each with the seed of the simulation that finds it.

use super::{Mutation, simulated};

pub(super) const MUTATIONS: &[Mutation] = &[
    simulated(
        ("no side effect during a Freeze", "one closed Freeze passes"),
        "crates/planner/src/gate/freeze.rs",
        ("    if !closed.is_empty() {", "    if closed.len() > 1 {"),
        17,
    ),
    simulated(
        (
            "what was rejected is not proposed again",
            "a rejected revision is proposed again",
        ),
        "crates/planner/src/gate/order.rs",
        (
            "rejected.iter().any(|it| it == revision)",
            "rejected.iter().any(|it| it == revision && it.is_empty())",
        ),
        6,
    ),
    simulated(
        (
            "nothing happens while suspended",
            "a suspended pipeline promotes",
        ),
        "crates/planner/src/gate/suspended.rs",
        (
            "pipeline.suspend || environment.suspend",
            "environment.suspend",
        ),
        11,
    ),
    simulated(
        (
            "checks before an environment",
            "a promotion does not wait for an external check",
        ),
        "crates/planner/src/gate/checks.rs",
        (
            "if !states.have_passed() && !is_proposed {",
            "if states.have_passed() && !is_proposed {",
        ),
        12,
    ),
    simulated(
        (
            "waves follow one another",
            "targets are started before their wave",
        ),
        "crates/planner/src/rollout/next.rs",
        (
            "it.wave <= number && self.is_startable(it)",
            "it.wave <= number + 1 && self.is_startable(it)",
        ),
        22,
    ),
];
