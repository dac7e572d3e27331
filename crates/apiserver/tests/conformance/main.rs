//! What a Kubernetes API answers, checked on the embedded server and on a real one.
//!
//! Every case uses nothing but a `kube::Client`, so the same case runs on both: by default each case
//! gets a fresh embedded server in memory, with `SLUICE_TEST_API=file` one in a file of its own;
//! with `SLUICE_TEST_API=real` and `KUBEBUILDER_ASSETS` all cases share one real control plane, kept
//! apart by their own namespace and their own API group. The expectations were observed on the real
//! server: a case that passes only there is a bug in ours.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing case is a panic, as in any other test"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use testbed::real::{Assets, ControlPlane};
use tokio::runtime::Runtime;

use crate::support::{Case, Context};

mod access;
mod access_grants;
mod access_reviews;
mod apply;
mod apply_lists;
mod apply_refusals;
mod bad_input;
mod bad_requests;
mod builtin;
mod cascade;
mod create;
mod defaults;
mod definition_errors;
mod definitions;
mod delete;
mod discovery;
mod exclusions;
mod field_validation;
mod finalizers;
mod garbage;
mod initial_events;
mod limits;
mod list;
mod namespaces;
mod objects;
mod owners;
mod patch;
mod rules;
mod runtime;
mod schema;
mod selectors;
mod status;
mod strategic;
mod support;
mod tables;
mod watch;

/// How long one case may take; a case that waits for something that never happens ends here.
const CASE_MAY_TAKE: Duration = Duration::from_secs(240);

/// How many cases run side by side unless told otherwise.
const CASES_AT_ONCE: usize = 8;

/// The servers the cases can run on.
enum TestServer {
    Memory,
    /// Each case has its file in this folder.
    File(tempfile::TempDir),
    Real(Box<ControlPlane>),
}

/// Where one case gets its client from.
enum ClientSource {
    Memory,
    File(PathBuf),
    Client(kube::Client),
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most cases wait for the server most of the time.
    arguments.test_threads.get_or_insert(CASES_AT_ONCE);
    let runtime = Arc::new(Runtime::new().expect("a runtime with the default settings starts"));
    let target = match target(&runtime, &arguments) {
        Ok(target) => target,
        Err(error) => {
            eprintln!("conformance: {}", with_causes(&error));
            return ExitCode::FAILURE;
        }
    };
    let cases = all_cases();
    if let Some(unknown) = exclusions::unknown(&cases) {
        eprintln!("conformance: the excluded case {unknown} does not exist");
        return ExitCode::FAILURE;
    }
    let trials = cases
        .into_iter()
        .map(|case| trial(case, &target, &runtime))
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let TestServer::Real(control_plane) = target {
        control_plane.stop();
    }
    conclusion.exit_code()
}

fn target(runtime: &Runtime, arguments: &Arguments) -> Result<TestServer, testbed::real::Error> {
    let wanted = std::env::var("SLUICE_TEST_API").unwrap_or_default();
    if arguments.list {
        return Ok(TestServer::Memory);
    }
    match wanted.as_str() {
        "real" => {
            let control_plane = runtime.block_on(ControlPlane::start(&Assets::from_env()?))?;
            Ok(TestServer::Real(Box::new(control_plane)))
        }
        "file" => Ok(TestServer::File(
            tempfile::tempdir().expect("a temporary folder can be made"),
        )),
        "" | "memory" => Ok(TestServer::Memory),
        other => panic!("SLUICE_TEST_API is {other:?}: memory, file or real"),
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_causes(cause)),
        None => error.to_string(),
    }
}

fn all_cases() -> Vec<Case> {
    [
        create::cases(),
        objects::cases(),
        delete::cases(),
        status::cases(),
        patch::cases(),
        list::cases(),
        selectors::cases(),
        watch::cases(),
        initial_events::cases(),
        finalizers::cases(),
        garbage::cases(),
        namespaces::cases(),
        schema::cases(),
        defaults::cases(),
        rules::cases(),
        definitions::cases(),
        definition_errors::cases(),
        builtin::cases(),
        discovery::cases(),
        bad_input::cases(),
        limits::cases(),
        bad_requests::cases(),
        runtime::cases(),
        apply::cases(),
        apply_lists::cases(),
        apply_refusals::cases(),
        owners::cases(),
        cascade::cases(),
        field_validation::cases(),
        strategic::cases(),
        tables::cases(),
        access::cases(),
        access_grants::cases(),
        access_reviews::cases(),
    ]
    .concat()
}

fn trial(case: Case, target: &TestServer, runtime: &Arc<Runtime>) -> Trial {
    let excluded = match target {
        TestServer::Real(_) => exclusions::on_a_real_server(case.name),
        TestServer::Memory | TestServer::File(_) => exclusions::on_the_embedded_server(case.name),
    };
    let source = match target {
        TestServer::Memory => ClientSource::Memory,
        TestServer::File(folder) => {
            ClientSource::File(folder.path().join(case.name.replace("::", "-")))
        }
        TestServer::Real(control_plane) => ClientSource::Client(control_plane.client()),
    };
    let runtime = Arc::clone(runtime);
    Trial::ignorable_test(case.name, move || match excluded {
        Some(reason) => Ok(Completion::ignored_with(reason)),
        None => run(case, source, &runtime),
    })
}

fn run(case: Case, source: ClientSource, runtime: &Runtime) -> Result<Completion, Failed> {
    runtime.block_on(async {
        let context = Context::new(client(source).await?, case.name).await;
        match tokio::time::timeout(CASE_MAY_TAKE, (case.run)(context)).await {
            Ok(()) => Ok(Completion::Completed),
            Err(_) => Err(format!("not finished after {CASE_MAY_TAKE:?}").into()),
        }
    })
}

async fn client(source: ClientSource) -> Result<kube::Client, Failed> {
    Ok(match source {
        ClientSource::Memory => apiserver::Server::in_memory().client(),
        ClientSource::File(path) => apiserver::Server::open(path, apiserver::Options::default())
            .await?
            .client(),
        ClientSource::Client(client) => client,
    })
}
