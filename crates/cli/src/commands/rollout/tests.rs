//! What a rollout looks like in a terminal of a width.

use planner::{RolloutState, WaveView};

use super::*;
use crate::commands::terminal::columns;

/// A rollout with one wave of targets in a state each, some of them many times.
fn view(states: &[(RolloutState, usize)]) -> RolloutView {
    let states = states
        .iter()
        .flat_map(|(state, count)| vec![*state; *count]);
    let targets = states.enumerate().map(|(number, state)| TargetView {
        target: format!("a-cluster-with-a-long-name-{number}/shop"),
        state,
        batch: Some(1),
        url: None,
        runs: Some("1.0.0".to_owned()),
        message: Some("a long message of an app that is not ready yet".to_owned()),
    });
    RolloutView {
        promotion: "web-prod-1".to_owned(),
        revision: "2.0.0".to_owned(),
        waves: vec![WaveView {
            number: 1,
            takes: "the rest".to_owned(),
            max_concurrent: None,
            is_open: true,
            done_at: None,
            soaks_until: None,
            targets: targets.collect(),
        }],
        stopped: None,
        has_ended: false,
    }
}

fn text(view: &RolloutView, width: Option<usize>) -> String {
    let mut pipeline = Pipeline::default();
    pipeline.metadata.namespace = Some("shop".to_owned());
    pipeline.metadata.name = Some("web".to_owned());
    let shown = ShownRollout {
        pipeline: &pipeline,
        environment: "prod",
        promotions: &[],
        view: Some(view),
        settings: None,
    };
    let text = shown.text(width, Timestamp::UNIX_EPOCH);
    anstream::adapter::strip_str(&text).to_string()
}

#[test]
fn a_thousand_targets_fit_a_narrow_terminal() {
    use RolloutState::{Failed, InFlight, Ready, Waiting};
    let view = view(&[(Waiting, 500), (InFlight, 100), (Failed, 3), (Ready, 397)]);
    for width in [60, 80] {
        let text = text(&view, Some(width));
        let lines: Vec<&str> = text.lines().collect();
        for line in &lines[..lines.len() - 3] {
            assert!(columns(line) <= width, "{width}: {line}");
        }
        assert!(lines.len() < 25, "{text}");
        assert!(text.contains("and 93 more"), "{text}");
    }
}

#[test]
fn those_that_failed_are_named_first() {
    use RolloutState::{Failed, InFlight};
    let text = text(&view(&[(InFlight, 12), (Failed, 1)]), None);
    let named = text.lines().skip(4).collect::<Vec<_>>();
    assert!(
        named[0].starts_with("✖ a-cluster-with-a-long-name-12/shop  failed, runs 1.0.0: a long"),
        "{text}"
    );
    assert!(named[1].starts_with("▶ "), "{text}");
}
