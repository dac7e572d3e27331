//! Runs one function of the planner some times, for `cargo xtask counts`: `count_planner FUNCTION TIMES`.
#![expect(clippy::unwrap_used, reason = "only a test of costs runs it")]

use std::hint::black_box;

use api::{Pipeline, Promotion, Revision, app::AppReading};
use planner::{
    AttemptInput, ObservedApp, ObservedEnvironment, ObservedPipeline, ObservedPullRequest,
    ObservedTarget, TargetState, Timestamp,
};
use serde_json::json;

const ENVIRONMENTS: [(&str, &str); 3] = [("dev", "1.2.0"), ("staging", "1.1.0"), ("prod", "1.0.0")];
const TARGETS: usize = 10;

fn pipeline() -> Pipeline {
    let strategy = json!({"pull-request": {
        "type": "github", "url": "https://forge.example/shop.git", "baseBranch": "main",
        "secretRef": {"name": "git"},
    }});
    let environments = ENVIRONMENTS.map(|(name, _)| {
        let targets = (0..TARGETS).map(|it| json!({"namespace": format!("shop-{it}")}));
        json!({"name": name, "targets": targets.collect::<Vec<_>>()})
    });
    serde_json::from_value(json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "shop", "namespace": "default", "generation": 1, "uid": "u1"},
        "spec": {
            "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "shop"},
            "environments": environments, "promotion": {"manual": true, "strategy": strategy},
        },
    }))
    .unwrap()
}

fn promotion(pipeline: &Pipeline) -> Promotion {
    let strategy = &pipeline.spec.promotion_into("prod").unwrap().strategy;
    serde_json::from_value(json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Promotion",
        "metadata": {
            "name": "shop-prod-1.1.0", "namespace": "default", "generation": 1, "uid": "u2",
            "creationTimestamp": "2027-01-14T06:00:00Z",
        },
        "spec": {
            "pipeline": "shop", "environment": "prod", "revision": "1.1.0", "version": "1.1.0",
            "ordinal": 2, "strategy": strategy, "needsApproval": true,
            "verifiedAt": "2027-01-14T06:00:00Z",
        },
        "status": {"phase": "AwaitingApproval"},
    }))
    .unwrap()
}

fn observed() -> ObservedPipeline {
    let target = |number: usize, revision: &str| ObservedTarget {
        cluster: None,
        namespace: format!("shop-{number}"),
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
    };
    let environments = ENVIRONMENTS.map(|(name, revision)| ObservedEnvironment {
        name: name.to_owned(),
        targets: (0..TARGETS).map(|it| target(it, revision)).collect(),
    });
    ObservedPipeline {
        environments: environments.into(),
        ..ObservedPipeline::default()
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let function = arguments.next().unwrap();
    let times: usize = arguments.next().unwrap().parse().unwrap();
    let now: Timestamp = "2027-01-15T08:00:00Z".parse().unwrap();
    let mut pipeline = pipeline();
    let seen = observed();
    let promotions = [promotion(&pipeline)];
    let model = planner::fold(&pipeline, &seen, now);
    pipeline.status = Some(model.clone());
    for _ in 0..times {
        match function.as_str() {
            "fold" => drop(black_box(planner::fold(&pipeline, &seen, now))),
            "plan" => drop(black_box(planner::plan(
                &pipeline,
                &model,
                &promotions,
                now,
            ))),
            "attempt" => {
                let input = AttemptInput {
                    pipeline: Some(&pipeline),
                    promotions: &promotions,
                    pull_request: ObservedPullRequest::Missing,
                    edited: false,
                };
                drop(black_box(planner::attempt(&promotions[0], &input, now)));
            }
            other => unreachable!("no function {other}"),
        }
    }
}
