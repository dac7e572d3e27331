//! A forge that counts how often it is asked for its list.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use futures::{FutureExt, future};
use git::{
    forge::{Answer, Changes, Dressing, Error, Merge, Merged, NewPullRequest, State},
    names::BranchName,
};

use super::*;

#[derive(Default)]
struct Counting {
    lists: AtomicU64,
    with_validator: AtomicU64,
    is_down: AtomicBool,
}

fn never<T>() -> Answer<'static, T>
where
    T: Send + 'static,
{
    let error = Error::Unusable {
        because: "only lists are asked for".to_owned(),
    };
    future::ready(Err(error)).boxed()
}

struct Shared(Arc<Counting>);

impl Forge for Shared {
    fn find<'a>(&'a self, _: &'a BranchName) -> Answer<'a, Vec<PullRequest>> {
        never()
    }
    fn get(&self, _: u64) -> Answer<'_, PullRequest> {
        never()
    }
    fn create<'a>(&'a self, _: &'a NewPullRequest) -> Answer<'a, PullRequest> {
        never()
    }
    fn update<'a>(&'a self, _: u64, _: &'a Changes) -> Answer<'a, PullRequest> {
        never()
    }
    fn dress<'a>(&'a self, _: u64, _: &'a Dressing) -> Answer<'a, Vec<String>> {
        never()
    }
    fn merge<'a>(&'a self, _: u64, _: &'a Merge) -> Answer<'a, Merged> {
        never()
    }
    fn comment<'a>(&'a self, _: u64, _: &'a str) -> Answer<'a, ()> {
        never()
    }
    fn list_open<'a>(&'a self, since: Option<&'a Validator>) -> Answer<'a, Listing> {
        let counting = &self.0;
        counting.lists.fetch_add(1, Ordering::SeqCst);
        if counting.is_down.load(Ordering::SeqCst) {
            let (attempted, status) = ("list", 503);
            return future::ready(Err(Error::Unavailable { attempted, status })).boxed();
        }
        if since.is_some() {
            counting.with_validator.fetch_add(1, Ordering::SeqCst);
            return future::ready(Ok(Listing::Same)).boxed();
        }
        let listing = Listing::Now {
            pull_requests: vec![pull(1), pull(2)],
            validator: Validator::default(),
        };
        async {
            tokio::time::sleep(SLOW).await;
            Ok(listing)
        }
        .boxed()
    }
}

fn pull(number: u64) -> PullRequest {
    PullRequest {
        number,
        url: String::new(),
        title: String::new(),
        body: String::new(),
        state: State::Open,
        draft: false,
        head: String::new(),
        head_commit: None,
        base: String::new(),
        merge_commit: None,
    }
}

fn channel(counting: &Arc<Counting>) -> Channel {
    Channel {
        forge: Box::new(Shared(counting.clone())),
        kind: Kind::Gitea,
        metrics: Metrics::new(),
        listed: tokio::sync::Mutex::default(),
    }
}

const MINUTE: Duration = Duration::from_secs(60);

/// How long the forge takes to make a list.
const SLOW: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn many_promotions_share_one_list_per_minute() {
    let counting = Arc::new(Counting::default());
    let channel = channel(&counting);
    let look = async |number: u64| {
        let looks = (0..50).map(|_| channel.followed(MINUTE, |pull| pull.number == number));
        let seen = future::try_join_all(looks).await.map_err(|it| it.reason)?;
        let is_same = |it: &Followed| it.pull_request == seen[0].pull_request;
        assert!(seen.iter().all(is_same));
        Ok::<_, String>(seen[0].pull_request.is_some())
    };
    assert_eq!(look(2).await, Ok(true));
    assert_eq!(look(3).await, Ok(false));
    channel.note(&pull(3)).await;
    assert_eq!(look(3).await, Ok(true), "what was just opened is known");
    assert_eq!(counting.lists.load(Ordering::SeqCst), 1);

    tokio::time::advance(MINUTE).await;
    assert_eq!(look(1).await, Ok(true));
    tokio::time::advance(MINUTE).await;
    assert_eq!(look(1).await, Ok(true));
    assert_eq!(counting.lists.load(Ordering::SeqCst), 3);
    assert_eq!(counting.with_validator.load(Ordering::SeqCst), 1);

    counting.is_down.store(true, Ordering::SeqCst);
    tokio::time::advance(MINUTE).await;
    assert_eq!(look(1).await, Err("ForgeUnavailable".to_owned()));
    assert_eq!(look(1).await, Err("ForgeUnavailable".to_owned()));
    assert_eq!(
        counting.lists.load(Ordering::SeqCst),
        4,
        "it is not asked by each"
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_back_when_told_finds_a_new_list() {
    let counting = Arc::new(Counting::default());
    let channel = channel(&counting);
    let lists = || counting.lists.load(Ordering::SeqCst);
    let look = async || {
        let followed = channel.followed(MINUTE, |pull| pull.number == 1).await;
        followed.ok().unwrap().stale_in
    };
    let first = look().await;
    assert_eq!(first, MINUTE, "counted from the answer");
    tokio::time::advance(MINUTE / 4).await;
    let second = look().await;
    assert_eq!((lists(), second), (1, MINUTE * 3 / 4));
    tokio::time::advance(second).await;
    look().await;
    assert_eq!(lists(), 2);
}
