//! Flags for the git repository in which the controller proposes new files.

use anyhow::{Context, ensure};
use api::pipeline::ForgeKind;
use clap::{Args, builder::TypedValueParser};
use controller::settings;
use git::{names::BranchName, paths::PathLimits, repository_url::RepositoryUrl};
use net::AddressPolicy;
use runtime::ObjectKey;

const AUTHORING: &str = "Authoring (the repository for new pipelines and scaffolded files)";

/// Either none of these flags is set, or url, secret and paths are.
#[derive(Debug, Args)]
pub(crate) struct AuthoringFlags {
    /// Git repository in which Changes are proposed as pull requests: pipelines from the dashboard's
    /// form, files from `sluice scaffold --change` [default: none; Changes fail]
    #[arg(long, env = "SLUICE_AUTHORING_URL", value_name = "URL", help_heading = AUTHORING)]
    pub(crate) authoring_url: Option<String>,

    /// Base branch of the pull requests
    #[arg(long, env = "SLUICE_AUTHORING_BRANCH", value_name = "BRANCH", default_value = "main", help_heading = AUTHORING)]
    authoring_branch: String,

    /// Forge that hosts the repository
    #[arg(long, env = "SLUICE_AUTHORING_TYPE", value_name = "FORGE", default_value = "github", value_parser = forge(), help_heading = AUTHORING)]
    authoring_type: ForgeKind,

    /// Secret with the credentials, as NAME in the namespace of the controller, or as NAMESPACE/NAME
    #[arg(long, env = "SLUICE_AUTHORING_SECRET", value_name = "SECRET", help_heading = AUTHORING)]
    authoring_secret: Option<String>,

    /// Folders in which files may be proposed, separated by commas; `.` allows the whole repository,
    /// `${namespace}` is replaced by the namespace of the Change
    #[arg(long, env = "SLUICE_AUTHORING_PATHS", value_name = "FOLDERS", value_delimiter = ',', help_heading = AUTHORING)]
    authoring_paths: Vec<String>,
}

impl AuthoringFlags {
    /// Validates the flags. `own_namespace` is the namespace of the controller.
    pub(crate) fn check(
        &self,
        own_namespace: &str,
        allow_internal: bool,
    ) -> anyhow::Result<Option<settings::Authoring>> {
        let secret = self.authoring_secret.as_deref().unwrap_or_default();
        let folders = self.folders()?;
        let Some(url) = self.authoring_url.as_deref().filter(|url| !url.is_empty()) else {
            ensure!(
                secret.is_empty() && folders.is_empty(),
                "--authoring-secret and --authoring-paths need --authoring-url"
            );
            return Ok(None);
        };
        ensure!(
            !secret.is_empty(),
            "--authoring-url needs --authoring-secret, the Secret with the credentials"
        );
        ensure!(
            !folders.is_empty(),
            "--authoring-url needs --authoring-paths, the folders that files may be proposed in; \
             `.` allows them all"
        );
        let policy = AddressPolicy {
            allow_internal,
            allow_insecure: false,
        };
        let url = RepositoryUrl::parse(url, policy).context("--authoring-url cannot be used")?;
        BranchName::new(self.authoring_branch.as_str())
            .context("--authoring-branch cannot be used")?;
        let (namespace, name) = secret.split_once('/').unwrap_or((own_namespace, secret));
        Ok(Some(settings::Authoring {
            url: url.as_str().to_owned(),
            branch: self.authoring_branch.clone(),
            forge: self.authoring_type,
            secret: ObjectKey::new(namespace, name),
            folders,
        }))
    }

    fn folders(&self) -> anyhow::Result<Vec<String>> {
        let folders = self.authoring_paths.iter().map(|folder| folder.trim());
        let folders = folders.filter(|folder| !folder.is_empty());
        folders
            .map(|folder| {
                PathLimits::new([folder])
                    .context("--authoring-paths must name folders of the repository")?;
                Ok(folder.to_owned())
            })
            .collect()
    }
}

/// Accepts the forge names of `Pipeline.spec`.
fn forge() -> impl TypedValueParser<Value = ForgeKind> {
    let names = git::forge::ForgeProduct::ALL.map(|(name, _)| name);
    clap::builder::PossibleValuesParser::new(names).try_map(|name| {
        let name = serde_json::Value::String(name);
        serde_json::from_value::<ForgeKind>(name)
    })
}
