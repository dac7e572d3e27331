//! What calls of webhooks mean, and what came of them.

use api::pipeline::Report;
use planner::hook::{
    AwaitedPromotion, FluxEvent, HookAnswer, SignatureTrust, evaluate_event, evaluate_release,
    promotion_result, report_secret,
};
use serde_json::{Value, json};

use crate::drawing::{World, draw, now};

/// An event of the drawn app, from the environment whose namespace that is, with changes.
pub(crate) fn event(namespace: &str, changes: Value) -> FluxEvent {
    let mut event = json!({
        "involvedObject": {
            "apiVersion": "helm.toolkit.fluxcd.io/v2beta2",
            "kind": "HelmRelease",
            "name": "shop",
            "namespace": namespace,
            "uid": namespace,
        },
        "severity": "info",
        "reason": "UpgradeSucceeded",
        "timestamp": "2027-01-15T07:00:00Z",
        "metadata": {"revision": "2.0.0"},
    });
    let changes = changes.as_object().unwrap().clone();
    event.as_object_mut().unwrap().extend(changes);
    serde_json::from_value(event).unwrap()
}

/// What is stored where, and the answer, in a line.
pub(crate) fn heard(world: &World, environment: &str, event: &FluxEvent) -> String {
    let heard = evaluate_event(
        &world.pipeline,
        environment,
        event,
        SignatureTrust::Signed,
        now(),
    );
    let stored = match &heard.report {
        Some((key, report)) => format!("{key}={}", report.revision),
        None => "nothing".to_owned(),
    };
    format!("{stored}; {}", said(&heard.answer))
}

pub(crate) fn said(answer: &HookAnswer) -> String {
    match answer {
        HookAnswer::Refuse(refusal) => format!("refused: {refusal}"),
        HookAnswer::CannotPromote => "cannot promote".to_owned(),
        HookAnswer::Noted => "noted".to_owned(),
        HookAnswer::NothingNext(refusal) => format!("nothing next: {refusal}"),
        HookAnswer::NotSigned(how) => format!("not signed: {how}"),
        HookAnswer::Await(awaited) => format!("{} into {}", awaited.revision, awaited.environment),
    }
}

#[test]
fn an_event_is_stored_for_its_target_and_leads_into_the_next_environment() {
    let world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]");
    for (environment, namespace, changes, expected) in [
        ("dev", "dev", json!({}), "dev/-/dev=2.0.0; 2.0.0 into prod"),
        (
            "dev",
            "prod",
            json!({}),
            "nothing; refused: involved object does not match Pipeline definition",
        ),
        (
            "prod",
            "prod",
            json!({}),
            "prod/-/prod=2.0.0; nothing next: cannot promote beyond last environment prod",
        ),
        (
            "x",
            "dev",
            json!({}),
            "nothing; refused: app default/shop has no environment x defined",
        ),
        (
            "x",
            "dev",
            json!({"metadata": {}}),
            "nothing; refused: event has no 'revision' in the metadata field.",
        ),
        (
            "dev",
            "dev",
            json!({"severity": "error"}),
            "dev/-/dev=2.0.0; noted",
        ),
        (
            "dev",
            "dev",
            json!({"reason": "InstallFailed"}),
            "dev/-/dev=2.0.0; noted",
        ),
        (
            "dev",
            "dev",
            json!({"reason": "HelmChartCreated"}),
            "dev/-/dev=2.0.0; noted",
        ),
        (
            "dev",
            "dev",
            json!({"metadata": {"revision": "2.0.0+abcdef012345"}}),
            "dev/-/dev=2.0.0+abcdef012345; 2.0.0 into prod",
        ),
    ] {
        assert_eq!(
            heard(&world, environment, &event(namespace, changes)),
            expected
        );
    }
}

#[test]
fn targets_that_share_a_namespace_are_told_apart_by_their_cluster() {
    let mut world = draw("dev[1.0.0 ok on east, 1.0.0 ok on west] > prod[1.0.0 ok]");
    for target in &mut world.pipeline.spec.environments[0].targets {
        target.namespace = "dev".to_owned();
    }
    world.pipeline.status = None;
    for (cluster, key) in [
        (Some("west"), "dev/west/dev"),
        (Some("south"), "dev"),
        (None, "dev"),
    ] {
        let metadata = json!({"metadata": {"revision": "2.0.0", "cluster": cluster}});
        let metadata = match cluster {
            Some(_) => metadata,
            None => json!({}),
        };
        let expected = format!("{key}=2.0.0; 2.0.0 into prod");
        assert_eq!(heard(&world, "dev", &event("dev", metadata)), expected);
    }
}

#[test]
fn a_report_is_stored_once_and_never_replaced_by_an_older_one() {
    let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]");
    let first = event("dev", json!({}));
    let (key, report) = evaluate_event(
        &world.pipeline,
        "dev",
        &first,
        SignatureTrust::Signed,
        now(),
    )
    .report
    .unwrap();
    world
        .pipeline
        .status
        .as_mut()
        .unwrap()
        .reports
        .insert(key, report);
    assert_eq!(heard(&world, "dev", &first), "nothing; 2.0.0 into prod");
    let older = event("dev", json!({"timestamp": "2027-01-15T06:59:59Z"}));
    assert_eq!(heard(&world, "dev", &older), "nothing; noted");
    let later = json!({"timestamp": "2027-01-15T07:00:01Z"});
    assert_eq!(
        heard(&world, "dev", &event("dev", later)),
        "dev/-/dev=2.0.0; 2.0.0 into prod"
    );
}

/// With a key to sign with, an unsigned report never takes the place of a signed one.
#[test]
fn an_unsigned_report_does_not_replace_a_signed_one() {
    let key = "dev/-/dev";
    for (is_known_signed, trust, has_key, is_stored) in [
        (true, SignatureTrust::Signed, true, true),
        (true, SignatureTrust::UnsignedCounts, true, false),
        (true, SignatureTrust::UnsignedCounts, false, true),
        (false, SignatureTrust::UnsignedCounts, true, true),
    ] {
        let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]");
        let known = evaluate_event(
            &world.pipeline,
            "dev",
            &event("dev", json!({})),
            SignatureTrust::Signed,
            now(),
        );
        let (found, mut report) = known.report.unwrap();
        assert_eq!(found, key);
        report.signed = is_known_signed;
        let status = world.pipeline.status.as_mut().unwrap();
        status.reports.insert(found, report);
        let settings = world.pipeline.spec.promotion.as_mut().unwrap();
        settings.strategy.secret_ref =
            has_key.then(|| serde_json::from_value(json!({"name": "key"})).unwrap());
        let later = json!({"timestamp": "2027-01-15T07:00:01Z", "metadata": {"revision": "3.0.0"}});
        let heard = evaluate_event(&world.pipeline, "dev", &event("dev", later), trust, now());
        let stored = heard.report.map(|(_, report)| report.revision);
        let expected = is_stored.then_some("3.0.0".to_owned());
        assert_eq!(stored, expected, "{is_known_signed} {trust:?} {has_key}");
    }
}

#[test]
fn events_of_another_object_are_refused() {
    let world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]");
    let object = |version: &str, kind: &str, name: &str| {
        let object = json!({
            "apiVersion": version, "kind": kind, "name": name, "namespace": "dev", "uid": "dev",
        });
        heard(
            &world,
            "dev",
            &event("dev", json!({"involvedObject": object})),
        )
    };
    let stored = "dev/-/dev=2.0.0; 2.0.0 into prod";
    let refused = "nothing; refused: involved object does not match Pipeline definition";
    let helm = "helm.toolkit.fluxcd.io/v2";
    assert_eq!(object(helm, "HelmRelease", "shop"), stored);
    assert_eq!(
        object("helm.toolkit.fluxcd.io/v3", "HelmRelease", "shop"),
        stored
    );
    assert_eq!(object("apps/v2", "HelmRelease", "shop"), refused);
    assert_eq!(object("v2", "HelmRelease", "shop"), refused);
    assert_eq!(object(helm, "Kustomization", "shop"), refused);
    assert_eq!(object(helm, "HelmRelease", "other"), refused);
}

#[test]
fn an_object_that_reported_elsewhere_is_not_believed() {
    let mut world = draw("dev[1.0.0 ok] > devil[1.0.0 ok] > prod[1.0.0 ok]");
    let reports = &mut world.pipeline.status.as_mut().unwrap().reports;
    let report = Report {
        uid: Some("devil".to_owned()),
        ..Report::default()
    };
    reports.insert("dev/-/dev".to_owned(), report.clone());
    // What anybody could have said denies nothing that is signed.
    let expected = "devil/-/devil=2.0.0; 2.0.0 into prod";
    assert_eq!(heard(&world, "devil", &event("devil", json!({}))), expected);
    let report = Report {
        signed: true,
        ..report
    };
    let reports = &mut world.pipeline.status.as_mut().unwrap().reports;
    reports.insert("dev/-/dev".to_owned(), report.clone());
    let expected = "nothing; refused: involved object does not match Pipeline definition";
    assert_eq!(heard(&world, "devil", &event("devil", json!({}))), expected);
    // An environment that is gone speaks for nobody.
    let reports = &mut world.pipeline.status.as_mut().unwrap().reports;
    reports.clear();
    reports.insert("gone/-/dev".to_owned(), report);
    let expected = "devil/-/devil=2.0.0; 2.0.0 into prod";
    assert_eq!(heard(&world, "devil", &event("devil", json!({}))), expected);
}

#[test]
fn a_release_needs_a_pipeline_that_asks_for_it() {
    let world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]");
    let answer = evaluate_release(&world.pipeline, "2.0.0", now()).answer;
    assert_eq!(
        said(&answer),
        "refused: the source of the pipeline is not Hook"
    );
    let mut world = world;
    world.pipeline.spec.source = Some(api::pipeline::Source {
        kind: api::pipeline::SourceKind::Hook,
        name: None,
    });
    let heard = evaluate_release(&world.pipeline, "2.0.0", now());
    assert_eq!(said(&heard.answer), "2.0.0 into dev");
    let (key, report) = heard.report.unwrap();
    assert_eq!(
        (key.as_str(), report.signed),
        (planner::RELEASE_REPORT, true)
    );
}

/// What became of 2.0.0 on its way from dev into prod.
fn became(drawing: &str) -> String {
    let mut world = draw(drawing);
    let plan = world.plan();
    let status = planner::apply(&plan, &world.model(), now());
    world.pipeline.status = Some(status);
    let awaited = AwaitedPromotion {
        source: Some("dev".to_owned()),
        environment: "prod".to_owned(),
        revision: "2.0.0".to_owned(),
    };
    let promotion = world.promotions.last();
    format!(
        "{:?}",
        promotion_result(&world.pipeline, promotion, &awaited)
    )
}

#[test]
fn the_outcome_is_found_once_there_is_one() {
    for (drawing, expected) in [
        ("dev[1.0.0 ok] > prod[1.0.0 ok]", "None"),
        ("dev[2.0.0 ok] > prod[2.0.0 ok]", "Some(Quiet)"),
        ("dev[2.0.0 broken] > prod[1.0.0 ok]", "Some(Held)"),
        (
            "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval",
            "Some(Quiet)",
        ),
        (
            "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval approved",
            "None",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Deploying",
            "Some(Quiet)",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Failed",
            "Some(Failed)",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Abandoned",
            "Some(Held)",
        ),
        (
            "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 1.5.0 WaitingForMerge",
            "None",
        ),
    ] {
        assert_eq!(became(drawing), expected, "{drawing}");
    }
}

#[test]
fn a_key_of_the_pipeline_is_demanded_and_one_of_an_environment_is_not() {
    let reference = |name: &str| {
        Some(api::reference::LocalReference {
            name: name.to_owned(),
        })
    };
    let mut spec = draw("dev[1.0.0 ok] > prod[1.0.0 ok]").pipeline.spec;
    let found = |spec: &api::pipeline::PipelineSpec| {
        let secret = report_secret(spec, "dev");
        secret.map(|secret| (secret.name.to_owned(), secret.is_required))
    };
    assert_eq!(found(&spec), None);
    let mut own = spec.promotion.clone().unwrap();
    own.strategy.secret_ref = reference("of-prod");
    spec.environments[1].promotion = Some(own);
    assert_eq!(found(&spec), Some(("of-prod".to_owned(), false)));
    spec.promotion.as_mut().unwrap().strategy.secret_ref = reference("keys");
    assert_eq!(found(&spec), Some(("keys".to_owned(), true)));
}
