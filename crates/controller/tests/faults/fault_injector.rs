//! Injects faults into side effects of the reconcilers: writes on the hub, pushes, changes of pull
//! requests. A process crashes before a side effect, after it, or while it is under way.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    middleware::{Next, from_fn},
    response::Response,
};
use futures::{FutureExt, future::pending};
use http::Method;
use kube::Client;
use testbed::forge::Repository;
use tokio::{sync::Notify, task::JoinHandle, time::timeout};
use tower::service_fn;

use crate::world::PATIENCE;

/// When a process dies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CrashPoint {
    Before,
    After,
    /// Before it sees an answer, and the effect comes when the next process runs already.
    Late(Duration),
}

/// What is held up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum HeldPart {
    /// It has not happened yet.
    Effect,
    /// It has happened, and nobody knows.
    Answer,
}

/// At which effect, counted from when it is planned, a process dies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Crash {
    pub(crate) effect: usize,
    pub(crate) moment: CrashPoint,
}

/// How a death is written among the effects.
pub(crate) const DIED: &str = "-- died";

#[derive(Default)]
pub(crate) struct FaultInjector {
    state: Mutex<State>,
    died: Notify,
    held: Notify,
    /// For what is held up now; another one for what comes after.
    released: Mutex<Arc<Notify>>,
}

#[derive(Default)]
struct State {
    effects: Vec<String>,
    crash: Option<Crash>,
    is_dead: bool,
    late: Vec<JoinHandle<()>>,
    hold: Option<(&'static str, HeldPart)>,
    told: Option<(&'static str, Log)>,
    lost: Option<&'static str>,
}

/// Who did what, in order.
pub(crate) type Log = Arc<Mutex<Vec<(&'static str, String)>>>;

impl FaultInjector {
    /// One that also tells others, under a name, what came by.
    pub(crate) fn telling(name: &'static str, log: &Log) -> Arc<Self> {
        let injector = Self::default();
        injector.state.lock().unwrap().told = Some((name, log.clone()));
        Arc::new(injector)
    }

    /// What came by, in order.
    pub(crate) fn effects(&self) -> Vec<String> {
        self.state.lock().unwrap().effects.clone()
    }

    /// Waits for what is on its way, and forgets what came by.
    pub(crate) async fn settle(&self) {
        let before = std::mem::take(&mut *self.state.lock().unwrap());
        for late in before.late {
            late.await.unwrap();
        }
    }

    /// From now on a process lives, until it dies as planned.
    pub(crate) fn plan(&self, crash: Option<Crash>) {
        let mut state = self.state.lock().unwrap();
        state.is_dead = false;
        state.crash = crash;
    }

    /// From now on effects of which the name contains this never come, nor any answer.
    pub(crate) fn lose(&self, pattern: &'static str) {
        self.state.lock().unwrap().lost = Some(pattern);
    }

    /// Waits until the process has died.
    pub(crate) async fn died(&self) {
        self.died.notified().await;
    }

    fn die(&self, how: &dyn fmt::Debug) {
        let mut state = self.state.lock().unwrap();
        state.is_dead = true;
        state.effects.push(format!("{DIED} {how:?}"));
        self.died.notify_one();
    }

    /// Counts an effect; answers whether and how the process dies of it, or that it is dead.
    fn next(&self, effect: &str) -> Result<Option<CrashPoint>, Dead> {
        let mut state = self.state.lock().unwrap();
        if state.is_dead || state.lost.is_some_and(|lost| effect.contains(lost)) {
            return Err(Dead);
        }
        state.effects.push(effect.to_owned());
        if let Some((name, log)) = &state.told {
            log.lock().unwrap().push((name, effect.to_owned()));
        }
        match &mut state.crash {
            Some(Crash { effect: 0, moment }) => {
                let moment = *moment;
                state.is_dead = true;
                Ok(Some(moment))
            }
            Some(crash) => {
                crash.effect -= 1;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Lets an effect happen, unless the process dies; a dead process gets no answer.
    async fn pass<T: Send + 'static>(
        &self,
        name: &str,
        effect: impl Future<Output = T> + Send + 'static,
    ) -> T {
        match self.next(name) {
            Ok(None) => return self.hold(name, effect).await,
            Ok(Some(moment)) => {
                match moment {
                    CrashPoint::Before => {}
                    CrashPoint::After => drop(effect.await),
                    CrashPoint::Late(wait) => {
                        let late = tokio::spawn(async move {
                            tokio::time::sleep(wait).await;
                            effect.await;
                        });
                        self.state.lock().unwrap().late.push(late);
                    }
                }
                self.die(&moment);
            }
            Err(Dead) => {}
        }
        pending().await
    }

    /// Holds an effect up if that was asked for.
    async fn hold<T>(&self, name: &str, effect: impl Future<Output = T>) -> T {
        let is_meant = |(pattern, _): &mut (&str, HeldPart)| name.ends_with(*pattern);
        let held = self.state.lock().unwrap().hold.take_if(is_meant);
        let released = self.released.lock().unwrap().clone();
        match held {
            None => effect.await,
            Some((_, HeldPart::Effect)) => {
                self.held.notify_one();
                released.notified().await;
                effect.await
            }
            Some((_, HeldPart::Answer)) => {
                let answer = effect.await;
                self.held.notify_one();
                released.notified().await;
                answer
            }
        }
    }

    /// The next effect whose name ends so is held up, or its answer.
    pub(crate) fn hold_next(&self, pattern: &'static str, side: HeldPart) {
        *self.released.lock().unwrap() = Arc::default();
        self.state.lock().unwrap().hold = Some((pattern, side));
    }

    /// Waits until something is held up.
    pub(crate) async fn holds(&self) {
        let held = timeout(PATIENCE, self.held.notified()).await;
        held.expect("what was to be held up did not come");
    }

    /// Lets what is held up go on.
    pub(crate) fn release(&self) {
        self.released.lock().unwrap().notify_one();
    }

    /// The hub as the loops reach it.
    pub(crate) fn before_hub(self: &Arc<Self>, hub: &Client) -> Client {
        let (injector, hub) = (self.clone(), hub.clone());
        let service = service_fn(move |request: http::Request<kube::client::Body>| {
            let (injector, hub) = (injector.clone(), hub.clone());
            async move {
                if request.method() == Method::GET {
                    return hub.send(request).await;
                }
                let name = format!("{} {}", request.method(), request.uri().path());
                injector
                    .pass(&name, async move { hub.send(request).await })
                    .await
            }
        });
        Client::new(service, "default")
    }

    /// Stands before a repository and its pull requests.
    pub(crate) fn before_repository(self: &Arc<Self>, repository: &Repository) {
        let injector = self.clone();
        repository.intercept_requests(Arc::new(move |request: Request, next: Next| {
            let injector = injector.clone();
            async move {
                let path = request.uri().path();
                let reads = request.method() == Method::GET || path.ends_with("/git-upload-pack");
                match reads {
                    true => next.run(request).await,
                    false => injector.carry(request, next).await,
                }
            }
            .boxed()
        }));
    }

    /// Stands before whoever is called.
    pub(crate) fn before_calls(self: &Arc<Self>, router: Router) -> Router {
        let injector = self.clone();
        router.layer(from_fn(move |request: Request, next: Next| {
            let injector = injector.clone();
            async move { injector.carry(request, next).await }
        }))
    }

    /// A client that dies takes what it has not sent with it.
    async fn carry(&self, request: Request, next: Next) -> Response {
        let name = format!("{} {}", request.method(), request.uri().path());
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let request = Request::from_parts(parts, Body::from(body));
        self.pass(&name, next.run(request)).await
    }
}

struct Dead;
