//! Records the result of an external check in the spec of its CheckRun, once.
//!
//! Callers authorize first. A write carries the resourceVersion that was read and is made anew after a
//! conflict, unless a result is stored by then.

use api::{CheckRun, check_run::CheckResult};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use planner::hook::{CheckReportRefusal, ReportedCheck, refuse_result, reported_run};
use runtime::ObjectKey;
use serde_json::json;

use crate::{AppState, FIELD_MANAGER};

/// How often a write is tried before giving up on conflicts.
const MAX_ATTEMPTS: usize = 5;

/// Why a result was not stored.
#[derive(Debug)]
pub(crate) enum ReportError {
    Refused(CheckReportRefusal),
    Hub(kube::Error),
}

impl From<CheckReportRefusal> for ReportError {
    fn from(refusal: CheckReportRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<kube::Error> for ReportError {
    fn from(error: kube::Error) -> Self {
        Self::Hub(error)
    }
}

impl AppState {
    /// Stores a result; returns the check run that has it now.
    pub(crate) async fn report_check(
        &self,
        pipeline: &ObjectKey,
        reported: &ReportedCheck<'_>,
        result: CheckResult,
    ) -> Result<CheckRun, ReportError> {
        refuse_result(&result)?;
        let result = CheckResult {
            at: Some(self.now_in_seconds()),
            ..result
        };
        let api: Api<CheckRun> = Api::namespaced(self.client.clone(), &pipeline.namespace);
        for attempts_left in (0..MAX_ATTEMPTS).rev() {
            let runs = self.list_check_runs(pipeline).await?;
            let run = reported_run(&runs, reported)?;
            let body = json!({
                "metadata": {"resourceVersion": run.resource_version()},
                "spec": {"result": result},
            });
            let parameters = PatchParams::apply(FIELD_MANAGER);
            let (name, patch) = (run.name_any(), Patch::Merge(&body));
            match api.patch(&name, &parameters, &patch).await {
                Ok(written) => return Ok(written),
                Err(kube::Error::Api(refusal)) if refusal.code == 409 && attempts_left > 0 => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(CheckReportRefusal::NoCheckRun.into())
    }

    /// The check runs of a pipeline, read from the API server.
    async fn list_check_runs(&self, pipeline: &ObjectKey) -> Result<Vec<CheckRun>, kube::Error> {
        let label = api::names::label_value(&pipeline.name);
        let labels = format!("{}={label}", api::names::PIPELINE_LABEL);
        let runs: Api<CheckRun> = Api::namespaced(self.client.clone(), &pipeline.namespace);
        Ok(runs
            .list(&ListParams::default().labels(&labels))
            .await?
            .items)
    }
}
