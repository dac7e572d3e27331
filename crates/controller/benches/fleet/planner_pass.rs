//! How long the planner takes for one pass over the fleet, in this process.

use std::time::{Duration, Instant};

use api::{Pipeline, pipeline::TargetStatus};
use planner::{
    AttemptInput, ObservedApp, ObservedEnvironment, ObservedPipeline, ObservedPullRequest,
    ObservedTarget, TargetState, Timestamp,
};

use crate::world::World;

/// How often each is measured.
const TIMES: u32 = 20;

/// Prints the time of each part of a pass over the objects as they are now.
pub(crate) async fn measure(world: &World) {
    let pipeline = world.pipeline().await;
    let promotion = world.promotion().await.expect("a promotion");
    let promotions = [promotion.clone()];
    let model = pipeline.status.clone().unwrap_or_default();
    let now = Timestamp::now();
    let seen = observed(&pipeline);
    let fold = time(|| drop(planner::fold(&pipeline, &seen, now)));
    let plan = time(|| drop(planner::plan(&pipeline, &model, &promotions, now)));
    let mut under_way = promotion;
    if let Some(status) = &mut under_way.status {
        status.phase = Some(api::promotion::Phase::Deploying);
        status.finished_at = None;
    }
    let attempt = time(|| {
        let input = AttemptInput {
            pipeline: Some(&pipeline),
            promotions: &promotions,
            pull_request: ObservedPullRequest::NotQueried,
            edited: false,
        };
        drop(planner::attempt(&under_way, &input, now));
    });
    println!(
        "planner pass               plan {plan:.2?}, promotion {attempt:.2?} (goal: 5 ms), status {fold:.2?}"
    );
}

/// The fastest of some runs: others share the machine.
fn time(mut run: impl FnMut()) -> Duration {
    let runs = (0..TIMES).map(|_| {
        let began = Instant::now();
        run();
        began.elapsed()
    });
    runs.min().unwrap_or_default()
}

/// An observation in which nothing is new.
fn observed(pipeline: &Pipeline) -> ObservedPipeline {
    let status = pipeline.status.iter();
    let environments = status.flat_map(|it| &it.environments);
    let environments = environments.map(|(name, environment)| ObservedEnvironment {
        name: name.clone(),
        targets: environment.targets.iter().map(target).collect(),
    });
    ObservedPipeline {
        environments: environments.collect(),
        ..ObservedPipeline::default()
    }
}

fn target(known: &TargetStatus) -> ObservedTarget {
    let app = known.apps.first().cloned().unwrap_or_default();
    let reference = known.cluster_app_ref.clone().unwrap_or_default();
    let reading = api::app::AppReading {
        revision: known.revision.as_deref().and_then(api::Revision::new),
        version: known.version.clone(),
        ready: known.ready,
        ..api::app::AppReading::default()
    };
    ObservedTarget {
        cluster: reference.cluster_ref,
        namespace: known.namespace.clone().unwrap_or_default(),
        relies_on_reports: false,
        state: TargetState::Observed(vec![ObservedApp {
            api_version: app.api_version,
            kind: app.kind,
            name: app.name,
            reading,
            ..ObservedApp::default()
        }]),
    }
}
