//! `sluice crds`: prints the CustomResourceDefinitions as YAML, or their fields as Markdown.

mod reference;

use std::io::Write;

use anyhow::Context;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print a reference of all fields as Markdown instead
    #[arg(long)]
    reference: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    match arguments.reference {
        true => reference::write(&api::crds(), out),
        false => print(out),
    }
}

/// Writes each definition as a YAML document.
pub(crate) fn print(out: &mut dyn Write) -> anyhow::Result<()> {
    for crd in api::crds() {
        let yaml = serde_saphyr::to_string(&crd).context("cannot write a definition as YAML")?;
        write!(out, "---\n{yaml}")?;
    }
    Ok(())
}
