//! Which Secret holds the key that signs webhook calls.

use api::pipeline::PipelineSpec;

use crate::sources::followers;

/// The Secret whose `hmac-key` signs reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportSecret<'a> {
    /// Its name, in the pipeline's namespace.
    pub name: &'a str,
    /// Whether a report without a signature is turned away.
    pub is_required: bool,
}

/// The Secret for reports from an environment: the pipeline's, else the one of the first environment that
/// comes after it, else its own. The Weave pipeline-controller used the pipeline's only, so that without one callers
/// may sign but need not.
pub fn report_secret<'a>(spec: &'a PipelineSpec, environment: &str) -> Option<ReportSecret<'a>> {
    if let Some(name) = of_pipeline(spec) {
        let is_required = true;
        return Some(ReportSecret { name, is_required });
    }
    let mut environments = spec.environments.iter();
    let own = environments.find(|it| it.name == environment)?;
    let followers = followers(spec, environment).into_iter();
    let next = followers.filter_map(|it| into(spec, &it.name)).next();
    let name = next.or_else(|| into(spec, &own.name))?;
    let is_required = false;
    Some(ReportSecret { name, is_required })
}

/// The Secret for approvals of promotions into an environment.
pub fn approval_secret<'a>(spec: &'a PipelineSpec, environment: &str) -> Option<&'a str> {
    of_pipeline(spec).or_else(|| into(spec, environment))
}

/// The Secret for revisions that are proposed to the pipeline.
pub fn release_secret(spec: &PipelineSpec) -> Option<&str> {
    let first = spec.environments.first();
    of_pipeline(spec).or_else(|| into(spec, &first?.name))
}

fn of_pipeline(spec: &PipelineSpec) -> Option<&str> {
    let reference = spec.promotion.as_ref()?.strategy.secret_ref.as_ref()?;
    Some(&reference.name)
}

fn into<'a>(spec: &'a PipelineSpec, environment: &str) -> Option<&'a str> {
    let settings = spec.promotion_into(environment)?;
    Some(&settings.strategy.secret_ref.as_ref()?.name)
}
