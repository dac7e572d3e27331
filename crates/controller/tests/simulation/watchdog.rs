//! Judges every side effect at the moment it happens, by what the simulation knows to be true.

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
    story::Story,
    world::{self, Layout},
};

/// How long a side effect can be under way that was checked before it began.
const UNDER_WAY: Duration = Duration::from_secs(30);
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
    /// Environment and version that ran and were ready.
    pub(crate) ready: BTreeSet<(String, String)>,
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
                self.check_freeze(&subject);
                self.check_suspension(&subject);
            }
            SideEffect::Merge(pull) => {
                let subject = self.subject_of(pull).await;
                self.tell(who, &format!("▶ merges #{}", pull.number), &subject);
                self.check_freeze(&subject);
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

    async fn check_push(&self, who: &str, branch: &str, commit: &str, forge: &Forge) {
        let message = forge.objects().text(commit).unwrap_or_default();
        let owner = trailer(&message, "Sluice-Owner: ").unwrap_or_default();
        let environment = owner.rsplit('/').next().unwrap_or_default().to_owned();
        let path = world::manifest_path(&environment);
        let content = forge.read(commit, &path).unwrap_or_default();
        let subject = Subject {
            version: world::version_in(&content),
            promotion: self
                .promotion(trailer(&message, "Sluice-Promotion: "))
                .await,
            environment,
        };
        self.tell(who, &format!("▶ pushes {branch}"), &subject);
        if content != world::manifest(&subject.environment, &subject.version) {
            self.story
                .violation(format!("more than the version is changed: {content}"));
        }
        self.check_branch(branch, commit, &subject, forge);
        self.check_promotion(&subject);
        self.check_freeze(&subject);
        self.check_suspension(&subject);
        self.check_rejection(&subject);
        self.check_evidence(&subject, forge);
    }

    /// The commit is on the right branch and changes nothing but the manifest of its environment.
    fn check_branch(&self, branch: &str, commit: &str, subject: &Subject, forge: &Forge) {
        let environment = &subject.environment;
        let expected = match self.layout.commits_itself(environment) {
            true => "main".to_owned(),
            false => format!("promotion-default-app-{environment}"),
        };
        if branch != expected {
            self.story
                .violation(format!("{environment} is pushed to {branch}"));
        }
        let objects = forge.objects();
        let base = objects.parent(commit).unwrap_or_default();
        let tip = forge
            .references()
            .get(&format!("refs/heads/{branch}"))
            .cloned();
        if branch == "main" && tip.as_ref() != Some(&base) {
            self.story
                .violation("a push to main drops what others pushed");
        }
        let base = objects.files(&base).unwrap_or_default();
        let files = objects.files(commit).unwrap_or_default();
        let own = world::manifest_path(environment);
        let others = |path: &&String| base.get(*path) != files.get(*path) && **path != own;
        if let Some(other) = files.keys().chain(base.keys()).find(others) {
            self.story
                .violation(format!("a promotion into {environment} changes {other}"));
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

    fn check_freeze(&self, subject: &Subject) {
        let truth = self.truth.lock();
        let since = truth.frozen.get(&subject.environment);
        let is_frozen = since.is_some_and(|since| since.elapsed() > UNDER_WAY);
        if is_frozen && !subject.is_rollback() {
            let environment = &subject.environment;
            self.story
                .violation(format!("{environment} is changed although it is frozen"));
        }
    }

    fn check_rejection(&self, subject: &Subject) {
        let key = (subject.environment.clone(), subject.version.clone());
        let since = self.truth.lock().rejected.get(&key).copied();
        let is_rejected = since.is_some_and(|since| since.elapsed() > UNDER_WAY);
        if is_rejected && !subject.is_requested() {
            let (environment, version) = key;
            self.story
                .violation(format!("{version} was rejected for {environment}"));
        }
    }

    /// What nobody asked for was ready in the environment before, and is newer than what is in git.
    fn check_evidence(&self, subject: &Subject, forge: &Forge) {
        let (environment, version) = (&subject.environment, &subject.version);
        let truth = self.truth.lock();
        if subject.is_requested() {
            if !truth.requested.contains(environment) {
                self.story
                    .violation(format!("nobody requested {version} in {environment}"));
            }
            return;
        }
        if subject.is_rollback() {
            if !truth
                .ready
                .contains(&(environment.clone(), version.clone()))
            {
                self.story
                    .violation(format!("{version} never ran in {environment}"));
            }
            return;
        }
        let source = self.layout.source_of(environment);
        if !truth.ready.contains(&(source.to_owned(), version.clone())) {
            let text = format!("{version} was never ready in {source}");
            self.story.violation(text);
        }
        let key = (source.to_owned(), version.clone());
        if self.layout.is_checked(source) && !truth.passed.contains(&key) {
            let text = format!("{version} never passed its check in {source}");
            self.story.violation(text);
        }
        let content = forge.read(MAIN, &world::manifest_path(environment));
        let current = world::version_in(&content.unwrap_or_default());
        if world::number(version) <= world::number(&current) {
            let text = format!("{version} is not newer than {current} in {environment}");
            self.story.violation(text);
        }
    }

    /// A site has one open pull request, and a promotion one at all.
    fn check_pull_requests(&self, opened: &StoredPullRequest, forge: &Forge) {
        let pulls = forge.pulls();
        let open = pulls
            .iter()
            .filter(|pull| pull.is_open && pull.head == opened.head);
        if open.count() > 1 {
            let text = format!("there are two open pull requests of {}", opened.head);
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
        let environment = pull.head.trim_start_matches("promotion-default-app-");
        let version = pull.title.rsplit(' ').next().unwrap_or_default();
        Subject {
            environment: environment.to_owned(),
            version: version.to_owned(),
            promotion,
        }
    }

    async fn promotion(&self, uid: Option<String>) -> Option<Promotion> {
        let promotions: Api<Promotion> = Api::namespaced(self.hub.clone(), "default");
        let all = promotions.list(&ListParams::default()).await.ok()?;
        let mut all = all.items.into_iter();
        all.find(|it| it.metadata.uid == uid)
    }
}

/// The value of a trailer in a commit message or the text of a pull request.
pub(crate) fn trailer(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().rev();
    let value = lines.find_map(|line| line.trim().strip_prefix(name))?;
    Some(value.trim().to_owned())
}
