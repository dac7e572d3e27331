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
        future::ready(Ok(listing)).boxed()
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

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn many_promotions_share_one_list_per_minute() {
    let counting = Arc::new(Counting::default());
    let channel = Channel {
        forge: Box::new(Shared(counting.clone())),
        kind: Kind::Gitea,
        metrics: Metrics::new(),
        listed: tokio::sync::Mutex::default(),
    };
    let look = async |number: u64| {
        let looks = (0..50).map(|_| channel.followed(MINUTE, |pull| pull.number == number));
        let seen = future::try_join_all(looks).await.map_err(|it| it.reason)?;
        assert!(seen.iter().all(|it| it == &seen[0]));
        Ok::<_, String>(seen[0].is_some())
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
