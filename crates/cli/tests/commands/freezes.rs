//! `sluice freeze`, `sluice thaw`, `sluice get freezes`, overrides, and what `sluice lint` says of Freezes.

use api::Freeze;
use kube::{Api, api::ListParams};
use serde_json::Value;

use crate::cluster::{TestCluster, offline};

async fn freezes(cluster: &TestCluster) -> Vec<Freeze> {
    let api: Api<Freeze> = Api::all(cluster.client.clone());
    api.list(&ListParams::default()).await.unwrap().items
}

#[tokio::test]
async fn freeze_and_thaw_a_pipeline() {
    let cluster = TestCluster::new().await;
    let freeze = ["freeze", "web", "-e", "prod", "--reason", "incident 7"];
    let output = cluster.run(&freeze).await;
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(
        output
            .out
            .starts_with("froze prod of web until `sluice thaw`"),
        "{}",
        output.out
    );
    let all = freezes(&cluster).await;
    assert_eq!(all.len(), 1);
    let spec = &all[0].spec;
    assert_eq!(
        (spec.pipelines.as_slice(), spec.environments.as_slice()),
        (&["web".to_owned()][..], &["prod".to_owned()][..])
    );
    // Nobody ends the freeze of somebody else by the way.
    let shorter = ["freeze", "web", "-e", "prod", "--until", "2h"];
    let refused = cluster.run(&shorter).await;
    assert_eq!(refused.code, 1, "{}", refused.out);
    let there = "prod of web is frozen already until `sluice thaw`: incident 7; end that with \
                 `sluice thaw` first";
    assert!(refused.err.contains(there), "{}", refused.err);
    // Again: the same Freeze with another reason.
    let again = cluster.run(&["freeze", "web", "-e", "prod"]).await;
    assert_eq!(again.code, 0, "{}", again.err);
    let replaced = "this replaces the freeze until `sluice thaw`: incident 7";
    assert!(again.out.contains(replaced), "{}", again.out);
    let all = freezes(&cluster).await;
    assert!(all.len() == 1 && all[0].spec.not_after.is_none());
    let listed = cluster.run(&["get", "freezes"]).await;
    for word in ["closed", "web/prod", "stopped with sluice freeze"] {
        assert!(listed.out.contains(word), "{}", listed.out);
    }
    let other = cluster.run(&["thaw", "web", "-e", "dev"]).await;
    assert_eq!(other.code, 1);
    assert!(
        other
            .err
            .contains("dev of web has no freeze made by `sluice freeze`"),
        "{}",
        other.err
    );
    let thawed = cluster.run(&["thaw", "web"]).await;
    assert!(
        thawed.out.starts_with("deleted freeze stop-web-prod-"),
        "{}",
        thawed.err
    );
    assert_eq!(freezes(&cluster).await.len(), 0);
    for typed in [["prod", "dev"], ["dev", "prod"]] {
        let output = cluster.run(&["freeze", "web", typed[0], typed[1]]).await;
        assert_eq!(output.code, 0, "{}", output.err);
        let all = freezes(&cluster).await;
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].spec.environments, ["dev", "prod"]);
    }
    let thawed = cluster.run(&["thaw", "web", "-e", "prod", "dev"]).await;
    assert_eq!(thawed.code, 0, "{}", thawed.err);
    assert_eq!(freezes(&cluster).await.len(), 0);
}

#[tokio::test]
async fn freeze_all_pipelines_and_refuse_what_makes_no_sense() {
    let cluster = TestCluster::new().await;
    let output = cluster.run(&["freeze", "--all"]).await;
    assert_eq!(output.code, 0, "{}", output.err);
    assert_eq!(freezes(&cluster).await[0].spec.pipelines, [] as [String; 0]);
    // It was not for this pipeline.
    let thaw = cluster.run(&["thaw", "web"]).await;
    assert_eq!(thaw.code, 1);
    let named = "web has no freeze made by `sluice freeze`; it is frozen by stop-all-";
    assert!(thaw.err.contains(named), "{}", thaw.err);
    let command = "(stopped with sluice freeze), resolved by ending the Freeze (`sluice thaw --all -n default`)";
    assert!(thaw.err.contains(command), "{}", thaw.err);
    // What still holds the pipeline is told when another Freeze of it ends.
    assert_eq!(cluster.run(&["freeze", "web", "prod"]).await.code, 0);
    let thaw = cluster.prints(&["thaw", "web", "prod"]).await;
    assert!(
        thaw.contains("\nprod of web is still frozen by stop-all-"),
        "{thaw}"
    );
    assert_eq!(cluster.run(&["thaw", "--all"]).await.code, 0);
    for (arguments, expected) in [
        (&["freeze", "web", "-e", "prdo"][..], "did you mean prod?"),
        (
            &["freeze", "--all", "-e", "prdo"],
            "no pipeline has an environment prdo: did you mean prod?",
        ),
        (
            &["freeze", "web", "--until", "2020-01-01T00:00:00Z"],
            "in the past",
        ),
        (
            &["freeze", "web", "--until", "soon"],
            "write a time such as",
        ),
        (&["freeze"], "required"),
        (
            &["promote", "web", "prod", "2.0.0", "--override", "freeze/a"],
            "--note",
        ),
        (
            &[
                "promote",
                "web",
                "prod",
                "2.0.0",
                "--override",
                "soak",
                "--note",
                "x",
            ],
            "only freeze/NAME",
        ),
    ] {
        let output = cluster.run(arguments).await;
        assert!(
            output.code != 0 && output.err.contains(expected),
            "{arguments:?}: {}",
            output.err
        );
    }
    assert_eq!(freezes(&cluster).await.len(), 0);
}

#[tokio::test]
async fn an_override_is_an_annotation_of_its_own() {
    let cluster = TestCluster::new().await;
    let arguments = [
        "promote",
        "web",
        "prod",
        "2.0.0",
        "--override",
        "freeze/weekend",
        "--note",
        "incident 7",
        "--answer-timeout",
        "0s",
    ];
    let output = cluster.run(&arguments).await;
    assert_eq!(output.code, 0, "{}", output.err);
    let annotations = cluster.pipeline().await.metadata.annotations.unwrap();
    let read = |name: &str| -> Value {
        serde_json::from_str(&annotations[&format!("pipelines.weave.works/{name}")]).unwrap()
    };
    let (request, overriding) = (read("request"), read("override"));
    assert_eq!(request["prod"]["override"], Value::Null);
    assert_eq!(overriding["request"], request["prod"]["id"]);
    assert_eq!(overriding["reason"], "incident 7");
    assert_eq!(overriding["passes"][0], "freeze/weekend");
}

async fn lint(spec: &str) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.yaml");
    let text = format!(
        "apiVersion: pipelines.weave.works/v1alpha1\nkind: Freeze\nmetadata: {{name: f}}\nspec: {spec}\n\
         ---\napiVersion: pipelines.weave.works/v1alpha1\nkind: Pipeline\nmetadata: {{name: web}}\n\
         spec: {{appRef: {{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: web}}, \
         environments: [{{name: dev, targets: [{{namespace: dev}}]}}]}}\n"
    );
    std::fs::write(&file, text).unwrap();
    let output = offline(&["lint", file.to_str().unwrap()]).await;
    (output.code, output.out + &output.err)
}

#[tokio::test]
async fn lint_knows_freezes() {
    let window = |cron: &str, zone: &str| {
        format!("{{reason: r, closed: [{{cron: \"{cron}\", window: 1h, timeZone: {zone}}}]}}")
    };
    assert_eq!(lint(&window("0 16 * * FRI", "Europe/Berlin")).await.0, 0);
    for (spec, expected) in [
        (window("0 16 * * FRX", "UTC"), "\"FRX\" is no day of week"),
        (window("@daily", "Europe/Bärlin"), "is no IANA time zone"),
        (
            "{reason: r, openOnly: [{cron: \"0 0 31 2 *\", window: 1h}]}".to_owned(),
            "does not open within a year",
        ),
        ("{closed: []}".to_owned(), "spec.reason"),
        (
            "{reason: r, environment: [prod]}".to_owned(),
            "did you mean environments?",
        ),
    ] {
        let (code, text) = lint(&spec).await;
        assert!(code == 1 && text.contains(expected), "{spec}: {text}");
    }
    let (code, text) = lint("{reason: r, environments: [prod]}").await;
    assert!(
        code == 0 && text.contains("covers no environment"),
        "{text}"
    );
}

#[tokio::test]
async fn lint_warns_of_a_freeze_in_a_namespace_without_pipelines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.yaml");
    let file = file.to_str().unwrap();
    for (namespaces, expected) in [
        (
            ("default", "shop"),
            "no Pipeline of the namespace default is known; a Freeze covers only",
        ),
        (("shop", "shop"), "no errors, 0 warnings"),
        (("pipeline-system", "shop"), "no errors, 0 warnings"),
    ] {
        let (freeze, pipeline) = namespaces;
        let text = format!(
            "apiVersion: pipelines.weave.works/v1alpha1\nkind: Freeze\n\
             metadata: {{name: f, namespace: {freeze}}}\nspec: {{reason: r}}\n\
             ---\napiVersion: pipelines.weave.works/v1alpha1\nkind: Pipeline\n\
             metadata: {{name: web, namespace: {pipeline}}}\n\
             spec: {{appRef: {{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: web}}, \
             environments: [{{name: dev, targets: [{{namespace: dev}}]}}]}}\n"
        );
        std::fs::write(file, text).unwrap();
        let output = offline(&["lint", file]).await;
        let said = output.out + &output.err;
        assert!(output.code == 0 && said.contains(expected), "{said}");
    }
    // A Pipeline of the cluster is known as well.
    let cluster = TestCluster::new().await;
    let text = "apiVersion: pipelines.weave.works/v1alpha1\nkind: Freeze\n\
                metadata: {name: f, namespace: shop}\nspec: {reason: r}\n";
    std::fs::write(file, text).unwrap();
    let output = cluster.run(&["lint", file, "--live"]).await;
    let expected = "no Pipeline of the namespace shop is known";
    assert!(
        output.out.contains(expected),
        "{}{}",
        output.out,
        output.err
    );
}
