//! Mutations of the planner's gates and rules.

use super::{Mutation, planner};

pub(super) const MUTATIONS: &[Mutation] = &[
    planner(
        ("gate rollout", "unreachable targets take no place"),
        "crates/planner/src/rollout/next.rs",
        (
            "let room = limit.saturating_sub(in_flight.len());",
            "let room = limit;",
        ),
        "no_fleet_exceeds_its_limits",
    ),
    planner(
        ("gate rollout", "a stop starts further targets"),
        "crates/planner/src/rollout/next.rs",
        (
            "if let Some(hold) = self.stopped(rollout) {",
            "if let Some(hold) = self.stopped(rollout).filter(|_| false) {",
        ),
        "no_fleet_exceeds_its_limits",
    ),
    planner(
        ("gate rollout", "targets are started before their wave"),
        "crates/planner/src/rollout/next.rs",
        (
            "it.wave <= number && self.is_startable(it)",
            "it.wave <= number + 1 && self.is_startable(it)",
        ),
        "no_fleet_exceeds_its_limits",
    ),
    planner(
        ("gate rollout", "failures never stop it"),
        "crates/planner/src/rollout/facts.rs",
        (
            "rollout.stopped.is_some() || rollout.failed.len() <= allowed",
            "rollout.stopped.is_some() || rollout.failed.len() <= allowed + 100",
        ),
        "more_failures_than_allowed_stop_it_and_removing_them_lifts_nothing",
    ),
    planner(
        ("gate rollout", "a wave does not soak"),
        "crates/planner/src/rollout/facts.rs",
        (
            "RolloutState::Ready => self.soaked_at(number, target) <= self.now,",
            "RolloutState::Ready => self.soaked_at(number, target) <= self.now || true,",
        ),
        "waves_follow_one_another_in_batches",
    ),
    planner(
        (
            "gate rollout",
            "the time in which a cluster is unreachable counts",
        ),
        "crates/planner/src/rollout/facts.rs",
        (
            "target.unreachable_seconds += seconds.max(0);",
            "target.unreachable_seconds += seconds.min(0);",
        ),
        "the_clock_of_a_deployment_stands_still_while_its_cluster_is_unreachable",
    ),
    planner(
        (
            "gate rollout",
            "clusters that were not read yet count as unreachable",
        ),
        "crates/planner/src/rollout.rs",
        (
            "it != TargetProblem::NotSynced && !(self.installs_app",
            "!(self.installs_app",
        ),
        "a_wave_is_not_done_before_its_clusters_were_read",
    ),
    planner(
        ("gate rollout", "a newer revision does not wait"),
        "crates/planner/src/plan/precedence.rs",
        (
            "!restarts && is_rolling_out(",
            "restarts && is_rolling_out(",
        ),
        "a_newer_revision_waits_or_restarts",
    ),
    planner(
        (
            "gate readiness",
            "a revision that one source lacks counts as common",
        ),
        "crates/planner/src/plan/common_revision.rs",
        (
            ".filter(|it| !it.standings.contains(&Standing::Absent))",
            ".filter(|it| it.standings.iter().any(|it| *it != Standing::Absent))",
        ),
        "without_a_common_revision_each_newest_is_named",
    ),
    planner(
        (
            "gate readiness",
            "a revision that a source rejected counts as common",
        ),
        "crates/planner/src/plan/common_revision.rs",
        (
            ".filter(|revision| !is_rejected(revision))",
            ".filter(|revision| !is_rejected(revision) || true)",
        ),
        "of_several_sources_the_newest_common_revision_counts",
    ),
    planner(
        (
            "gate readiness",
            "a revision that failed in a source since counts as common",
        ),
        "crates/planner/src/plan/common_revision.rs",
        (
            "(counts && failed().is_none()).then_some(opens_at)",
            "(counts || failed().is_none()).then_some(opens_at)",
        ),
        "of_several_sources_the_newest_common_revision_counts",
    ),
    planner(
        ("gate soak", "one source that has soaked is enough"),
        "crates/planner/src/gate/soak.rs",
        (
            "soaking.max_by_key(|(_, opens_at)| *opens_at)?",
            "soaking.filter(|_| false).max_by_key(|(_, opens_at)| *opens_at)?",
        ),
        "every_source_must_be_ready_checked_and_soaked_and_is_named",
    ),
    planner(
        ("gate signature", "the signature in one source is enough"),
        "crates/planner/src/gate/signature.rs",
        (
            "names.find(|name| !self.is_signed_in(name))",
            "names.find(|name| !self.is_signed_in(name)).filter(|_| self.spec.environments.len() < 3)",
        ),
        "the_signature_must_be_verified_in_every_source",
    ),
    planner(
        (
            "rights",
            "anybody changes what a guarded environment comes after",
        ),
        "crates/planner/src/rights/weakening.rs",
        ("&& self.sources() == other.sources()", "&& true"),
        "a_guarded_environment_keeps_what_it_comes_after",
    ),
    planner(
        ("gate valid", "an invalid spec passes before a merge"),
        "crates/planner/src/gate/valid.rs",
        (
            "    if let Some(hold) = invalid_spec(spec) {\n        return GateVerdict::Wait(hold);\n    }\n    let is_first",
            "    let is_first",
        ),
        "validity_and_requests_are_asked_again_before_a_merge",
    ),
    planner(
        (
            "gate suspended",
            "a suspended environment counts only with its pipeline",
        ),
        "crates/planner/src/gate/suspended.rs",
        (
            "pipeline.suspend || environment.suspend",
            "pipeline.suspend && environment.suspend",
        ),
        "suspended_starts_nothing",
    ),
    planner(
        ("gate targets", "a target that cannot be read holds nothing"),
        "crates/planner/src/gate/targets.rs",
        (
            "first.and_then(|it| Some((it, it.problem?)))",
            "first.and_then(|it| Some((it, it.problem.filter(|_| false)?)))",
        ),
        "a_target_that_cannot_be_read_holds_its_own_environment",
    ),
    planner(
        ("gate turn", "a successor acts before its predecessor ended"),
        "crates/planner/src/gate/turn.rs",
        (
            "earlier.find(|other| !lets_successor_act(other))",
            "earlier.find(|_| false)",
        ),
        "a_successor_waits_for_its_predecessors",
    ),
    planner(
        ("gate turn", "a request does not go first"),
        "crates/planner/src/gate/turn.rs",
        (
            "(!is_own && goes_first).then_some(pending)",
            "(!is_own && !goes_first).then_some(pending)",
        ),
        "validity_and_requests_are_asked_again_before_a_merge",
    ),
    planner(
        (
            "gate readiness",
            "an unready target of the source counts as ready",
        ),
        "crates/planner/src/gate/readiness.rs",
        (
            "filter(|it| !it.ready).collect()",
            "filter(|_| false).collect()",
        ),
        "all_targets_of_the_source_must_agree_and_be_ready",
    ),
    planner(
        (
            "gate readiness",
            "a failure in the source after the creation is not asked",
        ),
        "crates/planner/src/gate/readiness.rs",
        ("    again: Some(again),", "    again: None,"),
        "a_promotion_under_way_is_asked_again",
    ),
    planner(
        (
            "gate verified",
            "a revision that did not pass its checks goes on",
        ),
        "crates/planner/src/gate/verified.rs",
        (
            ".filter(|_| !revisions.iter().any(has_passed))",
            ".filter(|_| revisions.is_empty() && !revisions.iter().any(has_passed))",
        ),
        "nothing_goes_on_without_its_checks",
    ),
    planner(
        ("gate checks", "a promotion does not wait for its checks"),
        "crates/planner/src/gate/checks.rs",
        (
            "if !states.have_passed() && !is_proposed {",
            "if states.have_passed() && !is_proposed {",
        ),
        "a_promotion_waits_for_the_checks_before_its_environment",
    ),
    planner(
        ("gate soak", "the gate passes while a revision soaks"),
        "crates/planner/src/gate/soak.rs",
        ("    hold.into()\n", "    hold.filter(|_| false).into()\n"),
        "each_gate_waits_or_fails_for_its_own_reasons",
    ),
    planner(
        ("gate order", "an older revision is not held"),
        "crates/planner/src/gate/order.rs",
        (
            "if let Some(newer) = site.newer_than(shown) {",
            "if let Some(newer) = site.newer_than(shown).filter(|_| false) {",
        ),
        "never_backwards_by_itself",
    ),
    planner(
        ("gate order", "a rejected revision is proposed again"),
        "crates/planner/src/gate/order.rs",
        (
            "rejected.iter().any(|it| it == revision)",
            "rejected.iter().all(|it| it == revision) && !rejected.is_empty() && revision.is_empty()",
        ),
        "rejected_revisions_wait_for_a_person",
    ),
    planner(
        (
            "gate order",
            "a promotion is not asked again before the merge",
        ),
        "crates/planner/src/gate/order.rs",
        (
            "    if !is_unmerged(question.promotion) {",
            "    if is_unmerged(question.promotion) {",
        ),
        "what_would_now_be_a_step_back_is_neither_merged_nor_pushed",
    ),
    planner(
        ("gate signature", "a revision that nobody verified passes"),
        "crates/planner/src/gate/signature.rs",
        (
            "let whose = self.unsigned_source()?;",
            "let whose = self.unsigned_source().filter(|_| false)?;",
        ),
        "only_what_flux_verified_is_promoted",
    ),
    planner(
        ("gate freeze", "a closed Freeze passes"),
        "crates/planner/src/gate/freeze.rs",
        ("    if !closed.is_empty() {", "    if closed.len() > 1 {"),
        "the_promotion_is_created_and_waits",
    ),
    planner(
        ("gate freeze", "a rollback may lead to what never ran here"),
        "crates/planner/src/gate/freeze.rs",
        (
            "has_run && !is_rejected && leads_away && !is_newer",
            "!is_rejected && leads_away && !is_newer",
        ),
        "a_rollback_passes_whatever_the_request_calls_itself",
    ),
    planner(
        ("gate approvals", "an approval counts for another change"),
        "crates/planner/src/gate/approvals/counting.rs",
        (
            "approval.change_digest.as_deref() == Some(digest)",
            "approval.change_digest.is_some() || digest.is_empty()",
        ),
        "an_approval_counts_for_one_change",
    ),
    planner(
        ("gate approvals", "one person counts twice"),
        "crates/planner/src/gate/approvals.rs",
        (
            "None if state.approved_by.contains(&by) => {}",
            "None if state.approved_by.len() > 9 => {}",
        ),
        "enough_different_people_must_approve",
    ),
    planner(
        ("gate approvals", "who requested it may approve it"),
        "crates/planner/src/gate/approvals/counting.rs",
        (
            "        if policy.not_requester\n",
            "        if !policy.not_requester\n",
        ),
        "who_asks_cannot_approve_where_the_policy_says_so",
    ),
    planner(
        ("gate approvals", "an approval never expires"),
        "crates/planner/src/gate/approvals/counting.rs",
        (
            "(self.now >= at).then_some(NotCounted::Expired)",
            "(self.now < at).then_some(NotCounted::Expired)",
        ),
        "an_approval_expires_after_the_controller_saw_it",
    ),
    planner(
        (
            "only our CheckRun opens its gate",
            "a CheckRun of another owner counts",
        ),
        "crates/planner/src/checks/runs.rs",
        (
            "    is_owned\n        && run",
            "    (is_owned || true)\n        && run",
        ),
        "a_passed_check_run_counts_only_if_it_is_ours",
    ),
];
