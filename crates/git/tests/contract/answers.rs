//! Answers that a forge gives now and then, and what Sluice concludes from them.

use git::forge::{
    CommitState, CommitStatus, ForgeProduct, MergeMethod, MergeOptions, MergeResult,
    PullRequestHead, PullRequestMetadata, PullRequestState, PullRequestUpdate,
};
use net::Remedy;
use testbed::forge_doubles::InjectedFault::{self, Answer, AsUsual, CarriedOut};
use testbed::forge_doubles::{azure, bitbucket_cloud, bitbucket_server, gitea, github, gitlab};

use crate::double::{BRANCH, ForgeDouble, branch, new_pull, tip};

const REFUSED: &str = r#"{"message": "Pull Request is not mergeable"}"#;
const OUT_OF_DATE: &str =
    r#"{"errors": [{"exceptionName": "com.example.PullRequestOutOfDateException"}]}"#;

async fn start(kind: ForgeProduct) -> ForgeDouble {
    let router = match kind {
        ForgeProduct::GitHub => github::router,
        ForgeProduct::Gitea => gitea::router,
        ForgeProduct::GitLab => gitlab::router,
        ForgeProduct::BitbucketServer => bitbucket_server::router,
        ForgeProduct::BitbucketCloud => bitbucket_cloud::router,
        ForgeProduct::AzureDevOps => azure::router,
    };
    ForgeDouble::start(kind, router).await
}

fn answer(status: u16, body: &'static str) -> InjectedFault {
    Answer(status, Vec::new(), body)
}

fn head(number: u64) -> PullRequestHead {
    PullRequestHead {
        number,
        url: String::new(),
        branch: branch(BRANCH),
        commit: tip(),
    }
}

fn merge_options() -> MergeOptions {
    MergeOptions {
        head: tip(),
        method: MergeMethod::Merge,
    }
}

/// What comes of the merge of a new pull request: `Merged`, `UnderWay`, or the reason of the error.
async fn merge(kind: ForgeProduct, faults: Vec<InjectedFault>) -> String {
    let double = start(kind).await;
    let forge = double.forge();
    let number = forge.create(&new_pull()).await.expect("one").number;
    if kind == ForgeProduct::GitLab {
        let early = forge.merge(number, &merge_options()).await;
        early.expect_err("a pipeline may still start");
    }
    double.state.lock().faults = faults.into();
    let merged = forge.merge(number, &merge_options()).await;
    merged.map_or_else(|it| it.reason().to_owned(), |it| format!("{it:?}"))
}

#[tokio::test]
async fn every_answer_to_a_merge_has_its_meaning() {
    use ForgeProduct::{BitbucketCloud, BitbucketServer, GitHub, GitLab, Gitea};
    let queue = r#"{"message": "Changes must be made through the merge queue"}"#;
    for (kind, faults, expected) in [
        (
            GitHub,
            vec![AsUsual, answer(405, queue)],
            "MergeQueueRequired",
        ),
        (GitHub, vec![AsUsual, answer(405, REFUSED)], "NotMergeable"),
        (GitHub, vec![AsUsual, answer(422, REFUSED)], "NotMergeable"),
        (GitHub, vec![AsUsual, CarriedOut(405, REFUSED)], "Merged"),
        (GitHub, vec![AsUsual, answer(409, "{}")], "HeadMoved"),
        (GitHub, vec![AsUsual, answer(403, "{}")], "Forbidden"),
        (Gitea, vec![answer(200, "")], "Merged"),
        (Gitea, vec![CarriedOut(405, REFUSED)], "Merged"),
        (Gitea, vec![answer(405, REFUSED)], "NotMergeable"),
        (GitLab, vec![AsUsual, answer(409, "{}")], "HeadMoved"),
        (GitLab, vec![AsUsual, answer(401, "{}")], "Forbidden"),
        (GitLab, vec![AsUsual, answer(405, REFUSED)], "NotMergeable"),
        (GitLab, vec![AsUsual, CarriedOut(405, REFUSED)], "Merged"),
        (
            BitbucketServer,
            vec![AsUsual, CarriedOut(409, REFUSED)],
            "Merged",
        ),
        (
            BitbucketServer,
            vec![AsUsual, answer(409, REFUSED)],
            "NotMergeable",
        ),
        (BitbucketCloud, vec![AsUsual, answer(202, "")], "UnderWay"),
        (
            BitbucketCloud,
            vec![AsUsual, answer(409, "{}")],
            "NotMergeable",
        ),
    ] {
        let about = format!("{kind:?} {faults:?}");
        assert_eq!(merge(kind, faults).await, expected, "{about}");
    }
}

/// What comes of opening a pull request.
async fn create(kind: ForgeProduct, faults: Vec<InjectedFault>) -> String {
    let double = start(kind).await;
    double.state.lock().faults = faults.into();
    let created = double.forge().create(&new_pull()).await;
    created.map_or_else(|it| it.reason().to_owned(), |_| "Opened".to_owned())
}

#[tokio::test]
async fn only_branches_that_do_not_differ_are_called_so() {
    let equal = r#"{"message": "there are no changes between the head and the base"}"#;
    let pulled = r#"{"error": {"message": "There are no changes to be pulled"}}"#;
    let other = r#"{"message": "the title is too long"}"#;
    let (gitea, cloud) = (ForgeProduct::Gitea, ForgeProduct::BitbucketCloud);
    for (kind, faults, expected) in [
        (gitea, vec![answer(422, equal)], "NoDifference"),
        (gitea, vec![answer(422, other)], "Refused"),
        (cloud, vec![AsUsual, answer(400, pulled)], "NoDifference"),
        (cloud, vec![AsUsual, answer(400, other)], "Refused"),
        (
            cloud,
            vec![AsUsual, answer(503, pulled)],
            "ForgeUnavailable",
        ),
    ] {
        let about = format!("{kind:?} {faults:?}");
        assert_eq!(create(kind, faults).await, expected, "{about}");
    }
}

/// Statuses that others set, such as ours, are a pipeline of their own.
#[tokio::test]
async fn statuses_of_others_do_not_stand_for_a_pipeline() {
    let double = start(ForgeProduct::GitLab).await;
    let forge = double.forge();
    let number = forge.create(&new_pull()).await.expect("one").number;
    let head = head(number);
    let status = CommitStatus {
        context: "promotion".to_owned(),
        state: CommitState::Success,
        description: "fine".to_owned(),
        url: None,
    };
    forge.set_commit_status(&head, &status).await.expect("set");
    let early = forge.merge(number, &merge_options()).await;
    let early = early.expect_err("a pipeline may still start");
    assert!(early.to_string().contains("may still start"), "{early}");
    let merged = forge.merge(number, &merge_options()).await;
    assert_eq!(merged.expect("none has started"), MergeResult::Merged);
    // One that ran has passed, and another one does not start.
    let passed = r#"{"iid": 9, "web_url": "", "title": "", "description": null, "state": "opened",
        "source_branch": "b", "target_branch": "main", "source_project_id": 1, "target_project_id": 1,
        "detailed_merge_status": "mergeable", "head_pipeline": {"status": "success", "source": "push"}}"#;
    double.state.lock().faults = vec![answer(200, passed), answer(401, "{}")].into();
    let error = forge.merge(9, &merge_options()).await.expect_err("refused");
    assert_eq!(
        error.reason(),
        "Forbidden",
        "the merge was requested at once"
    );
}

#[tokio::test]
async fn a_refused_status_is_not_cancelled_unless_it_is_stuck() {
    let double = start(ForgeProduct::GitLab).await;
    let head = head(1);
    let status = CommitStatus {
        context: "promotion".to_owned(),
        state: CommitState::Pending,
        description: "waits".to_owned(),
        url: None,
    };
    double.fail_next(answer(400, r#"{"message": "the pipeline is archived"}"#));
    let refused = double.forge().set_commit_status(&head, &status).await;
    let refused = refused.expect_err("refused");
    assert!(refused.to_string().contains("archived"), "{refused}");
    assert_eq!(double.requests(), 1);
}

#[tokio::test]
async fn an_update_is_sent_again_after_somebody_elses_and_not_for_ever() {
    let double = start(ForgeProduct::BitbucketServer).await;
    let forge = double.forge();
    let number = forge.create(&new_pull()).await.expect("one").number;
    let title = |title: &str| PullRequestUpdate {
        title: Some(title.to_owned()),
        ..PullRequestUpdate::default()
    };
    let updates = || {
        let mut state = double.state.lock();
        let log = std::mem::take(&mut state.log);
        log.iter().filter(|line| line.starts_with("PUT")).count()
    };
    let pull = forge.update(number, &title("one")).await.expect("updated");
    assert_eq!((pull.title.as_str(), updates()), ("one", 1));
    double.state.lock().faults = vec![AsUsual, answer(409, OUT_OF_DATE)].into();
    let pull = forge.update(number, &title("two")).await.expect("updated");
    assert_eq!((pull.title.as_str(), updates()), ("two", 2));
    let conflict = || [AsUsual, answer(409, OUT_OF_DATE)];
    double.state.lock().faults = [conflict(), conflict(), conflict()].concat().into();
    forge
        .update(number, &title("three"))
        .await
        .expect_err("out of date");
    assert_eq!(updates(), 3);
}

#[tokio::test]
async fn an_open_pull_request_need_not_be_reopened() {
    let double = start(ForgeProduct::BitbucketCloud).await;
    let forge = double.forge();
    let number = forge.create(&new_pull()).await.expect("one").number;
    let open = PullRequestUpdate {
        open: Some(true),
        ..PullRequestUpdate::default()
    };
    let pull = forge.update(number, &open).await.expect("it is open");
    assert_eq!(pull.state, PullRequestState::Open);
    let close = PullRequestUpdate {
        open: Some(false),
        ..PullRequestUpdate::default()
    };
    for _ in 0..2 {
        let pull = forge.update(number, &close).await.expect("it is closed");
        assert_eq!(pull.state, PullRequestState::Closed);
    }
}

fn reviewers(names: &[&str]) -> PullRequestMetadata {
    PullRequestMetadata {
        reviewers: names.iter().map(|name| (*name).to_owned()).collect(),
        ..PullRequestMetadata::default()
    }
}

#[tokio::test]
async fn a_forge_that_is_not_well_is_asked_for_reviews_again() {
    for before in [vec![], vec![AsUsual]] {
        let double = start(ForgeProduct::GitHub).await;
        let forge = double.forge();
        let number = forge.create(&new_pull()).await.expect("one").number;
        double.state.lock().faults = before.into();
        double.fail_next(answer(503, ""));
        let wanted = reviewers(&["nobody-here", "ann"]);
        let asked = forge.add_metadata(number, &wanted).await;
        let error = asked.expect_err("it is not well");
        assert_eq!(error.remedy(), Remedy::RETRY, "{error}");
    }
}

#[tokio::test]
async fn a_reviewer_without_an_id_is_looked_for() {
    let double = start(ForgeProduct::BitbucketCloud).await;
    let forge = double.forge();
    let number = forge.create(&new_pull()).await.expect("one").number;
    for name in ["nobody-here", "{nobody-here"] {
        let notes = forge.add_metadata(number, &reviewers(&[name])).await;
        let expected = format!(
            "{name} was not asked for a review: cannot find a reviewer: the forge refused it (the \
             workspace has no member {name:?})"
        );
        assert_eq!(notes.expect("asked"), [expected]);
    }

    let double = start(ForgeProduct::AzureDevOps).await;
    let forge = double.forge();
    let number = forge.create(&new_pull()).await.expect("one").number;
    let is_looked_for = async |name: &str| {
        double.state.lock().log.clear();
        let asked = forge.add_metadata(number, &reviewers(&[name])).await;
        drop(asked);
        let log = double.state.lock().log.clone();
        log.iter().any(|line| line.ends_with("/_apis/identities"))
    };
    assert!(!is_looked_for("0123abcd-0123-abcd-0123-0123456789ab").await);
    for name in ["abba", "somebody.whose-name.has-36.characters"] {
        assert!(is_looked_for(name).await, "{name}");
    }
}
