//! `sluice completion`: prints a shell completion script.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Shell to print the script for; load it with `source <(sluice completion bash)`
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    // The generator panics if it cannot write, so it writes to memory.
    let mut script = Vec::new();
    let mut command = crate::args::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "sluice", &mut script);
    Ok(out.write_all(&script)?)
}
