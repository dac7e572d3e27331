//! Two processes of which one leads, and a sudden death for the one that does.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use controller::{KubeconfigPolicy, Metrics, Settings};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, Config,
    api::DeleteParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use runtime::leader::{LeaderElection, LeaseTiming};
use tokio_util::sync::CancellationToken;

use crate::{fleet::Fleet, ledger::Random};

/// Set in the process that only leads: the kubeconfig of the hub, and its identity.
const HUB: &str = "SLUICE_TEST_HUB";
const IDENTITY: &str = "SLUICE_TEST_IDENTITY";
const LEASE: &str = "sluice";
/// The longest life of a leader, in milliseconds. It waits for clusters to answer at first, so that many
/// lives end before it started anything, and some while it does.
const LONGEST_LIFE: u64 = if cfg!(debug_assertions) {
    16_000
} else {
    4_000
};

/// Leads or waits to, if this process was started for that.
pub(crate) fn run_if_asked() {
    let (Ok(hub), Ok(identity)) = (std::env::var(HUB), std::env::var(IDENTITY)) else {
        return;
    };
    testbed::tls::install_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(lead(&hub, identity));
}

async fn lead(hub: &str, identity: String) {
    let kubeconfig = Kubeconfig::from_yaml(hub).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let client = Client::try_from(config.unwrap()).unwrap();
    let terms = [15_000, 10_000, 500].map(Duration::from_millis);
    let settings = Settings {
        allow_internal_urls: true,
        // The clusters are behind plain HTTP on loopback.
        kubeconfigs: KubeconfigPolicy(net::AddressPolicy::UNRESTRICTED),
        election: Some(LeaderElection {
            namespace: "default".to_owned(),
            name: LEASE.to_owned(),
            identity,
            timing: LeaseTiming::new(terms[0], terms[1], terms[2]).unwrap(),
        }),
        ..Settings::default()
    };
    let ended = controller::run(client, settings, Metrics::new(), CancellationToken::new()).await;
    ended.unwrap();
}

/// The two processes.
pub(crate) struct Replicas {
    hub: String,
    processes: Vec<(String, Child)>,
    started: usize,
    deaths: usize,
}

impl Drop for Replicas {
    fn drop(&mut self) {
        for (_, process) in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Replicas {
    pub(crate) async fn start(fleet: &Fleet) -> Self {
        let mut replicas = Self {
            hub: fleet.kubeconfig.clone(),
            processes: Vec::new(),
            started: 0,
            deaths: 0,
        };
        replicas.add();
        replicas.add();
        replicas
    }

    pub(crate) fn deaths(&self) -> usize {
        self.deaths
    }

    /// No two processes have the same identity, not even one after the other.
    fn add(&mut self) {
        self.started += 1;
        let identity = format!("replica-{}", self.started);
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "replica", "--nocapture"])
            .env(HUB, &self.hub)
            .env(IDENTITY, &identity)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.processes.push((identity, process.unwrap()));
    }

    /// Waits for a leader, lets it live for a while, and kills it with SIGKILL. Another process takes its
    /// place as the one that waits. The Lease of the dead is deleted, so that nobody has to wait for its end:
    /// it could be short only on a machine that has nothing else to do.
    pub(crate) async fn kill_leader(&mut self, fleet: &Fleet, random: &mut Random) {
        let at = loop {
            let holder = holder(&fleet.hub).await;
            let alive = self
                .processes
                .iter()
                .position(|(it, _)| Some(it) == holder.as_ref());
            match alive {
                Some(at) => break at,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        let life = Duration::from_millis(random.below(LONGEST_LIFE));
        tokio::time::sleep(life).await;
        let (_, mut process) = self.processes.remove(at);
        process.kill().unwrap();
        process.wait().unwrap();
        self.deaths += 1;
        let leases: Api<Lease> = Api::namespaced(fleet.hub.clone(), "default");
        let deleted = leases.delete(LEASE, &DeleteParams::default()).await;
        deleted.unwrap();
        self.add();
    }
}

/// Who holds the Lease.
async fn holder(hub: &Client) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(hub.clone(), "default");
    let lease = leases.get_opt(LEASE).await.unwrap()?;
    lease.spec?.holder_identity
}
