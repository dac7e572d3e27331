//! Commit statuses and comments: what every forge must do.

use git::forge::{CommentId, CommitState, CommitStatus, Forge, PullRequestHead};
use net::Remedy;

use testbed::forge_doubles::InjectedFault;

use crate::double::{BRANCH, ForgeDouble, branch, new_pull};

/// The line that the comment is found by.
const LINE: &str = "Sluice-Comment: team/app/prod";

async fn opened(double: &ForgeDouble, forge: &dyn Forge) -> PullRequestHead {
    let pull = forge.create(&new_pull()).await.expect("a pull request");
    PullRequestHead {
        number: pull.number,
        url: pull.url,
        branch: branch(BRANCH),
        commit: double.tip().await,
    }
}

fn status(state: CommitState, description: &str) -> CommitStatus {
    CommitStatus {
        context: "sluice/prod".to_owned(),
        state,
        description: description.to_owned(),
        url: Some("https://sluice.example.com/pipelines/team/app".to_owned()),
    }
}

/// The word of the forge for a state, whatever it is called there.
fn state_of(shown: &str) -> CommitState {
    let word = shown.split([' ', ':']).nth(1).unwrap_or_default();
    match word {
        "pending" | "INPROGRESS" => CommitState::Pending,
        "success" | "SUCCESSFUL" | "succeeded" => CommitState::Success,
        "failure" | "failed" | "FAILED" => CommitState::Failure,
        other => panic!("no state of a commit: {other}"),
    }
}

pub(crate) async fn the_last_commit_status_of_a_context_counts(double: ForgeDouble) {
    let forge = double.forge();
    let head = opened(&double, &*forge).await;
    // Twice in a row, too: with the same text after a crash, or with another one.
    let steps = [
        (CommitState::Pending, "frozen until Monday"),
        (CommitState::Pending, "frozen until Monday"),
        (CommitState::Pending, "frozen until Tuesday"),
        (CommitState::Success, "ready to be merged"),
        (CommitState::Success, "ready to be merged"),
        (CommitState::Pending, "frozen again"),
        (CommitState::Failure, "rejected by ann"),
        (CommitState::Success, "ready to be merged"),
    ];
    for (state, description) in steps {
        let wanted = status(state, description);
        let set = forge.set_commit_status(&head, &wanted);
        set.await.expect("set");
        let shown = double.statuses().await;
        let [shown] = shown.as_slice() else {
            panic!("one status: {shown:?}");
        };
        assert!(shown.starts_with("sluice/prod "), "{shown}");
        assert!(shown.ends_with(&format!(": {description}")), "{shown}");
        assert_eq!(state_of(shown), state, "{shown}");
    }
}

pub(crate) async fn long_texts_and_missing_links_are_made_to_fit(double: ForgeDouble) {
    let forge = double.forge();
    let head = opened(&double, &*forge).await;
    let long = CommitStatus {
        context: format!("sluice/{}", "production-".repeat(8)),
        url: None,
        ..status(CommitState::Pending, &"too long ä ".repeat(60))
    };
    let set = forge.set_commit_status(&head, &long);
    set.await.expect("set");
    let shown = double.statuses().await;
    assert!(shown[0].ends_with('…'), "{shown:?}");
}

pub(crate) async fn a_status_on_an_unknown_commit_waits_for_an_edit(double: ForgeDouble) {
    let forge = double.forge();
    let mut head = opened(&double, &*forge).await;
    head.number = 77;
    head.commit = git::names::ObjectId::new("d".repeat(40)).expect("an id");
    let wanted = status(CommitState::Success, "x");
    let set = forge.set_commit_status(&head, &wanted);
    let error = set.await.expect_err("no such commit");
    if double.features().misses_comments {
        return assert_eq!(error.remedy(), Remedy::Edit, "{error}");
    }
    double.remark("500");
    assert_eq!(error.reason(), "ForgeUnavailable", "{error}");
}

pub(crate) async fn a_missing_right_to_report_waits_for_an_edit(double: ForgeDouble) {
    let forge = double.forge();
    let head = opened(&double, &*forge).await;
    let forbidden = || InjectedFault::Answer(403, Vec::new(), r#"{"message": "no such scope"}"#);
    double.fail_next(forbidden());
    let wanted = status(CommitState::Success, "x");
    let set = forge.set_commit_status(&head, &wanted);
    let error = set.await.expect_err("forbidden");
    assert_eq!(
        ("Forbidden", Remedy::Edit),
        (error.reason(), error.remedy())
    );
    double.fail_next(forbidden());
    let error = forge.comment(head.number, "x").await;
    let error = error.expect_err("forbidden");
    assert_eq!(
        ("Forbidden", Remedy::Edit),
        (error.reason(), error.remedy())
    );
}

pub(crate) async fn a_comment_is_found_again_and_edited_in_place(double: ForgeDouble) {
    let forge = double.forge();
    let number = opened(&double, &*forge).await.number;
    let found = || forge.find_comment(number, LINE);
    assert_eq!(found().await.expect("nothing yet"), None);
    let quoted = format!("I quote:\n> {LINE}\n{LINE} again");
    let others = double.comment_often(number, &quoted).await;
    assert_eq!(found().await.expect("not ours"), None);
    let text = format!("waits\n\n{LINE}\n");
    let ours = forge.comment(number, &text).await.expect("said");
    // Others may repeat the line later.
    forge.comment(number, &text).await.expect("said");
    assert_eq!(found().await.expect("found"), Some(ours.clone()));
    let edited = format!("merged\n\n{LINE}\n");
    for _ in 0..2 {
        let edit = forge.edit_comment(number, &ours, &edited);
        edit.await.expect("edited");
    }
    assert_eq!(found().await.expect("found"), Some(ours));
    let comments = double.stored(number).await.comments;
    assert_eq!((comments.len(), &comments[others]), (others + 2, &edited));
}

pub(crate) async fn a_deleted_comment_is_not_found(double: ForgeDouble) {
    let forge = double.forge();
    let number = opened(&double, &*forge).await.number;
    let ours = forge.comment(number, "x").await.expect("said");
    double.delete_comments(number).await;
    for id in [ours, CommentId::new("4711")] {
        let error = forge.edit_comment(number, &id, "y").await;
        let error = error.expect_err("it is gone");
        assert_eq!((error.reason(), error.remedy()), ("NotFound", Remedy::Edit));
    }
}

pub(crate) async fn a_promotion_is_shown_with_three_writes(double: ForgeDouble) {
    let forge = double.forge();
    let head = opened(&double, &*forge).await;
    let before = double.state.lock().log.len();
    let wanted = status(CommitState::Success, "ready to be merged");
    let set = forge.set_commit_status(&head, &wanted);
    set.await.expect("set");
    let found = forge.find_comment(head.number, LINE).await;
    assert_eq!(found.expect("looked for"), None);
    let ours = forge.comment(head.number, LINE).await.expect("said");
    let edit = forge.edit_comment(head.number, &ours, "merged");
    edit.await.expect("edited");
    let mut state = double.state.lock();
    let calls = state.log.split_off(before);
    let is_read = |call: &&String| call.starts_with("GET ");
    let reads = calls.iter().filter(is_read).count();
    assert_eq!(calls.len() - reads, 3, "{calls:?}");
    state.remark = match reads {
        1 => Some("1 read"),
        2 => Some("2 reads"),
        _ => panic!("{calls:?}"),
    };
}
