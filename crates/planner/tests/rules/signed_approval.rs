//! Which promotions a signed call approves, and which Secret signs which call.

use api::{Promotion, pipeline::PipelineSpec, promotion::Approval, reference::LocalReference};
use planner::{
    Timestamp,
    hook::{ApprovalSignature, SignatureRefusal, approved_by, awaiting_approval, report_secret},
};

use crate::drawing::draw;

fn described(promotions: &[&Promotion]) -> String {
    let texts = promotions.iter().map(|it| {
        let spec = &it.spec;
        format!("{} {} {}", spec.pipeline, spec.environment, spec.revision)
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[test]
fn an_approval_is_for_one_pipeline_one_environment_and_one_revision() {
    let mut world = draw(
        "dev[2.0.0 ok] > qa{manual}[1.0.0 ok] > prod{manual}[1.0.0 ok]
         promotion qa 2.0.0 AwaitingApproval
         promotion prod 1.9.0 AwaitingApproval
         promotion prod 2.0.0 AwaitingApproval
         promotion prod 2.0.0 Running #1",
    );
    let mut other = world.promotions[2].clone();
    other.spec.pipeline = "bakery".to_owned();
    world.promotions.push(other);
    for (pipeline, environment, revision, expected) in [
        ("shop", "prod", "2.0.0", "shop prod 2.0.0"),
        ("shop", "prod", "1.9.0", "shop prod 1.9.0"),
        ("shop", "qa", "2.0.0", "shop qa 2.0.0"),
        ("bakery", "prod", "2.0.0", "bakery prod 2.0.0"),
        ("bakery", "qa", "2.0.0", ""),
        ("shop", "qa", "1.9.0", ""),
        ("shop", "prod", "3.0.0", ""),
    ] {
        let waiting = awaiting_approval(&world.promotions, pipeline, environment, revision);
        assert_eq!(described(&waiting), expected, "{pipeline} {environment}");
    }
}

/// What a signature approves that was made this much after the first of two promotions was created; the second
/// was created a second later.
fn approved(after: i64, used: Option<&str>) -> Result<String, SignatureRefusal> {
    let mut world = draw(
        "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]
         promotion prod 1.0.0 Succeeded
         promotion prod 2.0.0 AwaitingApproval
         promotion prod 2.1.0 AwaitingApproval",
    );
    world.promotions[0].spec.approvals.push(Approval {
        by: "secret:key".to_owned(),
        signature: used.map(str::to_owned),
        ..Approval::default()
    });
    let all = &world.promotions;
    let created = all[1].metadata.creation_timestamp.as_ref().unwrap().0;
    let at: Timestamp = created + jiff::SignedDuration::from_millis(after);
    let digest = "sha256:abc";
    let signature = ApprovalSignature { at, digest };
    let approved = approved_by(&signature, &[&all[1], &all[2]], all)?;
    Ok(described(&approved))
}

#[test]
fn a_signature_approves_what_was_there_when_it_was_made() {
    let first = "shop prod 2.0.0".to_owned();
    let both = format!("{first}, shop prod 2.1.0");
    assert_eq!(
        approved(-1, None),
        Err(SignatureRefusal::OlderThanPromotion)
    );
    assert_eq!(approved(0, None), Ok(first.clone()));
    assert_eq!(approved(999, None), Ok(first));
    assert_eq!(approved(1000, None), Ok(both));
}

#[test]
fn a_signature_that_approved_another_promotion_approves_nothing() {
    assert_eq!(
        approved(5000, Some("sha256:abc")),
        Err(SignatureRefusal::Used)
    );
    assert!(approved(5000, Some("sha256:other")).is_ok());
    assert_eq!(
        SignatureRefusal::Used.to_string(),
        "this signature was used before; sign the call again"
    );
    assert_eq!(
        SignatureRefusal::OlderThanPromotion.to_string(),
        "the signature is older than the promotion; check the clock and sign the call again"
    );
}

#[test]
fn a_report_is_signed_with_the_key_of_its_own_environment() {
    let mut spec = draw("dev{manual}[1.0.0 ok] > prod{manual}[1.0.0 ok]")
        .pipeline
        .spec;
    for environment in &mut spec.environments {
        let name = format!("of-{}", environment.name);
        let settings = environment.promotion.as_mut().unwrap();
        settings.strategy.secret_ref = Some(LocalReference { name });
    }
    let found = |spec: &PipelineSpec, name| report_secret(spec, name).map(|it| it.name.to_owned());
    assert_eq!(found(&spec, "dev").as_deref(), Some("of-prod"));
    assert_eq!(found(&spec, "prod").as_deref(), Some("of-prod"));
    assert_eq!(found(&spec, "gone"), None);
    spec.environments[1].promotion = None;
    assert_eq!(found(&spec, "dev").as_deref(), Some("of-dev"));
    assert_eq!(found(&spec, "prod"), None);
}
