//! Repetition, history, crashes, suspension and the rest of a trigger's life.

use super::*;

#[test]
fn the_first_notation_becomes_a_run() {
    let mut world = World::early(json!({ "securityContext": { "runAsUser": 1, "fsGroup": 3 } }))
        .at(&format!("main/{COMMIT}"));
    world.settle();
    let run = &world.runs[0];
    assert_eq!(run["apiVersion"], "tekton.dev/v1");
    assert_eq!(
        run["spec"],
        json!({
            "pipelineRef": { "name": "build" },
            "params": [{ "name": "branch-name", "value": "main" }, { "name": "commit-id", "value": COMMIT }],
            "taskRunTemplate": { "serviceAccountName": "bot", "podTemplate": { "securityContext": { "runAsUser": 1, "fsGroup": 3 } } },
            "workspaces": [{ "name": "work", "volumeClaimTemplate": { "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } } }]
        })
    );
    assert!(world.names()[0].starts_with("shop-"));
    world.finish_last("True", "Succeeded");
    world.settle();
    let status = world.status();
    assert_eq!(status.latest_event, Some(format!("main/{COMMIT}")));
    assert_eq!(status.latest_pipeline_run, Some(world.names()[0].clone()));
    assert_eq!(shown(&status.conditions)[0], "Success/True/Succeded ");
    assert_eq!(status.conditions.len(), 2, "that one and Ready");
    assert_eq!(
        world.said[0].note,
        format!("Source shop in namespace ns got new event main/{COMMIT}")
    );
}

#[test]
fn without_a_security_context_no_pod_template() {
    let mut world = World::early(json!({})).at("main@sha1:aa");
    world.tekton = Some(Version::V1Beta1);
    world.settle();
    assert_eq!(world.runs[0]["apiVersion"], "tekton.dev/v1beta1");
    assert_eq!(world.runs[0]["spec"]["serviceAccountName"], "bot");
    assert_eq!(world.runs[0]["spec"].get("podTemplate"), None);
}

#[test]
fn the_third_notation_becomes_a_run() {
    let mut world = World::new(json!({
        "source": { "kind": "GitRepository", "name": "shop" },
        "tektonApiVersion": "tekton.dev/v1beta1",
        "pipelineRunSpec": { "serviceAccountName": "bot", "pipelineRef": { "name": "build" }, "timeout": "1h" }
    }))
    .at("main@sha1:aa");
    world.settle();
    assert_eq!(
        world.runs[0]["spec"],
        json!({ "pipelineRef": { "name": "build" }, "taskRunTemplate": { "serviceAccountName": "bot" }, "timeouts": { "pipeline": "1h" } })
    );
}

#[test]
fn a_crash_after_creation_creates_nothing_twice() {
    let mut world = World::git().at("main@sha1:aa");
    for commit in ["aa", "bb", "aa"] {
        world.push(&format!("main@sha1:{commit}"));
        for _ in 0..3 {
            world.look_and(true);
        }
        world.settle();
    }
    assert_eq!(world.runs.len(), 3);
}

#[test]
fn going_back_to_an_earlier_revision_runs_again() {
    let mut world = World::git();
    for (number, commit) in ["aa", "bb", "aa", "bb", "aa"].into_iter().enumerate() {
        world.push(&format!("main@sha1:{commit}"));
        world.settle();
        assert_eq!(world.runs.len(), number + 1);
    }
}

#[test]
fn a_lost_status_is_found_again_by_the_runs() {
    let mut world = World::git().at("main@sha1:aa");
    world.settle();
    world.trigger.status = None;
    world.settle();
    assert_eq!(world.runs.len(), 1);
    assert_eq!(
        world.status().latest_pipeline_run,
        Some(world.names()[0].clone())
    );
}

#[test]
fn editing_the_spec_and_deleting_a_run_start_nothing() {
    let mut world = World::git().at("main@sha1:aa");
    world.settle();
    world.trigger.metadata.generation = Some(2);
    world.settle();
    assert_eq!(world.runs.len(), 1);
    world.runs.clear();
    world.settle();
    assert!(world.runs.is_empty());
}

#[test]
fn what_the_operator_recorded_counts_as_handled() {
    for status in [
        json!({ "gitRepository": { "branchName": "main", "commitId": "aa", "repositoryName": "shop", "latestPipelineRun": "main-x",
            "conditions": [{ "type": "Success", "status": "True", "reason": "Succeded", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z" }] } }),
        json!({ "gitRepository": { "branchName": "main", "commitId": "aa", "repositoryName": "shop",
            "conditions": [{ "type": "Unknown", "status": "Unknown", "reason": "Unknown", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z" }] } }),
        json!({ "latestEvent": "main@sha1:aa", "latestPipelineRun": "shop-mkfx" }),
    ] {
        let mut world = World::git().at("main@sha1:aa");
        world.trigger.status = Some(serde_json::from_value(status.clone()).unwrap());
        world.settle();
        assert!(world.runs.is_empty(), "{status}");
        world.push("main@sha1:bb");
        world.settle();
        assert_eq!(world.runs.len(), 1);
    }
    let mut between = World::early(json!({})).at("main@sha1:aa");
    between.trigger.status = Some(
        serde_json::from_value(
            json!({ "latestEvent": "main@sha1:aa", "latestPipelineRun": "Unknown" }),
        )
        .unwrap(),
    );
    between.settle();
    assert_eq!(between.runs.len(), 1, "recorded but not started");
}

#[test]
fn a_new_notation_of_the_same_commit_runs_nothing() {
    let mut world = World::early(json!({})).at(&format!("main/{COMMIT}"));
    world.settle();
    world.push(&format!("main@sha1:{COMMIT}"));
    world.settle();
    assert_eq!(world.runs.len(), 1);
}

#[test]
fn a_hold_or_an_error_does_not_forget_what_the_first_releases_wrote() {
    let mut world = World::early(json!({})).at("main@sha1:aa");
    world.trigger.status = Some(
        serde_json::from_value(
            json!({ "latestEvent": "main@sha1:aa", "latestPipelineRun": "shop-mkfx" }),
        )
        .unwrap(),
    );
    world.pipeline = PipelineState::Missing {
        name: "build".into(),
    };
    world.settle();
    world.pipeline = PipelineState::Found(DeclaredTypes::new());
    world.trigger.spec.suspend = true;
    world.settle();
    world.trigger.spec.suspend = false;
    world.settle();
    assert!(world.runs.is_empty());
}

/// How many runs there are in the end when all fail.
fn runs_when_all_fail(pipeline: Value) -> usize {
    let mut world = World::early(pipeline).at("main@sha1:aa");
    for _ in 0..20 {
        world.settle();
        world.finish_last("False", "Failed");
        world.now += SignedDuration::from_secs(600);
    }
    world.settle();
    assert_eq!(
        shown(&world.status().conditions)[0].split(' ').next(),
        Some("Error/False/Failed")
    );
    world.runs.len()
}

#[test]
fn retries_are_extra_and_max_failed_retries_are_all() {
    assert_eq!(runs_when_all_fail(json!({})), 1);
    assert_eq!(runs_when_all_fail(json!({ "retries": 3 })), 4);
    assert_eq!(runs_when_all_fail(json!({ "maxFailedRetries": 3 })), 3);
    assert_eq!(runs_when_all_fail(json!({ "maxFailedRetries": 0 })), 1);
}

#[test]
fn retries_back_off() {
    let mut world = World::early(json!({ "retries": 10 })).at("main@sha1:aa");
    let mut waits = Vec::new();
    for _ in 0..7 {
        world.settle();
        world.finish_last("False", "Failed");
        let wait = world.plan().look_again.unwrap();
        waits.push(wait.as_secs());
        world.now += SignedDuration::try_from(wait).unwrap();
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
}

#[test]
fn a_success_ends_the_retries() {
    let mut world = World::early(json!({ "retries": 3 })).at("main@sha1:aa");
    world.settle();
    world.finish_last("False", "Failed");
    world.now += SignedDuration::from_secs(600);
    world.settle();
    world.finish_last("True", "Completed");
    world.now += SignedDuration::from_secs(600);
    world.settle();
    assert_eq!(world.runs.len(), 2);
    assert_eq!(world.status().current_pipeline_retry, Some(1));
}

#[test]
fn a_suspended_trigger_starts_nothing_and_catches_up_with_the_latest() {
    let mut world = World::git().at("main@sha1:aa");
    world.trigger.spec.suspend = true;
    world.settle();
    assert_eq!(world.ready(), "True Suspended: the trigger is suspended");
    world.push("main@sha1:bb");
    world.settle();
    world.trigger.spec.suspend = false;
    world.settle();
    assert_eq!(world.runs.len(), 1);
    assert_eq!(world.status().latest_event.as_deref(), Some("main@sha1:bb"));
}

#[test]
fn filters_let_branches_and_tags_through() {
    let mut world = World::git();
    world.trigger.spec.filters = Some(
        serde_json::from_value(json!({ "branches": ["main", "release/*"], "tags": ["v*"] }))
            .unwrap(),
    );
    for (revision, runs) in [
        ("feature/x@sha1:a1", 0),
        ("main@sha1:a2", 1),
        ("release/1@sha1:a3", 2),
        ("refs/tags/v1@sha1:a4", 3),
        ("refs/tags/main@sha1:a5", 3),
        ("refs/heads/main@sha1:a6", 4),
        ("sha1:a7", 4),
    ] {
        world.push(revision);
        world.settle();
        assert_eq!(world.runs.len(), runs, "{revision}");
    }
    assert_eq!(
        world.ready(),
        "True Filtered: sha1:a7 does not pass the filters"
    );
}

#[test]
fn forbid_waits_and_replace_cancels() {
    let mut world = World::git().at("main@sha1:aa");
    world.trigger.spec.concurrency = Some(api::trigger::Concurrency::Forbid);
    world.settle();
    world.push("main@sha1:bb");
    world.settle();
    let first = world.names()[0].clone();
    assert_eq!(
        (world.runs.len(), world.ready()),
        (
            1,
            format!("Unknown WaitingForRun: waiting for {first} to finish")
        )
    );
    world.push("main@sha1:cc");
    world.finish(&first, "True", "Succeeded");
    world.settle();
    assert_eq!(world.runs.len(), 2);
    assert_eq!(world.status().latest_event.as_deref(), Some("main@sha1:cc"));

    world.trigger.spec.concurrency = Some(api::trigger::Concurrency::Replace);
    let second = world.names()[1].clone();
    world.push("main@sha1:dd");
    let plan = world.look();
    assert_eq!(plan.steps[0], Step::Cancel { run: second });
    assert!(matches!(plan.steps[1], Step::Start { .. }));
    assert_eq!(world.runs.len(), 3);
}

#[test]
fn a_request_runs_again_once() {
    let mut world = World::git().at("main@sha1:aa");
    world.settle();
    for (value, runs) in [("1", 2), ("1", 2), ("2", 3)] {
        let annotations = [(
            "pipeline.jquad.rocks/requestedAt".to_owned(),
            value.to_owned(),
        )];
        world.trigger.metadata.annotations = Some(annotations.into());
        world.look_and(true);
        world.settle();
        assert_eq!(world.runs.len(), runs, "request {value}");
    }
    assert_eq!(
        world.status().last_handled_reconcile_at.as_deref(),
        Some("2")
    );
}

#[test]
fn sources_without_a_block_use_the_top() {
    for kind in ["OCIRepository", "Bucket", "HelmChart"] {
        let mut world = World::new(json!({
            "source": { "kind": kind, "name": "shop" }, "pipelineRun": { "spec": { "params": [{ "name": "v", "value": "$(revision)" }] } }
        }));
        for revision in ["6.5.0@sha256:aa", "6.6.0@sha256:bb"] {
            world.push(revision);
            world.settle();
            world.finish_last("True", "Succeeded");
            world.settle();
            assert_eq!(world.status().latest_event.as_deref(), Some(revision));
            let types: Vec<_> = world
                .status()
                .conditions
                .iter()
                .map(|c| c.type_.clone())
                .collect();
            assert_eq!(types, ["Unknown", "Ready", "Success"], "{kind}");
        }
        assert_eq!(world.runs.len(), 2);
    }
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let mut world = World::git().at("main@sha1:aa");
    world.settle();
    world.finish_last("True", "Succeeded");
    world.settle();
    let before = world.status();
    world.now += SignedDuration::from_secs(3600);
    world.settle();
    assert_eq!(world.status(), before);
}

#[test]
fn without_tekton_a_sentence() {
    let mut world = World::git().at("main@sha1:aa");
    world.tekton = None;
    world.settle();
    assert!(
        world
            .ready()
            .starts_with("False TektonNotInstalled: Tekton is not installed")
    );
    world.tekton = Some(Version::V1);
    world.settle();
    assert_eq!(world.runs.len(), 1);
}

#[test]
fn the_gauge_shows_the_last_condition_of_each_block() {
    let mut world = World::git().at("main@sha1:aa");
    world.settle();
    let shown = |world: &World| {
        let signals = signals(&world.status(), "shop");
        signals
            .iter()
            .map(|s| format!("{} {} {}", s.repository, s.type_, s.status))
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(&world), ["main Unknown Unknown"]);
    world.finish_last("False", "Failed");
    world.settle();
    assert_eq!(shown(&world), ["main Success False"]);
    world.source = None;
    world.settle();
    assert_eq!(shown(&world), ["main Error False"]);
}
