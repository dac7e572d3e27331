//! The strategy resourceSetInputs: what clusters that ask should run, and what they are answered.

use api::{
    Promotion,
    pipeline::{PipelineStatus, Scope, Strategy},
};
use planner::{InputQuestion, InputsRefusal, inputs_secret, published_input, with_desired};
use serde_json::{Value, json};

use crate::drawing::{World, draw};

fn inputs() -> Strategy {
    let strategy = json!({"resourceSetInputs": {"secretRef": {"name": "inputs"}}});
    serde_json::from_value(strategy).unwrap()
}

/// Dev and prod, where prod has targets on these clusters and publishes inputs.
fn world(prod: &str) -> World {
    let mut world = draw(&format!("dev[2.0.0 ok] > prod[{prod}]"));
    world.pipeline.spec.promotion.as_mut().unwrap().strategy = inputs();
    world
}

/// A promotion into prod, or into its target on a cluster, that landed at a minute.
fn landed(revision: &str, cluster: Option<&str>, minute: u32, phase: &str) -> Promotion {
    let target = cluster.map(|cluster| {
        let number = &cluster[1..];
        json!({"cluster": cluster, "namespace": format!("prod-{number}")})
    });
    let at = format!("2026-01-01T00:{minute:02}:00Z");
    let name = format!("{revision}-{}", cluster.unwrap_or_default());
    serde_json::from_value(json!({
        "metadata": {"name": name, "creationTimestamp": at},
        "spec": {
            "pipeline": "shop", "environment": "prod", "target": target, "revision": revision,
            "version": revision, "digest": format!("sha256:{revision}"), "ordinal": 0,
            "strategy": inputs(), "needsApproval": false,
        },
        "status": {"phase": phase, "startedAt": at, "mergedAt": at},
    }))
    .unwrap()
}

impl World {
    /// Stores what these promotions say.
    fn store(&mut self, promotions: &[Promotion]) {
        let status = with_desired(&self.pipeline, self.model(), promotions);
        let again = with_desired(&self.pipeline, status.clone(), promotions);
        assert_eq!(again, status, "the second time changes nothing");
        self.pipeline.status = Some(status);
    }

    fn set_scope(&mut self, scope: Scope) {
        self.pipeline.spec.promotion.as_mut().unwrap().scope = Some(scope);
    }

    /// What a cluster is answered, in short.
    fn ask(&self, cluster: Option<&str>) -> String {
        let question = InputQuestion {
            environment: "prod",
            cluster,
            namespace: None,
        };
        match published_input(&self.pipeline, question) {
            Ok(input) => {
                assert_eq!(input.id, "shop-prod");
                assert_eq!(input.digest, format!("sha256:{}", input.revision));
                input.version
            }
            Err(InputsRefusal::Unknown { .. }) => "unknown".to_owned(),
            Err(InputsRefusal::TargetsDiffer { missing, .. }) => format!("add {missing}"),
            Err(InputsRefusal::NotPublished { .. }) => "not published".to_owned(),
        }
    }
}

#[test]
fn what_landed_last_is_answered() {
    let mut world = world("1.0.0 ok on c1, 1.0.0 ok on c2");
    assert_eq!(world.ask(Some("c1")), "unknown");
    let running = {
        let mut running = landed("1.1.0", None, 1, "Running");
        running.status.as_mut().unwrap().merged_at = None;
        running
    };
    world.store(&[running]);
    assert_eq!(world.ask(Some("c1")), "unknown", "it has not landed");
    let one = landed("1.1.0", None, 1, "Succeeded");
    let two = landed("1.2.0", None, 2, "Deploying");
    world.store(&[two, one]);
    for cluster in [None, Some("c1"), Some("c2"), Some("c9")] {
        assert_eq!(world.ask(cluster), "1.2.0", "{cluster:?}");
    }
    let back = landed("1.1.0", None, 3, "Deploying");
    world.store(&[landed("1.2.0", None, 2, "Succeeded"), back]);
    assert_eq!(
        world.ask(None),
        "1.1.0",
        "a rollback lands like anything else"
    );
}

#[test]
fn a_deleted_promotion_takes_nothing_back() {
    let mut world = world("1.0.0 ok");
    let one = landed("1.1.0", None, 1, "Succeeded");
    world.store(&[one.clone(), landed("1.2.0", None, 2, "Succeeded")]);
    world.store(&[one]);
    assert_eq!(world.ask(None), "1.2.0");
    world.store(&[]);
    assert_eq!(world.ask(None), "1.2.0");
}

#[test]
fn a_clock_that_was_set_back_takes_nothing_back() {
    let mut world = world("1.0.0 ok");
    let before = landed("1.1.0", None, 30, "Superseded");
    world.store(&[landed("1.1.0", None, 30, "Deploying")]);
    world.store(&[before.clone(), landed("1.2.0", None, 10, "Deploying")]);
    assert_eq!(world.ask(None), "1.2.0");
    world.store(&[before, landed("1.2.0", None, 10, "Succeeded")]);
    assert_eq!(world.ask(None), "1.2.0");
}

#[test]
fn two_that_land_in_the_same_second_are_ordered_by_their_creation() {
    let mut world = world("1.0.0 ok");
    let one = landed("1.1.0", None, 1, "Superseded");
    world.store(&[landed("1.1.0", None, 1, "Deploying")]);
    let mut two = landed("1.2.0", None, 1, "Succeeded");
    let later = "2026-01-01T00:01:01Z".parse().unwrap();
    two.metadata.creation_timestamp = Some(api::Time(later));
    world.store(&[two, one]);
    assert_eq!(world.ask(None), "1.2.0");
}

#[test]
fn each_target_has_its_own_value_where_promotions_cover_one() {
    let mut world = world("1.0.0 ok on c1, 1.0.0 ok on c2");
    world.set_scope(Scope::Target);
    world.store(&[landed("1.1.0", Some("c1"), 1, "Succeeded")]);
    assert_eq!(world.ask(Some("c1")), "1.1.0");
    assert_eq!(world.ask(Some("c2")), "unknown");
    assert_eq!(world.ask(None), "add cluster");
    world.store(&[
        landed("1.1.0", Some("c1"), 1, "Succeeded"),
        landed("1.1.0", Some("c2"), 2, "Succeeded"),
    ]);
    assert_eq!(world.ask(None), "1.1.0", "they do not differ any more");
}

#[test]
fn another_scope_takes_no_target_back() {
    let mut world = world("1.0.0 ok on c1, 1.0.0 ok on c2");
    world.store(&[landed("1.1.0", None, 1, "Succeeded")]);
    world.set_scope(Scope::Target);
    let of_c1 = landed("1.2.0", Some("c1"), 2, "Succeeded");
    world.store(std::slice::from_ref(&of_c1));
    assert_eq!(world.ask(Some("c1")), "1.2.0");
    assert_eq!(world.ask(Some("c2")), "1.1.0");
    world.set_scope(Scope::Environment);
    world.store(std::slice::from_ref(&of_c1));
    assert_eq!(world.ask(Some("c1")), "1.2.0");
    world.store(&[of_c1, landed("1.3.0", None, 3, "Deploying")]);
    for cluster in [None, Some("c1"), Some("c2")] {
        assert_eq!(world.ask(cluster), "1.3.0", "{cluster:?}");
    }
}

#[test]
fn several_targets_of_a_cluster_are_told_apart_by_their_namespace() {
    let mut world = world("1.0.0 ok on c1, 1.0.0 ok on c2");
    world.set_scope(Scope::Target);
    world.store(&[landed("1.1.0", Some("c1"), 1, "Succeeded")]);
    let status = world.pipeline.status.as_mut().unwrap();
    let targets = &mut status.environments.get_mut("prod").unwrap().targets;
    targets[1].cluster_app_ref = targets[0].cluster_app_ref.clone();
    assert_eq!(world.ask(Some("c1")), "add namespace");
    let question = |namespace| InputQuestion {
        environment: "prod",
        cluster: Some("c1"),
        namespace: Some(namespace),
    };
    let first = published_input(&world.pipeline, question("prod-1")).unwrap();
    assert_eq!(first.version, "1.1.0");
    assert!(published_input(&world.pipeline, question("prod-2")).is_err());
}

#[test]
fn clusters_are_named_with_their_namespace_where_it_is_another() {
    let mut world = world("1.0.0 ok on c1, 1.0.0 ok on c2, 1.0.0 ok");
    world.set_scope(Scope::Target);
    let status = world.pipeline.status.as_mut().unwrap();
    let targets = &mut status.environments.get_mut("prod").unwrap().targets;
    let cluster = targets[0].cluster_app_ref.as_mut().unwrap();
    cluster.cluster_ref.as_mut().unwrap().namespace = Some("fleet".to_owned());
    for (target, version) in targets.iter_mut().zip(["1.1.0", "1.2.0", "1.3.0"]) {
        let digest = format!("sha256:{version}");
        let desired = json!({"revision": version, "version": version, "digest": digest});
        target.desired = serde_json::from_value(desired).unwrap();
    }
    for (cluster, expected) in [
        ("fleet/c1", "1.1.0"),
        ("fleet.c1", "1.1.0"),
        ("c1", "unknown"),
        ("c2", "1.2.0"),
        ("default/c2", "1.2.0"),
        ("other/c2", "unknown"),
        ("-", "1.3.0"),
    ] {
        assert_eq!(world.ask(Some(cluster)), expected, "{cluster}");
    }
}

#[test]
fn other_strategies_publish_nothing() {
    let mut world = world("1.0.0 ok");
    world.store(&[landed("1.1.0", None, 1, "Succeeded")]);
    let settings = world.pipeline.spec.promotion.as_mut().unwrap();
    settings.strategy = crate::drawing::pull_request();
    assert_eq!(world.ask(None), "not published");
    // What a pull request brought is not what clusters were told before.
    let mut by_pull_request = landed("1.2.0", None, 2, "Succeeded");
    by_pull_request.spec.strategy = crate::drawing::pull_request();
    let all = [landed("1.1.0", None, 1, "Succeeded"), by_pull_request];
    world.store(&all);
    world.pipeline.spec.promotion.as_mut().unwrap().strategy = inputs();
    world.store(&all);
    assert_eq!(world.ask(None), "unknown");
}

#[test]
fn an_app_that_is_not_there_yet_holds_only_other_strategies() {
    let mut world = world("- missing");
    let plan = world.plan();
    assert_eq!(plan.environments["prod"].hold, None);
    assert_eq!(plan.steps.len(), 1, "{:?}", plan.steps);
    world.pipeline.spec.promotion.as_mut().unwrap().strategy = crate::drawing::pull_request();
    let hold = world.plan().environments["prod"].hold.clone().unwrap();
    assert_eq!(hold.reason.word(), "AppMissing");
}

#[test]
fn people_read_what_clusters_are_answered() {
    let mut world = world("1.0.0 ok on c1, 1.0.0 ok on c2");
    let text = |world: &World| planner::explain(&world.pipeline, &world.model(), &world.plan());
    assert!(!text(&world).contains("clusters that ask"));
    world.store(&[landed("1.1.0", None, 1, "Succeeded")]);
    assert!(text(&world).contains("clusters that ask get 1.1.0\n"));
    world.set_scope(Scope::Target);
    world.store(&[landed("1.2.0", Some("c1"), 2, "Succeeded")]);
    assert!(text(&world).contains("clusters that ask get 1.1.0 and 1.2.0\n"));
}

#[test]
fn an_environment_that_is_gone_has_no_token_and_publishes_nothing() {
    let world = world("1.0.0 ok");
    let spec = &world.pipeline.spec;
    for (environment, expected) in [
        ("dev", Some("inputs")),
        ("prod", Some("inputs")),
        ("gone", None),
    ] {
        assert_eq!(inputs_secret(spec, environment), expected, "{environment}");
    }
    let refused = |environment| {
        let question = InputQuestion {
            environment,
            cluster: None,
            namespace: None,
        };
        published_input(&world.pipeline, question)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(refused("gone"), "the pipeline publishes no inputs for gone");
    assert_eq!(
        refused("prod"),
        "no promotion into prod has been published yet; nothing is changed until one is"
    );
    let differ = InputsRefusal::TargetsDiffer {
        environment: "prod".to_owned(),
        missing: "cluster",
    };
    assert_eq!(
        differ.to_string(),
        "the targets of prod should run different revisions; add `cluster` to the address"
    );
}

/// A rollout lands in its environment as a whole only when it has succeeded.
#[test]
fn a_rollout_that_failed_publishes_nothing_for_its_environment() {
    for (phase, expected) in [("Succeeded", "1.1.0"), ("Failed", "unknown")] {
        let mut world = world("1.0.0 ok on c1, 1.0.0 ok on c2");
        let mut promotion = serde_json::to_value(landed("1.1.0", None, 1, phase)).unwrap();
        promotion["status"]["finishedAt"] = "2026-01-01T00:02:00Z".into();
        promotion["status"]["rollout"] = json!({});
        world.store(&[serde_json::from_value(promotion).unwrap()]);
        assert_eq!(world.ask(Some("c9")), expected, "{phase}");
    }
}

#[test]
fn statuses_of_earlier_versions_have_no_value() {
    let stored: Value = json!({"environments": {"prod": {"targets": [{"namespace": "prod"}]}}});
    let status: PipelineStatus = serde_json::from_value(stored).unwrap();
    assert_eq!(status.environments["prod"].desired, None);
}
