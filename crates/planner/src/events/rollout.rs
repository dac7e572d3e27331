//! A rollout has finished a wave. That it stops or goes on is an event of its promotion.

use api::pipeline::{EnvironmentStatus, RolloutSummary, WaveSummary};

use super::PipelineEvent;

/// The waves of the rollout into an environment that are done now.
pub(super) fn moved(
    environment: &str,
    known: Option<&EnvironmentStatus>,
    now: &EnvironmentStatus,
) -> Vec<PipelineEvent> {
    let Some(rollout) = &now.rollout else {
        return Vec::new();
    };
    let known = known.and_then(|known| known.rollout.as_ref());
    let known = known.filter(|known| known.promotion == rollout.promotion);
    let event = |message: String| PipelineEvent {
        is_warning: false,
        reason: "WaveDone".to_owned(),
        message: format!("{environment}: {message}"),
        environment: Some(environment.to_owned()),
        revision: Some(rollout.revision.clone()),
    };
    done_waves(known, rollout).into_iter().map(event).collect()
}

fn done_waves(known: Option<&RolloutSummary>, now: &RolloutSummary) -> Vec<String> {
    let known = known.map(|it| it.waves.as_slice()).unwrap_or_default();
    let is_done = |wave: &WaveSummary| wave.done_at.is_some();
    let waves = now.waves.iter().enumerate();
    let new =
        waves.filter(|(number, wave)| is_done(wave) && !known.get(*number).is_some_and(is_done));
    new.map(|(number, wave)| {
        let (number, of) = (number + 1, now.waves.len());
        let (ready, all) = (wave.ready, wave.targets);
        format!("wave {number} of {of} is done: {ready} of {all} targets are ready")
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(promotion: &str, done: Value) -> EnvironmentStatus {
        let waves = json!([{"targets": 3, "ready": 2, "doneAt": done}, {"targets": 9}]);
        let rollout = json!({"promotion": promotion, "revision": "2", "waves": waves});
        serde_json::from_value(json!({"targets": [], "rollout": rollout})).unwrap()
    }

    #[test]
    fn a_wave_that_is_done_is_told_once() {
        let begun = status("one", Value::Null);
        let done = status("one", json!("2026-11-01T10:00:00Z"));
        let other = status("two", json!("2026-11-01T10:00:00Z"));
        let text = "prod: wave 1 of 2 is done: 2 of 3 targets are ready";
        for (before, now, expected) in [
            (Some(&begun), &begun, None),
            (Some(&begun), &done, Some(text)),
            (Some(&done), &done, None),
            (Some(&done), &other, Some(text)),
            (None, &done, Some(text)),
        ] {
            let events = moved("prod", before, now);
            let messages: Vec<_> = events.iter().map(|it| it.message.as_str()).collect();
            assert_eq!(messages, Vec::from_iter(expected));
        }
    }
}
