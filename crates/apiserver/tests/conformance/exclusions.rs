//! The cases that run on one of the two servers only, each with its reason.

use crate::support::Case;

/// Name of a case, and why it is left out.
type Exclusion = (&'static str, &'static str);

/// Left out on the embedded server.
const EMBEDDED: &[Exclusion] = &[(
    "definition_errors::rules_must_be_cheap",
    "no estimate of a rule's cost: the definitions on an embedded server are its owner's own, and ours \
         are proved within the limits on the real one",
)];

/// Left out on a real server.
const REAL: &[Exclusion] = &[
    ("apply::emptied_maps_stay", LEAVES_NULL),
    (
        "apply_lists::items_go_with_what_others_set_in_them",
        LEAVES_NULL,
    ),
];

const LEAVES_NULL: &str = "a real server leaves null where it took the last field out of a map or \
                           list, and then refuses its own result";

pub(crate) fn on_the_embedded_server(case: &str) -> Option<&'static str> {
    reason(EMBEDDED, case)
}

pub(crate) fn on_a_real_server(case: &str) -> Option<&'static str> {
    reason(REAL, case)
}

/// An exclusion of something that is not a case (any more).
pub(crate) fn unknown(cases: &[Case]) -> Option<&'static str> {
    let known = |name: &str| cases.iter().any(|case| case.name == name);
    EMBEDDED
        .iter()
        .chain(REAL)
        .map(|(name, _)| *name)
        .find(|name| !known(name))
}

fn reason(exclusions: &[Exclusion], case: &str) -> Option<&'static str> {
    exclusions
        .iter()
        .find(|(name, _)| *name == case)
        .map(|(_, reason)| *reason)
}
