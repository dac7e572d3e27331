//! What is kept of each target and each app besides its revision.

use api::{
    Pipeline, Revision, Time,
    app::AppReading,
    pipeline::{
        AppReference, CanaryState, DesiredRevision, Evidence, FailedRelease, Source, SourceKind,
        TargetStatus, Track,
    },
};
use planner::{ObservedApp, ObservedPipeline, ObservedSource, RELEASE_REPORT, TargetState, fold};

use crate::{
    fold::{minute, pipeline, seen, statuses},
    reports::report,
};

/// An app that is ready at a revision with a version.
fn app(name: &str, revision: &str, version: &str) -> ObservedApp {
    ObservedApp {
        api_version: "helm.toolkit.fluxcd.io/v2".to_owned(),
        kind: "HelmRelease".to_owned(),
        name: name.to_owned(),
        reading: AppReading {
            revision: Revision::new(revision),
            version: Some(version.to_owned()),
            ready: true,
            ..AppReading::default()
        },
        ..ObservedApp::default()
    }
}

fn look(apps: Vec<ObservedApp>) -> ObservedPipeline {
    let mut seen = seen("none", false);
    seen.environments[0].targets[0].state = TargetState::Observed(apps);
    seen
}

/// The target after the last of these looks, a minute apart.
fn last(pipeline: &mut Pipeline, looks: &[ObservedPipeline]) -> TargetStatus {
    let status = statuses(pipeline, looks).pop().unwrap();
    status.environments["dev"].targets[0].clone()
}

fn digest(letter: &str) -> String {
    format!("sha256:{}", letter.repeat(64))
}

#[test]
fn what_an_app_follows_and_what_clusters_were_told_is_kept() {
    let mut pipeline = pipeline();
    let follows = Some("oci://registry.example/shop (tag prod)".to_owned());
    let followed = ObservedApp {
        follows: follows.clone(),
        ..app("shop", "v1", "v1")
    };
    assert_eq!(
        last(&mut pipeline, &[look(vec![followed])]).follows,
        follows
    );
    let desired = Some(DesiredRevision {
        revision: "v1".to_owned(),
        ..DesiredRevision::default()
    });
    let status = pipeline.status.as_mut().unwrap();
    let dev = status.environments.get_mut("dev").unwrap();
    dev.targets[0].desired = desired.clone();
    for state in ["v2 ok", "unreachable", "missing"] {
        let target = last(&mut pipeline, &[seen(state, false)]);
        assert_eq!(target.desired, desired, "{state}");
    }
}

#[test]
fn a_target_that_cannot_be_read_is_that_of_the_app_that_is_promoted_now() {
    let mut pipeline = pipeline();
    last(&mut pipeline, &[seen("v1 ok", false)]);
    let status = pipeline.status.as_mut().unwrap();
    let dev = status.environments.get_mut("dev").unwrap();
    dev.targets[0].source = Some(Evidence::Report);
    pipeline.spec.app_ref.as_mut().unwrap().name = "web".to_owned();
    let target = last(&mut pipeline, &[seen("unreachable", false)]);
    assert_eq!(target.revision.as_deref(), Some("v1"));
    assert_eq!(target.cluster_app_ref.unwrap().name, "web");
    assert_eq!(target.source, Some(Evidence::Watch));
}

#[test]
fn a_target_that_was_known_cannot_be_read_since_now() {
    let mut pipeline = pipeline();
    pipeline.metadata.creation_timestamp = Some(Time(minute(-100)));
    // Until somebody lets Sluice read it, only reports counted.
    let looks = [
        seen("v1 ok", false),
        seen("unreachable", true),
        seen("unreachable", false),
    ];
    let target = last(&mut pipeline, &looks);
    assert_eq!(target.unreadable_since, Some(Time(minute(2))));
}

#[test]
fn an_app_without_a_name_is_one_of_the_pipeline() {
    let mut pipeline = pipeline();
    pipeline.spec.app_ref = None;
    let target = last(&mut pipeline, &[seen("none", false)]);
    let expected = "no app of this pipeline found in namespace shop";
    assert_eq!(target.error.as_deref(), Some(expected));
}

#[test]
fn a_version_says_more_than_a_moving_tag() {
    let (a, b) = (digest("a"), digest("b"));
    for (before, now, expected) in [
        ((a.as_str(), "1.2.0"), (a.as_str(), "latest"), "1.2.0"),
        ((&a, "latest"), (&a, "1.2.0"), "1.2.0"),
        ((&a, "1.2.0"), (&a, "1.3.0"), "1.3.0"),
        // It is another artifact.
        ((&a, "1.2.0"), (&b, "latest"), "latest"),
        // It is no artifact.
        (("main", "one"), ("main", "two"), "two"),
    ] {
        let mut pipeline = pipeline();
        let looks =
            [before, now].map(|(revision, version)| look(vec![app("shop", revision, version)]));
        let target = last(&mut pipeline, &looks);
        assert_eq!(
            target.version.as_deref(),
            Some(expected),
            "{before:?} {now:?}"
        );
    }
}

#[test]
fn the_digest_of_several_apps_is_the_one_they_share() {
    let with = |name: &str, letter: &str| {
        let mut app = app(name, "1.0.0", "1.0.0");
        app.reading.digest = Some(digest(letter));
        app
    };
    let digest_of = |apps| last(&mut pipeline(), &[look(apps)]).digest;
    assert_eq!(
        digest_of(vec![with("one", "a"), with("other", "a")]),
        Some(digest("a"))
    );
    assert_eq!(digest_of(vec![with("one", "a"), with("other", "b")]), None);
}

#[test]
fn a_target_is_signed_when_all_its_apps_are() {
    let signed = |all: &[Option<bool>]| {
        let apps = all.iter().enumerate().map(|(index, signed)| ObservedApp {
            signed: *signed,
            ..app(&format!("shop-{index}"), "1.0.0", "1.0.0")
        });
        last(&mut pipeline(), &[look(apps.collect())]).signed
    };
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(signed(&[yes, yes]), yes);
    assert_eq!(signed(&[yes, no]), no);
    assert_eq!(signed(&[no, yes]), no);
    assert_eq!(signed(&[yes, None]), None);
    assert_eq!(signed(&[]), None);
}

#[test]
fn what_was_verified_stays_so_while_it_is_the_same_artifact() {
    let with = |letter: &str, signed: Option<bool>| {
        let mut app = ObservedApp {
            signed,
            ..app("shop", "1.0.0", "1.0.0")
        };
        app.reading.digest = Some(digest(letter));
        look(vec![app])
    };
    let yes = Some(true);
    for (looks, expected) in [
        (vec![with("a", yes)], true),
        (vec![with("a", yes), with("a", None)], true),
        (vec![with("a", yes), with("b", None)], false),
        (vec![with("a", yes), with("a", Some(false))], false),
    ] {
        let status = statuses(&mut pipeline(), &looks).pop().unwrap();
        let ran = &status.environments["dev"].ran[0];
        assert_eq!(ran.signed, expected, "{looks:?}");
    }
}

/// What is read once of an app is not taken for that of another one.
#[test]
fn apps_keep_their_own_images() {
    let apps = |images: bool| {
        let all = [
            ("helm.toolkit.fluxcd.io/v2", "HelmRelease", "one"),
            ("helm.toolkit.fluxcd.io/v2", "HelmRelease", "other"),
            ("helm.toolkit.fluxcd.io/v2", "Chart", "one"),
            ("example.com/v1", "HelmRelease", "one"),
        ];
        let all = all
            .into_iter()
            .map(|(api_version, kind, name)| ObservedApp {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                images: images.then(|| vec![format!("{api_version} {kind} {name}")]),
                note: images.then(|| format!("of {kind} {name}")),
                ..app(name, "v1", "v1")
            });
        look(all.collect())
    };
    let target = last(&mut pipeline(), &[apps(true), apps(false)]);
    assert_eq!(target.apps.len(), 4);
    for app in target.apps {
        let images = [format!("{} {} {}", app.api_version, app.kind, app.name)];
        assert_eq!(app.images, images);
        assert_eq!(app.note, Some(format!("of {} {}", app.kind, app.name)));
    }
}

#[test]
fn an_app_says_what_is_wrong_only_while_it_is_not_ready() {
    let with = |ready: bool, commit: &str| {
        let mut app = app("shop", "v1", "v1");
        app.reading.ready = ready;
        app.reading.message = Some("waiting for 1 pod".to_owned());
        app.reading.source_commit = Some(commit.to_owned());
        last(&mut pipeline(), &[look(vec![app])]).apps.remove(0)
    };
    let (commit, longer) = ("a".repeat(64), "a".repeat(65));
    assert_eq!(with(true, &commit).message, None);
    assert_eq!(
        with(false, &commit).message.as_deref(),
        Some("waiting for 1 pod")
    );
    assert_eq!(with(true, &commit).source_commit, Some(commit));
    assert_eq!(with(true, &longer).source_commit, None);
}

#[test]
fn a_tag_that_two_apps_have_stands_for_the_digest_they_share() {
    let revision = |letters: [&str; 2]| {
        let mut seen = seen("none,none,v1 ok", false);
        let targets = &mut seen.environments[0].targets;
        for (target, letter) in targets.iter_mut().zip(letters) {
            target.state = TargetState::Observed(vec![app("shop", &digest(letter), "v1")]);
        }
        let status = statuses(&mut pipeline(), &[seen]).pop().unwrap();
        status.environments["dev"].targets[2].revision.clone()
    };
    assert_eq!(revision(["a", "a"]), Some(digest("a")));
    assert_eq!(revision(["a", "b"]).as_deref(), Some("v1"));
}

#[test]
fn a_report_changes_nothing_but_what_it_tells() {
    let known = TargetStatus {
        follows: Some("a branch".to_owned()),
        version: Some("1.0.0-known".to_owned()),
        revision: Some("1.0.0".to_owned()),
        ..TargetStatus::default()
    };
    let told = |reason: &str, promoted: Option<&str>| {
        let mut pipeline = pipeline();
        let before = last(&mut pipeline, &[seen("1.0.0 ok", true)]);
        let status = pipeline.status.as_mut().unwrap();
        let dev = status.environments.get_mut("dev").unwrap();
        dev.targets[0] = TargetStatus {
            follows: known.follows.clone(),
            version: known.version.clone(),
            ..before
        };
        dev.targets[0].apps[0].canary = promoted.map(|revision| CanaryState {
            promoted: Some(revision.to_owned()),
            ..CanaryState::default()
        });
        let mut report = report("2.0.0", minute(5));
        report.reason = Some(reason.to_owned());
        status.reports.insert("dev/-/shop".to_owned(), report);
        let target = last(&mut pipeline, &[seen("not watched", true)]);
        assert_eq!(target.follows, known.follows, "{reason}");
        let text = |text: Option<String>| text.unwrap_or("-".to_owned());
        format!(
            "{} {} {} {}",
            text(target.revision),
            text(target.version),
            target.ready,
            text(target.error)
        )
    };
    assert_eq!(told("UpgradeSucceeded", None), "2.0.0 2.0.0 true -");
    assert_eq!(
        told("UpgradeSucceeded", Some("2.0.0")),
        "2.0.0 2.0.0 true -"
    );
    assert_eq!(
        told("UpgradeSucceeded", Some("1.0.0")),
        "2.0.0 2.0.0 false its Flagger Canary cannot be read while the target cannot be"
    );
    assert_eq!(told("UpgradeFailed", None), "1.0.0 1.0.0-known false -");
    assert_eq!(told("Progressing", None), "1.0.0 1.0.0-known true -");
}

#[test]
fn a_source_that_cannot_be_read_says_why() {
    let mut pipeline = pipeline();
    pipeline.spec.source = Some(Source {
        kind: SourceKind::HelmChart,
        name: Some("shop".to_owned()),
    });
    let mut look = seen("v1 ok", false);
    look.source = ObservedSource::Nothing {
        because: "no answer".to_owned(),
    };
    let proposal = fold(&pipeline, &look, minute(0)).proposal.unwrap();
    assert_eq!(proposal.error.as_deref(), Some("no answer"));
    let found = digest("a");
    look.source = ObservedSource::Proposes {
        revision: Revision::new(&found).unwrap(),
        version: "2.0.0".to_owned(),
        signed: false,
    };
    let proposal = fold(&pipeline, &look, minute(0)).proposal.unwrap();
    assert_eq!(proposal.revision, Some(found));
    assert_eq!(proposal.version.as_deref(), Some("2.0.0"));
}

/// What CI proposes is the version of a chart as it is; an image has its tag as version.
#[test]
fn a_proposed_revision_is_read_as_apps_of_its_kind_have_it() {
    let found = digest("a");
    let helm = ("helm.toolkit.fluxcd.io/v2", "HelmRelease");
    let kustomization = ("kustomize.toolkit.fluxcd.io/v1", "Kustomization");
    let pinned = format!("2.0.0@{found}");
    for ((api_version, kind), text, revision, version) in [
        (helm, "2.0.0", "2.0.0", None),
        (helm, "2.0.0+abcdef012345", "2.0.0+abcdef012345", None),
        (
            kustomization,
            pinned.as_str(),
            found.as_str(),
            Some("2.0.0"),
        ),
    ] {
        let mut pipeline = pipeline();
        pipeline.spec.app_ref = Some(AppReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: "shop".to_owned(),
        });
        pipeline.spec.track = (kind == "Kustomization").then(|| Track {
            image: "ghcr.io/shop".to_owned(),
        });
        pipeline.spec.source = Some(Source {
            kind: SourceKind::Hook,
            name: None,
        });
        let status = pipeline.status.get_or_insert_default();
        let proposed = report(text, minute(0));
        status.reports.insert(RELEASE_REPORT.to_owned(), proposed);
        let proposal = fold(&pipeline, &seen("v1 ok", false), minute(1)).proposal;
        let proposal = proposal.unwrap();
        assert_eq!(proposal.revision.as_deref(), Some(revision), "{text}");
        assert_eq!(proposal.version.as_deref(), version, "{text}");
    }
}

#[test]
fn a_revision_has_left_when_another_one_runs() {
    let left = |looks: &[&str]| {
        let looks: Vec<_> = looks.iter().map(|text| seen(text, false)).collect();
        let status = statuses(&mut pipeline(), &looks).pop().unwrap();
        let ran = &status.environments["dev"].ran;
        let first = ran.iter().find(|it| it.revision == "v1").unwrap();
        first.left_at.clone()
    };
    assert_eq!(left(&["v1 ok", "v2 ok"]), Some(Time(minute(1))));
    assert_eq!(
        left(&["v1 ok", "missing"]),
        None,
        "nobody knows that it left"
    );
}

/// A status holds twenty revisions; the API server refuses more.
#[test]
fn a_target_that_never_moves_does_not_make_the_list_longer() {
    let looks: Vec<_> = (0..25)
        .map(|number| seen(&format!("old ok,{number} ok"), false))
        .collect();
    let status = statuses(&mut pipeline(), &looks).pop().unwrap();
    let ran: Vec<_> = status.environments["dev"].ran_revisions().collect();
    assert_eq!((ran.len(), ran[0], ran[19]), (20, "24", "5"));
}

/// A cluster in the namespace of the pipeline has no other name in reports.
#[test]
fn a_report_is_found_for_a_cluster_of_the_own_namespace() {
    let mut seen = seen("not watched,not watched", true);
    let cluster = seen.environments[0].targets[1].cluster.as_mut().unwrap();
    cluster.namespace = Some("default".to_owned());
    let mut pipeline = pipeline();
    let status = pipeline.status.get_or_insert_default();
    let told = report("2.0.0", minute(0));
    status.reports.insert("dev/c1/shop".to_owned(), told);
    let status = statuses(&mut pipeline, &[seen]).pop().unwrap();
    let revisions = status.environments["dev"]
        .targets
        .iter()
        .map(|it| it.revision.as_deref());
    assert_eq!(revisions.collect::<Vec<_>>(), [None, Some("2.0.0")]);
}

#[test]
fn targets_in_another_order_have_begun_nothing() {
    let mut swapped = seen("1.0.0 ok,2.0.0 ok", false);
    swapped.environments[0].targets.reverse();
    let looks = [
        seen("2.0.0 ok,2.0.0 ok", false),
        seen("1.0.0 ok,2.0.0 ok", false),
        swapped,
    ];
    let status = statuses(&mut pipeline(), &looks).pop().unwrap();
    let ran: Vec<_> = status.environments["dev"].ran_revisions().collect();
    assert_eq!(ran, ["1.0.0", "2.0.0"]);
}

/// A release that failed before failures were remembered is added; one that dropped out of the full
/// list is not.
#[test]
fn a_release_that_keeps_failing_is_remembered_once() {
    let with = |known: usize| {
        let mut pipeline = pipeline();
        last(&mut pipeline, &[seen("v1 failed v2", false)]);
        let status = pipeline.status.as_mut().unwrap();
        let failures = &mut status.environments.get_mut("dev").unwrap().failures;
        assert_eq!(failures[0].revision, "v2");
        *failures = (0..known)
            .map(|number| FailedRelease {
                revision: format!("other-{number}"),
                ..FailedRelease::default()
            })
            .collect();
        let after = fold(&pipeline, &seen("v1 failed v2", false), minute(5));
        let failures = &after.environments["dev"].failures;
        failures.iter().filter(|it| it.revision == "v2").count()
    };
    assert_eq!((with(0), with(19), with(20)), (1, 1, 0));
}
