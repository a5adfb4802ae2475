//! Tests of processes over one connection without outages.

use super::*;
use crate::wire::sandbox::samples::{restricted, special};

/// Starts the process `p1`, which has no input.
async fn without_input() -> (TestServer, Peer, Arc<FakeProcess>) {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    peer.call("process/start", json!({"processId": "p1", "argv": ["sh"], "cwd": "/"}))
        .await
        .unwrap();
    let process = server.launcher.process("sh");
    (server, peer, process)
}

#[tokio::test(start_paused = true)]
async fn a_process_is_followed_from_its_start_to_its_close() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    let asked = json!({"processId": "p1", "argv": ["sh", "-c", "x"], "cwd": "file:///tmp", "env": {"A": "1"}, "tty": false, "arg0": "shell"});
    let started = json!({"processId": "p1", "sandboxType": "none"});
    assert_eq!(peer.call("process/start", asked).await.unwrap(), started);
    let process = server.launcher.process("sh");
    let (argv, stdio) = (
        vec!["sh".to_owned(), "-c".to_owned(), "x".to_owned()],
        reknit_seams::process::Stdio::Pipes { stdin: false },
    );
    let env = vec![("A".to_owned(), "1".to_owned())];
    assert_eq!(
        process.command,
        Command {
            argv,
            arg0: Some("shell".into()),
            cwd: Some("/tmp".into()),
            env,
            stdio,
            confinement: None
        }
    );

    process.prints("one").await;
    assert_eq!(peer.line().await, "output p1:1 one");
    process.exits(7);
    assert_eq!(peer.line().await, "exited p1:2 7");
    process.prints("late").await;
    assert_eq!(peer.line().await, "output p1:3 late");
    process.closes();
    assert_eq!(peer.line().await, "closed p1:4");
    let read = peer.read("p1").await;
    assert_eq!(
        (printed(&read).as_str(), &read["nextSeq"], &read["exitCode"]),
        ("onelate", &json!(5), &json!(7))
    );
    assert_eq!(server.launcher.alive(), 1, "what it left in the background lives on");
    drop(peer);
    let limits = ServerLimits::default();
    sleep(2 * limits.detached_lifetime).await;
    assert_eq!(server.launcher.alive(), 0, "but not longer than the session");
}

#[tokio::test(start_paused = true)]
async fn a_terminated_process_closes_although_its_pipe_is_held() {
    let (_server, mut peer, process) = without_input().await;
    let held = process.body().pipes[1].take();
    let terminated = peer.call("process/terminate", json!({"processId": "p1"})).await.unwrap();
    assert_eq!(terminated, json!({"running": true}));
    assert_eq!(peer.line().await, "exited p1:1 137");
    assert_eq!(peer.line().await, "closed p1:2");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_in_the_background_is_not_terminated() {
    let (_server, mut peer, process) = without_input().await;
    process.exits(0);
    assert_eq!(peer.line().await, "exited p1:1 0");
    let terminated = peer.call("process/terminate", json!({"processId": "p1"})).await.unwrap();
    assert_eq!((terminated, process.signals()), (json!({"running": false}), vec![]));
    process.prints("still here").await;
    assert_eq!(peer.line().await, "output p1:2 still here");
}

#[tokio::test(start_paused = true)]
async fn the_exit_follows_the_output_in_the_pipes() {
    let (_server, mut peer, process) = without_input().await;
    process.exits(3); // before the server runs again
    process.prints("out").await;
    process.with_pipe(2, b"err").await;
    assert_eq!(peer.line().await, "output p1:1 out");
    assert_eq!(peer.line().await, "output p1:2 err");
    assert_eq!(peer.line().await, "exited p1:3 3");
}

/// A background process that prints forever does not delay the exit.
#[tokio::test(start_paused = true)]
async fn a_flood_does_not_delay_the_exit() {
    let (_server, mut peer, process) = without_input().await;
    process.floods();
    process.exits(3);
    let mut bytes = 0;
    loop {
        let line = peer.line().await;
        if line.starts_with("exited p1:") {
            break;
        }
        bytes += line.len();
    }
    assert!(bytes < 200_000, "{bytes}");
}

#[tokio::test(start_paused = true)]
async fn a_terminal_is_one_stream() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    peer.call("process/start", json!({"processId": "p1", "argv": ["vi"], "cwd": "/", "tty": true}))
        .await
        .unwrap();
    let process = server.launcher.process("vi");
    process.prints("~").await;
    assert_eq!(peer.event().await.1["stream"], "pty");
    peer.call("process/write", write("p1", "1", ":q")).await.unwrap();
    assert_eq!(process.reads(2).await, ":q");
    process.ends(0);
    assert_eq!(
        (peer.line().await, peer.line().await),
        ("exited p1:2 0".to_owned(), "closed p1:3".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_start_frees_its_id() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    assert_eq!(peer.call("process/start", start("p1", "missing")).await.unwrap_err().0, -32603);
    peer.start("p1", "sh").await;
    let (code, text) = peer.call("process/start", start("p1", "sh")).await.unwrap_err();
    assert_eq!((code, text.as_str()), (-32600, "process id p1 is taken"));
}

#[tokio::test(start_paused = true)]
async fn only_one_of_two_starts_with_the_same_id_succeeds() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    let (first, second) = (
        peer.request("process/start", start("p1", "slow")),
        peer.request("process/start", start("p1", "sh")),
    );
    assert_eq!(peer.answer(second).await.unwrap_err().0, -32600);
    server.launcher.gate.notify_one();
    peer.answer(first).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_launch_does_not_delay_requests_and_can_be_cancelled() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    let slow = peer.request("process/start", start("p1", "slow"));
    assert_eq!(
        peer.call("process/read", json!({"processId": "p1"})).await.unwrap_err().1,
        "process p1 is starting"
    );
    assert_eq!(
        peer.call("process/write", write("p1", "1", "x")).await.unwrap(),
        json!({"status": "starting"})
    );
    assert_eq!(
        peer.call("process/terminate", json!({"processId": "p1"})).await.unwrap(),
        json!({"running": true})
    );
    assert_eq!(peer.answer(slow).await, Err((-32600, "start was cancelled".into())));
    peer.start("p1", "sh").await;
    server.launcher.gate.notify_one();
    sleep(ms(1)).await;
    assert_eq!(
        (server.launcher.alive(), server.launcher.launched.lock().unwrap()["slow"].len()),
        (1, 1),
        "the late child is killed"
    );
    server.launcher.process("sh").prints("mine").await;
    assert_eq!(peer.line().await, "output p1:1 mine");
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_ends_with_output_or_at_its_deadline_and_delays_no_request() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    peer.start("p1", "sh").await;
    let began = Instant::now();
    let poll = |after: u64| json!({"processId": "p1", "afterSeq": after, "waitMs": 5000});
    let first = peer.request("process/read", poll(0));
    assert_eq!(peer.read("p1").await["nextSeq"], 1, "what is behind it is answered at once");
    sleep(ms(100)).await;
    server.launcher.process("sh").prints("x").await;
    assert_eq!(peer.answer(first).await.unwrap()["nextSeq"], 2);
    assert_eq!(began.elapsed(), ms(100));
    assert_eq!(peer.call("process/read", poll(1)).await.unwrap()["chunks"], json!([]));
    assert_eq!(began.elapsed(), ms(5100));
    let exit = peer.request("process/read", poll(1));
    server.launcher.process("sh").exits(0);
    assert_eq!(peer.answer(exit).await.unwrap()["exited"], true);
    let close = peer.request("process/read", poll(2));
    sleep(ms(100)).await;
    assert!(peer.answers.is_empty(), "between exit and close it waits");
    server.launcher.process("sh").closes();
    assert_eq!(peer.answer(close).await.unwrap()["closed"], true);
    assert_eq!(began.elapsed(), ms(5200));
}

#[tokio::test(start_paused = true)]
async fn the_longest_possible_wait_is_accepted() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    peer.start("p1", "sh").await;
    let poll = peer.request(
        "process/read",
        json!({"processId": "p1", "afterSeq": u64::MAX, "maxBytes": 0, "waitMs": u64::MAX}),
    );
    server.launcher.process("sh").ends(0);
    assert_eq!(peer.answer(poll).await.unwrap()["closed"], true);
}

#[tokio::test(start_paused = true)]
async fn writes_wait_for_room_in_order_and_delay_no_other_process() {
    let mut server = TestServer::with(ServerLimits { stdin_bytes: 8, ..ServerLimits::default() });
    let (mut peer, _) = server.client().await;
    peer.start("p1", "sh").await;
    peer.start("p2", "cat").await;
    let big = "a".repeat(PIPE + 8);
    let accepted = json!({"status": "accepted"});
    assert_eq!(peer.call("process/write", write("p1", "1", &big)).await.unwrap(), accepted);
    sleep(ms(1)).await; // until its pipe is full
    let (second, third) = (
        peer.request("process/write", write("p1", "2", "bbb")),
        peer.request("process/write", write("p1", "3", "c")),
    );
    assert_eq!(peer.call("process/write", write("p2", "1", "x")).await.unwrap(), accepted);
    assert!(peer.answers.is_empty());
    assert_eq!(server.launcher.process("cat").reads(1).await, "x");
    assert_eq!(server.launcher.process("sh").reads(PIPE + 8 + 4).await, format!("{big}bbbc"));
    assert_eq!(
        (peer.answer(second).await.unwrap(), peer.answer(third).await.unwrap()),
        (accepted.clone(), accepted)
    );
}

#[tokio::test(start_paused = true)]
async fn a_waiting_write_is_answered_when_the_input_closes() {
    let mut server = TestServer::with(ServerLimits { stdin_bytes: 8, ..ServerLimits::default() });
    let (mut peer, _) = server.client().await;
    peer.start("p1", "sh").await;
    peer.call("process/write", write("p1", "1", &"a".repeat(9999))).await.unwrap();
    let second = peer.request("process/write", write("p1", "2", "b"));
    sleep(ms(1)).await;
    server.launcher.process("sh").ends(0);
    assert_eq!(peer.answer(second).await.unwrap(), json!({"status": "stdinClosed"}));
    let unknown = peer.call("process/write", write("p9", "1", "b")).await.unwrap();
    assert_eq!(unknown, json!({"status": "unknownProcess"}));
    peer.call("process/start", json!({"processId": "p2", "argv": ["cat"], "cwd": "/"}))
        .await
        .unwrap();
    assert_eq!(
        peer.call("process/write", write("p2", "1", "b")).await.unwrap(),
        json!({"status": "stdinClosed"})
    );
}

#[tokio::test(start_paused = true)]
async fn signals_reach_the_process_and_terminate_kills_it() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    peer.start("p1", "sh").await;
    assert_eq!(
        peer.call("process/signal", json!({"processId": "p1", "signal": "interrupt"}))
            .await
            .unwrap(),
        json!({})
    );
    let unknown = peer
        .call("process/signal", json!({"processId": "p9", "signal": "interrupt"}))
        .await
        .unwrap();
    assert_eq!(unknown, json!({}));
    let terminate = json!({"processId": "p1"});
    assert_eq!(
        peer.call("process/terminate", terminate.clone()).await.unwrap(),
        json!({"running": true})
    );
    assert_eq!(peer.line().await, "exited p1:1 137");
    assert_eq!(peer.line().await, "closed p1:2");
    assert_eq!(server.launcher.process("sh").signals(), [2, KILL]);
    assert_eq!(peer.call("process/terminate", terminate).await.unwrap(), json!({"running": false}));
    assert_eq!(
        peer.call("process/terminate", json!({"processId": "p9"})).await.unwrap(),
        json!({"running": false})
    );
}

#[tokio::test(start_paused = true)]
async fn a_flood_delays_neither_answers_nor_other_processes() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    peer.start("p1", "yes").await;
    peer.start("p2", "sh").await;
    server.launcher.process("yes").floods();
    let mut expected = 1;
    for round in 0..20 {
        server.launcher.process("sh").prints("x").await;
        peer.read("p2").await;
        let (mut before, mut seen) = (0, false);
        while !seen {
            let (_, sent) = peer.event().await;
            seen = sent["processId"] == "p2";
            if !seen {
                assert_eq!(sent["seq"], expected, "nothing is lost");
                (expected, before) = (expected + 1, before + 1);
            }
        }
        assert!(before < 200, "{before} events of the flood came first in round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_retained_output_of_a_flood_is_bounded_while_the_client_does_not_read() {
    let limits = ServerLimits { retained_bytes: 64 * 1024, ..ServerLimits::default() };
    let mut server = TestServer::with(limits);
    let (mut peer, _) = server.client().await;
    peer.start("p1", "yes").await;
    server.launcher.process("yes").floods();
    sleep(ms(1000)).await; // the client reads nothing
    assert!(server.resources.counts().most_retained_bytes <= 64 * 1024);
    assert!(
        server.resources.counts().most_retained_chunks <= limits.outbound_queue as u64 + 200,
        "what was sent, and a queue"
    );
    for seq in 1..500 {
        assert_eq!(peer.event().await.1["seq"], seq);
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_of_waiting_requests_is_bounded() {
    let mut server =
        TestServer::with(ServerLimits { waiting_requests: 2, ..ServerLimits::default() });
    let (mut peer, _) = server.client().await;
    peer.start("p1", "sh").await;
    let poll = json!({"processId": "p1", "waitMs": 100});
    let polls =
        [peer.request("process/read", poll.clone()), peer.request("process/read", poll.clone())];
    assert_eq!(
        peer.call("process/read", poll).await,
        Err((-32603, "too many requests that wait".into()))
    );
    for id in polls {
        peer.answer(id).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_bytes_of_waiting_requests_are_bounded() {
    let limits = ServerLimits { stdin_bytes: 1, waiting_bytes: 10, ..ServerLimits::default() };
    let mut server = TestServer::with(limits);
    let (mut peer, _) = server.client().await;
    peer.start("p1", "sh").await;
    peer.call("process/write", write("p1", "1", &"a".repeat(9999))).await.unwrap();
    let second = peer.request("process/write", write("p1", "2", "longer than that"));
    let third = peer.call("process/write", write("p1", "3", "c")).await;
    assert_eq!(third, Err((-32603, "too many requests that wait".into())));
    server.launcher.process("sh").reads(9999).await;
    assert_eq!(peer.answer(second).await.unwrap(), json!({"status": "accepted"}));
}

#[tokio::test(start_paused = true)]
async fn a_terminate_passes_thousands_of_waiting_requests() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    peer.start("p1", "sh").await;
    let poll = json!({"processId": "p1", "waitMs": 3_600_000});
    let polls: Vec<_> = (0..3000).map(|_| peer.request("process/read", poll.clone())).collect();
    let begun = Instant::now();
    let terminate = peer.call("process/terminate", json!({"processId": "p1"})).await;
    assert_eq!(terminate, Ok(json!({"running": true})));
    for id in polls {
        assert_eq!(peer.answer(id).await.unwrap()["exitCode"], 137);
    }
    assert!(begun.elapsed() < ms(100));
}

/// The client does not read until it has sent all requests. All answers together are longer than
/// the outbox and the pipe.
#[tokio::test(start_paused = true)]
async fn many_requests_beside_a_flood_are_all_answered() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    peer.start("p1", "yes").await;
    server.launcher.process("yes").floods();
    let ids: Vec<_> = (0..5000)
        .map(|_| peer.request("process/read", json!({"processId": "p1", "maxBytes": 1})))
        .collect();
    for id in ids {
        peer.answer(id).await.unwrap();
    }
}

/// One after the other, over a pipe that is full because the client reads nothing.
#[tokio::test(start_paused = true)]
async fn a_client_that_pauses_is_not_read_meanwhile_and_gets_all_answers() {
    let wire = WireLimits { message_bytes: 4096, ..WireLimits::default() };
    let mut server = TestServer::with(ServerLimits { wire, ..ServerLimits::default() });
    let (mut peer, _) = server.client().await;
    peer.start("p1", "sh").await;
    for _ in 0..40 {
        server.launcher.process("sh").prints(&"x".repeat(PIPE)).await;
    }
    let read = json!({"processId": "p1"});
    let ids: Vec<_> = (0..200).map(|_| peer.request("process/read", read.clone())).collect();
    for (n, id) in ids.into_iter().enumerate() {
        assert_eq!(printed(&peer.answer(id).await.unwrap()).len(), 40 * PIPE);
        if n % 50 == 0 {
            sleep(ms(6000)).await; // within the deadlines of the keepalive
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_launches_count_as_processes_until_they_end() {
    let mut server = TestServer::with(ServerLimits { processes: 2, ..ServerLimits::default() });
    let (mut peer, _) = server.client().await;
    for _ in 0..2 {
        let slow = peer.request("process/start", start("p1", "slow"));
        peer.call("process/terminate", json!({"processId": "p1"})).await.unwrap();
        assert_eq!(peer.answer(slow).await.unwrap_err().1, "start was cancelled");
    }
    assert_eq!(
        peer.call("process/start", start("p1", "sh")).await,
        Err((-32603, "too many processes".into()))
    );
    server.launcher.gate.notify_one();
    sleep(ms(1)).await;
    peer.start("p1", "sh").await;
}

#[tokio::test(start_paused = true)]
async fn many_long_answers_are_sent_as_fast_as_the_client_reads_them() {
    let wire = WireLimits { outbox_bytes: 512 * 1024, ..WireLimits::default() };
    let mut server = TestServer::with(ServerLimits { wire, ..ServerLimits::default() });
    let (mut peer, _) = server.client().await;
    peer.start("p1", "sh").await;
    for _ in 0..100 {
        server.launcher.process("sh").prints(&"x".repeat(PIPE)).await;
    }
    let reads: Vec<_> =
        (0..50).map(|_| peer.request("process/read", json!({"processId": "p1"}))).collect();
    for id in reads {
        assert_eq!(printed(&peer.answer(id).await.unwrap()).len(), 100 * PIPE);
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_chooses_among_the_variables_of_the_server() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    let policy = json!({"inherit": "all", "ignoreDefaultExcludes": false, "exclude": ["ho*"], "set": {"B": "1"}, "includeOnly": []});
    let asked = json!({"processId": "p1", "argv": ["sh"], "cwd": "/", "envPolicy": policy, "env": {"A": "1"}});
    peer.call("process/start", asked).await.unwrap();
    let names: Vec<_> =
        server.launcher.process("sh").command.env.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names, ["A", "B", "PATH"]);

    let asked =
        json!({"processId": "p2", "argv": ["ls"], "cwd": "/", "envPolicy": {"inherit": "all"}});
    assert_eq!(peer.call("process/start", asked).await.unwrap_err().0, -32602);
}

#[tokio::test(start_paused = true)]
async fn a_command_is_never_run_without_the_sandbox_that_was_requested() {
    let mut server = TestServer::new();
    let (mut peer, _) = server.client().await;
    let with = |sandbox: Value| {
        let mut asked = start("p1", "sh");
        asked["sandbox"] = sandbox;
        asked
    };
    let mut sandbox = restricted(json!([special("root", "read")]));
    let (code, text) = peer.call("process/start", with(sandbox.clone())).await.unwrap_err();
    let refused = "this server cannot enforce `sandbox`, so the process was not started: commands cannot be confined on this machine";
    assert_eq!((code, text.as_str()), (-32602, refused));
    let twice =
        r#"{"processId":"p1","argv":["sh"],"cwd":"/","sandbox":{"permissions":{}},"sandbox":null}"#;
    peer.link.send_text(format!(r#"{{"id":99,"method":"process/start","params":{twice}}}"#));
    assert_eq!(peer.answer(-1).await.unwrap_err().0, -32600, "a repeated key is malformed");
    assert!(server.launcher.launched.lock().unwrap().is_empty());

    sandbox["permissions"] = json!({"type": "disabled"});
    let started = peer.call("process/start", with(sandbox)).await.unwrap();
    assert_eq!(started, json!({"processId": "p1", "sandboxType": "linuxSeccomp"}));
}
