//! What people read at a glance: the line about a pipeline, why an environment waits, and who decided.

use api::{
    freeze::FreezeTimes,
    names::RECONCILE_ANNOTATION,
    pipeline::{CoveringFreeze, HoldStatus, PromotionSummary},
    promotion::{Approval, Phase, PromotionRequest, Rejection},
};
use planner::{SummaryState, hold_text, people, pipeline_summary, state_text, summarised};

use crate::drawing::{World, draw, now};

#[test]
fn the_line_about_a_pipeline_names_the_environment_that_matters() {
    for (drawing, expected) in [
        ("dev[1.0.0 ok] > prod[1.0.0 ok]", "ready"),
        (
            "dev[1.0.0 ok] > prod{suspended}[1.0.0 ok]",
            "prod suspended",
        ),
        ("dev[1.0.0 ok] > prod[1.0.0 ok]\nsuspend", "suspended"),
        ("dev[1.0.0 ok] > prod[1.0.0 broken]", "prod not ready"),
        ("dev[1.0.0 failed 2.0.0] > prod[1.0.0 broken]", "dev failed"),
        ("dev[1.0.0 ok] > prod[- missing]", "prod unreadable"),
        ("", "no environments"),
    ] {
        let world = draw(drawing);
        assert_eq!(
            state_text(&world.pipeline, &world.model()),
            expected,
            "{drawing}"
        );
    }
    let world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]");
    let summary = pipeline_summary(&world.pipeline, &world.model());
    assert_eq!(
        (summary.state, summary.environment),
        (SummaryState::Ready, None)
    );
}

#[test]
fn the_status_has_the_line_and_the_request_that_was_handled() {
    let mut world = draw("dev[2.0.0 ok] > prod[1.0.0 broken]");
    let annotations = world.pipeline.metadata.annotations.get_or_insert_default();
    annotations.insert(RECONCILE_ANNOTATION.to_owned(), "now".to_owned());
    let status = summarised(&world.pipeline, world.model());
    assert_eq!(status.state.as_deref(), Some("prod not ready"));
    assert_eq!(status.runs.as_deref(), Some("dev 2.0.0 > prod 1.0.0"));
    assert_eq!(status.last_handled_reconcile_at.as_deref(), Some("now"));
    assert_eq!(status.environments, world.model().environments);
}

/// Why prod waits.
fn held(hold: Option<&str>, promotion: Option<&str>, is_frozen: bool) -> Option<String> {
    let mut world = draw("dev[2.0.0 ok] > prod{manual}[1.0.0 ok]");
    let freeze = CoveringFreeze {
        name: "weekend".to_owned(),
        environments: vec!["prod".to_owned()],
        times: FreezeTimes::default(),
        ..CoveringFreeze::default()
    };
    let status = world.pipeline.status.as_mut().unwrap();
    status.freezes = is_frozen.then_some(freeze).into_iter().collect();
    let prod = status.environments.get_mut("prod").unwrap();
    prod.hold = hold.map(|reason| HoldStatus {
        reason: reason.to_owned(),
        message: format!("it is {reason}"),
        ..HoldStatus::default()
    });
    prod.promotion = promotion.map(|message| PromotionSummary {
        phase: Some(Phase::AwaitingApproval),
        message: Some(message.to_owned()),
        ..PromotionSummary::default()
    });
    hold_text(&world.model(), "prod", now())
}

#[test]
fn an_environment_says_why_it_waits_and_that_it_is_frozen() {
    let unknown = "it cannot be approved yet, because what it changes is not known: no such file";
    let frozen = "frozen by weekend: nothing starts";
    let both = format!("{frozen}; it is Soaking");
    for (hold, promotion, is_frozen, expected) in [
        (None, None, false, None),
        (Some("Soaking"), None, false, Some("it is Soaking")),
        (None, Some("2.0.0 waits for approval"), false, None),
        (None, Some(unknown), false, Some(unknown)),
        (Some("Soaking"), Some(unknown), false, Some("it is Soaking")),
        (None, None, true, Some(frozen)),
        (Some("Soaking"), None, true, Some(&both)),
        // The hold says it already.
        (Some("Frozen"), None, true, Some("it is Frozen")),
    ] {
        let text = held(hold, promotion, is_frozen);
        assert_eq!(
            text.as_deref(),
            expected,
            "{hold:?} {promotion:?} {is_frozen}"
        );
    }
}

#[test]
fn who_decided_is_told_with_their_notes() {
    let decided = |words: &str| {
        let drawing = "dev[2.0.0 ok] > prod{policy 2}[1.0.0 ok]\npromotion prod 2.0.0 Running";
        draw(&format!("{drawing} {words}")).promotions.remove(0)
    };
    assert_eq!(people(&decided("")), [""; 0]);
    assert_eq!(people(&decided("asker ann")), ["requested by ann"]);
    assert_eq!(
        people(&decided("asker ann back")),
        ["rollback requested by ann"]
    );
    assert_eq!(people(&decided("back")), ["rollback requested by somebody"]);
    assert_eq!(
        people(&decided("cause smoke")),
        ["rollback after a failed check"]
    );
    let mut promotion = decided("asker ann");
    let approval = |by: &str, note: Option<&str>| Approval {
        by: by.to_owned(),
        note: note.map(str::to_owned),
        ..Approval::default()
    };
    let spec = &mut promotion.spec;
    spec.approvals = vec![
        approval("bob", Some("looks good")),
        approval("eve", Some("")),
    ];
    spec.rejection = Some(Rejection {
        by: "dan".to_owned(),
        note: Some("it loses orders".to_owned()),
        ..Rejection::default()
    });
    spec.request = Some(PromotionRequest {
        by: Some("ann".to_owned()),
        ..PromotionRequest::default()
    });
    assert_eq!(
        people(&promotion),
        [
            "requested by ann",
            "approved by bob: looks good",
            "approved by eve",
            "rejected by dan: it loses orders"
        ]
    );
}

fn explained(world: &World, environment: &str) -> Option<String> {
    let (model, plan) = (world.model(), world.plan());
    planner::explain_environment(&world.pipeline, environment, &model, &plan)
}

#[test]
fn one_environment_is_explained_as_in_the_whole_pipeline() {
    let world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]\nsuspend");
    let all = planner::explain(&world.pipeline, &world.model(), &world.plan());
    let (dev, prod) = (
        explained(&world, "dev").unwrap(),
        explained(&world, "prod").unwrap(),
    );
    assert_eq!(
        all,
        format!("the pipeline is suspended: nothing starts\n{dev}\n{prod}")
    );
    assert!(prod.starts_with("prod: runs 1.0.0, ready\n"), "{prod}");
    assert_eq!(explained(&world, "gone"), None);
}

#[test]
fn targets_are_counted_where_they_are_many() {
    let runs = |count: usize| {
        let targets = vec!["1.0.0 ok"; count - 1].join(", ");
        let world = draw(&format!("dev[2.0.0 ok, {targets}]"));
        let text = explained(&world, "dev").unwrap();
        text.lines().next().unwrap().to_owned()
    };
    assert_eq!(runs(5), "dev: runs 1.0.0 and 2.0.0, ready");
    assert_eq!(runs(6), "dev: runs 1.0.0 on 5 and 2.0.0 on 1, ready");
}

/// Where an environment runs the next revision everywhere, its gates are about whatever comes then.
#[test]
fn gates_name_the_revision_that_they_keep_out() {
    let gates = |drawing: &str| {
        let text = explained(&draw(drawing), "prod").unwrap();
        let line = text.lines().find(|line| line.starts_with("  gates"));
        line.unwrap_or_default().contains(" for 2.0.0:")
    };
    assert!(gates("dev[2.0.0 ok] > prod[1.0.0 ok]"));
    assert!(gates("dev[2.0.0 ok] > prod[2.0.0 ok, 1.0.0 ok]"));
    assert!(!gates("dev[2.0.0 ok] > prod[2.0.0 ok, 2.0.0 ok]"));
}
