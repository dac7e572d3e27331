//! The mutations: what they guard, the text that is replaced, and the test that must fail.

mod invariants;
mod planner;
mod simulation;

/// One text to replace, and the test that notices it.
pub(super) struct Mutation {
    /// What it does, in a few words.
    pub(super) name: &'static str,
    /// The gate or the invariant that it breaks.
    pub(super) guards: &'static str,
    pub(super) file: &'static str,
    /// The text, which the file has once.
    pub(super) original: &'static str,
    pub(super) replacement: &'static str,
    pub(super) package: &'static str,
    /// The arguments of `cargo test` that select the suite.
    pub(super) suite: &'static [&'static str],
    /// The test that fails.
    pub(super) test: &'static str,
    /// The seed of the simulation that finds it.
    pub(super) seed: Option<u64>,
}

/// A mutation of the planner, noticed by its suite of rules.
const fn planner(
    (guards, name): (&'static str, &'static str),
    file: &'static str,
    (original, replacement): (&'static str, &'static str),
    test: &'static str,
) -> Mutation {
    Mutation {
        name,
        guards,
        file,
        original,
        replacement,
        package: "sluice-planner",
        suite: &["--test", "rules"],
        test,
        seed: None,
    }
}

/// A mutation of another crate.
const fn other(
    (guards, name): (&'static str, &'static str),
    file: &'static str,
    (original, replacement): (&'static str, &'static str),
    (package, suite): (&'static str, &'static [&'static str]),
    test: &'static str,
) -> Mutation {
    Mutation {
        name,
        guards,
        file,
        original,
        replacement,
        package,
        suite,
        test,
        seed: None,
    }
}

/// A mutation that a seed of the simulation finds.
const fn simulated(
    (guards, name): (&'static str, &'static str),
    file: &'static str,
    (original, replacement): (&'static str, &'static str),
    seed: u64,
) -> Mutation {
    Mutation {
        name,
        guards,
        file,
        original,
        replacement,
        package: "sluice-controller",
        suite: &["--test", "simulation"],
        test: "every_seed_keeps_what_must_always_hold",
        seed: Some(seed),
    }
}

/// All mutations.
pub(super) fn all() -> impl Iterator<Item = &'static Mutation> {
    planner::MUTATIONS
        .iter()
        .chain(invariants::MUTATIONS)
        .chain(simulation::MUTATIONS)
}
