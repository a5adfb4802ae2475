//! Starts, endings, background commands, interrupts.

use reknit_seams::process::{Exit, KILL, TERMINATE};

use super::peer::End;
use super::*;
use crate::wire::{Ending, Event};

const BACKGROUND: &str = r#"{"operation_id":"c","command":"run","background":true}"#;

#[tokio::test(start_paused = true)]
async fn a_start_streams_both_pipes_in_order_and_the_ending() {
    let world = World::new(ServerLimits::default()).await;
    let mut answer = world.start().await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "text/event-stream"));
    assert_eq!((answer.header("x-reknit-oldest"), answer.header("x-reknit-next")), ("1", "1"));
    let init = answer.next().await.unwrap();
    let Event::Init { command, epoch: Some(epoch) } = init.event else { panic!("{init:?}") };
    assert_eq!(
        (command.as_str(), epoch.to_string().as_str()),
        ("c", answer.header("x-reknit-epoch"))
    );
    world.machine.prints(0, "a\n").await;
    world.machine.prints_on(0, 1, b"b\n").await;
    world.machine.prints(0, "c\n").await;
    world.machine.exits(0, Exit::Code(0)).await;
    let (seen, end) = answer.read().await;
    assert_eq!(
        (seen, end),
        (["1 a", "2! b", "3 c", "4 Exited(0)"].map(str::to_owned).to_vec(), End::Clean)
    );
    assert_eq!(world.machine.command(0).argv, ["bash", "--noprofile", "--norc", "-c", "run"]);
}

#[tokio::test(start_paused = true)]
async fn a_start_carries_its_directory_and_variables() {
    let world = World::new(ServerLimits::default()).await;
    let body = r#"{"argv":["p","x"],"cwd":"/w","envs":{"A":"b"}}"#;
    world.send("POST /command", &[], body).await;
    let command = world.machine.command(0);
    assert_eq!(
        (command.argv, command.cwd),
        (vec!["p".to_owned(), "x".to_owned()], Some("/w".to_owned()))
    );
    assert!(command.env.contains(&("A".to_owned(), "b".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn every_ending_is_told_apart() {
    let world = World::new(ServerLimits::default()).await;
    for (index, (exit, ending)) in [
        (Exit::Code(0), Ending::Exited(0)),
        (Exit::Code(3), Ending::Exited(3)),
        (Exit::Signal(9), Ending::Killed(9)),
    ]
    .into_iter()
    .enumerate()
    {
        let mut answer = world.send("POST /command", &[], r#"{"command":"run"}"#).await;
        sleep(SECOND).await;
        world.machine.exits(index, exit).await;
        assert_eq!(answer.read().await, (vec![format!("1 {ending:?}")], End::Clean));
    }
    world.machine.refuse();
    let mut answer = world.start().await;
    let wanted = format!("1 {:?}", Ending::NotStarted("no such program".into()));
    assert_eq!(answer.read().await, (vec![wanted], End::Clean));
}

#[tokio::test(start_paused = true)]
async fn output_before_the_exit_comes_before_the_ending() {
    let world = World::new(ServerLimits::default()).await;
    let mut answer = world.start().await;
    sleep(SECOND).await;
    // The exit is known while the output is still in the pipe, and another process holds the pipe.
    let (prints, exits) =
        (world.machine.prints(0, "a\nb"), world.machine.exits_with_open_pipes(0, Exit::Code(0)));
    tokio::join!(biased; prints, exits);
    let (seen, end) = answer.read().await;
    assert_eq!((seen.join(", "), end), ("1 a, 2 b, 3 Exited(0)".to_owned(), End::Clean));
    world.machine.prints(0, "late\n").await;
    assert_eq!(world.resume(0, None).await.read().await.0.len(), 3, "nothing follows the ending");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_prints_for_ever_does_not_delay_the_ending() {
    let world = World::new(ServerLimits::default()).await;
    let mut answer = world.start().await;
    sleep(SECOND).await;
    let machine = world.machine.clone();
    let flood = tokio::spawn(async move {
        loop {
            machine.prints_on(0, 1, &[b'x'; 1000]).await;
        }
    });
    world.machine.exits_with_open_pipes(0, Exit::Code(0)).await;
    let end = tokio::time::timeout(10 * SECOND, async { while answer.next().await.is_ok() {} });
    assert!(end.await.is_ok());
    flood.abort();
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_connection_does_not_end_the_command() {
    let world = World::new(ServerLimits::default()).await;
    let answer = world.start().await;
    sleep(SECOND).await;
    answer.close();
    sleep(SECOND).await;
    world.machine.prints(0, "a\n").await;
    let counts = world.resources.counts();
    assert_eq!((counts.running, counts.streams, counts.connections), (1, 0, 0));
    assert!(world.machine.signals(0).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_repeated_start_does_not_run_the_command_again() {
    let world = World::new(ServerLimits::default()).await;
    let answer = world.start().await;
    sleep(SECOND).await;
    world.machine.prints(0, "a\n").await;
    answer.close(); // before it has read the first event
    sleep(SECOND).await;
    let mut again = world.start().await;
    world.machine.exits(0, Exit::Code(0)).await;
    let init = again.next().await.unwrap();
    assert!(matches!(init.event, Event::Init { .. }));
    assert_eq!(again.read().await, (vec!["1 a".into(), "2 Exited(0)".into()], End::Clean));
    assert_eq!(world.machine.launches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_start_of_a_standard_client_continues_after_its_last_event() {
    let world = World::new(ServerLimits::default()).await;
    let answer = world.start().await;
    let epoch = answer.header("x-reknit-epoch").to_owned();
    sleep(SECOND).await;
    world.machine.prints(0, "a\nb\n").await;
    answer.close();
    sleep(SECOND).await;
    let (body, id) = (r#"{"operation_id":"c","command":"run"}"#, format!("{epoch}-1"));
    let mut again = world.send("POST /command", &[("last-event-id", &id)], body).await;
    assert_eq!(again.read().await, (vec!["2 b".to_owned()], End::Open));
    let other = r#"{"operation_id":"d","command":"run"}"#;
    let unknown = world.send("POST /command", &[("last-event-id", &id)], other).await;
    assert_eq!(unknown.code().await, (404, "COMMAND_NOT_FOUND".to_owned()));
    assert_eq!(world.machine.launches(), 1, "a command that was known once is not run again");
}

#[tokio::test(start_paused = true)]
async fn a_background_command_reports_its_start_and_keeps_its_logs() {
    let world = World::new(ServerLimits::default()).await;
    let mut answer = world.send("POST /command", &[], BACKGROUND).await;
    assert_eq!(answer.read().await, (vec!["Detached".to_owned()], End::Clean));
    let mut again = world.send("POST /command", &[], BACKGROUND).await;
    assert_eq!(again.read().await, (vec!["Detached".to_owned()], End::Clean));
    sleep(SECOND).await;
    assert_eq!(world.machine.launches(), 1);
    world.machine.prints(0, "a\n").await;
    world.machine.prints_on(0, 1, b"b\n").await;
    let logs = world.send("GET /command/c/logs", &[], "").await;
    assert_eq!(logs.header("execd-commands-tail-cursor"), "2");
    assert_eq!(logs.text().await, "a\nb\n");
    let logs = world.send("GET /command/c/logs?cursor=1", &[], "").await;
    assert_eq!(logs.text().await, "b\n");
    world.machine.exits(0, Exit::Code(7)).await;
    let mut all = world.resume(0, None).await;
    let (seen, end) = all.read().await;
    assert_eq!((seen.join(", "), end), ("1 a, 2! b, 3 Exited(7)".to_owned(), End::Clean));
}

#[tokio::test(start_paused = true)]
async fn a_status_tells_whether_a_command_runs_and_how_it_ended() {
    let world = World::new(ServerLimits::default()).await;
    let _answer = world.start().await;
    sleep(SECOND).await;
    let running = world.status("c").await;
    assert_eq!((running.running, running.content.as_str()), (true, "run"));
    world.machine.exits(0, Exit::Code(3)).await;
    let ended = world.status("c").await;
    assert_eq!((ended.running, ended.exit_code, ended.last), (false, Some(3), 1));
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_asks_first_and_kills_after_the_grace() {
    let world = World::new(ServerLimits::default()).await;
    let mut answer = world.start().await;
    sleep(SECOND).await;
    assert_eq!(world.send("DELETE /command?id=c", &[], "").await.status, 200);
    sleep(SECOND).await;
    assert_eq!(world.machine.signals(0), [TERMINATE]);
    assert_eq!(world.send("DELETE /command?id=c", &[], "").await.status, 200, "it still runs");
    sleep(3 * SECOND).await;
    assert_eq!(world.machine.signals(0), [TERMINATE, KILL]);
    world.machine.exits(0, Exit::Signal(9)).await;
    assert_eq!(answer.read().await, (vec!["1 Killed(9)".to_owned()], End::Clean));
    let late = world.send("DELETE /command?id=c", &[], "").await;
    assert_eq!(late.code().await, (409, "NOT_RUNNING".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_exceeds_its_time_is_killed() {
    let world = World::new(ServerLimits::default()).await;
    let mut answer = world.send("POST /command", &[], r#"{"command":"run","timeout":5000}"#).await;
    sleep(4 * SECOND).await;
    assert!(world.machine.signals(0).is_empty());
    sleep(2 * SECOND).await;
    assert_eq!(world.machine.signals(0), [KILL]);
    world.machine.exits(0, Exit::Signal(9)).await;
    assert_eq!(answer.read().await, (vec!["1 TimedOut".to_owned()], End::Clean));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_ends_before_it_is_killed_keeps_its_outcome() {
    let world = World::new(ServerLimits::default()).await;
    let mut answer = world.send("POST /command", &[], r#"{"command":"run","timeout":5000}"#).await;
    sleep(6 * SECOND).await;
    world.machine.exits(0, Exit::Signal(13)).await;
    assert_eq!(answer.read().await, (vec!["1 Killed(13)".to_owned()], End::Clean));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_server_kills_every_process() {
    let world = World::new(ServerLimits::default()).await;
    let _running = world.start().await;
    let _other = world.send("POST /command", &[], r#"{"command":"run"}"#).await;
    sleep(SECOND).await;
    world.machine.exits(0, Exit::Code(0)).await;
    assert!(!world.machine.is_dropped(0), "what it left behind lives on");
    world.server.abort();
    sleep(SECOND).await;
    assert!(world.machine.is_dropped(0) && world.machine.is_dropped(1));
    assert_eq!(world.resources.counts(), Counts::default());
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_command_leaves_nothing_behind() {
    let limits = ServerLimits::default();
    let world = World::new(limits).await;
    let mut answer = world.start().await;
    sleep(SECOND).await;
    world.machine.prints(0, "a\n").await;
    world.machine.exits(0, Exit::Code(0)).await;
    answer.read().await;
    sleep(limits.ended_retention + SECOND).await;
    assert!(world.machine.is_dropped(0));
    assert_eq!(world.resources.counts(), Counts::default());
    assert_eq!(world.resume(0, None).await.code().await, (404, "COMMAND_EXPIRED".to_owned()));
    assert_eq!(world.start().await.code().await, (404, "COMMAND_EXPIRED".to_owned()));
    let status = world.send("GET /command/status/c", &[], "").await.text().await;
    assert!(status.contains(r#""exit_code":0"#), "{status}");
}
