//! How a call of a webhook is answered.

use std::fmt;

use api::{Pipeline, pipeline::Report};

use super::result::AwaitedPromotion;

/// What to store under which key, and how to answer.
#[derive(Clone, Debug, PartialEq)]
pub struct HookDecision {
    /// The report to store; none where it is stored already, is outdated or is refused.
    pub report: Option<(String, Report)>,
    /// How to answer.
    pub answer: HookAnswer,
}

/// How a call is answered once its report is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    /// It is refused.
    Refuse(HookRefusal),
    /// The pipeline does not say how to promote.
    CannotPromote,
    /// It is stored, and no promotion follows.
    Noted,
    /// It is stored, and nothing is promoted from its environment.
    NothingNext(HookRefusal),
    /// It is stored and does not count, because it is not signed. The text says what to do.
    NotSigned(String),
    /// The answer depends on the promotion that follows.
    Await(AwaitedPromotion),
}

/// Why a call is refused. Where the Weave pipeline-controller refused it too, the text is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookRefusal {
    /// It names no revision.
    NoRevision,
    /// Its revision is too long or cannot be printed.
    BadRevision,
    /// It comes from the last environment.
    LastEnvironment(String),
    /// There is no such environment.
    UnknownEnvironment {
        /// The pipeline's namespace and name.
        pipeline: String,
        /// The environment.
        environment: String,
    },
    /// The next environment has no targets.
    NoTargets(String),
    /// It is about another app, or about one in another environment.
    OtherObject,
    /// The pipeline takes no proposals.
    NoHook,
}

impl fmt::Display for HookRefusal {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRevision => text.write_str("event has no 'revision' in the metadata field."),
            Self::BadRevision => {
                text.write_str("the revision has more than 256 characters or unprintable ones")
            }
            Self::LastEnvironment(name) => {
                write!(text, "cannot promote beyond last environment {name}")
            }
            Self::UnknownEnvironment {
                pipeline,
                environment,
            } => write!(
                text,
                "app {pipeline} has no environment {environment} defined"
            ),
            Self::NoTargets(name) => write!(text, "environment {name} has no targets"),
            Self::OtherObject => {
                text.write_str("involved object does not match Pipeline definition")
            }
            Self::NoHook => text.write_str("the source of the pipeline is not Hook"),
        }
    }
}

impl HookRefusal {
    pub(super) fn unknown(pipeline: &Pipeline, environment: &str) -> Self {
        let metadata = &pipeline.metadata;
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        Self::UnknownEnvironment {
            pipeline: format!("{}/{}", part(&metadata.namespace), part(&metadata.name)),
            environment: environment.to_owned(),
        }
    }
}
