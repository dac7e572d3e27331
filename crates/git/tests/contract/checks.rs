//! What every forge must do, in words that fit all of them.

use std::sync::Arc;
use std::time::Duration;

use git::forge::{
    Error, Forge, MergeMethod, MergeOptions, MergeResult, PullRequest, PullRequestListing,
    PullRequestMetadata, PullRequestState, PullRequestUpdate,
};
use git::names::ObjectId;
use net::{OutboundHttp, Remedy};

use testbed::forge_doubles::InjectedFault;

use crate::double::{BRANCH, ForgeDouble, branch, new_pull};

async fn merge_options(double: &ForgeDouble) -> MergeOptions {
    MergeOptions {
        head: double.tip().await,
        method: MergeMethod::Merge,
    }
}

/// Merges a pull request that nothing keeps from being merged. A forge that does not say whether checks
/// will come is asked twice.
async fn merge(double: &ForgeDouble, forge: &dyn Forge, number: u64) -> MergeResult {
    if double.features().is_looked_at_twice {
        double.remark("looked at twice");
        let error = forge.merge(number, &merge_options(double).await).await;
        let error = error.expect_err("not yet");
        let reason = (error.reason(), error.remedy());
        assert_eq!(reason, ("NotMergeable", Remedy::RETRY));
    }
    let options = merge_options(double).await;
    let merged = double.merge(forge, number, &options).await;
    merged.expect("nothing is in the way")
}

fn fault(status: u16, headers: &[(&'static str, &str)], body: &'static str) -> InjectedFault {
    let headers = headers
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect();
    InjectedFault::Answer(status, headers, body)
}

/// As the lists of this forge show it.
fn listed(double: &ForgeDouble, mut pull: PullRequest) -> PullRequest {
    if !double.features().lists_commits {
        (pull.head_commit, pull.merge_commit) = (None, None);
    }
    pull
}

fn whole_story(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(whole_story).unwrap_or_default();
    format!("{error} {error:?} {cause}")
}

pub(crate) async fn a_pull_request_is_found_by_its_head_in_every_state(double: ForgeDouble) {
    let forge = double.forge();
    assert_eq!(forge.find(&branch(BRANCH)).await.expect("nothing yet"), []);
    let mut expected = Vec::new();
    for state in [
        PullRequestState::Closed,
        PullRequestState::Merged,
        PullRequestState::Open,
    ] {
        let opened = forge.create(&new_pull()).await.expect("a pull request");
        assert_eq!(
            (opened.state, opened.head.as_str(), opened.base.as_str()),
            (PullRequestState::Open, BRANCH, "main")
        );
        assert_eq!(opened.head_commit, Some(double.tip().await));
        match state {
            PullRequestState::Closed => {
                let changes = PullRequestUpdate {
                    open: Some(false),
                    ..PullRequestUpdate::default()
                };
                forge.update(opened.number, &changes).await.expect("closed");
            }
            PullRequestState::Merged => {
                merge(&double, &*forge, opened.number).await;
            }
            PullRequestState::Open => {}
        }
        expected.insert(0, (opened.number, state));
        let found = forge.find(&branch(BRANCH)).await.expect("found");
        assert_eq!(
            found
                .iter()
                .map(|pull| (pull.number, pull.state))
                .collect::<Vec<_>>(),
            expected
        );
        let read = forge.get(opened.number).await.expect("read");
        assert_eq!(
            read.merge_commit.is_some(),
            state == PullRequestState::Merged
        );
        assert_eq!(listed(&double, read), found[0]);
    }
    assert_eq!(
        forge
            .find(&branch("promotion-team-app"))
            .await
            .expect("nothing there"),
        []
    );
}

pub(crate) async fn a_duplicate_is_refused(double: ForgeDouble) {
    let forge = double.forge();
    forge.create(&new_pull()).await.expect("the first");
    let error = forge.create(&new_pull()).await.expect_err("the second");
    assert_eq!(
        (error.reason(), error.remedy()),
        ("AlreadyExists", Remedy::RETRY)
    );
    assert_eq!(forge.find(&branch(BRANCH)).await.expect("found").len(), 1);
}

pub(crate) async fn branches_that_do_not_differ_are_refused(double: ForgeDouble) {
    double.equal_branches().await;
    let created = double.forge().create(&new_pull()).await;
    if !double.features().refuses_equal_branches {
        double.remark("opens empty ones");
        created.expect("an empty pull request");
        return;
    }
    let error = created.expect_err("nothing to merge");
    assert_eq!(
        (error.reason(), error.remedy()),
        ("NoDifference", Remedy::Edit)
    );
}

pub(crate) async fn title_body_and_state_change(double: ForgeDouble) {
    let forge = double.forge();
    let number = forge
        .create(&new_pull())
        .await
        .expect("a pull request")
        .number;
    let title = PullRequestUpdate {
        title: Some("other".into()),
        ..PullRequestUpdate::default()
    };
    let seen = forge.update(number, &title).await.expect("changed");
    assert_eq!(
        (seen.title.as_str(), seen.body.as_str()),
        ("other", "team/app/prod")
    );
    let body = PullRequestUpdate {
        body: Some("new\nlines".into()),
        open: Some(false),
        ..PullRequestUpdate::default()
    };
    let seen = forge.update(number, &body).await.expect("changed");
    assert_eq!(
        (seen.title.as_str(), seen.body.as_str(), seen.state),
        ("other", "new\nlines", PullRequestState::Closed)
    );
    let open = PullRequestUpdate {
        open: Some(true),
        ..PullRequestUpdate::default()
    };
    let again = forge.update(number, &open).await;
    if double.features().reopens {
        assert_eq!(again.expect("opened again").state, PullRequestState::Open);
    } else {
        double.remark("never reopens");
        let error = again.expect_err("it never opens again");
        assert_eq!((error.reason(), error.remedy()), ("Refused", Remedy::Edit));
    }
}

pub(crate) async fn a_draft_is_one(double: ForgeDouble) {
    let forge = double.forge();
    let mut new = new_pull();
    new.draft = true;
    let opened = forge.create(&new).await.expect("a draft");
    assert!(opened.draft);
    assert_eq!(opened.title, new.title);
    let title = PullRequestUpdate {
        title: Some("other".into()),
        ..PullRequestUpdate::default()
    };
    let changed = forge.update(opened.number, &title).await.expect("changed");
    assert_eq!((changed.draft, changed.title.as_str()), (true, "other"));
    let error = forge
        .merge(opened.number, &merge_options(&double).await)
        .await
        .expect_err("drafts are not merged");
    assert_eq!(error.reason(), "NotMergeable");
}

pub(crate) async fn wrong_tokens_are_refused_and_not_repeated(double: ForgeDouble) {
    let forge = double.forge_of(double.project(), "hunter22hunter22", &double.http);
    let error = forge.create(&new_pull()).await.expect_err("a wrong token");
    assert_eq!(
        (error.reason(), error.remedy()),
        ("Unauthorized", Remedy::Edit)
    );
    assert!(!whole_story(&error).contains("hunter22"));
    let found = double.forge().find(&branch(BRANCH)).await;
    assert_eq!(found.expect("nothing was opened"), []);
}

pub(crate) async fn what_is_not_there_is_not_found(double: ForgeDouble) {
    let elsewhere = double.forge_of("team/nothing", double.token(), &double.http);
    let here = double.forge();
    let changes = PullRequestUpdate::default();
    let errors: Vec<Error> = vec![
        elsewhere
            .create(&new_pull())
            .await
            .expect_err("no repository"),
        elsewhere
            .find(&branch(BRANCH))
            .await
            .expect_err("no repository"),
        here.get(77).await.expect_err("no pull request"),
        here.update(77, &changes)
            .await
            .expect_err("no pull request"),
        here.merge(77, &merge_options(&double).await)
            .await
            .expect_err("no pull request"),
    ];
    for error in errors {
        assert_eq!(
            (error.reason(), error.remedy()),
            ("NotFound", Remedy::Edit),
            "{error}"
        );
    }
    let error = here.comment(77, "x").await.expect_err("no pull request");
    if double.features().misses_comments {
        assert_eq!(error.reason(), "NotFound");
    } else {
        double.remark("500 for a comment");
        assert_eq!(error.reason(), "ForgeUnavailable");
    }
}

pub(crate) async fn what_is_forbidden_waits_for_an_edit(double: ForgeDouble) {
    double.fail_next(fault(
        403,
        &[],
        r#"{"message": "Resource not accessible by personal access token"}"#,
    ));
    let error = double
        .forge()
        .create(&new_pull())
        .await
        .expect_err("forbidden");
    assert_eq!(
        (error.reason(), error.remedy()),
        ("Forbidden", Remedy::Edit)
    );
    assert!(error.to_string().contains("not accessible"), "{error}");
}

// Defect 13 of the older controller: it saw only the first page.
pub(crate) async fn one_among_hundreds_is_found(double: ForgeDouble) {
    let forge = double.forge();
    let ours = forge.create(&new_pull()).await.expect("a pull request");
    let others = double.open_hundreds().await;
    let found = forge.find(&branch(BRANCH)).await.expect("found");
    assert_eq!(
        found.iter().map(|pull| pull.number).collect::<Vec<_>>(),
        [ours.number]
    );
    let PullRequestListing::Changed { pull_requests, .. } =
        forge.list_open(None).await.expect("a list")
    else {
        panic!("there is nothing it could be the same as");
    };
    assert_eq!(pull_requests.len(), others + 1);
}

pub(crate) async fn pull_requests_of_forks_are_not_ours(double: ForgeDouble) {
    double.open_from_fork().await;
    let forge = double.forge();
    assert_eq!(
        forge.find(&branch(BRANCH)).await.expect("nothing of ours"),
        []
    );
    let PullRequestListing::Changed { pull_requests, .. } =
        forge.list_open(None).await.expect("a list")
    else {
        panic!("there is nothing it could be the same as");
    };
    assert_eq!(pull_requests, []);
}

pub(crate) async fn merging_twice_is_merging_once(double: ForgeDouble) {
    let forge = double.forge();
    let opened = forge.create(&new_pull()).await.expect("a pull request");
    let number = opened.number;
    assert_eq!(merge(&double, &*forge, number).await, MergeResult::Merged);
    let again = forge.merge(number, &merge_options(&double).await).await;
    assert_eq!(again.expect("merged before"), MergeResult::Merged);
}

pub(crate) async fn a_moved_head_is_not_merged(double: ForgeDouble) {
    let forge = double.forge();
    let number = forge
        .create(&new_pull())
        .await
        .expect("a pull request")
        .number;
    let stale = MergeOptions {
        head: ObjectId::new("d".repeat(40)).expect("an id"),
        ..merge_options(&double).await
    };
    let error = forge.merge(number, &stale).await.expect_err("another head");
    assert_eq!(
        (error.reason(), error.remedy()),
        ("HeadMoved", Remedy::RETRY)
    );
    assert_eq!(
        forge.get(number).await.expect("read").state,
        PullRequestState::Open
    );
}

pub(crate) async fn conflicts_are_not_merged(double: ForgeDouble) {
    let forge = double.forge();
    let number = forge
        .create(&new_pull())
        .await
        .expect("a pull request")
        .number;
    double.make_conflict().await;
    let error = forge
        .merge(number, &merge_options(&double).await)
        .await
        .expect_err("conflicts");
    assert_eq!(
        (error.reason(), error.remedy()),
        ("NotMergeable", Remedy::RETRY)
    );
}

pub(crate) async fn what_waits_for_checks_is_not_merged_before_they_pass(double: ForgeDouble) {
    let forge = double.forge();
    let opened = forge.create(&new_pull()).await.expect("a pull request");
    let number = opened.number;
    double.set_pending_checks(true).await;
    for _ in 0..2 {
        let error = forge.merge(number, &merge_options(&double).await).await;
        let error = error.expect_err("not yet");
        let reason = (error.reason(), error.remedy());
        assert_eq!(reason, ("NotMergeable", Remedy::RETRY), "{error}");
    }
    let stored = double.stored(number).await;
    assert!(
        stored.is_open && !stored.waits_for_merge,
        "nobody merges it later"
    );
    double.set_pending_checks(false).await;
    assert_eq!(merge(&double, &*forge, number).await, MergeResult::Merged);
}

/// Such as one that a person scheduled, or an older version.
pub(crate) async fn a_scheduled_merge_is_cancelled(double: ForgeDouble) {
    let forge = double.forge();
    let opened = forge.create(&new_pull()).await.expect("a pull request");
    let number = opened.number;
    assert!(!opened.is_merge_scheduled);
    if !double.features().merges_later {
        double.remark("none are");
        let cancelled = forge.cancel_scheduled_merge(number).await;
        return cancelled.expect("there is nothing to cancel");
    }
    double.state.lock().has_pending_checks = true;
    let is_scheduled = || {
        let stored = double.state.lock().find(number).expect("stored").clone();
        stored.waits_for_merge
    };
    let shown = async || {
        let alone = forge.get(number).await.expect("read").is_merge_scheduled;
        let listed = forge.list_open(None).await.expect("a list");
        let PullRequestListing::Changed { pull_requests, .. } = listed else {
            panic!("there is nothing it could be the same as");
        };
        (alone, pull_requests[0].is_merge_scheduled)
    };
    double
        .state
        .lock()
        .find(number)
        .expect("stored")
        .waits_for_merge = true;
    assert_eq!(shown().await, (true, true));
    for _ in 0..2 {
        let cancelled = forge.cancel_scheduled_merge(number).await;
        cancelled.expect("cancelled");
        assert!(!is_scheduled());
    }
    assert_eq!(shown().await, (false, false));
}

pub(crate) async fn labels_reviewers_and_comments_arrive(double: ForgeDouble) {
    double.create_labels().await;
    let forge = double.forge();
    let number = forge
        .create(&new_pull())
        .await
        .expect("a pull request")
        .number;
    let dressing = PullRequestMetadata {
        labels: vec!["label-66".into(), "brand new".into()],
        reviewers: vec!["ann".into(), "team/platform".into()],
    };
    let features = double.features();
    let notes = forge
        .add_metadata(number, &dressing)
        .await
        .expect("dressed");
    let left_out = usize::from(!features.has_labels) + usize::from(!features.asks_teams);
    assert_eq!(notes.len(), left_out, "{notes:?}");
    let nothing = forge
        .add_metadata(number, &PullRequestMetadata::default())
        .await;
    assert_eq!(nothing.expect("nothing to do"), [""; 0]);
    forge.comment(number, "superseded").await.expect("said");
    let pull = double.stored(number).await;
    let (mut labels, mut reviewers) = (Vec::new(), vec!["ann"]);
    if features.has_labels {
        labels = vec!["label-66", "brand new"];
    }
    if features.asks_teams {
        reviewers.push("team:platform");
    }
    assert_eq!(sorted(pull.labels), sorted(owned(&labels)));
    assert_eq!(sorted(pull.reviewers), sorted(owned(&reviewers)));
    assert_eq!(pull.comments, ["superseded"]);
    double.state.lock().remark = match (features.has_labels, features.asks_teams) {
        (false, _) => Some("no labels, teams"),
        (true, false) => Some("no teams"),
        (true, true) => None,
    };
}

pub(crate) async fn one_unknown_reviewer_keeps_no_other_from_being_asked(double: ForgeDouble) {
    let forge = double.forge();
    let number = forge
        .create(&new_pull())
        .await
        .expect("a pull request")
        .number;
    let dressing = |names: &[&str]| PullRequestMetadata {
        reviewers: owned(names),
        ..PullRequestMetadata::default()
    };
    for names in [&["zoe", "nobody-here", "ann"][..], &["nobody-here"]] {
        let notes = forge
            .add_metadata(number, &dressing(names))
            .await
            .expect("asked");
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].starts_with("nobody-here was not asked"),
            "{notes:?}"
        );
    }
    let mut asked = sorted(double.stored(number).await.reviewers);
    asked.dedup();
    assert_eq!(asked, ["ann", "zoe"]);
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(crate) async fn asking_one_more_keeps_those_who_were_asked(double: ForgeDouble) {
    let forge = double.forge();
    let opened = forge.create(&new_pull()).await.expect("a pull request");
    for name in ["ann", "zoe", "ann"] {
        let dressing = PullRequestMetadata {
            reviewers: vec![name.into()],
            ..PullRequestMetadata::default()
        };
        forge
            .add_metadata(opened.number, &dressing)
            .await
            .expect("asked");
    }
    let title = PullRequestUpdate {
        title: Some("other".into()),
        ..PullRequestUpdate::default()
    };
    forge.update(opened.number, &title).await.expect("changed");
    let mut asked = sorted(double.stored(opened.number).await.reviewers);
    asked.dedup();
    assert_eq!(asked, ["ann", "zoe"]);
}

pub(crate) async fn a_long_text_is_found_whole(double: ForgeDouble) {
    let forge = double.forge();
    let mut new = new_pull();
    new.body = format!("{}\nend", "long ".repeat(600));
    forge.create(&new).await.expect("a pull request");
    let found = forge.find(&branch(BRANCH)).await.expect("found");
    assert_eq!(found[0].body, new.body);
}

pub(crate) async fn open_ones_are_listed_and_changes_noticed(double: ForgeDouble) {
    let forge = double.forge();
    let ours = forge.create(&new_pull()).await.expect("a pull request");
    double.open_another_page().await;
    let first = forge.list_open(None).await.expect("a list");
    let PullRequestListing::Changed {
        pull_requests,
        validator,
    } = first.clone()
    else {
        panic!("there is nothing it could be the same as");
    };
    let ours = listed(&double, ours);
    assert!(pull_requests.contains(&ours));
    // A forge without validators lists them all again.
    let again = forge.list_open(Some(&validator)).await.expect("a list");
    assert!(again == PullRequestListing::Unchanged || again == first);
    let is_conditional = double.state.lock().not_modified > 0;
    assert_eq!(again == PullRequestListing::Unchanged, is_conditional);
    assert_eq!(is_conditional, double.features().has_validators);
    if is_conditional {
        double.remark("conditional");
    }
    // The oldest is on the last page; its end must be noticed all the same.
    double.merge_by_person(ours.number).await;
    match forge.list_open(Some(&validator)).await.expect("a list") {
        PullRequestListing::Changed { pull_requests, .. } => {
            assert!(!pull_requests.contains(&ours))
        }
        PullRequestListing::Unchanged => panic!("it is not the same"),
    }
}

pub(crate) async fn a_rate_limit_is_honoured_and_shared(double: ForgeDouble) {
    let forge = double.forge();
    double.fail_next(fault(429, &[("retry-after", "120")], "slow down"));
    let error = forge.get(1).await.expect_err("too much");
    assert_eq!(
        error.remedy(),
        Remedy::Retry {
            after: Some(Duration::from_secs(120))
        }
    );
    let before = double.requests();
    let error = double
        .forge()
        .create(&new_pull())
        .await
        .expect_err("the limit is the credential's");
    assert_eq!(error.reason(), "RateLimited");
    assert_eq!(double.requests(), before, "we did not even ask");
    let other = double.forge_of(double.project(), "another-token", &double.http);
    assert_eq!(
        other.get(1).await.expect_err("a wrong token").reason(),
        "Unauthorized"
    );
}

pub(crate) async fn a_secondary_limit_is_a_limit(double: ForgeDouble) {
    let said =
        r#"{"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}"#;
    double.fail_next(fault(403, &[], said));
    let error = double
        .forge()
        .create(&new_pull())
        .await
        .expect_err("too much");
    assert_eq!(
        error.remedy(),
        Remedy::Retry {
            after: Some(Duration::from_secs(60))
        }
    );
}

pub(crate) async fn a_used_up_allowance_is_not_overdrawn(double: ForgeDouble) {
    let date = ("date", "Sun, 15 Nov 2026 10:00:00 GMT");
    let left = [
        date,
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1794736860"),
    ];
    double.fail_next(fault(404, &left, "{}"));
    let forge = double.forge();
    assert_eq!(
        forge.get(1).await.expect_err("not there").reason(),
        "NotFound"
    );
    let before = double.requests();
    let Err(Error::RateLimited { after, .. }) = forge.get(1).await else {
        panic!("the allowance is used up");
    };
    assert!(after <= Duration::from_secs(60) && after > Duration::from_secs(30));
    assert_eq!(double.requests(), before);
}

pub(crate) async fn a_forge_that_is_not_well_is_asked_again(double: ForgeDouble) {
    let forge = double.forge();
    for status in [500, 502, 503, 504] {
        double.fail_next(fault(status, &[], "<html>"));
        let error = forge.create(&new_pull()).await.expect_err("it is not well");
        assert_eq!(
            (error.reason(), error.remedy()),
            ("ForgeUnavailable", Remedy::RETRY)
        );
    }
    forge.create(&new_pull()).await.expect("it is well again");
}

pub(crate) async fn slow_and_endless_and_strange_answers_are_given_up(double: ForgeDouble) {
    let hasty = Arc::new(
        OutboundHttp::new(net::AddressPolicy::UNRESTRICTED)
            .with_timeout(Duration::from_millis(200)),
    );
    double.fail_next(InjectedFault::NeverEndingBody);
    let forge = double.forge_of(double.project(), double.token(), &hasty);
    let error = forge
        .find(&branch(BRANCH))
        .await
        .expect_err("it never ends");
    assert_eq!(
        (error.reason(), error.remedy()),
        ("ForgeTimedOut", Remedy::RETRY)
    );
    let forge = double.forge();
    double.fail_next(InjectedFault::EndlessBody);
    assert_eq!(
        forge
            .find(&branch(BRANCH))
            .await
            .expect_err("too long")
            .reason(),
        "ForgeUnreadable"
    );
    double.fail_next(fault(200, &[], "<html>login</html>"));
    assert_eq!(
        forge
            .find(&branch(BRANCH))
            .await
            .expect_err("no JSON")
            .reason(),
        "ForgeUnreadable"
    );
}

pub(crate) async fn redirects_are_not_followed(double: ForgeDouble) {
    let target = format!("{}/elsewhere", double.address);
    double.fail_next(fault(301, &[("location", &target)], ""));
    let error = double.forge().get(1).await.expect_err("it moved");
    assert_eq!((error.reason(), error.remedy()), ("Refused", Remedy::Edit));
    assert!(error.to_string().contains("the API has moved"), "{error}");
    assert_eq!(double.requests(), 1);
}

pub(crate) async fn commits_between_two_are_listed(double: ForgeDouble) {
    let history = double.commit_history().await;
    let id = |number: usize| &history[number];
    let forge = double.forge();
    let few = forge.compare((id(3), id(6))).await.expect("compared");
    let titles: Vec<_> = few.newest.iter().map(|it| it.title.as_str()).collect();
    assert_eq!(titles, ["Commit 6", "Commit 5", "Commit 4"]);
    assert_eq!(few.total, Some(3));
    assert_eq!(few.newest[0].id, id(6).as_str());
    assert_eq!(few.newest[0].author.as_deref(), Some("Ann"));

    let many = forge.compare((id(3), id(149))).await.expect("compared");
    assert_eq!(many.newest[0].title, "Commit 149");
    assert!(many.newest.len() <= 30, "{}", many.newest.len());
    assert!(many.total.is_none_or(|total| total == 146));
    if many.total.is_none() {
        double.remark("no total");
    }

    let none = forge.compare((id(3), id(3))).await.expect("compared");
    assert_eq!((none.newest.len(), none.total), (0, Some(0)));
    let unknown = ObjectId::new("0".repeat(37) + "3e7").expect("an id");
    let error = forge.compare((id(3), &unknown)).await.expect_err("unknown");
    assert_eq!(error.reason(), "NotFound");
}
