//! Retries, history, crashes, suspension and the rest of the lifecycle of a trigger.

use super::*;

#[test]
fn the_first_notation_becomes_a_run() {
    let mut simulation =
        Simulation::early(json!({ "securityContext": { "runAsUser": 1, "fsGroup": 3 } }))
            .at(&format!("main/{COMMIT}"));
    simulation.settle();
    let run = &simulation.runs[0];
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
    assert!(simulation.names()[0].starts_with("shop-"));
    simulation.finish_last("True", "Succeeded");
    simulation.settle();
    let status = simulation.status();
    assert_eq!(status.latest_event, Some(format!("main/{COMMIT}")));
    assert_eq!(
        status.latest_pipeline_run,
        Some(simulation.names()[0].clone())
    );
    assert_eq!(shown(&status.conditions)[0], "Success/True/Succeded ");
    assert_eq!(status.conditions.len(), 2, "that one and Ready");
    assert_eq!(
        simulation.events[0].note,
        format!("Source shop in namespace ns got new event main/{COMMIT}")
    );
}

#[test]
fn without_a_security_context_no_pod_template() {
    let mut simulation = Simulation::early(json!({})).at("main@sha1:aa");
    simulation.tekton = Some(TektonVersion::V1Beta1);
    simulation.settle();
    assert_eq!(simulation.runs[0]["apiVersion"], "tekton.dev/v1beta1");
    assert_eq!(simulation.runs[0]["spec"]["serviceAccountName"], "bot");
    assert_eq!(simulation.runs[0]["spec"].get("podTemplate"), None);
}

#[test]
fn the_third_notation_becomes_a_run() {
    let mut simulation = Simulation::new(json!({
        "source": { "kind": "GitRepository", "name": "shop" },
        "tektonApiVersion": "tekton.dev/v1beta1",
        "pipelineRunSpec": { "serviceAccountName": "bot", "pipelineRef": { "name": "build" }, "timeout": "1h" }
    }))
    .at("main@sha1:aa");
    simulation.settle();
    assert_eq!(
        simulation.runs[0]["spec"],
        json!({ "pipelineRef": { "name": "build" }, "taskRunTemplate": { "serviceAccountName": "bot" }, "timeouts": { "pipeline": "1h" } })
    );
}

#[test]
fn a_crash_after_creation_creates_nothing_twice() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    for commit in ["aa", "bb", "aa"] {
        simulation.push(&format!("main@sha1:{commit}"));
        for _ in 0..3 {
            simulation.reconcile_and_crash();
        }
        simulation.settle();
    }
    assert_eq!(simulation.runs.len(), 3);
}

#[test]
fn going_back_to_an_earlier_revision_runs_again() {
    let mut simulation = Simulation::git();
    for (number, commit) in ["aa", "bb", "aa", "bb", "aa"].into_iter().enumerate() {
        simulation.push(&format!("main@sha1:{commit}"));
        simulation.settle();
        assert_eq!(simulation.runs.len(), number + 1);
    }
}

#[test]
fn a_lost_status_is_found_again_by_the_runs() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    simulation.settle();
    simulation.trigger.status = None;
    simulation.settle();
    assert_eq!(simulation.runs.len(), 1);
    assert_eq!(
        simulation.status().latest_pipeline_run,
        Some(simulation.names()[0].clone())
    );
}

#[test]
fn editing_the_spec_and_deleting_a_run_start_nothing() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    simulation.settle();
    simulation.trigger.metadata.generation = Some(2);
    simulation.settle();
    assert_eq!(simulation.runs.len(), 1);
    simulation.runs.clear();
    simulation.settle();
    assert!(simulation.runs.is_empty());
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
        let mut simulation = Simulation::git().at("main@sha1:aa");
        simulation.trigger.status = Some(serde_json::from_value(status.clone()).unwrap());
        simulation.settle();
        assert!(simulation.runs.is_empty(), "{status}");
        simulation.push("main@sha1:bb");
        simulation.settle();
        assert_eq!(simulation.runs.len(), 1);
    }
    let mut between = Simulation::early(json!({})).at("main@sha1:aa");
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
    let mut simulation = Simulation::early(json!({})).at(&format!("main/{COMMIT}"));
    simulation.settle();
    simulation.push(&format!("main@sha1:{COMMIT}"));
    simulation.settle();
    assert_eq!(simulation.runs.len(), 1);
}

#[test]
fn a_hold_or_an_error_does_not_forget_what_the_first_releases_wrote() {
    let mut simulation = Simulation::early(json!({})).at("main@sha1:aa");
    simulation.trigger.status = Some(
        serde_json::from_value(
            json!({ "latestEvent": "main@sha1:aa", "latestPipelineRun": "shop-mkfx" }),
        )
        .unwrap(),
    );
    simulation.pipeline = PipelineState::Missing {
        name: "build".into(),
    };
    simulation.settle();
    simulation.pipeline = PipelineState::Found(DeclaredTypes::new());
    simulation.trigger.spec.suspend = true;
    simulation.settle();
    simulation.trigger.spec.suspend = false;
    simulation.settle();
    assert!(simulation.runs.is_empty());
}

/// How many runs there are in the end when all fail.
fn runs_when_all_fail(pipeline: Value) -> usize {
    let mut simulation = Simulation::early(pipeline).at("main@sha1:aa");
    for _ in 0..20 {
        simulation.settle();
        simulation.finish_last("False", "Failed");
        simulation.now += SignedDuration::from_secs(600);
    }
    simulation.settle();
    assert_eq!(
        shown(&simulation.status().conditions)[0].split(' ').next(),
        Some("Error/False/Failed")
    );
    simulation.runs.len()
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
    let mut simulation = Simulation::early(json!({ "retries": 10 })).at("main@sha1:aa");
    let mut waits = Vec::new();
    for _ in 0..7 {
        simulation.settle();
        simulation.finish_last("False", "Failed");
        let wait = simulation.plan().requeue_after.unwrap();
        waits.push(wait.as_secs());
        simulation.now += SignedDuration::try_from(wait).unwrap();
    }
    assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
}

#[test]
fn a_success_ends_the_retries() {
    let mut simulation = Simulation::early(json!({ "retries": 3 })).at("main@sha1:aa");
    simulation.settle();
    simulation.finish_last("False", "Failed");
    simulation.now += SignedDuration::from_secs(600);
    simulation.settle();
    simulation.finish_last("True", "Completed");
    simulation.now += SignedDuration::from_secs(600);
    simulation.settle();
    assert_eq!(simulation.runs.len(), 2);
    assert_eq!(simulation.status().current_pipeline_retry, Some(1));
}

#[test]
fn a_suspended_trigger_starts_nothing_and_catches_up_with_the_latest() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    simulation.trigger.spec.suspend = true;
    simulation.settle();
    assert_eq!(
        simulation.ready(),
        "True Suspended: the trigger is suspended"
    );
    simulation.push("main@sha1:bb");
    simulation.settle();
    simulation.trigger.spec.suspend = false;
    simulation.settle();
    assert_eq!(simulation.runs.len(), 1);
    assert_eq!(
        simulation.status().latest_event.as_deref(),
        Some("main@sha1:bb")
    );
}

#[test]
fn filters_let_branches_and_tags_through() {
    let mut simulation = Simulation::git();
    simulation.trigger.spec.filters = Some(
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
        simulation.push(revision);
        simulation.settle();
        assert_eq!(simulation.runs.len(), runs, "{revision}");
    }
    assert_eq!(
        simulation.ready(),
        "True Filtered: sha1:a7 does not pass the filters"
    );
}

#[test]
fn forbid_waits_and_replace_cancels() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    simulation.trigger.spec.concurrency = Some(api::trigger::Concurrency::Forbid);
    simulation.settle();
    simulation.push("main@sha1:bb");
    simulation.settle();
    let first = simulation.names()[0].clone();
    assert_eq!(
        (simulation.runs.len(), simulation.ready()),
        (
            1,
            format!("Unknown WaitingForRun: waiting for {first} to finish")
        )
    );
    simulation.push("main@sha1:cc");
    simulation.finish(&first, "True", "Succeeded");
    simulation.settle();
    assert_eq!(simulation.runs.len(), 2);
    assert_eq!(
        simulation.status().latest_event.as_deref(),
        Some("main@sha1:cc")
    );

    simulation.trigger.spec.concurrency = Some(api::trigger::Concurrency::Replace);
    let second = simulation.names()[1].clone();
    simulation.push("main@sha1:dd");
    let plan = simulation.reconcile();
    assert_eq!(plan.actions[0], RunAction::Cancel { run: second });
    assert!(matches!(plan.actions[1], RunAction::Create { .. }));
    assert_eq!(simulation.runs.len(), 3);
}

#[test]
fn a_request_runs_again_once() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    simulation.settle();
    for (value, runs) in [("1", 2), ("1", 2), ("2", 3)] {
        let annotations = [(
            "pipeline.jquad.rocks/requestedAt".to_owned(),
            value.to_owned(),
        )];
        simulation.trigger.metadata.annotations = Some(annotations.into());
        simulation.reconcile_and_crash();
        simulation.settle();
        assert_eq!(simulation.runs.len(), runs, "request {value}");
    }
    assert_eq!(
        simulation.status().last_handled_reconcile_at.as_deref(),
        Some("2")
    );
}

#[test]
fn sources_without_a_block_use_top_level_conditions() {
    for kind in ["OCIRepository", "Bucket", "HelmChart"] {
        let mut simulation = Simulation::new(json!({
            "source": { "kind": kind, "name": "shop" }, "pipelineRun": { "spec": { "params": [{ "name": "v", "value": "$(revision)" }] } }
        }));
        for revision in ["6.5.0@sha256:aa", "6.6.0@sha256:bb"] {
            simulation.push(revision);
            simulation.settle();
            simulation.finish_last("True", "Succeeded");
            simulation.settle();
            assert_eq!(simulation.status().latest_event.as_deref(), Some(revision));
            let types: Vec<_> = simulation
                .status()
                .conditions
                .iter()
                .map(|c| c.type_.clone())
                .collect();
            assert_eq!(types, ["Unknown", "Ready", "Success"], "{kind}");
        }
        assert_eq!(simulation.runs.len(), 2);
    }
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    simulation.settle();
    simulation.finish_last("True", "Succeeded");
    simulation.settle();
    let before = simulation.status();
    simulation.now += SignedDuration::from_secs(3600);
    simulation.settle();
    assert_eq!(simulation.status(), before);
}

#[test]
fn without_tekton_the_status_says_so() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    simulation.tekton = None;
    simulation.settle();
    assert!(
        simulation
            .ready()
            .starts_with("False TektonNotInstalled: Tekton is not installed")
    );
    simulation.tekton = Some(TektonVersion::V1);
    simulation.settle();
    assert_eq!(simulation.runs.len(), 1);
}

#[test]
fn the_gauge_shows_the_newest_condition_of_each_block() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    simulation.settle();
    let shown = |simulation: &Simulation| {
        let condition_samples = condition_samples(&simulation.status(), "shop");
        condition_samples
            .iter()
            .map(|s| format!("{} {} {}", s.repository, s.type_, s.status))
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(&simulation), ["main Unknown Unknown"]);
    simulation.finish_last("False", "Failed");
    simulation.settle();
    assert_eq!(shown(&simulation), ["main Success False"]);
    simulation.source = None;
    simulation.settle();
    assert_eq!(shown(&simulation), ["main Error False"]);
}
