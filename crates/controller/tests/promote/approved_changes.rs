//! What a promotion changes: shown while it waits for approval, compared before it is pushed, told in the
//! pull request.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use api::{Promotion, promotion::PromotionChange};
use axum::extract::Request;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testbed::forge::Repository;

use crate::world::{World, manifest, settings, spec, wait_for};

const PROD: &str = "prod/app.yaml";
const BRANCH: &str = "promotion-default-app-prod";

/// dev and prod at 1.0.0, where somebody approves what enters prod.
async fn manual(files: &[(&str, &str)], promotion: fn(&World) -> Value) -> World {
    let world = World::with(files).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    let mut promotion = promotion(&world);
    promotion["manual"] = json!(true);
    let spec = spec("dev=dev/dev > prod=prod/prod", &promotion);
    world.pipeline("app", spec).await;
    world.expect_hold("app", "prod", "").await;
    world
}

async fn with_manifest(promotion: fn(&World) -> Value) -> World {
    manual(&[(PROD, &manifest("1.0.0", "default:app:prod"))], promotion).await
}

fn change_of(promotion: &Promotion) -> Option<PromotionChange> {
    promotion.status.as_ref()?.change.clone()
}

/// Waits until the only promotion changes the value from this one.
async fn expect_change_from(world: &World, old: &str) -> PromotionChange {
    let mut change = None;
    let is_read = wait_for(async || {
        change = world.all_promotions().await.first().and_then(change_of);
        let edits = change.iter().flat_map(|change| &change.edits);
        edits.map(|it| it.old.as_deref()).collect::<Vec<_>>() == [Some(old)]
    });
    assert!(is_read.await, "{change:?}");
    change.unwrap()
}

async fn edit(world: &World, file: &str, content: &str) {
    let files = [(file, content)];
    let committed = world.repository.commit("main", "Edit", &files);
    committed.await.unwrap();
}

#[tokio::test]
async fn what_a_promotion_changes_is_shown_until_it_ends() {
    let world = with_manifest(World::promotion).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 AwaitingApproval").await;
    let change = expect_change_from(&world, "1.0.0").await;
    let edit = &change.edits[0];
    assert_eq!(edit.file, PROD);
    assert_eq!(edit.path, "spec.chart.spec.version");
    assert_eq!(edit.new, "1.1.0");
    assert!(change.digest.starts_with("sha256:"), "{change:?}");
    assert_eq!(world.repository.tip(BRANCH).await, None);

    let promotions = world.all_promotions().await;
    world.approve(&promotions[0]).await;
    let opened = world.expect("prod 1.1.0 WaitingForMerge").await;
    assert_eq!(change_of(&opened[0]), Some(change));
    let body = world.repository.pull_requests().await[0].body.clone();
    let line = "- `prod/app.yaml` `spec.chart.spec.version`: `1.0.0` → `1.1.0`";
    assert!(body.contains(line), "{body}");
    world.repository.merge(1).await.unwrap();
    world.sync(PROD, "prod", "prod").await;
    let ended = world.expect("prod 1.1.0 Succeeded").await;
    assert_eq!(change_of(&ended[0]), None);
}

#[tokio::test]
async fn an_edit_of_the_value_changes_the_digest_and_a_neighbour_does_not() {
    let mut world = with_manifest(World::promotion).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let first = expect_change_from(&world, "1.0.0").await;
    world.stop();
    edit(&world, "prod/other.yaml", "x: 1\n").await;
    world.restart(settings());
    // Whatever is pushed next is computed with the neighbour.
    edit(&world, PROD, &manifest("1.0.5", "default:app:prod")).await;
    let second = expect_change_from(&world, "1.0.5").await;
    assert_ne!(first.digest, second.digest);
    edit(&world, PROD, &manifest("1.0.0", "default:app:prod")).await;
    let third = expect_change_from(&world, "1.0.0").await;
    assert_eq!(first.digest, third.digest, "with the neighbour, the same");
    assert_eq!(world.repository.tip(BRANCH).await, None);
}

#[tokio::test]
async fn what_cannot_be_read_is_not_pushed_although_it_is_approved() {
    let world = manual(&[("README.md", "no marker\n")], World::promotion).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let unread = world.expect("prod 1.1.0 AwaitingApproval/NoMarker").await;
    let status = unread[0].status.clone().unwrap();
    let message = status.message.unwrap();
    assert!(
        message.contains("what it changes is not known"),
        "{message}"
    );
    assert!(status.change.is_none() && status.next_attempt.is_some());
    world.approve(&unread[0]).await;
    edit(&world, PROD, &manifest("1.0.0", "default:app:prod")).await;
    expect_change_from(&world, "1.0.0").await;
    assert!(
        !world
            .repository
            .pull_requests()
            .await
            .iter()
            .any(|it| it.number > 1)
    );
}

/// It was pushed to the base branch, and nothing of that was written.
#[tokio::test]
async fn a_change_that_was_pushed_before_a_crash_needs_no_second_approval() {
    let mut world = with_manifest(World::commit).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let change = expect_change_from(&world, "1.0.0").await;
    let waiting = world.expect("prod 1.1.0 AwaitingApproval").await;
    let before = json!(waiting[0].status);
    world.approve(&waiting[0]).await;
    world.expect("prod 1.1.0 Deploying").await;
    let commits = world.repository.log("main").await.unwrap();
    world.stop();
    let name = waiting[0].metadata.name.as_deref().unwrap();
    let (api, none) = (world.promotions(), PatchParams::default());
    for status in [json!({"status": null}), json!({"status": before})] {
        api.patch_status(name, &none, &Patch::Merge(status))
            .await
            .unwrap();
    }
    world.restart(settings());
    let found = world.expect("prod 1.1.0 Deploying").await;
    assert_eq!(change_of(&found[0]), Some(change));
    assert_eq!(world.repository.log("main").await.unwrap(), commits);
}

/// Restarts fall anywhere between reading, approving, pushing and opening.
#[tokio::test]
async fn a_crash_anywhere_after_the_approval_leaves_one_pull_request() {
    let mut world = with_manifest(World::promotion).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.restart(settings());
    let change = expect_change_from(&world, "1.0.0").await;
    let waiting = world.expect("prod 1.1.0 AwaitingApproval").await;
    world.approve(&waiting[0]).await;
    for _ in 0..8 {
        world.restart(settings());
        tokio::task::yield_now().await;
    }
    let opened = world.expect("prod 1.1.0 WaitingForMerge").await;
    assert_eq!(change_of(&opened[0]), Some(change));
    assert_eq!(world.repository.pull_requests().await.len(), 1);
}

/// The pull request is open and nothing of that was stored. The value was edited since: the text says what
/// was approved last, and keeps what people wrote.
#[tokio::test]
async fn the_text_of_an_open_pull_request_says_what_was_approved_last() {
    let mut world = with_manifest(World::promotion).await;
    world.deploy("dev", "dev", "1.1.0").await;
    expect_change_from(&world, "1.0.0").await;
    let waiting = world.expect("prod 1.1.0 AwaitingApproval").await;
    let before = json!(waiting[0].status);
    world.approve(&waiting[0]).await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    let first = world.repository.pull_requests().await[0].body.clone();
    assert!(first.contains("Approved by `ann`."), "{first}");
    world.stop();
    let name = waiting[0].metadata.name.as_deref().unwrap();
    let (api, none) = (world.promotions(), PatchParams::default());
    for status in [json!({"status": null}), json!({"status": before})] {
        let patched = api.patch_status(name, &none, &Patch::Merge(status)).await;
        patched.unwrap();
    }
    let edited = format!("Look here!\n\n{first}");
    world.repository.rewrite(1, &edited).await.unwrap();
    edit(&world, PROD, &manifest("1.0.5", "default:app:prod")).await;
    world.restart(settings());
    let change = expect_change_from(&world, "1.0.5").await;
    approve_change(&world, "bob", &change, "2026-01-01T00:00:00Z").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    let pulls = world.repository.pull_requests().await;
    assert_eq!(pulls.len(), 1);
    let line =
        |old: &str| format!("- `prod/app.yaml` `spec.chart.spec.version`: `{old}` → `1.1.0`");
    let expected = edited
        .replace("Approved by `ann`.", "Approved by `bob`.")
        .replace(&line("1.0.0"), &line("1.0.5"));
    assert_eq!(pulls[0].body.trim(), expected.trim());
}

/// While nothing changes, the branch is looked up and nothing is fetched.
#[tokio::test]
async fn a_promotion_that_waits_fetches_nothing_until_the_branch_moves() {
    let world = with_manifest(World::promotion).await;
    world.deploy("dev", "dev", "1.1.0").await;
    expect_change_from(&world, "1.0.0").await;
    let calls = GitCalls::of(&world.repository);
    assert!(wait_for(async || calls.lookups() >= 3).await);
    assert_eq!(calls.fetches(), 0, "of {} lookups", calls.lookups());
    edit(&world, PROD, &manifest("1.0.5", "default:app:prod")).await;
    expect_change_from(&world, "1.0.5").await;
    let (fetches, lookups) = (calls.fetches(), calls.lookups());
    assert!(fetches > 0);
    assert!(wait_for(async || calls.lookups() >= lookups + 3).await);
    assert_eq!(calls.fetches(), fetches, "nothing moved since");
}

/// Counts what git asks a repository for.
struct GitCalls(Arc<[AtomicUsize; 2]>);

impl GitCalls {
    fn of(repository: &Repository) -> Self {
        let counts = Arc::new([const { AtomicUsize::new(0) }; 2]);
        let counted = counts.clone();
        repository.intercept_requests(Arc::new(move |request, next| {
            let counted = counted.clone();
            Box::pin(async move {
                let (parts, body) = request.into_parts();
                let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
                let asks = |command: &[u8]| body.windows(command.len()).any(|it| it == command);
                let commands: [&[u8]; 2] = [b"command=ls-refs", b"command=fetch"];
                for (count, command) in counted.iter().zip(commands) {
                    count.fetch_add(usize::from(asks(command)), Ordering::SeqCst);
                }
                next.run(Request::from_parts(parts, body.into())).await
            })
        }));
        Self(counts)
    }

    fn lookups(&self) -> usize {
        self.0[0].load(Ordering::SeqCst)
    }

    fn fetches(&self) -> usize {
        self.0[1].load(Ordering::SeqCst)
    }
}

/// A person approves what the promotion showed at the time.
async fn approve_change(world: &World, by: &str, change: &PromotionChange, at: &str) {
    let promotions = world.all_promotions().await;
    let name = promotions[0].metadata.name.as_deref().unwrap();
    let approval = json!({"by": by, "at": at, "changeDigest": change.digest});
    let others = promotions[0].spec.approvals.iter();
    let others = others.filter(|it| it.by != by).map(|it| json!(it));
    let approvals: Vec<_> = others.chain([approval]).collect();
    let patch = Patch::Merge(json!({"spec": {"approvals": approvals}}));
    let (api, none) = (world.promotions(), PatchParams::default());
    api.patch(name, &none, &patch).await.unwrap();
}

/// The value is edited in git between the approval and the push, whichever of the two is seen first.
#[tokio::test]
async fn a_base_branch_that_was_edited_after_the_approval_waits_for_approval_again() {
    let world = with_manifest(World::promotion).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let approved = expect_change_from(&world, "1.0.0").await;
    edit(&world, PROD, &manifest("1.0.5", "default:app:prod")).await;
    approve_change(&world, "ann", &approved, "2026-01-01T00:00:00Z").await;
    let edited = expect_change_from(&world, "1.0.5").await;
    assert_ne!(approved.digest, edited.digest);
    let says_why = wait_for(async || {
        let status = world.all_promotions().await[0].status.clone().unwrap();
        let message = status.message.unwrap_or_default();
        message.contains("ann approved another change than this one")
    });
    assert!(says_why.await);
    world.expect("prod 1.1.0 AwaitingApproval").await;
    assert_eq!(world.repository.tip(BRANCH).await, None);
    approve_change(&world, "ann", &edited, "2026-01-02T00:00:00Z").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    assert_eq!(world.version(BRANCH, PROD).await, "1.1.0");
}
