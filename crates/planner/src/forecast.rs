//! Forecasts when each environment gets its next revision: asks the gates in virtual time.
//!
//! The forecast assumes that nothing happens but time passing: no deployment, approval, request or edit. It
//! guarantees, under that assumption, that Sluice takes no external step before `not_before`, and takes it
//! then if nothing is needed. Where targets have promotions of their own, that is so for the last of them.

use std::borrow::Cow;

use api::{
    Pipeline, Promotion,
    pipeline::{PipelineStatus, PromotionSummary},
    promotion::{Phase, Withdrawal},
};
use serde::Serialize;

use crate::{
    gate::{
        GateAnswer,
        approvals::{CHANGE_NOT_KNOWN, is_unapprovable},
        order,
    },
    hold::Hold,
    plan::{EnvironmentPlan, Step, plan},
    time::Timestamp,
};

/// How many times the gates of an environment are asked at most. Each time is later than the one before.
const STEPS: usize = 100;

/// When an environment gets its next revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentForecast {
    /// The name of the environment.
    pub environment: String,
    /// The next revision, as people read it; none where the environment has what it should, or where no
    /// revision is known yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The earliest time of the next external step, of several targets for the last of them; none where there
    /// is nothing to promote, or where no end of the waiting was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// What time alone opens, in the order in which it does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<TimedWait>,
    /// What time alone does not bring.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<MissingCondition>,
}

/// A gate that time alone opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimedWait {
    /// The name of the gate.
    pub gate: String,
    /// When it opens.
    pub until: Timestamp,
    /// Why it is closed.
    pub message: String,
}

/// What keeps a revision out until somebody or something else acts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingCondition {
    /// The name of the gate, `merge`, or `change` where what the promotion changes cannot be read.
    pub gate: String,
    /// A fixed reason.
    pub reason: String,
    /// What is the case.
    pub message: String,
    /// What resolves it.
    pub resolved_by: String,
}

/// The forecast of every environment that is promoted into, as of `at`.
pub fn forecast(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    promotions: &[Promotion],
    at: Timestamp,
) -> Vec<EnvironmentForecast> {
    let names = pipeline.spec.environments.iter().map(|it| it.name.as_str());
    names
        .filter_map(|name| forecast_environment(pipeline, name, model, promotions, at))
        .collect()
}

/// The forecast of one environment, as of `at`; none if nothing is promoted into it.
pub fn forecast_environment(
    pipeline: &Pipeline,
    name: &str,
    model: &PipelineStatus,
    promotions: &[Promotion],
    at: Timestamp,
) -> Option<EnvironmentForecast> {
    let mut environments = pipeline.spec.environments.iter();
    environments.find(|it| it.name == name)?;
    pipeline.spec.promotion_into(name)?;
    let mut promotions = Cow::Borrowed(promotions);
    let forecast = of_environment(name, at, |at| {
        let mut plan = plan(pipeline, model, &promotions, at);
        withdraw(&mut promotions, &plan.steps);
        plan.environments.remove(name).unwrap_or_default()
    });
    Some(forecast)
}

/// What a plan withdraws stays withdrawn.
fn withdraw(promotions: &mut Cow<'_, [Promotion]>, steps: &[Step]) {
    for step in steps {
        let Step::WithdrawPromotion { name, reason } = step else {
            continue;
        };
        let mut promotions = promotions.to_mut().iter_mut();
        if let Some(withdrawn) = promotions.find(|it| it.metadata.name.as_ref() == Some(name)) {
            let reason = reason.clone();
            withdrawn.spec.withdrawn = Some(Withdrawal { reason });
            withdrawn.status.get_or_insert_default().phase = Some(Phase::Withdrawn);
        }
    }
}

/// Asks the gates, goes to the time when one may open or another revision may come first, and asks again, until
/// time opens no gate any more.
fn of_environment(
    name: &str,
    start: Timestamp,
    mut plan_at: impl FnMut(Timestamp) -> EnvironmentPlan,
) -> EnvironmentForecast {
    let mut forecast = EnvironmentForecast {
        environment: name.to_owned(),
        revision: None,
        not_before: None,
        waits: Vec::new(),
        needs: Vec::new(),
    };
    let mut at = start;
    for _ in 0..STEPS {
        let says = plan_at(at);
        let opens_at = timed(&says, at).map(|(_, _, until)| until).max();
        let Some(until) = opens_at else {
            forecast.conclude(&says, at);
            return forecast;
        };
        if forecast.revision != says.next {
            forecast.waits.clear();
        }
        for wait in timed(&says, at).map(TimedWait::new) {
            // Its message may change meanwhile: of two Freezes the first one holds.
            let is_it = |it: &TimedWait| it.gate == wait.gate && it.until == wait.until;
            if !forecast.waits.iter().any(is_it) {
                forecast.waits.push(wait);
            }
        }
        forecast.waits.sort_by_key(|wait| wait.until);
        forecast.revision = says.next;
        let changes_at = says.requeue_at.filter(|time| *time > at);
        at = changes_at.map_or(until, |time| time.min(until));
    }
    forecast
}

/// The gates that time alone opens.
fn timed(
    says: &EnvironmentPlan,
    at: Timestamp,
) -> impl Iterator<Item = (&GateAnswer, &Hold, Timestamp)> {
    let closed = says.gates.iter();
    let closed = closed.filter_map(|answer| Some((answer, answer.hold()?)));
    let timed = closed.filter_map(|(answer, hold)| Some((answer, hold, hold.opens_at?)));
    timed.filter(move |(_, _, until)| *until > at)
}

impl TimedWait {
    fn new((answer, hold, until): (&GateAnswer, &Hold, Timestamp)) -> Self {
        Self {
            gate: answer.gate.to_owned(),
            until,
            message: hold.sentence.clone(),
        }
    }
}

impl EnvironmentForecast {
    /// No gate is left that time opens.
    fn conclude(&mut self, says: &EnvironmentPlan, at: Timestamp) {
        if says.gates.is_empty() {
            self.revision = None;
            return;
        }
        self.revision.clone_from(&says.next);
        self.not_before = Some(at);
        let closed = says.gates.iter();
        let closed = closed.filter_map(|answer| Some((answer.gate, answer.hold()?)));
        let unreadable = says.promotion.as_ref().and_then(unreadable_change);
        let closed = closed.map(|(gate, hold)| MissingCondition {
            gate: gate.to_owned(),
            reason: hold.reason.word().to_owned(),
            message: hold.sentence.clone(),
            resolved_by: hold.resolved_by.clone(),
        });
        let merge = says.promotion.as_ref().and_then(merge);
        self.needs = unreadable.into_iter().chain(closed).chain(merge).collect();
    }

    /// Whether there is nothing to promote.
    pub fn is_settled(&self) -> bool {
        self.revision.is_none() && self.not_before.is_none() && self.waits.is_empty()
    }

    /// What the gate `order` keeps out: neither time nor anything but a person brings it.
    fn on_request(&self) -> Option<&MissingCondition> {
        self.needs.iter().find(|need| need.gate == order::NAME)
    }

    /// Whether it says more than a hold that is shown beside it.
    pub fn adds_to(&self, hold: &Hold) -> bool {
        let is_new = |need: &MissingCondition| need.message != hold.sentence;
        // Where a person alone brings it, the line says nothing else.
        if let Some(need) = self.on_request() {
            return is_new(need);
        }
        !self.waits.is_empty() || self.needs.iter().any(is_new)
    }

    /// The forecast in one line.
    pub fn text(&self) -> String {
        let name = &self.environment;
        let waits = self.waits.iter();
        let waits = waits.map(|wait| format!("{} until {}", wait.gate, shown(wait.until)));
        let waits = waits.collect::<Vec<_>>().join(", then ");
        let needs = self.needs.iter().map(|need| need.resolved_by.as_str());
        let needs = needs.collect::<Vec<_>>().join("; ");
        if self.is_settled() {
            return format!("{name}: nothing to promote");
        }
        let revision = self.revision.as_deref().unwrap_or("the next revision");
        if let Some(need) = self.on_request() {
            return format!("{name}: {revision} only on request: {}", need.message);
        }
        let when = match self.not_before {
            None => format!("not in the foreseeable future ({waits})"),
            Some(_) if self.waits.is_empty() && needs.is_empty() => "now".to_owned(),
            Some(_) if self.waits.is_empty() => "after".to_owned(),
            Some(at) => format!("not before {} ({waits})", shown(at)),
        };
        let needs = match (needs.is_empty(), self.waits.is_empty()) {
            (true, _) => needs,
            (false, true) => format!(" {needs}"),
            (false, false) => format!(", and after {needs}"),
        };
        format!("{name}: {revision} {when}{needs}")
    }
}

/// What has to be resolved before anybody can approve the promotion.
fn unreadable_change(promotion: &PromotionSummary) -> Option<MissingCondition> {
    let message = promotion.message.as_deref()?;
    let cause = message.strip_prefix(CHANGE_NOT_KNOWN).unwrap_or(message);
    let cause = cause.trim_start_matches(": ");
    is_unapprovable(promotion.phase, Some(message)).then(|| MissingCondition {
        gate: "change".to_owned(),
        reason: promotion.reason.clone().unwrap_or_default(),
        message: message.to_owned(),
        resolved_by: format!("resolving why its change is not known ({cause})"),
    })
}

/// An open pull request waits for the forge, or for a person who merges it.
fn merge(promotion: &PromotionSummary) -> Option<MissingCondition> {
    if promotion.phase != Some(Phase::WaitingForMerge) {
        return None;
    }
    let url = promotion.url.as_deref().unwrap_or("the pull request");
    Some(MissingCondition {
        gate: "merge".to_owned(),
        reason: "WaitingForMerge".to_owned(),
        message: "its pull request is open".to_owned(),
        resolved_by: format!("the merge of {url}"),
    })
}

fn shown(at: Timestamp) -> String {
    at.strftime("%a %Y-%m-%d %H:%M UTC").to_string()
}
