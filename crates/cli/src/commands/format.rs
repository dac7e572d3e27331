//! Text formatting that several commands share.

use std::collections::BTreeMap;

use api::{Time, pipeline::TargetStatus};
use jiff::Timestamp;

/// The name that is most similar to what was typed, if one is similar enough.
pub(super) fn closest_name<'a>(
    typed: &str,
    names: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&typed, &name.to_lowercase());
    let limit = (typed.chars().count() / 3).max(1);
    names
        .map(|name| (distance(name), name))
        .filter(|(distance, name)| *distance <= limit || name.to_lowercase().starts_with(&typed))
        .min()
        .map(|(_, name)| name)
}

/// `1 file`, `2 files`.
pub(super) fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// The age in the largest useful unit: `45s`, `12m`, `3h`, `9d`.
pub(super) fn age(since: Option<&Time>, now: Timestamp) -> String {
    since.map_or("-".to_owned(), |since| {
        duration(now.as_second() - since.0.as_second())
    })
}

/// A number of seconds in the largest useful unit.
pub(super) fn duration(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// The names of targets. Where two are equal, the namespaces of their GitopsClusters are added.
pub(super) fn target_names(targets: &[TargetStatus]) -> Vec<String> {
    let names: Vec<String> = targets.iter().map(planner::target_name).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &names {
        *counts.entry(name).or_default() += 1;
    }
    let with_namespace = |(target, name): (&TargetStatus, &String)| match cluster_namespace(target)
        .filter(|_| counts[name.as_str()] > 1)
    {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.clone(),
    };
    targets.iter().zip(&names).map(with_namespace).collect()
}

fn cluster_namespace(target: &TargetStatus) -> Option<&str> {
    let cluster = target.cluster_app_ref.as_ref()?.cluster_ref.as_ref()?;
    cluster.namespace.as_deref().filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use api::pipeline::{ClusterAppReference, ClusterReference};

    use super::*;

    #[test]
    fn targets_on_clusters_with_the_same_name_are_told_apart() {
        let target = |namespace: Option<&str>, cluster: &str| TargetStatus {
            cluster_app_ref: Some(ClusterAppReference {
                cluster_ref: Some(ClusterReference {
                    name: cluster.to_owned(),
                    namespace: namespace.map(str::to_owned),
                    ..ClusterReference::default()
                }),
                ..ClusterAppReference::default()
            }),
            namespace: Some("web".to_owned()),
            ..TargetStatus::default()
        };
        let targets = [
            target(None, "eu"),
            target(Some("fleet"), "eu"),
            target(Some("fleet"), "us"),
        ];
        assert_eq!(target_names(&targets), ["eu/web", "fleet/eu/web", "us/web"]);
    }

    #[test]
    fn only_similar_names_are_suggested() {
        let names = ["podinfo", "shop", "shop-api"];
        for (typed, expected) in [
            ("podinfos", Some("podinfo")),
            ("Podifno", Some("podinfo")),
            ("pod", Some("podinfo")),
            ("shop", Some("shop")),
            ("backend", None),
        ] {
            assert_eq!(closest_name(typed, names.into_iter()), expected, "{typed}");
        }
    }

    #[test]
    fn durations_use_the_largest_useful_unit() {
        for (seconds, expected) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7_200, "2h"),
            (200_000, "2d"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
    }
}
