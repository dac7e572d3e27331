use super::*;
use crate::dashboard::create::draft::FormButton;

fn basket() -> Draft {
    let mut draft = Draft::new();
    for (field, value) in [
        (&mut draft.name, "basket"),
        (&mut draft.namespace, "shop"),
        (&mut draft.app, "basket"),
        (&mut draft.url, "https://git.example.com/fleet.git"),
        (&mut draft.secret, "git"),
    ] {
        value.clone_into(field);
    }
    draft.environments[0].targets[0].namespace = "dev".to_owned();
    draft.environments[1].targets[0].namespace = "prod".to_owned();
    draft.environments[1].targets[0].cluster = "fleet/eu".to_owned();
    draft
}

#[test]
fn a_draft_becomes_a_manifest() {
    let draft = basket();
    assert_eq!(draft.errors(true), FieldErrors::new());
    let expected = "apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata:
  name: basket
  namespace: shop
spec:
  appRef:
    apiVersion: helm.toolkit.fluxcd.io/v2
    kind: HelmRelease
    name: basket
  environments:
  - name: dev
    targets:
    - namespace: dev
  - name: prod
    targets:
    - clusterRef:
        kind: GitopsCluster
        name: eu
        namespace: fleet
      namespace: prod
  promotion:
    manual: true
    strategy:
      pull-request:
        baseBranch: main
        secretRef:
          name: git
        type: github
        url: https://git.example.com/fleet.git
";
    assert_eq!(draft.yaml(), expected);
    let read: api::Pipeline = serde_saphyr::from_str(expected).unwrap();
    assert_eq!(planner::lint(&read.spec), []);
}

#[test]
fn each_strategy_has_its_fields() {
    let mut draft = basket();
    draft.strategy = OCI.to_owned();
    assert!(draft.errors(true)["url"].contains("oci://host"));
    draft.url = "oci://registry.example.com/basket".to_owned();
    assert_eq!(draft.errors(true), FieldErrors::new());
    let spec: PipelineSpec = serde_json::from_value(draft.spec()).unwrap();
    let strategy = &spec.promotion_into("prod").unwrap().strategy;
    let oci = strategy.oci.as_ref().unwrap();
    assert_eq!(
        (oci.url.as_str(), oci.tag.as_str()),
        (draft.url.as_str(), "${environment}")
    );
    draft.tag.clear();
    assert!(draft.errors(true)["tag"].contains("tag"));
    draft.strategy = INPUTS.to_owned();
    draft.url.clear();
    assert_eq!(draft.errors(true), FieldErrors::new());
    let spec: PipelineSpec = serde_json::from_value(draft.spec()).unwrap();
    let strategy = &spec.promotion_into("prod").unwrap().strategy;
    let inputs = strategy.resource_set_inputs.as_ref().unwrap();
    assert_eq!(inputs.secret_ref.name, "git");
    draft.secret.clear();
    assert!(draft.errors(true)["secret"].contains("untick approval for prod"));
}

#[test]
fn waves_are_percentages() {
    let mut draft = basket();
    let waves = |draft: &Draft| draft.spec()["promotion"]["rollout"]["waves"].clone();
    assert_eq!(waves(&draft), Value::Null);
    draft.waves = "5, 25%,".to_owned();
    assert_eq!(draft.errors(true), FieldErrors::new());
    assert_eq!(waves(&draft), json!([{"percent": 5}, {"percent": 25}]));
    for wrong in ["0", "101", "a few", "5 25"] {
        draft.waves = wrong.to_owned();
        assert!(draft.errors(false).contains_key("waves"), "{wrong}");
        assert_eq!(waves(&draft), Value::Null);
    }
}

#[test]
fn feedback_is_part_of_pull_requests_only() {
    let mut draft = basket();
    let check = |draft: &Draft, expected: Option<&[FeedbackKind]>| {
        let spec: PipelineSpec = serde_json::from_value(draft.spec()).unwrap();
        let strategy = &spec.promotion_into("prod").unwrap().strategy;
        let to = strategy.pull_request.as_ref().unwrap();
        assert_eq!(to.feedback.as_deref(), expected);
    };
    draft.commit_status = true;
    draft.comment = true;
    check(&draft, None);
    draft.comment = false;
    check(&draft, Some(&[FeedbackKind::CommitStatus]));
    draft.commit_status = false;
    check(&draft, Some(&[]));
    draft.strategy = OCI.to_owned();
    assert!(!draft.yaml().contains("feedback"));
}

#[test]
fn environments_come_after_what_was_typed() {
    let mut draft = basket();
    draft.environments[1].after = " dev ,".to_owned();
    // What was typed before it became the first does not count.
    draft.environments[0].after = "prod".to_owned();
    let spec: PipelineSpec = serde_json::from_value(draft.spec()).unwrap();
    assert_eq!(spec.environments[0].after, None);
    assert_eq!(
        spec.environments[1].after.as_deref(),
        Some(&["dev".to_owned()][..])
    );
}

#[test]
fn an_unknown_name_is_an_error_of_the_field_that_has_it() {
    let mut draft = basket();
    for (typed, expected) in [
        (
            "devv",
            "names \"devv\", which is no environment of the pipeline; did you mean dev?",
        ),
        ("dev, dev", "names dev twice"),
        ("prod", "names prod itself"),
    ] {
        draft.environments[1].after = typed.to_owned();
        let errors = draft.errors(false);
        assert!(
            errors["environment.1.after"].contains(expected),
            "{errors:?}"
        );
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(draft.first_field(&errors).unwrap(), "environment.1.after");
    }
    draft.environments[1].after = "dev".to_owned();
    assert_eq!(draft.errors(false), FieldErrors::new());
}

#[test]
fn environments_with_approval_get_a_manual_promotion() {
    let mut draft = basket();
    draft.apply(FormButton::AddEnvironment);
    draft.environments[2].name = "last".to_owned();
    draft.environments[2].targets[0].namespace = "last".to_owned();
    let spec: PipelineSpec = serde_json::from_value(draft.spec()).unwrap();
    let manual = |name: &str| spec.promotion_into(name).unwrap().manual;
    assert!(manual("prod"));
    assert!(!manual("last"));
    draft.url = String::new();
    let spec: PipelineSpec = serde_json::from_value(draft.spec()).unwrap();
    assert!(spec.promotion_into("prod").is_none());
}

#[test]
fn errors_belong_to_their_fields() {
    let check = |edit: fn(&mut Draft), field: &str, expected: &str| {
        let mut draft = basket();
        edit(&mut draft);
        let errors = draft.errors(true);
        let found = errors.get(field).cloned().unwrap_or_default();
        assert!(found.contains(expected), "{field}: {errors:?}");
    };
    check(|it| it.name = "Basket".into(), "name", "lower-case");
    check(|it| it.name.clear(), "name", "name the pipeline");
    check(|it| it.namespace = "a.b".into(), "namespace", "lower-case");
    check(|it| it.url = "ftp://x".into(), "url", "https://");
    check(|it| it.secret.clear(), "secret", "Secret");
    check(|it| it.url.clear(), "url", "untick approval for prod");
    check(|it| it.branch.clear(), "branch", "branch");
    check(
        |it| it.environments.clear(),
        ENVIRONMENTS,
        "no environments",
    );
    let twice = |it: &mut Draft| it.environments[1].name = "dev".into();
    check(twice, ENVIRONMENTS, "two environments are called dev");
    let shared = |it: &mut Draft| {
        it.environments[1].targets[0] = it.environments[0].targets[0].clone();
    };
    check(shared, "environment.1.name", "have the same target");
}

#[test]
fn missing_fields_are_no_errors_while_typing() {
    let mut draft = Draft::new();
    assert_eq!(draft.errors(false), FieldErrors::new());
    assert!(draft.errors(true).len() > 4);
    draft.name = "Basket".to_owned();
    draft.url = "ftp://x".to_owned();
    let fields: Vec<_> = draft.errors(false).into_keys().collect();
    assert_eq!(fields, ["name", "url"]);
}
