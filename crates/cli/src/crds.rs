//! `sluice crds`: the definitions, to apply or to read.

mod reference;

use std::io::Write;

use anyhow::Context;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Prints what every field means instead, as Markdown
    #[arg(long)]
    reference: bool,
}

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    match arguments.reference {
        true => reference::write(&api::crds(), out),
        false => print(out),
    }
}

/// Writes every definition as a YAML document of its own.
pub(crate) fn print(out: &mut dyn Write) -> anyhow::Result<()> {
    for crd in api::crds() {
        let yaml = serde_saphyr::to_string(&crd).context("cannot write a definition as YAML")?;
        write!(out, "---\n{yaml}")?;
    }
    Ok(())
}
