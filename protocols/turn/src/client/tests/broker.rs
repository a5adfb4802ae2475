//! Commands through one server, without another.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_task_runs_to_its_answer_and_the_connection_is_closed() {
    let mut net = Net::new().await;
    let client = net.client(to_broker());
    let server = async {
        let mut peer = net.peer().await;
        let params = peer.answer("initialize", json!({})).await;
        assert_eq!(params["clientInfo"]["name"], "tests");
        assert_eq!(peer.read().await["method"], "initialized");
        peer.start().await;
        peer.send(&[final_answer(), completed("completed")]).await;
        peer.end().await;
    };
    let ((report, news), ()) = tokio::join!(run(client, task()), server);
    let report = report.unwrap();
    assert_eq!(report.verdict, Verdict::Completed(Evidence::Reported));
    assert_eq!(report.answer.as_deref(), Some("the answer"));
    assert_eq!(report.exit_status(), 0);
    assert!(matches!(&news[0], News::Connected(Place::Broker(endpoint)) if *endpoint == broker()));
    assert!(news.iter().any(
        |news| matches!(news, News::Turn(Progress::Started { thread, turn }) if thread == "t" && turn == "u")
    ));
}

#[tokio::test(start_paused = true)]
async fn what_comes_before_the_answer_to_the_start_counts() {
    let mut net = Net::new().await;
    let client = net.client(to_broker());
    let server = async {
        let mut peer = net.server().await;
        peer.thread().await;
        let (id, _) = peer.expect("turn/start").await;
        let answer = json!({ "id": id, "result": { "turn": { "id": "u" } } });
        peer.send(&[final_answer(), completed("completed"), answer]).await;
        peer.end().await;
    };
    let ((report, _), ()) = tokio::join!(run(client, task()), server);
    let report = report.unwrap();
    assert_eq!(report.verdict, Verdict::Completed(Evidence::Reported));
    assert_eq!(report.answer.as_deref(), Some("the answer"));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_server_decides_after_everything_that_it_sent() {
    for (sent, expected) in [
        (vec![final_answer()], Verdict::Completed(Evidence::EndOfServer)),
        (
            vec![completed("failed")],
            Verdict::Failed(Failure::Turn { message: "no reason given".into() }),
        ),
        (
            vec![],
            Verdict::Failed(Failure::Disconnected { why: "the app-server disconnected".into() }),
        ),
    ] {
        let mut net = Net::new().await;
        let client = net.client(to_broker());
        let server = async {
            let mut peer = net.server().await;
            peer.start().await;
            peer.send(&sent).await;
        };
        let before = Instant::now();
        let ((report, _), ()) = tokio::join!(run(client, task()), server);
        let report = report.unwrap();
        assert_eq!(report.verdict, expected);
        assert!(before.elapsed() < 250 * MS, "at once");
        assert_eq!(report.exit_status(), i32::from(!matches!(expected, Verdict::Completed(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_turn_is_interrupted_before_the_client_leaves() {
    let mut net = Net::new().await;
    let client = net.client(to_broker());
    let server = async {
        let mut peer = net.server().await;
        peer.start().await;
        let params = peer.expect("turn/interrupt").await;
        assert_eq!(params.1, json!({ "threadId": "t", "turnId": "u" }));
        tokio::time::sleep(S).await;
        peer.send(&[json!({ "id": params.0, "result": {} })]).await;
        peer.end().await;
    };
    let before = Instant::now();
    let ((report, _), ()) = tokio::join!(run(client, task()), server);
    assert_eq!(report.unwrap().verdict, Verdict::Failed(Failure::Idle(600 * S)));
    let waited = before.elapsed() - TurnLimits::default().idle;
    assert!(waited >= S && waited < 2 * S, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_without_an_answer_holds_the_client_for_a_limited_time() {
    let mut net = Net::new().await;
    let client = net.client(to_broker());
    let server = async {
        let mut peer = net.server().await;
        peer.start().await;
        peer.expect("turn/interrupt").await;
        peer.end().await;
    };
    let before = Instant::now();
    let ((report, _), ()) = tokio::join!(run(client, task()), server);
    assert!(report.is_ok());
    let TurnLimits { idle, interrupt, .. } = TurnLimits::default();
    assert!(before.elapsed() < idle + interrupt + S, "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_refused_turn_leaves_no_thread() {
    for (command, removal) in [(task(), "thread/delete"), (review(), "thread/unsubscribe")] {
        let mut net = Net::new().await;
        let client = net.client(to_broker());
        let server = async {
            let mut peer = net.server().await;
            peer.answer("thread/start", json!({ "thread": { "id": "t" } })).await;
            let method = if command == task() {
                peer.answer("thread/name/set", json!({})).await;
                "turn/start"
            } else {
                "review/start"
            };
            peer.refuse(method, -32600).await;
            assert_eq!(peer.answer(removal, json!({})).await["threadId"], "t");
            peer.end().await;
        };
        let ((result, _), ()) = tokio::join!(run(client, command.clone()), server);
        let error = result.unwrap_err();
        assert_eq!(error.to_string(), "the turn did not start: no (error -32600)");
        assert_eq!(error.exit_status(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_initialize_or_is_absent_is_an_error() {
    let mut net = Net::new().await;
    let client = net.client(to_broker());
    let server = async {
        net.peer().await.refuse("initialize", -32600).await;
    };
    let ((result, _), ()) = tokio::join!(run(client, task()), server);
    let why = "the broker at broker:1 did not accept the client: no (code -32600)";
    assert_eq!(result.unwrap_err().to_string(), why);
    net.memory.refuse(true);
    let (result, _) = run(net.client(to_broker()), task()).await;
    let why = "cannot connect to the broker at broker:1: connection refused";
    assert_eq!(result.unwrap_err().to_string(), why);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_initialize_is_given_up_in_time() {
    let mut net = Net::new().await;
    let client = net.client(to_broker());
    let before = Instant::now();
    let ((result, _), _peer) = tokio::join!(run(client, task()), net.peer());
    assert_eq!(result.unwrap_err().to_string(), "the broker at broker:1 was not ready within 30 s");
    assert_eq!(before.elapsed(), ClientLimits::default().connect);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_line_is_skipped_and_too_many_fail_the_turn() {
    let most = TurnLimits::default().unreadable;
    for (lines, is_complete) in [(most, true), (most + 1, false)] {
        let mut net = Net::new().await;
        let client = net.client(to_broker());
        let server = async {
            let mut peer = net.server().await;
            peer.start().await;
            peer.0.write_all("WARNING: oops\n".repeat(lines).as_bytes()).await.unwrap();
            peer.send(&[final_answer(), completed("completed")]).await;
            if !is_complete {
                peer.answer("turn/interrupt", json!({})).await;
            }
            peer.end().await;
        };
        let ((result, news), ()) = tokio::join!(run(client, task()), server);
        let verdict = result.unwrap().verdict;
        let seen = news.iter().filter(|news| matches!(news, News::Turn(Progress::Unreadable)));
        assert_eq!(seen.count(), lines);
        match is_complete {
            true => assert_eq!(verdict, Verdict::Completed(Evidence::Reported)),
            false => assert_eq!(verdict, Verdict::Failed(Failure::Unreadable { lines })),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_the_start_names_the_turn_to_interrupt() {
    let mut net = Net::new().await;
    let client = net.client(to_broker());
    let server = async {
        let mut peer = net.server().await;
        peer.thread().await;
        let (id, _) = peer.expect("turn/start").await;
        tokio::time::sleep(ConnectionLimits::default().request + S).await;
        peer.send(&[json!({ "id": id, "result": { "turn": { "id": "u" } } })]).await;
        let params = peer.answer("turn/interrupt", json!({})).await;
        assert_eq!(params, json!({ "threadId": "t", "turnId": "u" }));
        peer.end().await;
    };
    let ((report, _), ()) = tokio::join!(run(client, task()), server);
    assert_eq!(report.unwrap().verdict, Verdict::Failed(Failure::NoAnswer));
}
