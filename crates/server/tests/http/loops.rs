//! A controller in small: the planner's loops with a strategy that does what a test says.

use api::{
    CheckRun, Pipeline, Promotion,
    promotion::{ChangeContent, PromotionChange, PromotionStatus},
};
use kube::{
    Api, Client, Error, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use planner::{
    AttemptInput, ExternalAction, Failure, ObservedEnvironment, ObservedPipeline,
    ObservedPullRequest, ObservedTarget, Outcome, Remedy, Step, TargetState, apply, attempt,
    conclude, fold, must_read_change, plan,
};
use serde_json::json;

/// What the strategy does when it is carried out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Strategy {
    Opens,
    Delivers,
    Fails,
    /// What a promotion changes cannot be read.
    Unreadable,
}

pub(crate) const URL: &str = "https://forge.example/shop/pulls/1";

/// Goes on for ever; what another write came before is done again next time.
pub(crate) async fn run(client: Client, strategy: Strategy) {
    loop {
        match pass(&client, strategy).await {
            Ok(()) => {}
            Err(Error::Api(refusal)) if refusal.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn pass(client: &Client, strategy: Strategy) -> Result<(), Error> {
    let pipelines: Api<Pipeline> = Api::all(client.clone());
    for pipeline in pipelines.list(&ListParams::default()).await? {
        let namespace = pipeline.namespace().unwrap();
        let promotions: Api<Promotion> = Api::namespaced(client.clone(), &namespace);
        let all = promotions.list(&ListParams::default()).await?.items;
        of_pipeline(client, &pipeline, &all).await?;
        for promotion in &all {
            let status = of_promotion(&pipeline, promotion, &all, strategy);
            if Some(&status) != promotion.status.as_ref() {
                let mut written = promotion.clone();
                written.status = Some(status);
                let name = promotion.name_any();
                let parameters = PostParams::default();
                promotions
                    .replace_status(&name, &parameters, &written)
                    .await?;
            }
        }
    }
    Ok(())
}

async fn of_pipeline(
    client: &Client,
    pipeline: &Pipeline,
    promotions: &[Promotion],
) -> Result<(), Error> {
    let namespace = pipeline.namespace().unwrap();
    let api: Api<Promotion> = Api::namespaced(client.clone(), &namespace);
    let now = runtime::wall_clock::now();
    let runs: Api<CheckRun> = Api::namespaced(client.clone(), &namespace);
    let known = runs.list(&ListParams::default()).await?.items;
    let model = fold(pipeline, &seen(pipeline), now);
    let model = planner::fold_checks(pipeline, &known, model);
    let plan = plan(pipeline, &model, promotions, now);
    for step in &plan.steps {
        match step {
            Step::StartPromotion(promotion) => {
                api.create(&PostParams::default(), promotion).await?;
            }
            Step::SupersedePromotion { name, by } => {
                withdraw(&api, name, &planner::superseded_by(by)).await?;
            }
            Step::WithdrawPromotion { name, reason } => withdraw(&api, name, reason).await?,
            Step::StartCheckRun(run) => {
                runs.create(&PostParams::default(), run).await?;
            }
            other => panic!("no test asks for {other:?}"),
        }
    }
    let status = apply(&plan, &model, now);
    if Some(&status) != pipeline.status.as_ref() {
        let mut written = pipeline.clone();
        written.status = Some(status);
        let api: Api<Pipeline> = Api::namespaced(client.clone(), &namespace);
        let parameters = PostParams::default();
        api.replace_status(&pipeline.name_any(), &parameters, &written)
            .await?;
    }
    Ok(())
}

async fn withdraw(api: &Api<Promotion>, name: &str, reason: &str) -> Result<(), Error> {
    let patch = Patch::Merge(json!({"spec": {"withdrawn": {"reason": reason}}}));
    api.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// As in webhook mode: nobody looks, reports tell.
fn seen(pipeline: &Pipeline) -> ObservedPipeline {
    let target = |target: &api::pipeline::Target| ObservedTarget {
        cluster: target.cluster_ref.clone(),
        namespace: target.namespace.clone(),
        relies_on_reports: true,
        state: TargetState::NotWatched,
    };
    let environments = pipeline.spec.environments.iter();
    ObservedPipeline {
        environments: environments
            .map(|environment| ObservedEnvironment {
                name: environment.name.clone(),
                targets: environment.targets.iter().map(target).collect(),
            })
            .collect(),
        trusts_unsigned_reports: true,
        ..ObservedPipeline::default()
    }
}

fn of_promotion(
    pipeline: &Pipeline,
    promotion: &Promotion,
    all: &[Promotion],
    strategy: Strategy,
) -> PromotionStatus {
    let around = AttemptInput {
        pipeline: Some(pipeline),
        promotions: all,
        pull_request: ObservedPullRequest::NotQueried,
        edited: false,
    };
    let now = runtime::wall_clock::now();
    let with_change;
    let mut promotion = promotion;
    if must_read_change(promotion, &around, now) {
        if strategy == Strategy::Unreadable {
            let next = attempt(promotion, &around, now);
            return conclude(promotion, next, unreadable(), now, 0);
        }
        let spec = &promotion.spec;
        let change = PromotionChange::new(spec, ChangeContent::Delegated(&spec.strategy));
        with_change = planner::with_change(promotion, change);
        promotion = &with_change;
    }
    let next = attempt(promotion, &around, now);
    if next.action != ExternalAction::CarryOut {
        return next.status;
    }
    let outcome = match strategy {
        Strategy::Opens => Outcome::Opened {
            url: URL.to_owned(),
            branch: "promotion".to_owned(),
            commit: None,
            notes: Vec::new(),
        },
        Strategy::Delivers => Outcome::Delivered { url: None },
        Strategy::Fails => Outcome::Failed(Failure {
            reason: "Refused".to_owned(),
            message: "the forge says no".to_owned(),
            remedy: Remedy::Retry,
        }),
        Strategy::Unreadable => unreadable(),
    };
    conclude(promotion, next, outcome, now, 0)
}

fn unreadable() -> Outcome {
    Outcome::Failed(Failure {
        reason: "RepositoryUnreadable".to_owned(),
        message: "cannot fetch the repository".to_owned(),
        remedy: Remedy::WaitForEdit,
    })
}
