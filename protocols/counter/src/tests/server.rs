//! Tests of the server: its reactions to its peers, and the resources that remain after a client
//! has disconnected.

use std::io;

use reknit_seams::net::memory::Fate;
use tokio::io::AsyncWriteExt;

use super::environment::{ServerTest, all, millis, name, secs, sixty};
use crate::*;

#[tokio::test(start_paused = true)]
async fn a_retried_add_gets_the_first_outcome() {
    let test = ServerTest::new().await;
    let mut first = test.raw().await;
    let session = first.welcome("-", "1 1").await;
    first.send("add 1 c1 4 memo").await;
    assert_eq!(first.read_line().await, "added 1 4");
    let mut second = test.raw().await;
    second.welcome(&session, "2 2").await;
    second.send("add 1 c1 4 memo").await;
    assert_eq!(second.read_line().await, "added 1 4");
    assert_eq!(test.world.sum(&name("c1")), 4);
}

#[tokio::test(start_paused = true)]
async fn a_late_close_of_an_older_connection_has_no_effect() {
    let test = ServerTest::new().await;
    let mut first = test.raw().await;
    let session = first.welcome("-", "1 1").await;
    test.net.set(1, Fate::Frozen);
    let mut second = test.raw().await;
    second.welcome(&session, "2 2").await;
    secs(10).await;
    assert_eq!(second.read_line().await, "ping 1");
    second.send("pong 1").await;
    drop(first);
    test.net.set(1, Fate::Flows);
    secs(1).await;
    assert_eq!(test.resources.connections(), 1);
    second.send("watch s1 1").await;
    assert_eq!(second.read_line().await, "n s1 1 10");
}

#[tokio::test(start_paused = true)]
async fn an_older_connection_is_refused_and_a_newer_one_takes_over() {
    let test = ServerTest::new().await;
    let mut first = test.raw().await;
    let session = first.welcome("-", "2 5").await;
    let mut older = test.raw().await;
    older.send(&format!("hello {session} 2 4")).await;
    assert_eq!(
        (older.read_line().await, older.read_line().await),
        ("refused stale-ticket".into(), String::new())
    );
    let mut newer = test.raw().await;
    newer.welcome(&session, "2 6").await;
    assert_eq!(first.read_line().await, "", "the older one is closed");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_line_ends_the_connection() {
    let test = ServerTest::new().await;
    for rubbish in ["watch s1 x", "hello - 1 1", "n s1 1 1", "\u{0}", &"a".repeat(300)] {
        let mut raw = test.raw().await;
        raw.welcome("-", "1 1").await;
        raw.send(rubbish).await;
        assert_eq!(raw.read_line().await, "", "{rubbish:?}");
    }
    let mut endless = test.raw().await;
    endless.0.write_all(&[b'a'; 300]).await.unwrap();
    assert_eq!(endless.read_line().await, "");
    let mut mute = test.raw().await;
    assert_eq!(mute.read_line().await, "", "who says no hello is not waited for");
    let mut foreign = test.raw().await;
    foreign.send(&format!("hello {:032x} 2 2", 7)).await;
    assert_eq!(foreign.read_line().await, "refused unknown-session");
}

#[tokio::test(start_paused = true)]
async fn missing_streams_are_reported_by_name() {
    let test = ServerTest::new().await;
    let mut raw = test.raw().await;
    raw.welcome("-", "1 1").await;
    raw.send("watch nothing 1").await;
    assert_eq!(raw.read_line().await, "lost nothing unknown");
    raw.send("watch s1 7").await;
    assert_eq!(raw.read_line().await, "lost s1 unknown");
    raw.send("watch s1 1").await;
    assert_eq!(raw.read_line().await, "n s1 1 10");
    raw.send("unwatch s1\nwatch s1 2").await;
    assert_eq!(raw.read_line().await, "lost s1 over");
}

/// A client that does not read blocks only its own connection.
#[tokio::test(start_paused = true)]
async fn a_stuck_client_is_closed_and_blocks_no_other_client() {
    let test = ServerTest::new().await;
    let mut stuck = test.raw().await;
    stuck.welcome("-", "1 1").await;
    let client = test.client();
    let watch = tokio::spawn(all(client.watch(name("s1")).await));
    let flood = async {
        for id in 0.. {
            stuck.0.write_all(format!("peek {id} c1\n").as_bytes()).await?;
        }
        io::Result::Ok(())
    };
    assert!(flood.await.is_err());
    assert_eq!(watch.await.unwrap(), sixty());
    assert_eq!(test.resources.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_client_leaves_no_resources() {
    let test = ServerTest::new().await;
    let client = test.client();
    let mut watch = client.watch(name("s1")).await;
    assert!(watch.next().await.is_some());
    assert_eq!(test.resources(), [1, 1, 1, 0, 1, 0]);
    drop(client);
    assert!(watch.next().await.is_none());
    assert_eq!(watch.ending(), Ending::Failed(Failure::Closed));
    secs(29).await;
    assert_eq!(test.resources()[..2], [1, 1], "a session outlives its connection");
    secs(2).await;
    assert_eq!(test.resources(), [0; 6]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closes_leaves_no_resources_at_once() {
    let test = ServerTest::new().await;
    let client = test.client();
    let watch = client.watch(name("s1")).await;
    secs(1).await;
    client.close().await;
    millis(1).await;
    assert_eq!(test.resources(), [0; 6]);
    assert_eq!(all(watch).await.1, Ending::Failed(Failure::Closed));
}
