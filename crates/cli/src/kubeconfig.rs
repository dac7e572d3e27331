//! Loads the kubeconfig of the cluster to connect to.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use kube::{
    Config,
    config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};

/// How the folder of a demo begins; its kubeconfig is in a subfolder.
pub(crate) const DEMO_FOLDER: &str = "sluice-demo-";

/// Loads a kubeconfig file; without one, the default locations and then the in-cluster config.
pub(crate) async fn load(file: Option<&Path>) -> anyhow::Result<Config> {
    let Some(file) = file else {
        return Config::infer().await.map_err(not_found);
    };
    select(Some(file), None).await
}

/// Loads a context of a kubeconfig file; without names, the current context of the default file.
pub(crate) async fn select(file: Option<&Path>, context: Option<&str>) -> anyhow::Result<Config> {
    let kubeconfig = match file {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let kubeconfig = kubeconfig.map_err(|error| unreadable(error, file))?;
    require_context(&kubeconfig, context)?;
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    config.with_context(|| match file {
        Some(file) => format!("cannot use the kubeconfig {}", file.display()),
        None => {
            "the kubeconfig is not usable: set another with --kubeconfig or $KUBECONFIG".to_owned()
        }
    })
}

/// The error where there is neither a usable kubeconfig nor a cluster around.
fn not_found(error: InferConfigError) -> anyhow::Error {
    match Kubeconfig::read() {
        Err(error @ KubeconfigError::Parse(_)) => unreadable(error, None),
        _ => anyhow::Error::new(error).context(
            "found no usable kubeconfig, and not running in a cluster; set --kubeconfig or $KUBECONFIG",
        ),
    }
}

/// The error for a file that cannot be read. It never repeats what is in the file, such as tokens.
fn unreadable(error: KubeconfigError, named: Option<&Path>) -> anyhow::Error {
    match error {
        KubeconfigError::ReadConfig(_, file) if is_of_ended_demo(&file) => {
            anyhow!("{}", ended_demo(&file))
        }
        KubeconfigError::ReadConfig(error, file) if named.is_some() => anyhow::Error::new(error)
            .context(format!("cannot read the kubeconfig {}", file.display())),
        KubeconfigError::ReadConfig(_, file) => anyhow!(
            "there is no kubeconfig {}: set --kubeconfig or $KUBECONFIG",
            file.display()
        ),
        KubeconfigError::Parse(error) => {
            let place = error.location();
            let place = place.map(|it| format!(" at line {}, column {}", it.line(), it.column()));
            anyhow!(
                "cannot read the kubeconfig {}: it is not valid YAML, or a field has the wrong type{}",
                shown(named),
                place.unwrap_or_default()
            )
        }
        error => anyhow::Error::new(error)
            .context(format!("cannot read the kubeconfig {}", shown(named))),
    }
}

/// The file that was asked for, or the default.
fn shown(named: Option<&Path>) -> String {
    let variable = std::env::var("KUBECONFIG").ok();
    let variable = variable.filter(|files| !files.is_empty());
    match named {
        Some(file) => file.display().to_string(),
        None => variable.unwrap_or_else(|| "~/.kube/config".to_owned()),
    }
}

/// Fails if the kubeconfig does not have the context, and names those it has.
fn require_context(kubeconfig: &Kubeconfig, context: Option<&str>) -> anyhow::Result<()> {
    let names = kubeconfig.contexts.iter().map(|it| it.name.as_str());
    let names: Vec<&str> = names.collect();
    let all = match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    };
    let current = kubeconfig.current_context.as_deref();
    match context.or(current.filter(|it| !it.is_empty())) {
        Some(context) if names.contains(&context) => Ok(()),
        Some(context) => bail!("the kubeconfig has no context {context}; it has: {all}"),
        None if names.is_empty() => {
            bail!("the kubeconfig has no contexts: set another with --kubeconfig or $KUBECONFIG")
        }
        None => bail!("the kubeconfig has no current context; choose one with --context: {all}"),
    }
}

/// Whether a missing kubeconfig was that of a demo.
pub(crate) fn is_of_ended_demo(file: &Path) -> bool {
    let is_demo = |it: &std::ffi::OsStr| it.to_string_lossy().starts_with(DEMO_FOLDER);
    file.iter().any(is_demo) && !file.exists()
}

/// The error for the kubeconfig of a demo that has ended.
pub(crate) fn ended_demo(file: &Path) -> String {
    format!(
        "the demo of the kubeconfig {} has ended; start another with `sluice demo`, and select it with \
         `eval \"$(sluice demo env)\"`",
        file.display()
    )
}
