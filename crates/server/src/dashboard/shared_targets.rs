//! Warns of targets that another pipeline promotes into, too.

use std::sync::Arc;

use api::Pipeline;
use runtime::ObjectKey;

use super::sign_in::Viewer;
use crate::{AppState, access::AccessRequest, problem::Problem};

/// How many other pipelines are told.
const MAX_WARNINGS: usize = 5;

/// A warning for each pipeline that shares a target with this one. One that the viewer may not see is not named.
pub(super) async fn warnings(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    pipeline: &Pipeline,
) -> Result<Vec<String>, Problem> {
    let own = planner::promoted_apps(pipeline);
    let key = ObjectKey::of(&pipeline.metadata);
    let others = app_state.objects.promoters_of(&key, &own);
    let mut warnings = Vec::new();
    for (other, apps) in others.iter().take(MAX_WARNINGS) {
        let may_see = AccessRequest::new("get", other);
        let name = match viewer.caller.may_see(&may_see).await? {
            true => format!("the pipeline {other}"),
            false => "another pipeline, which you may not see,".to_owned(),
        };
        warnings.extend(planner::shared_target_warning(&own, apps, &name));
    }
    Ok(warnings)
}
