//! The client commands: they show and request things on a cluster, or check manifests offline.
//!
//! Each command uses the caller's own permissions. Output adapts to a terminal and is stable in a pipe.
//! Control characters in text from clusters are removed. Decisions are made by the planner.

mod approve;
mod cancel;
mod check;
mod checkout;
mod cluster;
mod cluster_error;
mod completion;
mod create;
mod dashboard;
mod diff;
mod events;
mod explain;
mod forecast;
mod format;
mod freeze;
mod get;
mod history;
mod hook_address;
mod hooks;
mod inputs;
mod install;
mod installed;
mod line_wrapper;
mod lint;
mod message;
mod output;
mod plan;
mod point_in_time;
mod promote;
mod reconcile;
mod reject;
mod report;
mod request;
mod rollout;
mod rollout_bars;
mod scaffold;
mod short_revision;
mod status;
mod suspend;
mod table;
mod terminal;
mod tree;
mod uninstall;
mod version;
mod wait;
mod watch;
mod yaml;

use std::{fmt, io::Write, process::ExitCode};

use api::pipeline::RequestKind;
use clap::Subcommand;

pub(crate) use cluster::{Cluster, ClusterFlags};
pub(crate) use cluster_error::cluster_error;
use line_wrapper::LineWrapper;
pub(crate) use message::print_message;
pub(crate) use table::{TableCell, TableWriter};
pub(crate) use terminal::width as terminal_width;
pub(crate) use yaml::write as write_yaml;

/// The exit codes, as shown in `--help`.
pub(crate) const EXIT_CODES: &str = "Exit codes: 0 success; 1 failure; 2 usage error; \
     3 still held or waiting (commands with --wait)";

/// What a request skips.
const REQUEST_SKIPS: &str = "A request skips the gates readiness, verified, soak and order: what failed to deploy, \
     failed a check or was rejected is promoted anyway, and approvers see a caution. It never skips \
     approvals or a Freeze. --override passes a Freeze, or a check in promotion.checks of the environment.";

#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// List pipelines, promotions, changes, freezes, checks, triggers or clusters; --watch shows changes
    #[command(alias = "list")]
    Get(get::Arguments),
    /// Show what each environment runs and why a promotion waits: a diagram of a pipeline, or all pipelines
    #[command(after_help = EXIT_CODES)]
    Status(status::Arguments),
    /// Explain the state of each environment and why a promotion waits
    Explain(explain::Arguments),
    /// Forecast when each environment gets its next revision, and what it needs besides time
    Forecast(forecast::Arguments),
    /// Show what the next promotion into an environment brings: versions, edits, images, commits
    Diff(diff::Arguments),
    /// Show environments, targets, apps and images as a tree
    Tree(tree::Arguments),
    /// List the promotions of a pipeline, or of all, newest first
    History(history::Arguments),
    /// List the Kubernetes Events about pipelines and promotions
    Events(events::Arguments),
    /// Approve the revision that waits for approval in an environment
    #[command(after_help = EXIT_CODES)]
    Approve(approve::Arguments),
    /// Reject the promotion into an environment, and close its pull request
    Reject(reject::Arguments),
    /// Cancel a request that waits, or a promotion that is not merged yet
    #[command(after_help = EXIT_CODES)]
    Cancel(cancel::Arguments),
    /// Retry the promotion, the targets of a rollout or the checks that failed
    #[command(after_help = EXIT_CODES)]
    Retry(cancel::Arguments),
    /// Report the result of an external check
    Report(report::Arguments),
    /// Request the promotion of a revision into an environment
    #[command(after_help = format!("{REQUEST_SKIPS}\n\n{EXIT_CODES}"))]
    Promote(promote::Arguments),
    /// Request a rollback of an environment, and reject the revision it runs now
    #[command(
        after_help = format!("{REQUEST_SKIPS}\n\n{EXIT_CODES}"),
        mut_arg("revision", |it| it.help("Revision to roll back to [default: the previous one]"))
    )]
    Rollback(promote::Arguments),
    /// Show the waves of a rollout into an environment; stop it, resume it, or skip a target
    #[command(after_help = EXIT_CODES)]
    Rollout(rollout::Arguments),
    /// Suspend a pipeline or one of its environments: no promotion starts or goes on
    Suspend(suspend::Arguments),
    /// Resume a suspended pipeline or environment
    Resume(suspend::Arguments),
    /// Ask the controller to reconcile a pipeline now, and wait until it has
    #[command(after_help = EXIT_CODES)]
    Reconcile(reconcile::Arguments),
    /// Stop promotions with a Freeze: nothing but rollbacks is pushed, opened, merged or sent
    Freeze(freeze::FreezeArguments),
    /// End the Freezes that `sluice freeze` created
    #[command(alias = "unfreeze")]
    Thaw(freeze::FreezeScopeArguments),
    /// Print the changes of pipelines as they happen, until interrupted
    Watch(watch::Arguments),
    /// Forward a local port to the dashboard, and open it in a browser
    Dashboard(dashboard::Arguments),
    /// Create a pipeline from flags, or print its manifest
    Create(create::Arguments),
    /// Check the cluster: versions, CRDs, your permissions, and what each pipeline needs for its promotions
    Check(check::Arguments),
    /// Check manifests without a cluster
    Lint(lint::Arguments),
    /// Show the exact change that a promotion would make in a git checkout
    Plan(plan::Arguments),
    /// Write or propose the missing app manifests of an environment, copied from the previous one
    #[command(after_help = EXIT_CODES)]
    Scaffold(scaffold::Arguments),
    /// Print the Flux Providers, Alerts and Secrets that report deployments to Sluice
    Hooks(hooks::Arguments),
    /// Print the Flux Operator objects with which clusters poll Sluice for the revision to run
    Inputs(inputs::Arguments),
    /// Print the manifests to install Sluice in a cluster
    Install(install::Arguments),
    /// Delete what `sluice install` created
    #[command(mut_arg("namespace", |it| it.help("Namespace of the installation [default: pipeline-system]")))]
    Uninstall(uninstall::Arguments),
    /// Print a shell completion script
    Completion(completion::Arguments),
    /// Print the candidates for the last word of a command line; completion scripts call it
    #[command(name = "__complete", hide = true)]
    Complete(completion::CompleteArguments),
    /// Print the version of this binary, of the controllers on the cluster and of Kubernetes
    Version(version::Arguments),
}

/// Runs a command.
pub(crate) async fn run(command: ClientCommand, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut out = LineWrapper::new(out);
    let outcome = run_command(command, &mut out).await;
    out.flush()?;
    outcome
}

/// Messages are wrapped. What else a command prints, such as tables and manifests, it makes fit itself.
async fn run_command(command: ClientCommand, out: &mut LineWrapper<'_>) -> anyhow::Result<()> {
    match command {
        ClientCommand::Get(arguments) => get::run(&arguments, out.plain()).await,
        ClientCommand::Status(arguments) => status::run(&arguments, out.plain()).await,
        ClientCommand::Explain(arguments) => explain::run(&arguments, out.plain()).await,
        ClientCommand::Forecast(arguments) => forecast::run(&arguments, out.plain()).await,
        ClientCommand::Diff(arguments) => diff::run(&arguments, out.plain()).await,
        ClientCommand::History(arguments) => history::run(&arguments, out.plain()).await,
        ClientCommand::Check(arguments) => check::run(&arguments, out.plain()).await,
        ClientCommand::Events(arguments) => events::run(&arguments, out.plain()).await,
        ClientCommand::Dashboard(arguments) => dashboard::run(&arguments, out.plain()).await,
        ClientCommand::Create(arguments) => create::run(&arguments, out.plain()).await,
        ClientCommand::Complete(arguments) => completion::complete(&arguments, out.plain()).await,
        ClientCommand::Lint(arguments) => lint::run(&arguments, out.plain()).await,
        ClientCommand::Plan(arguments) => plan::run(&arguments, out.plain()).await,
        ClientCommand::Scaffold(arguments) => scaffold::run(&arguments, out.plain()).await,
        ClientCommand::Hooks(arguments) => hooks::run(&arguments, out.plain()).await,
        ClientCommand::Inputs(arguments) => inputs::run(&arguments, out.plain()).await,
        ClientCommand::Install(arguments) => install::run(&arguments, out.plain()),
        ClientCommand::Completion(arguments) => completion::run(&arguments, out.plain()),
        ClientCommand::Version(arguments) => version::run(&arguments, out.plain()).await,
        ClientCommand::Tree(arguments) => tree::run(&arguments, out).await,
        ClientCommand::Reconcile(arguments) => reconcile::run(&arguments, out).await,
        ClientCommand::Uninstall(arguments) => uninstall::run(&arguments, out).await,
        ClientCommand::Approve(arguments) => approve::run(&arguments, out).await,
        ClientCommand::Reject(arguments) => reject::run(&arguments, out).await,
        ClientCommand::Cancel(arguments) => cancel::run(&arguments, RequestKind::Cancel, out).await,
        ClientCommand::Retry(arguments) => cancel::run(&arguments, RequestKind::Retry, out).await,
        ClientCommand::Report(arguments) => report::run(&arguments, out).await,
        ClientCommand::Promote(arguments) => promote::promote(&arguments, out).await,
        ClientCommand::Rollback(arguments) => promote::rollback(&arguments, out).await,
        ClientCommand::Rollout(arguments) => match arguments.is_text() {
            true => rollout::run(&arguments, out).await,
            false => rollout::run(&arguments, out.plain()).await,
        },
        ClientCommand::Suspend(arguments) => suspend::run(&arguments, true, out).await,
        ClientCommand::Resume(arguments) => suspend::run(&arguments, false, out).await,
        ClientCommand::Freeze(arguments) => freeze::freeze(&arguments, out).await,
        ClientCommand::Thaw(scope) => freeze::thaw(&scope, out).await,
        ClientCommand::Watch(arguments) => watch::run(&arguments, out).await,
    }
}

/// The error of a wait that reached its timeout. Holds what it was waiting for.
#[derive(Debug)]
pub(crate) struct WaitTimeout(pub(crate) String);

impl fmt::Display for WaitTimeout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "still waiting: {}", self.0)
    }
}

impl std::error::Error for WaitTimeout {}

/// The error of a wait for something that does not come by itself. Holds what is held.
#[derive(Debug)]
pub(crate) struct StillHeld(pub(crate) String);

impl fmt::Display for StillHeld {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "stopped waiting, because nothing is in progress: {}",
            self.0
        )
    }
}

impl std::error::Error for StillHeld {}

/// The error of arguments that do not fit together.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// The exit code for an error.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.is::<UsageError>() {
        return ExitCode::from(2);
    }
    match error.is::<WaitTimeout>() || error.is::<StillHeld>() {
        true => ExitCode::from(3),
        false => ExitCode::FAILURE,
    }
}

/// The error with its causes. A cause that the text already contains is not repeated; digests are short.
pub(crate) fn error_text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    terminal::short(&text)
}
