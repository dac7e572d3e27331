use serde_json::{Value, json};

use super::*;

const OLD: &str = "main@sha1:1111111111111111111111111111111111111111";
const NEW: &str = "main@sha1:2222222222222222222222222222222222222222";

fn pipeline() -> Pipeline {
    let target = |revision: &str, image: &str| {
        json!({"targets": [{
            "ready": true, "revision": revision, "namespace": "shop",
            "readySince": "2026-11-15T08:00:00Z",
            "apps": [{"images": [format!("ghcr.io/shop:{image}"), "redis:7"]}],
        }]})
    };
    serde_json::from_value(json!({
        "metadata": {"name": "shop", "namespace": "team"},
        "spec": {
            "environments": [
                {"name": "dev", "targets": [{"namespace": "shop"}]},
                {"name": "prod", "targets": [{"namespace": "shop"}]},
            ],
            "promotion": {"strategy": {"notification": {}}, "soak": "1h"},
        },
        "status": {"environments": {"dev": target(NEW, "2"), "prod": target(OLD, "1")}},
    }))
    .expect("a pipeline")
}

fn promotion(status: Value) -> Promotion {
    let spec = json!({
        "pipeline": "shop", "environment": "prod", "revision": NEW, "version": NEW,
        "replaces": OLD,
    });
    let promotion = json!({
        "metadata": {"name": "shop-prod-1", "namespace": "team"},
        "spec": spec, "status": status,
    });
    serde_json::from_value(promotion).expect("a promotion")
}

#[test]
fn before_a_promotion_starts_the_source_environment_says_what_comes() {
    let diffs = promotion_diff(&pipeline(), "prod", &[]);
    assert_eq!(diffs.len(), 1, "one revision comes next");
    let diff = &diffs[0];
    assert_eq!((diff.from.as_deref(), diff.to.as_str()), (Some(OLD), NEW));
    let image = ImageDiff {
        name: "ghcr.io/shop".to_owned(),
        from: vec!["1".to_owned()],
        to: vec!["2".to_owned()],
    };
    assert_eq!(diff.images, [image]);
    let commits = diff.commits.clone().expect("commits");
    assert!(commits.from.starts_with("111") && commits.to.starts_with("222"));
    let soak = diff.soak.clone().expect("a soak");
    let until = soak.until.map(|at| at.0.to_string());
    assert_eq!(until.as_deref(), Some("2026-11-15T09:00:00Z"));
    assert!(diff.digest.is_none() && diff.note.is_some());
    assert_eq!(promotion_diff(&pipeline(), "dev", &[]), []);
    let mut held = pipeline();
    let status = held.status.get_or_insert_default();
    let prod = status.environments.entry("prod".to_owned()).or_default();
    prod.hold =
        serde_json::from_value(json!({"reason": "OlderThanRunning", "message": "it is older"}))
            .unwrap();
    let note = promotion_diff(&held, "prod", &[])[0].note.clone();
    let told = "no promotion has started (it is older); its edits are known once it has";
    assert_eq!(note.as_deref(), Some(told));
}

#[test]
fn a_promotion_under_way_says_what_it_changes() {
    let edit = json!({"file": "prod.yaml", "path": "tag", "old": "1", "new": "2"});
    let change = json!({"digest": "sha256:0", "edits": [edit], "moreEdits": 3});
    let waiting = promotion(json!({"phase": "AwaitingApproval", "change": change}));
    let diffs = promotion_diff(&pipeline(), "prod", std::slice::from_ref(&waiting));
    assert_eq!(diffs.len(), 1);
    assert_eq!(diffs[0].digest.as_deref(), Some("sha256:0"));
    assert_eq!((diffs[0].edits.len(), diffs[0].more_edits), (1, 3));
    assert_eq!(diffs[0].promotion.as_deref(), Some("shop-prod-1"));
    let unread = json!({"phase": "AwaitingApproval", "message": "cannot read it"});
    let diffs = promotion_diff(&pipeline(), "prod", &[promotion(unread)]);
    assert_eq!(diffs[0].note.as_deref(), Some("cannot read it"));
    // What ended brings nothing.
    let ended = promotion(json!({"phase": "Superseded"}));
    assert_eq!(
        promotion_diff(&pipeline(), "prod", &[ended])[0].promotion,
        None
    );
}

/// A pipeline dev > prod whose targets run these revisions, each with its version.
fn versions(dev: &Value, prod: &Value) -> Pipeline {
    let mut pipeline = pipeline();
    let status = json!({"environments": {"dev": {"targets": dev}, "prod": {"targets": prod}}});
    pipeline.status = serde_json::from_value(status).expect("a status");
    pipeline
}

/// A target that has been ready at a revision since so many minutes after eight.
fn ready(revision: &str, version: &str, minute: u32) -> Value {
    json!({
        "ready": true, "revision": revision, "version": version, "namespace": "shop",
        "readySince": format!("2026-11-15T08:{minute:02}:00Z"),
    })
}

fn digest(letter: &str) -> String {
    format!("sha256:{}", letter.repeat(64))
}

/// What comes next into prod: `FROM to TO`.
fn comes(pipeline: &Pipeline) -> Vec<String> {
    let diffs = promotion_diff(pipeline, "prod", &[]).into_iter();
    let texts = diffs.map(|it| {
        assert_eq!(it.environment, "prod");
        format!("{} to {}", it.from.unwrap_or("-".to_owned()), it.to)
    });
    texts.collect()
}

#[test]
fn the_newest_ready_revision_comes_next_and_is_shown_with_its_version() {
    let (a, b, c) = (digest("a"), digest("b"), digest("c"));
    let prod = json!([ready(&a, "1.0.0", 0)]);
    let both = json!([ready(&c, "3.0.0", 9), ready(&b, "2.0.0", 5)]);
    let expected = format!(
        "{} to {}",
        shown(&a, Some("1.0.0")),
        shown(&c, Some("3.0.0"))
    );
    assert_eq!(comes(&versions(&both, &prod)), [expected]);
    // What is not ready and what runs nothing comes not.
    let mut broken = ready(&b, "2.0.0", 5);
    broken["ready"] = false.into();
    let nothing = json!({"ready": true, "namespace": "shop", "readySince": "2026-11-15T08:59:00Z"});
    let dev = json!([broken, nothing]);
    assert_eq!(comes(&versions(&dev, &prod)), [""; 0]);
    let dev = json!([ready(&b, "2.0.0", 5), broken, nothing]);
    let expected = format!(
        "{} to {}",
        shown(&a, Some("1.0.0")),
        shown(&b, Some("2.0.0"))
    );
    assert_eq!(comes(&versions(&dev, &prod)), [expected]);
}

#[test]
fn what_the_source_proposes_comes_into_the_first_environment() {
    let mut pipeline = versions(&json!([]), &json!([ready("1.0.0", "1.0.0", 0)]));
    pipeline.spec.environments.remove(0);
    let status = pipeline.status.get_or_insert_default();
    let found = digest("b");
    let proposal = json!({"revision": found, "version": "2.0.0"});
    status.proposal = serde_json::from_value(proposal).expect("a proposal");
    let expected = format!("1.0.0 to {}", shown(&found, Some("2.0.0")));
    assert_eq!(comes(&pipeline), [expected]);
}

#[test]
fn the_soak_is_that_of_the_promoted_revision() {
    let mut broken = ready("2.0.0", "2.0.0", 30);
    broken["ready"] = false.into();
    let dev = json!([
        ready("2.0.0", "2.0.0", 5),
        ready("1.0.0", "1.0.0", 50),
        broken
    ]);
    let pipeline = versions(&dev, &json!([ready("1.0.0", "1.0.0", 0)]));
    let mut promotion = promotion(json!({"phase": "Running"}));
    promotion.spec.revision = "2.0.0".to_owned();
    let diffs = promotion_diff(&pipeline, "prod", &[promotion]);
    let since = diffs[0].soak.clone().expect("a soak").since;
    assert_eq!(since.0.to_string(), "2026-11-15T08:05:00Z");
}

#[test]
fn promotions_of_this_environment_are_shown_with_their_target() {
    let mut here = promotion(json!({"phase": "Running"}));
    here.spec.target = serde_json::from_value(json!({"cluster": "eu", "namespace": "shop"})).ok();
    let mut hub = promotion(json!({"phase": "WaitingForMerge"}));
    hub.metadata.name = Some("shop-prod-2".to_owned());
    hub.spec.target = serde_json::from_value(json!({"namespace": "shop"})).ok();
    let mut elsewhere = here.clone();
    elsewhere.spec.environment = "dev".to_owned();
    let mut other = here.clone();
    other.spec.pipeline = "bakery".to_owned();
    let diffs = promotion_diff(&pipeline(), "prod", &[here, hub, elsewhere, other]);
    let shown = diffs.iter().map(|it| {
        let target = it.target.as_deref().unwrap_or("-");
        format!("{} {target} {:?}", it.environment, it.phase)
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "prod eu/shop Some(Running)",
            "prod shop Some(WaitingForMerge)"
        ]
    );
}

#[test]
fn commits_are_those_of_the_artifacts() {
    let with = |revision: &str, commit: &str| {
        let mut target = ready(revision, revision, 0);
        target["apps"] = json!([{"sourceCommit": commit}]);
        json!([target])
    };
    let mut pipeline = versions(&with("2.0.0", "bbb"), &with("1.0.0", "aaa"));
    let diff = promotion_diff(&pipeline, "prod", &[]).remove(0);
    let commits = diff.commits.expect("commits");
    assert_eq!((commits.from.as_str(), commits.to.as_str()), ("aaa", "bbb"));
    // Git knows more than the status.
    let told = json!({"from": "ccc", "to": "ddd"});
    let change = json!({"digest": "sha256:0", "edits": [], "commits": told});
    let waiting = promotion(json!({"phase": "AwaitingApproval", "change": change}));
    let diff = promotion_diff(&pipeline, "prod", &[waiting]).remove(0);
    let commits = diff.commits.expect("commits");
    assert_eq!((commits.from.as_str(), commits.to.as_str()), ("ccc", "ddd"));
    // A new promotion names them where somebody wants to read them.
    let spec = PromotionSpec {
        revision: "2.0.0".to_owned(),
        replaces: Some("1.0.0".to_owned()),
        ..PromotionSpec::default()
    };
    let model = pipeline.status.clone().expect("a status");
    assert_eq!(source_range_of_new(&pipeline, &model, &spec), None);
    let changelog = json!({"url": "https://forge.example.com/shop"});
    pipeline.spec.changelog = serde_json::from_value(changelog).ok();
    let range = source_range_of_new(&pipeline, &model, &spec).expect("a range");
    assert_eq!((range.from.as_str(), range.to.as_str()), ("aaa", "bbb"));
}
