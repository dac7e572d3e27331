//! `sluice dashboard`: forwards a local port to the dashboard with `kubectl port-forward`, and opens it.

use std::{io::Write, process::Stdio};

use anyhow::{Context, bail};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::{
    cluster::{Cluster, ClusterFlags},
    cluster_error::cluster_error,
    installed::{self, InstalledService},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Port on this machine; 0 selects a free port
    #[arg(long, value_name = "PORT", default_value_t = 8083)]
    port: u16,
    /// Print the URL and do not open a browser
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    connection: ClusterFlags,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let service = find(&cluster, arguments.connection.namespace.as_deref()).await?;
    let mut forward = forward(arguments, &service)?;
    let url = first_url(&mut forward).await?;
    writeln!(out, "{url}")?;
    writeln!(
        out,
        "sign in with a token, such as that of `kubectl create token NAME`; Ctrl-C ends the forwarding"
    )?;
    out.flush()?;
    if !arguments.no_open {
        open(&url);
    }
    let status = forward.wait().await;
    let status = status.context("cannot wait for kubectl port-forward")?;
    if !status.success() {
        bail!("kubectl port-forward ended ({status})");
    }
    Ok(())
}

/// The Service of the dashboard, in the given namespace if there is one.
async fn find(cluster: &Cluster, namespace: Option<&str>) -> anyhow::Result<InstalledService> {
    let services = installed::services(&cluster.client, "dashboard").await;
    let services = services.map_err(|error| cluster_error("list the Services", error))?;
    let is_wanted = |service: &InstalledService| {
        namespace.is_none_or(|namespace| namespace == service.namespace)
    };
    let mut found: Vec<_> = services.into_iter().filter(is_wanted).collect();
    let Some(service) = found.pop() else {
        bail!(
            "no Service of Sluice on this cluster has a port named dashboard; install Sluice with the \
             chart or `sluice install`. `sluice standalone` and `sluice demo` print the URL of theirs"
        );
    };
    if let Some(other) = found.first() {
        bail!(
            "several Services serve the dashboard, such as {}/{} and {}/{}; select a namespace with -n",
            other.namespace,
            other.name,
            service.namespace,
            service.name
        );
    }
    Ok(service)
}

fn forward(arguments: &Arguments, service: &InstalledService) -> anyhow::Result<Child> {
    let local = match arguments.port {
        0 => String::new(),
        port => port.to_string(),
    };
    let mut command = Command::new("kubectl");
    command.args(arguments.connection.kubectl_flags());
    command.args(["port-forward", "--namespace", &service.namespace]);
    command.arg(format!("service/{}", service.name));
    command.arg(format!("{local}:{}", service.port));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.kill_on_drop(true);
    command.spawn().context(
        "cannot start kubectl, which forwards the port; install it, or publish the dashboard with an \
         Ingress",
    )
}

/// The URL that kubectl forwards from.
async fn first_url(forward: &mut Child) -> anyhow::Result<String> {
    let output = forward.stdout.take().context("kubectl has no output")?;
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines
        .next_line()
        .await
        .context("cannot read from kubectl")?
    {
        let Some(rest) = line.strip_prefix("Forwarding from ") else {
            continue;
        };
        let address = rest.split(' ').next().unwrap_or_default().to_owned();
        // kubectl ends if it cannot write its further output.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        return Ok(format!("http://{address}"));
    }
    bail!("kubectl port-forward ended without forwarding a port")
}

/// Opens the URL in a browser. Without one, the printed URL is enough.
fn open(url: &str) {
    let program = match std::env::consts::OS {
        "macos" => "open",
        _ => "xdg-open",
    };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    drop(command.spawn());
}
