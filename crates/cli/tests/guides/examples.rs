//! The examples pass `sluice lint`, alone and with the repository that belongs to each.

use testbed::guide::Shell;

use crate::binary;

#[tokio::test]
async fn pipelines_are_sound_and_find_what_they_change() {
    let mut shell = Shell::new().unwrap();
    shell.program("sluice", binary()).unwrap();
    for forge in ["github", "gitlab", "gitea"] {
        let example = format!("examples/pipelines/{forge}");
        let lint = format!("sluice lint {example}/*.yaml --checkout {example}");
        let said = shell.sh(&lint).await.unwrap();
        assert!(said.contains("no errors, 0 warnings"), "{said}");
        for environment in ["staging", "prod"] {
            let plan = format!(
                "sluice plan {example}/pipeline.yaml {environment} 9.9.9 --checkout {example}"
            );
            let said = shell.sh(&plan).await.unwrap();
            let changed = format!("+++ b/fleet/{environment}/shop.yaml");
            assert!(
                said.contains(&changed) && said.contains("1 value to change in 1 file"),
                "{said}"
            );
        }
    }
}

#[tokio::test]
async fn a_pipeline_that_branches_is_sound() {
    let mut shell = Shell::new().unwrap();
    shell.program("sluice", binary()).unwrap();
    let lint = "sluice lint examples/regions/*.yaml";
    let said = shell.sh(lint).await.unwrap();
    assert!(said.contains("no errors, 0 warnings"), "{said}");
    // A typing mistake in `after` is found, with what was probably meant.
    let wrong = "sed 's/after: .eu, us./after: [eu, uss]/' examples/regions/pipeline.yaml > wrong.yaml; \
                 sluice lint wrong.yaml || true";
    let said = shell.sh(wrong).await.unwrap();
    assert!(said.contains("did you mean us?"), "{said}");
}

#[tokio::test]
async fn the_fleet_is_sound() {
    let mut shell = Shell::new().unwrap();
    shell.program("sluice", binary()).unwrap();
    let lint = "sluice lint examples/fleet/*.yaml";
    let said = shell.sh(lint).await.unwrap();
    assert!(said.contains("no errors, 0 warnings"), "{said}");
    // Which clusters are selected is known on the hub only.
    for cluster in ["edge-1", "edge-6"] {
        let plan = format!(
            "sed 's/clusterSelector: .*/clusterRef: {{kind: GitopsCluster, name: {cluster}}}/' \
             examples/fleet/pipeline.yaml > one.yaml; \
             sluice plan one.yaml prod 9.9.9 --checkout examples/fleet"
        );
        let said = shell.sh(&plan).await.unwrap();
        let changed = format!("+++ b/clusters/{cluster}/shop.yaml");
        assert!(
            said.contains(&changed) && said.contains("1 value to change in 1 file"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn pipelines_without_git_are_sound() {
    let mut shell = Shell::new().unwrap();
    shell.program("sluice", binary()).unwrap();
    for example in ["oci", "resourcesets"] {
        let lint = format!("sluice lint examples/pipelines/{example}/*.yaml");
        let said = shell.sh(&lint).await.unwrap();
        assert!(said.contains("no errors, 0 warnings"), "{said}");
    }
    let inputs = "sluice inputs examples/pipelines/resourcesets/pipeline.yaml prod \
         --address https://hooks.example.com";
    let printed = shell.sh(inputs).await.unwrap();
    for line in [
        "url: https://hooks.example.com/inputs/shop/shop/prod?cluster=prod",
        "readyExpr: size(status.exportedInputs) > 0",
        "fluxcd.controlplane.io/prune: disabled",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
}
