//! Names and texts for places of all sorts.

use api::{
    Pipeline, Promotion,
    pipeline::PipelineSpec,
    promotion::{PromotionSpec, PromotionTarget},
};

use git::propose::Alteration;

use super::*;

/// The branch, the marker and the title of a promotion into `env` or `env/cluster/namespace`.
fn words(place: &str) -> (String, String, String) {
    let mut parts = place.split('/');
    let environment = parts.next().unwrap_or_default().to_owned();
    let target = parts.next().map(|cluster| PromotionTarget {
        cluster: Some(cluster.to_owned()).filter(|cluster| cluster != "-"),
        cluster_namespace: None,
        namespace: parts.next().unwrap_or_default().to_owned(),
    });
    let mut pipeline = Pipeline::new("app", PipelineSpec::default());
    pipeline.metadata.namespace = Some("team".to_owned());
    let spec = PromotionSpec {
        environment,
        target,
        version: "1.1.0".to_owned(),
        ..PromotionSpec::default()
    };
    let promotion = Promotion::new("x", spec);
    let task = Task {
        pipeline: &pipeline,
        promotion: &promotion,
    };
    let to = PullRequest {
        base_branch: "main".to_owned(),
        ..PullRequest::default()
    };
    let words = Words::of(task, &Change::from(&to)).expect("words for it");
    let Alteration::Marked { marker, .. } = words.proposal.alteration else {
        return Default::default();
    };
    let branch = words.proposal.branch.as_str().to_owned();
    (branch, marker, words.title)
}

#[test]
fn places_have_the_names_people_look_for() {
    for (place, branch, marker, title) in [
        (
            "prod",
            "promotion-team-app-prod",
            "team:app:prod",
            "Promote team/app in prod to 1.1.0",
        ),
        (
            "prod/c1/live",
            "promotion-team-app-prod-c1-live",
            "team:app:prod:c1/live",
            "Promote team/app in prod to 1.1.0 on c1/live",
        ),
        (
            "prod/-/live",
            "promotion-team-app-prod-live",
            "team:app:prod:-/live",
            "Promote team/app in prod to 1.1.0 on live",
        ),
    ] {
        let expected = (branch.to_owned(), marker.to_owned(), title.to_owned());
        assert_eq!(words(place), expected);
    }
}

#[test]
fn an_environment_of_any_name_has_a_branch_of_its_own() {
    let (one, marker, _) = words("Staging EU");
    assert!(one.starts_with("promotion-team-app-staging-eu-"), "{one}");
    assert_eq!(marker, "team:app:Staging EU");
    assert_ne!(one, words("Staging  EU").0);
}

#[test]
fn the_last_trailer_counts() {
    assert_eq!(
        promotion_in("Sluice-Promotion: a\n\nSluice-Promotion: b\n"),
        Some("b")
    );
    assert_eq!(promotion_in("no trailer"), None);
}
