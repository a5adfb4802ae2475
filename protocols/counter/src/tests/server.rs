//! Tests of the server: its reactions to its peers, and the resources that remain after a client
//! has disconnected.

use std::io;

use reknit_seams::net::memory::Fate;
use tokio::io::AsyncWriteExt;

use super::lab::{Lab, all, millis, name, secs, sixty};
use crate::*;

#[tokio::test(start_paused = true)]
async fn a_retried_add_gets_the_first_outcome() {
    let lab = Lab::new().await;
    let mut first = lab.raw().await;
    let session = first.welcome("-", "1 1").await;
    first.send("add 1 c1 4 memo").await;
    assert_eq!(first.hear().await, "added 1 4");
    let mut second = lab.raw().await;
    second.welcome(&session, "2 2").await;
    second.send("add 1 c1 4 memo").await;
    assert_eq!(second.hear().await, "added 1 4");
    assert_eq!(lab.world.sum(&name("c1")), 4);
}

#[tokio::test(start_paused = true)]
async fn a_late_close_of_an_older_connection_has_no_effect() {
    let lab = Lab::new().await;
    let mut first = lab.raw().await;
    let session = first.welcome("-", "1 1").await;
    lab.net.set(1, Fate::Frozen);
    let mut second = lab.raw().await;
    second.welcome(&session, "2 2").await;
    secs(10).await;
    assert_eq!(second.hear().await, "ping 1");
    second.send("pong 1").await;
    drop(first);
    lab.net.set(1, Fate::Flows);
    secs(1).await;
    assert_eq!(lab.resources.connections(), 1);
    second.send("watch s1 1").await;
    assert_eq!(second.hear().await, "n s1 1 10");
}

#[tokio::test(start_paused = true)]
async fn an_older_connection_is_refused_and_a_newer_one_takes_over() {
    let lab = Lab::new().await;
    let mut first = lab.raw().await;
    let session = first.welcome("-", "2 5").await;
    let mut older = lab.raw().await;
    older.send(&format!("hello {session} 2 4")).await;
    assert_eq!(
        (older.hear().await, older.hear().await),
        ("refused stale-ticket".into(), String::new())
    );
    let mut newer = lab.raw().await;
    newer.welcome(&session, "2 6").await;
    assert_eq!(first.hear().await, "", "the older one is closed");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_line_ends_the_connection() {
    let lab = Lab::new().await;
    for rubbish in ["watch s1 x", "hello - 1 1", "n s1 1 1", "\u{0}", &"a".repeat(300)] {
        let mut raw = lab.raw().await;
        raw.welcome("-", "1 1").await;
        raw.send(rubbish).await;
        assert_eq!(raw.hear().await, "", "{rubbish:?}");
    }
    let mut endless = lab.raw().await;
    endless.0.write_all(&[b'a'; 300]).await.unwrap();
    assert_eq!(endless.hear().await, "");
    let mut mute = lab.raw().await;
    assert_eq!(mute.hear().await, "", "who says no hello is not waited for");
    let mut foreign = lab.raw().await;
    foreign.send(&format!("hello {:032x} 2 2", 7)).await;
    assert_eq!(foreign.hear().await, "refused unknown-session");
}

#[tokio::test(start_paused = true)]
async fn missing_streams_are_reported_by_name() {
    let lab = Lab::new().await;
    let mut raw = lab.raw().await;
    raw.welcome("-", "1 1").await;
    raw.send("watch nothing 1").await;
    assert_eq!(raw.hear().await, "lost nothing unknown");
    raw.send("watch s1 7").await;
    assert_eq!(raw.hear().await, "lost s1 unknown");
    raw.send("watch s1 1").await;
    assert_eq!(raw.hear().await, "n s1 1 10");
    raw.send("unwatch s1\nwatch s1 2").await;
    assert_eq!(raw.hear().await, "lost s1 over");
}

/// A client that does not read blocks only its own connection.
#[tokio::test(start_paused = true)]
async fn a_stuck_client_is_closed_and_blocks_no_other_client() {
    let lab = Lab::new().await;
    let mut stuck = lab.raw().await;
    stuck.welcome("-", "1 1").await;
    let client = lab.client();
    let watch = tokio::spawn(all(client.watch(name("s1")).await));
    let flood = async {
        for id in 0.. {
            stuck.0.write_all(format!("peek {id} c1\n").as_bytes()).await?;
        }
        io::Result::Ok(())
    };
    assert!(flood.await.is_err());
    assert_eq!(watch.await.unwrap(), sixty());
    assert_eq!(lab.resources.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_client_leaves_no_resources() {
    let lab = Lab::new().await;
    let client = lab.client();
    let mut watch = client.watch(name("s1")).await;
    assert!(watch.next().await.is_some());
    assert_eq!(lab.resources(), [1, 1, 1, 0, 1, 0]);
    drop(client);
    assert!(watch.next().await.is_none());
    assert_eq!(watch.ending(), Ending::Failed(Failure::Closed));
    secs(29).await;
    assert_eq!(lab.resources()[..2], [1, 1], "a session outlives its connection");
    secs(2).await;
    assert_eq!(lab.resources(), [0; 6]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closes_leaves_no_resources_at_once() {
    let lab = Lab::new().await;
    let client = lab.client();
    let watch = client.watch(name("s1")).await;
    secs(1).await;
    client.close().await;
    millis(1).await;
    assert_eq!(lab.resources(), [0; 6]);
    assert_eq!(all(watch).await.1, Ending::Failed(Failure::Closed));
}
