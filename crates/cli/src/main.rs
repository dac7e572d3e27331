//! `sluice`, the one binary: reads what was typed and hands over. It holds no logic of its own.

mod address;
mod args;
mod commands;
mod controller;
mod crds;
mod demo;
mod kubeconfig;
mod reach;
mod sockets;
mod standalone;
mod triggers;

use std::{io, process::ExitCode, time::Duration};

use crate::args::Command;

/// How long what blocks a thread may take once everything else has ended.
const LAST_BLOCKING: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            anstream::eprintln!("sluice: cannot start the threads of the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run());
    // A thread that is busy must not keep the process from ending.
    runtime.shutdown_timeout(LAST_BLOCKING);
    code
}

async fn run() -> ExitCode {
    let outcome = match args::parse().command {
        Command::Controller(arguments) => controller::run(&arguments).await,
        Command::Crds(arguments) => crds::run(&arguments, &mut anstream::stdout().lock()),
        Command::People(command) => commands::run(*command, &mut anstream::stdout()).await,
        Command::Triggers(arguments) => {
            triggers::print(&arguments, &mut anstream::stdout().lock()).await
        }
        Command::Demo(arguments) => demo::run(&arguments).await,
        Command::Standalone(arguments) => standalone::run(&arguments).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output had enough of it, as in `sluice crds | head`.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("sluice: {error:#}");
            commands::exit_code(&error)
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
