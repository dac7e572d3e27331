//! What is said about reports that do not count because nobody has signed them.

use api::pipeline::{Report, TargetProblem};
use planner::hook::{FluxEvent, HookAnswer, SignatureTrust, evaluate_event};

use crate::{
    drawing::{World, draw, now},
    reports::report,
    show::show,
};

/// The drawn world, in which dev has reported 2.0.0 without a signature under a key.
fn unsigned(drawing: &str, key: &str) -> World {
    let mut world = draw(drawing);
    let signed = false;
    let report = Report {
        signed,
        ..report("2.0.0", now())
    };
    let status = world.pipeline.status.as_mut().unwrap();
    status.reports.insert(key.to_owned(), report);
    world
}

#[test]
fn what_waits_for_a_signature_says_so() {
    let hold = "prod: ReportNotSigned: dev reported 2.0.0 without a signature, which does not count; \
                resolved by a signed report: a Secret with `hmac-key` that \
                spec.promotion.strategy.secretRef names, and a Provider of type generic-hmac; \
                or --allow-unsigned-reports";
    for (drawing, key) in [
        ("dev[- broken told] > prod[1.0.0 ok told]", "dev/-/dev"),
        ("dev[1.0.0 broken told] > prod[1.0.0 ok told]", "dev/-/dev"),
        ("dev[- broken lost] > prod[1.0.0 ok]", "dev/-/dev"),
        (
            "dev[- broken told, - broken told] > prod[1.0.0 ok told]",
            "dev",
        ),
    ] {
        let world = unsigned(drawing, key);
        assert_eq!(show(&world, &world.plan()), hold, "{drawing}");
        let text = planner::explain(&world.pipeline, &world.model(), &world.plan());
        let said = "  2.0.0 was reported without a signature and does not count; use a Secret";
        assert!(text.contains(said), "{text}");
    }
    for (drawing, key) in [
        ("dev[- broken] > prod[1.0.0 ok]", "dev/-/dev"),
        ("dev[2.0.0 broken told] > prod[1.0.0 ok told]", "dev/-/dev"),
        ("dev[- broken told] > prod[1.0.0 ok told]", "prod/-/prod"),
    ] {
        let world = unsigned(drawing, key);
        let shown = show(&world, &world.plan());
        assert!(!shown.contains("ReportNotSigned"), "{drawing}: {shown}");
    }
}

/// A target that may not be read any more is known by reports; one that the pipeline may not have is not.
#[test]
fn reports_count_for_a_target_that_was_readable_once() {
    for (state, is_said) in [("lost", true), ("told", false)] {
        let drawing = format!("dev[1.0.0 broken {state}] > prod[1.0.0 ok]");
        let mut world = unsigned(&drawing, "dev/-/dev");
        let status = world.pipeline.status.as_mut().unwrap();
        let dev = status.environments.get_mut("dev").unwrap();
        dev.targets[0].problem = Some(TargetProblem::Forbidden);
        let text = planner::explain(&world.pipeline, &world.model(), &world.plan());
        let is_told = text.contains("2.0.0 was reported without a signature");
        assert_eq!(is_told, is_said, "{state}: {text}");
    }
}

#[test]
fn an_unsigned_event_is_answered_with_what_is_missing() {
    let event = serde_json::from_value(serde_json::json!({
        "involvedObject": {
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "shop",
            "namespace": "dev",
        },
        "metadata": {"revision": "2.0.0"},
    }));
    let event: FluxEvent = event.unwrap();
    for (drawing, trust, is_said) in [
        (
            "dev[- broken told] > prod[- broken told]",
            SignatureTrust::UnsignedIgnored,
            true,
        ),
        ("dev[- broken told]", SignatureTrust::UnsignedIgnored, true),
        (
            "dev[1.0.0 broken lost] > prod[1.0.0 ok]",
            SignatureTrust::UnsignedIgnored,
            true,
        ),
        (
            "dev[1.0.0 ok] > prod[1.0.0 ok]",
            SignatureTrust::UnsignedIgnored,
            false,
        ),
        (
            "dev[- broken told] > prod[- broken told]",
            SignatureTrust::UnsignedCounts,
            false,
        ),
        (
            "dev[- broken told] > prod[- broken told]",
            SignatureTrust::Signed,
            false,
        ),
    ] {
        let heard = evaluate_event(&draw(drawing).pipeline, "dev", &event, trust, now());
        let is_not_signed = matches!(heard.answer, HookAnswer::NotSigned(_));
        assert_eq!(is_not_signed, is_said, "{drawing}: {:?}", heard.answer);
        assert!(heard.report.is_some(), "it is stored");
    }
}

#[test]
fn what_counts_or_reports_no_deployment_waits_for_no_signature() {
    let two = "dev[- broken told, - broken told] > prod[1.0.0 ok told]";
    let one = "dev[- broken told] > prod[1.0.0 ok told]";
    let told = format!("{two}\nreported dev 2.0.0");
    let told_another = format!("{two}\nreported dev 1.0.0");
    for (drawing, key, signed, reason, is_said) in [
        (one, "dev/-/dev", false, "UpgradeSucceeded", true),
        (one, "dev/-/dev", true, "UpgradeSucceeded", false),
        (one, "dev/-/dev", false, "UpgradeFailed", false),
        (&told, "dev", false, "UpgradeSucceeded", false),
        (&told_another, "dev", false, "UpgradeSucceeded", true),
    ] {
        let mut world = unsigned(drawing, key);
        let status = world.pipeline.status.as_mut().unwrap();
        let report = status.reports.get_mut(key).unwrap();
        report.signed = signed;
        report.reason = Some(reason.to_owned());
        let text = planner::explain(&world.pipeline, &world.model(), &world.plan());
        let is_told = text.contains("2.0.0 was reported without a signature");
        assert_eq!(is_told, is_said, "{drawing} {signed} {reason}: {text}");
    }
}
