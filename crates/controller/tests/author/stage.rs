//! A hub, a repository, and a fault injector between them and the reconciler of Changes.

use std::{sync::Arc, time::Duration};

use api::{
    Change,
    change::{ChangePhase, ChangeSpec},
    conditions,
    pipeline::ForgeKind,
};
use controller::{ChangeReconciler, Settings, settings::Authoring};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use runtime::{LeaderGuard, ObjectKey};
use serde_json::json;
use tempfile::TempDir;
use testbed::forge::Forge;
use tokio::task::JoinSet;

use crate::{
    fault_injector::{Crash, FaultInjector},
    world::{World, settings, wait_for},
};

pub(crate) const CONTENT: &str = "kind: Pipeline\nmetadata:\n  name: basket\n";

pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) injector: Arc<FaultInjector>,
    /// Outlives the processes, as a volume would.
    folder: TempDir,
    process: tokio::sync::Mutex<JoinSet<()>>,
}

impl Stage {
    /// A repository with these files, and nothing that runs.
    pub(crate) async fn idle(files: &[(&str, &str)]) -> Self {
        let hub = testbed::hub::server().client();
        let forge = Arc::new(Forge::start_with_tls().await.unwrap());
        let repository = forge.create_repository("team/config", files).await.unwrap();
        let injector = Arc::new(FaultInjector::default());
        injector.before_repository(&repository);
        let reached = injector.before_hub(&hub);
        Self {
            world: World::idle(hub, reached, forge, repository).await,
            folder: tempfile::tempdir().unwrap(),
            process: tokio::sync::Mutex::default(),
            injector,
        }
    }

    /// The same with the loop running.
    pub(crate) async fn running(files: &[(&str, &str)]) -> Self {
        let stage = Self::idle(files).await;
        stage.start(stage.settings()).await;
        stage
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            follow_every: Duration::from_millis(200),
            git_folder: Some(self.folder.path().to_owned()),
            authoring: Some(Authoring {
                url: self.world.repository.url(),
                branch: "main".to_owned(),
                forge: ForgeKind::Gitea,
                secret: ObjectKey::new("default", "git"),
                folders: vec!["pipelines".to_owned()],
            }),
            ..settings()
        }
    }

    pub(crate) async fn start(&self, settings: Settings) {
        let author = ChangeReconciler::new(
            self.world.reached.clone(),
            settings,
            LeaderGuard::without_election(),
        );
        let mut process = self.process.lock().await;
        process.spawn(controller::change::run(author.unwrap()));
    }

    /// Ends the loop wherever it is.
    pub(crate) async fn kill(&self) {
        self.process.lock().await.shutdown().await;
    }

    /// One process after the other, each of which dies as planned but the last.
    pub(crate) async fn live(&self, crashes: &[Crash]) {
        for crash in crashes {
            self.injector.plan(Some(*crash));
            self.start(self.settings()).await;
            self.injector.died().await;
            self.kill().await;
        }
        self.injector.plan(None);
        self.start(self.settings()).await;
        std::future::pending().await
    }

    pub(crate) fn changes(&self) -> Api<Change> {
        Api::namespaced(self.world.hub.clone(), "default")
    }

    /// Somebody asks for a file.
    pub(crate) async fn ask(&self, name: &str, path: &str, content: &str) {
        let spec = ChangeSpec {
            path: path.to_owned(),
            content: content.to_owned(),
            title: format!("Add {name}"),
            by: Some("ann".to_owned()),
        };
        let change = Change::new(name, spec);
        let created = self.changes().create(&PostParams::default(), &change).await;
        created.unwrap();
    }

    /// Waits until the changes are as drawn: `name Phase/Reason, …`, in the order of their names.
    pub(crate) async fn expect(&self, expected: &str) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut drawn = String::new();
        let is_so = async || {
            changes = self
                .changes()
                .list(&ListParams::default())
                .await
                .unwrap()
                .items;
            changes.sort_by_key(|it| it.metadata.name.clone());
            let all: Vec<_> = changes.iter().map(draw).collect();
            drawn = all.join(", ");
            drawn == expected
        };
        if wait_for(is_so).await {
            return changes;
        }
        let statuses: Vec<_> = changes.iter().map(|it| json!(it.status)).collect();
        panic!("the changes are\n  {drawn}\nand not\n  {expected}\n{statuses:?}");
    }
}

fn draw(change: &Change) -> String {
    let name = change.metadata.name.as_deref().unwrap_or_default();
    let status = change.status.clone().unwrap_or_default();
    let phase = status.phase.map(|phase: ChangePhase| format!("{phase:?}"));
    let phase = phase.unwrap_or("-".to_owned());
    let ready = conditions::find(&status.conditions, conditions::READY);
    let reason = ready.map(|ready| ready.reason.clone()).unwrap_or_default();
    match reason == phase || reason.is_empty() {
        true => format!("{name} {phase}"),
        false => format!("{name} {phase}/{reason}"),
    }
}
