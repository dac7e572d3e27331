//! A hub, a forge with one repository, the HTTP server and the Change reconciler.

use std::time::{Duration, Instant};

use api::{Change, Pipeline};
use apiserver::{ServeHandle, ServeOptions, Server, User};
use controller::{ChangeReconciler, settings::Authoring};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use runtime::{LeaderGuard, ObjectKey};
use serde_json::{Value, json};
use testbed::forge::{Forge, Repository};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// The token of a user with all permissions.
pub(crate) const OWNER: &str = "owner-token";
/// Time limit of each wait, for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct AuthoringSetup {
    pub(crate) repository: Repository,
    pub(crate) client: Client,
    /// The URL of the dashboard.
    pub(crate) address: String,
    pub(crate) folder: tempfile::TempDir,
    server: Server,
    served: ServeHandle,
    _forge: Forge,
    stop: CancellationToken,
    /// Last, so that everything else ends in it.
    pub(crate) runtime: Runtime,
}

impl AuthoringSetup {
    /// A repository with these files, and everything that runs.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let mut setup = Self::bare(files);
        let authoring = authoring(&setup.repository);
        let server = start_server(&setup.client, &authoring, &setup.stop);
        setup.address = setup.runtime.block_on(server);
        let settings = controller::Settings {
            allow_internal_urls: true,
            follow_every: Duration::from_millis(200),
            git_folder: Some(setup.folder.path().join("git")),
            authoring: Some(authoring),
            ..controller::Settings::default()
        };
        let author = ChangeReconciler::new(
            setup.client.clone(),
            settings,
            LeaderGuard::without_election(),
        );
        let running = controller::change::run(author.unwrap());
        let running = setup.stop.clone().run_until_cancelled_owned(running);
        setup.runtime.spawn(running);
        setup
    }

    /// Only the hub and the forge.
    pub(crate) fn bare(files: &[(&str, &str)]) -> Self {
        let runtime = Runtime::new().unwrap();
        testbed::tls::install_provider();
        let folder = tempfile::tempdir().unwrap();
        let (server, client, served, forge, repository) = runtime.block_on(async {
            let server = testbed::hub::server();
            server.add_token(OWNER, User::new("olivia", &["system:masters"]));
            let options = ServeOptions::new(folder.path().join("serve"));
            let served = server.serve(options).await.unwrap();
            let client = server.client();
            let forge = Forge::start_with_tls().await.unwrap();
            let repository = forge.create_repository("team/fleet", files).await.unwrap();
            prepare(&client, &forge).await;
            (server, client, served, forge, repository)
        });
        Self {
            client,
            repository,
            address: String::new(),
            folder,
            server,
            served,
            _forge: forge,
            stop: CancellationToken::new(),
            runtime,
        }
    }

    pub(crate) fn kubeconfig(&self) -> String {
        self.served.kubeconfig().display().to_string()
    }

    pub(crate) fn create(&self, pipeline: &Value) {
        let pipeline: Pipeline = serde_json::from_value(pipeline.clone()).unwrap();
        let pipelines: Api<Pipeline> = Api::default_namespaced(self.client.clone());
        let parameters = PostParams::default();
        let created = pipelines.create(&parameters, &pipeline);
        self.runtime.block_on(created).unwrap();
    }

    pub(crate) fn add_user(&self, name: &str) {
        self.server.add_token(name, User::new(name, &[]));
    }

    pub(crate) fn changes(&self) -> Vec<Change> {
        let changes: Api<Change> = Api::all(self.client.clone());
        let parameters = ListParams::default();
        let listed = self.runtime.block_on(changes.list(&parameters));
        listed.unwrap().items
    }

    /// Waits for something to be so.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            let changes = self.changes();
            assert!(began.elapsed() < TIMEOUT, "never: {what}: {changes:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn file(&self, branch: &str, path: &str) -> Option<String> {
        let read = self.runtime.block_on(self.repository.read(branch, path));
        read.map(|bytes| String::from_utf8(bytes).unwrap())
    }
}

impl Drop for AuthoringSetup {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn prepare(hub: &Client, forge: &Forge) {
    let token = forge.token();
    let secret = json!({
        "metadata": {"name": "fleet", "namespace": "default"},
        "stringData": {
            "username": "sluice", "password": token, "token": token,
            "caFile": forge.certificate_authority().unwrap(),
        },
    });
    let secrets: Api<Secret> = Api::default_namespaced(hub.clone());
    let secret = serde_json::from_value(secret).unwrap();
    let parameters = PostParams::default();
    secrets.create(&parameters, &secret).await.unwrap();
}

fn authoring(repository: &Repository) -> Authoring {
    Authoring {
        url: repository.url(),
        branch: "main".to_owned(),
        forge: api::pipeline::ForgeKind::Gitea,
        secret: ObjectKey::new("default", "fleet"),
        folders: vec!["pipelines".to_owned(), "apps".to_owned()],
    }
}

async fn start_server(hub: &Client, to: &Authoring, stop: &CancellationToken) -> String {
    let settings = server::Settings {
        rest_address: Some(([127, 0, 0, 1], 0).into()),
        rate_limit: 0,
        authoring: Some(server::settings::Authoring {
            url: to.url.clone(),
            branch: to.branch.clone(),
            folders: to.folders.clone(),
        }),
        ..server::Settings::default()
    };
    let metrics = server::Metrics::default();
    let started = server::start(hub.clone(), settings, metrics, stop.clone()).await;
    format!("http://{}", started.unwrap().rest.unwrap())
}
