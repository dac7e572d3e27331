//! What people do in a run: release, merge, close, approve, reject, request, override, freeze, suspend.

use api::{Freeze, Promotion, promotion::Phase};
use http::Method;
use kube::{Api, api::ListParams};
use serde_json::{Value, json};
use testbed::forge_doubles::StoredPullRequest;
use tokio::time::Instant;

use crate::{
    flux::Flux,
    layout::{PROMOTED, TICKET, environment_of, manifest, manifest_path},
    watchdog::{environment_of_pull, version_of_pull},
    world::World,
};

impl World {
    /// A new version for dev, which may not work somewhere.
    pub(crate) fn release(&self, flux: &mut Flux, number: u64) {
        let version = format!("1.{number}.0");
        self.story.tell("ann", format!("releases {version}"));
        if self.dice.happens(250) {
            let target = self.dice.pick(&self.layout.targets()).clone();
            flux.broken.insert((target, version.clone()));
        }
        if self.dice.happens(150) {
            let mut truth = self.watchdog.truth.lock();
            truth.denied.insert(version.clone());
        }
        if self.dice.happens(250) {
            let key = ("staging".to_owned(), version.clone());
            self.watchdog.truth.lock().unsound.insert(key);
        }
        let file = (manifest_path("dev"), manifest("dev", &version));
        self.forge.commit(&[file], &format!("dev runs {version}"));
    }

    fn open_pulls(&self) -> Vec<StoredPullRequest> {
        let mut pulls = self.forge.pulls();
        pulls.retain(|pull| pull.is_open);
        pulls
    }

    pub(crate) fn merge_all(&self) {
        for pull in self.open_pulls() {
            self.merge(&pull);
        }
    }

    pub(crate) fn merge_one(&self) {
        if let [first, ..] = self.open_pulls().as_slice() {
            self.merge(first);
        }
    }

    fn merge(&self, pull: &StoredPullRequest) {
        let merged = match self.forge.merge(pull.number) {
            true => "merges",
            false => "cannot merge",
        };
        self.story
            .tell("ann", format!("{merged} #{} {}", pull.number, pull.title));
        // Its title may be that of the promotion before, whose successor has pushed already.
        let environment = environment_of_pull(pull);
        let version = self.version_in_git(environment);
        let mut truth = self.watchdog.truth.lock();
        let key = (environment.to_owned(), version);
        truth.merged.insert(key, Instant::now());
    }

    /// Closes a pull request, which rejects what it brings.
    pub(crate) fn close_one(&self) {
        let pulls = self.open_pulls();
        let Some(pull) = pulls.first() else { return };
        self.story
            .tell("ann", format!("closes #{} {}", pull.number, pull.title));
        let (environment, version) = (environment_of_pull(pull), version_of_pull(pull));
        let key = (environment.to_owned(), version.to_owned());
        let mut truth = self.watchdog.truth.lock();
        truth.rejected.insert(key, Instant::now());
        drop(truth);
        self.forge.close(pull.number);
    }

    /// Sends a request to a replica that runs; whether it was carried out.
    async fn ask(&self, method: Method, path: &str, body: Value) -> bool {
        let running: Vec<_> = self
            .replicas
            .iter()
            .filter(|it| it.link().is_some())
            .collect();
        if running.is_empty() {
            return false;
        }
        let replica = self.dice.pick(&running);
        let status = replica.rest(method.clone(), path, body.clone()).await;
        let shown = status.map_or("no answer".to_owned(), |it| it.as_u16().to_string());
        self.story
            .tell("ann", format!("{method} {path} {body}: {shown}"));
        status.is_some_and(|status| status.is_success())
    }

    async fn act(&self, environment: &str, verb: &str, body: Value) -> bool {
        let path = format!("/pipelines/default/app/environments/{environment}/{verb}");
        self.ask(Method::POST, &path, body).await
    }

    /// Approves whatever waits for it.
    pub(crate) async fn approve(&self) {
        for promotion in self.promotions().await {
            let status = promotion.status.clone().unwrap_or_default();
            if status.phase == Some(Phase::AwaitingApproval) && promotion.spec.approvals.is_empty()
            {
                self.approve_one(&promotion).await;
            }
        }
    }

    /// Approves something that may have ended long ago.
    pub(crate) async fn approve_late(&self) {
        let promotions = self.promotions().await;
        if !promotions.is_empty() {
            self.approve_one(self.dice.pick(&promotions)).await;
        }
    }

    async fn approve_one(&self, promotion: &Promotion) {
        let spec = &promotion.spec;
        let key = (spec.environment.clone(), spec.version.clone());
        self.watchdog.truth.lock().approved.insert(key);
        let body = json!({"revision": spec.revision});
        self.act(&spec.environment, "approve", body).await;
    }

    /// Rejects what is under way into an environment.
    pub(crate) async fn reject(&self) {
        let promotions = self.promotions().await;
        let under_way = promotions.iter().find(|promotion| {
            let phase = promotion.status.as_ref().and_then(|status| status.phase);
            phase.is_some_and(|phase| !phase.is_terminal() && phase < Phase::Deploying)
        });
        let Some(promotion) = under_way else { return };
        let (environment, version) = (&promotion.spec.environment, &promotion.spec.version);
        let body = json!({"revision": promotion.spec.revision, "note": "no"});
        if self.act(environment, "reject", body).await {
            let key = (environment.clone(), version.clone());
            let mut truth = self.watchdog.truth.lock();
            truth.rejected.insert(key, Instant::now());
        }
    }

    /// Requests a version that ran in the environment before, or a rollback.
    pub(crate) async fn request(&self, verb: &str) {
        let environment = *self.dice.pick(&PROMOTED);
        let place = match verb {
            "rollback" => environment,
            _ => self.layout.source_of(environment),
        };
        let ran: Vec<String> = {
            let mut truth = self.watchdog.truth.lock();
            truth.requested.insert(environment.to_owned());
            let ready = truth.ready.keys();
            let there = ready.filter(|(target, _)| environment_of(target) == place);
            there.map(|(_, version)| version.clone()).collect()
        };
        if ran.is_empty() {
            return;
        }
        let version = self.dice.pick(&ran).clone();
        // A request of somebody who may approve is an approval.
        let key = (environment.to_owned(), version.clone());
        self.watchdog.truth.lock().approved.insert(key);
        let mut body = json!({"revision": version, "note": "please"});
        if self.dice.happens(400) {
            self.add_override(environment, version, &mut body).await;
        }
        self.act(environment, verb, body).await;
    }

    /// A person knows better than Freezes and the ticket system.
    async fn add_override(&self, environment: &str, version: String, body: &mut Value) {
        let freezes = self.freezes().await.into_iter();
        let freezes = freezes.filter_map(|freeze| freeze.metadata.name);
        let mut passes: Vec<String> = freezes.map(|name| format!("freeze/{name}")).collect();
        if self.layout.needs_ticket(environment) {
            passes.push(format!("check/{TICKET}"));
        }
        if !passes.is_empty() {
            body["override"] = json!({"reason": "urgent", "passes": passes});
            let key = (environment.to_owned(), version);
            let mut truth = self.watchdog.truth.lock();
            truth.overridden.insert(key, Instant::now());
        }
    }

    /// Goes on with a rollout that was stopped.
    pub(crate) async fn resume_rollout(&self) {
        if self.layout.fleet.is_some() {
            self.watchdog.truth.lock().is_resumed = true;
            self.act("prod", "resume-rollout", json!({})).await;
        }
    }

    pub(crate) async fn stop_rollout(&self) {
        if self.layout.fleet.is_some() {
            self.act("prod", "stop-rollout", json!({})).await;
        }
    }

    /// Freezes an environment, or ends that.
    pub(crate) async fn freeze(&self) {
        if !self.watchdog.truth.lock().frozen.is_empty() {
            return self.thaw().await;
        }
        let environment = *self.dice.pick(&PROMOTED);
        let body = json!({"pipeline": "app", "environments": [environment], "reason": "no"});
        self.ask(Method::POST, "/freezes/default", body).await;
        self.look_at_freezes().await;
    }

    /// Ends all Freezes.
    pub(crate) async fn thaw(&self) {
        self.watchdog.truth.lock().frozen.clear();
        for freeze in self.freezes().await {
            let name = freeze.metadata.name.unwrap_or_default();
            let path = format!("/freezes/default/{name}");
            self.ask(Method::DELETE, &path, json!({})).await;
        }
        self.look_at_freezes().await;
    }

    async fn freezes(&self) -> Vec<Freeze> {
        let freezes: Api<Freeze> = Api::namespaced(self.hub.clone(), "default");
        let listed = freezes.list(&ListParams::default()).await;
        listed.unwrap().items
    }

    /// Whatever the answer was: what is stored counts.
    async fn look_at_freezes(&self) {
        let stored = self.freezes().await;
        let environments = stored.into_iter().flat_map(|it| it.spec.environments);
        let frozen = environments.map(|name| (name, Instant::now()));
        self.watchdog.truth.lock().frozen.extend(frozen);
    }

    pub(crate) async fn suspend(&self, verb: &str) {
        if verb == "resume" {
            self.watchdog.truth.lock().suspended = None;
        }
        let path = format!("/pipelines/default/app/{verb}");
        self.ask(Method::POST, &path, json!({})).await;
        // Whatever the answer was: what is stored counts.
        let is_suspended = self.pipeline().await.spec.suspend;
        let mut truth = self.watchdog.truth.lock();
        truth.suspended = match is_suspended {
            true => truth.suspended.or(Some(Instant::now())),
            false => None,
        };
    }
}
