//! The behaviour that the trigger operator's own tests require: the starred cases of its
//! specification. Without a path, the test is below:
//!
//! | case | test |
//! | --- | --- |
//! | 1 | `template_namespace_differs` |
//! | 2, 82 | `source_api_version_without_version`, `run_api_version_without_version` |
//! | 3 | `missing_git_repository_comes_before_missing_pipeline` |
//! | 4, 36, 83 | `git_happy_path` |
//! | 5 | `missing_image_policy` |
//! | 6, 47 | `image_happy_path` |
//! | 7 | `missing_pull_request` |
//! | 8, 10 | `pull_request_happy_path` |
//! | 9 | `missing_pipeline` |
//! | 16 | `parameters`: `tektons_own_references_and_other_dollars_are_left_alone` |
//! | 18 | `malformed_params_start_nothing` |
//! | 19, 64, 66 | `expression`: `paths`, `b10_values_that_contain_null_are_fine_and_escapes_are_decoded` |
//! | 21, 22, 56 | `runs_are_named_after_branch_image_or_template` |
//! | 23, 27, 28 | `pull_request_labels_replace_slashes` |
//! | 25, 32 | `defects`: `b8_…`, `b1_two_new_pull_requests_each_get_their_own_run` |
//! | 38, 45 | `lifecycle`: `going_back_to_an_earlier_revision_runs_again`, `nothing_is_written_when_nothing_changed` |
//! | 39–42 | `event`: `every_git_revision_grammar`, `b7_a_short_artifact_path_falls_back_to_the_objects_name` |
//! | 46 | `event`: `git_details_have_the_operators_order_and_escapes` |
//! | 50–53, 57 | `event`: `images_in_both_notations` |
//! | 58, 61 | `without_a_credential_the_run_is_as_the_template_says` |
//! | 59, 62 | `tests/trigger/runs.rs`: `b15_a_managed_credential_changes_the_run` |
//! | 60 | `a_missing_credential_is_a_warning_and_the_run_goes_without` |
//! | 63 | `credentials_change_account_and_append_a_workspace` |
//! | 65, 67–69 | `expression`: `errors_are_clear`; `an_invalid_expression_starts_nothing_until_it_is_corrected` |
//! | 70–74, 77, 78 | `only_relevant_fields_of_a_source_are_compared` |

use super::*;

const NOT_FOUND: &str = "Error/False/Failed ";

#[test]
fn template_namespace_differs() {
    let mut simulation = Simulation::git().at(&format!("main@sha1:{COMMIT}"));
    simulation
        .trigger
        .spec
        .pipeline_run
        .as_mut()
        .unwrap()
        .insert("metadata".into(), json!({ "namespace": "other" }));
    simulation.settle();
    assert_eq!(
        simulation.git_conditions(),
        ["Error/False/Failed spec.pipelineRun.metadata.namespace not supported"]
    );
    assert!(simulation.runs.is_empty());
}

#[test]
fn source_api_version_without_version() {
    for (version, is_valid) in [
        ("source.toolkit.fluxcd.io", false),
        ("a/b/c", false),
        ("source.toolkit.fluxcd.io/v1beta1", true),
    ] {
        let mut simulation = Simulation::git().at("main@sha1:abc123");
        simulation.trigger.spec.source.api_version = Some(version.into());
        simulation.settle();
        let expected =
            "Error/False/Failed could not split the api version of the source as expected";
        assert_eq!(
            simulation.git_conditions().contains(&expected.to_owned()),
            !is_valid,
            "{version}"
        );
        assert_eq!(simulation.runs.len(), usize::from(is_valid), "{version}");
    }
}

#[test]
fn run_api_version_without_version() {
    let mut simulation = Simulation::git().at("main@sha1:abc123");
    simulation
        .trigger
        .spec
        .pipeline_run
        .as_mut()
        .unwrap()
        .insert("apiVersion".into(), json!("tekton.dev"));
    simulation.settle();
    assert_eq!(
        simulation.git_conditions(),
        ["Error/False/Failed could not split the api version of the pipelinerun as expected"]
    );
}

#[test]
fn missing_git_repository_comes_before_missing_pipeline() {
    let mut simulation = Simulation::git();
    simulation.trigger.spec.source.name = "not-existing".into();
    simulation.pipeline = PipelineState::Missing {
        name: "build".into(),
    };
    simulation.settle();
    assert_eq!(
        simulation.git_conditions(),
        [format!(
            "{NOT_FOUND}gitrepositories.source.toolkit.fluxcd.io \"not-existing\" not found"
        )]
    );
    assert_eq!(
        simulation.status().git_repository.unwrap().conditions[0].observed_generation,
        Some(1)
    );
}

#[test]
fn missing_pipeline() {
    let mut simulation = Simulation::git().at("main@sha1:abc123");
    simulation.pipeline = PipelineState::Missing {
        name: "build".into(),
    };
    simulation.settle();
    assert_eq!(
        simulation.git_conditions(),
        [format!(
            "{NOT_FOUND}pipelines.tekton.dev \"build\" not found"
        )]
    );
    simulation.pipeline = PipelineState::Found(DeclaredTypes::new());
    simulation.settle();
    assert_eq!(
        (simulation.runs.len(), simulation.git_conditions()),
        (1, vec!["Unknown/Unknown/Unknown Unknown".into()])
    );
}

#[test]
fn git_happy_path() {
    let mut simulation = Simulation::git().at(&format!("main@sha1:{COMMIT}"));
    simulation.settle();
    assert_eq!(
        simulation.git_conditions(),
        ["Unknown/Unknown/Unknown Unknown"]
    );
    simulation.finish_last("Unknown", "Running");
    simulation.settle();
    simulation.finish_last("True", "Succeeded");
    simulation.settle();
    assert_eq!(
        simulation.git_conditions(),
        [
            "Unknown/Unknown/Unknown Unknown",
            "InProgress/Unknown/InProgress Progressing",
            "Success/True/Succeded Reconciliation is successful."
        ]
    );
    let block = simulation.status().git_repository.unwrap();
    assert!(block.latest_pipeline_run.unwrap().contains("main"));
    assert_eq!(
        block.details.unwrap(),
        format!(r#"{{"branchName":"main","commitId":"{COMMIT}","repositoryName":"shop"}}"#)
    );
    assert_eq!(simulation.runs.len(), 1);
    let run = &simulation.runs[0];
    let owner = &run["metadata"]["ownerReferences"][0];
    assert_eq!(
        (owner["name"].as_str(), owner["controller"].as_bool()),
        (Some("shop"), Some(true))
    );
    assert_eq!(
        run["spec"]["params"],
        json!([{ "name": "commit", "value": COMMIT }])
    );
    let labels = &run["metadata"]["labels"];
    assert_eq!(
        labels["pipeline.jquad.rocks/git.repository.branch.name"],
        "main"
    );
    assert_eq!(
        labels["pipeline.jquad.rocks/git.repository.branch.commit"],
        COMMIT
    );
    assert!(simulation.ready().starts_with("True Succeeded: main-"));
}

fn image() -> Simulation {
    Simulation::new(json!({
        "source": { "kind": "ImagePolicy", "name": "base" },
        "pipelineRun": { "spec": { "pipelineRef": { "resolver": "git" }, "params": [{ "name": "v", "value": "$.imageVersion" }] } }
    }))
}

#[test]
fn missing_image_policy() {
    let mut simulation = image();
    simulation.trigger.spec.source.name = "not-existing".into();
    simulation.settle();
    assert_eq!(
        shown(&simulation.status().image_policy.unwrap().conditions),
        [format!(
            "{NOT_FOUND}imagepolicies.image.toolkit.fluxcd.io \"not-existing\" not found"
        )]
    );
}

#[test]
fn image_happy_path() {
    let mut simulation = image();
    simulation.source = Some(
        json!({ "status": { "latestRef": { "name": "ghcr.io/test/test", "tag": "v0.0.1" } } }),
    );
    simulation.settle();
    for (status, reason) in [("Unknown", "Running"), ("True", "Succeeded")] {
        simulation.finish_last(status, reason);
        simulation.settle();
    }
    let block = simulation.status().image_policy.unwrap();
    assert_eq!(block.conditions.len(), 3);
    assert!(block.latest_pipeline_run.unwrap().contains("test"));
    assert_eq!(simulation.runs[0]["spec"]["params"][0]["value"], "v0.0.1");
    let labels = &simulation.runs[0]["metadata"]["labels"];
    assert_eq!(labels["pipeline.jquad.rocks/ip.image.name"], "test");
    assert_eq!(labels["pipeline.jquad.rocks/ip.image.version"], "v0.0.1");
}

#[test]
fn missing_pull_request() {
    let mut simulation = Simulation::pull_requests();
    simulation.trigger.spec.source.name = "not-existing".into();
    simulation.settle();
    let branches = simulation.status().branches.unwrap().branch;
    assert_eq!(branches.keys().collect::<Vec<_>>(), ["null"]);
    assert_eq!(
        shown(&branches["null"].conditions),
        [format!(
            "{NOT_FOUND}pullrequests.pipeline.jquad.rocks \"not-existing\" not found"
        )]
    );
}

#[test]
fn pull_request_happy_path() {
    let mut simulation = Simulation::pull_requests();
    simulation.source = Some(json!({ "status": { "sourceBranches": { "branches": [
        { "name": "feature-branch-test", "commit": "c1", "details": "{\"id\":1163006807}" }
    ] } } }));
    simulation.settle();
    for (status, reason) in [("Unknown", "Running"), ("True", "Succeeded")] {
        simulation.finish_last(status, reason);
        simulation.settle();
    }
    let branch = simulation.status().branches.unwrap().branch["feature-branch-test"].clone();
    assert_eq!(branch.conditions.len(), 3);
    assert!(
        branch
            .latest_pipeline_run
            .unwrap()
            .contains("feature-branch-test")
    );
    assert_eq!(
        (branch.commit.as_deref(), branch.details),
        (Some("c1"), None)
    );
    assert_eq!(
        simulation.runs[0]["spec"]["params"][0]["value"],
        "1163006807"
    );
    assert_eq!(simulation.runs.len(), 1);
}

#[test]
fn pull_request_labels_replace_slashes() {
    let mut simulation = Simulation::pull_requests();
    simulation.open(&["feature/newlogin@c1"]);
    simulation.settle();
    let labels = &simulation.runs[0]["metadata"]["labels"];
    assert_eq!(
        labels["pipeline.jquad.rocks/pr.branch.name"],
        "feature-newlogin"
    );
    assert_eq!(labels["pipeline.jquad.rocks/pr.branch.commit"], "c1");
}

#[test]
fn malformed_params_start_nothing() {
    let mut simulation = Simulation::git().at("main@sha1:abc123");
    simulation
        .trigger
        .spec
        .pipeline_run
        .as_mut()
        .unwrap()
        .insert("spec".into(), json!({ "params": "invalid-json" }));
    simulation.settle();
    assert_eq!(
        simulation.git_conditions(),
        ["Error/False/Failed params is not a list"]
    );
    assert!(simulation.runs.is_empty());
}

#[test]
fn an_invalid_expression_starts_nothing_until_it_is_corrected() {
    let mut simulation = Simulation::git().at("main@sha1:abc123");
    let spec = |value: &str| json!({ "params": [{ "name": "x", "value": value }] });
    simulation
        .trigger
        .spec
        .pipeline_run
        .as_mut()
        .unwrap()
        .insert("spec".into(), spec("$.nonexistentfield"));
    simulation.settle();
    let message = "parameter x: Expression $.nonexistentfield evaluates to null.";
    assert_eq!(
        simulation.git_conditions(),
        [format!("Error/False/Failed {message}")]
    );
    assert_eq!(
        simulation.ready(),
        format!("False InvalidParameter: {message}")
    );
    assert_eq!(
        simulation.events.len(),
        1,
        "recorded once, not at every reconcile"
    );
    simulation
        .trigger
        .spec
        .pipeline_run
        .as_mut()
        .unwrap()
        .insert("spec".into(), spec("$.commitId"));
    simulation.settle();
    assert_eq!(
        (simulation.runs.len(), simulation.git_conditions().len()),
        (1, 1)
    );
}

#[test]
fn credentials_change_account_and_append_a_workspace() {
    let mut simulation = Simulation::git().at("main@sha1:abc123");
    simulation
        .trigger
        .spec
        .pipeline_run
        .as_mut()
        .unwrap()
        .insert(
            "spec".into(),
            json!({ "serviceAccountName": "old", "workspaces": [{ "name": "w", "emptyDir": {} }] }),
        );
    simulation.credential = CredentialState::Found(RunCredential {
        service_account: Some("robot".into()),
        secret: Some("token".into()),
    });
    simulation.settle();
    let spec = &simulation.runs[0]["spec"];
    assert_eq!(spec["taskRunTemplate"]["serviceAccountName"], "robot");
    assert_eq!(
        spec["workspaces"],
        json!([{ "name": "w", "emptyDir": {} }, { "name": "token", "secret": { "secretName": "token" } }])
    );
}

#[test]
fn a_missing_credential_is_a_warning_and_the_run_goes_without() {
    let mut simulation = Simulation::git().at("main@sha1:abc123");
    simulation.credential = CredentialState::Missing {
        because: "not there".into(),
    };
    simulation.settle();
    assert_eq!(simulation.runs.len(), 1);
    let warning = simulation
        .events
        .iter()
        .find(|events| events.is_warning)
        .unwrap();
    assert_eq!(warning.note, "Failed to get ManagedCredential: not there");
}

#[test]
fn without_a_credential_the_run_is_as_the_template_says() {
    let mut simulation = Simulation::git().at("main@sha1:abc123");
    let spec = json!({ "taskRunTemplate": { "serviceAccountName": "bot" } });
    simulation
        .trigger
        .spec
        .pipeline_run
        .as_mut()
        .unwrap()
        .insert("spec".into(), spec.clone());
    simulation.settle();
    assert_eq!(simulation.runs[0]["spec"], spec);
}

#[test]
fn runs_are_named_after_branch_image_or_template() {
    let mut git = Simulation::git().at("git-details@sha1:abc123");
    let mut image = image();
    image.source = Some(json!({ "status": { "latestImage": "ghcr.io/acme/repo:v1" } }));
    let mut named = Simulation::git().at("main@sha1:abc123");
    let metadata = json!({ "generateName": "my-image:v1.0" });
    named
        .trigger
        .spec
        .pipeline_run
        .as_mut()
        .unwrap()
        .insert("metadata".into(), metadata);
    for (simulation, prefix) in [
        (&mut git, "git-details-"),
        (&mut image, "repo-"),
        (&mut named, "my-image-v1-0-"),
    ] {
        simulation.settle();
        let name = simulation.names().remove(0);
        assert!(name.starts_with(prefix), "{name}");
        let labels = simulation.runs[0]["metadata"]["labels"]
            .as_object()
            .unwrap();
        // Two about the event, and the trigger's name.
        assert_eq!(labels.len(), 3, "{labels:?}");
    }
}

#[test]
fn only_relevant_fields_of_a_source_are_compared() {
    use api::trigger::TriggerSourceKind::{GitRepository, PullRequest};
    let git = |revision: &str, other: &str| {
        relevant_fields(
            GitRepository,
            &json!({ "metadata": { "resourceVersion": other }, "status": {
            "conditions": other, "artifact": { "revision": revision, "lastUpdateTime": other } } }),
        )
    };
    assert_eq!(git("a", "1"), git("a", "2"));
    assert_ne!(git("a", "1"), git("b", "1"));
    let requests = |commit: &str, etag: &str| {
        let branches = json!([{ "name": "fix", "commit": commit }]);
        let status = json!({ "etag": etag, "sourceBranches": { "branches": branches } });
        relevant_fields(PullRequest, &json!({ "status": status }))
    };
    assert_eq!(requests("a", "1"), requests("a", "2"));
    assert_ne!(requests("a", "1"), requests("b", "1"));
    let run = |status: &str, other: &str| {
        ObservedRun::read(&json!({
            "metadata": { "name": "r", "resourceVersion": other, "labels": { "pipeline.jquad.rocks/pipelinetrigger": "shop" } },
            "status": { "conditions": [{ "type": "Succeeded", "status": status }], "childReferences": other }
        }))
    };
    assert_eq!(run("Unknown", "1"), run("Unknown", "2"));
    assert_ne!(run("Unknown", "1"), run("True", "1"));
}
