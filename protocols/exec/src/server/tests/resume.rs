//! Tests of sessions across lost connections.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_session_and_its_processes_outlive_a_connection() {
    let mut server = TestServer::new();
    let (mut peer, session) = server.client().await;
    peer.start("p1", "sh").await;
    let process = server.launcher.process("sh");
    process.prints("before").await;
    assert_eq!(peer.line().await, "output p1:1 before");
    drop(peer);
    sleep(ms(10)).await;
    process.prints("during").await;
    let mut peer = server.resume(&session).await.unwrap();
    process.prints("after").await;
    assert_eq!(peer.line().await, "output p1:3 after");
    assert_eq!(printed(&peer.read("p1").await), "beforeduringafter");
    peer.call("process/write", write("p1", "1", "hi")).await.unwrap();
    assert_eq!(process.reads(2).await, "hi");
    process.ends(7);
    assert_eq!(
        (peer.line().await, peer.line().await),
        ("exited p1:4 7".to_owned(), "closed p1:5".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn an_exit_during_an_outage_is_read_in_order() {
    let mut server = TestServer::new();
    let (mut peer, session) = server.client().await;
    peer.start("p1", "sh").await;
    drop(peer);
    sleep(ms(10)).await;
    let process = server.launcher.process("sh");
    process.prints("last words").await;
    sleep(ms(10)).await;
    process.ends(3);
    sleep(ms(20_000)).await;
    let mut peer = server.resume(&session).await.unwrap();
    let read = peer.read("p1").await;
    assert_eq!(
        (printed(&read).as_str(), &read["nextSeq"], &read["closed"]),
        ("last words", &json!(4), &json!(true))
    );
    assert!(timeout(ms(1000), peer.event()).await.is_err(), "it is not told a second time");
}

#[tokio::test(start_paused = true)]
async fn a_session_is_not_taken_from_its_attached_connection() {
    let mut server = TestServer::new();
    let (mut peer, session) = server.client().await;
    assert_eq!(server.resume(&session).await.map(|_| ()), Err(-32010));
    assert_eq!(server.resume("unknown").await.map(|_| ()), Err(-32600));
    peer.start("p1", "sh").await;
    drop(peer);
    sleep(ms(1)).await;
    server.resume(&session).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dead_peer_is_detected_by_its_silence() {
    let mut server = TestServer::new();
    let (peer, session) = server.client().await;
    sleep(ms(15_990)).await; // the peer is not polled, so it answers no ping
    assert_eq!(server.resume(&session).await.map(|_| ()), Err(-32010));
    sleep(ms(20)).await;
    server.resume(&session).await.unwrap();
    drop(peer);
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_does_not_delay_a_detach() {
    let mut server = TestServer::new();
    let (mut peer, session) = server.client().await;
    peer.start("p1", "sh").await;
    peer.request("process/read", json!({"processId": "p1", "waitMs": 5000}));
    assert!(timeout(ms(100), peer.receive()).await.is_err());
    drop(peer);
    sleep(ms(1)).await;
    let mut peer = server.resume(&session).await.unwrap();
    server.launcher.process("sh").prints("x").await;
    assert_eq!(peer.line().await, "output p1:1 x");
}

#[tokio::test(start_paused = true)]
async fn a_detached_session_expires_and_its_processes_are_killed() {
    let mut server = TestServer::new();
    let (mut peer, session) = server.client().await;
    peer.start("p1", "sh").await;
    drop(peer);
    sleep(ms(1)).await;
    assert_eq!(
        (
            server.resources.counts().sessions,
            server.resources.counts().detached,
            server.launcher.alive()
        ),
        (1, 1, 1)
    );
    sleep(ServerLimits::default().detached_lifetime).await;
    assert_eq!((server.resources.counts().sessions, server.launcher.alive()), (0, 0));
    assert_eq!(server.resume(&session).await.map(|_| ()), Err(-32600));
}

#[tokio::test(start_paused = true)]
async fn the_timer_of_an_earlier_outage_does_not_affect_a_later_attachment() {
    let mut server = TestServer::new();
    let (peer, session) = server.client().await;
    drop(peer);
    sleep(ms(29_000)).await;
    let peer = server.resume(&session).await.unwrap();
    sleep(ms(500)).await;
    drop(peer);
    sleep(ms(29_000)).await;
    server.resume(&session).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_is_available_after_a_disconnect_during_its_launch() {
    let mut server = TestServer::new();
    let (mut peer, session) = server.client().await;
    peer.request("process/start", start("p1", "slow"));
    assert!(timeout(ms(10), peer.receive()).await.is_err());
    drop(peer);
    sleep(ms(10)).await;
    server.launcher.gate.notify_one();
    sleep(ms(10)).await;
    let mut peer = server.resume(&session).await.unwrap();
    server.launcher.process("slow").prints("x").await;
    assert_eq!(peer.line().await, "output p1:1 x");
    assert_eq!(
        peer.call("process/terminate", json!({"processId": "p1"})).await.unwrap(),
        json!({"running": true})
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_that_expires_during_a_launch_leaves_no_child() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    peer.request("process/start", start("p1", "slow"));
    assert!(timeout(ms(10), peer.receive()).await.is_err());
    drop(peer);
    sleep(ms(81_000)).await;
    server.launcher.gate.notify_one();
    sleep(ms(10)).await;
    assert_eq!((server.launcher.alive(), server.resources.counts().processes), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_paused_process_continues_when_its_reader_is_lost() {
    let mut server =
        TestServer::with(ServerLimits { outbound_queue: 4, ..ServerLimits::default() });
    let (mut peer, session) = server.client().await;
    peer.start("p1", "yes").await;
    server.launcher.process("yes").floods();
    sleep(ms(1000)).await;
    let held = server.resources.counts().most_retained_bytes;
    sleep(ms(1000)).await;
    assert_eq!(server.resources.counts().most_retained_bytes, held, "the client reads nothing");
    drop(peer);
    sleep(ms(1000)).await;
    assert!(server.resources.counts().most_retained_bytes > held);
    sleep(ms(10)).await;
    let mut peer = server.resume(&session).await.unwrap();
    let read = peer.read("p1").await;
    assert_eq!(
        read["chunks"].as_array().unwrap().last().unwrap()["seq"].as_u64().unwrap() + 1,
        read["nextSeq"].as_u64().unwrap()
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_repeated_after_an_outage_is_written_once() {
    let mut server = TestServer::new();
    let (mut peer, session) = server.client().await;
    peer.start("p1", "sh").await;
    peer.request("process/write", write("p1", "w-1", "once"));
    assert!(peer.receive().await);
    drop(peer);
    sleep(ms(10)).await;
    let mut peer = server.resume(&session).await.unwrap();
    for (id, text) in [("w-1", "once"), ("w-2", "more")] {
        assert_eq!(
            peer.call("process/write", write("p1", id, text)).await.unwrap(),
            json!({"status": "accepted"})
        );
    }
    assert_eq!(server.launcher.process("sh").reads(8).await, "oncemore");
}

#[tokio::test(start_paused = true)]
async fn sessions_are_isolated_from_each_other() {
    let mut server = TestServer::new();
    let ((mut one, _), (mut two, _)) = (server.client().await, server.client().await);
    one.start("p1", "sh").await;
    two.start("p1", "cat").await;
    server.launcher.process("sh").prints("for one").await;
    server.launcher.process("cat").prints("for two").await;
    assert_eq!(
        (one.line().await, two.line().await),
        ("output p1:1 for one".to_owned(), "output p1:1 for two".to_owned())
    );
    two.call("process/terminate", json!({"processId": "p1"})).await.unwrap();
    assert!(server.launcher.process("sh").signals().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_number_of_sessions_is_bounded() {
    let mut server = TestServer::with(ServerLimits { sessions: 1, ..ServerLimits::default() });
    let (_one, _) = server.client().await;
    let mut two = server.peer().await;
    assert_eq!(
        two.call("initialize", json!({"clientName": "two"})).await,
        Err((-32603, "too many sessions".into()))
    );
}

/// The answers are lost, and more writes follow than the server remembers.
#[tokio::test(start_paused = true)]
async fn a_write_waits_until_the_client_cannot_repeat_the_earlier_ones() {
    let mut server = TestServer::with(ServerLimits { write_ids: 2, ..ServerLimits::default() });
    let (mut peer, session) = server.client().await;
    peer.start("p1", "sh").await;
    for (id, text) in [("1", "a"), ("2", "b"), ("3", "c")] {
        peer.request("process/write", write("p1", id, text));
    }
    assert!(peer.receive().await); // of all answers it reads only the first
    drop(peer);
    sleep(ms(10)).await;
    let mut peer = server.resume(&session).await.unwrap();
    for (id, text) in [("1", "a"), ("2", "b"), ("3", "c"), ("4", "d")] {
        let written = peer.call("process/write", write("p1", id, text)).await;
        assert_eq!(written, Ok(json!({"status": "accepted"})));
    }
    assert_eq!(server.launcher.process("sh").reads(4).await, "abcd");
}

/// Writes of a connection that ended unnoticed are repeated by no client for longer than a call
/// takes.
#[tokio::test(start_paused = true)]
async fn the_write_ids_of_an_earlier_connection_are_forgotten_in_time() {
    let limits =
        ServerLimits { write_ids: 1, write_repetition: ms(5000), ..ServerLimits::default() };
    let mut server = TestServer::with(limits);
    let (mut peer, session) = server.client().await;
    peer.start("p1", "sh").await;
    peer.request("process/write", write("p1", "1", "a"));
    assert!(peer.receive().await); // the answer; the pong is not sent any more
    drop(peer);
    sleep(ms(10)).await;
    let begun = Instant::now();
    let mut peer = server.resume(&session).await.unwrap();
    let written = peer.call("process/write", write("p1", "2", "b")).await;
    assert_eq!((written, begun.elapsed()), (Ok(json!({"status": "accepted"})), ms(5000)));
    assert_eq!(server.launcher.process("sh").reads(2).await, "ab");
}

/// Host 1 has a session with a running process and a detached one; host 2 opens and cuts many.
#[tokio::test(start_paused = true)]
async fn a_host_that_opens_and_cuts_many_connections_takes_no_session_of_another() {
    let limits = ServerLimits { sessions: 8, peer_sessions: 4, ..ServerLimits::default() };
    let mut server = TestServer::with(limits);
    let (mut one, _) = server.client().await;
    one.start("p1", "sh").await;
    let (left, id) = server.client().await;
    drop(left);
    for _ in 0..50 {
        let mut many = server.peer_from(2).await;
        many.call("initialize", json!({"clientName": "many"})).await.unwrap();
    }
    sleep(ms(1)).await;
    assert_eq!(server.resources.counts().sessions, 2 + 4);
    server.resume(&id).await.unwrap();
    let (mut three, _) = server.client().await;
    three.start("p1", "cat").await;
    assert_eq!(
        one.call("process/terminate", json!({"processId": "p1"})).await.unwrap(),
        json!({"running": true})
    );
}

#[tokio::test(start_paused = true)]
async fn a_host_with_all_its_sessions_in_use_is_refused_another_one() {
    let limits = ServerLimits { sessions: 8, peer_sessions: 1, ..ServerLimits::default() };
    let mut server = TestServer::with(limits);
    let (_one, _) = server.client().await;
    let initialize = json!({"clientName": "two"});
    let refused = server.peer().await.call("initialize", initialize.clone()).await;
    assert_eq!(refused, Err((-32603, "too many sessions".into())));
    server.peer_from(2).await.call("initialize", initialize).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn closed_processes_are_forgotten_after_their_retention() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    peer.start("p1", "sh").await;
    server.launcher.process("sh").ends(0);
    peer.line().await;
    peer.line().await;
    let still_there = async { while peer.receive().await {} };
    assert!(timeout(ms(79_990), still_there).await.is_err());
    assert_eq!(
        (server.resources.counts().processes, server.resources.counts().open_processes),
        (1, 0)
    );
    // A sign of life is due at the end of the retention; the server waits for the next one.
    assert!(timeout(ms(8_020), async { while peer.receive().await {} }).await.is_err());
    assert_eq!(server.resources.counts().processes, 0);
    peer.start("p1", "sh").await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_server_kills_every_process() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    peer.start("p1", "sh").await;
    peer.request("process/start", start("p2", "slow"));
    assert!(timeout(ms(10), peer.receive()).await.is_err());
    server.serving.abort();
    assert!(peer.is_closed().await);
    assert_eq!(
        (
            server.launcher.alive(),
            server.resources.counts().sessions,
            server.resources.counts().connections
        ),
        (0, 0, 0)
    );
}
