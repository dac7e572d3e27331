//! Objects as the version before stored them, read and written by this one.

use api::{Pipeline, Promotion, Revision, app::AppReading};
use kube::Resource;
use planner::{
    AttemptInput, ExternalAction, ObservedApp, ObservedEnvironment, ObservedPipeline,
    ObservedPullRequest, ObservedTarget, TargetState,
};
use serde_json::{Value, json};

use crate::drawing::now;

/// A pipeline whose prod went from 1.0.0 to 1.1.0; 1.2.0 is in dev.
fn stored_pipeline() -> Value {
    let strategy = json!({"pull-request": {
        "type": "github", "url": "https://example.com/shop.git", "baseBranch": "main",
        "secretRef": {"name": "git"},
    }});
    let target = |revision: &str, since: &str| {
        json!({
            "clusterAppRef": {
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "shop",
            },
            "namespace": "shop", "ready": true, "revision": revision, "version": revision,
            "readySince": since, "source": "Watch",
        })
    };
    json!({
        "apiVersion": "pipelines.weave.works/v1alpha1",
        "kind": "Pipeline",
        "metadata": {"name": "shop", "namespace": "default", "generation": 1, "uid": "u1"},
        "spec": {
            "appRef": {
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "shop",
            },
            "environments": [
                {"name": "dev", "targets": [{"namespace": "shop"}]},
                {"name": "prod", "targets": [{"namespace": "shop"}],
                 "promotion": {"manual": true, "strategy": strategy}},
            ],
        },
        "status": {
            "observedGeneration": 1,
            "environments": {
                "dev": {
                    "targets": [target("1.2.0", "2027-01-15T07:00:00Z")],
                    "ran": ["1.2.0", "1.1.0", "1.0.0"],
                },
                "prod": {
                    "targets": [target("1.1.0", "2027-01-14T07:00:00Z")],
                    "waitingApproval": {"revision": "1.2.0"},
                    "hold": {"reason": "AwaitingApproval", "message": "1.2.0 waits"},
                    "ran": ["1.1.0", "1.0.0"],
                    "rejected": ["0.9.0"],
                },
            },
        },
    })
}

/// The promotion of a revision into prod, approved in the one field that there was.
fn stored_promotion(pipeline: &Pipeline, revision: &str, status: Value) -> Promotion {
    let strategy = &pipeline.spec.promotion_into("prod").unwrap().strategy;
    let promotion = json!({
        "apiVersion": "pipelines.weave.works/v1alpha1",
        "kind": "Promotion",
        "metadata": {
            "name": format!("shop-prod-{revision}"), "namespace": "default",
            "creationTimestamp": "2027-01-14T06:00:00Z", "generation": 2,
            "ownerReferences": pipeline.controller_owner_ref(&()).map(|owner| [owner]),
        },
        "spec": {
            "pipeline": "shop", "environment": "prod", "revision": revision, "version": revision,
            "ordinal": 0, "strategy": strategy, "needsApproval": true,
            "verifiedAt": "2027-01-14T06:00:00Z",
            "approval": {"by": "ada", "at": "2027-01-14T06:10:00Z", "note": "go"},
        },
        "status": status,
    });
    serde_json::from_value(promotion).unwrap()
}

fn observed() -> ObservedPipeline {
    let environment = |name: &str, revision: &str| ObservedEnvironment {
        name: name.to_owned(),
        targets: vec![ObservedTarget {
            cluster: None,
            namespace: "shop".to_owned(),
            relies_on_reports: false,
            state: TargetState::Observed(vec![ObservedApp {
                reading: AppReading {
                    revision: Revision::new(revision),
                    version: Some(revision.to_owned()),
                    ready: true,
                    ..AppReading::default()
                },
                ..ObservedApp::default()
            }]),
        }],
    };
    ObservedPipeline {
        environments: vec![environment("dev", "1.2.0"), environment("prod", "1.1.0")],
        ..ObservedPipeline::default()
    }
}

#[test]
fn what_ran_is_written_as_objects_once_and_the_approval_counts() {
    let mut pipeline: Pipeline = serde_json::from_value(stored_pipeline()).unwrap();
    let merged = json!({"phase": "Succeeded", "mergedAt": "2027-01-14T06:30:00Z"});
    let waiting = json!({"phase": "AwaitingApproval"});
    let promotions = [
        stored_promotion(&pipeline, "1.1.0", merged),
        stored_promotion(&pipeline, "1.2.0", waiting),
    ];
    for _ in 0..2 {
        let model = planner::fold(&pipeline, &observed(), now());
        let plan = planner::plan(&pipeline, &model, &promotions, now());
        assert_eq!(plan.steps, [], "the approved promotion goes on");
        pipeline.status = Some(planner::apply(&plan, &model, now()));
        let written = json!(pipeline.status.as_ref().unwrap().environments["prod"].ran);
        let expected = json!([
            {
                "revision": "1.1.0", "version": "1.1.0",
                "firstReadyAt": "2027-01-14T07:00:00Z", "allReadyAt": "2027-01-14T07:00:00Z",
                "approved": true, "promotion": "shop-prod-1.1.0",
            },
            {"revision": "1.0.0", "version": "1.0.0"},
        ]);
        assert_eq!(written, expected);
    }
    let input = AttemptInput {
        pipeline: Some(&pipeline),
        promotions: &promotions,
        pull_request: ObservedPullRequest::Missing,
        edited: false,
    };
    let next = planner::attempt(&promotions[1], &input, now());
    assert_eq!(next.action, ExternalAction::CarryOut, "{:?}", next.status);
}
