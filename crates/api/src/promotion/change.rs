//! What a promotion changes: the digest that approvals name, and a bounded summary for people.
//!
//! The digest covers what is frozen in the Promotion's spec and every edit, also those that the summary
//! leaves out. Commits that edit other values do not change it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PromotionSpec;
use crate::{lenient::is_default, names::sha256, pipeline::Strategy};

/// The largest summary that is stored, in bytes of JSON.
const LARGEST: usize = 2048;
/// How many edits are listed at most.
const MAX_EDITS: usize = 20;
/// How much of the summary edits may take, so that commits have room too.
const LARGEST_EDITS: usize = 1152;

/// What a promotion changes.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PromotionChange {
    /// SHA-256 of the revision, the revision it replaces, and the edits. Approvals name it.
    #[schemars(length(max = 128))]
    pub digest: String,
    /// The values that are edited, as many as there is room for.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 20))]
    pub edits: Vec<FieldEdit>,
    /// How many more values are edited.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(range(min = 0))]
    pub more_edits: i64,
    /// The commits of the source code that it brings, where they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commits: Option<SourceCommits>,
}

/// A value that is replaced.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord,
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct FieldEdit {
    /// The file in the git repository; for a tag of a registry, the repository there.
    #[schemars(length(max = 4096))]
    pub file: String,
    /// The path to the value in the YAML file; for a tag of a registry, the tag.
    #[schemars(length(max = 4096))]
    pub path: String,
    /// The value before; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub old: Option<String>,
    /// The value after.
    #[schemars(length(max = 4096))]
    pub new: String,
}

/// The commits between the source code that runs and the source code that is promoted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SourceCommits {
    /// The commit that runs.
    #[schemars(length(max = 64))]
    pub from: String,
    /// The commit that is promoted.
    #[schemars(length(max = 64))]
    pub to: String,
    /// The page that compares both.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub url: Option<String>,
    /// The newest commits, as many as there is room for.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 20))]
    pub newest: Vec<SourceCommit>,
    /// How many commits there are, where the forge says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// Why the commits are not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub note: Option<String>,
}

/// The source code that runs when a promotion is created, and the source code that is promoted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SourceRange {
    /// The commit that runs.
    #[schemars(length(max = 64))]
    pub from: String,
    /// The commit that is promoted.
    #[schemars(length(max = 64))]
    pub to: String,
}

/// A commit of the source code.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SourceCommit {
    /// Its id.
    #[schemars(length(max = 64))]
    pub id: String,
    /// The first line of its message, cut where it is long.
    #[schemars(length(max = 256))]
    pub title: String,
    /// Its author's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub author: Option<String>,
}

/// What a digest covers besides the Promotion's spec.
#[derive(Clone, Copy, Debug)]
pub enum ChangeContent<'a> {
    /// Values that Sluice edits.
    Edits(&'a [FieldEdit]),
    /// A change that the receiver of an event or a call makes: how it is sent.
    Delegated(&'a Strategy),
}

/// The digest of a change: `sha256:` and hexadecimal digits.
pub fn change_digest(spec: &PromotionSpec, content: ChangeContent<'_>) -> String {
    let target = serde_json::json!([spec.pipeline, spec.environment, spec.target]).to_string();
    let replaces = spec.replaces.as_deref();
    let mut parts = vec![target, spec.revision.clone(), spec.version.clone()];
    parts.push(replaces.map_or_else(String::new, |replaces| format!("replaces {replaces}")));
    let digests = [&spec.digest, &spec.replaces_digest];
    parts.extend(digests.map(|digest| digest.clone().unwrap_or_default()));
    match content {
        ChangeContent::Edits(edits) => {
            let mut edits: Vec<&FieldEdit> = edits.iter().collect();
            edits.sort();
            parts.push(serde_json::json!(edits).to_string());
        }
        ChangeContent::Delegated(strategy) => parts.push(serde_json::json!(strategy).to_string()),
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    format!("sha256:{}", sha256(&parts))
}

/// A hash of one edit, 16 hexadecimal digits: short, because a rollout stores one for each of its edits.
pub fn edit_hash(edit: &FieldEdit) -> String {
    let mut hash = sha256(&[&serde_json::json!(edit).to_string()]);
    hash.truncate(16);
    hash
}

impl PromotionChange {
    /// The change with its digest, and as many edits and commits as there is room for.
    pub fn new(spec: &PromotionSpec, content: ChangeContent<'_>) -> Self {
        let mut change = Self {
            digest: change_digest(spec, content),
            ..Self::default()
        };
        if let ChangeContent::Edits(edits) = content {
            change.list(edits);
        }
        change
    }

    fn list(&mut self, edits: &[FieldEdit]) {
        let mut room = LARGEST_EDITS;
        for edit in edits.iter().take(MAX_EDITS) {
            let Some(rest) = room.checked_sub(size(edit)) else {
                break;
            };
            room = rest;
            self.edits.push(edit.clone());
        }
        self.more_edits = (edits.len() - self.edits.len())
            .try_into()
            .unwrap_or(i64::MAX);
    }

    /// The same with commits, the newest that there is room for.
    pub fn with_commits(mut self, mut commits: SourceCommits) -> Self {
        let newest = std::mem::take(&mut commits.newest);
        let fits = |change: &Self| size(change) <= LARGEST;
        self.commits = Some(commits);
        if !fits(&self) {
            // Only a very long address leaves no room.
            self.commits = None;
            return self;
        }
        for commit in newest.into_iter().take(MAX_EDITS) {
            let Some(commits) = &mut self.commits else {
                break;
            };
            commits.newest.push(commit);
            if fits(&self) {
                continue;
            }
            if let Some(commits) = &mut self.commits {
                commits.newest.pop();
            }
            break;
        }
        self
    }
}

fn size(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(file: &str, old: &str, new: &str) -> FieldEdit {
        FieldEdit {
            file: file.to_owned(),
            path: "spec.chart.spec.version".to_owned(),
            old: Some(old.to_owned()),
            new: new.to_owned(),
        }
    }

    fn spec() -> PromotionSpec {
        PromotionSpec {
            pipeline: "shop".to_owned(),
            environment: "prod".to_owned(),
            revision: "2.0.0".to_owned(),
            version: "2.0.0".to_owned(),
            replaces: Some("1.0.0".to_owned()),
            ..PromotionSpec::default()
        }
    }

    #[test]
    fn the_digest_covers_spec_and_edits_in_any_order() {
        let edits = [
            edit("a.yaml", "1.0.0", "2.0.0"),
            edit("b.yaml", "1.0.0", "2.0.0"),
        ];
        let reversed = [edits[1].clone(), edits[0].clone()];
        let digest = change_digest(&spec(), ChangeContent::Edits(&edits));
        assert_eq!(
            digest,
            change_digest(&spec(), ChangeContent::Edits(&reversed))
        );
        let mut seen = vec![digest];
        let mut differs = |spec: &PromotionSpec, edits: &[FieldEdit]| {
            let digest = change_digest(spec, ChangeContent::Edits(edits));
            assert!(!seen.contains(&digest), "{spec:?} {edits:?}");
            seen.push(digest);
        };
        differs(&spec(), &edits[..1]);
        differs(
            &spec(),
            &[edit("a.yaml", "1.1.0", "2.0.0"), edits[1].clone()],
        );
        differs(
            &spec(),
            &[edit("a.yaml", "1.0.0", "2.0.1"), edits[1].clone()],
        );
        differs(
            &spec(),
            &[edit("c.yaml", "1.0.0", "2.0.0"), edits[1].clone()],
        );
        differs(
            &PromotionSpec {
                revision: "2.0.1".to_owned(),
                ..spec()
            },
            &edits,
        );
        differs(
            &PromotionSpec {
                replaces: None,
                ..spec()
            },
            &edits,
        );
        differs(
            &PromotionSpec {
                environment: "dev".to_owned(),
                ..spec()
            },
            &edits,
        );
    }

    #[test]
    fn the_hash_of_an_edit_covers_each_of_its_fields() {
        let one = edit("a.yaml", "1.0.0", "2.0.0");
        assert_eq!(edit_hash(&one), edit_hash(&one.clone()));
        assert_eq!(edit_hash(&one).len(), 16);
        let mut hashes = vec![edit_hash(&one)];
        let other_path = FieldEdit {
            path: "spec.ref.tag".to_owned(),
            ..one.clone()
        };
        for other in [
            edit("b.yaml", "1.0.0", "2.0.0"),
            edit("a.yaml", "1.1.0", "2.0.0"),
            edit("a.yaml", "1.0.0", "2.0.1"),
            FieldEdit { old: None, ..one },
            other_path,
        ] {
            assert!(!hashes.contains(&edit_hash(&other)), "{other:?}");
            hashes.push(edit_hash(&other));
        }
    }

    #[test]
    fn a_delegated_change_covers_the_strategy() {
        let strategy = |url: &str| Strategy {
            webhook: Some(crate::pipeline::Webhook {
                url: url.to_owned(),
                secret_ref: None,
            }),
            ..Strategy::default()
        };
        let of = |url| change_digest(&spec(), ChangeContent::Delegated(&strategy(url)));
        assert_eq!(of("https://a.example.com"), of("https://a.example.com"));
        assert_ne!(of("https://a.example.com"), of("https://b.example.com"));
    }

    #[test]
    fn what_is_stored_is_bounded() {
        let edits: Vec<FieldEdit> = (0..500)
            .map(|it| {
                edit(
                    &format!("clusters/{it:03}/{}.yaml", "x".repeat(it)),
                    "1",
                    "2",
                )
            })
            .collect();
        let change = PromotionChange::new(&spec(), ChangeContent::Edits(&edits));
        assert!(!change.edits.is_empty());
        assert_eq!(change.edits.len() as i64 + change.more_edits, 500);
        let commits = SourceCommits {
            total: Some(90),
            newest: vec![
                SourceCommit {
                    id: "0".repeat(40),
                    title: "y".repeat(100),
                    author: Some("Ann".to_owned()),
                };
                90
            ],
            ..SourceCommits::default()
        };
        let change = change.with_commits(commits);
        let listed = change.commits.as_ref().map(|commits| commits.newest.len());
        assert!(listed.is_some_and(|listed| listed > 0), "{change:?}");
        assert!(size(&change) <= LARGEST, "{}", size(&change));
    }
}
