//! The text in a manifest that says which revision a target runs: a marked version, the tag of an OCI
//! repository, or the address at which the cluster asks.

use api::{
    Pipeline,
    names::slug,
    pipeline::{Oci, Strategy},
};

use super::{
    super::{cluster::key, plan::comment},
    copy::ScaffoldTarget,
};

/// How the text of a template becomes that of a target.
pub(super) enum RevisionText {
    /// The version carries a marker.
    Marker,
    /// The tag that the targets follow, before and after.
    Tag { from: String, to: String },
    /// Texts to replace.
    Inputs(Vec<(String, String)>),
    /// Nothing in the manifest changes.
    Unchanged,
}

impl RevisionText {
    pub(super) fn of(pipeline: &Pipeline, from: &ScaffoldTarget, to: &ScaffoldTarget) -> Self {
        let settings = pipeline.spec.promotion_into(&to.environment);
        match settings.map(|settings| &settings.strategy) {
            Some(Strategy { oci: Some(oci), .. }) if oci.tag.contains("${version}") => {
                Self::Unchanged
            }
            Some(Strategy { oci: Some(oci), .. }) => Self::Tag {
                from: tag(oci, from),
                to: tag(oci, to),
            },
            Some(Strategy {
                resource_set_inputs: Some(_),
                ..
            }) => Self::inputs(pipeline, from, to),
            _ => Self::Marker,
        }
    }

    fn inputs(pipeline: &Pipeline, from: &ScaffoldTarget, to: &ScaffoldTarget) -> Self {
        let (namespace, name) = key(pipeline);
        let address = |target: &ScaffoldTarget| {
            let cluster = target.cluster.as_deref().unwrap_or("-");
            format!(
                "/inputs/{namespace}/{name}/{}?cluster={cluster}",
                target.environment
            )
        };
        let object = |target: &ScaffoldTarget| {
            let name = format!("{name}-{}", target.environment);
            slug(&name, super::super::inputs::LONGEST_NAME, "inputs")
        };
        Self::Inputs(vec![
            (address(from), address(to)),
            (object(from), object(to)),
        ])
    }

    /// The line as the target has it.
    pub(super) fn line(&self, line: &str) -> String {
        match self {
            Self::Marker | Self::Unchanged => line.to_owned(),
            Self::Tag { from, to } if is_tag(line, from) => line.replacen(from, to, 1),
            Self::Tag { .. } => line.to_owned(),
            Self::Inputs(texts) => texts
                .iter()
                .fold(line.to_owned(), |line, (from, to)| line.replace(from, to)),
        }
    }

    /// What the user still has to do to a copied manifest. `has_marker` says whether it has the marker.
    pub(super) fn remark(&self, content: &str, marker: &str, has_marker: bool) -> Option<String> {
        match self {
            Self::Marker if !has_marker => {
                Some(format!("add {} after the version", comment(marker)))
            }
            Self::Tag { to, .. } if !content.lines().any(|line| is_tag(line, to)) => Some(format!(
                "let its OCIRepository follow the tag {to}, which promotions set"
            )),
            Self::Inputs(texts) if !texts.iter().all(|(_, to)| content.contains(to)) => Some(
                "let its cluster ask for inputs: `sluice inputs` prints the objects".to_owned(),
            ),
            _ => None,
        }
    }
}

/// The tag of a target, as the controller fills it in.
fn tag(oci: &Oci, target: &ScaffoldTarget) -> String {
    let cluster = target
        .cluster
        .as_deref()
        .unwrap_or_default()
        .replace('/', "-");
    let fields = [
        ("${environment}", target.environment.as_str()),
        ("${cluster}", cluster.as_str()),
        ("${namespace}", target.namespace.as_str()),
    ];
    fields
        .into_iter()
        .fold(oci.tag.clone(), |tag, (field, value)| {
            tag.replace(field, value)
        })
}

/// Whether a line is the field `tag` with this value.
fn is_tag(line: &str, tag: &str) -> bool {
    let line = line
        .trim()
        .trim_start_matches("ref: {")
        .trim_end_matches('}');
    let value = line.trim_start_matches("- ").strip_prefix("tag:");
    let value = value.map(|it| it.split(" #").next().unwrap_or(it).trim());
    value.is_some_and(|value| value.trim_matches(['"', '\'']) == tag)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn copied(strategy: serde_json::Value, text: &str) -> (String, Option<String>) {
        let cluster = |name: &str| json!({"kind": "GitopsCluster", "name": name});
        let target = |name: &str| json!([{"namespace": "shop", "clusterRef": cluster(name)}]);
        let pipeline: Pipeline = serde_json::from_value(json!({
            "metadata": {"name": "shop", "namespace": "team"},
            "spec": {
                "environments": [
                    {"name": "dev", "targets": target("one")},
                    {"name": "prod", "targets": target("two")},
                ],
                "promotion": {"strategy": strategy},
            },
        }))
        .expect("a pipeline");
        let only = |name: &str| ScaffoldTarget::all(&pipeline, name).remove(0);
        let (from, to) = (only("dev"), only("prod"));
        let revision = RevisionText::of(&pipeline, &from, &to);
        let lines = text.split_inclusive('\n');
        let content: String = lines.map(|line| revision.line(line)).collect();
        let remark = revision.remark(&content, "marker", false);
        (content, remark)
    }

    #[test]
    fn the_tag_is_that_of_the_environment() {
        let strategy =
            |tag: &str| json!({"oci": {"url": "oci://registry.example/shop", "tag": tag}});
        let text = "kind: OCIRepository # dev\nref:\n  tag: dev # moved by Sluice\n";
        let (content, remark) = copied(strategy("${environment}"), text);
        let expected = "kind: OCIRepository # dev\nref:\n  tag: prod # moved by Sluice\n";
        assert_eq!((content.as_str(), remark), (expected, None));
        let (content, remark) = copied(strategy("${environment}"), "ref: {tag: \"dev\"}\n");
        assert_eq!((content.as_str(), remark), ("ref: {tag: \"prod\"}\n", None));
        let (content, remark) = copied(strategy("${environment}"), "ref: {tag: main}\n");
        assert_eq!(content, "ref: {tag: main}\n");
        assert!(remark.is_some_and(|it| it.contains("follow the tag prod")));
        let (_, remark) = copied(strategy("${version}"), "ref: {tag: 1.0.0}\n");
        assert_eq!(remark, None);
    }

    #[test]
    fn the_cluster_asks_for_its_own_environment() {
        let strategy = json!({"resourceSetInputs": {"secretRef": {"name": "inputs"}}});
        let text = "name: shop-dev\nurl: https://h.example/inputs/team/shop/dev?cluster=one\n";
        let (content, remark) = copied(strategy.clone(), text);
        let expected =
            "name: shop-prod\nurl: https://h.example/inputs/team/shop/prod?cluster=two\n";
        assert_eq!((content.as_str(), remark), (expected, None));
        let (_, remark) = copied(strategy, "kind: HelmRelease\n");
        assert!(remark.is_some_and(|it| it.contains("sluice inputs")));
    }
}
