//! What must hold for a commit that a process pushes.

use std::time::Duration;

use api::promotion::RolloutStatus;

use super::{Subject, Watchdog, trailer};
use crate::{
    forge::{Forge, MAIN},
    layout::{FLEET, environment_of, manifest, manifest_path, number, version_in},
};

/// What a person merges in the moment of a push cannot be known by it; what it proposes is closed again.
const MERGE_KNOWN: Duration = Duration::from_secs(1);
/// The times that objects have are whole seconds.
const WHOLE_SECOND: Duration = Duration::from_secs(1);
/// How long it may take until a failed target is known: a cluster may be cut off for a while, and its watch
/// has to begin again.
const FAILURE_KNOWN: Duration = Duration::from_secs(15 * 60);

impl Watchdog {
    pub(super) async fn check_push(&self, who: &str, branch: &str, commit: &str, forge: &Forge) {
        let message = forge.objects().text(commit).unwrap_or_default();
        let owner = trailer(&message, "Sluice-Owner: ").unwrap_or_default();
        let environment = owner.rsplit('/').next().unwrap_or_default().to_owned();
        let uid = trailer(&message, "Sluice-Promotion: ");
        let changed = self.changed_targets(branch, commit, &environment, forge);
        let path = changed.first().map(|target| manifest_path(target));
        let content = path.and_then(|path| forge.read(commit, &path));
        let subject = Subject {
            version: version_in(&content.unwrap_or_default()),
            promotion: self.promotion(uid.clone()).await,
            environment,
        };
        let what = format!("▶ pushes {branch} for {}", changed.join(", "));
        self.tell(who, &what, &subject);
        self.check_contents(commit, &changed, &subject, forge);
        self.check_promotion(&subject);
        self.check_freeze(&subject, forge);
        self.check_suspension(&subject);
        self.check_rejection(&subject);
        self.check_ticket(&subject);
        self.check_evidence(&subject, &changed, forge);
        let batch = uid.and_then(|uid| uid.rsplit_once('/')?.1.parse().ok());
        self.check_rollout(&subject, &changed, batch, forge);
    }

    /// The targets whose manifests the commit changes. It is on the right branch and changes nothing else.
    fn changed_targets(
        &self,
        branch: &str,
        commit: &str,
        environment: &str,
        forge: &Forge,
    ) -> Vec<String> {
        let is_right = match self.layout.commits_itself(environment) {
            true => branch == "main",
            false => branch.starts_with(&format!("promotion-default-app-{environment}")),
        };
        if !is_right {
            let text = format!("{environment} is pushed to {branch}");
            self.story.violation(text);
        }
        let objects = forge.objects();
        let base = objects.parent(commit).unwrap_or_default();
        let references = forge.references();
        if branch == "main" && references.get(MAIN) != Some(&base) {
            self.story
                .violation("a push to main drops what others pushed");
        }
        let base = objects.files(&base).unwrap_or_default();
        let files = objects.files(commit).unwrap_or_default();
        let mut targets = self.layout.targets_of(environment);
        let own: Vec<String> = targets.iter().map(|it| manifest_path(it)).collect();
        let differs = |path: &String| base.get(path) != files.get(path);
        let mut all = files.keys().chain(base.keys());
        if let Some(other) = all.find(|path| differs(path) && !own.contains(path)) {
            self.story
                .violation(format!("a promotion into {environment} changes {other}"));
        }
        targets.retain(|target| differs(&manifest_path(target)));
        targets
    }

    /// Nothing but the version is changed.
    fn check_contents(&self, commit: &str, changed: &[String], subject: &Subject, forge: &Forge) {
        for target in changed {
            let content = forge.read(commit, &manifest_path(target));
            let content = content.unwrap_or_default();
            if content != manifest(target, &subject.version) {
                self.story
                    .violation(format!("more than the version is changed: {content}"));
            }
        }
    }

    /// There is such a promotion, and people approved it where they must.
    fn check_promotion(&self, subject: &Subject) {
        let Some(spec) = subject.spec() else {
            return self.story.violation("a push without a promotion");
        };
        let pushed = (&subject.environment, &subject.version);
        if (&spec.environment, &spec.version) != pushed {
            let (environment, version) = (&spec.environment, &spec.version);
            let text = format!("the promotion is of {version} into {environment}");
            self.story.violation(text);
        }
        let must = self.layout.is_manual(&spec.environment) && !subject.is_requested();
        let key = (spec.environment.clone(), spec.version.clone());
        let is_approved = !spec.approvals.is_empty() && self.truth.lock().approved.contains(&key);
        if (must || spec.needs_approval) && !is_approved {
            self.story
                .violation(format!("{} is pushed without approval", spec.version));
        }
    }

    /// The ticket system let the version in, or a person overrode that.
    fn check_ticket(&self, subject: &Subject) {
        let (environment, version) = (&subject.environment, &subject.version);
        let is_derived = subject.spec().is_some_and(|spec| spec.cause.is_some());
        if !self.layout.needs_ticket(environment) || is_derived {
            return;
        }
        let truth = self.truth.lock();
        let key = (environment.clone(), version.clone());
        if !truth.ticketed.contains(version) && !truth.overridden.contains_key(&key) {
            let text = format!("{version} enters {environment} without its ticket");
            self.story.violation(text);
        }
    }

    /// What nobody asked for was ready in the environment before, and is newer than what is in git.
    fn check_evidence(&self, subject: &Subject, changed: &[String], forge: &Forge) {
        let (environment, version) = (&subject.environment, &subject.version);
        if subject.is_requested() {
            if !self.truth.lock().requested.contains(environment) {
                self.story
                    .violation(format!("nobody requested {version} in {environment}"));
            }
            return;
        }
        if subject.is_rollback() {
            if !self.has_run(environment, version) {
                self.story
                    .violation(format!("{version} never ran in {environment}"));
            }
            return;
        }
        let source = self.layout.source_of(environment);
        if !self.has_run(source, version) {
            let text = format!("{version} was never ready in {source}");
            self.story.violation(text);
        }
        let key = (source.to_owned(), version.clone());
        if self.layout.is_checked(source) && !self.truth.lock().passed.contains(&key) {
            let text = format!("{version} never passed its check in {source}");
            self.story.violation(text);
        }
        self.check_soak(source, version);
        for target in changed {
            let content = forge.read(MAIN, &manifest_path(target));
            let current = version_in(&content.unwrap_or_default());
            let failed = (target.clone(), current.clone());
            let truth = self.truth.lock();
            // What failed there is replaced by any other version that is newer than what runs.
            let is_failed = truth.failed.contains_key(&failed);
            let merged = truth.merged.get(&(environment.clone(), current.clone()));
            let is_just_merged = merged.is_some_and(|since| since.elapsed() < MERGE_KNOWN);
            drop(truth);
            if number(version) <= number(&current) && !is_failed && !is_just_merged {
                let text = format!("{version} is not newer than {current} on {target}");
                self.story.violation(text);
            }
        }
    }

    /// The version was ready in the environment before for the time that is asked for.
    fn check_soak(&self, source: &str, version: &str) {
        let truth = self.truth.lock();
        let key = (source.to_owned(), version.to_owned());
        let soaked = truth.ready.get(&key).map(|it| it.elapsed() + WHOLE_SECOND);
        let is_soaked = soaked.is_none_or(|it| it >= Duration::from_secs(self.layout.soak));
        // By a clock that was set, it may have been ready for longer.
        if !is_soaked && !truth.is_clock_set {
            let text = format!("{version} has not been ready in {source} for the soak time");
            self.story.violation(text);
        }
    }

    /// A batch was stored before it is carried out, comes after its wave, and leaves enough targets alone.
    fn check_rollout(
        &self,
        subject: &Subject,
        changed: &[String],
        batch: Option<i64>,
        forge: &Forge,
    ) {
        let Some(fleet) = self.layout.fleet.filter(|_| subject.environment == "prod") else {
            return;
        };
        let status = subject.promotion.as_ref().and_then(|it| it.status.as_ref());
        let Some(rollout) = status.and_then(|status| status.rollout.as_ref()) else {
            return self.story.violation("a push without a stored rollout");
        };
        self.check_batch(rollout, changed, batch);
        self.check_stop(subject, rollout, batch);
        let version = &subject.version;
        let in_flight = self.in_flight(version, changed, forge);
        if in_flight > fleet.max_concurrent {
            let text = format!("{in_flight} targets are in flight with {version}");
            self.story.violation(text);
        }
        let key = (FLEET[0].to_owned(), version.clone());
        let truth = self.truth.lock();
        let canary_ended = truth.ready.contains_key(&key) || truth.failed.contains_key(&key);
        if !canary_ended && changed.iter().any(|target| target != FLEET[0]) {
            let text = format!("{version} is rolled out before the canary has it");
            self.story.violation(text);
        }
        let known = truth.failed.iter().filter(|((target, failed), since)| {
            let is_same = environment_of(target) == subject.environment && failed == version;
            is_same && since.elapsed() > FAILURE_KNOWN
        });
        let failures = known.count() as u64;
        if failures > fleet.max_failures && !truth.is_resumed && !subject.is_rollback() {
            let text = format!("{version} is rolled out although {failures} targets failed");
            self.story.violation(text);
        }
    }

    fn check_batch(&self, rollout: &RolloutStatus, changed: &[String], batch: Option<i64>) {
        for target in changed {
            let key = format!("{target}/{target}");
            let stored = rollout.targets.iter().find(|it| it.target == key);
            if stored.and_then(|it| it.batch) != batch || batch.is_none() {
                let text = format!("{target} is changed in batch {batch:?}, which is not stored");
                self.story.violation(text);
            }
        }
    }

    /// No batch starts after a stop.
    fn check_stop(&self, subject: &Subject, rollout: &RolloutStatus, batch: Option<i64>) {
        let promotion = subject.promotion.as_ref();
        let uid = promotion.and_then(|it| it.metadata.uid.clone());
        let uid = uid.unwrap_or_default();
        let mut truth = self.truth.lock();
        if rollout.stopped.is_none() {
            truth.stopped.remove(&uid);
            return;
        }
        let known = *truth.stopped.entry(uid).or_insert(rollout.batches.len());
        if batch.is_some_and(|batch| usize::try_from(batch).is_ok_and(|it| it > known)) {
            self.story
                .violation("a batch was started after the rollout had stopped");
        }
    }

    /// How many targets are neither ready nor failed with a version that git asks for, or soon will.
    fn in_flight(&self, version: &str, changed: &[String], forge: &Forge) -> u64 {
        let truth = self.truth.lock();
        let is_in_flight = |target: &&str| {
            let content = forge.read(MAIN, &manifest_path(target));
            let is_asked = version_in(&content.unwrap_or_default()) == version;
            let key = ((*target).to_owned(), version.to_owned());
            let has_ended = truth.ready.contains_key(&key) || truth.failed.contains_key(&key);
            changed.iter().any(|it| it == target) || (is_asked && !has_ended)
        };
        FLEET.iter().filter(|target| is_in_flight(target)).count() as u64
    }
}
