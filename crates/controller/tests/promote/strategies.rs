//! The strategies commit, notification and webhook: what is delivered, how often, and failures.

use controller::{PromotionReconciler, Settings};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use runtime::LeaderGuard;
use serde_json::{Value, json};

use crate::{
    webhook_receiver::Receiver,
    world::{World, manifest, settings, spec, wait_for},
};

const PROD: &str = "prod/app.yaml";

async fn dev_and_prod(promotion: impl FnOnce(&World) -> Value) -> World {
    let world = World::with(&[(PROD, &manifest("1.0.0", "default:app:prod"))]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    let spec = spec("dev=dev/dev > prod=prod/prod", &promotion(&world));
    world.pipeline("app", spec).await;
    world.expect_hold("app", "prod", "").await;
    world
}

fn webhook(receiver: &Receiver) -> Value {
    json!({"strategy": {"webhook": {"url": receiver.url(), "secretRef": {"name": "hook"}}}})
}

/// Ten pipelines push to one branch at the same time, by two processes that both think they lead.
#[tokio::test]
async fn commits_to_one_branch_do_not_get_in_each_others_way() {
    let files: Vec<_> = (0..10)
        .map(|number| {
            let marker = format!("default:app-{number}:prod");
            (format!("{number}.yaml"), manifest("1.0.0", &marker))
        })
        .collect();
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let world = World::with(&files).await;
    let another = PromotionReconciler::new(
        world.hub.clone(),
        settings(),
        LeaderGuard::without_election(),
    );
    let another = tokio::spawn(controller::promotion::run(another.unwrap()));
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    for number in 0..10 {
        let spec = spec("dev=dev/dev > prod=prod/prod", &world.commit());
        world.pipeline(&format!("app-{number}"), spec).await;
    }
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect_all(&["prod 1.1.0 Deploying"; 10]).await;
    for number in 0..10 {
        let path = format!("{number}.yaml");
        assert_eq!(world.version("main", &path).await, "1.1.0");
    }
    let log = world.repository.log("main").await.unwrap();
    assert_eq!(log.len(), 11, "{log:?}");
    another.abort();
}

#[tokio::test]
async fn a_commit_that_was_not_written_down_is_not_made_again() {
    let mut world = dev_and_prod(World::commit).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 Deploying").await;
    let tip = world.repository.tip("main").await;
    world.stop();
    world.forget_status(&promotions[0]).await;
    world.restart(settings());
    world.expect("prod 1.1.0 Deploying").await;
    assert_eq!(world.repository.tip("main").await, tip);
    world.sync(PROD, "prod", "prod").await;
    world.expect("prod 1.1.0 Succeeded").await;
}

/// The Events that promotions are told by.
async fn events(world: &World) -> Vec<Event> {
    let events: Api<Event> = Api::namespaced(world.hub.clone(), "default");
    let all = events.list(&ListParams::default()).await.unwrap().items;
    let is_promotion = |event: &Event| event.reason.as_deref() == Some("Promote");
    all.into_iter().filter(is_promotion).collect()
}

/// The wire text is the ancestor's; the keys with the group are those that get through Flux.
#[tokio::test]
async fn a_notification_is_told_in_the_same_words_until_it_is_heard() {
    let flux = Receiver::start().await;
    let settings = Settings {
        events_address: Some(flux.url()),
        ..settings()
    };
    let mut world = dev_and_prod(|_| json!({"strategy": {"notification": {}}})).await;
    world.restart(settings.clone());
    flux.answer(503, &[], "");
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Running/NotNotified").await;
    let promotions = world.expect("prod 1.1.0 Deploying").await;

    // A crash before that was written.
    world.stop();
    world.forget_status(&promotions[0]).await;
    world.restart(settings);
    world.expect("prod 1.1.0 Deploying").await;
    let calls = flux.calls();
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call.body == calls[0].body));
    let told: Value = serde_json::from_slice(&calls[0].body).unwrap();
    let uid = promotions[0].metadata.uid.as_deref().unwrap();
    let message = "Promote pipeline default/app to prod with version 1.1.0";
    assert_eq!(told["message"], message);
    assert_eq!(
        (&told["reason"], &told["severity"]),
        (&json!("Promote"), &json!("info"))
    );
    assert_eq!(told["involvedObject"]["kind"], "Pipeline");
    assert_eq!(told["reportingController"], "pipeline-controller");
    for (key, value) in [
        ("environment", "prod"),
        ("version", "1.1.0"),
        ("pipelines.weave.works/environment", "prod"),
        ("pipelines.weave.works/version", "1.1.0"),
        ("pipelines.weave.works/revision", "1.1.0"),
        ("pipelines.weave.works/promotion", uid),
    ] {
        assert_eq!(told["metadata"][key], value, "{key}");
    }
    let events = events(&world).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].note.as_deref(), Some(message));
    world.deploy("prod", "prod", "1.1.0").await;
    world.expect("prod 1.1.0 Succeeded").await;
}

#[tokio::test]
async fn each_target_is_told_about_on_its_own() {
    let flux = Receiver::start().await;
    let mut world = World::with(&[]).await;
    world.restart(Settings {
        events_address: Some(flux.url()),
        ..settings()
    });
    for cluster in ["dev", "qa", "perf"] {
        world.leaf(cluster, cluster, "1.0.0").await;
    }
    let promotion = json!({"strategy": {"notification": {}}, "scope": "Target"});
    let drawing = "dev=dev/dev > test=qa/qa,perf/perf";
    world.pipeline("app", spec(drawing, &promotion)).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world
        .expect_all(&[
            "test/qa/qa 1.1.0 Deploying",
            "test/perf/perf 1.1.0 Deploying",
        ])
        .await;
    let told = flux.calls();
    let told = told
        .iter()
        .map(|call| serde_json::from_slice::<Value>(&call.body).unwrap());
    let mut told: Vec<_> = told.map(|told| told["message"].to_string()).collect();
    told.sort();
    let start = "Promote pipeline default/app to test with version 1.1.0 on";
    assert_eq!(
        told,
        ["perf/perf", "qa/qa"].map(|target| format!("\"{start} {target}\""))
    );
}

#[tokio::test]
async fn a_webhook_is_called_with_the_same_bytes_until_it_answers() {
    let receiver = Receiver::start().await;
    receiver.answer(503, &[("retry-after", "1")], "");
    receiver.answer(200, &[], "{\"url\": \"https://ci.example/runs/7\"}");
    let mut world = dev_and_prod(|_| webhook(&receiver)).await;
    world.hook_secret("hook").await;
    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 Deploying").await;
    let url = promotions[0].status.clone().unwrap().url;
    assert_eq!(url.as_deref(), Some("https://ci.example/runs/7"));
    world.stop();
    world.forget_status(&promotions[0]).await;
    world.restart(settings());
    world.expect("prod 1.1.0 Deploying").await;
    let calls = receiver.calls();
    assert_eq!(calls.len(), 3);
    for call in &calls {
        assert_eq!(call.body, calls[0].body);
        assert_eq!(
            call.header("idempotency-key"),
            calls[0].header("idempotency-key")
        );
        assert_eq!(call.path, "/hooks/XoLZfgK");
    }
}

/// What only an edit helps against says so, and nothing of the hook's address but its host.
#[tokio::test]
async fn a_webhook_that_refuses_waits_for_an_edit_and_its_address_is_not_shown() {
    let receiver = Receiver::start().await;
    for _ in 0..20 {
        receiver.answer(302, &[("location", "http://elsewhere.example/")], "");
    }
    let world = dev_and_prod(|_| webhook(&receiver)).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Running/SecretMissing").await;
    world.hook_secret("hook").await;
    let promotions = world.expect("prod 1.1.0 Running/WebhookRefused").await;
    let text = json!(promotions[0].status).to_string();
    assert!(!text.contains("XoLZfgK"), "{text}");
    assert_eq!(receiver.calls().len(), 1);
}

#[tokio::test]
async fn a_webhook_on_an_internal_address_is_not_called() {
    let receiver = Receiver::start().await;
    for url in [
        receiver.url(),
        receiver.url().replace("127.0.0.1", "localhost"),
    ] {
        let hook = json!({"strategy": {"webhook": {"url": url}}});
        let mut world = World::with(&[]).await;
        world.restart(Settings {
            allow_internal_urls: false,
            ..settings()
        });
        world.leaf("dev", "dev", "1.0.0").await;
        world.leaf("prod", "prod", "1.0.0").await;
        let spec = spec("dev=dev/dev > prod=prod/prod", &hook);
        world.pipeline("app", spec).await;
        world.deploy("dev", "dev", "1.1.0").await;
        world.expect("prod 1.1.0 Running/InternalUrl").await;
    }
    assert_eq!(receiver.calls(), []);
}

/// A suspended pipeline calls nobody.
#[tokio::test]
async fn nothing_is_sent_while_a_pipeline_is_suspended() {
    let receiver = Receiver::start().await;
    let world = dev_and_prod(|_| webhook(&receiver)).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Running/SecretMissing").await;
    let suspend = json!({"spec": {"suspend": true}});
    world.patch_pipeline("app", suspend).await;
    world.expect("prod 1.1.0 Running/Suspended").await;
    world.hook_secret("hook").await;
    let resume = json!({"spec": {"suspend": false}});
    assert_eq!(receiver.calls(), []);
    world.patch_pipeline("app", resume).await;
    let is_called = async || receiver.calls().len() == 1;
    assert!(wait_for(is_called).await, "it does not go on");
}

/// Sluice merges itself, when the forge's conditions are met and no gate is closed.
#[tokio::test]
async fn a_merge_is_asked_for_until_it_is_possible() {
    let world = dev_and_prod(|world| {
        let mut promotion = world.promotion();
        promotion["strategy"]["pull-request"]["autoMerge"] = json!(true);
        promotion
    })
    .await;
    world.forge.set_requires_review(true);
    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world
        .expect("prod 1.1.0 WaitingForMerge/NotMergeable")
        .await;
    let message = promotions[0].status.clone().unwrap().message.unwrap();
    assert!(message.contains("enough approvals"), "{message}");
    // Nobody merges while the pipeline is suspended.
    world
        .patch_pipeline("app", json!({"spec": {"suspend": true}}))
        .await;
    world.expect("prod 1.1.0 WaitingForMerge/Suspended").await;
    world.forge.set_requires_review(false);
    world
        .patch_pipeline("app", json!({"spec": {"suspend": false}}))
        .await;
    world.expect("prod 1.1.0 Deploying").await;
}

/// What Sluice merges is the commit that it pushed, and nothing else.
#[tokio::test]
async fn what_others_push_is_not_merged_automatically() {
    let world = dev_and_prod(|world| {
        let mut promotion = world.promotion();
        promotion["strategy"]["pull-request"]["autoMerge"] = json!(true);
        promotion
    })
    .await;
    world.forge.set_requires_review(true);
    world.deploy("dev", "dev", "1.1.0").await;
    world
        .expect("prod 1.1.0 WaitingForMerge/NotMergeable")
        .await;
    let branch = "promotion-default-app-prod";
    let added = [("more.yaml", "x: 1\n")];
    let pushed = world.repository.commit(branch, "Better so", &added).await;
    pushed.unwrap();
    world.forge.set_requires_review(false);
    world
        .expect("prod 1.1.0 WaitingForMerge/BranchChangedByOthers")
        .await;
    // The next one gets a pull request of its own once people have decided about this one.
    world.repository.close(1).await.unwrap();
    world.expect("prod 1.1.0 Abandoned").await;
    assert!(world.repository.read("main", "more.yaml").await.is_none());
}

/// The files of two environments that are built of one base.
const SHARED: [(&str, &str); 3] = [
    (
        "dev/kustomization.yaml",
        "resources: [../base]\nnamespace: dev\n",
    ),
    (
        "prod/kustomization.yaml",
        "resources: [../base]\nnamespace: prod\n",
    ),
    ("base/kustomization.yaml", "resources: [app.yaml]\n"),
];

const RELEASE: &str = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n\
                       metadata:\n  name: app\nspec:\n  chart:\n    spec:\n      version: 1.0.0\n";

#[tokio::test]
async fn a_base_that_dev_is_built_of_too_is_not_changed() {
    let mut files = SHARED.to_vec();
    files.push(("base/app.yaml", RELEASE));
    let world = World::with(&files).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    let mut promotion = world.commit();
    promotion["strategy"]["commit"]["paths"] = json!(["${environment}"]);
    let spec = spec("dev=dev/dev > prod=prod/prod", &promotion);
    world.pipeline("app", spec).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 Running/SharedManifest").await;
    let message = promotions[0].status.clone().unwrap().message.unwrap();
    assert!(message.contains("base/app.yaml"), "{message}");
    assert!(message.contains("dev"), "{message}");
    assert_eq!(world.repository.log("main").await.unwrap().len(), 1);
}
