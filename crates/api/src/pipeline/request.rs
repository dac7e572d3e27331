//! Requests of people, and the record that they were handled.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Promotion, Time, lenient::is_default, schema};

/// A request of a person.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Request {
    /// The id of the request.
    #[schemars(length(max = 128))]
    pub id: String,
    /// The requested revision. Required to promote or roll back; for other kinds empty means whatever is in
    /// progress or failed.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 256))]
    pub revision: String,
    /// The target that a rollout goes on without, as `cluster/namespace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub target: Option<String>,
    /// What is asked for.
    pub kind: RequestKind,
    /// The user who asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub by: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub at: Option<Time>,
    /// A note of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub note: Option<String>,
    /// Accept it even if no target, source or report has the revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unseen: bool,
    /// Freezes and checks that it passes although they are closed or failed.
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    pub override_gates: Option<Override>,
}

/// Freezes and checks that a promotion passes although they are closed or failed, and why.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Override {
    /// Why.
    #[schemars(length(min = 1, max = 512))]
    pub reason: String,
    /// What it passes: `freeze/NAME`, or `freeze/NAMESPACE/NAME` of another namespace, or `check/NAME`.
    #[schemars(length(min = 1, max = 16), inner(length(max = 330)))]
    pub passes: Vec<String>,
}

/// An override that the controller stored. It is valid for one hour.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct StoredOverride {
    /// The id of the request that it came with.
    #[schemars(length(max = 128))]
    pub request: String,
    /// The Promotion that it is for; of several targets, the first.
    #[schemars(length(max = 253))]
    pub promotion: String,
    /// The revision of that Promotion.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub revision: Option<String>,
    /// The user who asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub by: Option<String>,
    /// Why.
    #[schemars(length(max = 512))]
    pub reason: String,
    /// What it passes.
    #[schemars(length(max = 16), inner(length(max = 330)))]
    pub passes: Vec<String>,
    /// When it was stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub at: Option<Time>,
}

impl StoredOverride {
    /// Whether it is for a promotion into its environment: its request started it, or found it in progress.
    pub fn is_for(&self, promotion: &Promotion) -> bool {
        let request = promotion.spec.request.as_ref();
        let is_asked = request.is_some_and(|request| request.id == self.request);
        is_asked || is_led_to(promotion, &self.promotion, self.revision.as_ref())
    }
}

/// What a request asks for.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestKind {
    /// Promote this revision.
    #[default]
    Promote,
    /// Go back to this revision, and reject the one that runs.
    Rollback,
    /// Take back the waiting request, or the promotion whose change is not merged yet.
    Cancel,
    /// Start the promotion or the checks that failed again.
    Retry,
    /// Start no further target of the rollout in progress.
    StopRollout,
    /// Go on with a rollout that was stopped. What failed before does not count any more.
    ResumeRollout,
    /// Go on without a target.
    SkipTarget,
}

/// A request that was handled.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct HandledRequest {
    /// The request's id.
    #[schemars(length(max = 128))]
    pub id: String,
    /// The user who asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub by: Option<String>,
    /// The Promotion that it led to; of several targets, the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub promotion: Option<String>,
    /// The revision of that Promotion.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub revision: Option<String>,
    /// The result as a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// Whether it was refused.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refused: bool,
    /// The ids of older requests at that time, which are not handled any more.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 8), inner(length(max = 128)))]
    pub others: Vec<String>,
}

impl HandledRequest {
    /// Whether the request of an id was handled or dropped.
    pub fn covers(&self, id: &str) -> bool {
        self.id == id || self.others.iter().any(|other| other == id)
    }

    /// Whether the request led to a promotion into its environment: it started it, or found it in progress.
    pub fn led_to(&self, promotion: &Promotion) -> bool {
        let (revision, name) = (self.revision.as_ref(), self.promotion.as_ref());
        name.is_some_and(|name| is_led_to(promotion, name, revision))
    }
}

/// Whether a promotion is the one of this name, or one of the same revision into another target.
fn is_led_to(promotion: &Promotion, name: &String, revision: Option<&String>) -> bool {
    let spec = &promotion.spec;
    let is_of_target = spec.target.is_some() && revision == Some(&spec.revision);
    promotion.metadata.name.as_ref() == Some(name) || is_of_target
}
