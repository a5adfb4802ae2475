//! The client and a scripted server, over a stream with paused time.

use std::time::Duration;

use reknit_seams::net::{ConnId, Stream};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};

use super::*;
use crate::capture::{Evidence, Failure, Interruption, Verdict};
use crate::command::{Command, Fallback, Settings, TaskThread};
use crate::limits::ConnectionLimits;
use crate::wire::code;

const S: Duration = Duration::from_secs(1);

/// The server's end of the connection.
struct Server(BufReader<DuplexStream>);

impl Server {
    /// Reads a request, and checks its method. Returns its id and its parameters.
    async fn expect(&mut self, method: &str) -> (Value, Value) {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        let mut message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["method"], method);
        (message["id"].take(), message["params"].take())
    }

    async fn write(&mut self, message: Value) {
        self.0.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn answer(&mut self, method: &str, result: Value) {
        let (id, _) = self.expect(method).await;
        self.write(json!({ "id": id, "result": result })).await;
    }

    async fn refuse(&mut self, method: &str, code: i64) {
        let (id, _) = self.expect(method).await;
        self.write(json!({ "id": id, "error": { "code": code, "message": "no" } })).await;
    }

    async fn give_thread(&mut self) {
        self.answer("thread/start", json!({ "thread": { "id": "t" } })).await;
        self.answer("thread/name/set", json!({})).await;
    }

    async fn notify(&mut self, method: &str, params: Value) {
        self.write(json!({ "method": method, "params": params })).await;
    }

    async fn final_answer(&mut self) {
        let item =
            json!({ "type": "agentMessage", "id": "m", "text": "done", "phase": "final_answer" });
        self.notify("item/completed", json!({ "threadId": "t", "turnId": "u", "item": item }))
            .await;
    }

    async fn complete(&mut self, status: &str) {
        let turn = json!({ "id": "u", "status": status, "items": [] });
        self.notify("turn/completed", json!({ "threadId": "t", "turn": turn })).await;
    }
}

fn turn() -> Value {
    json!({ "turn": { "id": "u", "status": "inProgress" } })
}

/// Runs a task against a server. Returns its result.
async fn against<F: Future<Output = Server>>(
    server: impl FnOnce(Server, watch::Sender<bool>) -> F,
) -> Result<Report, NotStarted> {
    let (near, far) = duplex(1 << 16);
    let mut upstream = Upstream::over(Stream::new(near, ConnId(1)), ConnectionLimits::default());
    let thread = TaskThread::New { prompt: "go".into() };
    let settings = Settings { cwd: "/w".into(), model: None, effort: None, service: "s".into() };
    let mut sequence = StartSequence::new(Command::Task { thread, write: false }, settings);
    let (cancel, mut cancelled) = watch::channel(false);
    let mut news = |_| {};
    let limits = TurnLimits::default();
    let client = run(&mut upstream, &mut sequence, limits, &mut cancelled, &mut news);
    let (result, _server) = tokio::join!(client, server(Server(BufReader::new(far)), cancel));
    result
}

#[tokio::test(start_paused = true)]
async fn a_task_runs_to_its_report() {
    let result = against(|mut server, _| async {
        server.give_thread().await;
        let (id, params) = server.expect("turn/start").await;
        assert_eq!(params["input"][0]["text"], "go");
        server.final_answer().await;
        server.complete("completed").await;
        server.write(json!({ "id": id, "result": turn() })).await;
        server
    });
    let report = result.await.unwrap();
    assert_eq!(report.verdict, Verdict::Completed(Evidence::Reported));
    assert_eq!((report.answer.as_deref(), report.exit_status()), (Some("done"), 0));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_server_counts_after_all_of_its_lines() {
    for has_answer in [true, false] {
        let result = against(|mut server, _| async move {
            server.give_thread().await;
            server.answer("turn/start", turn()).await;
            if has_answer {
                server.final_answer().await;
            }
            // Unlike a drop of the whole server, this end comes after its lines.
            server.0.get_mut().shutdown().await.unwrap();
            server
        });
        let verdict = result.await.unwrap().verdict;
        let why = "the app-server disconnected".to_owned();
        let expected = if has_answer {
            Verdict::Completed(Evidence::EndOfServer)
        } else {
            Verdict::Failed(Failure::Disconnected { why })
        };
        assert_eq!(verdict, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_turn_is_interrupted_before_the_client_returns() {
    let result = against(|mut server, _| async {
        server.give_thread().await;
        server.answer("turn/start", turn()).await;
        let (id, params) = server.expect("turn/interrupt").await;
        assert_eq!(params, json!({ "threadId": "t", "turnId": "u" }));
        server.write(json!({ "id": id, "result": {} })).await;
        server
    });
    let idle = TurnLimits::default().idle;
    assert_eq!(result.await.unwrap().verdict, Verdict::Failed(Failure::Idle(idle)));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_is_interrupted() {
    let result = against(|mut server, cancel| async move {
        server.give_thread().await;
        let (id, _) = server.expect("turn/start").await;
        cancel.send_replace(true);
        tokio::time::sleep(S).await;
        server.write(json!({ "id": id, "result": turn() })).await;
        server.answer("turn/interrupt", json!({})).await;
        server.complete("interrupted").await;
        server
    });
    let verdict = result.await.unwrap().verdict;
    assert_eq!(verdict, Verdict::Interrupted(Interruption::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_without_an_answer_does_not_hold_the_client() {
    let result = against(|mut server, cancel| async move {
        server.give_thread().await;
        server.answer("turn/start", turn()).await;
        cancel.send_replace(true);
        server.expect("turn/interrupt").await;
        server
    });
    let began = Instant::now();
    let verdict = result.await.unwrap().verdict;
    assert_eq!(verdict, Verdict::Interrupted(Interruption::CancelledUnconfirmed));
    assert!(began.elapsed() <= 20 * S, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_starts_no_turn() {
    let result = against(|mut server, _| async {
        server.give_thread().await;
        server.refuse("turn/start", code::BUSY).await;
        server
    });
    let why = result.await.unwrap_err();
    assert_eq!((why.fallback, why.left_behind.as_deref()), (Fallback::SameServer, Some("t")));
    let result = against(|mut server, _| async {
        server.refuse("thread/start", code::BUSY).await;
        server
    });
    let why = result.await.unwrap_err();
    assert_eq!((why.fallback, why.left_behind), (Fallback::OtherServer, None));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_cancelled_before_its_turn_starts_none() {
    let result = against(|mut server, cancel| async move {
        let (id, _) = server.expect("thread/start").await;
        cancel.send_replace(true);
        server.write(json!({ "id": id, "result": { "thread": { "id": "t" } } })).await;
        server.answer("thread/delete", json!({})).await;
        server
    });
    let why = result.await.unwrap_err();
    assert_eq!(
        (why.refusal, why.fallback, why.left_behind),
        (Refusal::Cancelled, Fallback::Never, None)
    );
}
