//! The course of a promotion that fails its check: CheckRuns are created, decided and deleted, and the
//! rollback is derived once.

use api::CheckRun;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use testbed::forge::PullState;

use crate::{
    journeys::{PROD, Stage},
    world::wait_for,
};

impl Stage {
    fn runs(&self) -> Api<CheckRun> {
        Api::namespaced(self.world.hub.clone(), "default")
    }

    /// Reports the result of the check of a revision once it is asked for, and waits for the verdict.
    async fn report(&self, revision: &str, passed: bool) {
        let runs = self.runs();
        let find = async || {
            let listed = runs.list(&ListParams::default()).await.unwrap();
            let is_it = |it: &CheckRun| it.spec.revision == revision;
            listed.items.into_iter().find(is_it)
        };
        let is_asked = wait_for(async || find().await.is_some()).await;
        assert!(is_asked, "{revision} is not checked");
        let result = Patch::Merge(json!({"spec": {"result": {"passed": passed}}}));
        let verdict = if passed { "Passed" } else { "Failed" };
        let is_decided = wait_for(async || {
            // One that is created late replaces one that was deleted meanwhile.
            let Some(run) = find().await else {
                return false;
            };
            let (name, parameters) = (run.name_any(), PatchParams::default());
            if run.spec.result.is_none() {
                drop(runs.patch(&name, &parameters, &result).await);
            }
            run.status.is_some_and(|it| it.verdict.word() == verdict)
        });
        assert!(is_decided.await, "{revision} is not {verdict}");
    }

    /// 1.0.0 passes its check, 1.1.0 fails it and is rolled back once.
    pub(crate) async fn roll_back(&self) {
        let world = &self.world;
        world.expect("prod 1.1.0 Deploying").await;
        self.sync().await;
        world.expect("prod 1.1.0 Verifying").await;
        self.report("1.1.0", false).await;
        let failed = "prod 1.1.0 Failed/CheckFailed";
        world.expect_all(&[failed, "prod 1.0.0 Deploying"]).await;
        self.sync().await;
        self.report("1.0.0", true).await;
        world.expect_all(&[failed, "prod 1.0.0 Succeeded"]).await;
        let promotions = world.all_promotions().await;
        let of = |revision: &str| promotions.iter().find(|it| it.spec.revision == revision);
        let (failed, rollback) = (of("1.1.0").unwrap(), of("1.0.0").unwrap());
        assert_eq!(rollback.spec.cause, failed.metadata.uid);
        let status = world.pipelines().get("app").await.unwrap().status.unwrap();
        assert_eq!(status.environments["prod"].rejected, ["1.1.0"]);
        let before = self.before.lock().unwrap().pull_requests;
        let pulls = world.repository.pull_requests().await.split_off(before);
        let states: Vec<_> = pulls.iter().map(|it| it.state).collect();
        assert_eq!(states, [PullState::Merged; 2], "{pulls:?}");
        assert_eq!(world.version("main", PROD).await, "1.0.0");
        // The one that failed says why 1.1.0 is rejected.
        let are_alone = wait_for(async || {
            let listed = self.runs().list(&ListParams::default()).await.unwrap();
            let mut left: Vec<_> = listed.iter().map(|it| it.spec.revision.as_str()).collect();
            left.sort_unstable();
            left == ["1.0.0", "1.1.0"]
        });
        assert!(are_alone.await, "check runs that nothing needs are kept");
    }

    /// Waits until the history says that prod passed its checks at 1.0.0.
    pub(crate) async fn expect_checked(&self) {
        self.report("1.0.0", true).await;
        let is_checked = async || {
            let status = self.world.pipelines().get("app").await.unwrap().status;
            let prod = status.and_then(|it| it.environments.get("prod").cloned());
            prod.is_some_and(|it| it.ran.iter().any(|it| it.checked_at.is_some()))
        };
        assert!(wait_for(is_checked).await, "the pass is not recorded");
    }
}
