//! The cluster, the controllers on it, and the CRDs.

use controller::installed::{self as definitions};

use super::{
    super::{
        cluster::Cluster,
        cluster_error::cluster_error,
        installed::{self, InstalledController},
    },
    Check, sign_in,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) async fn check(cluster: &Cluster) -> anyhow::Result<Vec<Check>> {
    let (kubernetes, controllers) = installed::controllers(&cluster.client)
        .await
        .map_err(|error| cluster_error("read the version of the cluster", error))?;
    let mut checks = vec![Check::passed("Kubernetes", kubernetes)];
    match controllers {
        Ok(controllers) if controllers.is_empty() => {
            let text = "not found on this cluster; install it with the chart or `sluice install`. \
                        Ignore this if it runs elsewhere";
            checks.push(Check::warning("controller", text));
        }
        Ok(controllers) => {
            checks.extend(controllers.iter().map(controller));
            checks.extend(sign_in::check(&cluster.client, &controllers).await);
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let text = "not checked: you may not list Deployments";
            checks.push(Check::warning("controller", text));
        }
        Err(error) => return Err(cluster_error("list the Deployments", error)),
    }
    checks.push(match definitions::compare(&cluster.client).await {
        Ok(lacking) if lacking.is_empty() => Check::passed("CRDs", "complete"),
        Ok(lacking) => Check::failed("CRDs", lacking.to_string()),
        Err(definitions::Error::Forbidden { .. }) => {
            Check::warning("CRDs", "not checked: you may not read them")
        }
        Err(error) => return Err(error.into()),
    });
    Ok(checks)
}

fn controller(found: &InstalledController) -> Check {
    let place = found.deployment.as_deref().unwrap_or("embedded");
    let subject = format!("controller {place}");
    let version = &found.version;
    if !found.is_available {
        let text = format!("version {version} has no available replica; see `kubectl describe`");
        return Check::failed(subject, text);
    }
    match version == VERSION {
        true => Check::passed(subject, format!("version {version}")),
        false => Check::warning(
            subject,
            format!(
                "version {version}, and this command is {VERSION}; use the same version of both"
            ),
        ),
    }
}
