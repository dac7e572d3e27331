//! What people read.

use crate::drawing::draw;

#[track_caller]
fn check(drawing: &str, expected: &str) {
    let world = draw(drawing);
    let text = planner::explain(&world.pipeline, &world.model(), &world.plan());
    let expected: Vec<_> = expected
        .lines()
        .map(|line| line.strip_prefix("        ").unwrap_or(line))
        .collect();
    assert_eq!(text, expected.join("\n").trim());
}

#[test]
fn says_where_each_environment_is_and_why_the_next_one_waits() {
    check(
        "dev[3.0.0 ok] > staging{suspended}[2.0.0 ok, 2.0.0 broken failed 3.0.0] > prod{manual}[1.0.0 unreachable on c1]
         promotion prod 2.0.0 AwaitingApproval",
        "
        TargetNotReadable: One or more targets was not reachable or not present
        dev: runs 3.0.0, ready
        staging: runs 2.0.0; not ready: staging-2 (3.0.0 failed)
          staging is suspended: nothing starts
          waits: staging is suspended, 3.0.0 waits; resuming staging lifts this [Suspended]
        prod: runs 1.0.0; not ready: c1/prod (no answer)
          promotion of 2.0.0: AwaitingApproval
          waits: 2.0.0 waits for approval to enter prod; an approval of 2.0.0 lifts this [AwaitingApproval]",
    );
}

#[test]
fn says_what_is_about_to_happen() {
    check(
        "dev[2.0.0 ok] > test[] > prod[1.0.0 ok, - broken]",
        "
        dev: runs 2.0.0, ready
        test: no targets
        prod: runs nothing and 1.0.0; not ready: prod-2
          next: 2.0.0 by pull-request",
    );
    check(
        "dev[2.0.0 ok] > prod{manual}[2.0.0 ok]\nwithout promotion\nsuspend",
        "
        the pipeline is suspended: nothing starts
        dev: runs 2.0.0, ready
          nothing is promoted into it
        prod: runs 2.0.0, ready",
    );
}

#[test]
fn says_what_is_wrong_with_the_pipeline() {
    check("", "InvalidSpec: the pipeline has no environments");
}
