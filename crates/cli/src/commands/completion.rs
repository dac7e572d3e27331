//! `sluice completion`: a script for a shell.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The shell, such as in `source <(sluice completion bash)`
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    // The generator panics where it cannot write, so it gets memory to write to.
    let mut script = Vec::new();
    let mut command = crate::args::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "sluice", &mut script);
    Ok(out.write_all(&script)?)
}
