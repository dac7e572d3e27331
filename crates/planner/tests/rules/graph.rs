//! Environments that do not simply follow each other: `after`.

use planner::{lint, sources};

use crate::{
    attempt::next_of,
    drawing::{World, draw, now},
    show::{settle, show},
};

/// `eu` and `us` come after `dev`, and `prod` after both.
fn diamond(eu: &str, us: &str, prod: &str) -> String {
    format!(
        "dev[3.0.0 ok] > eu{{after dev}}[{eu}] > us{{after dev}}[{us}] > prod{{after eu us}}[{prod}]"
    )
}

/// Two environments that nothing is promoted into, and `prod` after both.
fn two(settings: &str, eu: &str, us: &str) -> String {
    format!("eu[{eu}] > us{{after}}[{us}] > prod{{after eu us{settings}}}[1.0.0 ok]")
}

fn planned(world: &World) -> String {
    show(world, &world.plan())
}

#[track_caller]
fn check(drawing: &str, expected: &str) {
    let mut world = draw(drawing);
    assert_eq!(planned(&world), expected, "{drawing}");
    settle(&mut world);
}

#[track_caller]
fn check_prod(drawing: &str, expected: &str) {
    let mut world = draw(drawing);
    let shown = planned(&world);
    let of_prod = shown.lines().filter(|line| line.contains("prod"));
    let of_prod: Vec<_> = of_prod.collect();
    assert_eq!(of_prod.join("\n"), expected, "{drawing}");
    settle(&mut world);
}

#[test]
fn after_the_one_before_is_what_a_list_says() {
    for (list, graph) in [
        (
            "dev[2.0.0 ok] > test[1.0.0 ok] > prod[1.0.0 ok]",
            "dev{after}[2.0.0 ok] > test{after dev}[1.0.0 ok] > prod{after test}[1.0.0 ok]",
        ),
        (
            "dev[2.0.0 ok] > test[] > prod{soak 2h}[1.0.0 ok]",
            "dev[2.0.0 ok] > test[] > prod{after dev, soak 2h}[1.0.0 ok]",
        ),
        (
            "dev[1.0.0 ok]\nsource HelmChart 2.0.0",
            "dev{after}[1.0.0 ok]\nsource HelmChart 2.0.0",
        ),
    ] {
        assert_eq!(planned(&draw(list)), planned(&draw(graph)), "{graph}");
        assert!(planner::is_chain(&draw(graph).pipeline.spec), "{graph}");
    }
}

#[test]
fn sources_are_found_in_any_order_of_the_list() {
    let of = |drawing: &str, name: &str| {
        let world = draw(drawing);
        let names = sources(&world.pipeline.spec, name)
            .iter()
            .map(|it| it.name.clone())
            .collect::<Vec<_>>();
        names.join(" ")
    };
    let drawing = diamond("2.0.0 ok", "2.0.0 ok", "1.0.0 ok");
    for (name, expected) in [("dev", ""), ("eu", "dev"), ("us", "dev"), ("prod", "eu us")] {
        assert_eq!(of(&drawing, name), expected, "{name}");
    }
    let backwards = "prod{after test}[1.0.0 ok] > test{after dev}[2.0.0 ok] > dev{after}[3.0.0 ok]";
    assert_eq!(of(backwards, "prod"), "test");
    check(
        backwards,
        "start prod 2.0.0 instead of 1.0.0\nstart test 3.0.0 instead of 2.0.0",
    );
    let columns = |drawing: &str| {
        let world = draw(drawing);
        let columns = planner::environment_columns(&world.pipeline.spec).into_iter();
        let columns = columns.map(|it| {
            it.iter()
                .map(|it| it.name.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        });
        columns.collect::<Vec<_>>().join(" | ")
    };
    assert_eq!(columns(&drawing), "dev | eu us | prod");
    assert_eq!(columns(backwards), "dev | test | prod");
}

#[test]
fn a_diamond_goes_through_one_step_after_the_other() {
    check(
        &diamond("1.0.0 ok", "1.0.0 ok", "1.0.0 ok"),
        "start eu 3.0.0 instead of 1.0.0\nstart us 3.0.0 instead of 1.0.0",
    );
    let half = diamond("3.0.0 ok", "1.0.0 ok", "1.0.0 ok");
    check_prod(&format!("{half}\nleft eu 1.0.0 9h 1h"), "");
    check_prod(
        &diamond("3.0.0 ok", "3.0.0 ok", "1.0.0 ok"),
        "start prod 3.0.0 instead of 1.0.0",
    );
    check_prod(&diamond("3.0.0 ok", "3.0.0 ok", "3.0.0 ok"), "");
}

#[test]
fn an_environment_that_comes_after_nothing_gets_nothing() {
    check("dev[2.0.0 ok] > lab{after}[1.0.0 ok]", "nothing");
    // What the pipeline's source proposes is for the first environment only.
    check(
        "dev[1.0.0 ok] > lab{after}[1.0.0 ok]\nsource HelmChart 2.0.0",
        "start dev 2.0.0 instead of 1.0.0",
    );
    let world = draw("dev[2.0.0 ok] > lab{after, soak 1h}[1.0.0 ok]");
    let texts: Vec<_> = lint(&world.pipeline.spec)
        .into_iter()
        .map(|it| it.text)
        .collect();
    let expected = "nothing is ever promoted into lab: it comes after no environment";
    assert!(texts.contains(&expected.to_owned()), "{texts:?}");
}

#[test]
fn of_several_sources_the_newest_common_revision_counts() {
    let start = "start prod 2.0.0 instead of 1.0.0";
    for (facts, expected) in [
        // What a source has left for a newer one still counts.
        ("left eu 2.0.0 3h 1h", start),
        (
            "left eu 2.0.0 3h 1h\nleft eu 1.5.0 5h 3h\nleft us 1.5.0 5h 2h",
            start,
        ),
        // Newest is by version, whatever arrived last.
        (
            "left eu 2.0.0 5h 4h\nleft eu 1.5.0 3h 1h\nleft us 1.5.0 5h 2h",
            start,
        ),
        (
            "left eu 1.5.0 3h 1h\nleft eu 2.0.0 5h 4h\nleft us 1.5.0 3h 1h\nleft us 2.0.0 5h 4h",
            start,
        ),
        (
            "left eu 1.5.0 5h 3h\nleft us 1.5.0 5h 2h",
            "start prod 1.5.0 instead of 1.0.0",
        ),
        // Neither rejected in a source, nor failed there since.
        (
            "left eu 2.0.0 3h 1h\nrejected us 2.0.0\nleft eu 1.5.0 5h 3h\nleft us 1.5.0 5h 2h",
            "start prod 1.5.0 instead of 1.0.0",
        ),
        (
            "left eu 2.0.0 3h 1h\nfails eu 2.0.0 2h\nleft eu 1.5.0 5h 3h\nleft us 1.5.0 5h 2h",
            "start prod 1.5.0 instead of 1.0.0",
        ),
        // A failure before it was ready says nothing.
        ("left eu 2.0.0 3h 1h\nfails eu 2.0.0 4h", start),
    ] {
        check_prod(
            &format!("{}\n{facts}", two("", "3.0.0 ok", "2.0.0 ok")),
            expected,
        );
    }
}

#[test]
fn without_versions_the_latest_arrival_is_the_newest() {
    let two =
        |facts: &str| format!("eu[c ok] > us{{after}}[b ok] > prod{{after eu us}}[a ok]\n{facts}");
    for (facts, expected) in [
        (
            "left eu b 3h 2h\nleft eu x 9h 8h\nleft us x 9h 8h",
            "start prod b instead of a",
        ),
        (
            "left eu x 3h 2h\nleft eu b 9h 8h\nleft us x 4h 3h\nleft us b 9h 8h",
            "start prod x instead of a",
        ),
        // The order in which they arrived, whatever the clock said.
        (
            "left eu x 9h 8h\nleft eu y 8h 7h\nleft us x 9h 8h\nleft us y 8h 7h",
            "start prod x instead of a",
        ),
        (
            "left eu y 8h 7h\nleft eu x 9h 8h\nleft us y 8h 7h\nleft us x 9h 8h",
            "start prod y instead of a",
        ),
    ] {
        check_prod(&two(facts), expected);
    }
}

/// What stays while others come and go has arrived when the sources say so, in whatever order clocks put that.
#[test]
fn without_versions_the_order_of_arrival_counts_before_clocks_and_names() {
    let start = |settings: &str, facts: &str| {
        let drawing = format!("eu[c ok] > us{{after}}[b ok] > prod{{after eu us{settings}}}[a ok]");
        planned(&draw(&format!("{drawing}\n{facts}")))
    };
    // Both sources saw x after y, although a clock said otherwise.
    let clocks = "left eu x 9h 8h\nleft eu y 8h 7h\nleft us x 9h 8h\nleft us y 8h 7h";
    assert_eq!(start(", any", clocks), "start prod x instead of a");
    let names = "left eu m 8h 7h\nleft eu n 9h 8h\nleft us m 8h 7h\nleft us n 9h 8h";
    assert_eq!(start(", any", names), "start prod m instead of a");
    // Where they do not agree, the one that was complete last.
    let apart = "left eu n 9h 8h\nleft eu m 10h 9h\nleft us m 5h 4h\nleft us n 8h 7h";
    assert_eq!(start("", apart), "start prod m instead of a");
}

#[test]
fn the_source_that_is_shared_is_told_of_several_too() {
    let shared = |eu: &str| {
        let drawing = format!(
            "eu[2.0.0 ok from {eu}] > us{{after}}[2.0.0 ok from x] > prod{{after eu us}}[1.0.0 ok from y]"
        );
        let hold = draw(&drawing).plan().environments["prod"].hold.clone();
        hold.map(|it| it.reason.word())
    };
    assert_eq!(shared("y"), Some("SharedSource"));
    assert_eq!(shared("z"), None);
}

#[test]
fn without_a_common_revision_each_newest_is_named() {
    let resolved = "resolved by one revision that is verified in each of eu and us";
    for (facts, newest) in [
        ("", "eu has 3.0.0 and us has 2.0.0"),
        // Somebody took it back: it is no longer verified there.
        (
            "left eu 9.0.0 3h 1h\nleft us 9.0.0 3h 1h",
            "eu has 3.0.0 and us has 2.0.0",
        ),
        (
            "left eu 2.0.0 3h 1h\nrejected us 2.0.0",
            "eu has 3.0.0 and us has 2.0.0, which was rejected there",
        ),
        (
            "left eu 2.0.0 3h 1h\nfails eu 2.0.0 2h",
            "eu has 3.0.0 and us has 2.0.0",
        ),
    ] {
        let hold = format!(
            "prod: NoCommonRevision: no revision is verified in each of eu and us: {newest}; {resolved}"
        );
        check_prod(
            &format!("{}\n{facts}", two("", "3.0.0 ok", "2.0.0 ok")),
            &hold,
        );
    }
}

#[test]
fn every_source_must_be_ready_checked_and_soaked_and_is_named() {
    for (settings, eu, us, expected) in [
        (
            "",
            "2.0.0 ok",
            "2.0.0 broken",
            "SourceNotReady: us target us runs 2.0.0 and is not ready",
        ),
        (
            "",
            "2.0.0 ok",
            "2.0.0 ok, 1.0.0 ok",
            "SourceTargetsDiffer: us targets run 1.0.0 and 2.0.0",
        ),
        (
            ", any",
            "2.0.0 ok, 1.0.0 ok",
            "2.0.0 broken, 1.5.0 ok",
            "SourceNotReady: no target of us is ready at 2.0.0",
        ),
        (
            ", soak 2h",
            "2.0.0 ok 3h",
            "2.0.0 ok 1h",
            "Soaking: 2.0.0 has not been ready in us for long enough",
        ),
        // The one that takes longest is named.
        (
            ", soak 2h",
            "2.0.0 ok 30m",
            "2.0.0 ok 1h",
            "Soaking: 2.0.0 has not been ready in eu for long enough",
        ),
        (
            "",
            "2.0.0 ok",
            "selector",
            "SourceNotReady: no cluster matches the selector of us",
        ),
        ("", "2.0.0 ok", "", "SourceNotDeployed: us has no targets"),
    ] {
        let drawing = two(settings, eu, us);
        let shown = planned(&draw(&drawing));
        assert!(
            shown.contains(&format!("prod: {expected}")),
            "{drawing}: {shown}"
        );
    }
    // With one ready target in each, an older revision goes on.
    check_prod(
        &two(", any", "2.0.0 ok, 1.5.0 ok", "2.0.0 broken, 1.5.0 ok"),
        "start prod 1.5.0 instead of 1.0.0\n\
         prod: SourceNotReady: no target of us is ready at 2.0.0; \
         resolved by one target of us that is ready at 2.0.0",
    );
}

#[test]
fn a_revision_that_left_has_soaked_if_it_stayed_for_long_enough() {
    let drawing = two(", soak 2h", "3.0.0 ok", "2.0.0 ok 3h");
    check_prod(
        &format!("{drawing}\nleft eu 2.0.0 4h 1h"),
        "start prod 2.0.0 instead of 1.0.0",
    );
    let world = draw(&format!("{drawing}\nleft eu 2.0.0 2h 1h"));
    assert!(planned(&world).contains("prod: NoCommonRevision"));
}

#[test]
fn the_checks_of_every_source_must_pass() {
    let drawing = "eu{verify smoke}[2.0.0 ok] > us{after, verify smoke}[2.0.0 ok] \
                   > prod{after eu us}[1.0.0 ok]\ncheck eu smoke 2.0.0 Passed";
    for (verdict, expected) in [
        (
            "Running",
            "prod: Verifying: 2.0.0 has not passed the checks of us: smoke is running; \
             resolved by those checks, once they pass",
        ),
        (
            "Failed",
            "prod: VerificationFailed: 2.0.0 failed in us: the check smoke failed: it was slow; \
             resolved by a newer revision, a retry of the checks of us, or a request for 2.0.0",
        ),
        ("Passed", "start prod 2.0.0 instead of 1.0.0"),
    ] {
        check_prod(
            &format!("{drawing}\ncheck us smoke 2.0.0 {verdict}"),
            expected,
        );
    }
    // A person requested it all the same, and requests the other one now.
    let failed = "eu[2.0.0 ok] > us{after, verify smoke}[2.0.0 ok] > prod{after eu us}[2.0.0 ok]
         left eu 1.0.0 3h 1h checked\nleft us 1.0.0 3h 1h checked\ncheck us smoke 2.0.0 Failed
         promotion prod 1.0.0 Running asker ann instead 2.0.0";
    check_prod(failed, "");
    // What has left counts by what is remembered.
    let moved = "eu{verify smoke}[3.0.0 ok] > us{after}[2.0.0 ok] > prod{after eu us}[1.0.0 ok]";
    check_prod(
        &format!("{moved}\nleft eu 2.0.0 3h 1h checked"),
        "start prod 2.0.0 instead of 1.0.0",
    );
    let world = draw(&format!("{moved}\nleft eu 2.0.0 3h 1h"));
    assert!(planned(&world).contains("prod: NoCommonRevision"));
}

#[test]
fn the_signature_must_be_verified_in_every_source() {
    let mut world = draw(&two(", manual", "2.0.0 ok", "2.0.0 ok"));
    let spec = &mut world.pipeline.spec;
    let prod = spec.environments.last_mut().unwrap();
    prod.promotion.as_mut().unwrap().require_verified_source = true;
    let sign = |world: &mut World, environment: &str| {
        let model = world.pipeline.status.as_mut().unwrap();
        let status = model.environments.get_mut(environment).unwrap();
        status.ran = vec![api::pipeline::RanRevision {
            signed: true,
            ..api::pipeline::RanRevision::from("2.0.0")
        }];
    };
    for (signed, unsigned) in [(None, "eu"), (Some("eu"), "us")] {
        signed.into_iter().for_each(|it| sign(&mut world, it));
        let expected = format!("a signature of 2.0.0 in {unsigned}");
        assert!(planned(&world).contains(&expected), "{}", planned(&world));
    }
    sign(&mut world, "us");
    assert!(
        planned(&world).starts_with("start prod 2.0.0"),
        "{}",
        planned(&world)
    );
}

#[test]
fn a_promotion_stops_when_its_revision_fails_in_any_source() {
    let drawing = two("", "2.0.0 ok", "2.0.0 broken failed 2.0.0");
    let world = draw(&format!("{drawing}\npromotion prod 2.0.0 Running"));
    let shown = planned(&world);
    assert!(
        shown.starts_with("prod: SourceFailed: 2.0.0 has failed in us since it was verified there"),
        "{shown}"
    );
    let next = next_of(&world, "missing");
    assert_eq!(next.status.reason.as_deref(), Some("SourceFailed"));
    let rejected = draw(&format!(
        "{}\nrejected us 2.0.0\npromotion prod 2.0.0 Running",
        two("", "2.0.0 ok", "1.0.0 ok")
    ));
    let next = next_of(&rejected, "missing");
    let message = next.status.message.unwrap_or_default();
    assert!(
        message.starts_with("2.0.0 was rolled back or rejected in us"),
        "{message}"
    );
    // A source that has moved on is no failure.
    let drawing = two("", "3.0.0 ok", "2.0.0 ok");
    check(
        &format!("{drawing}\npromotion prod 2.0.0 Running"),
        "prod: NoCommonRevision: no revision is verified in each of eu and us: eu has 3.0.0 and us has \
         2.0.0; resolved by one revision that is verified in each of eu and us",
    );
}

#[test]
fn what_runs_is_told_in_the_order_of_promotion() {
    let told = |drawing: &str| {
        let world = draw(drawing);
        planner::runs_text(&world.pipeline, &world.model())
    };
    assert_eq!(
        told(&diamond("2.0.0 ok", "1.0.0 ok", "1.0.0 ok")),
        "dev 3.0.0 > eu 2.0.0, us 1.0.0 > prod 1.0.0"
    );
    assert_eq!(
        told("dev[2.0.0 ok] > test[] > prod[1.0.0 ok]"),
        "dev 2.0.0 > test - > prod 1.0.0"
    );
}

#[test]
fn a_rollback_needs_no_source() {
    let drawing = two("", "3.0.0 ok", "2.0.0 ok")
        .replace("prod{after eu us}[1.0.0 ok]", "prod{after eu us}[2.0.0 ok]");
    let world = draw(&format!(
        "{drawing}\nran prod 2.0.0 1.0.0\nrequest prod Rollback 1.0.0 r1"
    ));
    assert!(
        planned(&world).starts_with("start prod 1.0.0 instead of 2.0.0"),
        "{}",
        planned(&world)
    );
}

#[test]
fn specs_that_cannot_work_say_why() {
    for (drawing, expected) in [
        (
            "dev[1 ok] > test{after prod}[1 ok] > prod[1 ok]",
            "environments come after each other in a circle: test → prod → test; \
             change `after` of one of them",
        ),
        (
            "a{after c}[1 ok] > b[1 ok] > c{after b}[1 ok]",
            "environments come after each other in a circle: a → b → c → a; \
             change `after` of one of them",
        ),
        (
            "dev[1 ok] > staging[1 ok] > prod{after stagin}[1 ok]",
            "`after` of prod names \"stagin\", which is no environment of the pipeline; \
             did you mean staging?",
        ),
        (
            "dev[1 ok] > prod{after elsewhere}[1 ok]",
            "`after` of prod names \"elsewhere\", which is no environment of the pipeline",
        ),
        (
            "dev[1 ok] > prod{after prod}[1 ok]",
            "`after` of prod names prod itself: prod → prod",
        ),
        (
            "dev[1 ok] > prod{after dev dev}[1 ok]",
            "`after` of prod names dev twice",
        ),
    ] {
        let world = draw(drawing);
        let plan = world.plan();
        let hold = plan.environments.values().find_map(|it| it.hold.as_ref());
        let hold = hold.unwrap();
        assert_eq!(
            (hold.reason.word(), hold.sentence.as_str()),
            ("InvalidSpec", expected)
        );
        let findings = lint(&world.pipeline.spec);
        let finding = findings.iter().find(|it| it.text == expected);
        assert!(finding.is_some_and(|it| it.is_error), "{findings:?}");
    }
}

#[test]
fn forecast_and_explain_name_the_source_that_is_waited_for() {
    let forecast = |drawing: &str| {
        let world = draw(drawing);
        let all = planner::forecast(&world.pipeline, &world.model(), &world.promotions, now());
        let prod = all.into_iter().find(|it| it.environment == "prod").unwrap();
        prod.text()
    };
    assert_eq!(
        forecast(&two(", soak 2h", "2.0.0 ok 90m", "2.0.0 ok 1h")),
        "prod: 2.0.0 not before Fri 2027-01-15 09:00 UTC (soak until Fri 2027-01-15 09:00 UTC)",
    );
    assert_eq!(
        forecast(&two("", "3.0.0 ok", "2.0.0 ok")),
        "prod: the next revision after one revision that is verified in each of eu and us",
    );
    assert_eq!(
        forecast(&two("", "1.0.0 ok", "1.0.0 ok")),
        "prod: nothing to promote"
    );
    let world = draw(&two(", soak 2h", "2.0.0 ok 3h", "2.0.0 ok 1h"));
    let text = planner::explain(&world.pipeline, &world.model(), &world.plan());
    let expected = "waits: 2.0.0 has not been ready in us for long enough";
    assert!(text.contains(expected), "{text}");
    assert!(
        text.contains("prod: runs 1.0.0, ready\n  comes after eu and us"),
        "{text}"
    );
}

#[test]
fn the_diff_names_the_common_revision_and_where_it_soaks() {
    let mut world = draw(&two(", soak 2h", "3.0.0 ok", "2.0.0 ok 1h"));
    let model = world.pipeline.status.as_mut().unwrap();
    let eu = model.environments.get_mut("eu").unwrap();
    eu.ran = draw("eu[3.0.0 ok]\nleft eu 2.0.0 4h 1h")
        .model()
        .environments["eu"]
        .ran
        .clone();
    let diffs = planner::promotion_diff(&world.pipeline, "prod", &[]);
    let [diff] = diffs.as_slice() else {
        panic!("{diffs:?}");
    };
    assert_eq!(
        (diff.from.as_deref(), diff.to.as_str()),
        (Some("1.0.0"), "2.0.0")
    );
    assert_eq!(diff.soak.as_ref().unwrap().environment, "us");
}
