//! `sluice standalone`: the controller and an embedded Kubernetes API in one process, with all data in
//! one folder. No cluster is needed; kubectl works with the kubeconfig in that folder.

mod admission;

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, ensure};
use api::PipelineTrigger;
use apiserver::{ServeHandle, ServeOptions, Server, User};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use prometheus_client::registry::Registry;
use runtime::ObjectCache;
use serde_json::Value;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use trigger::controller::TriggerMetrics;

use crate::{
    args::{
        controller::{LogEncoding, LogLevel},
        standalone::Arguments,
    },
    controller::{
        logs::{self, Logging},
        server_settings::authoring_settings,
        signals,
    },
    controllers,
    leaf_connector::leaf_connector,
    listen_error,
};

/// The ClusterRoles for users, the same as in a cluster.
const ROLES: &str = include_str!("../../../deploy/manifests/roles.yaml");
/// The flag that sets each port.
const FLAGS: listen_error::AddressFlags<'_> = &[("hooks", "--hooks-port"), ("REST", "--port")];
/// The user of the printed token, and of the kubeconfig: an approver with two names would count twice.
pub(crate) const OWNER: &str = apiserver::ADMINISTRATOR;

/// The embedded API and the credentials for it.
pub(crate) struct Standalone {
    pub(crate) server: Server,
    pub(crate) token: String,
    folder: PathBuf,
    served: ServeHandle,
}

/// Runs until a signal.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    logs::start(Logging {
        encoding: LogEncoding::Text,
        level: LogLevel::Info,
    });
    let folder = arguments.data.clone();
    let allow_internal_urls = arguments.allow_internal_urls.0;
    let settings = controller::Settings {
        authoring: arguments.authoring.check("default", allow_internal_urls)?,
        allow_internal_urls,
        check_hosts: crate::controller::settings::check_hosts(&arguments.check_hosts)?,
        allow_unsigned_reports: arguments.allow_unsigned_reports.0,
        proxy: crate::controller::settings::proxy_of_environment()?,
        ..controller::Settings::default()
    };
    let shutdown = signals::shutdown().context("cannot listen for signals")?;
    let standalone = Standalone::open(&folder, arguments.api_address()).await?;
    let addresses = ListenAddresses {
        hooks: arguments.hooks_address(),
        rest: arguments.rest_address(),
    };
    let listening = standalone.listen(addresses, settings, &shutdown).await?;
    anstream::println!("{}", standalone.greeting(listening.rest));
    listening
        .run(standalone.server.client_as(User::in_process()))
        .await
}

/// The addresses of the HTTP server.
#[derive(Clone, Copy)]
pub(crate) struct ListenAddresses {
    pub(crate) hooks: SocketAddr,
    pub(crate) rest: SocketAddr,
}

impl Standalone {
    /// Opens the store in a folder that only this user can access, and serves the API.
    pub(crate) async fn open(folder: &Path, address: SocketAddr) -> anyhow::Result<Self> {
        ensure!(
            address.ip().is_loopback(),
            "{address} is not a loopback address; standalone serves only this machine"
        );
        create_private_folder(folder)
            .with_context(|| format!("cannot create the folder {}", folder.display()))?;
        let store = folder.join("store");
        let server = Server::open(&store, admission::options()).await?;
        let options = ServeOptions {
            address,
            ..ServeOptions::new(folder)
        };
        let served = server.serve(options).await;
        let served = served.map_err(|error| listen_error::of_api(error, "--api-port"))?;
        let token = token(folder).context("cannot store the token in the folder")?;
        let owner = User::new(OWNER, &[apiserver::MASTERS]);
        server.add_token(&token, owner);
        install(&server.client_as(User::in_process())).await?;
        Ok(Self {
            server,
            token,
            folder: folder.to_owned(),
            served,
        })
    }

    /// The kubeconfig for kubectl.
    pub(crate) fn kubeconfig(&self) -> &Path {
        self.served.kubeconfig()
    }

    /// Starts the HTTP server, which runs until `shutdown`. Fails if a port is in use.
    pub(crate) async fn listen(
        &self,
        addresses: ListenAddresses,
        settings: controller::Settings,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<ListeningStandalone> {
        let settings = controller::Settings {
            git_folder: Some(self.folder.join("git")),
            kubeconfigs: controller::KubeconfigPolicy::LOCAL,
            ..settings
        };
        let mut registry = Registry::default();
        let calls = server::Metrics::register(&mut registry);
        let trigger_metrics = TriggerMetrics::register(&mut registry);
        let client = self.server.client_as(User::in_process());
        let server_settings = server::Settings {
            freeze_namespace: settings.freeze_namespace.clone(),
            hooks_address: Some(addresses.hooks),
            rest_address: Some(addresses.rest),
            leaf_connector: leaf_connector(&client, settings.kubeconfigs),
            authoring: settings.authoring.as_ref().map(authoring_settings),
            allow_unsigned_reports: settings.allow_unsigned_reports,
            ..server::Settings::default()
        };
        let stop = shutdown.child_token();
        let caches = controller::Caches::watched(&client, &settings);
        let server_caches = controllers::server_caches(&caches.0, &client, &settings, &stop);
        let triggers = server_caches.triggers.clone();
        let serving =
            server::start_with_caches(client, server_caches, server_settings, calls, stop.clone())
                .await;
        let serving = serving.map_err(|error| listen_error::of_server(error, FLAGS))?;
        Ok(ListeningStandalone {
            rest: serving.rest.unwrap_or(addresses.rest),
            metrics: (controller::Metrics::beside(registry), trigger_metrics),
            shutdown: shutdown.clone(),
            serving,
            settings,
            caches,
            triggers,
            stop,
        })
    }

    fn greeting(&self, rest: SocketAddr) -> String {
        format!(
            "Sluice is running. Its data is in {folder}; Ctrl-C stops it.\n\n\
             Dashboard  http://{rest}   token {token}\n\
             In another terminal, make kubectl and sluice use it:\n  \
             export KUBECONFIG='{kubeconfig}'\n  \
             sluice status --all-namespaces\n  \
             curl -H 'Authorization: Bearer {token}' http://{rest}/api/v1/pipelines\n",
            folder = self.folder.display(),
            // The other terminal may be in another folder.
            kubeconfig = std::path::absolute(self.kubeconfig())
                .unwrap_or_else(|_| self.kubeconfig().to_owned())
                .display(),
            token = self.token,
        )
    }
}

/// The HTTP server is running; the controller is not running yet.
pub(crate) struct ListeningStandalone {
    /// The address of the REST API and the dashboard.
    pub(crate) rest: SocketAddr,
    serving: server::ServerHandle,
    settings: controller::Settings,
    caches: (controller::Caches, AbortOnDropHandle<()>),
    triggers: Arc<ObjectCache<PipelineTrigger>>,
    metrics: (controller::Metrics, TriggerMetrics),
    shutdown: CancellationToken,
    /// Stops the HTTP server.
    stop: CancellationToken,
}

impl ListeningStandalone {
    /// Runs the controller until the shutdown, then stops the HTTP server.
    pub(crate) async fn run(self, client: Client) -> anyhow::Result<()> {
        let outcome = controllers::run(
            client,
            self.settings,
            self.caches,
            self.triggers,
            self.metrics,
            self.shutdown,
        )
        .await;
        self.stop.cancel();
        self.serving.ended().await;
        Ok(outcome?)
    }
}

/// A loopback address with this port.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    (IpAddr::V4(Ipv4Addr::LOCALHOST), port).into()
}

fn create_private_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

/// The token of the owner of the folder, generated at the first start.
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

pub(crate) fn random_text() -> io::Result<String> {
    use io::Read;
    let mut bytes = [0; 24];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Applies our CustomResourceDefinitions and the ClusterRoles for users.
async fn install(client: &Client) -> anyhow::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let parameters = PatchParams::apply("sluice").force();
    for definition in api::crds() {
        let name = definition.name_any();
        definitions
            .patch(&name, &parameters, &Patch::Apply(&definition))
            .await
            .with_context(|| format!("cannot apply the CustomResourceDefinition {name}"))?;
    }
    let roles: Vec<Value> =
        serde_saphyr::from_multiple(ROLES).context("cannot parse the ClusterRoles")?;
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
            .with_context(|| format!("cannot apply the ClusterRole {name}"))?;
    }
    Ok(())
}
