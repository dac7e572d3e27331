//! `sluice completion`: prints a shell completion script. The scripts ask `sluice __complete` for candidates,
//! so that names on the cluster are completed too.

mod candidates;
mod command_line;

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Shell to print the script for; load it with `source <(sluice completion bash)`
    shell: Shell,
}

/// The words of a command line after `sluice`; the last one is completed.
#[derive(Debug, clap::Args)]
pub(crate) struct CompleteArguments {
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    words: Vec<String>,
}

const BASH: &str = r#"_sluice() {
    local IFS=$'\n'
    COMPREPLY=($(sluice __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _sluice sluice
"#;

const ZSH: &str = r#"#compdef sluice
_sluice() {
    local -a candidates
    candidates=("${(@f)$(sluice __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${candidates[1]}" ]]; then compadd -- "${candidates[@]}"; else _files; fi
}
compdef _sluice sluice
"#;

const FISH: &str = r#"complete -c sluice -a '(sluice __complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
"#;

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let script = match arguments.shell {
        Shell::Bash => BASH.to_owned().into_bytes(),
        Shell::Zsh => ZSH.to_owned().into_bytes(),
        Shell::Fish => FISH.to_owned().into_bytes(),
        other => {
            // The generator panics if it cannot write, so it writes to memory.
            let mut script = Vec::new();
            let mut command = crate::args::Arguments::command();
            clap_complete::generate(other, &mut command, "sluice", &mut script);
            script
        }
    };
    Ok(out.write_all(&script)?)
}

/// Prints the candidates for the last word, one per line.
pub(super) async fn complete(
    arguments: &CompleteArguments,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut command = crate::args::Arguments::command();
    command.build();
    let line = command_line::CommandLine::read(&command, &arguments.words);
    for candidate in candidates::of(&line).await {
        writeln!(out, "{candidate}")?;
    }
    Ok(())
}
