//! What is sent, byte for byte.

use std::collections::BTreeMap;

use api::{
    Pipeline, Promotion,
    pipeline::{AppReference, PipelineSpec},
    promotion::{PromotionSpec, PromotionTarget},
};

use super::*;

#[test]
fn the_message_is_the_same_however_often_it_is_made() {
    let app = AppReference {
        api_version: "helm.toolkit.fluxcd.io/v2".to_owned(),
        kind: "HelmRelease".to_owned(),
        name: "shop".to_owned(),
    };
    let spec = PipelineSpec {
        app_ref: Some(app),
        ..PipelineSpec::default()
    };
    let mut pipeline = Pipeline::new("shop", spec);
    pipeline.metadata.namespace = Some("team".to_owned());
    let target = PromotionTarget {
        cluster: Some("eu".to_owned()),
        cluster_namespace: None,
        namespace: "live".to_owned(),
    };
    let mut promotion = Promotion::new(
        "shop-prod-1",
        PromotionSpec {
            environment: "prod".to_owned(),
            target: Some(target),
            revision: "1.1.0".to_owned(),
            version: "1.1.0".to_owned(),
            ..PromotionSpec::default()
        },
    );
    promotion.metadata.uid = Some("u-1".to_owned());
    let task = PromotionTask::new(&pipeline, &promotion);
    let text =
        || serde_json::to_string(&WebhookBody::of(&PromotionDescription::of(task))).expect("JSON");
    assert_eq!(
        text(),
        "{\"id\":\"u-1\",\"promotion\":\"shop-prod-1\",\"namespace\":\"team\",\
         \"pipeline\":\"shop\",\"environment\":\"prod\",\
         \"target\":{\"cluster\":\"eu\",\"namespace\":\"live\"},\
         \"app\":{\"apiVersion\":\"helm.toolkit.fluxcd.io/v2\",\"kind\":\"HelmRelease\",\
         \"name\":\"shop\"},\"revision\":\"1.1.0\",\"version\":\"1.1.0\"}"
    );
    assert_eq!(text(), text());
}

/// The example of RFC 4231, case 2.
#[test]
fn signatures_are_those_of_the_standard() {
    let secret = SecretContents {
        version: String::new(),
        entries: BTreeMap::from([("token".to_owned(), b"Jefe".to_vec())]),
        host: None,
    };
    let signed = signature(&secret, b"what do ya want for nothing?").expect("a signature");
    assert_eq!(
        signed,
        "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
}

#[test]
fn addresses_that_cannot_be_called_are_not_repeated() {
    for text in [
        "",
        "ci.example",
        "ftp://ci.example/hunter22",
        "https://joe:hunter22@ci.example/",
        "file:///hunter22",
        r"https://127.0.0.2\@127.0.0.1:29443/hunter22",
        "https://ci%2eexample/hunter22",
    ] {
        let failure = parse(text).expect_err(text);
        assert!(!failure.message.contains("hunter22"), "{failure:?}");
    }
}
