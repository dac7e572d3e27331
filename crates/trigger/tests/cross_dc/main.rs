//! The lock between data centres on a real MariaDB: never two actors at once, whatever happens.
//!
//! Actors are processes of their own (this test binary, started again), each with a cluster of its
//! own. They write into a witness table whenever they may act, and each act is noted with whether
//! the lock was still theirs. One where it was not is accepted only where a process is stopped, which
//! can happen between asking whether it may act and acting.

#[cfg(test)]
mod actor;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod witness;

use std::time::Duration;

use mysql_async::prelude::Queryable;
use testbed::mariadb::wait_until;
use trigger::cross_dc::Encryption;

use crate::{actor::Actor, proxy::Proxy, witness::Witness};

/// Enough for one act.
const TIME: Duration = Duration::from_millis(100);

/// Not a test of its own: what an actor's process runs.
#[test]
fn actor_process() {
    actor::run_if_asked();
}

#[tokio::test]
async fn one_of_two_acts_and_a_kill_hands_over() {
    let database = Witness::start(&[]).await;
    let first = Actor::start("first", &database, database.port);
    database.wait_for_acts("first", 5).await;
    let second = Actor::start("second", &database, database.port);
    database.wait_for_waiting_session().await;
    database.wait_for_acts("first", 20).await;
    assert_eq!(database.acts("second").await, 0);
    wait_until("a standby answers its probes", async || second.is_healthy()).await;
    first.signal("KILL");
    database.wait_for_acts("second", 5).await;
    drop(second);
    database.assert_never_two(0).await;
}

#[tokio::test]
async fn a_terminated_holder_hands_over_at_once() {
    let database = Witness::start(&[]).await;
    let mut first = Actor::start("first", &database, database.port);
    database.wait_for_acts("first", 5).await;
    let _second = Actor::start("second", &database, database.port);
    database.wait_for_waiting_session().await;
    first.signal("TERM");
    first.wait_for_exit().await;
    let (holder, expires_in) = database.lease().await;
    assert!(
        holder != "first" || expires_in <= 0,
        "{holder} still has {expires_in} microseconds"
    );
    database.wait_for_acts("second", 5).await;
    database.assert_never_two(0).await;
}

#[tokio::test]
async fn a_stopped_holder_does_not_act_when_it_goes_on() {
    let database = Witness::start(&[]).await;
    let first = Actor::start("first", &database, database.port);
    database.wait_for_acts("first", 5).await;
    let _second = Actor::start("second", &database, database.port);
    first.signal("STOP");
    let acts = database.acts("first").await;
    database.wait_for_acts("second", 10).await;
    first.signal("CONT");
    database.wait_for_acts("second", 60).await;
    assert!(database.acts("first").await <= acts + 1);
    database.assert_never_two(1).await;
}

#[tokio::test]
async fn a_holder_that_is_cut_off_stops_before_another_starts() {
    let database = Witness::start(&[]).await;
    let proxy = Proxy::start(database.port).await;
    let _first = Actor::start("first", &database, proxy.port);
    database.wait_for_acts("first", 5).await;
    let _second = Actor::start("second", &database, database.port);
    proxy.cut();
    database.wait_for_acts("second", 20).await;
    let acts = database.acts("first").await;
    proxy.mend();
    database.wait_for_acts("second", 60).await;
    assert_eq!(database.acts("first").await, acts);
    database.assert_never_two(0).await;
}

#[tokio::test]
async fn a_restart_of_the_database_is_survived() {
    let mut database = Witness::start(&[]).await;
    let _first = Actor::start("first", &database, database.port);
    let _second = Actor::start("second", &database, database.port);
    database.wait_for_any_act(5).await;
    for _ in 0..2 {
        database.restart().await;
        let acts = database.all_acts().await;
        database.wait_for_any_act(acts + 10).await;
    }
    database.assert_never_two(0).await;
}

#[tokio::test]
async fn a_process_without_the_lease_of_its_cluster_yields_the_lock() {
    let database = Witness::start(&[]).await;
    let first = Actor::start("first", &database, database.port);
    database.wait_for_acts("first", 5).await;
    let _second = Actor::start("second", &database, database.port);
    database.wait_for_waiting_session().await;
    // Its API server is down from now on.
    first.signal("USR1");
    database.wait_for_acts("second", 20).await;
    let acts = database.acts("first").await;
    database.wait_for_acts("second", 200).await;
    assert_eq!(database.acts("first").await, acts);
    database.assert_never_two(0).await;
}

#[tokio::test]
async fn an_existing_table_needs_no_right_to_create() {
    let database = Witness::start(&[]).await;
    let (leader, end) = database.compete("first", Encryption::Plaintext);
    wait_until("the table is made", async || leader.remaining() > TIME).await;
    drop(end);
    wait_until("the lock is free", async || {
        database.lease().await.0.is_empty()
    })
    .await;
    database.revoke_create_rights().await;
    let (leader, _end) = database.compete("second", Encryption::Plaintext);
    wait_until("the lock is held", async || leader.remaining() > TIME).await;
}

#[tokio::test]
async fn an_old_replica_and_ours_exclude_each_other() {
    for name in ["leader.txt//", "leader.txt"] {
        let database = Witness::start(&[]).await;
        let mut old = database.connect().await;
        let held: Option<i64> = old
            .exec_first("SELECT GET_LOCK(?, 1)", (name,))
            .await
            .unwrap();
        assert_eq!(held, Some(1));
        let _ours = Actor::start("ours", &database, database.port);
        database.wait_for_waiting_session().await;
        assert_eq!(database.all_acts().await, 0, "{name}");
        drop(old);
        database.wait_for_acts("ours", 5).await;
        let mut old = database.connect().await;
        let refused: Option<i64> = old
            .exec_first("SELECT GET_LOCK(?, 0)", (name,))
            .await
            .unwrap();
        assert_eq!(refused, Some(0), "{name}");
    }
}

#[tokio::test]
async fn the_certificate_of_the_database_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let flags = witness::certificates(folder.path());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let database = Witness::start(&flags).await;
    let authority = Some(folder.path().join("ca.pem"));
    let (leader, _end) = database.compete("tls", Encryption::Tls { authority });
    wait_until("the lock is held over TLS", async || {
        leader.remaining() > TIME
    })
    .await;
    let token = leader.permit(TIME).unwrap().fencing_token;
    assert_eq!(token.unwrap().transitions, 1);
    // Without the authority the certificate is worth nothing.
    let before = database.refused_connections().await;
    let (stranger, _end) = database.compete("stranger", Encryption::Tls { authority: None });
    wait_until("the stranger was refused twice", async || {
        database.refused_connections().await >= before + 2
    })
    .await;
    assert!(stranger.permit(TIME).is_err() && leader.permit(TIME).is_ok());
}
