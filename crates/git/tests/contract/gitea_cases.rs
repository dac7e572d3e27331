//! What must hold of Gitea only, on its double and on a real one.

use git::forge::{
    Error, Forge, MergeMethod, MergeOptions, MergeResult, PullRequestMetadata, PullRequestState,
    PullRequestUpdate,
};
use net::Remedy;

use crate::double::{BRANCH, ForgeDouble, branch, new_pull};
use crate::token_rights::ALL_RIGHTS;

/// Each case once on the double and once on the real server.
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod gitea_double {
            $(#[tokio::test]
            async fn $case() {
                use testbed::forge_doubles::gitea::router;
                let kind = git::forge::ForgeProduct::Gitea;
                super::$case(crate::double::ForgeDouble::start(kind, router).await).await;
            })*
        }
        mod real_gitea {
            $(#[tokio::test]
            #[ignore = "needs the Gitea that `cargo xtask kube` builds"]
            async fn $case() {
                super::$case(crate::double::ForgeDouble::start_gitea().await).await;
            })*
        }
    };
}

on_both! {
    who_may_not_merge_is_told_so,
    a_closed_pull_request_is_not_merged_until_it_is_reopened,
    a_replaced_commit_is_the_new_head,
    a_merged_pull_request_is_found_without_its_branch,
    deleting_the_branch_closes_the_pull_request,
    squashing_and_rebasing_merge,
    a_method_that_the_repository_forbids_waits_for_an_edit,
    a_token_that_only_reads_opens_nothing,
    a_token_without_the_scope_of_issues_opens_but_does_not_comment,
    missing_scopes_are_told_before_they_are_needed,
}

async fn opened(double: &ForgeDouble) -> (Box<dyn Forge>, u64) {
    let forge = double.forge();
    let number = forge.create(&new_pull()).await.expect("one").number;
    double.until_mergeable(number).await;
    (forge, number)
}

async fn merge_by(double: &ForgeDouble, method: MergeMethod) -> MergeOptions {
    let head = double.tip().await;
    MergeOptions { head, method }
}

fn set_open(open: bool) -> PullRequestUpdate {
    PullRequestUpdate {
        open: Some(open),
        ..PullRequestUpdate::default()
    }
}

fn described(error: &Error) -> (&'static str, Remedy) {
    (error.reason(), error.remedy())
}

/// The branch protection is not about conditions, so that a person has to act.
async fn who_may_not_merge_is_told_so(double: ForgeDouble) {
    let (forge, number) = opened(&double).await;
    let merge = merge_by(&double, MergeMethod::Merge).await;
    double.set_protected(true).await;
    for _ in 0..2 {
        let error = double
            .merge(&*forge, number, &merge)
            .await
            .expect_err("not by us");
        assert_eq!(error.reason(), "Forbidden", "{error}");
        assert!(
            error.to_string().contains("not allowed to merge"),
            "{error}"
        );
    }
    double.set_protected(false).await;
    let merged = double.merge(&*forge, number, &merge).await;
    assert_eq!(merged.expect("merged"), MergeResult::Merged);
}

async fn a_closed_pull_request_is_not_merged_until_it_is_reopened(double: ForgeDouble) {
    let (forge, number) = opened(&double).await;
    let merge = merge_by(&double, MergeMethod::Merge).await;
    let closed = forge.update(number, &set_open(false)).await;
    assert_eq!(closed.expect("closed").state, PullRequestState::Closed);
    let error = double
        .merge(&*forge, number, &merge)
        .await
        .expect_err("it is closed");
    assert_eq!(described(&error), ("NotMergeable", Remedy::RETRY));
    assert!(error.to_string().contains("closed"), "{error}");
    let reopened = forge.update(number, &set_open(true)).await;
    assert_eq!(reopened.expect("reopened").state, PullRequestState::Open);
    double.until_mergeable(number).await;
    let merged = double.merge(&*forge, number, &merge).await;
    assert_eq!(merged.expect("merged"), MergeResult::Merged);
    let error = forge.update(number, &set_open(true)).await;
    assert_eq!(error.expect_err("it is merged").reason(), "Refused");
}

async fn a_replaced_commit_is_the_new_head(double: ForgeDouble) {
    let (forge, number) = opened(&double).await;
    let stale = merge_by(&double, MergeMethod::Merge).await;
    double.force_push().await;
    let merge = merge_by(&double, MergeMethod::Merge).await;
    assert_ne!(merge.head, stale.head);
    double.until_mergeable(number).await;
    let error = double
        .merge(&*forge, number, &stale)
        .await
        .expect_err("another head");
    assert_eq!(error.reason(), "HeadMoved");
    let read = forge.get(number).await.expect("read");
    assert_eq!(
        (read.state, read.head_commit),
        (PullRequestState::Open, Some(merge.head.clone()))
    );
    let merged = double.merge(&*forge, number, &merge).await;
    assert_eq!(merged.expect("merged"), MergeResult::Merged);
}

/// People delete the branch when they merge. Otherwise Sluice would open a second pull request.
async fn a_merged_pull_request_is_found_without_its_branch(double: ForgeDouble) {
    let (forge, number) = opened(&double).await;
    let head = double.tip().await;
    double.merge_by_person(number).await;
    double.delete_branch().await;
    let found = forge.find(&branch(BRANCH)).await.expect("found");
    assert_eq!(found.len(), 1);
    let pull = &found[0];
    assert_eq!(
        (pull.number, pull.state, pull.head.as_str()),
        (number, PullRequestState::Merged, BRANCH)
    );
    assert_eq!(pull.head_commit, Some(head));
    assert_eq!(forge.get(number).await.expect("read"), *pull);
}

async fn deleting_the_branch_closes_the_pull_request(double: ForgeDouble) {
    let (forge, number) = opened(&double).await;
    let merge = merge_by(&double, MergeMethod::Merge).await;
    double.delete_branch().await;
    let found = forge.find(&branch(BRANCH)).await.expect("found");
    let found: Vec<_> = found.iter().map(|it| (it.number, it.state)).collect();
    assert_eq!(found, [(number, PullRequestState::Closed)]);
    let error = double
        .merge(&*forge, number, &merge)
        .await
        .expect_err("it is closed");
    assert_eq!(error.reason(), "NotMergeable");
    let error = forge.create(&new_pull()).await.expect_err("no branch");
    assert_eq!(described(&error), ("NotFound", Remedy::Edit));
}

async fn squashing_and_rebasing_merge(double: ForgeDouble) {
    for method in [MergeMethod::Squash, MergeMethod::Rebase] {
        double.force_push().await;
        let (forge, number) = opened(&double).await;
        let merge = merge_by(&double, method).await;
        let merged = double.merge(&*forge, number, &merge).await;
        assert_eq!(merged.expect("merged"), MergeResult::Merged);
        let read = forge.get(number).await.expect("read");
        assert_eq!(read.state, PullRequestState::Merged);
        assert!(read.merge_commit.is_some());
    }
}

async fn a_method_that_the_repository_forbids_waits_for_an_edit(double: ForgeDouble) {
    let (forge, number) = opened(&double).await;
    double.forbid_squash().await;
    let merge = merge_by(&double, MergeMethod::Squash).await;
    let error = double
        .merge(&*forge, number, &merge)
        .await
        .expect_err("no squashing");
    assert_eq!(described(&error), ("Refused", Remedy::Edit), "{error}");
    assert!(error.to_string().contains("squash"), "{error}");
    let merge = merge_by(&double, MergeMethod::Merge).await;
    let merged = double.merge(&*forge, number, &merge).await;
    assert_eq!(merged.expect("merged"), MergeResult::Merged);
}

async fn a_token_that_only_reads_opens_nothing(double: ForgeDouble) {
    let token = double.token_with(&["read:repository", "read:issue"]).await;
    let forge = double.forge_of(double.project(), &token, &double.http);
    let error = forge.create(&new_pull()).await.expect_err("only reading");
    assert_eq!(described(&error), ("Forbidden", Remedy::Edit));
    assert!(error.to_string().contains("scope"), "{error}");
    let found = forge.find(&branch(BRANCH)).await;
    assert_eq!(found.expect("it may read"), []);
}

async fn a_token_without_the_scope_of_issues_opens_but_does_not_comment(double: ForgeDouble) {
    let token = double.token_with(&["write:repository"]).await;
    let forge = double.forge_of(double.project(), &token, &double.http);
    let number = forge.create(&new_pull()).await.expect("one").number;
    let labelled = PullRequestMetadata {
        labels: vec!["promotion".into()],
        ..PullRequestMetadata::default()
    };
    let errors = [
        forge.comment(number, "text").await.expect_err("no scope"),
        forge
            .add_metadata(number, &labelled)
            .await
            .expect_err("no scope"),
    ];
    for error in errors {
        assert_eq!(described(&error), ("Forbidden", Remedy::Edit), "{error}");
    }
}

async fn missing_scopes_are_told_before_they_are_needed(double: ForgeDouble) {
    let told = async |scopes: &[&str]| {
        let token = double.token_with(scopes).await;
        let forge = double.forge_of(double.project(), &token, &double.http);
        forge.check_token(&ALL_RIGHTS).await.expect("told")
    };
    let no_writes = told(&["read:repository", "read:issue"]).await;
    let expected = [
        "the token may not open pull requests or set commit statuses: give it the scope write:repository",
        "the token may not comment on pull requests: give it the scope write:issue",
    ];
    assert_eq!(no_writes.missing_texts(), expected);
    let no_issues = told(&["write:repository", "read:user"]).await;
    assert_eq!(
        no_issues.missing_texts(),
        expected[1..],
        "the notifications tell"
    );
    let no_issues = told(&["write:repository", "read:notification"]).await;
    assert_eq!(no_issues.missing_texts(), expected[1..], "the user tells");
    let untold = told(&["write:repository", "read:notification", "read:user"]).await;
    assert_eq!(untold.missing, []);
    let untold = untold.untold.expect("no refusal names the scopes");
    assert!(untold.contains("does not tell which scopes"), "{untold}");
}
