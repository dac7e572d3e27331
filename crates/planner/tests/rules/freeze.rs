//! Freezes: what they cover, what waits, and what passes.

use std::collections::BTreeMap;

use api::{
    Freeze, Time,
    freeze::{AllowedPromotion, FreezeSpec, FreezeTimes},
    pipeline::{CoveringFreeze, Override, RanRevision, Request, RequestKind, StoredOverride},
    promotion::{Approval, PromotionChange},
};
use planner::{ExternalAction, FreezeScope, FreezeState, covering_freezes, freeze_state};
use serde_json::json;

use crate::{
    attempt::next_of,
    drawing::{World, ago, draw, now},
};

/// A Freeze of prod that allows rollbacks.
fn freeze(name: &str) -> CoveringFreeze {
    CoveringFreeze {
        name: name.to_owned(),
        reason: "no releases".to_owned(),
        environments: vec!["prod".to_owned()],
        times: FreezeTimes {
            allow: vec![AllowedPromotion::Rollback],
            ..FreezeTimes::default()
        },
        ..CoveringFreeze::default()
    }
}

fn until(minutes: u64, mut freeze: CoveringFreeze) -> CoveringFreeze {
    let end = now() + std::time::Duration::from_secs(minutes * 60);
    freeze.times.not_after = Some(Time(end));
    freeze
}

fn frozen(drawing: &str, freezes: Vec<CoveringFreeze>) -> World {
    let mut world = draw(drawing);
    world.pipeline.status.as_mut().unwrap().freezes = freezes;
    world
}

/// What comes next for the last promotion of a drawing, during a freeze.
#[track_caller]
fn check(drawing: &str, seen: &str, freezes: Vec<CoveringFreeze>, expected: &str) {
    let next = next_of(&frozen(drawing, freezes), seen);
    let status = &next.status;
    let act = match next.action {
        ExternalAction::Nothing => String::new(),
        act => format!("{act:?} "),
    };
    let reason = status.reason.as_deref().unwrap_or_default();
    let message = status.message.as_deref().unwrap_or_default();
    let text = format!("{act}{:?}/{reason}: {message}", status.phase.unwrap());
    assert_eq!(text, expected, "{drawing}");
}

const WAITING: &str = "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Running";

#[test]
fn the_promotion_is_created_and_waits() {
    let world = frozen("dev[2.0.0 ok] > prod[1.0.0 ok]", vec![freeze("stop")]);
    let plan = world.plan();
    assert!(format!("{:?}", plan.steps).contains("StartPromotion"));
    check(
        WAITING,
        "missing",
        vec![freeze("stop")],
        "Running/Frozen: prod is frozen by stop (no releases), 2.0.0 waits; \
         resolved by deleting or editing the Freeze stop",
    );
    let both = vec![until(30, freeze("a")), until(90, freeze("b"))];
    check(
        WAITING,
        "missing",
        both.clone(),
        "Running/Frozen: prod is frozen by a (no releases) and b (no releases), 2.0.0 waits; \
         resolved by waiting until 2027-01-15T09:30:00Z",
    );
    let next = next_of(&frozen(WAITING, both), "missing");
    assert_eq!(next.requeue_at, "2027-01-15T09:30:00Z".parse().ok());
}

#[test]
fn what_needs_approval_can_be_approved_meanwhile() {
    check(
        "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]\npromotion prod 2.0.0 AwaitingApproval",
        "",
        vec![freeze("stop")],
        "AwaitingApproval/AwaitingApproval: 2.0.0 waits for approval to enter prod; \
         resolved by an approval of 2.0.0",
    );
}

#[test]
fn what_is_merged_is_followed_and_people_may_merge() {
    let open = "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge";
    check(
        open,
        "open",
        vec![freeze("stop")],
        "WaitingForMerge/Frozen: it is not merged now: prod is frozen by stop (no releases), \
         2.0.0 waits; resolved by deleting or editing the Freeze stop",
    );
    check(
        open,
        "merged",
        vec![freeze("stop")],
        "Deploying/Deploying: prod does not run 2.0.0 yet",
    );
}

#[test]
fn only_what_covers_the_site_holds_it() {
    let mut elsewhere = freeze("stop");
    elsewhere.environments = vec!["staging".to_owned()];
    let carried_out = "CarryOut Running/Running: the strategy is being carried out";
    check(WAITING, "missing", vec![elsewhere], carried_out);
    let mut over = freeze("over");
    over.times.not_after = Some(ago("1m"));
    check(WAITING, "missing", vec![over], carried_out);
    let on_clusters = |clusters: &[&str]| {
        let mut freeze = freeze("stop");
        freeze.clusters = Some(clusters.iter().map(|it| (*it).to_owned()).collect());
        vec![freeze]
    };
    let drawing = "dev[2.0.0 ok] > prod[1.0.0 ok on c1]\npromotion prod 2.0.0 Running";
    check(drawing, "missing", on_clusters(&["c2"]), carried_out);
    let next = next_of(&frozen(drawing, on_clusters(&["c2", "c1"])), "missing");
    assert_eq!(next.action, ExternalAction::Nothing);
}

#[test]
fn a_freeze_that_is_not_understood_closes_and_says_why() {
    let mut invalid = freeze("weekend");
    invalid.invalid = Some("closed[0]: \"Berlin\" is no IANA time zone".to_owned());
    check(
        WAITING,
        "missing",
        vec![invalid],
        "Running/InvalidFreeze: the Freeze weekend is not understood and counts as closed \
         (closed[0]: \"Berlin\" is no IANA time zone), 2.0.0 waits; \
         resolved by correcting or deleting the Freeze weekend",
    );
}

/// Whether a promotion of `revision` goes on while prod runs 2.0.0 and ran `ran`, newest first.
fn goes_back(
    revision: &str,
    kind: RequestKind,
    ran: &[&str],
    rejected: &[&str],
    allow: bool,
) -> bool {
    let world = going_back(revision, kind, (ran, rejected), allow);
    next_of(&world, "missing").action == ExternalAction::CarryOut
}

/// Prod runs 2.0.0 and ran `ran`, newest first; a promotion of `revision` is under way during a freeze.
fn going_back(
    revision: &str,
    kind: RequestKind,
    (ran, rejected): (&[&str], &[&str]),
    allow: bool,
) -> World {
    let drawing =
        format!("dev[3.0.0 ok] > prod[2.0.0 ok]\npromotion prod {revision} Running asked r1");
    let mut freeze = freeze("stop");
    if !allow {
        freeze.times.allow.clear();
    }
    let mut world = frozen(&drawing, vec![freeze]);
    let asked = world.promotions[0].spec.request.as_mut().unwrap();
    asked.kind = kind;
    let status = world.pipeline.status.as_mut().unwrap();
    let prod = status.environments.get_mut("prod").unwrap();
    prod.rejected = rejected.iter().map(|it| (*it).to_owned()).collect();
    let ran = ran.iter().map(|it| RanRevision {
        revision: (*it).to_owned(),
        ..RanRevision::default()
    });
    prod.ran = ran.collect();
    world
}

#[test]
fn a_rollback_passes_whatever_the_request_calls_itself() {
    let ran = ["2.0.0", "1.0.0"];
    for kind in [RequestKind::Promote, RequestKind::Rollback] {
        assert!(goes_back("1.0.0", kind, &ran, &[], true), "{kind:?}");
        assert!(!goes_back("1.0.0", kind, &ran, &[], false), "allow: []");
        assert!(
            !goes_back("1.0.0", kind, &ran, &["1.0.0"], true),
            "rejected here"
        );
        assert!(!goes_back("0.9.0", kind, &ran, &[], true), "never ran here");
        let newer = ["2.0.0", "3.0.0"];
        assert!(
            !goes_back("3.0.0", kind, &newer, &[], true),
            "newer than what runs"
        );
    }
}

/// What is said of the Freezes when prod, which runs 2.0.0, is to get a revision.
fn said_of(revision: &str, kind: RequestKind, allow: bool) -> String {
    let world = going_back(revision, kind, (&["2.0.0", "1.0.0"], &[]), allow);
    planner::frozen_promotion(&world.promotions[0], &world.pipeline, now()).unwrap()
}

#[test]
fn what_a_freeze_means_for_a_promotion_is_said_as_it_is() {
    let stop = "prod is frozen by stop (no releases)";
    let rollback = RequestKind::Rollback;
    let passes = format!("{stop}: rollbacks pass");
    assert_eq!(said_of("1.0.0", rollback, true), passes);
    let waits = format!("{stop}: it waits for that to end");
    assert_eq!(said_of("1.0.0", rollback, false), waits, "allow: []");
    assert_eq!(said_of("0.9.0", rollback, true), waits, "never ran here");
    assert_eq!(said_of("3.0.0", RequestKind::Promote, true), waits);
    let passes = format!("{stop}: this promotion passes");
    assert_eq!(said_of("1.0.0", RequestKind::Promote, true), passes);
    let mut open = going_back("1.0.0", rollback, (&["2.0.0", "1.0.0"], &[]), true);
    open.pipeline.status.as_mut().unwrap().freezes.clear();
    let said = planner::frozen_promotion(&open.promotions[0], &open.pipeline, now());
    assert_eq!(said, None);
}

/// A frozen promotion with an override that was stored so long ago.
fn overridden(passes: &[&str], stored: &str) -> World {
    let mut world = frozen(WAITING, vec![freeze("stop")]);
    let name = world.promotions[0].metadata.name.clone().unwrap();
    let status = world.pipeline.status.as_mut().unwrap();
    let prod = status.environments.get_mut("prod").unwrap();
    prod.overrides = vec![StoredOverride {
        request: "r1".to_owned(),
        promotion: name,
        by: Some("ann".to_owned()),
        reason: "incident 7".to_owned(),
        passes: passes.iter().map(|it| (*it).to_owned()).collect(),
        at: Some(ago(stored)),
        revision: None,
    }];
    world
}

#[test]
fn who_overrides_does_not_approve() {
    let state = |by: &str| {
        let mut world = overridden(&["freeze/stop"], "1m");
        let settings = world.pipeline.spec.promotion.as_mut().unwrap();
        settings.manual = true;
        let promotion = &mut world.promotions[0];
        promotion.spec.needs_approval = true;
        promotion.spec.approvals = vec![Approval {
            by: by.to_owned(),
            change_digest: Some("d".to_owned()),
            ..Approval::default()
        }];
        let status = promotion.status.get_or_insert_default();
        status.change = Some(PromotionChange {
            digest: "d".to_owned(),
            ..PromotionChange::default()
        });
        let state = planner::approval_state(&world.promotions[0], Some(&world.pipeline), now());
        let action = next_of(&world, "missing").action;
        (state.unwrap().not_counted, action)
    };
    let own = vec![("ann".to_owned(), planner::NotCounted::Requester)];
    assert_eq!(state("ann"), (own, ExternalAction::Nothing));
    assert_eq!(state("bob"), (Vec::new(), ExternalAction::CarryOut));
}

#[test]
fn an_override_passes_what_it_names_for_an_hour() {
    let action =
        |passes: &[&str], stored: &str| next_of(&overridden(passes, stored), "missing").action;
    assert_eq!(action(&["freeze/stop"], "59m"), ExternalAction::CarryOut);
    assert_eq!(action(&["freeze/stop"], "60m"), ExternalAction::Nothing);
    assert_eq!(action(&["freeze/other"], "1m"), ExternalAction::Nothing);
    assert_eq!(action(&["freeze/team/stop"], "1m"), ExternalAction::Nothing);
}

fn request(id: &str, passes: Option<&str>) -> Request {
    Request {
        id: id.to_owned(),
        revision: "2.0.0".to_owned(),
        by: Some("ann".to_owned()),
        override_gates: passes.map(|pass| Override {
            reason: "incident 7".to_owned(),
            passes: vec![pass.to_owned()],
        }),
        ..Request::default()
    }
}

/// The overrides that are stored after a request in the status was planned.
fn stored_after(world: &World) -> Vec<StoredOverride> {
    let (plan, model) = (world.plan(), world.model());
    let status = planner::apply(&plan, &model, now());
    status.environments["prod"].overrides.clone()
}

#[test]
fn the_controller_stores_an_override_once() {
    let mut world = frozen(WAITING, vec![freeze("stop")]);
    let put = |world: &mut World, request: Request| {
        let status = world.pipeline.status.as_mut().unwrap();
        status.requests.insert("prod".to_owned(), request);
    };
    put(&mut world, request("r1", Some("freeze/stop")));
    let stored = stored_after(&world);
    assert_eq!(stored.len(), 1);
    assert_eq!(
        stored[0].promotion,
        *world.promotions[0].metadata.name.as_ref().unwrap()
    );
    assert_eq!(stored[0].at, Some(Time(now())));
    // A request of the same id, however old, does not renew it.
    let status = world.pipeline.status.as_mut().unwrap();
    let prod = status.environments.get_mut("prod").unwrap();
    let mut old = stored;
    old[0].at = Some(ago("2h"));
    prod.overrides = old.clone();
    assert_eq!(stored_after(&world), old);
    // What it cannot pass is refused.
    put(&mut world, request("r2", Some("approvals")));
    assert_eq!(stored_after(&world), old);
    let plan = world.plan();
    let last = plan.environments["prod"].last_request.as_ref().unwrap();
    assert!(last.refused && last.message.as_ref().unwrap().contains("only freeze/NAME"));
    put(&mut world, request("r3", Some("freeze/weekend")));
    let plan = world.plan();
    let last = plan.environments["prod"].last_request.as_ref().unwrap();
    assert!(last.refused);
    assert_eq!(
        last.message.as_deref(),
        Some("refused: there is no freeze/weekend before prod; an override can pass freeze/stop")
    );
    assert_eq!(stored_after(&world), old);
    put(&mut world, request("r4", Some("freeze/stop")));
    let all = stored_after(&world);
    let all: Vec<_> = all.iter().map(|it| it.request.as_str()).collect();
    assert_eq!(all, ["r4", "r1"], "the newest comes first");
}

#[test]
fn checks_of_a_source_need_no_override() {
    let mut world = draw("dev{verify smoke}[2.0.0 ok] > prod[1.0.0 ok]");
    let status = world.pipeline.status.as_mut().unwrap();
    let wanted = request("r1", Some("check/smoke"));
    status.requests.insert("prod".to_owned(), wanted);
    let plan = world.plan();
    let last = plan.environments["prod"].last_request.as_ref().unwrap();
    assert_eq!(
        last.message.as_deref(),
        Some("refused: check/smoke is a check of dev, which a request skips without an override")
    );
}

#[test]
fn an_override_names_what_it_passes_and_why() {
    for (reason, passes, expected) in [
        ("outage", vec!["freeze/stop", "check/smoke"], None),
        (" ", vec!["freeze/stop"], Some("an override needs a reason")),
        ("outage", vec![], Some("an override names what it passes")),
        (
            "outage",
            vec!["freeze/stop", "check/"],
            Some("an override cannot pass \"check/\", only freeze/NAME and check/NAME"),
        ),
    ] {
        let wanted = Override {
            reason: reason.to_owned(),
            passes: passes.into_iter().map(str::to_owned).collect(),
        };
        assert_eq!(planner::refuse_override(&wanted).as_deref(), expected);
    }
}

#[test]
fn a_gate_says_who_passed_it_and_why() {
    let world = overridden(&["freeze/stop"], "1m");
    let plan = world.plan();
    let mut gates = plan.environments["prod"].gates.iter();
    let freeze = gates.find(|it| it.gate == "freeze").unwrap();
    let expected = "passed by override of ann: incident 7".to_owned();
    assert_eq!(freeze.verdict, planner::GateVerdict::Overridden(expected));
}

#[test]
fn a_plan_is_made_again_when_a_freeze_begins_or_ends() {
    let begins = |name: &str, minutes: u64| {
        let mut freeze = freeze(name);
        freeze.times.not_before = Some(Time(now() + std::time::Duration::from_secs(60 * minutes)));
        freeze
    };
    let requeued = |freezes| {
        let world = frozen(WAITING, freezes);
        let at = world.plan().requeue_at;
        at.map(|at| at.duration_since(now()).as_secs() / 60)
    };
    assert_eq!(requeued(vec![freeze("stop")]), None);
    assert_eq!(
        requeued(vec![until(30, freeze("stop")), begins("later", 45)]),
        Some(30)
    );
    assert_eq!(
        requeued(vec![until(30, freeze("stop")), begins("later", 15)]),
        Some(15)
    );
}

#[test]
fn a_freeze_is_shown_whether_or_not_something_waits() {
    let explained = |drawing: &str, freezes| {
        let world = frozen(drawing, freezes);
        planner::explain(&world.pipeline, &world.model(), &world.plan())
    };
    const SETTLED: &str = "dev[2.0.0 ok] > prod[2.0.0 ok]";
    let text = explained(SETTLED, vec![until(60, freeze("weekend"))]);
    let line =
        "  prod is frozen by weekend (no releases) until 2027-01-15T09:00:00Z: only rollbacks pass";
    assert!(text.contains(line), "{text}");
    let mut closed = freeze("stop");
    closed.times.allow.clear();
    let text = explained(SETTLED, vec![freeze("weekend"), closed]);
    let line = "  prod is frozen by weekend (no releases) and stop (no releases): nothing starts";
    assert!(text.contains(line), "one of them allows nothing: {text}");
    let text = explained(WAITING, vec![freeze("weekend")]);
    assert!(!text.contains("rollbacks pass"), "the hold says so: {text}");
    // What `sluice freeze` created is ended by `sluice thaw`.
    let pipeline = draw(WAITING).pipeline.metadata.name.unwrap();
    let name = api::names::stop_name(Some(&pipeline), &["prod".to_owned()]);
    let text = explained(WAITING, vec![freeze(&name)]);
    assert!(
        text.contains("resolved by ending the Freeze (`sluice thaw shop prod -n default`)"),
        "{text}"
    );
}

#[test]
fn the_command_that_ends_a_freeze_is_the_one_for_what_it_covers() {
    let prod = ["prod".to_owned()];
    let stop = |pipeline: Option<&str>, environments: &[String]| {
        freeze(&api::names::stop_name(pipeline, environments))
    };
    let elsewhere = CoveringFreeze {
        namespace: Some("pipeline-system".to_owned()),
        ..stop(None, &[])
    };
    for (frozen_by, expected) in [
        (
            stop(Some("shop"), &[]),
            "ending the Freeze (`sluice thaw shop -n default`)",
        ),
        (
            stop(Some("shop"), &prod),
            "ending the Freeze (`sluice thaw shop prod -n default`)",
        ),
        (
            stop(None, &[]),
            "ending the Freeze (`sluice thaw --all -n default`)",
        ),
        (
            stop(None, &prod),
            "ending the Freeze (`sluice thaw --all -e prod -n default`)",
        ),
        (
            elsewhere,
            "ending the Freeze (`sluice thaw --all -n pipeline-system`)",
        ),
        (freeze("weekend"), "deleting or editing the Freeze weekend"),
    ] {
        let world = draw(WAITING);
        let says = |environments: &[String]| {
            let freezes = std::slice::from_ref(&frozen_by);
            planner::frozen_and_removal(&world.pipeline, freezes, environments, now())
        };
        let text = says(&[]).unwrap();
        let resolved = format!("(no releases), resolved by {expected}");
        assert!(
            text.starts_with("frozen by ") && text.ends_with(&resolved),
            "{text}"
        );
        assert_eq!(says(&prod), Some(text));
        assert_eq!(says(&["dev".to_owned()]), None, "it covers prod only");
    }
    let mut over = freeze("weekend");
    over.times.not_after = Some(api::Time(now()));
    let pipeline = draw(WAITING).pipeline;
    assert_eq!(
        planner::frozen_and_removal(&pipeline, &[over], &[], now()),
        None
    );
}

#[test]
fn a_frozen_promotion_is_held() {
    let mut world = frozen(WAITING, vec![freeze("stop")]);
    let state = |world: &World| {
        let model = planner::apply(&world.plan(), &world.model(), now());
        planner::environment_state(&world.pipeline, &model, "prod").word()
    };
    assert_eq!(state(&world), "held");
    world.pipeline.status.as_mut().unwrap().freezes.clear();
    assert_eq!(state(&world), "promoting");
}

#[test]
fn the_annotation_needs_the_id_of_its_request() {
    let written = |id: &str| {
        let mut world = frozen(WAITING, vec![freeze("stop")]);
        let wanted = json!({"prod": {"id": "r1", "revision": "2.0.0", "by": "ann",
            "override": {"reason": "smuggled", "passes": ["freeze/stop"]}}});
        let overriding = json!({"request": id, "reason": "incident 7", "passes": ["freeze/stop"]});
        world.pipeline.metadata.annotations = Some(BTreeMap::from([
            (
                "pipelines.weave.works/request".to_owned(),
                wanted.to_string(),
            ),
            (
                "pipelines.weave.works/override".to_owned(),
                overriding.to_string(),
            ),
        ]));
        stored_after(&world)
    };
    assert_eq!(written("r1")[0].reason, "incident 7");
    assert_eq!(
        written("r0"),
        [],
        "an older override is for an older request"
    );
}

#[test]
fn another_request_with_the_id_of_an_override_is_not_handled() {
    let wanted = |id: &str| {
        let mut world = overridden(&["freeze/stop"], "1m");
        let wanted = json!({"prod": {"id": id, "revision": "1.0.0", "by": "eve"}});
        let annotation = (
            "pipelines.weave.works/request".to_owned(),
            wanted.to_string(),
        );
        world.pipeline.metadata.annotations = Some(BTreeMap::from([annotation]));
        let last = world.plan().environments["prod"].last_request.clone();
        last.map(|last| last.id)
    };
    assert_eq!(wanted("r2").as_deref(), Some("r2"));
    assert_eq!(wanted("r1"), None);
}

fn stored(name: &str, namespace: &str, spec: serde_json::Value) -> Freeze {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    }))
    .unwrap()
}

/// `name: environments` of each Freeze that covers the pipeline shop of namespace default.
fn covering(freezes: &[Freeze], namespace_labels: Option<&[(&str, &str)]>) -> String {
    let mut world = draw("dev[2.0.0 ok on c1] > prod[1.0.0 ok on c2]");
    let label = ("tier".to_owned(), "web".to_owned());
    world.pipeline.metadata.labels = Some(BTreeMap::from([label]));
    let owned = |labels: &[(&str, &str)]| -> BTreeMap<_, _> {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        labels.collect()
    };
    let cluster_labels = |_: &str, name: &str| Some(owned(&[("cluster", name)]));
    let namespace_labels = namespace_labels.map(owned);
    let scope = FreezeScope {
        freeze_namespace: Some("sluice"),
        namespace_labels: namespace_labels.as_ref(),
        cluster_labels: &cluster_labels,
    };
    let covering = covering_freezes(&world.pipeline, &world.model(), freezes, &scope, now());
    let lines = covering.iter().map(|it| {
        let invalid = it.invalid.as_ref().map(|error| format!(" ({error})"));
        format!(
            "{}: {}{}",
            it.name,
            it.environments.join(" "),
            invalid.unwrap_or_default()
        )
    });
    lines.collect::<Vec<_>>().join("; ")
}

/// A Freeze of another namespace is named with it; one of some clusters names these.
#[test]
fn what_a_freeze_covers_is_stored() {
    let world = draw("dev[2.0.0 ok on c1] > prod[1.0.0 ok on c2, 1.0.0 ok on c3]");
    let cluster_labels =
        |_: &str, name: &str| Some(BTreeMap::from([("cluster".to_owned(), name.to_owned())]));
    let scope = FreezeScope {
        freeze_namespace: Some("sluice"),
        namespace_labels: None,
        cluster_labels: &cluster_labels,
    };
    let some = json!({"reason": "r", "clusterSelector": {"matchLabels": {"cluster": "c2"}}});
    let freezes = [
        stored("a", "default", json!({"reason": "r"})),
        stored("b", "sluice", json!({"reason": "r"})),
        stored("c", "default", some),
    ];
    let covering = covering_freezes(&world.pipeline, &world.model(), &freezes, &scope, now());
    let found = covering.iter().map(|it| {
        let clusters = it.clusters.as_ref().map(|it| it.join(" "));
        (it.name.as_str(), it.namespace.as_deref(), clusters)
    });
    let found: BTreeMap<_, _> = found
        .map(|(name, home, clusters)| (name, (home, clusters)))
        .collect();
    assert_eq!(found["a"], (None, None));
    assert_eq!(found["b"], (Some("sluice"), None));
    assert_eq!(found["c"], (None, Some("c2".to_owned())));
}

#[test]
fn every_selector_has_to_match() {
    let one = |spec| covering(&[stored("f", "default", spec)], None);
    assert_eq!(one(json!({"reason": "r"})), "f: dev prod");
    assert_eq!(
        one(json!({"reason": "r", "environments": ["prod"]})),
        "f: prod"
    );
    assert_eq!(
        one(json!({"reason": "r", "pipelines": ["shop"]})),
        "f: dev prod"
    );
    assert_eq!(one(json!({"reason": "r", "pipelines": ["cart"]})), "");
    assert_eq!(
        one(json!({"reason": "r", "selector": {"matchLabels": {"tier": "web"}}})),
        "f: dev prod"
    );
    assert_eq!(
        one(json!({"reason": "r", "selector": {"matchLabels": {"tier": "db"}}})),
        ""
    );
    let on_c2 = json!({"matchLabels": {"cluster": "c2"}});
    assert_eq!(
        one(json!({"reason": "r", "clusterSelector": on_c2})),
        "f: prod"
    );
    assert_eq!(
        one(json!({"reason": "r", "clusterSelector": on_c2, "environments": ["dev"]})),
        ""
    );
    assert_eq!(
        covering(&[stored("f", "other", json!({"reason": "r"}))], None),
        ""
    );
}

#[test]
fn the_freeze_namespace_covers_all_and_ignores_what_tenants_can_relabel() {
    let one = |spec, labels| covering(&[stored("f", "sluice", spec)], labels);
    let relabelled = json!({"reason": "r", "selector": {"matchLabels": {"tier": "db"}}});
    assert_eq!(one(relabelled, None), "f: dev prod");
    // `sluice freeze shop` where the pipelines are beside the controller stops no other pipeline.
    let named = |name| json!({"reason": "r", "pipelines": [name]});
    assert_eq!(one(named("shop"), None), "f: dev prod");
    assert_eq!(one(named("cart"), None), "");
    let narrowed = json!({"reason": "r", "namespaceSelector": {"matchLabels": {"team": "a"}}});
    assert_eq!(one(narrowed.clone(), Some(&[("team", "a")])), "f: dev prod");
    assert_eq!(one(narrowed.clone(), Some(&[("team", "b")])), "");
    let unknown = "f: dev prod (the labels of the namespace are not known)";
    assert_eq!(one(narrowed, None), unknown);
}

#[test]
fn what_cannot_be_read_covers_and_is_invalid() {
    let text = covering(
        &[stored(
            "f",
            "default",
            json!({"reason": "r", "allow": "Everything"}),
        )],
        None,
    );
    assert!(
        text.starts_with("f: dev prod (invalid type: string"),
        "{text}"
    );
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
    let text = covering(
        &[stored(
            "f",
            "default",
            json!({"reason": "r", "selector": selector}),
        )],
        None,
    );
    assert!(text.starts_with("f: dev prod (selector: "), "{text}");
}

#[test]
fn closed_freezes_come_first_and_the_list_is_bounded() {
    let over = |name: &str| {
        let spec = json!({"reason": "r", "notAfter": "2020-01-01T00:00:00Z"});
        stored(name, "default", spec)
    };
    let mut freezes: Vec<_> = (0..20).map(|it| over(&format!("a{it:02}"))).collect();
    freezes.push(stored("z", "default", json!({"reason": "r"})));
    let text = covering(&freezes, None);
    assert!(text.starts_with("z: dev prod; a00"), "{text}");
    assert_eq!(text.split("; ").count(), 16);
}

#[test]
fn a_list_shows_what_a_freeze_says_now() {
    let state = |spec: serde_json::Value| {
        let spec: FreezeSpec = serde_json::from_value(spec).unwrap();
        freeze_state(&spec, now())
    };
    // 15 January 2027, 08:00 UTC, a Friday.
    let weekend = json!({"reason": "r", "closed": [{"cron": "0 16 * * FRI", "window": "64h"}]});
    let opens = FreezeState::Open {
        until: "2027-01-15T16:00:00Z".parse().ok(),
    };
    assert_eq!(state(weekend), opens);
    assert_eq!(
        state(json!({"reason": "r"})),
        FreezeState::Closed { until: None }
    );
    let office = json!({"reason": "r", "openOnly": [{"cron": "0 9 * * *", "window": "8h"}]});
    let closed = FreezeState::Closed {
        until: "2027-01-15T09:00:00Z".parse().ok(),
    };
    assert_eq!(state(office), closed);
    let wrong = json!({"reason": "r", "closed": [{"cron": "x", "window": "1h"}]});
    assert!(matches!(state(wrong), FreezeState::Invalid(_)));
}

#[test]
fn a_freeze_is_not_replaced_by_one_that_ends_earlier_or_lets_more_pass() {
    let (early, late) = ("2027-01-15T09:00:00Z", "2027-01-16T09:00:00Z");
    let until = |end: &str| json!({"reason": "r", "notAfter": end});
    let (open, strict) = (json!({"reason": "r"}), json!({"reason": "r", "allow": []}));
    for (before, after, expected) in [
        (open.clone(), until(late), true),
        (until(late), until(early), true),
        (strict.clone(), open.clone(), true),
        (until(early), until(late), false),
        (until(late), open.clone(), false),
        (open.clone(), strict, false),
        (open.clone(), open, false),
    ] {
        let [before, after] = [before, after].map(|it| serde_json::from_value(it).unwrap());
        let weakens = planner::weakens_freeze(&before, &after);
        assert_eq!(weakens, expected, "{before:?} {after:?}");
    }
}

#[test]
fn an_environment_that_no_pipeline_has_is_found() {
    let [one, other] = ["dev[1 ok] > prod[1 ok]", "dev[1 ok] > live[1 ok]"].map(draw);
    let pipelines = [&one.pipeline, &other.pipeline];
    let check = |names: &[&str], expected: Option<&str>| {
        let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(planner::unknown_environment(&names, pipelines), expected);
    };
    check(&[], None);
    check(&["prod", "live", "dev"], None);
    check(&["prod", "prdo", "liev"], Some("prdo"));
    let names = ["prod".to_owned()];
    let none = planner::unknown_environment(&names, []);
    assert_eq!(none, Some("prod"), "there are no pipelines");
}
