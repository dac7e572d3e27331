//! The answer of every gate about the revision that an environment should get next.
//!
//! Nothing is decided here: the answers are for people, for the forecast, and for when to plan again.

use api::revision::identity;

use super::{
    candidate::Candidate,
    environment::EnvironmentDecision,
    site::{SiteDecision, SitePlanner, WantedRevision},
};
use crate::{
    conditions::cut,
    gate::{
        self, CandidateQuestion, EnvironmentQuestion, GateAnswer, GateVerdict, PromotionQuestion,
        Questions, SiteQuestion,
    },
    hold::Hold,
    promotion_phase::is_unmerged,
    site_state::SiteState,
};

/// The longest caution, in bytes.
const LONGEST_CAUTION: usize = 1000;

/// The answers of all gates about one revision.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// The revision as people read it.
    pub(super) revision: Option<String>,
    pub(super) gates: Vec<GateAnswer>,
}

impl Answers {
    /// The answers about a promotion under way.
    pub(super) fn of_promotion(question: &PromotionQuestion<'_>) -> Self {
        Self {
            revision: Some(question.promotion.spec.shown_revision()),
            gates: gate::answers_of_promotion(question),
        }
    }

    /// Adds the answers for another site.
    pub(super) fn add(&mut self, other: Self) {
        if self.gates.is_empty() {
            *self = other;
        } else if !other.gates.is_empty() {
            self.gates = gate::merge(std::mem::take(&mut self.gates), other.gates);
        }
    }

    /// The first hold that the pipeline's status tells of.
    pub(super) fn first_hold(&self) -> Option<Hold> {
        let mut holds = self.gates.iter().filter_map(GateAnswer::hold);
        holds.find(|hold| !hold.is_short()).cloned()
    }

    /// Sees to it that a hold which is of no site is among the answers.
    fn include(&mut self, hold: &Hold) {
        let of_hold = |answer: &&mut GateAnswer| answer.gate == hold.reason.gate();
        let answer = self.gates.iter_mut().find(of_hold);
        if let Some(answer) = answer.filter(|answer| !answer.verdict.is_closed()) {
            answer.verdict = GateVerdict::Wait(hold.clone());
        }
    }
}

impl SitePlanner<'_> {
    /// What the environment as a whole is asked.
    pub(super) fn environment_question(&self) -> EnvironmentQuestion<'_> {
        EnvironmentQuestion {
            pipeline: self.input.pipeline,
            model: self.input.model,
            environment: self.environment,
            settings: self.settings,
        }
    }

    /// Holds the environment as a whole, with the answers about a revision that its source has.
    pub(super) fn hold_all(
        &self,
        hold: Hold,
        next: Option<&Candidate<'_>>,
        decision: &mut EnvironmentDecision,
    ) {
        let rejected = &decision.says.rejected;
        let is_settled = |site: &SiteState<'_>| next.is_some_and(|it| site.runs(&it.revision));
        let are_settled = self.sites.iter().all(is_settled);
        // Of a revision that every site runs, no gate keeps anything out.
        let wanted = next.filter(|_| !are_settled).map(WantedRevision::of);
        let mut all = Answers::default();
        for site in self
            .sites
            .iter()
            .filter(|it| are_settled || !is_settled(it))
        {
            all.add(self.answers_about(wanted.as_ref(), site, rejected));
        }
        if self.sites.is_empty() {
            all.gates = gate::answers(&self.questions(None, None, next));
        }
        all.include(&hold);
        decision.says.hold = Some(hold);
        decision.answers = all;
    }

    /// The answers about a revision in a site, or about its promotion there.
    fn answers_about(
        &self,
        wanted: Option<&WantedRevision>,
        site: &SiteState<'_>,
        rejected: &[String],
    ) -> Answers {
        let under_way = wanted.and_then(|wanted| self.under_way(wanted, site, rejected));
        match under_way.filter(|promotion| is_unmerged(promotion)) {
            Some(promotion) => Answers::of_promotion(&self.question(promotion, site, rejected)),
            None => {
                let question = wanted.map(|wanted| self.site_question(wanted, site, rejected));
                self.answers(question, site, rejected)
            }
        }
    }

    /// The answers about a revision that has no promotion in the site yet.
    pub(super) fn answers_for(&self, question: SiteQuestion<'_>) -> Answers {
        let (site, rejected) = (question.site, question.rejected);
        self.answers(Some(question), site, rejected)
    }

    fn answers(
        &self,
        question: Option<SiteQuestion<'_>>,
        site: &SiteState<'_>,
        rejected: &[String],
    ) -> Answers {
        let wanted = question.as_ref().map(|question| question.wanted);
        let promotion = wanted.map(|wanted| self.promotion(wanted, site));
        let asked = promotion
            .as_ref()
            .map(|it| self.question(it, site, rejected));
        let all = [&self.candidate, &self.prospect];
        let mut all = all.into_iter().flatten();
        let next = wanted.and_then(|wanted| all.find(|it| it.revision == wanted.revision));
        Answers {
            revision: wanted.map(WantedRevision::shown),
            gates: gate::answers(&self.questions(question, asked, next)),
        }
    }

    /// All questions about a revision; about its source only where nobody requested it.
    fn questions<'b>(
        &'b self,
        site: Option<SiteQuestion<'b>>,
        promotion: Option<PromotionQuestion<'b>>,
        candidate: Option<&'b Candidate<'b>>,
    ) -> Questions<'b> {
        let is_requested = site.as_ref().is_some_and(|it| it.wanted.request.is_some());
        let candidate = candidate.map(|candidate| CandidateQuestion {
            spec: self.input.spec,
            sites: &self.sites,
            candidate,
        });
        Questions {
            environment: self.environment_question(),
            source: (!is_requested).then_some(&self.source),
            candidate: candidate.filter(|_| !is_requested),
            site,
            promotion,
        }
    }
}

impl EnvironmentDecision {
    /// Collects the answers for a site.
    pub(super) fn collect(&mut self, decision: &mut SiteDecision) {
        self.answers.add(std::mem::take(&mut decision.answers));
    }

    /// Puts the answers into the plan; when time alone changes one, it is planned again.
    pub(super) fn finish(mut self) -> Self {
        self.says.gates = self.answers.gates.split_off(0);
        self.says.next = self.answers.revision.take();
        self.add_caution();
        let gates = self.says.gates.iter();
        let opens_at = gates.filter_map(|answer| answer.hold()?.opens_at).min();
        let times = [self.says.requeue_at, opens_at];
        self.says.requeue_at = times.into_iter().flatten().min();
        self
    }

    /// Puts what people should know before they approve into the summary of the promotion that the answers are
    /// about.
    fn add_caution(&mut self) {
        let next = self.says.next.as_deref().map(identity);
        let promotion = self.says.promotion.as_mut();
        let promotion = promotion.filter(|it| Some(it.revision.as_str()) == next);
        let open = promotion.filter(|it| it.phase.is_none_or(|phase| !phase.is_terminal()));
        if let Some(promotion) = open {
            let caution = gate::caution(&self.says.gates);
            promotion.caution = caution.map(|it| cut(&it, LONGEST_CAUTION));
        }
    }
}
