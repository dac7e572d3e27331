//! The commands of `sluice`: parses the command line and runs the command.
//!
//! A library, so that it is compiled while its dependencies still are: a binary has to wait for them.

mod args;
mod bind_address;
mod commands;
mod controller;
mod controllers;
mod crds;
#[cfg(feature = "demo")]
mod demo;
mod kubeconfig;
mod leaf_connector;
mod listen_error;
#[cfg(feature = "standalone")]
mod standalone;
mod triggers;

use std::{io, process::ExitCode, time::Duration};

use crate::args::Command;

/// How long to wait for blocking tasks when everything else has ended.
const BLOCKING_SHUTDOWN: Duration = Duration::from_secs(2);

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // The only place that selects the TLS implementation; it can only fail when called twice.
    drop(rustls::crypto::ring::default_provider().install_default());
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            anstream::eprintln!("sluice: cannot start the async runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run());
    // A blocking task must not keep the process from exiting.
    runtime.shutdown_timeout(BLOCKING_SHUTDOWN);
    code
}

async fn run() -> ExitCode {
    let outcome = match args::parse().command {
        Command::Controller(arguments) => controller::run(&arguments).await,
        Command::Crds(arguments) => crds::run(&arguments, &mut anstream::stdout().lock()),
        Command::Reference => {
            args::reference::write(&mut anstream::stdout().lock()).map_err(Into::into)
        }
        Command::Client(command) => commands::run(*command, &mut anstream::stdout()).await,
        Command::Triggers(arguments) => {
            triggers::print(&arguments, &mut anstream::stdout().lock()).await
        }
        #[cfg(feature = "demo")]
        Command::Demo(arguments) => demo::run(&arguments).await,
        #[cfg(not(feature = "demo"))]
        Command::Demo(_) => Err(built_without("demo")),
        #[cfg(feature = "standalone")]
        Command::Standalone(arguments) => standalone::run(&arguments).await,
        #[cfg(not(feature = "standalone"))]
        Command::Standalone(_) => Err(built_without("standalone")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe, as in `sluice crds | head`.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            commands::print_message(&format!("sluice: {}", commands::error_text(&error)));
            commands::exit_code(&error)
        }
    }
}

/// The error of a command that needs a cargo feature this binary does not have.
#[cfg(not(all(feature = "demo", feature = "standalone")))]
fn built_without(feature: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "this binary was built without `sluice {feature}`, as in the container image; use a released \
         binary, or build one with the cargo feature `{feature}`"
    )
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
