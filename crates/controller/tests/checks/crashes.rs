//! Crashes before, after and during every side effect of a check: one Job, and the right verdict.

use std::time::Duration;

use kube::api::ListParams;
use serde_json::json;

use crate::{
    fault_injector::{Crash, CrashPoint, DIED},
    jobs::{cron_job, e2e, expect_job, jobs},
    stage::Stage,
    world::set_status,
};

/// From the check run to its verdict; answers what was written.
async fn go(crashes: &[Crash]) -> Vec<String> {
    let stage = Stage::idle().await;
    stage.set_cron_job(cron_job("true", true));
    let name = stage.check(e2e()).await;
    let journey = async {
        expect_job(&stage, &name).await;
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}});
        let status = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        set_status(&stage.hub, &job, &status).await;
        stage.expect(&name, "Passed").await;
        let all = jobs(&stage).list(&ListParams::default()).await.unwrap();
        assert_eq!(all.items.len(), 1, "{:?}", stage.injector.effects());
    };
    tokio::select! {
        () = stage.live(crashes) => {}
        () = journey => {}
    }
    stage.kill().await;
    let effects = stage.injector.effects();
    stage.injector.settle().await;
    effects
}

#[tokio::test]
async fn a_crash_before_or_after_any_effect_of_a_check_loses_and_doubles_nothing() {
    let late = CrashPoint::Late(Duration::from_millis(150));
    for effect in 0..2 {
        for moment in [CrashPoint::Before, CrashPoint::After, late] {
            let effects = go(&[Crash { effect, moment }]).await;
            let has_died = effects.iter().any(|it| it.starts_with(DIED));
            assert!(has_died, "{effect} {moment:?}: {effects:#?}");
        }
    }
}
