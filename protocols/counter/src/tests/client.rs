//! Tests of the client, from the user's view, with network failures.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use reknit_seams::net::memory::Fate;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::environment::{ServerTest, all, endpoint, millis, name, secs, sixty};
use crate::*;

#[tokio::test(start_paused = true)]
async fn a_stream_is_delivered_whole() {
    let test = ServerTest::new().await;
    let client = test.client();
    assert_eq!(all(client.watch(name("s1")).await).await, sixty());
    assert_eq!((client.state(), test.net.connections()), (State::Connected, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stream_survives_five_resets() {
    let test = ServerTest::new().await;
    let client = test.client();
    let watch = tokio::spawn(all(client.watch(name("s1")).await));
    for conn in 1..=5 {
        secs(1).await;
        test.net.set(conn, Fate::Reset);
    }
    assert_eq!(watch.await.unwrap(), sixty());
    assert_eq!(test.net.connections(), 6);
}

/// The network reports no loss to either end: each detects it after the ping interval and the pong
/// deadline.
#[tokio::test(start_paused = true)]
async fn a_half_open_connection_is_noticed_by_silence() {
    let test = ServerTest::new().await;
    let client = test.client();
    let watch = tokio::spawn(all(client.watch(name("s1")).await));
    secs(1).await;
    test.net.set(1, Fate::Frozen);
    millis(15_800).await;
    assert_eq!(test.net.connections(), 1);
    millis(300).await;
    assert_eq!(test.net.connections(), 2);
    assert_eq!(watch.await.unwrap(), sixty());
}

#[tokio::test(start_paused = true)]
async fn an_add_takes_effect_once_though_its_answer_is_lost() {
    let test = ServerTest::new().await;
    let client = test.client();
    assert_eq!(client.add(name("c1"), 2, name("first")).await, Ok(2));
    // The answer to the second call stays in the frozen connection. The user makes the third call
    // in the meantime.
    let mut raw_answers = JoinSet::new();
    let second = client.clone();
    raw_answers.spawn(async move { second.add(name("c1"), 3, name("second")).await });
    tokio::task::yield_now().await;
    test.net.set(1, Fate::Frozen);
    let third = client.clone();
    raw_answers.spawn(async move { third.add(name("c1"), 5, name("third")).await });
    let answers = raw_answers.join_all().await;
    assert_eq!(answers.iter().map(|answer| answer.clone().unwrap()).max(), Some(10));
    assert_eq!(test.world.memos(), ["first", "second", "third"]);
}

#[tokio::test(start_paused = true)]
async fn calls_die_with_their_connection_by_class() {
    let test = ServerTest::new().await;
    let client = test.client();
    assert_eq!(client.lease(name("c1"), Duration::from_secs(1)).await, Ok(()));
    let mut calls = JoinSet::new();
    let (lease, add) = (client.clone(), client.clone());
    calls.spawn(async move { lease.lease(name("c1"), Duration::from_secs(9)).await.map(|()| 0) });
    secs(1).await;
    assert_eq!(test.resources.leases(), 1);
    let asked = Instant::now();
    test.net.set(1, Fate::Reset);
    assert_eq!(calls.join_next().await.unwrap().unwrap(), Err(Failure::ConnectionLost));
    assert_eq!(asked.elapsed(), Duration::ZERO, "what is bound dies at once");
    assert_eq!(add.add(name("c1"), 1, name("m")).await, Ok(1));
    assert_eq!(test.resources.leases(), 0);
}

#[tokio::test(start_paused = true)]
async fn everything_fails_at_the_recovery_deadline_and_a_new_request_starts_over() {
    let test = ServerTest::new().await;
    let client = test.client();
    let watch = tokio::spawn(all(client.watch(name("s1")).await));
    secs(1).await;
    test.net.refuse(true);
    test.net.set(1, Fate::Reset);
    let cut = Instant::now();
    let (values, ending) = watch.await.unwrap();
    assert_eq!(ending, Ending::Failed(Failure::RecoveryDeadline));
    assert!((10..=11).contains(&values.len()));
    assert_eq!((cut.elapsed(), client.state()), (Duration::from_secs(25), State::Failed));
    assert!(test.net.connections() < 60, "attempts back off");
    test.net.refuse(false);
    secs(1).await;
    assert_eq!(client.peek(name("c1")).await, Ok(0));
    assert_eq!(all(client.watch(name("s2")).await).await, sixty());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_session_fails_its_streams_but_not_newer_requests() {
    let mut test = ServerTest::new().await;
    let client = test.client();
    let old = tokio::spawn(all(client.watch(name("s1")).await));
    secs(1).await;
    test.tasks.shutdown().await;
    test.net.stop_listening();
    secs(1).await;
    let new = tokio::spawn(all(client.watch(name("s2")).await));
    let world = Arc::new(test.world.clone());
    let server =
        Server::bind(&test.env, &endpoint(), ServerLimits::default(), world.clone(), world)
            .await
            .unwrap();
    test.tasks.spawn(server.run());
    assert_eq!(old.await.unwrap().1, Ending::Failed(Failure::SessionLost));
    assert_eq!(new.await.unwrap(), sixty());
}

#[tokio::test(start_paused = true)]
async fn a_gap_fails_only_its_own_stream() {
    let test =
        ServerTest::with(ServerLimits { retained_items: 10, ..ServerLimits::default() }).await;
    let client = test.client();
    let early = tokio::spawn(all(client.watch(name("s1")).await));
    secs(5).await;
    let late = tokio::spawn(all(client.watch(name("s2")).await));
    millis(50).await;
    test.net.refuse(true);
    test.net.set(1, Fate::Reset);
    millis(200).await;
    test.net.refuse(false);
    let (_, ending) = early.await.unwrap();
    assert_eq!(ending, Ending::Completed { total: 60 });
    assert_eq!(late.await.unwrap(), sixty());

    let gapped = tokio::spawn(all(client.watch(name("s3")).await));
    millis(50).await;
    test.net.refuse(true);
    test.net.set(test.net.connections(), Fate::Reset);
    secs(2).await;
    test.net.refuse(false);
    let (values, ending) = gapped.await.unwrap();
    assert_eq!(values, [10]);
    assert!(
        matches!(ending, Ending::Failed(Failure::Gap { next, oldest }) if next == NonZeroU64::new(2).unwrap() && oldest > 2)
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_be_closed_and_a_name_watched_once() {
    let test = ServerTest::new().await;
    let client = test.client();
    let watch = client.watch(name("s1")).await;
    let again = client.watch(name("s1")).await;
    assert_eq!(all(again).await, (vec![], Ending::Failed(Failure::WatchedAlready)));
    let closer = watch.closer();
    secs(1).await;
    closer.close().await;
    assert_eq!(all(watch).await.1, Ending::Failed(Failure::Closed));
    secs(1).await;
    assert_eq!(test.resources.streams(), 0);
}

/// If a user does not read a stream, only that stream fails.
#[tokio::test(start_paused = true)]
async fn a_user_that_does_not_read_loses_only_that_stream() {
    let test = ServerTest::new().await;
    let limits = ClientLimits { queued_numbers: 5, ..ClientLimits::default() };
    let client = Client::start(&test.env, endpoint(), limits);
    let unread = client.watch(name("s1")).await;
    assert_eq!(all(client.watch(name("s2")).await).await, sixty());
    let (values, ending) = all(unread).await;
    assert_eq!((values.len(), ending), (5, Ending::Failed(Failure::Overrun)));
}
