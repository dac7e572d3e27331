//! Branches, markers, titles and texts of promotions into environments and single targets.

use api::{
    Pipeline, Promotion,
    pipeline::{ClusterAppReference, ClusterReference, PipelineSpec, RequestKind, TargetStatus},
    promotion::{
        Approval, Batch, PromotionRequest, PromotionSpec, PromotionStatus, PromotionTarget,
        RolloutStatus, RolloutTarget,
    },
};

use git::propose::RequestedEdit;

use super::*;

/// The branch, the marker and the title of a promotion into `env` or `env/cluster/namespace`.
fn names(place: &str) -> (String, String, String) {
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
    let task = PromotionTask::new(&pipeline, &promotion);
    let to = PullRequestStrategy {
        base_branch: "main".to_owned(),
        ..PullRequestStrategy::default()
    };
    let promoted = PromotionProposal::of(task, &RepositoryStrategy::from(&to)).expect("a proposal");
    let RequestedEdit::MarkedFields { marker, .. } = promoted.proposal.edit else {
        return Default::default();
    };
    let branch = promoted.proposal.branch.as_str().to_owned();
    (branch, marker, promoted.title)
}

#[test]
fn environments_and_targets_have_the_names_of_the_weave_controller() {
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
        assert_eq!(names(place), expected);
    }
}

/// Title and text of the pull request of a promotion with or without a request.
fn text_of(request: Option<PromotionRequest>, body: Option<&str>) -> (String, String) {
    let mut pipeline = Pipeline::new("app", PipelineSpec::default());
    pipeline.metadata.namespace = Some("team".to_owned());
    let spec = PromotionSpec {
        environment: "prod".to_owned(),
        version: "1.1.0".to_owned(),
        replaces: request.is_some().then(|| "1.0.0".to_owned()),
        approvals: request
            .iter()
            .map(|_| Approval {
                by: "b`ob".to_owned(),
                ..Approval::default()
            })
            .collect(),
        request,
        ..PromotionSpec::default()
    };
    let promotion = Promotion::new("x", spec);
    let task = PromotionTask::new(&pipeline, &promotion);
    let to = PullRequestStrategy {
        base_branch: "main".to_owned(),
        body: body.map(str::to_owned),
        ..PullRequestStrategy::default()
    };
    let strategy = RepositoryStrategy::from(&to).linked(Some("https://sluice.example.com/"));
    let promoted = PromotionProposal::of(task, &strategy).expect("a proposal");
    let (text, block) = promoted.body.split_once("<details>").expect("a block");
    assert!(block.contains("\nteam/app/prod\n</details>"), "{block}");
    (promoted.title, text.to_owned())
}

#[test]
fn the_default_text_has_versions_requester_approver_and_link() {
    let request = |kind, by: Option<&str>| {
        Some(PromotionRequest {
            id: "r1".to_owned(),
            kind,
            by: by.map(str::to_owned),
        })
    };
    let link = "\n\nhttps://sluice.example.com/pipelines/team/app\n\n";
    for (asked, title, text) in [
        (
            None,
            "Promote team/app in prod to 1.1.0",
            "Promotes `team/app` in `prod` to `1.1.0`.",
        ),
        (
            request(RequestKind::Promote, None),
            "Promote team/app in prod to 1.1.0",
            "Promotes `team/app` in `prod` from `1.0.0` to `1.1.0`. Requested by `somebody`. \
             Approved by `b'ob`.",
        ),
        (
            request(RequestKind::Rollback, Some("ann")),
            "Roll back team/app in prod to 1.1.0",
            "Rolls back `team/app` in `prod` from `1.0.0` to `1.1.0`. Requested by `ann`. \
             Approved by `b'ob`.",
        ),
    ] {
        let expected = (title.to_owned(), format!("{text}{link}"));
        assert_eq!(text_of(asked, None), expected);
    }
}

#[test]
fn no_field_of_a_template_is_empty() {
    let body = "${replaces}, asked by ${requestedBy}, approved by ${approvedBy}";
    let (_, text) = text_of(None, Some(body));
    assert_eq!(text, "nothing, asked by Sluice, approved by nobody\n\n");
    assert_eq!(text_of(None, Some("")).1, "", "an empty body is no body");
}

#[test]
fn lint_knows_all_fields_of_a_template() {
    let mut pipeline = Pipeline::new("app", PipelineSpec::default());
    pipeline.metadata.namespace = Some("team".to_owned());
    let promotion = Promotion::new("x", PromotionSpec::default());
    let task = PromotionTask::new(&pipeline, &promotion);
    let refused = PromotionDescription::of(task).fill("${unknown}");
    let message = refused.expect_err("an unknown field").message;
    assert!(
        message.ends_with(&planner::TEXT_FIELDS.join(", ")),
        "{message}"
    );
}

#[test]
fn an_environment_of_any_name_has_a_branch_of_its_own() {
    let (one, marker, _) = names("Staging EU");
    assert!(one.starts_with("promotion-team-app-staging-eu-"), "{one}");
    assert_eq!(marker, "team:app:Staging EU");
    assert_ne!(one, names("Staging  EU").0);
}

/// The second batch of a rollout, with two of three targets.
fn second_batch() -> Promotion {
    let target = |name: &str, batch| RolloutTarget {
        target: format!("{name}/live"),
        batch,
        ..RolloutTarget::default()
    };
    let batch = |number| Batch {
        number,
        ..Batch::default()
    };
    let spec = PromotionSpec {
        environment: "prod".to_owned(),
        version: "1.1.0".to_owned(),
        ..PromotionSpec::default()
    };
    let mut promotion = Promotion::new("x", spec);
    promotion.metadata.uid = Some("u-1".to_owned());
    promotion.status = Some(PromotionStatus {
        rollout: Some(RolloutStatus {
            targets: vec![
                target("c0", Some(1)),
                target("c1", Some(2)),
                target("c2", Some(2)),
            ],
            batches: vec![batch(1), batch(2)],
            ..RolloutStatus::default()
        }),
        ..PromotionStatus::default()
    });
    promotion
}

#[test]
fn a_batch_has_a_branch_a_title_and_a_uid_of_its_own() {
    let promotion = second_batch();
    let mut pipeline = Pipeline::new("app", PipelineSpec::default());
    pipeline.metadata.namespace = Some("team".to_owned());
    let task = PromotionTask::new(&pipeline, &promotion);
    for (title, expected) in [
        (
            None,
            "Promote team/app in prod to 1.1.0, batch 2 (2 targets)",
        ),
        (Some("Ship ${version}"), "Ship 1.1.0, batch 2 (2 targets)"),
    ] {
        let to = PullRequestStrategy {
            base_branch: "main".to_owned(),
            title: title.map(str::to_owned),
            ..PullRequestStrategy::default()
        };
        let strategy = RepositoryStrategy::from(&to);
        let promoted = PromotionProposal::of(task, &strategy).expect("a proposal");
        assert_eq!(promoted.title, expected);
        let branch = promoted.proposal.branch.as_str();
        assert_eq!(branch, "promotion-team-app-prod-b2");
        assert_eq!(promoted.proposal.message.promotion, "u-1/2");
        assert_eq!(promoted.proposal.message.owner, "team/app/prod");
        let trailer = "\nSluice-Promotion: u-1/2\n";
        assert!(promoted.body.ends_with(trailer), "{}", promoted.body);
    }
}

#[test]
fn paths_are_those_of_the_targets_of_the_batch() {
    let promotion = second_batch();
    let mut pipeline = Pipeline::new("app", PipelineSpec::default());
    pipeline.metadata.namespace = Some("team".to_owned());
    let status = pipeline.status.get_or_insert_default();
    let environment = status.environments.entry("prod".to_owned()).or_default();
    environment.targets = ["c0", "c1", "c2"].map(on_cluster).into();
    let to = PullRequestStrategy {
        base_branch: "main".to_owned(),
        paths: vec!["clusters/${cluster}/*".to_owned()],
        ..PullRequestStrategy::default()
    };
    let task = PromotionTask::new(&pipeline, &promotion);
    let strategy = RepositoryStrategy::from(&to);
    let promoted = PromotionProposal::of(task, &strategy).expect("a proposal");
    let paths = promoted.proposal.paths;
    let allowed = ["c0", "c1", "c2"].map(|it| paths.allow(&format!("clusters/{it}/app.yaml")));
    assert_eq!(allowed, [false, true, true]);
}

fn on_cluster(name: &str) -> TargetStatus {
    TargetStatus {
        cluster_app_ref: Some(ClusterAppReference {
            cluster_ref: Some(ClusterReference {
                name: name.to_owned(),
                ..ClusterReference::default()
            }),
            ..ClusterAppReference::default()
        }),
        namespace: Some("live".to_owned()),
        ..TargetStatus::default()
    }
}
