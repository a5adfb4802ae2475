//! A connection to a scripted app-server: over a stream with paused time, and to real processes.

use std::time::Duration;

use reknit_seams::net::ConnId;
use reknit_seams::process::Exit;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::time::timeout;

use super::*;
use crate::testing::{defect_on, with_defect};

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn limits() -> ConnectionLimits {
    ConnectionLimits { line_bytes: 10_000, terminate: 200 * MS, ..ConnectionLimits::default() }
}

/// The far end of a stream.
struct Peer(BufReader<DuplexStream>);

impl Peer {
    async fn read(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    async fn write(&mut self, lines: &str) {
        self.0.write_all(lines.as_bytes()).await.unwrap();
    }
}

fn pair() -> (Upstream, Peer) {
    let (near, far) = duplex(1 << 16);
    (Upstream::over(Stream::new(near, ConnId(1)), limits()), Peer(BufReader::new(far)))
}

/// Shows an event in a line.
fn text(event: UpstreamEvent) -> String {
    match event {
        UpstreamEvent::Answered { outcome: Ok(result), .. } => format!("result {result}"),
        UpstreamEvent::Answered { outcome: Err(failure), .. } => format!("failed: {failure}"),
        UpstreamEvent::Late { result, .. } => format!("late {result}"),
        UpstreamEvent::Notification { method, .. } => method,
        UpstreamEvent::Unreadable { why } => format!("unreadable: {why}"),
        UpstreamEvent::Ended(end) => format!("end: {end}"),
    }
}

async fn next(upstream: &mut Upstream) -> String {
    text(timeout(600 * S, upstream.next()).await.expect("an event comes"))
}

async fn sh(script: &str) -> Upstream {
    let env = Env::real();
    let argv = vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()];
    let variables = env.machine.variables.clone().into_iter().collect();
    let command = Command { argv, env: variables, ..Command::default() };
    Upstream::launch(&env, command, limits()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn answers_and_notifications_come_in_the_order_of_the_lines() {
    let (mut upstream, mut peer) = pair();
    upstream.request("turn/start", None).unwrap();
    let peer = async {
        assert_eq!(peer.read().await, r#"{"id":1,"method":"turn/start"}"#);
        peer.write("{\"method\":\"a\"}\n{\"id\":1,\"result\":{}}\n{\"method\":\"b\"}\n").await;
        peer
    };
    let (first, peer) = tokio::join!(next(&mut upstream), peer);
    assert_eq!(first, "a");
    assert_eq!(next(&mut upstream).await, "result {}");
    assert_eq!(next(&mut upstream).await, "b");
    drop(peer);
    assert_eq!(next(&mut upstream).await, "end: the app-server disconnected");
    assert_eq!(next(&mut upstream).await, "end: the app-server disconnected");
}

#[tokio::test(start_paused = true)]
async fn a_call_keeps_other_events_for_later() {
    let (mut upstream, mut peer) = pair();
    let other = upstream.request("other", None).unwrap();
    let peer = async {
        assert_eq!(peer.read().await, r#"{"id":1,"method":"other"}"#);
        assert_eq!(peer.read().await, r#"{"id":2,"method":"m"}"#);
        peer.write("{\"method\":\"a\"}\n{\"id\":1,\"result\":1}\n{\"id\":2,\"result\":2}\n").await;
        peer
    };
    let (result, _peer) = tokio::join!(upstream.call("m", None), peer);
    assert_eq!(result.unwrap().get(), "2");
    assert_eq!(next(&mut upstream).await, "a");
    match upstream.next().await {
        UpstreamEvent::Answered { number, outcome } => {
            assert_eq!((number, outcome.unwrap().get()), (other, "1"));
        }
        event => panic!("{event:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_of_the_app_server_is_refused() {
    let (mut upstream, mut peer) = pair();
    let peer = async {
        peer.write("{\"id\":\"x\",\"method\":\"item/tool/call\"}\n").await;
        let answer = peer.read().await;
        peer.write("{\"method\":\"a\"}\n").await;
        answer
    };
    let (event, answer) = tokio::join!(next(&mut upstream), peer);
    assert_eq!(event, "a");
    assert!(answer.starts_with(r#"{"id":"x","error":{"code":-32601,"#), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_fails_at_its_deadline_and_a_late_answer_is_reported() {
    let (mut upstream, mut peer) = pair();
    let before = Instant::now();
    upstream.request("m", None).unwrap();
    assert_eq!(next(&mut upstream).await, "failed: no answer in time");
    assert_eq!(before.elapsed(), limits().request);
    peer.write("{\"id\":1,\"result\":7}\n{\"id\":1,\"result\":7}\n{\"method\":\"a\"}\n").await;
    assert_eq!(next(&mut upstream).await, "late 7");
    assert_eq!(next(&mut upstream).await, "a", "the second answer means nothing");
    let _on = defect_on("RequestWithoutDeadline");
    upstream.request("m", None).unwrap();
    assert!(timeout(3600 * S, upstream.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_last_1024_requests_after_their_deadlines_are_remembered() {
    let (mut upstream, mut peer) = pair();
    for _ in 0..1025 {
        upstream.request("m", None).unwrap();
    }
    for _ in 0..1025 {
        assert_eq!(next(&mut upstream).await, "failed: no answer in time");
    }
    peer.write("{\"id\":1,\"result\":1}\n{\"id\":2,\"result\":2}\n{\"method\":\"a\"}\n").await;
    assert_eq!(next(&mut upstream).await, "late 2", "the oldest one is forgotten");
    assert_eq!(next(&mut upstream).await, "a");
}

#[tokio::test(start_paused = true)]
async fn a_request_after_the_end_fails_at_once() {
    let (mut upstream, peer) = pair();
    upstream.request("before", None).unwrap();
    drop(peer);
    assert_eq!(next(&mut upstream).await, "failed: the app-server disconnected");
    assert!(next(&mut upstream).await.starts_with("end"));
    assert_eq!(upstream.request("after", None), Err(NotConnected));
    let accepted = with_defect("RequestAfterTheEnd", || upstream.request("after", None).is_ok());
    assert!(accepted, "and it has no deadline");
    assert_eq!(upstream.core.due(), None);
    assert!(matches!(upstream.call("after", None).await, Err(RequestFailure::Ended(_))));
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_no_message_is_skipped_and_reported_in_its_place() {
    let (mut upstream, mut peer) = pair();
    upstream.request("m", None).unwrap();
    for line in ["WARNING: oops", "[]", "{}", r#"{"id":null,"error":{"code":1,"message":"no"}}"#] {
        peer.write(&format!("{{\"method\":\"a\"}}\n{line}\n{{\"method\":\"b\"}}\n")).await;
        assert_eq!(next(&mut upstream).await, "a");
        let skipped = next(&mut upstream).await;
        assert!(skipped.starts_with("unreadable: "), "{line}: {skipped}");
        assert_eq!(next(&mut upstream).await, "b");
    }
    peer.write("{\"id\":1,\"result\":{}}\n").await;
    assert_eq!(next(&mut upstream).await, "result {}");
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_too_long_ends_the_connection_and_nothing_after_it_counts() {
    let (mut upstream, mut peer) = pair();
    peer.write("{\"method\":\"a\"}\n").await;
    peer.write(&format!("{}\noops\n{{\"method\":\"b\"}}\n", "x".repeat(10_001))).await;
    assert_eq!(next(&mut upstream).await, "a");
    let end = next(&mut upstream).await;
    assert_eq!(end, "end: the app-server sent a line that is longer than 10000 bytes");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_nothing_ends_the_connection() {
    let (mut upstream, _peer) = pair();
    let params = serde_json::value::to_raw_value(&"x".repeat(1 << 17)).unwrap();
    upstream.request("m", Some(params)).unwrap();
    assert_eq!(next(&mut upstream).await, "failed: the app-server reads no data");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_lines_during_a_call_ends_the_connection() {
    for line in ["{\"method\":\"a\"}\n", "oops\n"] {
        let (mut upstream, mut peer) = pair();
        let flood = async { while peer.0.write_all(line.repeat(100).as_bytes()).await.is_ok() {} };
        let call = async {
            let failure = upstream.call("m", None).await.unwrap_err();
            assert!(failure.to_string().contains("too many lines"), "{failure}");
            drop(upstream);
        };
        tokio::join!(flood, call);
    }
}

#[tokio::test(start_paused = true)]
async fn closing_a_stream_does_not_wait_for_a_peer_that_never_ends() {
    let (upstream, _peer) = pair();
    let before = Instant::now();
    assert_eq!(upstream.finish().await.reason, EndReason::Asked);
    assert_eq!(before.elapsed(), limits().close);
    let _on = defect_on("CloseWithoutDeadline");
    let (upstream, _peer) = pair();
    assert!(timeout(3600 * S, upstream.finish()).await.is_err());
}

#[tokio::test]
async fn the_last_lines_of_a_process_come_before_its_end() {
    for _ in 0..10 {
        let script = "read line; echo '{\"id\":1,\"result\":{}}'; echo '{\"method\":\"a\"}'; \
                      echo one >&2; echo two >&2; exit 3";
        let mut upstream = sh(script).await;
        upstream.request("m", None).unwrap();
        upstream.request("n", None).unwrap();
        assert_eq!(next(&mut upstream).await, "result {}");
        assert_eq!(next(&mut upstream).await, "a");
        let why = "the app-server disconnected (exit code 3): two";
        assert_eq!(next(&mut upstream).await, format!("failed: {why}"));
        assert_eq!(next(&mut upstream).await, format!("end: {why}"));
    }
}

#[tokio::test]
async fn an_exit_that_overtakes_the_last_lines_loses_them() {
    let _on = defect_on("ExitBeforeTheLastLines");
    let mut upstream = sh("echo '{\"method\":\"a\"}'; exit 3").await;
    tokio::time::sleep(300 * MS).await;
    assert_eq!(next(&mut upstream).await, "end: the app-server disconnected (exit code 3)");
}

#[tokio::test]
async fn the_last_line_may_lack_its_end() {
    let script = "echo '{\"method\":\"a\"}'; printf '{\"method\":\"b\"}'; exit 3";
    let mut upstream = sh(script).await;
    assert_eq!((next(&mut upstream).await, next(&mut upstream).await), ("a".into(), "b".into()));
    let _on = defect_on("LastLineIsDropped");
    let mut upstream = sh(script).await;
    assert_eq!(next(&mut upstream).await, "a");
    assert!(next(&mut upstream).await.starts_with("end: "));
}

#[tokio::test]
async fn a_process_ends_with_its_input() {
    let upstream = sh("cat >/dev/null; exit 4").await;
    let end = ConnectionLimits { close: 10 * S, ..limits() };
    let upstream = Upstream { core: UpstreamCore::new(end, true), ..upstream };
    assert_eq!(upstream.finish().await.exit, Some(Exit::Code(4)));
}

#[tokio::test]
async fn a_process_that_ignores_the_end_of_its_input_is_terminated() {
    let end = sh("exec sleep 100").await.finish().await;
    assert_eq!((end.exit, &end.reason), (Some(Exit::Signal(15)), &EndReason::Asked));
}

#[tokio::test]
async fn a_process_that_ignores_sigterm_is_killed() {
    let mut upstream =
        sh("trap '' TERM; echo '{\"method\":\"a\"}'; while :; do sleep 1; done").await;
    assert_eq!(next(&mut upstream).await, "a");
    assert_eq!(upstream.finish().await.exit, Some(Exit::Signal(9)));
}

#[tokio::test]
async fn a_process_that_sends_a_line_that_is_too_long_is_terminated() {
    let too_long = "head -c 20000 /dev/zero | tr '\\0' x; echo; exec sleep 100";
    let end = next(&mut sh(too_long).await).await;
    assert!(end.contains("longer than 10000 bytes") && end.contains("signal 15"), "{end}");
    let _on = defect_on("BadLineLeavesTheChild");
    for script in [too_long, "echo oops; exec sleep 100"] {
        let end = next(&mut sh(script).await).await;
        assert!(end.starts_with("end: ") && !end.contains("signal 15"), "{end}");
    }
}

#[tokio::test]
async fn a_process_that_closes_its_output_is_terminated() {
    let mut upstream = sh("exec >&-; exec sleep 100").await;
    assert_eq!(next(&mut upstream).await, "end: the app-server disconnected (killed by signal 15)");
}

#[tokio::test]
async fn a_descendant_that_holds_the_output_does_not_delay_the_end() {
    let mut upstream = sh("sleep 100 & echo '{\"method\":\"a\"}'; exit 0").await;
    assert_eq!(next(&mut upstream).await, "a");
    assert_eq!(next(&mut upstream).await, "end: the app-server disconnected (exit code 0)");
}

#[tokio::test]
async fn only_the_last_bytes_of_the_standard_error_are_kept() {
    let mut upstream =
        sh("i=0; while [ $i -lt 3000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1").await;
    let UpstreamEvent::Ended(end) = upstream.next().await else { panic!("an end") };
    assert!(end.stderr.len() <= limits().stderr_bytes);
    assert!(
        end.stderr.starts_with("line ") && end.stderr.ends_with("line 2999\n"),
        "{}",
        end.stderr
    );
}
