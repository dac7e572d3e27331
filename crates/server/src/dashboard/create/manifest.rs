//! The manifest of a draft, and its errors by field.
//!
//! The spec is checked by `planner::lint`, as in `sluice lint`.

use std::collections::BTreeMap;

use api::{
    Pipeline,
    pipeline::{FeedbackKind, PipelineSpec},
};
use serde_json::{Map, Value, json};

use super::draft::{Draft, DraftEnvironment, DraftTarget};

/// Errors by the id of a field, or of a part of the form if they belong to no single field.
pub(super) type FieldErrors = BTreeMap<String, String>;

/// The kinds of app that the form offers, with their API versions.
pub(super) const KINDS: [(&str, &str); 4] = [
    ("HelmRelease", "helm.toolkit.fluxcd.io/v2"),
    ("Kustomization", "kustomize.toolkit.fluxcd.io/v1"),
    ("ResourceSet", "fluxcd.controlplane.io/v1"),
    ("Deployment", "apps/v1"),
];

/// The strategies that the form offers.
pub(super) const STRATEGIES: [&str; 3] = ["pull-request", OCI, INPUTS];
const OCI: &str = "oci";
const INPUTS: &str = "resourceSetInputs";

/// The id of all environments together.
pub(super) const ENVIRONMENTS: &str = "environments";

impl Draft {
    /// The manifest of the draft, complete or not.
    pub(super) fn yaml(&self) -> String {
        let manifest = json!({
            "apiVersion": "pipelines.weave.works/v1alpha1",
            "kind": "Pipeline",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": self.spec(),
        });
        serde_saphyr::to_string(&manifest)
            .unwrap_or_else(|error| format!("cannot be written as YAML: {error}"))
    }

    fn spec(&self) -> Value {
        let version = KINDS.iter().find(|(kind, _)| *kind == self.kind);
        let version = version.map(|(_, version)| *version).unwrap_or_default();
        let app = json!({"apiVersion": version, "kind": self.kind, "name": self.app});
        let mut spec = Map::new();
        spec.insert("appRef".to_owned(), app);
        let environments = self.environments.iter().map(|it| self.environment(it));
        spec.insert("environments".to_owned(), environments.collect());
        if let Some(promotion) = self.promotion(self.is_manual_everywhere()) {
            spec.insert("promotion".to_owned(), promotion);
        }
        if !self.image.is_empty() {
            spec.insert("track".to_owned(), json!({"image": self.image}));
        }
        Value::Object(spec)
    }

    fn environment(&self, environment: &DraftEnvironment) -> Value {
        let mut value = Map::new();
        value.insert("name".to_owned(), json!(environment.name));
        let is_first = self.environments.first() == Some(environment);
        let after = environment.after.split(',').map(str::trim);
        let after: Vec<&str> = after.filter(|it| !it.is_empty()).collect();
        if !after.is_empty() && !is_first {
            value.insert("after".to_owned(), json!(after));
        }
        let is_own = environment.manual && !self.is_manual_everywhere();
        if let Some(promotion) = self.promotion(true).filter(|_| is_own) {
            value.insert("promotion".to_owned(), promotion);
        }
        let targets = environment.targets.iter().map(target);
        value.insert("targets".to_owned(), targets.collect());
        Value::Object(value)
    }

    /// Nothing if no repository was typed, or no Secret where clusters ask.
    fn promotion(&self, manual: bool) -> Option<Value> {
        if !self.promotes() {
            return None;
        }
        let mut promotion = Map::new();
        if manual {
            promotion.insert("manual".to_owned(), json!(true));
        }
        let waves = self.waves().unwrap_or_default();
        if !waves.is_empty() {
            let waves: Vec<Value> = waves.iter().map(|it| json!({"percent": it})).collect();
            promotion.insert("rollout".to_owned(), json!({"waves": waves}));
        }
        promotion.insert("strategy".to_owned(), self.strategy());
        Some(Value::Object(promotion))
    }

    /// The percentages of the waves; nothing where one cannot be understood.
    fn waves(&self) -> Option<Vec<u8>> {
        let waves = self.waves.split(',').map(str::trim);
        let waves = waves.filter(|it| !it.is_empty());
        let percent = |text: &str| text.trim_end_matches('%').trim_end().parse::<u8>().ok();
        let is_share = |percent: &u8| (1..=100).contains(percent);
        waves.map(|text| percent(text).filter(is_share)).collect()
    }

    fn waves_error(&self) -> Option<FieldError> {
        let text = "write percentages from 1 to 100, such as 5, 25";
        self.waves().is_none().then(|| FieldError::new(text))
    }

    /// Whether enough was typed to tell that something is promoted.
    fn promotes(&self) -> bool {
        match self.strategy.as_str() {
            INPUTS => !self.secret.is_empty(),
            _ => !self.url.is_empty(),
        }
    }

    fn strategy(&self) -> Value {
        let secret = json!({"name": self.secret});
        match self.strategy.as_str() {
            OCI => json!({"oci": {"secretRef": secret, "tag": self.tag, "url": self.url}}),
            INPUTS => json!({"resourceSetInputs": {"secretRef": secret}}),
            _ => {
                let mut strategy = json!({
                    "baseBranch": self.branch, "secretRef": secret, "type": self.forge, "url": self.url,
                });
                let feedback = self.feedback();
                if feedback != FeedbackKind::ALL {
                    strategy["feedback"] = json!(feedback);
                }
                json!({"pull-request": strategy})
            }
        }
    }

    /// What pull requests show.
    fn feedback(&self) -> Vec<FeedbackKind> {
        let all = [
            (self.commit_status, FeedbackKind::CommitStatus),
            (self.comment, FeedbackKind::Comment),
        ];
        let wanted = all.into_iter().filter(|(is_wanted, _)| *is_wanted);
        wanted.map(|(_, kind)| kind).collect()
    }

    /// Whether all environments need approval. Nothing is promoted into the first, so it is ignored.
    fn is_manual_everywhere(&self) -> bool {
        let mut promoted = self.environments.iter().skip(1);
        self.environments.len() > 1 && promoted.all(|it| it.manual)
    }

    /// The errors of the draft. Missing fields, and errors of the spec as a whole, count only if the
    /// draft is complete.
    pub(super) fn errors(&self, is_complete: bool) -> FieldErrors {
        let single = self.single_field_errors();
        let has_missing = single.iter().any(|(_, error)| error.is_missing);
        let shown = single.into_iter();
        let shown = shown.filter(|(_, error)| is_complete || !error.is_missing);
        let mut errors: FieldErrors = shown.map(|(field, it)| (field, it.text)).collect();
        // What is missing comes first: the rest may follow from it.
        if !has_missing {
            for (field, text) in self.lint_errors() {
                errors.entry(field).or_insert(text);
            }
        }
        errors
    }

    fn single_field_errors(&self) -> Vec<(String, FieldError)> {
        let mut found = vec![
            (
                "name".to_owned(),
                name_error(&self.name, "the pipeline", 253),
            ),
            (
                "namespace".to_owned(),
                name_error(&self.namespace, "the namespace", 63),
            ),
            ("app".to_owned(), name_error(&self.app, "the app", 253)),
            ("waves".to_owned(), self.waves_error()),
        ];
        for (nth, environment) in self.environments.iter().enumerate() {
            let field = format!("environment.{nth}.name");
            found.push((
                field,
                missing_error(&environment.name, "name the environment"),
            ));
            for (number, target) in environment.targets.iter().enumerate() {
                let field = format!("environment.{nth}.target.{number}.namespace");
                found.push((field, name_error(&target.namespace, "the namespace", 63)));
            }
        }
        let of_strategy = self.strategy_errors();
        let of_strategy = of_strategy.into_iter();
        found.extend(of_strategy.map(|(field, error)| (field.to_owned(), error)));
        let found = found.into_iter();
        found
            .filter_map(|(field, error)| Some((field, error?)))
            .collect()
    }

    fn strategy_errors(&self) -> Vec<(&'static str, Option<FieldError>)> {
        let is_asked_for = self.strategy == INPUTS;
        if !self.promotes() {
            let field = if is_asked_for { "secret" } else { "url" };
            return vec![(field, self.approval_without_promotion())];
        }
        let text = "name the Secret with the credentials, in the pipeline's namespace";
        let secret = ("secret", missing_error(&self.secret, text));
        match self.strategy.as_str() {
            INPUTS => vec![secret],
            OCI => {
                let tag = missing_error(&self.tag, "name the tag that targets follow");
                vec![("url", self.url_error()), ("tag", tag), secret]
            }
            _ => {
                let branch = missing_error(&self.branch, "name the branch to merge into");
                vec![("url", self.url_error()), ("branch", branch), secret]
            }
        }
    }

    /// Approval is a setting of a promotion, and without a repository there is none.
    fn approval_without_promotion(&self) -> Option<FieldError> {
        let mut promoted = self.environments.iter().skip(1);
        let manual = promoted.find(|it| it.manual)?;
        let text = format!(
            "name the {}, or untick approval for {}: without promotion there is nothing to approve",
            if self.strategy == INPUTS {
                "Secret"
            } else {
                "repository"
            },
            manual.name
        );
        missing_error("", &text)
    }

    fn url_error(&self) -> Option<FieldError> {
        if self.strategy == OCI {
            let is_usable = self.url.starts_with("oci://");
            return (!is_usable).then(|| FieldError::new("write oci://host/repository"));
        }
        let is_usable = self.url.starts_with("https://")
            || self.url.starts_with("ssh://")
            || self.url.contains('@') && !self.url.contains("://");
        let text = "write https://host/repository.git or ssh://git@host/repository.git";
        (!is_usable).then(|| FieldError::new(text))
    }

    /// The pipeline of the draft, where it can be read as one.
    pub(super) fn pipeline(&self) -> Option<Pipeline> {
        let spec = serde_json::from_value::<PipelineSpec>(self.spec()).ok()?;
        let mut pipeline = Pipeline::new(&self.name, spec);
        pipeline.metadata.namespace = Some(self.namespace.clone());
        Some(pipeline)
    }

    /// The fields that can have errors, in the order of the page.
    pub(super) fn fields(&self) -> Vec<String> {
        let mut fields = ["name", "namespace", "app", "image", ENVIRONMENTS]
            .map(str::to_owned)
            .to_vec();
        for (nth, environment) in self.environments.iter().enumerate() {
            fields.push(format!("environment.{nth}.name"));
            fields.push(format!("environment.{nth}.after"));
            for number in 0..environment.targets.len() {
                fields.push(format!("environment.{nth}.target.{number}.cluster"));
                fields.push(format!("environment.{nth}.target.{number}.namespace"));
            }
        }
        let rest = ["url", "branch", "tag", "secret", "waves", "path"];
        fields.extend(rest.map(str::to_owned));
        fields
    }

    /// The field of an error that comes first on the page.
    pub(super) fn first_field(&self, errors: &FieldErrors) -> Option<String> {
        let fields = self.fields();
        let first = fields.into_iter().find(|it| errors.contains_key(it));
        first.or_else(|| errors.keys().next().cloned())
    }

    /// What `sluice lint` warns about; nothing while fields are missing.
    pub(super) fn warnings(&self) -> Vec<String> {
        let is_incomplete = self
            .single_field_errors()
            .iter()
            .any(|(_, it)| it.is_missing);
        let spec = serde_json::from_value::<PipelineSpec>(self.spec());
        let findings = spec.map(|spec| planner::lint(&spec)).unwrap_or_default();
        let warnings = findings.into_iter().filter(|it| !it.is_error);
        let text = |it: planner::LintFinding| match it.environment {
            Some(environment) => format!("{environment}: {}", it.text),
            None => it.text,
        };
        warnings.filter(|_| !is_incomplete).map(text).collect()
    }

    fn lint_errors(&self) -> Vec<(String, String)> {
        let spec = serde_json::from_value::<PipelineSpec>(self.spec());
        let findings = match &spec {
            Ok(spec) => planner::lint(spec),
            Err(error) => return vec![(ENVIRONMENTS.to_owned(), error.to_string())],
        };
        let errors = findings.into_iter().filter(|it| it.is_error);
        errors.map(|it| (self.field_of(&it), it.text)).collect()
    }

    /// The field of the form that a finding is about: `after` of an environment, else the name of the environment.
    fn field_of(&self, finding: &planner::LintFinding) -> String {
        if let Some(nth) = environment_with_after(&finding.field) {
            return format!("environment.{nth}.after");
        }
        let mut names = self.environments.iter().map(|it| &it.name);
        let named = finding.environment.as_ref();
        let nth = named.and_then(|named| names.position(|name| name == named));
        nth.map_or(ENVIRONMENTS.to_owned(), |nth| {
            format!("environment.{nth}.name")
        })
    }
}

/// The number of the environment in `spec.environments[1].after[0]`.
fn environment_with_after(field: &str) -> Option<usize> {
    let rest = field.strip_prefix("spec.environments[")?;
    let (nth, below) = rest.split_once(']')?;
    below.starts_with(".after").then(|| nth.parse().ok())?
}

/// A target. Its cluster is typed as `name` or `namespace/name`; empty for the hub.
fn target(target: &DraftTarget) -> Value {
    let mut value = Map::new();
    if !target.cluster.is_empty() {
        let mut cluster = json!({"kind": "GitopsCluster", "name": target.cluster});
        if let Some((namespace, name)) = target.cluster.split_once('/') {
            cluster["name"] = json!(name);
            cluster["namespace"] = json!(namespace);
        }
        value.insert("clusterRef".to_owned(), cluster);
    }
    value.insert("namespace".to_owned(), json!(target.namespace));
    Value::Object(value)
}

/// The error of a field.
struct FieldError {
    /// The field is empty.
    is_missing: bool,
    text: String,
}

impl FieldError {
    fn new(text: &str) -> Self {
        Self {
            is_missing: false,
            text: text.to_owned(),
        }
    }
}

fn missing_error(value: &str, text: &str) -> Option<FieldError> {
    value.is_empty().then(|| FieldError {
        is_missing: true,
        ..FieldError::new(text)
    })
}

/// Checks that Kubernetes accepts a name: a subdomain, or a label if the maximum is 63.
fn name_error(text: &str, what: &str, longest: usize) -> Option<FieldError> {
    if text.is_empty() {
        return missing_error(text, &format!("name {what}"));
    }
    let is_part = |part: &str| {
        let is_inner = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
        let is_end = |it: Option<u8>| it.is_some_and(|it| it != b'-');
        let ends = is_end(part.bytes().next()) && is_end(part.bytes().next_back());
        ends && part.bytes().all(is_inner)
    };
    let is_name = match longest {
        63 => is_part(text),
        _ => text.split('.').all(is_part),
    };
    let sentence = "use lower-case letters, digits and dashes, beginning and ending without a dash";
    (!is_name || text.len() > longest).then(|| FieldError::new(sentence))
}

#[cfg(test)]
mod tests;
