//! Finds specs that can never work.
//!
//! The API accepts such pipelines because that of the Weave pipeline-controller did; here each mistake gets
//! a sentence.

mod after;
mod checks;
mod settings;

use std::collections::BTreeSet;

use api::{
    app::AppType,
    pipeline::{AppReference, Environment, PipelineSpec, PromotionSettings, SourceKind, Strategy},
};

/// A mistake that keeps promotions from ever starting.
pub(crate) struct SpecMistake {
    /// The field that has it, such as `spec.environments[1].promotion`.
    pub(crate) field: String,
    /// A sentence without a full stop.
    pub(crate) text: String,
}

impl SpecMistake {
    fn new(field: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            text: text.into(),
        }
    }
}

/// Why no promotion of the pipeline can ever start: the first of its mistakes.
pub(crate) fn invalid_spec(spec: &PipelineSpec) -> Option<String> {
    mistakes(spec).into_iter().next().map(|it| it.text)
}

/// All mistakes of the spec.
pub(crate) fn mistakes(spec: &PipelineSpec) -> Vec<SpecMistake> {
    if spec.environments.is_empty() {
        let text = "the pipeline has no environments";
        return vec![SpecMistake::new("spec.environments", text)];
    }
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for (index, environment) in spec.environments.iter().enumerate() {
        let is_new = names.insert(environment.name.as_str());
        of_environment(index, environment, is_new, &mut found);
    }
    if let Some(settings) = &spec.promotion {
        settings::mistakes(settings, "the pipeline", "spec", &mut found);
    }
    found.extend(after::mistakes(spec));
    found.extend(checks::mistakes(spec));
    found.extend(spec.app_ref.as_ref().and_then(invalid_app));
    found.extend(unverifiable(spec));
    found
}

fn of_environment(
    index: usize,
    environment: &Environment,
    is_new: bool,
    found: &mut Vec<SpecMistake>,
) {
    let name = environment.name.as_str();
    let field = |below: &str| format!("spec.environments[{index}]{below}");
    if name.is_empty() {
        found.push(SpecMistake::new(field(""), "an environment has no name"));
    } else if !is_new {
        let text = format!("two environments are called {name}");
        found.push(SpecMistake::new(field(".name"), text));
    }
    if let Some(settings) = &environment.promotion {
        settings::mistakes(settings, name, &field(""), found);
    }
    let mut targets = environment.targets.iter();
    let both = targets.position(|it| it.cluster_ref.is_some() && it.cluster_selector.is_some());
    found.extend(both.map(|target| {
        let text = format!("a target of {name} has clusterRef and clusterSelector");
        SpecMistake::new(field(&format!(".targets[{target}]")), text)
    }));
}

/// What Flux verifies is the source of an app, never the image that it runs.
fn unverifiable(spec: &PipelineSpec) -> Option<SpecMistake> {
    let environments = spec.environments.iter().map(|it| it.promotion.as_ref());
    let mut settings = environments.chain([spec.promotion.as_ref()]).flatten();
    let is_required = settings.any(|settings| settings.require_verified_source);
    (is_required && spec.track.is_some()).then(|| {
        let text = "track and requireVerifiedSource exclude each other: Flux verifies the source of an \
                    app and not its images";
        SpecMistake::new("spec.track", text)
    })
}

/// Whether the settings of an environment name no strategy and replace those of the pipeline, which do.
pub(crate) fn hides_strategy(spec: &PipelineSpec, environment: &Environment) -> bool {
    let has_one = |it: &PromotionSettings| !strategies(&it.strategy).is_empty();
    let own = environment.promotion.as_ref();
    own.is_some_and(|it| !has_one(it)) && spec.promotion.as_ref().is_some_and(has_one)
}

/// The names of the strategies that are set.
pub(crate) fn strategies(strategy: &Strategy) -> Vec<&'static str> {
    let all = [
        ("pull-request", strategy.pull_request.is_some()),
        ("commit", strategy.commit.is_some()),
        ("notification", strategy.notification.is_some()),
        ("webhook", strategy.webhook.is_some()),
        ("oci", strategy.oci.is_some()),
        ("resourceSetInputs", strategy.resource_set_inputs.is_some()),
    ];
    let set = all.into_iter().filter(|(_, is_set)| *is_set);
    set.map(|(name, _)| name).collect()
}

fn invalid_app(app: &AppReference) -> Option<SpecMistake> {
    let field = "spec.appRef";
    if app.kind.is_empty() || app.name.is_empty() {
        return Some(SpecMistake::new(field, "appRef needs a kind and a name"));
    }
    let is_core = !app.api_version.is_empty() && !app.api_version.contains('/');
    is_core.then(|| {
        let kind = &app.kind;
        let text = format!("appRef names the core kind {kind}, which is never an app");
        SpecMistake::new(field, text)
    })
}

/// Why the source can never propose anything for such an app.
pub(crate) fn invalid_source(spec: &PipelineSpec) -> Option<String> {
    let source = spec.source.as_ref()?;
    let (what, fitting): (String, &[SourceKind]) = match (&spec.track, &spec.app_ref) {
        (Some(_), _) => (
            "a tracked image".to_owned(),
            &[SourceKind::ImagePolicy, SourceKind::Hook],
        ),
        (None, Some(app)) => (format!("a {}", app.kind), fitting_kinds(app)),
        (None, None) => return Some("a source needs appRef".to_owned()),
    };
    if !fitting.contains(&source.kind) {
        return Some(format!(
            "a {:?} proposes nothing for {what}; one of {fitting:?} does",
            source.kind
        ));
    }
    let is_nameless = source.name.as_deref().unwrap_or_default().is_empty();
    (source.kind != SourceKind::Hook && is_nameless)
        .then(|| format!("the source names no {:?}", source.kind))
}

fn fitting_kinds(app: &AppReference) -> &'static [SourceKind] {
    match AppType::of(&app.api_version, &app.kind) {
        AppType::HelmRelease => &[
            SourceKind::HelmChart,
            SourceKind::OCIRepository,
            SourceKind::Hook,
        ],
        AppType::Kustomization => &[SourceKind::GitRepository, SourceKind::OCIRepository],
        AppType::Workload(_) => &[SourceKind::ImagePolicy, SourceKind::Hook],
        AppType::ResourceSet | AppType::Other => &[SourceKind::Hook],
    }
}
