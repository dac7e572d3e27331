//! What a file store promises, tried on damaged, torn and full files.

use std::{fs, os::unix::fs::FileExt, path::PathBuf};

use serde_json::json;
use tempfile::TempDir;

use super::*;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("store")
    }

    fn open(&self) -> FileStore {
        FileStore::open(&self.path(), 100).expect("opens")
    }
}

fn key(path: &str) -> StoreKey {
    StoreKey {
        resource: "g/things".into(),
        path: path.into(),
    }
}

async fn write(
    store: &FileStore,
    path: &str,
    value: Option<&str>,
) -> Result<Arc<StoredObject>, CommitError> {
    let expected_revision = store.object(&key(path)).map(|kept| kept.revision());
    let object = value.map(|value| json!({"metadata": {"name": path}, "value": value}).into());
    let key = key(path);
    store
        .commit(ObjectWrite {
            key,
            expected_revision,
            object,
        })
        .await
}

async fn put(store: &FileStore, path: &str, value: &str) {
    write(store, path, Some(value)).await.expect("stored");
}

/// `name=value` of everything there is.
fn content(store: &FileStore) -> Vec<String> {
    let snapshot = store.list("g/things", "", None).expect("now");
    let shown = |(key, object): &(StoreKey, Arc<StoredObject>)| {
        format!(
            "{}={}",
            key.path,
            object.value()["value"].as_str().unwrap_or("?")
        )
    };
    snapshot.objects.iter().map(shown).collect()
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let folder = Folder::new();
    let store = folder.open();
    put(&store, "a", "1").await;
    put(&store, "b", "2").await;
    put(&store, "a", "3").await;
    write(&store, "b", None).await.expect("removed");
    drop(store);
    let store = folder.open();
    assert_eq!(content(&store), ["a=3"]);
    assert_eq!(store.revision(), 4);
    let events = store.events(1, 9).expect("the history too");
    let events: Vec<_> = events
        .iter()
        .map(|event| {
            (
                event.revision,
                event.object.is_some(),
                event.previous.is_some(),
            )
        })
        .collect();
    assert_eq!(
        events,
        [(2, true, false), (3, true, true), (4, false, true)]
    );
}

#[tokio::test]
async fn revisions_rise_although_everything_was_deleted() {
    let folder = Folder::new();
    for round in 0..3 {
        let store = folder.open();
        assert_eq!(store.revision(), round * 2);
        put(&store, "a", "1").await;
        write(&store, "a", None).await.expect("removed");
        let mut log_revision = store.revision_watch();
        assert_eq!(log_revision.update(), round * 2 + 2);
    }
}

#[tokio::test]
async fn a_rewritten_file_holds_the_same() {
    let folder = Folder::new();
    let (mut log, mut state) = Log::open(&folder.path(), 3).expect("opens");
    for number in 1..=9_u64 {
        let write = ObjectWrite {
            key: key(&format!("{}", number % 4)),
            expected_revision: state
                .get(&key(&format!("{}", number % 4)))
                .map(|it| it.revision()),
            object: Some(json!({"metadata": {}, "value": number.to_string()}).into()),
        };
        let event = Arc::new(state.plan(write, number).expect("fits"));
        assert!(log.append(std::slice::from_ref(&event)).is_ok());
        state.apply(event);
    }
    let before = fs::metadata(folder.path()).expect("there").len();
    log.start_compaction(state.checkpoint());
    log.finish_compaction(true);
    assert!(fs::metadata(folder.path()).expect("there").len() < before);
    assert!(matches!(
        FileStore::open(&folder.path(), 3),
        Err(OpenError::InUse { .. })
    ));
    drop(log);
    let store = FileStore::open(&folder.path(), 3).expect("opens");
    assert_eq!(content(&store), ["0=8", "1=9", "2=6", "3=7"]);
    assert_eq!(store.revision(), 9);
    let at_base = store.list("g/things", "", Some(6)).expect("in history");
    assert_eq!(at_base.objects.len(), 4);
    assert_eq!(
        store.events(5, 9).err(),
        Some(RevisionExpired { oldest: 6 })
    );
    put(&store, "0", "10").await;
    assert_eq!(store.revision(), 10);
}

#[tokio::test]
async fn what_is_written_during_a_rewrite_is_in_the_new_file() {
    let folder = Folder::new();
    let (mut log, mut state) = Log::open(&folder.path(), 3).expect("opens");
    let mut put = |log: &mut Log, number: u64| {
        let write = ObjectWrite {
            key: key(&number.to_string()),
            expected_revision: None,
            object: Some(json!({"metadata": {}, "value": "x".repeat(100_000)}).into()),
        };
        let event = Arc::new(state.plan(write, number).expect("fits"));
        assert!(log.append(std::slice::from_ref(&event)).is_ok());
        state.apply(event);
        state.checkpoint()
    };
    for number in 1..=5 {
        put(&mut log, number);
    }
    let checkpoint = put(&mut log, 6);
    log.start_compaction(checkpoint);
    for number in 7..=30 {
        put(&mut log, number);
        log.finish_compaction(number == 20);
    }
    drop(log);
    let store = FileStore::open(&folder.path(), 100).expect("opens");
    assert_eq!((content(&store).len(), store.revision()), (30, 30));
    assert!(!sibling(&folder.path(), ".new").exists());
}

#[tokio::test]
async fn a_file_does_not_grow_for_ever() {
    let folder = Folder::new();
    let store = FileStore::open(&folder.path(), 2).expect("opens");
    let value = "x".repeat(1_000_000);
    put(&store, "kept", "1").await;
    for _ in 0..40 {
        put(&store, "a", &value).await;
    }
    put(&store, "b", "2").await;
    assert_eq!(store.revision(), 42);
    drop(store);
    let length = fs::metadata(folder.path()).expect("there").len();
    assert!(length < 20_000_000, "{length}");
    let store = folder.open();
    assert_eq!(content(&store).len(), 3);
    assert_eq!(store.revision(), 42);
}

#[tokio::test]
async fn writers_of_one_object_do_not_overwrite_each_other() {
    let folder = Folder::new();
    let store = folder.open();
    put(&store, "a", "0").await;
    let attempts = (0..20).map(|number| {
        let object = json!({"metadata": {}, "value": number.to_string()});
        store.commit(ObjectWrite {
            key: key("a"),
            expected_revision: Some(1),
            object: Some(object.into()),
        })
    });
    let outcomes = futures::future::join_all(attempts).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert!(
        outcomes
            .iter()
            .all(|it| it.is_ok() || *it == Err(CommitError::Conflict))
    );
    assert_eq!(store.revision(), 2);
}

#[tokio::test]
async fn a_torn_end_is_cut_off_wherever_it_tore() {
    let folder = Folder::new();
    let store = folder.open();
    put(&store, "a", "1").await;
    let whole = store.durable.lock().length;
    put(&store, "b", "2").await;
    let end = store.durable.lock().length;
    drop(store);
    let bytes = fs::read(folder.path()).expect("readable");
    for length in whole..end {
        let torn = Folder::new();
        let length = usize::try_from(length).expect("small");
        fs::write(torn.path(), &bytes[..length]).expect("written");
        let store = torn.open();
        assert_eq!(content(&store), ["a=1"], "torn at {length}");
        put(&store, "c", "3").await;
        drop(store);
        assert_eq!(content(&torn.open()), ["a=1", "c=3"]);
        let kept = torn.0.path().join(format!("store.torn-{whole}"));
        assert_eq!(kept.exists(), length as u64 > whole);
    }
}

#[tokio::test]
async fn a_flipped_bit_is_reported_and_nothing_is_touched() {
    let folder = Folder::new();
    let store = folder.open();
    for name in ["a", "b", "c"] {
        put(&store, name, "some value").await;
    }
    drop(store);
    let bytes = fs::read(folder.path()).expect("readable");
    let closing = 41; // the note at the end holds nothing that could be lost
    for at in (0..bytes.len() - closing).step_by(3) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(folder.path(), &flipped).expect("written");
        match FileStore::open(&folder.path(), 100).err() {
            Some(OpenError::Damaged { offset, .. }) => assert!(offset <= at as u64),
            Some(OpenError::Foreign { .. }) => assert!(at < record::HEADER.len()),
            other => panic!("byte {at}: {other:?}"),
        }
        assert_eq!(fs::read(folder.path()).expect("readable"), flipped);
    }
    fs::write(folder.path(), &bytes).expect("written");
    assert_eq!(content(&folder.open()).len(), 3);
}

#[test]
fn somebody_elses_file_is_left_alone() {
    let folder = Folder::new();
    for text in ["x", "something else entirely, and longer than a header"] {
        fs::write(folder.path(), text).expect("written");
        let refused = FileStore::open(&folder.path(), 100).err().expect("refused");
        assert!(matches!(refused, OpenError::Foreign { .. }), "{refused}");
        assert_eq!(fs::read(folder.path()).expect("readable"), text.as_bytes());
    }
}

#[tokio::test]
async fn a_crash_while_the_file_was_made_leaves_an_empty_store() {
    let folder = Folder::new();
    for length in 0..=record::HEADER.len() {
        fs::write(folder.path(), &record::HEADER[..length]).expect("written");
        let store = folder.open();
        assert_eq!(store.revision(), 0);
        put(&store, "a", "1").await;
    }
}

#[tokio::test]
async fn a_backup_is_a_store_of_its_own() {
    let folder = Folder::new();
    let store = folder.open();
    put(&store, "a", "1").await;
    let copy = folder.0.path().join("copy");
    store.backup(&copy).expect("copied");
    put(&store, "b", "2").await;
    let restored = FileStore::open(&copy, 100).expect("opens");
    assert_eq!(content(&restored), ["a=1"]);
    assert!(store.backup(&copy).is_err(), "never over something else");
    assert_eq!(content(&store), ["a=1", "b=2"]);
}

#[tokio::test]
async fn a_write_that_fails_leaves_no_trace() {
    let folder = Folder::new();
    let store = folder.open();
    put(&store, "a", "1").await;
    // A file that cannot be written stands for a disk that is full.
    let read_only = Arc::new(fs::File::open(folder.path()).expect("opens"));
    let writable = std::mem::replace(&mut store.durable.lock().file, read_only);
    let refused = write(&store, "b", Some("2")).await.expect_err("refused");
    assert!(matches!(refused, CommitError::Failed(_)), "{refused:?}");
    assert_eq!(content(&store), ["a=1"]);
    let mut byte = [0];
    assert_eq!(writable.read_at(&mut byte, 0).expect("still there"), 1);
    let refused = write(&store, "b", Some("2")).await.expect_err("refused");
    let CommitError::Failed(why) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.contains("until the next start"), "{why}");
    drop((store, writable));
    assert_eq!(content(&folder.open()), ["a=1"]);
}
