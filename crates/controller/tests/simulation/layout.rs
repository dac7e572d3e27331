//! The Pipeline of a run: which targets there are, how they are changed, and what must hold before.

use serde_json::{Value, json};

use crate::{
    dice::Dice,
    forge::{HOST, REPOSITORY},
};

/// The environments in their order.
pub(crate) const ENVIRONMENTS: [&str; 3] = ["dev", "staging", "prod"];
/// The environments that promotions lead into.
pub(crate) const PROMOTED: [&str; 2] = ["staging", "prod"];
/// The targets of prod where it is a fleet. The first is the canary.
pub(crate) const FLEET: [&str; 4] = ["prod-1", "prod-2", "prod-3", "prod-4"];
/// The Secret with the key of those who report the check `ticket`.
pub(crate) const TICKET: &str = "ticket";

/// What the pipeline of a run asks for.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// How staging is changed.
    pub(crate) staging: StagingStrategy,
    /// Whether people approve what enters prod.
    pub(crate) is_manual: bool,
    /// How long the environment before must have been ready, in seconds.
    pub(crate) soak: u64,
    /// Whether a check must pass in staging, which is rolled back otherwise.
    pub(crate) has_check: bool,
    /// Whether somebody else reports a check of what enters prod.
    pub(crate) has_ticket: bool,
    /// How a revision goes through the targets of prod, if there are several.
    pub(crate) fleet: Option<Fleet>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StagingStrategy {
    MergedByPeople,
    MergedBySluice,
    Commit,
}

/// A rollout in two waves: the canary, then the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fleet {
    pub(crate) max_concurrent: u64,
    pub(crate) max_failures: u64,
    /// Whether a newer revision replaces a rollout under way.
    pub(crate) restarts: bool,
    pub(crate) commits: bool,
}

impl Layout {
    pub(crate) fn drawn(dice: &Dice) -> Self {
        use StagingStrategy::{Commit, MergedByPeople, MergedBySluice};
        Self {
            staging: *dice.pick(&[MergedByPeople, MergedBySluice, MergedBySluice, Commit]),
            is_manual: dice.happens(500),
            soak: *dice.pick(&[0, 0, 60]),
            has_check: dice.happens(500),
            has_ticket: dice.happens(250),
            fleet: dice.happens(350).then(|| Fleet {
                max_concurrent: 1 + dice.below(2),
                max_failures: dice.below(2),
                restarts: dice.happens(300),
                commits: dice.happens(400),
            }),
        }
    }

    pub(crate) fn merges_itself(&self, environment: &str) -> bool {
        environment == "staging" && self.staging == StagingStrategy::MergedBySluice
    }

    pub(crate) fn commits_itself(&self, environment: &str) -> bool {
        match environment {
            "staging" => self.staging == StagingStrategy::Commit,
            _ => self.fleet.is_some_and(|fleet| fleet.commits),
        }
    }

    pub(crate) fn is_manual(&self, environment: &str) -> bool {
        environment == "prod" && self.is_manual
    }

    /// Whether a version must pass a check in the environment before it goes on.
    pub(crate) fn is_checked(&self, environment: &str) -> bool {
        environment == "staging" && self.has_check
    }

    /// Whether somebody else must report a check before a version enters the environment.
    pub(crate) fn needs_ticket(&self, environment: &str) -> bool {
        environment == "prod" && self.has_ticket
    }

    /// The environment before.
    pub(crate) fn source_of(&self, environment: &str) -> &'static str {
        match environment {
            "prod" => "staging",
            _ => "dev",
        }
    }

    /// The targets of an environment; each is a cluster and a namespace of that name.
    pub(crate) fn targets_of(&self, environment: &str) -> Vec<String> {
        match self.fleet.filter(|_| environment == "prod") {
            Some(_) => FLEET.map(str::to_owned).to_vec(),
            None => vec![environment.to_owned()],
        }
    }

    pub(crate) fn targets(&self) -> Vec<String> {
        let all = ENVIRONMENTS.iter().map(|name| self.targets_of(name));
        all.flatten().collect()
    }

    fn strategy(&self, environment: &str) -> Value {
        let mut strategy = json!({
            "url": REPOSITORY, "baseBranch": "main", "secretRef": {"name": "git"},
        });
        if self.targets_of(environment).len() > 1 {
            strategy["paths"] = json!(["clusters/${cluster}/**"]);
        }
        if self.commits_itself(environment) {
            return json!({"commit": strategy});
        }
        strategy["type"] = json!("gitea");
        strategy["autoMerge"] = json!(self.merges_itself(environment));
        json!({"pull-request": strategy})
    }

    fn promotion(&self, environment: &str) -> Value {
        let mut promotion = json!({
            "strategy": self.strategy(environment), "manual": self.is_manual(environment),
            "soak": format!("{}s", self.soak),
        });
        if self.needs_ticket(environment) {
            promotion["checks"] = json!([TICKET]);
        }
        if let Some(fleet) = self.fleet.filter(|_| environment == "prod") {
            promotion["rollout"] = json!({
                "waves": [
                    {"selector": {"matchLabels": {"ring": "canary"}}},
                    {"maxConcurrent": fleet.max_concurrent},
                ],
                "maxFailures": fleet.max_failures,
                "onNewRevision": if fleet.restarts { "Restart" } else { "Finish" },
            });
        }
        promotion
    }

    fn environment(&self, name: &str) -> Value {
        let target = |target: String| {
            let cluster = json!({"kind": "GitopsCluster", "name": target});
            json!({"namespace": target, "clusterRef": cluster})
        };
        let targets = self.targets_of(name).into_iter().map(target);
        let mut environment = json!({"name": name, "targets": targets.collect::<Vec<_>>()});
        if name != "dev" {
            environment["promotion"] = self.promotion(name);
        }
        if self.is_checked(name) {
            environment["verify"] = json!({"checks": ["smoke"], "onFailure": "Rollback"});
        }
        environment
    }

    pub(crate) fn pipeline(&self) -> Value {
        let environments: Vec<Value> = ENVIRONMENTS.map(|name| self.environment(name)).to_vec();
        json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": "app", "namespace": "default"},
            "spec": {
                "appRef": {
                    "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
                },
                "checks": [
                    {
                        "name": "smoke", "failureThreshold": 3,
                        "http": {
                            "url": format!("https://{HOST}/checks/${{environment}}/${{version}}"),
                            "passExpr": "status == 200",
                        },
                    },
                    {"name": TICKET, "timeout": "24h", "external": {"secretRef": {"name": TICKET}}},
                ],
                "environments": environments,
            },
        })
    }
}

/// The environment that a target belongs to.
pub(crate) fn environment_of(target: &str) -> &str {
    target.split('-').next().unwrap_or_default()
}

pub(crate) fn manifest_path(target: &str) -> String {
    format!("clusters/{target}/app.yaml")
}

/// The manifests of the application and of one that another pipeline promotes.
pub(crate) fn manifest(target: &str, version: &str) -> String {
    let environment = environment_of(target);
    format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n\
         metadata:\n  name: app\n  namespace: {target}\n\
         spec:\n  chart:\n    spec:\n      chart: app\n      \
         version: {version} # {{\"$promotion\": \"default:app:{environment}\"}}\n\
         ---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n\
         metadata:\n  name: other\n  namespace: {target}\n\
         spec:\n  chart:\n    spec:\n      chart: other\n      \
         version: 0.1.0 # {{\"$promotion\": \"default:other:{environment}\"}}\n"
    )
}

pub(crate) fn version_in(manifest: &str) -> String {
    let mut lines = manifest.lines();
    let version = lines.find_map(|line| line.trim().strip_prefix("version: "));
    let version = version.and_then(|it| it.split_whitespace().next());
    version.unwrap_or_default().to_owned()
}

/// The number in `1.N.0`.
pub(crate) fn number(version: &str) -> u64 {
    let number = version.split('.').nth(1);
    number.and_then(|it| it.parse().ok()).unwrap_or_default()
}
