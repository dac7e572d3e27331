//! Signatures in the simulation: what Flux says about the sources of both environments, and that nothing goes
//! on which it did not verify, where that is required.

use api::Promotion;

use crate::simulation::Simulation;

impl Simulation {
    /// From now on only what Flux verified may enter prod.
    pub(crate) fn require_verified_source(&mut self) {
        let spec = &mut self.world.pipeline.spec;
        let mut environments = spec.environments.iter_mut();
        let prod = environments.find(|it| it.name == "prod").unwrap();
        let settings = prod.promotion.as_mut().or(spec.promotion.as_mut());
        settings.unwrap().require_verified_source = true;
    }

    /// The source of a target says that it is verified, that it is not, or nothing.
    pub(crate) fn say_signed(&mut self, environment: &str, target: usize, said: Option<bool>) {
        let targets = self.truth.get_mut(environment).unwrap();
        let index = target % targets.len();
        targets[index].signed = said;
    }

    /// Notes which revisions were seen to be verified, and which were not. What all sources vouched for counts
    /// where it was brought.
    pub(crate) fn note_verified(&mut self) {
        for (environment, targets) in &self.truth {
            for truth in targets.iter().filter(|it| it.reachable) {
                let key = (environment.clone(), truth.revision.clone());
                if truth.signed == Some(true) {
                    self.verified.insert(key);
                }
            }
            for truth in targets.iter().filter(|it| it.reachable) {
                let key = (environment.clone(), truth.revision.clone());
                if truth.signed == Some(false) {
                    self.verified.remove(&key);
                }
            }
        }
        for (environment, status) in &self.world.model().environments {
            for ran in &status.ran {
                if self.is_verified_before(environment, &ran.revision) {
                    let key = (environment.clone(), ran.revision.clone());
                    self.verified.insert(key);
                }
            }
        }
    }

    /// Whether a revision is verified in everything that an environment comes after.
    fn is_verified_before(&self, environment: &str, revision: &str) -> bool {
        let sources = self.sources(environment);
        let mut verified = sources.iter().map(|it| self.is_verified_in(it, revision));
        !sources.is_empty() && verified.all(|it| it)
    }

    fn is_verified_in(&self, environment: &str, revision: &str) -> bool {
        let key = (environment.to_owned(), revision.to_owned());
        self.verified.contains(&key)
    }

    /// Nothing starts, is pushed or merged that was never seen to be verified, or that was denied since.
    pub(crate) fn check_signed(&self, promotion: &Promotion) {
        let (environment, revision) = (&promotion.spec.environment, &promotion.spec.revision);
        let settings = self.settings(environment);
        let is_verified = self.is_verified_in(environment, revision)
            || self.is_verified_before(environment, revision);
        assert!(
            is_verified || !settings.require_verified_source,
            "{revision} goes on without a verified source"
        );
    }

    /// A signed artifact of the revision is deployed in everything that prod comes after, and Flux verifies it.
    pub(crate) fn sign_in_sources(&mut self, revision: &str) {
        let sources = self.sources("prod");
        let sources = self
            .truth
            .iter_mut()
            .filter(|(name, _)| sources.contains(name));
        for truth in sources.flat_map(|(_, targets)| targets) {
            truth.reachable = true;
            truth.ready = true;
            truth.failed = None;
            truth.signed = Some(true);
            if !revision.is_empty() {
                truth.revision = revision.to_owned();
            }
        }
    }
}
