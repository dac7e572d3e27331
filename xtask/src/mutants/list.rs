//! The mutations: what they guard, the text that is replaced, and the test that must fail.

mod planner;

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
    }
}

/// All mutations.
pub(super) fn all() -> impl Iterator<Item = &'static Mutation> {
    planner::MUTATIONS.iter().chain(MUTATIONS)
}

/// Mutations of other crates, and those that other suites notice.
const MUTATIONS: &[Mutation] = &[
    other(
        (
            "pushes compare the tip that was read",
            "a push overwrites what others pushed",
        ),
        "crates/git/src/push.rs",
        (
            "let lease = format!(\"--force-with-lease={reference}:{expected}\");",
            "let lease = format!(\"--force{}\", &expected[..0]);",
        ),
        ("sluice-git", &["--test", "suite"]),
        "a_push_between_our_look_and_our_push_is_never_overwritten",
    ),
    other(
        (
            "only the intended scalars change",
            "an edit is not compared with the original",
        ),
        "crates/git/src/edit/verify.rs",
        ("        if !is_right {", "        if !is_right && false {"),
        ("sluice-git", &["--lib"]),
        "an_editor_that_is_wrong_is_caught",
    ),
    other(
        (
            "no approval counts for another change",
            "an approval is stored for a change that was edited meanwhile",
        ),
        "crates/server/src/actions/approve.rs",
        (
            "if change_digest(newest) != approval.change_digest.as_deref() {",
            "if change_digest(newest) != approval.change_digest.as_deref() && false {",
        ),
        ("sluice-server", &["--test", "http"]),
        "an_approval_of_a_change_that_is_edited_meanwhile_is_refused",
    ),
    other(
        ("no secret in a text", "a secret is not replaced"),
        "crates/net/src/secret.rs",
        (
            "redacted = redacted.replace(value, \"***\");",
            "redacted = redacted.replace(value, value);",
        ),
        ("sluice-net", &["--lib"]),
        "secrets_are_redacted",
    ),
    other(
        (
            "hub writes carry the resourceVersion",
            "a status overwrites what others wrote",
        ),
        "crates/runtime/src/status.rs",
        (
            "\"metadata\": {\"resourceVersion\": object.meta().resource_version},",
            "\"metadata\": {},",
        ),
        ("sluice-runtime", &["--lib"]),
        "what_somebody_else_wrote_meanwhile_is_not_written_over",
    ),
    other(
        (
            "no write without the Lease",
            "a status is written without leading",
        ),
        "crates/runtime/src/status.rs",
        (
            "        if !self.leader.may_write() {",
            "        if self.leader.may_write() && false {",
        ),
        ("sluice-runtime", &["--lib"]),
        "nothing_is_written_without_leading",
    ),
    other(
        (
            "no side effect without the Lease",
            "a side effect starts with too little time",
        ),
        "crates/runtime/src/leader.rs",
        (
            "if remaining < needed || remaining.is_zero() {",
            "if remaining.is_zero() {",
        ),
        ("sluice-runtime", &["--lib"]),
        "no_permit_without_time_for_the_act",
    ),
];
