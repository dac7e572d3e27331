//! `sluice create`: creates a Pipeline from flags, or prints its manifest.

use std::io::Write;

use anyhow::Context;
use api::{Pipeline, pipeline::PipelineSpec};
use clap::Subcommand;
use kube::{ResourceExt, api::PostParams};
use serde_json::{Value, json};

use super::{
    UsageError,
    cluster::{ClusterFlags, FIELD_MANAGER},
    cluster_error::cluster_error,
    lint,
    message::print_message,
    yaml,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    kind: CreatedKind,
}

#[derive(Debug, Subcommand)]
enum CreatedKind {
    /// Create a Pipeline, or print its manifest with --export
    #[command(after_help = EXAMPLE)]
    Pipeline(Box<PipelineArguments>),
}

const EXAMPLE: &str = "\
Example:
  sluice create pipeline shop -n shop --app HelmRelease/shop \\
    --environment dev=shop-dev --environment prod=shop@eu,shop@us \\
    --url https://github.com/example/fleet --forge github --secret fleet --manual prod --export";

/// Public hosts, and the forge of each.
const FORGES: [(&str, &str); 6] = [
    ("github.com", "github"),
    ("gitlab.com", "gitlab"),
    ("codeberg.org", "gitea"),
    ("bitbucket.org", "bitbucket-cloud"),
    ("dev.azure.com", "azure-devops"),
    ("ssh.dev.azure.com", "azure-devops"),
];

#[derive(Debug, clap::Args)]
struct PipelineArguments {
    /// Name of the pipeline
    name: String,
    /// App that runs in every target: HelmRelease/NAME, Kustomization/NAME, ResourceSet/NAME, Deployment/NAME
    #[arg(long, value_name = "KIND/NAME")]
    app: String,
    /// Environment and its targets, in the order of promotion; repeat it. A target is a namespace, or
    /// NAMESPACE@CLUSTER with the name of a GitopsCluster
    #[arg(long, short, value_name = "NAME=TARGET,…", required = true)]
    environment: Vec<String>,
    /// Git repository that promotions change by pull request, or an OCI repository (oci://…) in which they
    /// set a tag [default: the strategy is a notification]
    #[arg(long, value_name = "URL", requires = "secret")]
    url: Option<String>,
    /// Tag that the targets of an environment follow, if the URL is an OCI repository
    #[arg(long, value_name = "TAG", default_value = "${environment}")]
    tag: String,
    /// Publish revisions as inputs for Flux Operator; --secret has the key `inputs-token`
    #[arg(long, requires = "secret", conflicts_with = "url")]
    inputs: bool,
    /// Base branch of the pull requests
    #[arg(long, value_name = "BRANCH", default_value = "main")]
    branch: String,
    /// Forge of the repository: github, gitlab, gitea, bitbucket-server, bitbucket-cloud, azure-devops
    /// [default: that of the host, if it is github.com, gitlab.com or another public one]
    #[arg(long, value_name = "FORGE", requires = "url")]
    forge: Option<String>,
    /// What pull requests show, separated by commas: commit-status, comment; or none [default: both]
    #[arg(long, value_name = "KINDS", value_delimiter = ',', requires = "url")]
    feedback: Vec<String>,
    /// Secret with the credentials of the repository, or with the token of --inputs, in the namespace of the pipeline
    #[arg(long, value_name = "NAME")]
    secret: Option<String>,
    /// Environments that need an approval, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    manual: Vec<String>,
    /// Environments that an environment comes after, instead of the one before it in the list; repeat it. With
    /// several, the newest revision that is verified in each of them is promoted
    #[arg(long, value_name = "NAME=NAME,…")]
    after: Vec<String>,
    /// Print the manifest instead of creating the pipeline
    #[arg(long)]
    export: bool,
    #[command(flatten)]
    connection: ClusterFlags,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let CreatedKind::Pipeline(arguments) = &arguments.kind;
    let mut object = arguments.object()?;
    let spec: PipelineSpec = serde_json::from_value(object["spec"].clone())
        .map_err(|error| UsageError(format!("the flags make no pipeline: {error}")))?;
    let mistakes = mistakes(&object, &spec).await?;
    if !mistakes.is_empty() {
        return Err(UsageError(mistakes.join("; ")).into());
    }
    if spec.environments.len() == 1 {
        print_message("with one environment nothing is promoted; add another --environment");
    }
    if arguments.export {
        if let Some(namespace) = &arguments.connection.namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        return yaml::write(out, &object);
    }
    let cluster = arguments.connection.connect().await?;
    let pipeline: Pipeline =
        serde_json::from_value(object).context("the flags make no pipeline")?;
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let pipelines = cluster.api::<Pipeline>(&cluster.namespace);
    let created = pipelines.create(&parameters, &pipeline).await;
    let name = &arguments.name;
    let created =
        created.map_err(|error| cluster_error(&format!("create pipeline {name}"), error))?;
    let (name, namespace) = (created.name_any(), &cluster.namespace);
    writeln!(out, "created pipeline {namespace}/{name}")?;
    writeln!(out, "try: sluice check {name} -n {namespace}")?;
    Ok(())
}

/// What `sluice lint` would report as an error.
async fn mistakes(object: &Value, spec: &PipelineSpec) -> anyhow::Result<Vec<String>> {
    let settings = planner::lint(spec).into_iter();
    let settings = settings.filter(|it| it.is_error).map(|it| it.text);
    let mut found: Vec<String> = settings.chain(lint::refused_urls(spec)).collect();
    found.extend(lint::schema_errors(object).await?);
    Ok(found)
}

/// `prod=eu,us`
fn set_after(environments: &mut [Value], typed: &str) -> anyhow::Result<()> {
    let Some((name, sources)) = typed.split_once('=') else {
        let text = format!("--after {typed} is not of the form NAME=NAME, such as prod=eu,us");
        return Err(UsageError(text).into());
    };
    let environment = environments.iter_mut().find(|it| it["name"] == name);
    let Some(environment) = environment else {
        let text = format!("--after names {name}, which is no --environment");
        return Err(UsageError(text).into());
    };
    let sources = sources.split(',').filter(|source| !source.is_empty());
    environment["after"] = json!(sources.collect::<Vec<_>>());
    Ok(())
}

impl PipelineArguments {
    fn object(&self) -> anyhow::Result<Value> {
        let mut environments = Vec::new();
        for environment in &self.environment {
            environments.push(self.environment(environment)?);
        }
        let names = environments.iter().map(|it| it["name"].clone());
        let names: Vec<Value> = names.collect();
        if let Some(unknown) = self.manual.iter().find(|it| !names.contains(&json!(it))) {
            let text = format!("--manual names {unknown}, which is no --environment");
            return Err(UsageError(text).into());
        }
        for after in &self.after {
            set_after(&mut environments, after)?;
        }
        let strategy = self.strategy()?;
        let is_pull_request = strategy.get("pull-request").is_some();
        if !self.feedback.is_empty() && !is_pull_request {
            let text = "--feedback is for pull requests; use it with the --url of a git repository";
            return Err(UsageError(text.to_owned()).into());
        }
        Ok(json!({
            "apiVersion": "pipelines.weave.works/v1alpha1",
            "kind": "Pipeline",
            "metadata": {"name": self.name},
            "spec": {
                "appRef": app_reference(&self.app)?,
                "promotion": {"strategy": strategy},
                "environments": environments,
            },
        }))
    }

    /// `prod=shop@eu,shop@us`
    fn environment(&self, typed: &str) -> anyhow::Result<Value> {
        let parts = typed.split_once('=');
        let Some((name, targets)) = parts.filter(|(name, _)| !name.is_empty()) else {
            let text = format!("{typed} is not of the form NAME=TARGET, such as dev=shop-dev");
            return Err(UsageError(text).into());
        };
        let targets = targets.split(',').filter(|target| !target.is_empty());
        let targets = targets.map(target).collect::<anyhow::Result<Vec<_>>>()?;
        if targets.is_empty() {
            let text = format!("environment {name} has no target; write {name}=NAMESPACE");
            return Err(UsageError(text).into());
        }
        let mut environment = json!({"name": name, "targets": targets});
        if self.manual.iter().any(|it| it == name) {
            let strategy = self.strategy()?;
            environment["promotion"] = json!({"manual": true, "strategy": strategy});
        }
        Ok(environment)
    }

    fn strategy(&self) -> anyhow::Result<Value> {
        let secret = json!({"name": self.secret});
        if self.inputs {
            return Ok(json!({"resourceSetInputs": {"secretRef": secret}}));
        }
        let Some(url) = &self.url else {
            return Ok(json!({"notification": {}}));
        };
        if url.starts_with("oci://") {
            return Ok(json!({"oci": {"url": url, "tag": self.tag, "secretRef": secret}}));
        }
        let mut strategy = json!({
            "type": self.forge(url)?,
            "url": url,
            "baseBranch": self.branch,
            "secretRef": secret,
        });
        if self.feedback == ["none"] {
            strategy["feedback"] = json!([]);
        } else if !self.feedback.is_empty() {
            strategy["feedback"] = json!(self.feedback);
        }
        Ok(json!({"pull-request": strategy}))
    }

    /// The forge that was typed, or that of a public host. Any other host may be anything.
    fn forge(&self, url: &str) -> anyhow::Result<String> {
        let known = FORGES.iter().find(|(host, _)| host_of(url) == *host);
        let known = known.map(|(_, forge)| (*forge).to_owned());
        self.forge.clone().or(known).ok_or_else(|| {
            let kinds = "github, gitlab, gitea, bitbucket-server, bitbucket-cloud or azure-devops";
            let text = format!("the --url does not tell which forge it is; add --forge {kinds}");
            UsageError(text).into()
        })
    }
}

/// The host of `https://host/path`, `ssh://git@host/path` or `git@host:path`; lower case, without its port.
fn host_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    host.to_lowercase()
}

/// `NAMESPACE` or `NAMESPACE@CLUSTER`.
fn target(typed: &str) -> anyhow::Result<Value> {
    let Some((namespace, cluster)) = typed.split_once('@') else {
        return Ok(json!({"namespace": typed}));
    };
    if namespace.is_empty() || cluster.is_empty() {
        let text = format!("{typed} is not of the form NAMESPACE or NAMESPACE@CLUSTER");
        return Err(UsageError(text).into());
    }
    let cluster = json!({"kind": "GitopsCluster", "name": cluster});
    Ok(json!({"namespace": namespace, "clusterRef": cluster}))
}

fn app_reference(typed: &str) -> anyhow::Result<Value> {
    let (kind, name) = typed.split_once('/').unwrap_or((typed, ""));
    let known = lint::APP_KINDS;
    let found = known.iter().find(|(it, _)| it.eq_ignore_ascii_case(kind));
    match found.filter(|_| !name.is_empty()) {
        Some((kind, api_version)) => {
            Ok(json!({"apiVersion": api_version, "kind": kind, "name": name}))
        }
        None => {
            let kinds = known.map(|(kind, _)| kind).join(", ");
            let text = format!("--app {typed} is not of the form KIND/NAME with one of {kinds}");
            Err(UsageError(text).into())
        }
    }
}
