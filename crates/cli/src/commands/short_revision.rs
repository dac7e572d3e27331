//! Finds the revision that a person typed in the short form in which commands print digests.

use api::{Pipeline, Promotion, revision::is_digest};

/// The fewest digits that commands print.
const MIN_DIGITS: usize = 12;

/// The whole revision for `756cfacdb73d`, `sha256:756cfacdb73d` or `6.2.0@756cfacdb73d`, if exactly one
/// digest that the pipeline knows begins so; else the text as it was typed.
pub(super) fn whole_revision(pipeline: &Pipeline, promotions: &[Promotion], typed: &str) -> String {
    let Some(digits) = digits(typed) else {
        return typed.to_owned();
    };
    let environments = pipeline
        .status
        .iter()
        .flat_map(|it| it.environments.values());
    let known = environments.flat_map(|environment| {
        let targets = environment.targets.iter();
        let targets = targets.filter_map(|target| target.revision.as_deref());
        targets.chain(environment.ran_revisions())
    });
    let promoted = promotions.iter().map(|it| it.spec.revision.as_str());
    let begins = |revision: &&str| {
        let digest = revision.split_once(':').map(|(_, digest)| digest);
        is_digest(revision) && digest.is_some_and(|digest| digest.starts_with(digits))
    };
    let mut found: Vec<&str> = known.chain(promoted).filter(begins).collect();
    found.sort_unstable();
    found.dedup();
    match found.as_slice() {
        [one] => (*one).to_owned(),
        _ => typed.to_owned(),
    }
}

/// The digits of a digest in short form.
fn digits(typed: &str) -> Option<&str> {
    let digest = typed.rsplit_once('@').map_or(typed, |(_, digest)| digest);
    let digits = digest.split_once(':').map_or(digest, |(_, digits)| digits);
    let is_short = digits.len() >= MIN_DIGITS && digits.bytes().all(|it| it.is_ascii_hexdigit());
    is_short.then_some(digits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_short_digest_names_the_only_revision_that_begins_so() {
        let (one, other) = ("0123456789abcdef".repeat(4), "0123456789abfedc".repeat(4));
        let pipeline: Pipeline = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {"environments": []},
            "status": {"environments": {"prod": {
                "targets": [{"ready": true, "revision": format!("sha256:{one}")}],
                "ran": [format!("sha256:{one}"), format!("sha256:{other}")],
            }}},
        }))
        .unwrap();
        let whole = |typed: &str| whole_revision(&pipeline, &[], typed);
        for typed in [
            "0123456789abc",
            "sha256:0123456789abc",
            "6.2.0@0123456789abc",
        ] {
            assert_eq!(whole(typed), format!("sha256:{one}"), "{typed}");
        }
        for typed in ["0123456789ab", "6.2.0", "0123", "6.2.0@ffffffffffff"] {
            assert_eq!(whole(typed), typed, "none or several");
        }
    }
}
