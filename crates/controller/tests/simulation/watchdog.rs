//! Judges every side effect at the moment it happens, by what the simulation knows to be true.

mod push;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::Promotion;
use http::StatusCode;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::ListParams};
use parking_lot::Mutex;
use testbed::forge_doubles::StoredPullRequest;
use tokio::time::Instant;

use crate::{
    forge::{Forge, MAIN},
    layout::{self, Layout},
    story::Story,
};

/// How long a side effect can be under way that was checked before it began.
const UNDER_WAY: Duration = Duration::from_secs(30);
/// How long an override is valid.
const OVERRIDE: Duration = Duration::from_secs(60 * 60);
pub(crate) const LEASE: &str = "sluice";

/// Something that a process changes outside the hub.
pub(crate) enum SideEffect {
    Push { branch: String, commit: String },
    Open(StoredPullRequest),
    Reopen(StoredPullRequest),
    Merge(StoredPullRequest),
    Close(StoredPullRequest),
}

/// What people and clusters did.
#[derive(Default)]
pub(crate) struct Truth {
    /// Target and version that ran and were ready, and since when first.
    pub(crate) ready: BTreeMap<(String, String), Instant>,
    /// Whether the clock that processes read was ever set.
    pub(crate) is_clock_set: bool,
    /// Target and version that could not be deployed, and since when.
    pub(crate) failed: BTreeMap<(String, String), Instant>,
    /// Environment and version that a person let pass a Freeze or a check, and when.
    pub(crate) overridden: BTreeMap<(String, String), Instant>,
    /// The versions that the ticket system will not let into prod.
    pub(crate) denied: BTreeSet<String>,
    /// The versions that the ticket system let into prod.
    pub(crate) ticketed: BTreeSet<String>,
    /// The promotions whose rollout is stopped, and how many batches it had then.
    stopped: BTreeMap<String, usize>,
    /// Whether a person resumed a rollout.
    pub(crate) is_resumed: bool,
    /// Environment and version that a person rejected, and since when.
    pub(crate) rejected: BTreeMap<(String, String), Instant>,
    /// The environments that are frozen, and since when.
    pub(crate) frozen: BTreeMap<String, Instant>,
    /// The environments for which a person ever requested something.
    pub(crate) requested: BTreeSet<String>,
    /// Environment and version that a check does not pass for.
    pub(crate) unsound: BTreeSet<(String, String)>,
    /// Environment and version that a check has passed for.
    pub(crate) passed: BTreeSet<(String, String)>,
    /// Environment and version that git had after a person merged a pull request, and since when.
    pub(crate) merged: BTreeMap<(String, String), Instant>,
    /// Environment and version that a person approved, or tried to.
    pub(crate) approved: BTreeSet<(String, String)>,
    /// Since when the pipeline is suspended.
    pub(crate) suspended: Option<Instant>,
    /// How many side effects there were.
    pub(crate) effects: usize,
}

pub(crate) struct Watchdog {
    /// The hub, in any weather.
    hub: Client,
    story: Story,
    layout: Layout,
    pub(crate) truth: Mutex<Truth>,
}

/// What a side effect is about.
struct Subject {
    environment: String,
    version: String,
    promotion: Option<Promotion>,
}

impl Subject {
    fn spec(&self) -> Option<&api::promotion::PromotionSpec> {
        self.promotion.as_ref().map(|it| &it.spec)
    }

    /// Whether a person asked for it.
    fn is_requested(&self) -> bool {
        self.spec().is_some_and(|spec| spec.request.is_some())
    }

    fn is_rollback(&self) -> bool {
        let is_asked = |spec: &api::promotion::PromotionSpec| {
            let kind = spec.request.as_ref().map(|request| request.kind);
            kind == Some(api::pipeline::RequestKind::Rollback)
        };
        self.spec()
            .is_some_and(|spec| spec.cause.is_some() || is_asked(spec))
    }
}

impl Watchdog {
    /// A release is ready in a target.
    pub(crate) fn saw_ready(&self, target_and_version: (String, String)) {
        let mut truth = self.truth.lock();
        let seen = truth.ready.entry(target_and_version);
        seen.or_insert_with(Instant::now);
    }

    /// A release failed in a target.
    pub(crate) fn saw_failure(&self, target_and_version: (String, String)) {
        let mut truth = self.truth.lock();
        let seen = truth.failed.entry(target_and_version);
        seen.or_insert_with(Instant::now);
    }

    pub(crate) fn new(hub: Client, story: Story, layout: Layout) -> Self {
        Self {
            hub,
            story,
            layout,
            truth: Mutex::default(),
        }
    }

    /// Judges a side effect that happens now.
    pub(crate) async fn observe(&self, who: &str, effect: &SideEffect, forge: &Forge) {
        self.truth.lock().effects += 1;
        self.check_lease(who).await;
        match effect {
            SideEffect::Push { branch, commit } => {
                self.check_push(who, branch, commit, forge).await
            }
            SideEffect::Open(pull) | SideEffect::Reopen(pull) => {
                let subject = self.subject_of(pull).await;
                self.tell(who, &format!("▶ opens #{}", pull.number), &subject);
                self.check_pull_requests(pull, forge);
                self.check_freeze(&subject, forge);
                self.check_suspension(&subject);
            }
            SideEffect::Merge(pull) => {
                let subject = self.subject_of(pull).await;
                self.tell(who, &format!("▶ merges #{}", pull.number), &subject);
                self.check_freeze(&subject, forge);
                self.check_suspension(&subject);
                self.check_rejection(&subject);
                if !self.layout.merges_itself(&subject.environment) {
                    self.story.violation("a merge that people are to do");
                }
            }
            SideEffect::Close(pull) => {
                let subject = self.subject_of(pull).await;
                self.tell(who, &format!("▶ closes #{}", pull.number), &subject);
            }
        }
    }

    fn tell(&self, who: &str, what: &str, subject: &Subject) {
        let (environment, version) = (&subject.environment, &subject.version);
        self.story
            .tell(who, format!("{what}: {environment} {version}"));
    }

    /// Nobody but the holder of the Lease has a side effect.
    async fn check_lease(&self, who: &str) {
        let leases: Api<Lease> = Api::namespaced(self.hub.clone(), "default");
        let lease = leases.get_opt(LEASE).await.ok().flatten();
        let holder = lease.and_then(|it| it.spec?.holder_identity);
        if holder.as_deref() != Some(who) {
            let text = format!("{who} has a side effect while {holder:?} holds the Lease");
            self.story.violation(text);
        }
    }

    fn check_suspension(&self, subject: &Subject) {
        let since = self.truth.lock().suspended;
        if since.is_some_and(|since| since.elapsed() > UNDER_WAY) {
            let environment = &subject.environment;
            let text = format!("{environment} is changed although the pipeline is suspended");
            self.story.violation(text);
        }
    }

    /// What a check measures: whether a version works in an environment, as `ENVIRONMENT/VERSION`.
    pub(crate) fn measure(&self, who: &str, what: &str) -> StatusCode {
        let (environment, version) = what.split_once('/').unwrap_or_default();
        let key = (environment.to_owned(), version.to_owned());
        let mut truth = self.truth.lock();
        if truth.unsound.contains(&key) {
            self.story.tell(who, format!("measures {what}: it fails"));
            return StatusCode::INTERNAL_SERVER_ERROR;
        }
        truth.passed.insert(key);
        StatusCode::OK
    }

    fn check_freeze(&self, subject: &Subject, forge: &Forge) {
        let truth = self.truth.lock();
        let since = truth.frozen.get(&subject.environment);
        let is_frozen = since.is_some_and(|since| since.elapsed() > UNDER_WAY);
        let key = (subject.environment.clone(), subject.version.clone());
        let overridden = truth.overridden.get(&key);
        let is_overridden = overridden.is_some_and(|at| at.elapsed() < OVERRIDE + UNDER_WAY);
        drop(truth);
        if is_frozen && !is_overridden && !self.returns_to_earlier(subject, forge) {
            let environment = &subject.environment;
            self.story
                .violation(format!("{environment} is changed although it is frozen"));
        }
    }

    /// Whether it is a rollback, whatever it calls itself: the version ran here and is no newer than what git
    /// has.
    fn returns_to_earlier(&self, subject: &Subject, forge: &Forge) -> bool {
        let targets = self.layout.targets_of(&subject.environment);
        let in_git = |target: &String| {
            let content = forge.read(MAIN, &layout::manifest_path(target));
            layout::number(&layout::version_in(&content.unwrap_or_default()))
        };
        let newest = targets.iter().map(in_git).max();
        let has_run = self.has_run(&subject.environment, &subject.version);
        has_run && Some(layout::number(&subject.version)) <= newest
    }

    /// Whether a version was ready on a target of an environment.
    fn has_run(&self, environment: &str, version: &str) -> bool {
        let truth = self.truth.lock();
        let targets = self.layout.targets_of(environment).into_iter();
        let mut keys = targets.map(|target| (target, version.to_owned()));
        keys.any(|key| truth.ready.contains_key(&key))
    }

    fn check_rejection(&self, subject: &Subject) {
        let key = (subject.environment.clone(), subject.version.clone());
        let since = self.truth.lock().rejected.get(&key).copied();
        let is_rejected = since.is_some_and(|since| since.elapsed() > UNDER_WAY);
        // Who rejects a rollback takes it back: a later one may go back there.
        if is_rejected && !subject.is_requested() && !subject.is_rollback() {
            let (environment, version) = key;
            self.story
                .violation(format!("{version} was rejected for {environment}"));
        }
    }

    /// A site has one open pull request, and a promotion one at all.
    fn check_pull_requests(&self, opened: &StoredPullRequest, forge: &Forge) {
        let pulls = forge.pulls();
        let environment = environment_of_pull(opened);
        let is_same = |pull: &&StoredPullRequest| environment_of_pull(pull) == environment;
        let open = pulls.iter().filter(|pull| pull.is_open).filter(is_same);
        if open.count() > 1 {
            let text = format!("there are two open pull requests into {environment}");
            self.story.violation(text);
        }
        let uid = trailer(&opened.body, "Sluice-Promotion: ");
        let same = pulls
            .iter()
            .filter(|pull| trailer(&pull.body, "Sluice-Promotion: ") == uid);
        if same.count() > 1 {
            let text = format!("#{} is the second one of its promotion", opened.number);
            self.story.violation(text);
        }
    }

    async fn subject_of(&self, pull: &StoredPullRequest) -> Subject {
        let uid = trailer(&pull.body, "Sluice-Promotion: ");
        let promotion = self.promotion(uid).await;
        Subject {
            environment: environment_of_pull(pull).to_owned(),
            version: version_of_pull(pull).to_owned(),
            promotion,
        }
    }

    async fn promotion(&self, uid: Option<String>) -> Option<Promotion> {
        let promotions: Api<Promotion> = Api::namespaced(self.hub.clone(), "default");
        let all = promotions.list(&ListParams::default()).await.ok()?;
        let mut all = all.items.into_iter();
        // A batch of a rollout has a number after the uid.
        let uid = uid?.split('/').next()?.to_owned();
        all.find(|it| it.metadata.uid.as_ref() == Some(&uid))
    }
}

pub(crate) fn environment_of_pull(pull: &StoredPullRequest) -> &str {
    layout::environment_of(pull.head.trim_start_matches("promotion-default-app-"))
}

pub(crate) fn version_of_pull(pull: &StoredPullRequest) -> &str {
    let (_, version) = pull.title.rsplit_once(" to ").unwrap_or_default();
    version.split(',').next().unwrap_or_default()
}

/// The value of a trailer in a commit message or the text of a pull request.
pub(crate) fn trailer(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().rev();
    let value = lines.find_map(|line| line.trim().strip_prefix(name))?;
    Some(value.trim().to_owned())
}
