//! What people read about a promotion on its pull request.

use api::{
    Time,
    pipeline::{CoveringFreeze, FeedbackKind},
    promotion::{Phase, PromotionStatus, ShownFeedback},
};
use planner::{
    AttemptInput, FeedbackUpdate, ObservedPullRequest, feedback_update, is_first_refusal,
};

use crate::{
    attempt::next_of,
    drawing::{World, ago, draw, now},
};

const OPEN: &str = "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge";

/// A drawing whose pull requests show what they do by default.
fn world(drawing: &str) -> World {
    let mut world = draw(drawing);
    let settings = world.pipeline.spec.promotion.as_ref().unwrap();
    let promotion = world.promotions.last_mut().unwrap();
    promotion.spec.strategy = settings.strategy.clone();
    promotion.status.as_mut().unwrap().commit = Some("c0ffee".to_owned());
    world
}

fn update_of(world: &World, status: &PromotionStatus) -> Option<FeedbackUpdate> {
    let input = AttemptInput {
        pipeline: Some(&world.pipeline),
        promotions: &world.promotions,
        pull_request: ObservedPullRequest::NotQueried,
        edited: false,
    };
    let promotion = world.promotions.last().unwrap();
    let dashboard = Some("https://sluice.example.com/");
    feedback_update(promotion, status, &input, dashboard, now())
}

/// The update after the pull request was seen so, and the promotion with what is stored then.
fn seen(world: &mut World, pull_request: &str) -> Option<FeedbackUpdate> {
    let mut status = next_of(world, pull_request).status;
    let update = update_of(world, &status);
    if let Some(update) = &update {
        store(&mut status, update);
    }
    world.promotions.last_mut().unwrap().status = Some(status);
    update
}

fn store(status: &mut PromotionStatus, update: &FeedbackUpdate) {
    let mut shown = update.shown.clone();
    shown.pull_request = Some(7);
    let comment = update.comment.as_ref().map(|it| it.digest.clone());
    shown.comment_digest = comment.or(shown.comment_digest);
    shown.commit_status = update.commit_status.clone().or(shown.commit_status);
    status.feedback = Some(shown);
}

/// `state: description` of the commit status, `-` where it is not written.
fn status_of(update: Option<FeedbackUpdate>) -> String {
    let update = update.expect("something is written");
    assert_eq!(update.context, "sluice/prod");
    match update.commit_status {
        Some(it) => format!("{:?} on {}: {}", it.state, it.commit, it.description),
        None => "-".to_owned(),
    }
}

fn frozen(world: &mut World) {
    let freeze = CoveringFreeze {
        name: "stop".to_owned(),
        reason: "no | releases\n@everyone".to_owned(),
        environments: vec!["prod".to_owned()],
        ..CoveringFreeze::default()
    };
    world.pipeline.status.as_mut().unwrap().freezes = vec![freeze];
}

#[test]
fn the_commit_status_says_what_keeps_it_from_being_merged() {
    let mut world = world(OPEN);
    let ready = "Success on c0ffee: ready to be merged";
    assert_eq!(status_of(seen(&mut world, "open")), ready);
    assert_eq!(seen(&mut world, "open"), None, "nothing has changed");
    frozen(&mut world);
    let text = status_of(seen(&mut world, "open"));
    assert!(
        text.starts_with("Pending on c0ffee: prod is frozen by stop"),
        "{text}"
    );
    assert_eq!(seen(&mut world, "open"), None, "nothing has changed");
    world.pipeline.status.as_mut().unwrap().freezes.clear();
    assert_eq!(status_of(seen(&mut world, "open")), ready);
    world.pipeline.spec.suspend = true;
    let text = status_of(seen(&mut world, "open"));
    assert!(text.starts_with("Pending on c0ffee: "), "{text}");
    assert!(text.contains("suspended"), "{text}");
}

#[test]
fn a_step_back_and_commits_of_others_are_failures() {
    let mut older = world(&OPEN.replace("1.0.0 ok", "3.0.0 ok"));
    let text = status_of(seen(&mut older, "open"));
    assert!(
        text.starts_with("Failure on c0ffee: prod runs 3.0.0"),
        "{text}"
    );
    let mut foreign = world(OPEN);
    let text = status_of(seen(&mut foreign, "open foreign"));
    assert!(
        text.starts_with("Failure on c0ffee: somebody else pushed"),
        "{text}"
    );
}

#[test]
fn what_fails_is_said_before_what_waits() {
    let mut older = world(&OPEN.replace("1.0.0 ok", "3.0.0 ok"));
    frozen(&mut older);
    let text = status_of(seen(&mut older, "open"));
    assert!(
        text.starts_with("Failure on c0ffee: prod runs 3.0.0"),
        "{text}"
    );
}

#[test]
fn where_sluice_merges_it_says_so() {
    let mut automatic = world(OPEN);
    let settings = automatic.pipeline.spec.promotion.as_mut().unwrap();
    let to = settings.strategy.pull_request.as_mut().unwrap();
    to.auto_merge = true;
    automatic.promotions[0].spec.strategy = settings.strategy.clone();
    assert_eq!(
        status_of(seen(&mut automatic, "open")),
        "Success on c0ffee: ready: Sluice merges it once the forge's conditions are met"
    );
}

/// What is about to be stored counts, such as that an approval was seen.
#[test]
fn an_approval_counts_from_when_it_was_seen() {
    let drawing = OPEN.replace("prod[", "prod{policy 1 expires:2h}[");
    let mut approved = world(&format!("{drawing} by ann"));
    assert_eq!(
        status_of(seen(&mut approved, "open")),
        "Success on c0ffee: ready to be merged"
    );
}

/// Without the time of the next attempt: else it would be written again and again.
#[test]
fn an_error_before_the_next_push_is_shown() {
    let mut world = world(OPEN);
    seen(&mut world, "open");
    let mut status = world.promotions[0].status.clone().unwrap();
    status.phase = Some(Phase::Running);
    status.reason = Some("Forbidden".to_owned());
    status.message = Some("again in 5 minutes".to_owned());
    status.next_attempt = Some(Time(now()));
    assert_eq!(
        status_of(update_of(&world, &status)),
        "Pending on c0ffee: Sluice cannot go on and tries again (Forbidden)"
    );
    status.feedback = None;
    assert_eq!(update_of(&world, &status), None, "nothing was shown before");
}

#[test]
fn a_new_commit_gets_a_status_of_its_own() {
    let mut world = world(OPEN);
    seen(&mut world, "open");
    let promotion = world.promotions.last_mut().unwrap();
    promotion.status.as_mut().unwrap().commit = Some("beef".to_owned());
    let text = status_of(seen(&mut world, "open"));
    assert_eq!(text, "Success on beef: ready to be merged");
}

#[test]
fn the_end_is_shown_and_the_deployment_in_between_is_not() {
    let mut merged = world(OPEN);
    seen(&mut merged, "open");
    assert_eq!(seen(&mut merged, "merged"), None);
    let prod = merged.pipeline.status.as_mut().unwrap();
    let prod = prod.environments.get_mut("prod").unwrap();
    prod.targets[0].revision = Some("2.0.0".to_owned());
    let update = seen(&mut merged, "merged").expect("the end");
    assert_eq!(
        update.commit_status, None,
        "what is merged keeps its status"
    );
    let text = update.comment.unwrap().text;
    let expected = "**prod: 2.0.0**\n\nprod runs 2.0.0\n\n1. proposed\n2. merged\n3. deployed\n\n\
                    https://sluice.example.com/pipelines/default/shop\n\n\
                    Sluice-Comment: default/shop/prod\n";
    assert_eq!(text, expected);
    assert_eq!(seen(&mut merged, ""), None, "written once");

    let mut closed = world(OPEN);
    seen(&mut closed, "open");
    let text = status_of(seen(&mut closed, "closed"));
    let expected = "Failure on c0ffee: its pull request was closed without being merged";
    assert_eq!(text, expected);
}

#[test]
fn a_successor_takes_over_and_only_it_writes_then() {
    let mut world = world(OPEN);
    seen(&mut world, "open");
    let promotion = world.promotions.last_mut().unwrap();
    let reason = "Superseded by shop-prod-3.0.0".to_owned();
    promotion.spec.withdrawn = Some(api::promotion::Withdrawal { reason });
    let before = world.promotions.last().unwrap().status.clone().unwrap();
    let text = status_of(seen(&mut world, "open"));
    assert_eq!(text, "Pending on c0ffee: Superseded by shop-prod-3.0.0");
    // Although what it wrote last is lost.
    let promotion = world.promotions.last_mut().unwrap();
    promotion.status.as_mut().unwrap().feedback = before.feedback;
    assert_eq!(seen(&mut world, "open"), None);
}

#[test]
fn nothing_is_begun_at_the_end_nor_finished_an_hour_later() {
    let mut world = world(OPEN);
    seen(&mut world, "open");
    let mut ended = world.promotions.last().unwrap().status.clone().unwrap();
    ended.phase = Some(Phase::Abandoned);
    for (minutes, is_shown) in [("59m", true), ("61m", false)] {
        ended.finished_at = Some(ago(minutes));
        assert_eq!(update_of(&world, &ended).is_some(), is_shown, "{minutes}");
    }
    ended.finished_at = Some(Time(now()));
    ended.feedback = None;
    assert_eq!(update_of(&world, &ended), None, "of an earlier version");
}

#[test]
fn both_are_shown_unless_the_strategy_names_others() {
    let mut world = world(OPEN);
    let kinds = |world: &mut World, kinds: Option<&[FeedbackKind]>| {
        let promotion = world.promotions.last_mut().unwrap();
        let to = promotion.spec.strategy.pull_request.as_mut().unwrap();
        to.feedback = kinds.map(<[FeedbackKind]>::to_vec);
        let status = promotion.status.clone().unwrap();
        let update = update_of(world, &status);
        update.map(|it| (it.commit_status.is_some(), it.comment.is_some()))
    };
    assert_eq!(kinds(&mut world, None), Some((true, true)));
    assert_eq!(kinds(&mut world, Some(&[])), None);
    let status = [FeedbackKind::CommitStatus];
    assert_eq!(kinds(&mut world, Some(&status)), Some((true, false)));
    let comment = [FeedbackKind::Comment];
    assert_eq!(kinds(&mut world, Some(&comment)), Some((false, true)));
}

#[test]
fn a_refusal_is_reported_once_and_not_for_each_promotion() {
    use FeedbackKind::{Comment, CommitStatus};
    let shown = |refused: &[FeedbackKind]| ShownFeedback {
        pull_request: Some(7),
        refused: refused.to_vec(),
        ..ShownFeedback::default()
    };
    // What the promotions before it were refused, oldest first; what it was refused itself before and now.
    let check =
        |others: &[&[FeedbackKind]], before: &[FeedbackKind], now: &[FeedbackKind], is_first| {
            let mut world = world(OPEN);
            let promotion = world.promotions.pop().unwrap();
            let mut promotions = vec![promotion.clone()];
            for (nth, refused) in others.iter().enumerate() {
                let mut other = promotion.clone();
                other.metadata.name = Some(format!("other-{nth}"));
                other.metadata.creation_timestamp = Some(ago(&format!("{}h", 9 - nth)));
                other.status.as_mut().unwrap().feedback = Some(shown(refused));
                promotions.push(other);
            }
            let answer = is_first_refusal(&promotion, &shown(before), &shown(now), &promotions);
            assert_eq!(answer, is_first, "{others:?} {before:?} {now:?}");
        };
    check(&[], &[], &[], false);
    check(&[], &[], &[Comment], true);
    check(&[], &[Comment], &[Comment], false);
    check(&[], &[Comment], &[Comment, CommitStatus], true);
    check(&[&[Comment]], &[], &[Comment], false);
    check(&[&[Comment]], &[], &[CommitStatus], true);
    // The token was corrected in between.
    check(&[&[Comment], &[]], &[], &[Comment], true);
    check(&[&[], &[Comment]], &[], &[Comment], false);
    // What happened in another environment is another repository, or another token.
    let mut world = world(OPEN);
    let promotion = world.promotions.pop().unwrap();
    let mut other = promotion.clone();
    other.metadata.name = Some("other".to_owned());
    other.spec.environment = "staging".to_owned();
    other.status.as_mut().unwrap().feedback = Some(shown(&[Comment]));
    let (nothing, refused) = (ShownFeedback::default(), shown(&[Comment]));
    assert!(is_first_refusal(&promotion, &nothing, &refused, &[other]));
}

#[test]
fn the_comment_says_how_it_stands_and_how_far_it_is() {
    let mut world = world(OPEN);
    let text = seen(&mut world, "open").unwrap().comment.unwrap().text;
    let start = "**prod: 2.0.0**\n\nready to be merged\n\n| gate | answer |\n";
    assert!(text.starts_with(start), "{text}");
    let end = "\n\n1. proposed\n2. not merged\n3. not deployed\n\n\
               https://sluice.example.com/pipelines/default/shop\n\n\
               Sluice-Comment: default/shop/prod\n";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn the_comment_lists_every_gate_and_keeps_texts_of_others_harmless() {
    let mut world = world(OPEN);
    frozen(&mut world);
    let update = seen(&mut world, "open").expect("an update");
    let comment = update.comment.expect("a comment");
    for gate in planner::gate_names() {
        assert!(
            comment.text.contains(&format!("\n| {gate} | ")),
            "{}",
            comment.text
        );
    }
    assert!(
        comment
            .text
            .contains("| freeze | wait: prod is frozen by stop")
    );
    assert!(!comment.text.contains("@everyone"), "{}", comment.text);
    let lines = comment.text.lines().filter(|line| *line == comment.marker);
    assert_eq!(lines.count(), 1);
}
