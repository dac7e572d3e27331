//! `sluice standalone`: the embedded API, the controller and the door in one process on a data
//! folder. No cluster is needed; kubectl works with the kubeconfig it writes.

mod admission;

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use apiserver::{ServeOptions, Served, Server, User};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    args::{
        controller::{Encoding, Level},
        standalone::Arguments,
    },
    controller::{
        door::shown,
        logs::{self, Logging},
        signals,
    },
    reach::reach,
    sockets,
};

/// The roles for people that an install brings.
const ROLES: &str = include_str!("../../../deploy/manifests/roles.yaml");
/// Which flags choose the ports of the sockets for hooks and REST.
const FLAGS: sockets::Flags<'_> = &[("hooks", "--hooks-port"), ("REST", "--port")];
/// Who the printed token belongs to.
pub(crate) const OWNER: &str = "you";

/// Where everything is, and how to get in.
pub(crate) struct Standalone {
    pub(crate) server: Server,
    pub(crate) token: String,
    folder: PathBuf,
    served: Served,
}

/// Runs until it is told to stop.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    logs::start(Logging {
        encoding: Encoding::Text,
        level: Level::Info,
    });
    let folder = arguments.data.clone();
    let settings = controller::Settings {
        authoring: arguments.authoring.check("default", false)?,
        ..controller::Settings::default()
    };
    let shutdown = signals::shutdown().context("cannot listen for signals")?;
    let standalone = Standalone::open(&folder, arguments.api_address()).await?;
    let ports = Ports {
        hooks: arguments.hooks_address(),
        rest: arguments.rest_address(),
    };
    let listening = standalone.listen(ports, settings, &shutdown).await?;
    anstream::println!("{}", standalone.greeting(listening.rest));
    listening
        .run(standalone.server.client_as(User::in_process()))
        .await
}

/// Where the door is.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) hooks: SocketAddr,
    pub(crate) rest: SocketAddr,
}

impl Standalone {
    /// Opens the store in a folder that is nobody else's business, and serves the API.
    pub(crate) async fn open(folder: &Path, address: SocketAddr) -> anyhow::Result<Self> {
        // TLS needs to be told whose cryptography to use before the first connection.
        drop(rustls::crypto::ring::default_provider().install_default());
        ensure!(
            address.ip().is_loopback(),
            "{address} can be reached from elsewhere; standalone serves this machine only"
        );
        make_private(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let store = folder.join("store");
        let server = Server::open(&store, admission::options())
            .await
            .with_context(|| format!("cannot open the store {}", store.display()))?;
        let options = ServeOptions {
            address,
            ..ServeOptions::new(folder)
        };
        let served = server.serve(options).await;
        let served = served.map_err(|error| sockets::of_api(error, "--api-port"))?;
        let token = token(folder).context("cannot keep a token in the folder")?;
        let owner = User::new(OWNER, &["system:masters"]);
        server.add_token(&token, owner);
        install(&server.client_as(User::in_process())).await?;
        Ok(Self {
            server,
            token,
            folder: folder.to_owned(),
            served,
        })
    }

    /// The file with which kubectl reaches it.
    pub(crate) fn kubeconfig(&self) -> &Path {
        self.served.kubeconfig()
    }

    /// Listens for hooks and REST, and serves them until `shutdown`. A port that is taken is an error
    /// now.
    pub(crate) async fn listen(
        &self,
        ports: Ports,
        settings: controller::Settings,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<Listening> {
        let settings = controller::Settings {
            git_folder: Some(self.folder.join("git")),
            kubeconfigs: controller::KubeconfigPolicy::LOCAL,
            ..settings
        };
        let mut registry = Registry::default();
        let calls = server::Metrics::register(&mut registry);
        let client = self.server.client_as(User::in_process());
        let door = server::Settings {
            hooks_address: Some(ports.hooks),
            rest_address: Some(ports.rest),
            reach: reach(&client, settings.kubeconfigs),
            authoring: settings.authoring.as_ref().map(shown),
            allow_unsigned_reports: settings.allow_unsigned_reports,
            ..server::Settings::default()
        };
        let stop = shutdown.child_token();
        let serving = server::start(client, door, calls, stop.clone()).await;
        let serving = serving.map_err(|error| sockets::of_server(error, FLAGS))?;
        Ok(Listening {
            rest: serving.rest.unwrap_or(ports.rest),
            metrics: controller::Metrics::beside(registry),
            shutdown: shutdown.clone(),
            serving,
            settings,
            stop,
        })
    }

    fn greeting(&self, rest: SocketAddr) -> String {
        format!(
            "Sluice runs on {folder}. Everything is kept there; Ctrl-C stops it.\n\n\
             Dashboard  http://{rest}   token {token}\n  \
             kubectl --kubeconfig {kubeconfig} get pipelines -A\n  \
             curl -H 'Authorization: Bearer {token}' http://{rest}/api/v1/pipelines\n",
            folder = self.folder.display(),
            kubeconfig = self.kubeconfig().display(),
            token = self.token,
        )
    }
}

/// The sockets are open; the controller does not run yet.
pub(crate) struct Listening {
    /// Where REST and the dashboard are.
    pub(crate) rest: SocketAddr,
    serving: server::Serving,
    settings: controller::Settings,
    metrics: controller::Metrics,
    shutdown: CancellationToken,
    /// Ends what is served.
    stop: CancellationToken,
}

impl Listening {
    /// Runs the controller until the shutdown, then closes the sockets.
    pub(crate) async fn run(self, client: Client) -> anyhow::Result<()> {
        let outcome = controller::run(client, self.settings, self.metrics, self.shutdown).await;
        self.stop.cancel();
        self.serving.ended().await;
        Ok(outcome?)
    }
}

/// A loopback address.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    (IpAddr::V4(Ipv4Addr::LOCALHOST), port).into()
}

fn make_private(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

/// The token of whoever owns the folder, made at the first start.
fn token(folder: &Path) -> io::Result<String> {
    let file = folder.join("token");
    match fs::read_to_string(&file) {
        Ok(token) if !token.trim().is_empty() => return Ok(token.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let token = random_text()?;
    fs::write(&file, &token)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    Ok(token)
}

fn random_text() -> io::Result<String> {
    use io::Read;
    let mut bytes = [0; 24];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Brings our kinds and the roles for people up to date.
async fn install(client: &Client) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let parameters = PatchParams::apply("sluice").force();
    for definition in api::crds() {
        let name = definition.name_any();
        definitions
            .patch(&name, &parameters, &Patch::Apply(&definition))
            .await
            .with_context(|| format!("cannot define {name}"))?;
    }
    let roles: Vec<Value> = serde_saphyr::from_multiple(ROLES).context("cannot read the roles")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
    ));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    for role in roles {
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        api.patch(name, &parameters, &Patch::Apply(&role))
            .await
            .with_context(|| format!("cannot install the role {name}"))?;
    }
    Ok(())
}
