//! Crashes before, after and during every side effect of a Change: there is one pull request, and the
//! Change is completed.

use std::time::Duration;

use testbed::forge::PullState;

use crate::{
    fault_injector::{Crash, CrashPoint, DIED},
    stage::{CONTENT, Stage},
};

const PATH: &str = "pipelines/basket.yaml";

/// From the change to the merge; answers what was done outside and on the hub.
async fn go(crashes: &[Crash]) -> Vec<String> {
    let stage = Stage::idle(&[]).await;
    stage.ask("basket", PATH, CONTENT).await;
    let journey = async {
        stage.expect("basket Proposed").await;
        let repository = &stage.world.repository;
        let pulls = repository.pull_requests().await;
        assert_eq!(pulls.len(), 1, "{:?}", stage.injector.effects());
        repository.merge(pulls[0].number).await.unwrap();
        stage.expect("basket Merged").await;
        let pulls = repository.pull_requests().await;
        assert_eq!(pulls.len(), 1, "{:?}", stage.injector.effects());
        assert_eq!(pulls[0].state, PullState::Merged);
        let main = repository.read("main", PATH).await.unwrap();
        assert_eq!(String::from_utf8(main).unwrap(), CONTENT);
        assert_eq!(repository.log("main").await.unwrap().len(), 3);
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
async fn a_crash_before_or_after_any_effect_loses_and_doubles_nothing() {
    let calm = go(&[]).await;
    // A push, a pull request, and its two phases.
    assert_eq!(calm.len(), 4, "{calm:#?}");
    let late = CrashPoint::Late(Duration::from_millis(150));
    for effect in 0..calm.len() {
        for moment in [CrashPoint::Before, CrashPoint::After, late] {
            let effects = go(&[Crash { effect, moment }]).await;
            let has_died = effects.iter().any(|it| it.starts_with(DIED));
            assert!(has_died, "{effect} {moment:?}: {effects:#?}");
        }
    }
}
