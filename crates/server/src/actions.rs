//! What people do to pipelines: approve, reject, promote, roll back, cancel, retry, suspend, resume, stop a
//! rollout, and propose files.
//!
//! REST and the dashboard both call these functions. Each one authorizes the caller with a
//! SubjectAccessReview before it reads or writes anything, records the action in a stored object and
//! returns what was recorded. Whether a promotion starts is decided by the controller.

mod approve;
mod decide;
mod freeze;
mod propose;
mod report;

pub(crate) use approve::DecisionError;
pub(crate) use report::ReportError;

use std::sync::Arc;

use api::{
    Pipeline,
    pipeline::{EnvironmentStatus, Override, Request, RequestKind},
    revision::is_usable,
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use planner::refuse_override;
use runtime::ObjectKey;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    AppState, FIELD_MANAGER,
    access::{AccessRequest, Caller},
    problem::Problem,
    random,
    record::map_entry_patch,
    view,
};

pub(crate) use freeze::{FreezeBody, freeze, thaw};
pub(crate) use propose::{ProposedFile, propose, stored_change};

const MAX_NOTE_LENGTH: usize = 1024;
const MAX_TARGET_LENGTH: usize = 512;
const MAX_USER_NAME_LENGTH: usize = 256;

/// What can be done to an environment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActionVerb {
    Approve,
    Reject,
    Promote,
    Rollback,
    Cancel,
    Retry,
    StopRollout,
    ResumeRollout,
    SkipTarget,
    Suspend,
    Resume,
}

impl ActionVerb {
    pub(crate) fn parse(word: &str) -> Result<Self, Problem> {
        match word {
            "approve" => Ok(Self::Approve),
            "reject" => Ok(Self::Reject),
            "promote" => Ok(Self::Promote),
            "rollback" => Ok(Self::Rollback),
            "cancel" => Ok(Self::Cancel),
            "retry" => Ok(Self::Retry),
            "stop-rollout" => Ok(Self::StopRollout),
            "resume-rollout" => Ok(Self::ResumeRollout),
            "skip-target" => Ok(Self::SkipTarget),
            "suspend" => Ok(Self::Suspend),
            "resume" => Ok(Self::Resume),
            _ => Err(Problem::not_found(&format!("the action {word:?}"))),
        }
    }

    /// The RBAC verb that it needs.
    fn rbac_verb(self) -> &'static str {
        match self {
            Self::Approve | Self::Reject => "approve",
            Self::Promote | Self::Rollback | Self::Cancel | Self::Retry => "promote",
            Self::StopRollout | Self::ResumeRollout | Self::SkipTarget => "promote",
            Self::Suspend | Self::Resume => "suspend",
        }
    }
}

/// What an action is about. Fields that the action does not need may be absent.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ActionBody {
    pub(crate) revision: Option<String>,
    /// The target that a rollout goes on without, as `cluster/namespace`.
    pub(crate) target: Option<String>,
    pub(crate) note: Option<String>,
    /// The digest of the change that the person has read; an approval of another one is refused.
    pub(crate) change_digest: Option<String>,
    /// Request the revision even though no target, source or report has it.
    #[serde(default)]
    pub(crate) unseen: bool,
    /// Gates that the promotion passes although they are closed; needs the verb `override`.
    #[serde(default, rename = "override")]
    pub(crate) override_gates: Option<Override>,
}

impl ActionBody {
    fn validate(&self) -> Result<(), Problem> {
        let note = self.note.as_deref().unwrap_or_default();
        if note.chars().count() > MAX_NOTE_LENGTH {
            let detail = format!("a note has at most {MAX_NOTE_LENGTH} characters");
            return Err(Problem::unprocessable(detail));
        }
        let target = self.target.as_deref().unwrap_or_default();
        if target.chars().count() > MAX_TARGET_LENGTH {
            let detail = format!("a target has at most {MAX_TARGET_LENGTH} characters");
            return Err(Problem::unprocessable(detail));
        }
        match self.override_gates.as_ref().and_then(refuse_override) {
            Some(detail) => Err(Problem::unprocessable(detail)),
            None => Ok(()),
        }
    }

    fn revision(&self) -> Result<&str, Problem> {
        let revision = self.revision.as_deref().filter(|text| is_usable(text));
        revision.ok_or_else(|| {
            Problem::unprocessable("`revision` is required: up to 256 printable characters")
        })
    }
}

/// What an action on an environment has recorded.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum ActionResult {
    Approved {
        revision: String,
        by: String,
        /// The names of the promotions.
        promotions: Vec<String>,
        /// That the revision failed or was rejected, and whose request skips that.
        #[serde(skip_serializing_if = "Option::is_none")]
        caution: Option<String>,
    },
    Rejected {
        rejected: String,
        by: String,
        /// What that means for the revision.
        message: String,
        /// The names of the promotions.
        promotions: Vec<String>,
    },
    /// The request is stored; the controller carries it out.
    Requested {
        id: String,
        revision: String,
        by: String,
        /// What the controller answered; nothing if it has not within the wait time.
        message: Option<String>,
    },
    SuspendSet {
        environment: String,
        suspend: bool,
    },
}

/// Acts on an environment of a pipeline.
pub(crate) async fn act_on_environment(
    app_state: &Arc<AppState>,
    caller: &Caller,
    key: &ObjectKey,
    environment: &str,
    verb: ActionVerb,
    body: &ActionBody,
) -> Result<ActionResult, Problem> {
    body.validate()?;
    let access = AccessRequest::new(verb.rbac_verb(), key).environment(environment);
    caller.authorize(access).await?;
    let pipeline = app_state.stored_pipeline(key).await?;
    let mut environments = pipeline.spec.environments.iter();
    if environments.all(|it| it.name != environment) {
        return Err(Problem::not_found(&format!(
            "the environment {environment} of {key}"
        )));
    }
    let action = EnvironmentAction {
        app_state,
        caller,
        key,
        environment,
        pipeline,
    };
    match verb {
        ActionVerb::Approve => action.approve(body).await,
        ActionVerb::Reject => action.reject(body).await,
        ActionVerb::Promote => action.request(RequestKind::Promote, body).await,
        ActionVerb::Rollback => action.request(RequestKind::Rollback, body).await,
        ActionVerb::Cancel => action.request(RequestKind::Cancel, body).await,
        ActionVerb::Retry => action.request(RequestKind::Retry, body).await,
        ActionVerb::StopRollout => action.request(RequestKind::StopRollout, body).await,
        ActionVerb::ResumeRollout => action.request(RequestKind::ResumeRollout, body).await,
        ActionVerb::SkipTarget => action.request(RequestKind::SkipTarget, body).await,
        ActionVerb::Suspend => action.set_suspend(true).await,
        ActionVerb::Resume => action.set_suspend(false).await,
    }
}

/// Suspends or resumes a whole pipeline.
pub(crate) async fn suspend_pipeline(
    app_state: &AppState,
    caller: &Caller,
    key: &ObjectKey,
    suspend: bool,
) -> Result<(), Problem> {
    caller.authorize(AccessRequest::new("suspend", key)).await?;
    app_state.stored_pipeline(key).await?;
    let patch = Patch::Merge(json!({"spec": {"suspend": suspend}}));
    patch_pipeline(app_state, key, &patch).await?;
    tracing::info!(pipeline = %key, by = caller.name(), suspend, "set spec.suspend of the pipeline");
    Ok(())
}

/// Writes with a field manager whose fields Flux does not revert.
async fn patch_pipeline(
    app_state: &AppState,
    key: &ObjectKey,
    patch: &Patch<Value>,
) -> Result<(), Problem> {
    let pipelines: Api<Pipeline> = Api::namespaced(app_state.client.clone(), &key.namespace);
    let parameters = PatchParams::apply(FIELD_MANAGER);
    let written = pipelines.patch(&key.name, &parameters, patch).await?;
    app_state.objects.wrote_pipeline(written);
    Ok(())
}

/// The name of a caller, as it is stored with an action.
fn recorded_name(caller: &Caller) -> Result<&str, Problem> {
    let name = caller.name();
    if name.chars().count() > MAX_USER_NAME_LENGTH {
        let detail = format!("a user name has at most {MAX_USER_NAME_LENGTH} characters");
        return Err(Problem::unprocessable(detail));
    }
    Ok(name)
}

/// The revision that a request is about.
fn requested_revision(kind: RequestKind, body: &ActionBody) -> Result<&str, Problem> {
    if kind == RequestKind::SkipTarget && body.target.as_deref().unwrap_or_default().is_empty() {
        let detail = "`target` is required: the target to skip, as cluster/namespace";
        return Err(Problem::unprocessable(detail));
    }
    match kind {
        RequestKind::Promote | RequestKind::Rollback => body.revision(),
        // Whatever is under way, or has failed.
        RequestKind::Cancel
        | RequestKind::Retry
        | RequestKind::StopRollout
        | RequestKind::ResumeRollout
        | RequestKind::SkipTarget => Ok(body.revision.as_deref().unwrap_or_default()),
    }
}

/// An environment that exists, and the authorized caller that acts on it.
struct EnvironmentAction<'a> {
    app_state: &'a Arc<AppState>,
    caller: &'a Caller,
    key: &'a ObjectKey,
    environment: &'a str,
    pipeline: Pipeline,
}

impl EnvironmentAction<'_> {
    fn status(&self) -> Option<&EnvironmentStatus> {
        view::status_of(&self.pipeline, self.environment)
    }

    /// Stores a request for the controller, and approves the promotion that it leads to if the caller
    /// may approve.
    async fn request(&self, kind: RequestKind, body: &ActionBody) -> Result<ActionResult, Problem> {
        let revision = requested_revision(kind, body)?;
        let by = recorded_name(self.caller)?;
        if body.override_gates.is_some() {
            let access = AccessRequest::new("override", self.key).environment(self.environment);
            self.caller.authorize(access).await?;
        }
        let request = Request {
            id: random::id(),
            revision: revision.to_owned(),
            target: body.target.clone(),
            kind,
            by: Some(by.to_owned()),
            at: Some(self.app_state.now_in_seconds()),
            note: body.note.clone(),
            unseen: body.unseen,
            override_gates: body.override_gates.clone(),
        };
        let recorded = self.app_state.record(self.key, |pipeline| {
            let status = pipeline.status.as_ref();
            let before = status.and_then(|status| status.requests.get(self.environment));
            let before = before.map_or(Value::Null, |before| json!(before));
            let after = json!(request);
            Some(map_entry_patch("requests", self.environment, before, after))
        });
        recorded.await?;
        tracing::info!(pipeline = %self.key, environment = self.environment, revision, by, ?kind, "stored a request");
        let message = self.wait_for_controller(&request).await?;
        Ok(ActionResult::Requested {
            id: request.id,
            revision: revision.to_owned(),
            by: by.to_owned(),
            message,
        })
    }

    /// Waits until the controller has handled the request, up to the wait time. Returns its message.
    async fn wait_for_controller(&self, request: &Request) -> Result<Option<String>, Problem> {
        let handled = self.app_state.wait_for(self.key, |pipeline| {
            let status = view::status_of(pipeline, self.environment)?;
            let handled = status.last_request.as_ref();
            handled.filter(|handled| handled.id == request.id).cloned()
        });
        let Some(handled) = handled.await else {
            return Ok(None);
        };
        if handled.refused {
            let detail = handled.message.unwrap_or_default();
            return Err(Problem::unprocessable(detail));
        }
        let Some(promotion) = &handled.promotion else {
            return Ok(handled.message);
        };
        let not_approved = self.approve_own(request, promotion).await?;
        let sentences: Vec<_> = handled.message.into_iter().chain(not_approved).collect();
        Ok(Some(sentences.join("; ")))
    }

    /// A merge patch replaces the whole list of environments, so that one field in it is set by a
    /// JSON patch, which fails if the environment has moved since it was read.
    async fn set_suspend(&self, suspend: bool) -> Result<ActionResult, Problem> {
        let mut environments = self.pipeline.spec.environments.iter();
        let position = environments.position(|it| it.name == self.environment);
        let path = format!("/spec/environments/{}", position.unwrap_or_default());
        let patch = serde_json::from_value(json!([
            {"op": "test", "path": format!("{path}/name"), "value": self.environment},
            {"op": "add", "path": format!("{path}/suspend"), "value": suspend},
        ]));
        let patch: Patch<Value> = Patch::Json(patch.expect("this is a JSON patch"));
        patch_pipeline(self.app_state, self.key, &patch).await?;
        let by = self.caller.name();
        tracing::info!(pipeline = %self.key, environment = self.environment, by, suspend, "set suspend of the environment");
        Ok(ActionResult::SuspendSet {
            environment: self.environment.to_owned(),
            suspend,
        })
    }
}
