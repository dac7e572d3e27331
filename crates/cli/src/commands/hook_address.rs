//! The URL at which clusters reach the hooks of Sluice.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use anyhow::bail;

use super::{
    cluster::ClusterFlags,
    installed::{self, InstalledService},
    plan,
    terminal::clean,
};

/// The webhook URL of the Service in the plain manifests.
const PLAIN_ADDRESS: &str = "http://pipeline-promotion.pipeline-system";

#[derive(Debug, clap::Args)]
pub(super) struct AddressFlag {
    /// URL at which leaf clusters reach Sluice's promotion webhook [default: the Service with a port
    /// named `promotion` on the pipeline's cluster; for a file, that of the plain manifests]
    #[arg(long, value_name = "URL", value_parser = address)]
    address: Option<String>,
}

/// Flux sends nothing to an address without a scheme.
fn address(typed: &str) -> Result<String, String> {
    let schemes = ["https://", "http://"];
    match schemes.iter().any(|scheme| typed.starts_with(scheme)) {
        true => Ok(typed.to_owned()),
        false => Err(format!(
            "it must begin with https://, as in https://{typed}"
        )),
    }
}

/// The URL of the promotion webhook.
pub(super) struct HookAddress {
    pub(super) url: String,
    /// How it was determined, if it was not given.
    origin: Option<&'static str>,
}

impl HookAddress {
    /// Writes the comment above the objects of a cluster; without a name, of the pipeline's own.
    pub(super) fn write_heading(
        &self,
        cluster: Option<&str>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match cluster {
            Some(cluster) => writeln!(out, "# For the cluster {}.", clean(cluster))?,
            None => writeln!(out, "# For the cluster of the pipeline.")?,
        }
        match self.note(cluster.is_some()) {
            Some(note) => writeln!(out, "# {note}"),
            None => Ok(()),
        }
    }

    /// A comment for the objects of a cluster.
    fn note(&self, is_leaf: bool) -> Option<String> {
        let origin = self.origin?;
        let advice = match is_leaf {
            true => {
                ", which only the pipeline's cluster can resolve: give the address of its Ingress"
            }
            false => "; give another",
        };
        Some(format!("The address is {origin}{advice} with --address."))
    }
}

impl AddressFlag {
    /// The given address, otherwise that of the installed Service. `pipeline` is its name or a file.
    pub(super) async fn resolve(
        &self,
        pipeline: &str,
        connection: &ClusterFlags,
    ) -> anyhow::Result<HookAddress> {
        if let Some(url) = self.address.clone() {
            return Ok(HookAddress { url, origin: None });
        }
        let plain = HookAddress {
            url: PLAIN_ADDRESS.to_owned(),
            origin: Some(
                "that of the plain manifests' Service (the chart names it after the release)",
            ),
        };
        if plan::is_file(pipeline) {
            return Ok(plain);
        }
        let cluster = connection.connect().await?;
        let listed = installed::services(&cluster.client, "promotion").await;
        let Ok(services) = listed else {
            let note = "that of the plain manifests' Service (Services cannot be listed)";
            let origin = Some(note);
            return Ok(HookAddress { origin, ..plain });
        };
        let urls: BTreeSet<String> = services.iter().map(promotion_url).collect();
        let mut found = urls.iter();
        match (found.next(), found.next()) {
            (Some(url), None) => Ok(HookAddress {
                url: url.clone(),
                origin: Some("that of the Service on the pipeline's cluster"),
            }),
            (None, _) => Ok(plain),
            _ => {
                let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
                bail!(
                    "several Services serve the promotion webhook ({}); choose one with --address",
                    urls.join(", ")
                )
            }
        }
    }
}

/// The URL of the promotion webhook of a Service.
fn promotion_url(service: &InstalledService) -> String {
    let InstalledService {
        namespace,
        name,
        port,
        ..
    } = service;
    match port {
        80 => format!("http://{name}.{namespace}"),
        port => format!("http://{name}.{namespace}:{port}"),
    }
}

/// The name percent-encoded for a path.
pub(super) fn escaped(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte: u8| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    name.bytes().map(escape).collect()
}
