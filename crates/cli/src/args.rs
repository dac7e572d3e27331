//! What can be typed.

pub(crate) mod authoring;
pub(crate) mod controller;
pub(crate) mod cross_dc;
pub(crate) mod demo;
pub(crate) mod server;
pub(crate) mod standalone;
pub(crate) mod triggers;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{
    commands::{self, EXIT_CODES},
    crds,
};

/// Moves releases through environments for teams on Flux
#[derive(Debug, Parser)]
#[command(name = "sluice", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs the controller: watches what every environment runs and keeps pipelines up to date,
    /// and takes hooks and REST calls
    #[command(after_help = controller::AFTER_HELP)]
    Controller(Box<controller::Arguments>),
    /// Prints the CustomResourceDefinitions as YAML, for `kubectl apply -f -`
    Crds(crds::Arguments),
    #[command(flatten)]
    People(Box<commands::Command>),
    /// Lists what sets a pipeline in motion: its source, image automation, triggers and hooks
    Triggers(triggers::Arguments),
    /// Shows it at work on this machine: three clusters, a forge, and a release on its way to prod
    Demo(demo::Arguments),
    /// Runs without a cluster: an embedded Kubernetes API, the controller and the door on a folder
    Standalone(standalone::Arguments),
}

/// Reads the command line of this process. Prints help or what is wrong, and exits then.
pub(crate) fn parse() -> Arguments {
    let typed = with_double_dashes(std::env::args_os());
    let called = typed.first().map(std::path::Path::new);
    let is_plugin = called
        .and_then(|called| called.file_stem())
        .is_some_and(|name| name == "kubectl-sluice");
    let command = match is_plugin {
        true => Arguments::command().bin_name("kubectl sluice"),
        false => Arguments::command(),
    };
    let matches = command.get_matches_from(typed);
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Go programs take `-flag` for `--flag`, and manifests of the older projects may say so.
fn with_double_dashes(typed: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let command = Arguments::command();
    let flags: Vec<&str> = command
        .get_subcommands()
        .flat_map(clap::Command::get_arguments)
        .flat_map(|flag| flag.get_long_and_visible_aliases().unwrap_or_default())
        .chain(controller::HIDDEN_SPELLINGS.iter().copied())
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

#[cfg(test)]
mod tests;
