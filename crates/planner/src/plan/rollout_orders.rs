//! What people order about a rollout: to stop it, to go on, to retry what failed, to go on without a target.
//!
//! The orders are stored in the status of the environment; the promotion's next attempt follows them.

use api::{
    Promotion,
    pipeline::{HandledRequest, Request, RequestKind, RolloutOrders},
    promotion::{RolloutStatus, RolloutStop},
};

use super::{
    environment::EnvironmentDecision,
    input::PlanInput,
    request::{handled, pending, refused},
};
use crate::{
    hold::list,
    promotion_phase::{name_of, phase_of},
    rollout::{RolloutContext, RolloutState},
    time::stored,
};

/// How many targets a rollout can go on without.
const MOST_SKIPPED: usize = 1000;

/// Whether a request is about a rollout only.
fn is_order(kind: RequestKind) -> bool {
    use RequestKind::{ResumeRollout, SkipTarget, StopRollout};
    matches!(kind, StopRollout | ResumeRollout | SkipTarget)
}

/// Answers a pending order. Whether the environment is suspended or frozen does not matter.
pub(super) fn take_up(
    input: &PlanInput<'_>,
    environment: &str,
    decision: &mut EnvironmentDecision,
) {
    let rollout = under_way(input, environment);
    let stored = decision.says.rollout_orders.take();
    let name = rollout.map(|(promotion, _)| name_of(promotion));
    let mut orders = stored.filter(|it| Some(&it.promotion) == name.as_ref());
    let pending = pending(input.pipeline, input.model, environment);
    let Some(request) = pending else {
        decision.says.rollout_orders = orders;
        return;
    };
    let answer = match (request.kind, rollout) {
        (kind, None) if is_order(kind) => {
            let text = format!("no rollout into {environment} is in progress");
            Some(Err(text))
        }
        (kind, Some((promotion, rollout))) if is_order(kind) || kind == RequestKind::Retry => {
            let question = Question {
                input,
                promotion,
                rollout,
                request: &request,
            };
            let orders = orders.get_or_insert_with(|| RolloutOrders {
                promotion: name_of(promotion),
                ..RolloutOrders::default()
            });
            question.answer(orders)
        }
        _ => None,
    };
    decision.says.rollout_orders = orders.filter(|it| {
        let nothing = RolloutOrders {
            promotion: it.promotion.clone(),
            ..RolloutOrders::default()
        };
        *it != nothing
    });
    if let Some(answer) = answer {
        decision.says.last_request = Some(record(input, environment, &request, answer));
    }
}

fn record(
    input: &PlanInput<'_>,
    environment: &str,
    request: &Request,
    answer: Result<String, String>,
) -> HandledRequest {
    match answer {
        Ok(text) => handled(input, environment, request, (None, &text)),
        Err(text) => refused(input, environment, request, &text),
    }
}

/// The rollout into an environment that has begun and not ended.
fn under_way<'a>(
    input: &PlanInput<'a>,
    environment: &str,
) -> Option<(&'a Promotion, &'a RolloutStatus)> {
    let mut newest_first = input.promotions.iter().rev().copied();
    newest_first.find_map(|promotion| {
        let is_open = promotion.spec.environment == environment
            && promotion.spec.withdrawn.is_none()
            && phase_of(promotion).is_some_and(|phase| !phase.is_terminal());
        let rollout = promotion.status.as_ref()?.rollout.as_ref()?;
        is_open.then_some((promotion, rollout))
    })
}

struct Question<'a> {
    input: &'a PlanInput<'a>,
    promotion: &'a Promotion,
    rollout: &'a RolloutStatus,
    request: &'a Request,
}

impl Question<'_> {
    /// What became of the order; nothing where it is not about the rollout.
    fn answer(&self, orders: &mut RolloutOrders) -> Option<Result<String, String>> {
        let is_stopped = orders.stopped.is_some() || self.rollout.stopped.is_some();
        let revision = self.promotion.spec.shown_revision();
        let now = Some(stored(self.input.now));
        match self.request.kind {
            RequestKind::StopRollout if orders.stopped.is_some() => {
                Some(Ok(format!("the rollout of {revision} is stopped already")))
            }
            RequestKind::StopRollout => {
                orders.stopped = Some(RolloutStop {
                    at: now,
                    by: self.request.by.clone(),
                    message: self.request.note.clone().unwrap_or_default(),
                });
                Some(Ok(format!("stopped the rollout of {revision}")))
            }
            RequestKind::ResumeRollout if !is_stopped => {
                Some(Err(format!("the rollout of {revision} is not stopped")))
            }
            RequestKind::ResumeRollout => {
                orders.stopped = None;
                orders.resumed_at = now;
                Some(Ok(format!("resumed the rollout of {revision}")))
            }
            RequestKind::SkipTarget => Some(self.skip(orders)),
            RequestKind::Retry if is_stopped || self.has_failed() => {
                orders.stopped = None;
                orders.retried_at = now;
                Some(Ok(format!("the rollout of {revision} is retried")))
            }
            _ => None,
        }
    }

    fn has_failed(&self) -> bool {
        self.rollout.targets.iter().any(|target| target.failed)
    }

    fn skip(&self, orders: &mut RolloutOrders) -> Result<String, String> {
        let text = self.request.target.as_deref().unwrap_or_default();
        let key = self.meant(text)?;
        let input = self.input;
        let context = RolloutContext::of(input.pipeline, input.model, self.promotion, input.now);
        let mut targets = self.rollout.targets.iter();
        let state = targets
            .find(|target| target.target == key)
            .and_then(|target| Some(context?.state(target)));
        if state == Some(RolloutState::Ready) {
            return Err(format!("{key} is ready, so nothing waits for it"));
        }
        if !orders.skipped.contains(&key) {
            if orders.skipped.len() >= MOST_SKIPPED {
                return Err(format!("{MOST_SKIPPED} targets are skipped already"));
            }
            orders.skipped.push(key.clone());
        }
        Ok(format!("the rollout goes on without {key}"))
    }

    /// The target that a text names: its key, or the name of its cluster where that is enough.
    fn meant(&self, text: &str) -> Result<String, String> {
        let keys = || self.rollout.targets.iter().map(|it| it.target.as_str());
        if keys().any(|key| key == text) {
            return Ok(text.to_owned());
        }
        let is_cluster = |key: &&str| key.rsplit_once('/').is_some_and(|(it, _)| it == text);
        let found: Vec<_> = keys().filter(is_cluster).collect();
        match found[..] {
            [one] => Ok(one.to_owned()),
            [] if text.is_empty() => Err("it names no target; add \"target\"".to_owned()),
            [] => Err(format!("the rollout has no target {text}")),
            _ => Err(format!("{text} has several targets: {}", list(&found))),
        }
    }
}
