//! The kinds that `sluice get` lists, and how they are named on the command line.

use kube::api::ApiResource;

use super::super::{UsageError, format::closest_name};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListedKind {
    Pipelines,
    Promotions,
    Changes,
    Freezes,
    Checks,
    Triggers,
    Clusters,
}

/// Each kind and its names; the first one is shown in help and completion.
const KINDS: [(ListedKind, &[&str]); 7] = [
    (ListedKind::Pipelines, &["pipelines", "pipeline", "pipe"]),
    (
        ListedKind::Promotions,
        &["promotions", "promotion", "promo"],
    ),
    (ListedKind::Changes, &["changes", "change", "chg"]),
    (ListedKind::Freezes, &["freezes", "freeze", "frz"]),
    (
        ListedKind::Checks,
        &["checks", "check", "checkruns", "checkrun", "chk"],
    ),
    (
        ListedKind::Triggers,
        &[
            "triggers",
            "trigger",
            "pipelinetriggers",
            "pipelinetrigger",
            "pt",
        ],
    ),
    (
        ListedKind::Clusters,
        &[
            "clusters",
            "cluster",
            "gitopsclusters",
            "gitopscluster",
            "gc",
        ],
    ),
];

/// Stands for all kinds.
const ALL: &str = "all";

impl ListedKind {
    pub(super) fn resource(self) -> ApiResource {
        match self {
            Self::Pipelines => ApiResource::erase::<api::Pipeline>(&()),
            Self::Promotions => ApiResource::erase::<api::Promotion>(&()),
            Self::Changes => ApiResource::erase::<api::Change>(&()),
            Self::Freezes => ApiResource::erase::<api::Freeze>(&()),
            Self::Checks => ApiResource::erase::<api::CheckRun>(&()),
            Self::Triggers => ApiResource::erase::<api::PipelineTrigger>(&()),
            Self::Clusters => ApiResource::erase::<api::GitopsCluster>(&()),
        }
    }
}

/// The names of the kinds, for completion.
pub(in super::super) fn kind_names() -> Vec<&'static str> {
    let names = KINDS.iter().map(|(_, names)| names[0]);
    names.chain([ALL]).collect()
}

/// The resource that a name of a kind stands for.
pub(in super::super) fn resource_named(name: &str) -> Option<ApiResource> {
    find(name).ok().map(ListedKind::resource)
}

/// Objects of one kind; without names, all of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) kind: ListedKind,
    pub(super) names: Vec<String>,
}

impl Selection {
    pub(super) fn covers(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|it| it == name)
    }
}

/// Parses `KIND[,KIND] [NAME…]` or `KIND/NAME…`.
pub(super) fn parse(words: &[String]) -> Result<Vec<Selection>, UsageError> {
    if words.iter().any(|word| word.contains('/')) {
        return by_reference(words);
    }
    let Some((kinds, names)) = words.split_first() else {
        return Err(UsageError(format!("name a kind: {}", kinds_text())));
    };
    if kinds == ALL {
        let all = KINDS.iter().map(|(kind, _)| select(*kind, names));
        return Ok(all.collect());
    }
    let kinds = kinds.split(',').filter(|kind| !kind.is_empty());
    kinds.map(|kind| Ok(select(find(kind)?, names))).collect()
}

fn select(kind: ListedKind, names: &[String]) -> Selection {
    Selection {
        kind,
        names: names.to_vec(),
    }
}

fn by_reference(words: &[String]) -> Result<Vec<Selection>, UsageError> {
    let mut selections: Vec<Selection> = Vec::new();
    for word in words {
        let Some((kind, name)) = word.split_once('/').filter(|(_, name)| !name.is_empty()) else {
            let text = format!("{word} is not of the form KIND/NAME, such as pipeline/web");
            return Err(UsageError(text));
        };
        let kind = find(kind)?;
        match selections.iter_mut().find(|it| it.kind == kind) {
            Some(selection) => selection.names.push(name.to_owned()),
            None => selections.push(select(kind, &[name.to_owned()])),
        }
    }
    Ok(selections)
}

/// The kind of a name, also with its group, as in `pipelines.pipelines.weave.works`.
fn find(typed: &str) -> Result<ListedKind, UsageError> {
    let lower = typed.to_lowercase();
    let name = lower.split('.').next().unwrap_or_default();
    let mut kinds = KINDS.iter();
    if let Some((kind, _)) = kinds.find(|(_, names)| names.contains(&name)) {
        return Ok(*kind);
    }
    // The short name of each comes last.
    let whole_words = KINDS
        .iter()
        .flat_map(|(_, names)| names.iter().rev().skip(1).copied());
    let hint = match closest_name(name, whole_words) {
        Some(close) => format!("did you mean {close}?"),
        None => format!("use one of {}", kinds_text()),
    };
    Err(UsageError(format!("there is no kind {typed}: {hint}")))
}

fn kinds_text() -> String {
    kind_names().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, expected: Result<&[(ListedKind, &[&str])], &str>) {
        let words: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
        match (parse(&words), expected) {
            (Ok(found), Ok(expected)) => {
                let expected = expected.iter().map(|(kind, names)| Selection {
                    kind: *kind,
                    names: names.iter().map(|name| (*name).to_owned()).collect(),
                });
                assert_eq!(found, expected.collect::<Vec<_>>());
            }
            (Err(error), Err(expected)) => assert!(error.0.contains(expected), "{error}"),
            (found, _) => panic!("{typed}: {found:?}"),
        }
    }

    #[test]
    fn kinds_and_names_as_kubectl_accepts_them() {
        use ListedKind::{Pipelines, Promotions};
        check("pipelines", Ok(&[(Pipelines, &[])]));
        check("Pipeline web api", Ok(&[(Pipelines, &["web", "api"])]));
        check("pipe/web", Ok(&[(Pipelines, &["web"])]));
        check(
            "pipeline/web promotion/a pipeline.pipelines.weave.works/b",
            Ok(&[(Pipelines, &["web", "b"]), (Promotions, &["a"])]),
        );
        check("pipe,promo", Ok(&[(Pipelines, &[]), (Promotions, &[])]));
        check("pipelins", Err("did you mean pipeline"));
        check("pipeline/web api", Err("api is not of the form KIND/NAME"));
        check("", Err("name a kind: pipelines, promotions"));
    }
}
