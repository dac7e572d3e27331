//! Defects of the trigger operator that users would meet, by the number in its specification, which
//! the names of tests begin with. In other files:
//!
//! | defect | test |
//! | --- | --- |
//! | B2 on the API, B9 on the API, B15 | `tests/trigger/runs.rs` |
//! | B7 of sources | `event` |
//! | B10 | `expression`, `parameters` |
//! | B14 | `tests/trigger/metrics.rs` |
//! | B16 | cli, `a_second_cluster_is_refused_with_the_way_out_and_without_the_token` |
//! | B17 | `tests/trigger/installation.rs` |
//! | B18, B21, R6 | `tests/trigger/leading.rs` |
//! | B19 | `lifecycle`: retries, suspension, filters, concurrency, requests |
//! | R7 | `tests/cross_dc` |

use super::*;

#[test]
fn b1_two_new_pull_requests_each_get_their_own_run() {
    let mut simulation = Simulation::pull_requests();
    simulation.open(&["feature/a@c1", "b@c2", "c@c3"]);
    simulation.settle();
    let runs: Vec<_> = simulation
        .runs
        .iter()
        .map(|run| {
            format!(
                "{} {}",
                run["metadata"]["labels"]["pipeline.jquad.rocks/pr.branch.name"],
                run["spec"]["params"][0]["value"]
            )
        })
        .collect();
    assert_eq!(
        runs,
        [r#""feature-a" "feature/a""#, r#""b" "b""#, r#""c" "c""#]
    );
    let branches = simulation.status().branches.unwrap().branch;
    assert!(
        branches
            .values()
            .all(|branch| branch.latest_pipeline_run.is_some())
    );
}

#[test]
fn b2_a_failed_create_is_retried() {
    let mut simulation = Simulation::git().at("main@sha1:abc123");
    simulation.refuses_creation = true;
    simulation.settle();
    assert_eq!(
        simulation.git_conditions(),
        ["Error/False/Failed quota exceeded"]
    );
    assert_eq!(simulation.ready(), "False CreateFailed: quota exceeded");
    assert!(
        simulation.events.iter().all(|events| events.is_warning),
        "{:?}",
        simulation.events
    );
    let attempt = |plan: &TriggerPlan| plan.actions.clone();
    let first = attempt(&simulation.plan());
    simulation.reconcile();
    assert_eq!(attempt(&simulation.plan()), first, "under the same name");
    simulation.refuses_creation = false;
    simulation.settle();
    assert_eq!(
        (simulation.runs.len(), simulation.git_conditions()),
        (1, vec!["Unknown/Unknown/Unknown Unknown".into()])
    );
}

#[test]
fn b3_b4_names_and_labels_are_valid_whatever_the_branch() {
    let long = "x".repeat(300);
    for branch in [
        "feature/x",
        "Feature_#1",
        "ends-",
        "ümläut",
        "a@b",
        "🚀",
        &long,
        "refs/pull/1/head",
    ] {
        let mut simulation = Simulation::git().at(&format!("{branch}@sha256:{}", "a".repeat(64)));
        simulation.settle();
        let metadata = &simulation.runs[0]["metadata"];
        let name = metadata["name"].as_str().unwrap();
        assert!(name.len() <= 63 && !name.starts_with('-'), "{name}");
        assert!(
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
            "{name}"
        );
        for (label, value) in metadata["labels"].as_object().unwrap() {
            let value = value.as_str().unwrap();
            let ends = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
            assert!(
                value.len() <= 63 && ends(value.chars().next()) && ends(value.chars().last()),
                "{label}={value}"
            );
            assert!(
                value
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)),
                "{label}={value}"
            );
        }
    }
}

#[test]
fn b4_a_fixed_name_is_a_prefix() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    simulation
        .trigger
        .spec
        .pipeline_run
        .as_mut()
        .unwrap()
        .insert(
            "metadata".into(),
            json!({ "name": "nightly", "labels": { "team": "shop" }, "annotations": { "a": "b" } }),
        );
    simulation.settle();
    simulation.push("main@sha1:bb");
    simulation.settle();
    let names = simulation.names();
    assert!(
        names.len() == 2 && names.iter().all(|name| name.starts_with("nightly-")),
        "{names:?}"
    );
    assert_eq!(simulation.runs[0]["metadata"]["labels"]["team"], "shop");
    assert_eq!(simulation.runs[0]["metadata"]["annotations"]["a"], "b");
}

#[test]
fn b5_a_missing_namespace_is_the_triggers_own() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    simulation.settle();
    assert_eq!(simulation.runs[0]["metadata"]["namespace"], "ns");
}

#[test]
fn b6_resolver_and_embedded_pipelines_need_no_pipeline_object() {
    for spec in [
        json!({ "pipelineRef": { "resolver": "git", "params": [] } }),
        json!({ "pipelineSpec": { "tasks": [] } }),
        json!({}),
    ] {
        for kind in ["GitRepository", "ImagePolicy", "PullRequest"] {
            let simulation = Simulation::new(
                json!({ "source": { "kind": kind, "name": "x" }, "pipelineRun": { "spec": spec } }),
            );
            assert_eq!(pipeline_needed(&simulation.trigger), None);
        }
    }
    assert_eq!(
        pipeline_needed(&Simulation::git().trigger),
        Some("build".into())
    );
}

#[test]
fn b7_an_empty_or_invalid_spec_gives_a_message() {
    for (spec, message) in [
        (json!({}), "spec.source.name is empty"),
        (
            json!({ "source": { "kind": "GitRepository", "name": "x" } }),
            "exactly one of pipeline, pipelineRunSpec and pipelineRun must be given",
        ),
        (
            json!({ "source": { "kind": "GitRepository", "name": "x" }, "pipelineRun": {} }),
            "spec.pipelineRun has no spec",
        ),
        (
            json!({ "source": { "kind": "GitRepository", "name": "x", "apiVersion": "foo/v1" }, "pipelineRun": {} }),
            "spec.source.apiVersion is foo/v1, but a GitRepository is in the API group source.toolkit.fluxcd.io",
        ),
        (
            json!({ "source": { "kind": "GitRepository", "name": "x" }, "pipelineRun": { "apiVersion": "v/1", "spec": {} } }),
            "spec.pipelineRun.apiVersion is v/1, but a PipelineRun is in the API group tekton.dev",
        ),
    ] {
        let mut simulation = Simulation::new(spec).at("main@sha1:aa");
        simulation.settle();
        assert_eq!(simulation.ready(), format!("False InvalidSpec: {message}"));
    }
}

#[test]
fn b7_a_run_without_reason_or_message_is_read() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    simulation.settle();
    simulation.runs[0]["status"] =
        json!({ "conditions": [{ "type": "Succeeded", "status": "False" }] });
    simulation.settle();
    assert_eq!(simulation.git_conditions()[1], "Success/False/Failed ");
}

#[test]
fn b8_an_oscillating_pull_request_status_runs_each_commit_once() {
    let mut simulation = Simulation::pull_requests();
    for _ in 0..5 {
        for open in [&["a@1", "b@1"][..], &["c@1"], &[], &["b@1", "a@1"]] {
            simulation.open(open);
            simulation.settle();
        }
    }
    assert_eq!(simulation.runs.len(), 3);
    simulation.open(&["a@2"]);
    simulation.settle();
    assert_eq!(simulation.runs.len(), 4);
}

#[test]
fn b8_two_forks_with_the_same_branch_name_are_told_apart() {
    let mut simulation = Simulation::pull_requests();
    for open in [
        &["patch-1@aaa", "patch-1@bbb"][..],
        &["patch-1@bbb", "patch-1@aaa"],
        &["patch-1@bbb"],
    ] {
        simulation.open(open);
        simulation.settle();
        assert_eq!(simulation.runs.len(), 2, "{open:?}");
    }
}

#[test]
fn b8_closed_branches_stay_recorded_up_to_a_limit() {
    let mut simulation = Simulation::pull_requests();
    for number in 0..150 {
        simulation.open(&[&format!("branch-{number}@c")]);
        simulation.reconcile();
        simulation.runs.clear();
    }
    let branches = simulation.status().branches.unwrap().branch;
    assert_eq!(branches.len(), 101);
    assert!(branches.contains_key("branch-149") && !branches.contains_key("branch-0"));
}

#[test]
fn b9_two_triggers_on_one_revision_both_run() {
    let mut first = Simulation::git().at("main@sha1:aa");
    first.settle();
    let mut second = Simulation::git().at("main@sha1:aa");
    second.trigger.metadata.name = Some("other".into());
    second.trigger.metadata.uid = Some("u2".into());
    second.settle();
    assert_ne!(first.names(), second.names());
    assert_eq!(
        second.runs[0]["metadata"]["labels"]["pipeline.jquad.rocks/pipelinetrigger"],
        "other"
    );
}

#[test]
fn b11_errors_are_removed_when_they_are_over() {
    let mut simulation = Simulation::pull_requests();
    simulation.settle();
    assert!(
        simulation
            .status()
            .branches
            .unwrap()
            .branch
            .contains_key("null")
    );
    simulation.open(&["a@1"]);
    simulation.settle();
    let branches = simulation.status().branches.unwrap().branch;
    assert_eq!(branches.keys().collect::<Vec<_>>(), ["a"]);
    let mut simulation = Simulation::git();
    simulation.settle();
    simulation.push("main@sha1:aa");
    simulation.settle();
    assert_eq!(
        simulation.git_conditions(),
        ["Unknown/Unknown/Unknown Unknown"]
    );
}

#[test]
fn b12_the_failure_message_is_shown() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    simulation.settle();
    simulation.finish_last("False", "PipelineRunTimeout");
    simulation.settle();
    assert_eq!(
        simulation.git_conditions()[1],
        "Success/False/PipelineRunTimeout so it goes"
    );
}

#[test]
fn b13_a_run_without_status_yet_is_no_error() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    simulation.settle();
    assert_eq!(
        simulation.git_conditions(),
        ["Unknown/Unknown/Unknown Unknown"]
    );
}

#[test]
fn b20_a_repushed_tag_runs_when_its_digest_is_known() {
    let mut simulation = Simulation::new(json!({
        "source": { "kind": "ImagePolicy", "name": "base" }, "pipelineRun": { "spec": {} }
    }));
    let mut count = |digest: Value| {
        simulation.source = Some(
            json!({ "status": { "latestRef": { "name": "r/i", "tag": "v1", "digest": digest } } }),
        );
        simulation.settle();
        simulation.runs.len()
    };
    assert_eq!(count(Value::Null), 1);
    assert_eq!(
        count(json!("sha256:aa")),
        1,
        "learning a digest is not news"
    );
    assert_eq!(count(json!("sha256:bb")), 2);
    assert_eq!(count(json!("sha256:bb")), 2);
}

#[test]
fn b22_changing_the_source_kind_leaves_no_old_block() {
    let mut simulation = Simulation::git().at("main@sha1:aa");
    simulation.settle();
    simulation.trigger.spec.source.kind = api::trigger::TriggerSourceKind::ImagePolicy;
    simulation.trigger.spec.source.api_version = None;
    simulation.source = None;
    simulation.settle();
    assert_eq!(simulation.status().git_repository, None);
}

#[test]
fn r1_the_retry_count_restarts_with_a_new_event() {
    let mut simulation = Simulation::early(json!({ "retries": 1 })).at("main@sha1:aa");
    for commit in ["aa", "bb"] {
        simulation.push(&format!("main@sha1:{commit}"));
        simulation.settle();
        assert_eq!(simulation.status().current_pipeline_retry, Some(0));
        for _ in 0..3 {
            simulation.finish_last("False", "Failed");
            simulation.now += SignedDuration::from_secs(60);
            simulation.settle();
        }
        assert_eq!(simulation.status().current_pipeline_retry, Some(1));
    }
    assert_eq!(simulation.runs.len(), 4);
}

#[test]
fn r2_the_oldest_finished_runs_are_removed_and_never_a_running_one() {
    let mut simulation = Simulation::early(json!({ "maxHistory": 2 }));
    simulation.push("main@sha1:c0");
    simulation.settle();
    let running = simulation.names()[0].clone();
    for number in 1..6 {
        simulation.push(&format!("main@sha1:c{number}"));
        simulation.settle();
        simulation.finish_last("True", "Succeeded");
        simulation.settle();
    }
    assert_eq!(simulation.runs.len(), 2);
    assert!(simulation.names().contains(&running));
    simulation.finish(&running, "True", "Succeeded");
    simulation.push("main@sha1:ff");
    simulation.settle();
    assert!(simulation.runs.len() == 2 && !simulation.names().contains(&running));
}

#[test]
fn r3_cancelled_and_timed_out_runs_are_final() {
    for (reason, runs) in [("Cancelled", 1), ("PipelineRunTimeout", 2)] {
        let mut simulation = Simulation::early(json!({ "retries": 1 })).at("main@sha1:aa");
        simulation.settle();
        simulation.finish_last("False", reason);
        simulation.settle();
        simulation.now += SignedDuration::from_secs(600);
        simulation.settle();
        assert_eq!(simulation.runs.len(), runs, "{reason}");
    }
}

#[test]
fn r4_early_runs_have_owners_too() {
    let mut simulation = Simulation::early(json!({})).at("main@sha1:aa");
    simulation.settle();
    assert_eq!(
        simulation.runs[0]["metadata"]["ownerReferences"][0]["uid"],
        "u1"
    );
}

#[test]
fn r5_branches_with_slashes() {
    for revision in [
        format!("feature/x/{COMMIT}"),
        format!("feature/x@sha1:{COMMIT}"),
    ] {
        let mut simulation = Simulation::early(json!({})).at(&revision);
        simulation.settle();
        assert_eq!(
            simulation.runs[0]["spec"]["params"],
            json!([{ "name": "branch-name", "value": "feature/x" }, { "name": "commit-id", "value": COMMIT }])
        );
    }
}
