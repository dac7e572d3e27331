//! `sluice reconcile`: asks the controller to reconcile a pipeline now, and waits until it has.

use std::{io::Write, time::Duration};

use anyhow::bail;
use api::{Pipeline, names::RECONCILE_ANNOTATION};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{
    WaitTimeout,
    cluster::{ClusterFlags, FIELD_MANAGER, key},
    cluster_error::cluster_error,
    terminal::clean,
    wait::{WaitState, wait_until},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// How long to wait for the controller, such as 90s
    #[arg(long, value_name = "TIME", default_value = "1m")]
    timeout: api::Duration,
    #[command(flatten)]
    connection: ClusterFlags,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let (namespace, name) = key(&pipeline);
    let requested = Timestamp::now().to_string();
    let patch = json!({"metadata": {"annotations": {RECONCILE_ANNOTATION: requested}}});
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let pipelines = cluster.api::<Pipeline>(namespace);
    let patch = Patch::Merge(patch);
    let patched = pipelines.patch(name, &parameters, &patch).await;
    patched.map_err(|error| cluster_error(&format!("annotate pipeline {name}"), error))?;
    let state = |pipeline: &Pipeline, _: &[api::Promotion]| {
        let status = pipeline.status.as_ref();
        match status.and_then(|it| it.last_handled_reconcile_at.as_deref()) {
            Some(handled) if handled == requested => WaitState::Done,
            _ => WaitState::Waiting(format!("the controller has not reconciled {name} yet")),
        }
    };
    let timeout = Duration::from(&arguments.timeout);
    let (pipeline, state) = wait_until(&cluster, timeout, &pipeline, state).await?;
    match state {
        WaitState::Waiting(text) => {
            return Err(WaitTimeout(format!("{text}; is it running?")).into());
        }
        WaitState::Failed(text) => bail!(text),
        WaitState::Done => {}
    }
    let status = pipeline.status.clone().unwrap_or_default();
    let state = planner::state_text(&pipeline, &status);
    writeln!(out, "reconciled {name}: {}", clean(&state))?;
    Ok(())
}
