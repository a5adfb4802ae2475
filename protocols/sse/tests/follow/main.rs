//! The client follows real processes over loopback, through a proxy that breaks its connections.

mod much;
mod stage;

use std::time::Duration;

use reknit_proxy::Fault;
use reknit_sse::client::{Dialect, Failure, Loss, RequestError};
use reknit_sse::limits::{ClientLimits, ServerLimits};
use reknit_sse::wire::{CommandId, Cursor, Ending, Gap, RunCommand};
use tokio::time::timeout;

use stage::{LONG, Received, World, cut, lines, received};

/// Prints the numbers on both pipes.
const ON_BOTH: &str =
    "for i in $(seq 500); do echo out $i; echo err $i >&2; done; printf end; exit 3";

fn numbered(pipe: &str) -> Vec<u8> {
    (1..=500).flat_map(|line| format!("{pipe} {line}\n").into_bytes()).collect()
}

#[tokio::test]
async fn every_byte_arrives_once_although_every_connection_breaks() {
    // Every connection breaks early, in one of three ways; the first one inside the head of its answer.
    let rules = vec![
        cut(Some(1), 1, Fault::Reset { toward: None }),
        cut(Some(2), 1000, Fault::HalfOpen { toward: None }),
        cut(Some(4), 700, Fault::Close {}),
        cut(None, 3000, Fault::Reset { toward: None }),
    ];
    let limits = ServerLimits { heartbeat: Duration::from_millis(300), ..ServerLimits::default() };
    let world = World::new(limits, rules).await;
    let received =
        received(world.client(Dialect::Reknit).run(RunCommand::shell(ON_BOTH)).unwrap()).await;
    let mut stdout = numbered("out");
    stdout.extend(b"end");
    assert_eq!(String::from_utf8(received.stdout), String::from_utf8(stdout));
    assert_eq!(String::from_utf8(received.stderr), String::from_utf8(numbered("err")));
    assert_eq!((received.gaps, received.end), (vec![], Some(Ok(Ending::Exited(3)))));
    assert!(world.proxy.connections() > 10, "{} connections", world.proxy.connections());
}

#[tokio::test]
async fn a_lost_answer_does_not_run_the_command_twice() {
    let rules = (1..=3).map(|conn| cut(Some(conn), 1, Fault::Reset { toward: None })).collect();
    let world = World::new(ServerLimits::default(), rules).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs");
    let command = format!("echo run >> {0}; cat {0}", file.display());
    let received =
        received(world.client(Dialect::Reknit).run(RunCommand::shell(command)).unwrap()).await;
    assert_eq!(String::from_utf8(received.stdout).unwrap(), "run\n");
    assert_eq!(received.end, Some(Ok(Ending::Exited(0))));
    assert_eq!(world.proxy.connections(), 4);
}

#[tokio::test]
async fn a_command_that_prints_nothing_is_started() {
    let world = World::new(ServerLimits::default(), Vec::new()).await;
    let mut follower = world.client(Dialect::Reknit).run(RunCommand::shell("sleep 100")).unwrap();
    timeout(Duration::from_secs(10), follower.started()).await.expect("at once").unwrap();
    assert_eq!(world.resources.counts().running, 1);
}

#[tokio::test]
async fn another_follower_continues_from_the_cursor_of_the_first() {
    let world = World::new(ServerLimits::default(), Vec::new()).await;
    let client = world.client(Dialect::Reknit);
    let mut first = client.run(RunCommand::shell("seq 100")).unwrap();
    let mut received = Received::default();
    for _ in 0..40 {
        received.one(&mut first).await;
    }
    let (id, cursor) = (first.id().unwrap(), first.cursor());
    drop(first);
    received.rest(&mut client.follow(id, cursor)).await;
    assert_eq!(received.stdout, lines(1..=100, 0));
    assert_eq!(received.end, Some(Ok(Ending::Exited(0))));
}

#[tokio::test]
async fn a_background_command_is_followed_like_any_other() {
    let world = World::new(ServerLimits::default(), Vec::new()).await;
    let request = RunCommand { background: true, ..RunCommand::shell("seq 3; exit 1") };
    let received = received(world.client(Dialect::Reknit).run(request).unwrap()).await;
    assert_eq!(received.stdout, lines(1..=3, 0));
    assert_eq!(received.end, Some(Ok(Ending::Exited(1))));
}

#[tokio::test]
async fn an_unknown_command_is_a_failure() {
    let world = World::new(ServerLimits::default(), Vec::new()).await;
    let id: CommandId = "unknown".parse().unwrap();
    let received = received(world.client(Dialect::Reknit).follow(id, Cursor::START)).await;
    assert_eq!(received.end, Some(Err(Failure::NotFound)));
    assert_eq!(world.resources.counts().running, 0);
}

#[tokio::test]
async fn the_dialect_of_execd_resumes_after_a_cut_and_does_not_repeat_a_start() {
    let world = World::new(
        ServerLimits::default(),
        vec![
            cut(Some(1), 5000, Fault::Reset { toward: None }),
            cut(Some(3), 1, Fault::Reset { toward: None }),
        ],
    )
    .await;
    let client = world.client(Dialect::Execd);
    let run = || client.run(RunCommand::shell("seq 1000")).unwrap();
    let complete = received(run()).await;
    assert_eq!((complete.stdout, complete.gaps), (lines(1..=1000, 0), vec![]));
    assert_eq!(complete.end, Some(Ok(Ending::Exited(0))));
    let lost = received(run()).await;
    assert!(matches!(lost.end, Some(Err(Failure::StartUnknown(_)))), "{lost:?}");
}

#[tokio::test]
async fn a_user_who_stops_waiting_again_and_again_loses_nothing() {
    let rules = vec![cut(None, 20_000, Fault::Reset { toward: None })];
    let world = World::new(ServerLimits::default(), rules).await;
    let mut follower = world.client(Dialect::Reknit).run(RunCommand::shell("seq 5000")).unwrap();
    let mut received = Received::default();
    let all = async {
        loop {
            let moment = Duration::from_micros(200);
            match timeout(moment, received.one(&mut follower)).await {
                Ok(false) => return,
                Ok(true) => {}
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    timeout(LONG, all).await.expect("it makes progress");
    assert_eq!(received.stdout, lines(1..=5000, 0));
    assert_eq!(received.end, Some(Ok(Ending::Exited(0))));
    assert!(world.proxy.connections() > 5);
}

#[tokio::test]
async fn a_background_command_is_watched_and_interrupted_with_short_requests() {
    let limits = ServerLimits { retained_events: 2, ..ServerLimits::default() };
    let world = World::new(limits, Vec::new()).await;
    let client = world.client(Dialect::Reknit);
    let request = RunCommand { background: true, ..RunCommand::shell("seq 3; exec sleep 100") };
    let mut follower = client.run(request).unwrap();
    let mut received = Received::default();
    while received.stdout.last_chunk() != Some(b"3\n") {
        received.one(&mut follower).await;
    }
    let id = follower.id().unwrap();
    let status = client.status(&id).await.unwrap();
    assert_eq!((status.running, status.last), (true, 3));
    let logs = client.logs(&id, Cursor::START).await.unwrap();
    assert_eq!((&logs.output[..], logs.gap), (&b"2\n3\n"[..], Some(Gap { first: 1, last: 1 })));
    assert_eq!(logs.next, follower.cursor());
    client.interrupt(&id).await.unwrap();
    received.rest(&mut follower).await;
    assert_eq!(received.end, Some(Ok(Ending::Killed(15))));
    let again = client.interrupt(&id).await;
    assert!(
        matches!(&again, Err(RequestError::Refused(refused)) if refused.code == "NOT_RUNNING"),
        "{again:?}"
    );
    let status = client.status(&id).await.unwrap();
    assert_eq!((status.running, status.ending), (false, Some(Ending::Killed(15))));
}

#[tokio::test]
async fn a_short_request_whose_answer_is_lost_is_an_error_in_time() {
    let rules = vec![
        cut(Some(1), 1, Fault::Reset { toward: None }),
        cut(Some(2), 1, Fault::HalfOpen { toward: None }),
    ];
    let world = World::new(ServerLimits::default(), rules).await;
    let open_timeout = Duration::from_millis(300);
    let limits = ClientLimits { open_timeout, answer_bytes: 10, ..ClientLimits::default() };
    let client = world.limited(limits);
    let id: CommandId = "c".parse().unwrap();
    assert_eq!(client.status(&id).await, Err(RequestError::Lost(Loss::NoAnswer)));
    assert_eq!(client.status(&id).await, Err(RequestError::Lost(Loss::OpenTimeout)));
    let mut run = RunCommand::shell("true");
    run.operation_id = Some(id.to_string());
    received(client.run(run).unwrap()).await;
    assert!(matches!(client.status(&id).await, Err(RequestError::Protocol(_))));
}
