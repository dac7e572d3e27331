//! A Pipeline of the first proposal's group and its copy in ours.

use api::{Pipeline, WegoPipeline, names::ADOPTED_ANNOTATION};
use planner::{Adoption, adopt};
use serde_json::{Value, json};

use crate::drawing::now;

const REQUEST: &str = "pipelines.weave.works/request";

/// `suspended`, `suspended prod`, `asks TEXT`, each after a comma.
fn spec(said: &str) -> (Value, Value) {
    let mut spec = json!({"environments": [
        {"name": "dev", "targets": [{"namespace": "dev"}]},
        {"name": "prod", "targets": [{"namespace": "prod"}]},
    ]});
    let mut annotations = json!({"others": "stay"});
    for word in said.split(", ").filter(|word| !word.is_empty()) {
        match word.split_once(' ') {
            None => spec["suspend"] = json!(true),
            Some(("suspended", _)) => spec["environments"][1]["suspend"] = json!(true),
            Some((_, text)) => annotations[REQUEST] = json!(text),
        }
    }
    (spec, annotations)
}

fn original(said: &str) -> WegoPipeline {
    let (spec, annotations) = spec(said);
    let metadata = json!({
        "name": "shop", "namespace": "team", "uid": "u-1", "generation": 7,
        "annotations": annotations,
        "labels": {"tier": "web", "kustomize.toolkit.fluxcd.io/name": "apps"},
    });
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// The copy after both were equal and said one thing, and now says another.
fn copy(equal: &str, now_says: &str) -> Pipeline {
    let created = adopt(&original(equal), None, now()).copy.unwrap();
    let (spec, annotations) = spec(now_says);
    let mut copy = Pipeline {
        spec: serde_json::from_value(spec).unwrap(),
        ..created
    };
    let known = copy.metadata.annotations.as_mut().unwrap();
    known.remove(REQUEST);
    if let Some(request) = annotations[REQUEST].as_str() {
        known.insert(REQUEST.to_owned(), request.to_owned());
    }
    copy.metadata.generation = Some(3);
    copy
}

fn says(suspend: bool, prod: bool, request: Option<&str>) -> String {
    let mut words = Vec::new();
    words.extend(suspend.then_some("suspended".to_owned()));
    words.extend(prod.then_some("suspended prod".to_owned()));
    words.extend(request.map(|text| format!("asks {text}")));
    words.join(", ")
}

/// What the copy is to say.
fn copy_says(adoption: &Adoption) -> Option<String> {
    let copy = adoption.copy.as_ref()?;
    let prod = &copy.spec.environments[1];
    let annotations = copy.metadata.annotations.as_ref().unwrap();
    let request = annotations.get(REQUEST).map(String::as_str);
    Some(says(copy.spec.suspend, prod.suspend, request))
}

/// What the original is to say.
fn original_says(adoption: &Adoption) -> Option<String> {
    let edits = adoption.edits.as_ref()?;
    let prod = edits.suspended.contains("prod");
    Some(says(edits.suspend, prod, edits.request.as_deref()))
}

#[test]
fn a_copy_is_made_with_its_owner() {
    let adoption = adopt(&original("suspended"), None, now());
    assert_eq!(adoption.edits, None);
    let copy = adoption.copy.unwrap();
    assert_eq!(copy.spec, original("suspended").spec.pipeline);
    let metadata = copy.metadata;
    assert_eq!(
        (metadata.name.as_deref(), metadata.namespace.as_deref()),
        (Some("shop"), Some("team"))
    );
    let owners = metadata.owner_references.unwrap();
    let owner = (owners[0].uid.as_str(), owners[0].controller, owners.len());
    assert_eq!(owner, ("u-1", Some(true), 1));
    let labels = metadata.labels.unwrap();
    assert_eq!(
        json!(labels),
        json!({"tier": "web", "pipelines.weave.works/adopted-from": "pipelines.wego.weave.works"}),
        "what Flux finds its objects by is not copied"
    );
    assert_eq!(copy.status, None);
}

/// An environment that somebody removed from the copy comes back as suspended as it was.
#[test]
fn a_copy_that_lacks_an_environment_says_nothing_about_it() {
    let mut copy = copy("suspended prod", "suspended prod");
    copy.spec.environments.truncate(1);
    let adoption = adopt(&original("suspended prod"), Some(&copy), now());
    assert_eq!(original_says(&adoption), None);
    assert_eq!(copy_says(&adoption).as_deref(), Some("suspended prod"));
}

#[test]
fn whichever_of_the_two_changed_decides() {
    for (equal, original_now, copy_now, expected_original, expected_copy) in [
        ("", "", "", None, None),
        ("suspended", "suspended", "suspended", None, None),
        ("", "suspended", "", None, Some("suspended")),
        ("suspended", "", "suspended", None, Some("")),
        ("", "", "suspended", Some("suspended"), Some("suspended")),
        ("suspended", "suspended", "", Some(""), Some("")),
        ("", "suspended", "suspended", None, Some("suspended")),
        (
            "",
            "",
            "suspended prod",
            Some("suspended prod"),
            Some("suspended prod"),
        ),
        ("", "suspended prod", "", None, Some("suspended prod")),
        (
            "",
            "suspended",
            "suspended prod",
            Some("suspended, suspended prod"),
            Some("suspended, suspended prod"),
        ),
        ("", "", "asks 1", Some("asks 1"), Some("asks 1")),
        ("asks 1", "asks 1", "asks 2", Some("asks 2"), Some("asks 2")),
        ("asks 1", "asks 3", "asks 2", None, Some("asks 3")),
        ("asks 1", "", "asks 1", None, Some("")),
    ] {
        let original = original(original_now);
        let adoption = adopt(&original, Some(&copy(equal, copy_now)), now());
        let found = (original_says(&adoption), copy_says(&adoption));
        let expected = (
            expected_original.map(str::to_owned),
            expected_copy.map(str::to_owned),
        );
        assert_eq!(
            found, expected,
            "{equal:?}: {original_now:?} and {copy_now:?}"
        );
        // Once all that is written, nothing is left to do.
        if let Some(written) = adoption.copy {
            let original = match adoption.edits {
                Some(_) => self::original(&copy_says_text(&written)),
                None => original,
            };
            let again = adopt(&original, Some(&written), now());
            assert_eq!((again.edits, again.copy), (None, None), "{equal:?}");
        }
    }
}

fn copy_says_text(copy: &Pipeline) -> String {
    let annotations = copy.metadata.annotations.as_ref().unwrap();
    let request = annotations.get(REQUEST).map(String::as_str);
    says(
        copy.spec.suspend,
        copy.spec.environments[1].suspend,
        request,
    )
}

#[test]
fn without_the_memory_the_original_decides() {
    for memory in [None, Some("{"), Some(r#"{"x": 1}"#)] {
        let mut copy = copy("", "suspended");
        let annotations = copy.metadata.annotations.as_mut().unwrap();
        annotations.remove(ADOPTED_ANNOTATION);
        annotations.extend(memory.map(|it| (ADOPTED_ANNOTATION.to_owned(), it.to_owned())));
        let adoption = adopt(&original(""), Some(&copy), now());
        // It differs from the copy, which is all that is known to have been said before.
        assert_eq!(original_says(&adoption), None, "{memory:?}");
        assert_eq!(copy_says(&adoption).as_deref(), Some(""), "{memory:?}");
    }
}

#[test]
fn an_edit_of_the_copy_is_undone() {
    let mut copy = copy("", "");
    copy.spec.environments.truncate(1);
    copy.metadata.labels.as_mut().unwrap().clear();
    let adoption = adopt(&original(""), Some(&copy), now());
    assert_eq!(adoption.edits, None);
    assert_eq!(adoption.copy.unwrap().spec, original("").spec.pipeline);
}

#[test]
fn an_environment_that_the_original_lost_is_not_waited_for() {
    let mut original = original("");
    original.spec.pipeline.environments.truncate(1);
    let adoption = adopt(&original, Some(&copy("", "suspended prod")), now());
    assert_eq!(adoption.edits, None);
    assert_eq!(adoption.copy.unwrap().spec, original.spec.pipeline);
}

#[test]
fn somebody_elses_pipeline_is_left_alone_and_named() {
    let mut foreign = copy("", "suspended");
    for owners in [None, Some("u-2")] {
        foreign.metadata.owner_references = owners.map(|uid| {
            let mut owners = copy("", "").metadata.owner_references.unwrap();
            owners[0].uid = uid.to_owned();
            owners
        });
        let adoption = adopt(&original(""), Some(&foreign), now());
        assert_eq!((&adoption.edits, &adoption.copy), (&None, &None));
        assert!(adoption.is_name_taken());
        assert_eq!(adoption.status.observed_generation, Some(7));
        assert_eq!(
            adoption.status.conditions[0].message,
            "there is a Pipeline shop in pipelines.weave.works that was not made from this one: \
             rename or delete one of them"
        );
    }
}

#[test]
fn only_the_condition_that_names_the_other_pipeline_stays() {
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "False", "reason": "NameTaken", "message": "before",
            "lastTransitionTime": "2026-11-01T10:00:00Z",
        })
    };
    let mut original = original("");
    original.status =
        serde_json::from_value(json!({"conditions": [condition("Stalled"), condition("Ready")]}))
            .unwrap();
    let mut foreign = copy("", "");
    foreign.metadata.owner_references = None;
    let conditions = adopt(&original, Some(&foreign), now()).status.conditions;
    let found: Vec<_> = conditions
        .iter()
        .map(|it| (it.type_.as_str(), it.last_transition_time.0.to_string()))
        .collect();
    assert_eq!(found, [("Ready", "2026-11-01T10:00:00Z".to_owned())]);
    assert!(!adopt(&self::original(""), None, now()).is_name_taken());
}

#[test]
fn the_status_comes_back_and_counts_the_originals_generation() {
    let observed = |copy_observed: i64, said: &str| {
        let mut copy = copy("", said);
        copy.status = serde_json::from_value(json!({
            "observedGeneration": copy_observed, "environments": {"dev": {"ran": ["1.0.0"]}},
        }))
        .unwrap();
        let mut original = original("");
        original.status = serde_json::from_value(json!({"observedGeneration": 5})).unwrap();
        let status = adopt(&original, Some(&copy), now()).status;
        let ran: Vec<_> = status.environments["dev"].ran_revisions().collect();
        assert_eq!(ran, ["1.0.0"]);
        status.observed_generation
    };
    assert_eq!(
        observed(3, ""),
        Some(7),
        "it says the same and that was looked at"
    );
    assert_eq!(observed(2, ""), Some(5), "it was not looked at yet");
    assert_eq!(observed(3, "suspended"), Some(5), "it says something else");
}
