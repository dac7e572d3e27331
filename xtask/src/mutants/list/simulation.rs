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
    simulated(
        (
            "nothing unapproved is promoted",
            "a promotion does not wait for its approvals",
        ),
        "crates/planner/src/attempt/lifecycle.rs",
        (
            "approvals.hold().filter(|_| is_asked) {",
            "approvals.hold().filter(|_| is_asked && false) {",
        ),
        2,
    ),
    simulated(
        (
            "one pull request per promotion",
            "a pull request that was merged or closed is not found",
        ),
        "crates/controller/src/strategy/proposal.rs",
        (
            "own.map_or(ObservedPullRequest::Missing, observed)",
            "own.filter(|_| false).map_or(ObservedPullRequest::Missing, observed)",
        ),
        6,
    ),
    simulated(
        (
            "a restored hub is left alone",
            "a lost status is not rebuilt from Promotions",
        ),
        "crates/planner/src/plan/rebuild.rs",
        (
            "    if known.is_some_and(|status| !status.environments.is_empty()) || promotions",
            "    if known.is_none_or(|_| true) || promotions",
        ),
        13,
    ),
    simulated(
        (
            "a restored hub is left alone",
            "a promotion whose status was lost begins again",
        ),
        "crates/planner/src/attempt/restored.rs",
        (
            "        is_older\n            && is_untold",
            "        is_older\n            && !is_older\n            && is_untold",
        ),
        88,
    ),
    simulated(
        (
            "a restored hub is left alone",
            "promotions begin before their pipeline is reconciled",
        ),
        "crates/planner/src/attempt/restored.rs",
        (
            "is_reconciled && (has_begun || !self.has_unread_target())",
            "is_reconciled || has_begun || !is_reconciled",
        ),
        6,
    ),
    simulated(
        (
            "nothing goes on without its checks",
            "a revision goes on before its checks passed",
        ),
        "crates/planner/src/gate/verified.rs",
        (
            ".filter(|_| !revisions.iter().any(has_passed))",
            ".filter(|_| revisions.is_empty() && !revisions.iter().any(has_passed))",
        ),
        57,
    ),
    simulated(
        (
            "the soak time is waited for",
            "a revision goes on before its soak time",
        ),
        "crates/planner/src/plan/candidate.rs",
        (
            "soak: soak.map_or(Duration::ZERO, |soak| soak.length()),",
            "soak: soak.map_or(Duration::ZERO, |_| Duration::ZERO),",
        ),
        5,
    ),
    simulated(
        ("never backwards by itself", "an older revision is promoted"),
        "crates/planner/src/gate/order.rs",
        (
            "if let Some(newer) = site.newer_than(shown) {",
            "if let Some(newer) = site.newer_than(shown).filter(|_| false) {",
        ),
        92,
    ),
];
