//! The defects of the Weave pipeline-controller, and the test that fails if one came back. Tests that
//! need hub, forge and leaf clusters are here.
//!
//! | defect | test |
//! | --- | --- |
//! | 1: the pipeline's settings instead of the environment's; a panic where only the latter are | planner `weave_defects::settings_of_the_environment_alone_are_enough`; `promote` `pull_request_settings::an_environments_own_settings_and_secret_count` |
//! | 2: a panic without environments | planner `weave_defects::a_pipeline_without_environments_is_no_panic`; [`a_pipeline_without_environments_stops_nothing`] |
//! | 3: `manual` ignored, `waitingApproval` erased | planner `weave_defects::manual_is_honoured_and_waiting_approval_survives`; `promote` `people::an_approval_counts_for_its_revision_only` |
//! | 4: promoted anew at every look | planner `weave_defects::what_was_promoted_is_not_promoted_again_until_it_shows`; [`nothing_is_pushed_or_changed_again_at_every_look`] |
//! | 5: promotes into what cannot be read | planner `weave_defects::nothing_is_promoted_into_targets_that_cannot_be_read` |
//! | 6: one bad target stops everything | planner `weave_defects::one_unreachable_target_stops_nothing_elsewhere`; `observe` `failing_clusters::thirty_bad_clusters_do_not_disturb_twenty_good_ones` |
//! | 7: an error while setting up is swallowed | [`a_loop_that_cannot_be_set_up_ends_the_process`]; controller `run::tests::a_loop_that_fails_or_panics_ends_the_process_and_is_named` |
//! | 8: one key for kubeconfigs only, no rights for apps | `observe` `rights::kubeconfigs_where_others_put_them`; [`the_rights_of_the_installation_are_enough`] |
//! | 9: what failed once is forgotten | `observe` `failing_clusters::a_hub_full_of_conflicts_and_errors`, `changes::clusters_are_let_go_when_nobody_needs_them` |
//! | 10: failed releases are promoted | server `promotion::what_does_not_count_as_a_deployment_is_noted_and_nothing_more`; planner `fold::a_report_of_failure_is_never_a_deployment` |
//! | 11: signatures that fit elsewhere too or for ever, keys in logs, an environment's key ignored | server `approval::our_signature_covers_the_whole_call`, `approval::the_signature_that_never_changes_is_refused_unless_it_is_asked_for`, `guard::one_object_does_not_speak_for_two_environments`, `guard::keys_and_signatures_are_neither_answered_nor_logged`, `promotion::a_key_of_one_environment_is_used_but_not_demanded` |
//! | 12: clients' addresses misread, `Retry-After` without a date | server `client::tests::only_trusted_proxies_are_believed`, `guard::strangers_are_limited_by_address_and_signed_calls_by_pipeline` |
//! | 13: forges: addresses that panic or are refused, pull requests not found again | git `address::tests::usable_addresses_are_taken_apart`; for every forge `a_pull_request_is_found_by_its_head_in_every_state`, `one_among_hundreds_is_found`, `a_duplicate_is_refused` |
//! | 14: branches that are never rebuilt, and stacked | git `propose::the_branch_is_rebuilt_on_the_current_base`, `propose::a_merged_branch_that_was_not_deleted_is_used_again`; [`a_branch_that_stays_after_the_merge_is_not_stacked`] |
//! | 15: a refused pull request is not told, the token is tried after the push, texts stay old, commits without version or author | [`a_refused_pull_request_is_told_and_tried_again`]; [`a_wrong_token_is_noticed_before_anything_is_pushed`]; `promote` `people::a_newer_revision_takes_the_pull_request_over`; `people::a_retitled_pull_request_is_taken_over`; git `mirrors::the_commit_says_who_and_what_for` |
//! | 16: conflicting writes are answered 500 | server `approval::writes_that_conflict_are_no_error`, `guard::a_hundred_targets_at_once_are_all_stored` |
//! | 17: revisions with `/` cannot be approved | server `approval::a_revision_with_slashes_can_be_approved`; planner `weave_defects::revisions_with_slashes_can_be_promoted` |
//! | 18: the first bad cluster hides the rest; events forbidden outside its own namespace | `observe` `changes::what_is_missing_is_named_on_its_own_target`; [`the_rights_of_the_installation_are_enough`] |
//! | 19: the limiter never ends | nothing runs for it: server `limiter::tests::what_is_remembered_is_bounded`; `observe` `changes::a_loop_that_ends_leaves_nothing_running` |
//! | 20: approvals from the UI break with keys, or for the last environment; lists fail as a whole | server `rest::an_approval_keeps_who_when_and_why`, `rest::what_is_shown_is_what_is_stored_and_planned` |

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::response::IntoResponse;
use controller::{Metrics, Settings, run::Error};
use futures::FutureExt;
use http::{HeaderValue, Method, StatusCode};
use k8s_openapi::api::{core::v1::Secret, events::v1::Event};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use runtime::leader::{LeaderElection, LeaseTiming};
use serde_json::{Value, json};
use testbed::forge::PullState;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use crate::{
    journeys::{BRANCH, Stage},
    world::{apply, wait_for},
};

#[tokio::test]
async fn a_pipeline_without_environments_stops_nothing() {
    let stage = Stage::new().await;
    stage.begin(&json!({})).await;
    let nothing =
        json!({"appRef": {"apiVersion": "v1", "kind": "x", "name": "x"}, "environments": []});
    stage.world.pipeline("empty", nothing).await;
    stage.start().await;
    stage.world.expect_hold("app", "prod", "").await;
    stage.deploy("dev", "1.1.0").await;
    stage.world.expect("prod 1.1.0 WaitingForMerge").await;
    let is_said = async || {
        let status = stage.world.pipelines().get("empty").await.unwrap().status;
        let ready = status.into_iter().flat_map(|it| it.conditions).next();
        ready.is_some_and(|ready| {
            (ready.status, ready.reason) == ("False".into(), "InvalidSpec".into())
        })
    };
    assert!(wait_for(is_said).await, "nobody says what is wrong with it");
}

#[tokio::test]
async fn nothing_is_pushed_or_changed_again_at_every_look() {
    let stage = Stage::with_pull_request(&json!({"feedback": []})).await;
    stage.world.repository.merge(1).await.unwrap();
    stage.world.expect("prod 1.1.0 Deploying").await;
    let is_outside = |effect: &&String| !effect.contains("/apis/");
    let count = || stage.injector.effects().iter().filter(is_outside).count();
    let before = count();
    for look in 0..5 {
        let annotations = json!({"metadata": {"annotations": {"look": look.to_string()}}});
        stage.world.patch_pipeline("app", annotations).await;
        stage.kill().await;
        stage.start().await;
        stage.deploy("dev", "1.1.0").await;
    }
    stage.sync().await;
    stage.world.expect("prod 1.1.0 Succeeded").await;
    assert_eq!(count(), before, "{:?}", stage.injector.effects());
}

#[tokio::test]
async fn a_loop_that_cannot_be_set_up_ends_the_process() {
    let stage = Stage::new().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let settings = Settings {
        git_folder: Some(file.path().to_owned()),
        ..stage.settings()
    };
    let (hub, stop) = (stage.world.hub.clone(), CancellationToken::new());
    let ended = controller::run(hub, settings, Metrics::new(), stop).await;
    let Err(Error::ControllerEnded { name, source }) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(name, "promotion");
    assert!(source.unwrap().to_string().contains("git"));
}

#[tokio::test]
async fn a_branch_that_stays_after_the_merge_is_not_stacked() {
    let stage = Stage::with_pull_request(&json!({})).await;
    let repository = &stage.world.repository;
    repository.merge(1).await.unwrap();
    stage.sync().await;
    stage.world.expect("prod 1.1.0 Succeeded").await;
    assert!(repository.tip(BRANCH).await.is_some(), "it stays");
    stage.deploy("dev", "1.2.0").await;
    let both = "prod 1.1.0 Succeeded, prod 1.2.0 WaitingForMerge";
    stage.world.expect(both).await;
    let (main, branch) = (repository.log("main").await, repository.log(BRANCH).await);
    assert_eq!(branch.unwrap()[1..], main.unwrap()[..]);
    repository.merge(2).await.unwrap();
    stage.sync().await;
    stage
        .world
        .expect("prod 1.1.0 Succeeded, prod 1.2.0 Succeeded")
        .await;
}

#[tokio::test]
async fn a_refused_pull_request_is_told_and_tried_again() {
    let stage = Stage::running(&json!({})).await;
    let refusals = Arc::new(Mutex::new(1));
    let left = refusals.clone();
    let injector = move |request: axum::extract::Request, next: axum::middleware::Next| {
        let is_creation =
            request.method() == Method::POST && request.uri().path().ends_with("/pulls");
        let mut left = left.lock().unwrap();
        if is_creation && *left > 0 {
            *left -= 1;
            return async { StatusCode::BAD_GATEWAY.into_response() }.boxed();
        }
        next.run(request).boxed()
    };
    stage
        .world
        .repository
        .intercept_requests(Arc::new(injector));
    stage.deploy("dev", "1.1.0").await;
    let told = stage
        .world
        .expect("prod 1.1.0 Running/ForgeUnavailable")
        .await;
    let status = told[0].status.clone().unwrap();
    assert!(status.message.unwrap().contains("502"));
    assert!(status.next_attempt.is_some());
    assert!(stage.world.repository.tip(BRANCH).await.is_some());
    stage.world.expect("prod 1.1.0 WaitingForMerge").await;
    stage.world.repository.merge(1).await.unwrap();
    stage.sync().await;
    stage.world.expect("prod 1.1.0 Succeeded").await;
    stage.check(PullState::Merged, "1.1.0", "1.1.0").await;
}

#[tokio::test]
async fn a_wrong_token_is_noticed_before_anything_is_pushed() {
    let stage = Stage::new().await;
    stage.begin(&json!({})).await;
    let secrets: Api<Secret> = Api::namespaced(stage.world.hub.clone(), "default");
    let patch = Patch::Merge(json!({"stringData": {"token": "not-this-one"}}));
    let patched = secrets.patch("git", &PatchParams::default(), &patch).await;
    patched.unwrap();
    stage.start().await;
    stage.deploy("dev", "1.1.0").await;
    stage.world.expect("prod 1.1.0 Running/Unauthorized").await;
    assert_eq!(stage.world.repository.tip(BRANCH).await, None);
    stage.world.secret("git").await;
    stage.world.expect("prod 1.1.0 WaitingForMerge").await;
}

const MANIFESTS: [&str; 2] = [
    include_str!("../../../../deploy/manifests/namespace.yaml"),
    include_str!("../../../../deploy/manifests/access.yaml"),
];
const INSTALLED: &str = "system:serviceaccount:pipeline-system:pipeline-controller";

/// The hub for somebody else, and what is refused to them.
fn spoken_for(hub: &Client, user: &'static str, refused: &Arc<Mutex<Vec<String>>>) -> Client {
    let (hub, refused) = (hub.clone(), refused.clone());
    let service = service_fn(move |mut request: http::Request<kube::client::Body>| {
        let (hub, refused) = (hub.clone(), refused.clone());
        let user = HeaderValue::from_static(user);
        request.headers_mut().insert("impersonate-user", user);
        async move {
            let what = format!("{} {}", request.method(), request.uri());
            let answer = hub.send(request).await?;
            if answer.status() == StatusCode::FORBIDDEN {
                refused.lock().unwrap().push(what);
            }
            Ok::<_, kube::Error>(answer)
        }
    });
    Client::new(service, "default")
}

/// The whole process, with an election, as the service account that is installed.
#[tokio::test]
async fn the_rights_of_the_installation_are_enough() {
    let stage = Stage::new().await;
    for manifest in MANIFESTS {
        let objects: Vec<Value> = serde_saphyr::from_multiple(manifest).unwrap();
        for object in &objects {
            apply(&stage.world.hub, object).await;
        }
    }
    stage.begin(&json!({})).await;
    let refused = Arc::default();
    let hub = spoken_for(&stage.world.hub, INSTALLED, &refused);
    let settings = Settings {
        election: Some(LeaderElection {
            namespace: "pipeline-system".to_owned(),
            name: "sluice".to_owned(),
            identity: "this".to_owned(),
            timing: LeaseTiming::default(),
        }),
        ..stage.settings()
    };
    let stop = CancellationToken::new();
    let running = controller::run(hub, settings, Metrics::new(), stop.clone());
    let running = tokio::spawn(running);
    stage.world.expect_hold("app", "prod", "").await;
    stage.deploy("dev", "1.1.0").await;
    stage.world.expect("prod 1.1.0 WaitingForMerge").await;
    stage.world.repository.merge(1).await.unwrap();
    stage.sync().await;
    stage.world.expect("prod 1.1.0 Succeeded").await;
    let events: Api<Event> = Api::namespaced(stage.world.hub.clone(), "default");
    let is_told = async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        all.iter().any(|it| {
            it.note
                .as_deref()
                .is_some_and(|note| note.contains("1.1.0"))
        })
    };
    assert!(wait_for(is_told).await, "nobody is told");
    stop.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
    ended.unwrap().unwrap().unwrap();
    let refused = refused.lock().unwrap().clone();
    assert_eq!(refused, [] as [String; 0]);
}
