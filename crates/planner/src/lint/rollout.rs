//! Mistakes in the waves of a rollout: those that can never take a target.

use api::pipeline::{PromotionSettings, Wave};

use super::SettingsMistake;

/// The warning, if there is one.
pub(super) fn mistakes(environment: &str, settings: &PromotionSettings) -> Option<SettingsMistake> {
    let rollout = settings.rollout.as_ref();
    let waves = rollout.map(|it| it.waves.as_slice()).unwrap_or_default();
    let last = last_useful(waves)?;
    let useless = waves.len() - last - 1;
    let first = last + 2;
    let text = match useless {
        0 => return None,
        1 => format!("wave {first} of {environment} takes no target"),
        _ => format!(
            "waves {first} to {} of {environment} take no target",
            waves.len()
        ),
    };
    let why = format!(": wave {} takes all that are left", last + 1);
    let field = format!("rollout.waves[{}]", last + 1);
    Some(SettingsMistake::warning(field, format!("{text}{why}")))
}

/// The number of the first wave after which no target is left.
fn last_useful(waves: &[Wave]) -> Option<usize> {
    let mut taken = 0;
    waves
        .iter()
        .position(|wave| match (&wave.selector, wave.percent) {
            (None, None) => true,
            (None, Some(percent)) => {
                taken += percent;
                taken >= 100
            }
            (Some(_), _) => false,
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn waves_that_take_no_target_are_found() {
        let ring = json!({"selector": {"matchLabels": {"ring": "canary"}}});
        let part = |percent: i64| json!({"percent": percent});
        let text = "take no target: wave 1 takes all that are left";
        for (waves, expected) in [
            (json!([]), None),
            (json!([ring, part(20), {}]), None),
            (json!([ring, part(20)]), None),
            (
                json!([{}, ring, {}]),
                Some(format!("waves 2 to 3 of prod {text}")),
            ),
            (
                json!([ring, part(60), part(40), {"maxConcurrent": 5}]),
                Some("wave 4 of prod takes no target: wave 3 takes all that are left".to_owned()),
            ),
        ] {
            let settings = json!({"strategy": {}, "rollout": {"waves": waves}});
            let settings: PromotionSettings = serde_json::from_value(settings).unwrap();
            let found = mistakes("prod", &settings);
            let found = found.map(|it| it.text);
            assert_eq!(found, expected, "{waves}");
        }
    }
}
