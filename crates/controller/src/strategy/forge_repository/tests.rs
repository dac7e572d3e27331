//! A forge that counts how often it is asked for its list, and one that never answers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use futures::{FutureExt, future};
use git::{
    forge::{
        CommentId, CommitComparison, CommitRange, CommitStatus, Error, Feedback, ForgeFuture,
        MergeOptions, MergeResult, NewPullRequest, PullRequestHead, PullRequestMetadata,
        PullRequestState, PullRequestUpdate, TokenCheck, TokenRight, TokenRights,
    },
    names::BranchName,
};

use super::*;

#[derive(Default)]
struct Counting {
    lists: AtomicU64,
    with_validator: AtomicU64,
    is_down: AtomicBool,
    hangs: AtomicBool,
}

fn never<T>() -> ForgeFuture<'static, T>
where
    T: Send + 'static,
{
    let error = Error::Unusable {
        because: "only lists are asked for".to_owned(),
    };
    future::ready(Err(error)).boxed()
}

struct CountingForge(Arc<Counting>);

impl Feedback for CountingForge {
    fn set_commit_status<'a>(
        &'a self,
        _: &'a PullRequestHead,
        _: &'a CommitStatus,
    ) -> ForgeFuture<'a, ()> {
        never()
    }
    fn find_comment<'a>(&'a self, _: u64, _: &'a str) -> ForgeFuture<'a, Option<CommentId>> {
        never()
    }
    fn comment<'a>(&'a self, _: u64, _: &'a str) -> ForgeFuture<'a, CommentId> {
        never()
    }
    fn edit_comment<'a>(&'a self, _: u64, _: &'a CommentId, _: &'a str) -> ForgeFuture<'a, ()> {
        never()
    }
}

impl TokenCheck for CountingForge {
    fn check_token<'a>(&'a self, _: &'a [TokenRight]) -> ForgeFuture<'a, TokenRights> {
        never()
    }
}

impl Forge for CountingForge {
    fn find<'a>(&'a self, _: &'a BranchName) -> ForgeFuture<'a, Vec<PullRequest>> {
        never()
    }
    fn get(&self, _: u64) -> ForgeFuture<'_, PullRequest> {
        never()
    }
    fn create<'a>(&'a self, _: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest> {
        never()
    }
    fn update<'a>(&'a self, _: u64, _: &'a PullRequestUpdate) -> ForgeFuture<'a, PullRequest> {
        never()
    }
    fn add_metadata<'a>(
        &'a self,
        _: u64,
        _: &'a PullRequestMetadata,
    ) -> ForgeFuture<'a, Vec<String>> {
        never()
    }
    fn merge<'a>(&'a self, _: u64, _: &'a MergeOptions) -> ForgeFuture<'a, MergeResult> {
        never()
    }
    fn compare<'a>(&'a self, _: CommitRange<'a>) -> ForgeFuture<'a, CommitComparison> {
        never()
    }
    fn list_open<'a>(
        &'a self,
        since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing> {
        let counting = &self.0;
        counting.lists.fetch_add(1, Ordering::SeqCst);
        if counting.is_down.load(Ordering::SeqCst) {
            let (attempted, status) = ("list", 503);
            return future::ready(Err(Error::Unavailable { attempted, status })).boxed();
        }
        if counting.hangs.load(Ordering::SeqCst) {
            return future::pending().boxed();
        }
        if since.is_some() {
            counting.with_validator.fetch_add(1, Ordering::SeqCst);
            return future::ready(Ok(PullRequestListing::Unchanged)).boxed();
        }
        let listing = PullRequestListing::Changed {
            pull_requests: vec![pull(1), pull(2)],
            validator: ListingValidator::default(),
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
        state: PullRequestState::Open,
        draft: false,
        head: String::new(),
        head_commit: None,
        base: String::new(),
        merge_commit: None,
        is_merge_scheduled: false,
    }
}

fn repository(counting: &Arc<Counting>) -> Arc<ForgeRepository> {
    Arc::new(ForgeRepository {
        forge: Box::new(CountingForge(counting.clone())),
        kind: ForgeProduct::Gitea,
        metrics: Metrics::new(),
        open_pull_requests: Mutex::default(),
    })
}

async fn is_listed(repository: &Arc<ForgeRepository>, number: u64) -> Result<bool, String> {
    let found = repository.find_open(MINUTE, |pull| pull.number == number);
    match found.await.map_err(|failure| failure.reason)?.pull_request {
        OpenPullRequest::Listed(pull) => {
            assert_eq!(pull.number, number);
            Ok(true)
        }
        OpenPullRequest::NotListed => Ok(false),
        OpenPullRequest::ListingUnderWay => Err("in progress".to_owned()),
    }
}

const MINUTE: Duration = Duration::from_secs(60);

/// How long the forge takes to make a list.
const SLOW: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn many_promotions_share_one_list_per_minute() {
    let counting = Arc::new(Counting::default());
    let repository = repository(&counting);
    let look = async |number: u64| {
        let looks = (0..50).map(|_| is_listed(&repository, number));
        let all = future::try_join_all(looks).await?;
        assert!(all.iter().all(|it| *it == all[0]));
        Ok::<_, String>(all[0])
    };
    assert_eq!(look(2).await, Ok(true));
    assert_eq!(look(3).await, Ok(false));
    repository.remember(&pull(3));
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
    let repository = repository(&counting);
    let lists = || counting.lists.load(Ordering::SeqCst);
    let look = async || {
        let found = repository.find_open(MINUTE, |pull| pull.number == 1).await;
        found.ok().unwrap().recheck_after
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

#[tokio::test(start_paused = true)]
async fn a_pull_request_opened_during_a_listing_is_found_afterwards() {
    let counting = Arc::new(Counting::default());
    let repository = repository(&counting);
    let opened = async {
        tokio::time::sleep(SLOW / 2).await;
        repository.remember(&pull(3));
    };
    let (listed, ()) = tokio::join!(is_listed(&repository, 3), opened);
    assert_eq!(listed, Ok(true));
    assert_eq!(is_listed(&repository, 1).await, Ok(true));
    tokio::time::advance(MINUTE).await;
    assert_eq!(
        is_listed(&repository, 3).await,
        Ok(false),
        "listed anew, because the validator did not stand for it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_forge_that_hangs_does_not_keep_the_workers_of_another_repository() {
    let (counting, hanging) = (Arc::new(Counting::default()), Arc::new(Counting::default()));
    hanging.hangs.store(true, Ordering::SeqCst);
    let (working, hung) = (repository(&counting), repository(&hanging));
    // Two workers, and all the work on the repository that hangs comes first.
    let workers = tokio::sync::Semaphore::new(2);
    let work = async |repository: &Arc<ForgeRepository>| {
        let _worker = workers.acquire().await.unwrap();
        is_listed(repository, 1).await
    };
    let started = Instant::now();
    let on_hung = future::join_all((0..100).map(|_| work(&hung)));
    let on_working = async {
        let listed = work(&working).await;
        (listed, started.elapsed())
    };
    let (on_hung, (listed, took)) = tokio::join!(on_hung, on_working);
    assert!(
        on_hung
            .iter()
            .all(|it| *it == Err("in progress".to_owned()))
    );
    assert_eq!(listed, Ok(true));
    assert!(took <= LISTING_PATIENCE + SLOW, "{took:?}");
    assert_eq!(hanging.lists.load(Ordering::SeqCst), 1, "it is asked once");

    tokio::time::advance(LISTING_TIMEOUT).await;
    tokio::task::yield_now().await;
    assert_eq!(work(&hung).await, Err("ForgeTimedOut".to_owned()));
    hanging.hangs.store(false, Ordering::SeqCst);
    tokio::time::advance(MINUTE).await;
    assert_eq!(work(&hung).await, Ok(true));
}
