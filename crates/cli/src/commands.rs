//! What people type: looking, asking, approving, checking files.
//!
//! Every command works with the caller's own rights on the cluster of a kubeconfig, or offline.
//! Output is for people on a terminal and the same every time in a pipe. What comes from clusters
//! is never trusted to be printable. Decisions are the planner's.

mod approve;
mod checkout;
mod cluster;
mod completion;
mod explain;
mod follow;
mod get;
mod history;
mod hooks;
mod install;
mod lint;
mod plan;
mod request;
mod scaffold;
mod status;
mod suspend;
mod table;
mod terminal;
mod tree;
mod trouble;
mod version;
mod watch;
mod words;
mod yaml;

use std::{fmt, io::Write, process::ExitCode};

use clap::Subcommand;

/// What scripts can rely on.
pub(crate) const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 wrong usage; \
     3 still held or waiting when the time was up (commands with --wait)";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists pipelines, promotions, changes, triggers or clusters
    Get(get::Arguments),
    /// Draws a pipeline: what each environment runs, and what waits for what
    #[command(after_help = EXIT_CODES)]
    Status(status::Arguments),
    /// Says in words where every environment is and why the next one waits
    Explain(explain::Arguments),
    /// Shows environments, targets, apps and images as a tree
    Tree(tree::Arguments),
    /// Lists past and present promotions, newest first
    History(history::Arguments),
    /// Approves the revision that waits to enter an environment
    #[command(after_help = EXIT_CODES)]
    Approve(approve::Arguments),
    /// Asks for a revision to be brought into an environment
    #[command(after_help = EXIT_CODES)]
    Promote(request::Promote),
    /// Asks for an environment to go back, and rejects what it runs now
    #[command(after_help = EXIT_CODES)]
    Rollback(request::Rollback),
    /// Lets nothing start in a pipeline or in one environment of it
    Suspend(suspend::Arguments),
    /// Takes a suspension back
    Resume(suspend::Arguments),
    /// Tells what happens to pipelines, line by line, until it is stopped
    Watch(watch::Arguments),
    /// Checks manifests without a cluster
    Lint(lint::Arguments),
    /// Shows the exact change that a promotion would make in a checkout
    Plan(plan::Arguments),
    /// Writes or proposes the app manifests that an environment lacks, after those of the one before
    #[command(after_help = EXIT_CODES)]
    Scaffold(scaffold::Arguments),
    /// Prints the Flux Providers, Alerts and Secrets that report deployments to Sluice
    Hooks(hooks::Arguments),
    /// Prints everything that has to be applied to a cluster
    Install(install::Arguments),
    /// Prints a script that completes commands in a shell
    Completion(completion::Arguments),
    /// Prints the version
    Version(version::Arguments),
}

/// Runs a command.
pub(crate) async fn run(command: Command, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        Command::Get(arguments) => get::run(&arguments, out).await,
        Command::Status(arguments) => status::run(&arguments, out).await,
        Command::Explain(arguments) => explain::run(&arguments, out).await,
        Command::Tree(arguments) => tree::run(&arguments, out).await,
        Command::History(arguments) => history::run(&arguments, out).await,
        Command::Approve(arguments) => approve::run(&arguments, out).await,
        Command::Promote(arguments) => request::promote(&arguments, out).await,
        Command::Rollback(arguments) => request::rollback(&arguments, out).await,
        Command::Suspend(arguments) => suspend::run(&arguments, true, out).await,
        Command::Resume(arguments) => suspend::run(&arguments, false, out).await,
        Command::Watch(arguments) => watch::run(&arguments, out).await,
        Command::Lint(arguments) => lint::run(&arguments, out).await,
        Command::Plan(arguments) => plan::run(&arguments, out).await,
        Command::Scaffold(arguments) => scaffold::run(&arguments, out).await,
        Command::Hooks(arguments) => hooks::run(&arguments, out).await,
        Command::Install(arguments) => install::run(&arguments, out),
        Command::Completion(arguments) => completion::run(&arguments, out),
        Command::Version(arguments) => version::run(&arguments, out),
    }
}

/// The time was up and something is still held or under way.
#[derive(Debug)]
pub(crate) struct StillWaiting(pub(crate) String);

impl fmt::Display for StillWaiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "still waiting: {}", self.0)
    }
}

impl std::error::Error for StillWaiting {}

/// How the process ends after an error.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    match error.is::<StillWaiting>() {
        true => ExitCode::from(3),
        false => ExitCode::FAILURE,
    }
}
