//! `sluice crds`.

use std::io::Write;

use anyhow::Context;

/// Writes every definition as a YAML document of its own.
pub(crate) fn print(out: &mut dyn Write) -> anyhow::Result<()> {
    for crd in api::crds() {
        let yaml = serde_saphyr::to_string(&crd).context("cannot write a definition as YAML")?;
        write!(out, "---\n{yaml}")?;
    }
    Ok(())
}
