//! Source environments in the simulation: what each of them was seen to vouch for, and that nothing starts
//! without that.

use api::{
    Promotion,
    check_run::{CheckCause, CheckVerdict},
    pipeline::{PromotionSettings, When},
};

use crate::simulation::{Simulation, Truth, is_older};

impl Simulation {
    /// The environments that an environment comes after.
    pub(crate) fn sources(&self, environment: &str) -> Vec<String> {
        let mut environments = self.world.pipeline.spec.environments.iter();
        let environment = environments.find(|it| it.name == environment).unwrap();
        match (&environment.after, environment.name.as_str()) {
            (Some(names), _) => names.clone(),
            (None, "dev") => Vec::new(),
            (None, _) => vec!["dev".to_owned()],
        }
    }

    pub(crate) fn settings(&self, environment: &str) -> &PromotionSettings {
        self.world
            .pipeline
            .spec
            .promotion_into(environment)
            .unwrap()
    }

    pub(crate) fn one_is_enough(&self, environment: &str) -> bool {
        self.settings(environment).when == Some(When::AnyTargetReady)
    }

    /// Notes what every environment is ready at, fails at, and what passed its checks.
    pub(crate) fn note_evidence(&mut self) {
        let truth = self.truth.clone();
        for (environment, targets) in &truth {
            let key = |it: &Truth| (environment.clone(), it.revision.clone());
            for truth in targets.iter().filter(|it| it.reachable) {
                if let Some(failed) = &truth.failed {
                    let failed = (environment.clone(), failed.clone());
                    self.ready.iter_mut().for_each(|it| {
                        it.remove(&failed);
                    });
                }
            }
            let is_ready = |it: &&Truth| it.reachable && it.ready;
            for truth in targets.iter().filter(is_ready) {
                self.ready[0].insert(key(truth));
                let is_same = |it: &Truth| is_ready(&it) && it.revision == truth.revision;
                if targets.iter().all(is_same) {
                    self.ready[1].insert(key(truth));
                }
            }
        }
        let runs: Vec<_> = self.world.runs.iter().map(|it| it.spec.clone()).collect();
        for run in runs.iter().filter(|it| it.cause == CheckCause::Verify) {
            let key = (run.environment.clone(), run.revision.clone());
            match self.verdict(&run.environment, CheckCause::Verify, &run.revision) {
                CheckVerdict::Passed => {
                    self.passed.insert(key);
                }
                CheckVerdict::Failed => {
                    self.passed.remove(&key);
                }
                _ => {}
            }
        }
    }

    /// Every source environment vouches for what starts.
    pub(crate) fn check_sources(&self, promotion: &Promotion) {
        let spec = &promotion.spec;
        let (environment, revision) = (spec.environment.as_str(), spec.revision.as_str());
        let sources = self.sources(environment);
        assert!(!sources.is_empty(), "nothing comes before {environment}");
        for source in &sources {
            match sources.len() {
                1 => self.check_only_source(source, environment, revision),
                _ => self.check_one_of_several(source, environment, revision),
            }
        }
    }

    /// The only source is ready at the revision, which has passed its checks.
    fn check_only_source(&self, source: &str, environment: &str, revision: &str) {
        let verdict = self.verdict(source, CheckCause::Verify, revision);
        let has_passed = !self.verifies(source) || verdict == CheckVerdict::Passed;
        assert!(has_passed, "{revision} starts, {verdict:?} in {source}");
        let is_ready = self.is_ready_at(source, environment, revision);
        let targets = &self.truth[source];
        assert!(is_ready, "{revision} is not verified in {targets:?}");
    }

    /// One of several was ready at the revision, which passed its checks, and neither failed, rejected it nor
    /// went back to an older one.
    fn check_one_of_several(&self, source: &str, environment: &str, revision: &str) {
        let status = &self.world.model().environments[source];
        let is_rejected = status.rejected.iter().any(|it| it == revision);
        assert!(!is_rejected, "{revision} is rejected in {source}");
        let is_ready = self.is_ready_at(source, environment, revision);
        let targets = self.truth[source].iter().filter(|it| it.reachable);
        let mut older = targets.filter(|it| is_older(&it.revision, revision));
        assert!(
            is_ready || older.next().is_none(),
            "{source} went back from {revision}"
        );
        if self.is_set_back {
            return;
        }
        let key = (source.to_owned(), revision.to_owned());
        let has_passed = !self.verifies(source) || self.passed.contains(&key);
        assert!(has_passed, "{revision} did not pass in {source}");
        let was_ready = self.ready[usize::from(!self.one_is_enough(environment))].contains(&key);
        assert!(
            was_ready,
            "{revision} was never ready in {source}, or failed"
        );
    }

    fn is_ready_at(&self, source: &str, environment: &str, revision: &str) -> bool {
        let vouches = |truth: &Truth| truth.reachable && truth.ready && truth.revision == revision;
        let mut targets = self.truth[source].iter();
        match self.one_is_enough(environment) {
            true => targets.any(vouches),
            false => targets.all(vouches),
        }
    }
}
