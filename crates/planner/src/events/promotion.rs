//! Events of a promotion: people approved it, it entered another phase, or it waits for something else.

use api::{
    Promotion,
    promotion::{Approval, Phase, PromotionStatus},
};

use super::PipelineEvent;
use crate::hold::HoldReason;

/// The events between the stored status of a promotion and the next one; none between equal ones.
pub fn promotion_events(promotion: &Promotion, now: &PromotionStatus) -> Vec<PipelineEvent> {
    let nothing = PromotionStatus::default();
    let before = promotion.status.as_ref().unwrap_or(&nothing);
    let given = promotion.spec.approvals.iter();
    let new = given.filter(|it| !is_recorded(it, before) && is_recorded(it, now));
    let approvals = new.map(|it| approved(promotion, it));
    approvals.chain(phase(promotion, before, now)).collect()
}

fn is_recorded(approval: &Approval, status: &PromotionStatus) -> bool {
    let mut recorded = status.approvals.iter();
    recorded.any(|it| it.by == approval.by && it.at == approval.at)
}

fn approved(promotion: &Promotion, approval: &Approval) -> PipelineEvent {
    let shown = promotion.spec.shown_revision();
    let note = approval.note.as_deref().filter(|it| !it.is_empty());
    let note = note.map(|note| format!(": {note}")).unwrap_or_default();
    let text = format!("{} approved {shown}{note}", approval.by);
    event(promotion, "Approved", &text, false)
}

fn phase(
    promotion: &Promotion,
    before: &PromotionStatus,
    now: &PromotionStatus,
) -> Option<PipelineEvent> {
    let is_same = before.phase == now.phase && before.reason == now.reason;
    let phase = now.phase.filter(|_| !is_same)?;
    let message = now.message.as_deref().unwrap_or_default();
    let shown = promotion.spec.shown_revision();
    let url = now.url.as_deref().map(|url| format!(" {url}"));
    let url = url.unwrap_or_default();
    // Most messages name the revision.
    let text = match message.contains(&*shown) {
        true => format!("{message}{url}"),
        false => format!("{shown}: {message}{url}"),
    };
    let reason = now.reason.clone().unwrap_or_else(|| format!("{phase:?}"));
    Some(event(promotion, &reason, &text, is_warning(phase, now)))
}

/// Whether somebody should look at it: it failed, is retried, or its rollout is stopped.
fn is_warning(phase: Phase, status: &PromotionStatus) -> bool {
    let is_stopped = status.reason.as_deref() == Some(HoldReason::RolloutStopped.word());
    phase == Phase::Failed || status.next_attempt.is_some() || is_stopped
}

fn event(promotion: &Promotion, reason: &str, text: &str, is_warning: bool) -> PipelineEvent {
    let environment = &promotion.spec.environment;
    PipelineEvent {
        is_warning,
        reason: reason.to_owned(),
        message: format!("{environment}: {text}"),
        environment: Some(environment.clone()),
        revision: Some(promotion.spec.revision.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn promotion(approvals: &Value, status: &Value) -> Promotion {
        let spec = json!({
            "pipeline": "web", "environment": "prod", "revision": "2.0.0", "version": "2.0.0",
            "approvals": approvals, "strategy": {},
        });
        let promotion = json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Promotion",
            "metadata": {"name": "web-prod-1"}, "spec": spec, "status": status,
        });
        serde_json::from_value(promotion).unwrap()
    }

    fn check(approvals: Value, before: Value, now: Value, expected: &[&str]) {
        let promotion = promotion(&approvals, &before);
        let now: PromotionStatus = serde_json::from_value(now).unwrap();
        let events = promotion_events(&promotion, &now).into_iter();
        let texts: Vec<String> = events
            .map(|it| format!("{} {}", it.reason, it.message))
            .collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn approvals_are_told_once_with_their_note() {
        let (ann, bob) = (json!({"by": "ann"}), json!({"by": "bob", "note": "go"}));
        let waits = |approvals: Value| json!({"phase": "AwaitingApproval", "approvals": approvals});
        let (one, two) = (json!([ann]), json!([ann, {"by": "bob"}]));
        let given = json!([ann, bob]);
        let first = "Approved prod: ann approved 2.0.0";
        let second = "Approved prod: bob approved 2.0.0: go";
        check(
            given.clone(),
            waits(json!([])),
            waits(one.clone()),
            &[first],
        );
        check(
            given.clone(),
            waits(one.clone()),
            waits(two.clone()),
            &[second],
        );
        check(given.clone(), waits(two.clone()), waits(two), &[]);
        check(json!([]), waits(one), waits(json!([])), &[]);
    }

    #[test]
    fn a_message_that_begins_with_the_revision_does_not_repeat_it() {
        let status = |message: &str| json!({"phase": "AwaitingApproval", "message": message});
        let needs = "AwaitingApproval prod: 2.0.0 needs 2 approvals";
        check(
            json!([]),
            json!({}),
            status("2.0.0 needs 2 approvals"),
            &[needs],
        );
        let waits = "AwaitingApproval prod: 2.0.0: somebody must approve";
        check(
            json!([]),
            json!({}),
            status("somebody must approve"),
            &[waits],
        );
        let again = status("somebody must approve");
        check(json!([]), again.clone(), again, &[]);
    }

    #[test]
    fn what_somebody_should_look_at_is_a_warning() {
        for (status, expected) in [
            (json!({"phase": "Failed"}), true),
            (
                json!({"phase": "Running", "nextAttempt": "2026-11-20T08:00:00Z"}),
                true,
            ),
            (
                json!({"phase": "Running", "reason": "RolloutStopped"}),
                true,
            ),
            (json!({"phase": "Running", "reason": "Frozen"}), false),
            (json!({"phase": "Succeeded"}), false),
        ] {
            let now: PromotionStatus = serde_json::from_value(status.clone()).unwrap();
            let events = promotion_events(&promotion(&json!([]), &json!({})), &now);
            assert_eq!(events.len(), 1, "{status}");
            assert_eq!(events[0].is_warning, expected, "{status}");
        }
    }
}
