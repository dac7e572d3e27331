//! The command line: subcommands, flags and their environment variables.

pub(crate) mod authoring;
pub(crate) mod controller;
pub(crate) mod cross_dc;
#[cfg(feature = "demo")]
pub(crate) mod demo;
pub(crate) mod environment_flag;
pub(crate) mod legacy;
pub(crate) mod oidc;
pub(crate) mod reference;
pub(crate) mod server;
#[cfg(feature = "standalone")]
pub(crate) mod standalone;
pub(crate) mod triggers;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};

use crate::{commands, crds};
use environment_flag::with_environment_after_pipeline;

/// Text below the list of commands.
const AFTER_HELP: &str = "\
Commands that use a cluster accept --kubeconfig FILE, --context NAME, --as USER, --as-group GROUP and -n, \
--namespace NAME, before or after the command; those that list pipelines also -A, --all-namespaces. \
The environment follows the pipeline, as in `sluice explain web prod`; -e, --environment NAME works too.

Exit codes: 0 success; 1 failure; 2 usage error; 3 still held or waiting (commands with --wait)";

/// Flags with a value that may stand before the command.
pub(crate) const LEADING_FLAGS: [&str; 10] = [
    "--kubeconfig",
    "--context",
    "--namespace",
    "-n",
    "--as",
    "--as-group",
    "--output",
    "-o",
    "--selector",
    "-l",
];
/// Flags without a value that may stand before the command.
pub(crate) const LEADING_SWITCHES: [&str; 5] =
    ["--all-namespaces", "-A", "--watch", "-w", "--no-headers"];

/// Promotes releases through environments for teams on Flux
#[derive(Debug, Parser)]
#[command(name = "sluice", version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the controller: reconciles pipelines and serves webhooks, the REST API and the dashboard
    #[command(after_help = controller::AFTER_HELP)]
    Controller(Box<controller::Arguments>),
    /// Print the CustomResourceDefinitions as YAML, for `kubectl apply --server-side -f -`
    Crds(crds::Arguments),
    /// Print the command reference as Markdown
    #[command(name = "__reference", hide = true)]
    Reference,
    #[command(flatten)]
    Client(Box<commands::ClientCommand>),
    /// List the triggers of a pipeline: its source, image automation, PipelineTriggers and webhooks
    Triggers(triggers::Arguments),
    /// Run a demo on this machine: three clusters, a git forge, and a version that is promoted to prod
    #[cfg(feature = "demo")]
    Demo(demo::Arguments),
    #[cfg(not(feature = "demo"))]
    #[command(hide = true)]
    Demo(OmittedCommand),
    /// Run without a cluster: the controller with an embedded Kubernetes API that stores its objects in
    /// a folder
    #[cfg(feature = "standalone")]
    Standalone(standalone::Arguments),
    #[cfg(not(feature = "standalone"))]
    #[command(hide = true)]
    Standalone(OmittedCommand),
}

/// A command that this binary was built without. Its arguments are ignored.
#[cfg(not(all(feature = "demo", feature = "standalone")))]
#[derive(Debug, clap::Args)]
pub(crate) struct OmittedCommand {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Parses the command line of this process. Prints help or usage errors, and then exits.
pub(crate) fn parse() -> Arguments {
    let typed = with_leading_flags_last(with_double_dashes(std::env::args_os()));
    let called = typed.first().map(std::path::Path::new);
    let is_plugin = called
        .and_then(|called| called.file_stem())
        .is_some_and(|name| name == "kubectl-sluice");
    let command = match is_plugin {
        true => Arguments::command().bin_name("kubectl sluice"),
        false => Arguments::command(),
    };
    if let Some(error) = leading_flag_error(&typed) {
        command
            .clone()
            .error(ErrorKind::MissingSubcommand, error)
            .exit();
    }
    let typed = with_environment_after_pipeline(&command, typed);
    let matches = command.get_matches_from(typed);
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Replaces `-flag` by `--flag`: Go programs accept both, so manifests of the older projects may use
/// either.
fn with_double_dashes(typed: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let command = Arguments::command();
    let flags: Vec<&str> = command
        .get_subcommands()
        .flat_map(clap::Command::get_arguments)
        .flat_map(|flag| flag.get_long_and_visible_aliases().unwrap_or_default())
        .chain(controller::HIDDEN_ALIASES.iter().copied())
        .collect();
    let is_flag = |name: &str| flags.contains(&name.split('=').next().unwrap_or(name));
    typed
        .into_iter()
        .map(|word| {
            let name = word.to_str().and_then(|word| word.strip_prefix('-'));
            match name.filter(|name| is_flag(name)) {
                Some(name) => format!("--{name}").into(),
                None => word,
            }
        })
        .collect()
}

/// Moves flags like `-n shop` from before the command to the end, where each command has its own.
pub(crate) fn with_leading_flags_last(typed: Vec<OsString>) -> Vec<OsString> {
    let mut words = typed.into_iter().peekable();
    let mut moved = Vec::new();
    let mut rest: Vec<OsString> = words.next().into_iter().collect();
    while let Some(flag) = words.next_if(is_leading_flag) {
        let takes_next = flag.to_str().is_some_and(|it| LEADING_FLAGS.contains(&it));
        moved.push(flag);
        moved.extend(words.next_if(|_| takes_next));
    }
    rest.extend(words);
    let end = rest.iter().position(|word| word == "--");
    let end = end.unwrap_or(rest.len());
    rest.splice(end..end, moved);
    rest
}

/// `-A`, `-n`, `-nshop`, `--namespace` or `--namespace=shop`, and the like.
fn is_leading_flag(word: &OsString) -> bool {
    let word = word.to_str().unwrap_or_default();
    let name = word.split('=').next().unwrap_or_default();
    let has_value = |flag: &&str| word.len() > 2 && word.starts_with(*flag);
    let is_attached = ["-n", "-o", "-l"].iter().any(has_value);
    LEADING_FLAGS.contains(&name) || LEADING_SWITCHES.contains(&word) || is_attached
}

/// What is wrong where only such flags were typed and no command: clap would call the first one unexpected.
fn leading_flag_error(typed: &[OsString]) -> Option<String> {
    let flag = typed.get(1).filter(|it| is_leading_flag(it))?;
    let last = typed.last()?.to_str()?;
    let flag = flag.to_str()?;
    Some(match LEADING_FLAGS.contains(&last) {
        true => format!(
            "{last} needs a value, and then a command, such as `sluice {last} VALUE get pipelines`"
        ),
        false => format!(
            "{flag} needs a command, such as `sluice {} get pipelines`",
            shown(typed)
        ),
    })
}

/// What was typed after the name of the program.
fn shown(typed: &[OsString]) -> String {
    let words = typed.iter().skip(1).map(|it| it.to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
