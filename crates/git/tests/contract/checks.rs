//! What every forge must do, in words that fit all of them.

use std::sync::Arc;
use std::time::Duration;

use git::forge::{
    Error, Forge, MergeMethod, MergeOptions, MergeResult, PullRequest, PullRequestListing,
    PullRequestMetadata, PullRequestState, PullRequestUpdate,
};
use git::names::ObjectId;
use net::{OutboundHttp, Remedy};

use testbed::forge_doubles::{InjectedFault, PROJECT, StoredCommit, TOKEN};

use crate::double::{Arena, BRANCH, branch, new_pull, tip};

fn merge_options() -> MergeOptions {
    MergeOptions {
        head: tip(),
        method: MergeMethod::Merge,
    }
}

/// Merges a pull request that nothing keeps from being merged. A forge that does not say whether checks
/// will come is asked twice.
async fn merge(arena: &Arena, forge: &dyn Forge, number: u64) -> MergeResult {
    if arena.habits().is_looked_at_twice {
        arena.remark("looked at twice");
        let error = forge.merge(number, &merge_options()).await;
        let error = error.expect_err("not yet");
        let reason = (error.reason(), error.remedy());
        assert_eq!(reason, ("NotMergeable", Remedy::RETRY));
    }
    let merged = forge.merge(number, &merge_options()).await;
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
fn listed(arena: &Arena, mut pull: PullRequest) -> PullRequest {
    if !arena.habits().lists_commits {
        (pull.head_commit, pull.merge_commit) = (None, None);
    }
    pull
}

fn whole_story(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(whole_story).unwrap_or_default();
    format!("{error} {error:?} {cause}")
}

pub(crate) async fn a_pull_request_is_found_by_its_head_in_every_state(arena: Arena) {
    let forge = arena.forge();
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
        assert_eq!(opened.head_commit, Some(tip()));
        match state {
            PullRequestState::Closed => {
                let changes = PullRequestUpdate {
                    open: Some(false),
                    ..PullRequestUpdate::default()
                };
                forge.update(opened.number, &changes).await.expect("closed");
            }
            PullRequestState::Merged => {
                merge(&arena, &*forge, opened.number).await;
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
        assert_eq!(listed(&arena, read), found[0]);
    }
    assert_eq!(
        forge
            .find(&branch("promotion-team-app"))
            .await
            .expect("nothing there"),
        []
    );
}

pub(crate) async fn a_duplicate_is_refused(arena: Arena) {
    let forge = arena.forge();
    forge.create(&new_pull()).await.expect("the first");
    let error = forge.create(&new_pull()).await.expect_err("the second");
    assert_eq!(
        (error.reason(), error.remedy()),
        ("AlreadyExists", Remedy::RETRY)
    );
    assert_eq!(forge.find(&branch(BRANCH)).await.expect("found").len(), 1);
}

pub(crate) async fn branches_that_do_not_differ_are_refused(arena: Arena) {
    arena
        .world
        .lock()
        .branches
        .insert(BRANCH.to_owned(), "a".repeat(40));
    let error = arena
        .forge()
        .create(&new_pull())
        .await
        .expect_err("nothing to merge");
    assert_eq!(
        (error.reason(), error.remedy()),
        ("NoDifference", Remedy::Edit)
    );
}

pub(crate) async fn title_body_and_state_change(arena: Arena) {
    let forge = arena.forge();
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
    if arena.habits().reopens {
        assert_eq!(again.expect("opened again").state, PullRequestState::Open);
    } else {
        arena.remark("never reopens");
        let error = again.expect_err("it never opens again");
        assert_eq!((error.reason(), error.remedy()), ("Refused", Remedy::Edit));
    }
}

pub(crate) async fn a_draft_is_one(arena: Arena) {
    let forge = arena.forge();
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
        .merge(opened.number, &merge_options())
        .await
        .expect_err("drafts are not merged");
    assert_eq!(error.reason(), "NotMergeable");
}

pub(crate) async fn wrong_tokens_are_refused_and_not_repeated(arena: Arena) {
    let forge = arena.forge_of(PROJECT, "hunter22hunter22", &arena.http);
    let error = forge.create(&new_pull()).await.expect_err("a wrong token");
    assert_eq!(
        (error.reason(), error.remedy()),
        ("Unauthorized", Remedy::Edit)
    );
    assert!(!whole_story(&error).contains("hunter22"));
    assert!(arena.world.lock().pulls.is_empty());
}

pub(crate) async fn what_is_not_there_is_not_found(arena: Arena) {
    let elsewhere = arena.forge_of("team/nothing", TOKEN, &arena.http);
    let here = arena.forge();
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
        here.comment(77, "x").await.expect_err("no pull request"),
        here.merge(77, &merge_options())
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
}

pub(crate) async fn what_is_forbidden_waits_for_an_edit(arena: Arena) {
    arena.fail_next(fault(
        403,
        &[],
        r#"{"message": "Resource not accessible by personal access token"}"#,
    ));
    let error = arena
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
pub(crate) async fn one_among_hundreds_is_found(arena: Arena) {
    let forge = arena.forge();
    let ours = forge.create(&new_pull()).await.expect("a pull request");
    for number in 0..260 {
        let mut world = arena.world.lock();
        world
            .open("other", "", &format!("other-{number}"), "main")
            .expect("another");
        // Every second one is finished.
        if number % 2 == 0 {
            let last = world.pulls.len() as u64;
            world.merge(last);
        }
    }
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
    assert_eq!(pull_requests.len(), 131);
}

pub(crate) async fn pull_requests_of_forks_are_not_ours(arena: Arena) {
    {
        let mut world = arena.world.lock();
        let pull = world
            .open("from a fork", "team/app/prod", BRANCH, "main")
            .expect("one");
        world.find(pull.number).expect("it is there").head_project = "team/fork".to_owned();
    }
    let forge = arena.forge();
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

pub(crate) async fn merging_twice_is_merging_once(arena: Arena) {
    let forge = arena.forge();
    let opened = forge.create(&new_pull()).await.expect("a pull request");
    let number = opened.number;
    assert_eq!(merge(&arena, &*forge, number).await, MergeResult::Merged);
    let again = forge.merge(number, &merge_options()).await;
    assert_eq!(again.expect("merged before"), MergeResult::Merged);
}

pub(crate) async fn a_moved_head_is_not_merged(arena: Arena) {
    let forge = arena.forge();
    let number = forge
        .create(&new_pull())
        .await
        .expect("a pull request")
        .number;
    let stale = MergeOptions {
        head: ObjectId::new("d".repeat(40)).expect("an id"),
        ..merge_options()
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

pub(crate) async fn conflicts_are_not_merged(arena: Arena) {
    let forge = arena.forge();
    let number = forge
        .create(&new_pull())
        .await
        .expect("a pull request")
        .number;
    arena.world.lock().has_conflicts = true;
    let error = forge
        .merge(number, &merge_options())
        .await
        .expect_err("conflicts");
    assert_eq!(
        (error.reason(), error.remedy()),
        ("NotMergeable", Remedy::RETRY)
    );
}

pub(crate) async fn what_waits_for_checks_is_not_merged_before_they_pass(arena: Arena) {
    let forge = arena.forge();
    let opened = forge.create(&new_pull()).await.expect("a pull request");
    let number = opened.number;
    arena.world.lock().has_pending_checks = true;
    for _ in 0..2 {
        let error = forge.merge(number, &merge_options()).await;
        let error = error.expect_err("not yet");
        let reason = (error.reason(), error.remedy());
        assert_eq!(reason, ("NotMergeable", Remedy::RETRY), "{error}");
    }
    let stored = arena.world.lock().find(number).expect("stored").clone();
    assert!(
        stored.is_open && !stored.waits_for_merge,
        "nobody merges it later"
    );
    arena.world.lock().has_pending_checks = false;
    assert_eq!(merge(&arena, &*forge, number).await, MergeResult::Merged);
}

/// Such as one that a person scheduled, or an older version.
pub(crate) async fn a_scheduled_merge_is_cancelled(arena: Arena) {
    let forge = arena.forge();
    let opened = forge.create(&new_pull()).await.expect("a pull request");
    let number = opened.number;
    assert!(!opened.is_merge_scheduled);
    if !arena.habits().merges_later {
        arena.remark("none are");
        let cancelled = forge.cancel_scheduled_merge(number).await;
        return cancelled.expect("there is nothing to cancel");
    }
    arena.world.lock().has_pending_checks = true;
    let is_scheduled = || {
        let stored = arena.world.lock().find(number).expect("stored").clone();
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
    arena
        .world
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

pub(crate) async fn labels_reviewers_and_comments_arrive(arena: Arena) {
    arena
        .world
        .lock()
        .labels
        .extend((0..70).map(|number| format!("label-{number}")));
    let forge = arena.forge();
    let number = forge
        .create(&new_pull())
        .await
        .expect("a pull request")
        .number;
    let dressing = PullRequestMetadata {
        labels: vec!["label-66".into(), "brand new".into()],
        reviewers: vec!["ann".into(), "team/platform".into()],
    };
    let habits = arena.habits();
    let notes = forge
        .add_metadata(number, &dressing)
        .await
        .expect("dressed");
    let left_out = usize::from(!habits.has_labels) + usize::from(!habits.asks_teams);
    assert_eq!(notes.len(), left_out, "{notes:?}");
    let nothing = forge
        .add_metadata(number, &PullRequestMetadata::default())
        .await;
    assert_eq!(nothing.expect("nothing to do"), [""; 0]);
    forge.comment(number, "superseded").await.expect("said");
    let mut world = arena.world.lock();
    let pull = world.find(number).expect("it is there");
    let (mut labels, mut reviewers) = (Vec::new(), vec!["ann"]);
    if habits.has_labels {
        labels = vec!["label-66", "brand new"];
    }
    if habits.asks_teams {
        reviewers.push("team:platform");
    }
    assert_eq!(
        (&pull.labels, &pull.reviewers),
        (&owned(&labels), &owned(&reviewers))
    );
    assert_eq!(pull.comments, ["superseded"]);
    world.remark = match (habits.has_labels, habits.asks_teams) {
        (false, _) => Some("no labels, teams"),
        (true, false) => Some("no teams"),
        (true, true) => None,
    };
}

pub(crate) async fn one_unknown_reviewer_keeps_no_other_from_being_asked(arena: Arena) {
    let forge = arena.forge();
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
    let mut world = arena.world.lock();
    let mut asked = world.find(number).expect("it is there").reviewers.clone();
    asked.sort();
    asked.dedup();
    assert_eq!(asked, ["ann", "zoe"]);
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(crate) async fn asking_one_more_keeps_those_who_were_asked(arena: Arena) {
    let forge = arena.forge();
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
    let mut world = arena.world.lock();
    let mut asked = world
        .find(opened.number)
        .expect("it is there")
        .reviewers
        .clone();
    asked.sort();
    asked.dedup();
    assert_eq!(asked, ["ann", "zoe"]);
}

pub(crate) async fn a_long_text_is_found_whole(arena: Arena) {
    let forge = arena.forge();
    let mut new = new_pull();
    new.body = format!("{}\nend", "long ".repeat(600));
    forge.create(&new).await.expect("a pull request");
    let found = forge.find(&branch(BRANCH)).await.expect("found");
    assert_eq!(found[0].body, new.body);
}

pub(crate) async fn open_ones_are_listed_and_changes_noticed(arena: Arena) {
    let forge = arena.forge();
    let ours = forge.create(&new_pull()).await.expect("a pull request");
    for number in 0..120 {
        arena
            .world
            .lock()
            .open("other", "", &format!("other-{number}"), "main")
            .expect("another");
    }
    let first = forge.list_open(None).await.expect("a list");
    let PullRequestListing::Changed {
        pull_requests,
        validator,
    } = first.clone()
    else {
        panic!("there is nothing it could be the same as");
    };
    let ours = listed(&arena, ours);
    assert!(pull_requests.contains(&ours));
    // A forge without validators lists them all again.
    let again = forge.list_open(Some(&validator)).await.expect("a list");
    assert!(again == PullRequestListing::Unchanged || again == first);
    let is_conditional = arena.world.lock().not_modified > 0;
    assert_eq!(again == PullRequestListing::Unchanged, is_conditional);
    assert_eq!(is_conditional, arena.habits().has_validators);
    if is_conditional {
        arena.remark("conditional");
    }
    // The oldest is on the last page; its end must be noticed all the same.
    arena.world.lock().merge(ours.number);
    match forge.list_open(Some(&validator)).await.expect("a list") {
        PullRequestListing::Changed { pull_requests, .. } => {
            assert!(!pull_requests.contains(&ours))
        }
        PullRequestListing::Unchanged => panic!("it is not the same"),
    }
}

pub(crate) async fn a_rate_limit_is_honoured_and_shared(arena: Arena) {
    let forge = arena.forge();
    arena.fail_next(fault(429, &[("retry-after", "120")], "slow down"));
    let error = forge.get(1).await.expect_err("too much");
    assert_eq!(
        error.remedy(),
        Remedy::Retry {
            after: Some(Duration::from_secs(120))
        }
    );
    let before = arena.requests();
    let error = arena
        .forge()
        .create(&new_pull())
        .await
        .expect_err("the limit is the credential's");
    assert_eq!(error.reason(), "RateLimited");
    assert_eq!(arena.requests(), before, "we did not even ask");
    let other = arena.forge_of(PROJECT, "another-token", &arena.http);
    assert_eq!(
        other.get(1).await.expect_err("a wrong token").reason(),
        "Unauthorized"
    );
}

pub(crate) async fn a_secondary_limit_is_a_limit(arena: Arena) {
    let said =
        r#"{"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}"#;
    arena.fail_next(fault(403, &[], said));
    let error = arena
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

pub(crate) async fn a_used_up_allowance_is_not_overdrawn(arena: Arena) {
    let date = ("date", "Sun, 15 Nov 2026 10:00:00 GMT");
    let left = [
        date,
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1794736860"),
    ];
    arena.fail_next(fault(404, &left, "{}"));
    let forge = arena.forge();
    assert_eq!(
        forge.get(1).await.expect_err("not there").reason(),
        "NotFound"
    );
    let before = arena.requests();
    let Err(Error::RateLimited { after, .. }) = forge.get(1).await else {
        panic!("the allowance is used up");
    };
    assert!(after <= Duration::from_secs(60) && after > Duration::from_secs(30));
    assert_eq!(arena.requests(), before);
}

pub(crate) async fn a_forge_that_is_not_well_is_asked_again(arena: Arena) {
    let forge = arena.forge();
    for status in [500, 502, 503, 504] {
        arena.fail_next(fault(status, &[], "<html>"));
        let error = forge.create(&new_pull()).await.expect_err("it is not well");
        assert_eq!(
            (error.reason(), error.remedy()),
            ("ForgeUnavailable", Remedy::RETRY)
        );
    }
    forge.create(&new_pull()).await.expect("it is well again");
}

pub(crate) async fn slow_and_endless_and_strange_answers_are_given_up(arena: Arena) {
    let hasty = Arc::new(
        OutboundHttp::new(net::AddressPolicy::UNRESTRICTED)
            .with_timeout(Duration::from_millis(200)),
    );
    arena.fail_next(InjectedFault::NeverEndingBody);
    let forge = arena.forge_of(PROJECT, TOKEN, &hasty);
    let error = forge
        .find(&branch(BRANCH))
        .await
        .expect_err("it never ends");
    assert_eq!(
        (error.reason(), error.remedy()),
        ("ForgeTimedOut", Remedy::RETRY)
    );
    let forge = arena.forge();
    arena.fail_next(InjectedFault::EndlessBody);
    assert_eq!(
        forge
            .find(&branch(BRANCH))
            .await
            .expect_err("too long")
            .reason(),
        "ForgeUnreadable"
    );
    arena.fail_next(fault(200, &[], "<html>login</html>"));
    assert_eq!(
        forge
            .find(&branch(BRANCH))
            .await
            .expect_err("no JSON")
            .reason(),
        "ForgeUnreadable"
    );
}

pub(crate) async fn redirects_are_not_followed(arena: Arena) {
    let target = format!("{}/elsewhere", arena.address);
    arena.fail_next(fault(301, &[("location", &target)], ""));
    let error = arena.forge().get(1).await.expect_err("it moved");
    assert_eq!((error.reason(), error.remedy()), ("Refused", Remedy::Edit));
    assert_eq!(arena.requests(), 1);
}

pub(crate) async fn commits_between_two_are_listed(arena: Arena) {
    let id = |number: usize| ObjectId::new(format!("{number:040x}")).expect("an id");
    let history = (0..150).map(|number| StoredCommit {
        id: id(number).as_str().to_owned(),
        message: format!("Commit {number}\n\nwith a body\n"),
        author: "Ann".to_owned(),
    });
    arena.world.lock().history = history.collect();
    let forge = arena.forge();
    let few = forge.compare((&id(3), &id(6))).await.expect("compared");
    let titles: Vec<_> = few.newest.iter().map(|it| it.title.as_str()).collect();
    assert_eq!(titles, ["Commit 6", "Commit 5", "Commit 4"]);
    assert_eq!(few.total, Some(3));
    assert_eq!(few.newest[0].id, id(6).as_str());
    assert_eq!(few.newest[0].author.as_deref(), Some("Ann"));

    let many = forge.compare((&id(3), &id(149))).await.expect("compared");
    assert_eq!(many.newest[0].title, "Commit 149");
    assert!(many.newest.len() <= 30, "{}", many.newest.len());
    assert!(many.total.is_none_or(|total| total == 146));
    if many.total.is_none() {
        arena.remark("no total");
    }

    let none = forge.compare((&id(3), &id(3))).await.expect("compared");
    assert_eq!((none.newest.len(), none.total), (0, Some(0)));
    let error = forge
        .compare((&id(3), &id(999)))
        .await
        .expect_err("unknown");
    assert_eq!(error.reason(), "NotFound");
}
