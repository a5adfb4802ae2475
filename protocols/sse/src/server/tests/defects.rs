//! Each seeded bug has the effect that the table of the server describes, and the server without it
//! has not.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use reknit_seams::probe::{self, Hold, Prober};
use reknit_seams::process::Exit;
use tokio::runtime::Builder;

use super::*;

mod answers;
mod processes;
mod sessions;
mod starts;
mod streams;

/// One bug is on. Its point holds its task once.
pub(super) struct OneBug {
    name: &'static str,
    /// How often each point was reached.
    reached: [Cell<u32>; POINTS.len()],
}

impl OneBug {
    pub(super) fn new(name: &'static str) -> Rc<Self> {
        Rc::new(Self { name, reached: Default::default() })
    }
}

/// Points, and the first, second, … time that a task reaches one: then it is held. All but the last four
/// are points that only bugs have.
const POINTS: [(&str, u32); 8] = [
    ("sse.server.id-taken", 2),
    ("sse.server.snapshot-sent", 1),
    ("sse.server.attached-unflushed", 1),
    ("sse.server.finished", 1),
    ("sse.server.started", 1),
    ("sse.server.launched", 2),
    ("sse.server.pull.looked", 1),
    ("sse.server.hold.looked", 1),
];

impl Prober for OneBug {
    fn point(&self, name: &'static str, _: &[(&'static str, u64)]) -> Option<Hold> {
        let index = POINTS.iter().position(|(point, _)| *point == name)?;
        let reached = &self.reached[index];
        reached.set(reached.get() + 1);
        (reached.get() == POINTS[index].1).then(|| Box::pin(sleep(SECOND / 100)) as Hold)
    }

    fn defect(&self, name: &'static str) -> bool {
        name == self.name
    }
}

/// Runs a story without and with a bug.
fn compare<F: Future<Output = String>>(
    bug: &'static str,
    story: impl Fn() -> F,
    good: &str,
    bad: &str,
) {
    let run = |name: &'static str| {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        let _attached = probe::attach(OneBug::new(name));
        runtime.unwrap().block_on(story())
    };
    assert_eq!(run(""), good, "without {bug}");
    assert_eq!(run(bug), bad, "with {bug}");
}

async fn world() -> World {
    World::new(ServerLimits::default()).await
}

/// Reads a stream until nothing arrives. Renders its events and its end.
async fn rest(answer: &mut Answer) -> String {
    let (mut seen, end) = answer.read().await;
    seen.push(format!("{end:?}"));
    seen.join(", ")
}

/// Returns the status of a refusal with its code, or `200`.
async fn status(answer: Answer) -> String {
    match answer.status.as_u16() {
        200 => "200".to_owned(),
        _ => answer.code().await.1,
    }
}

/// Starts a command, and loses the connection.
async fn started(world: &World) {
    let answer = world.start().await;
    sleep(SECOND).await;
    answer.close();
    sleep(SECOND).await;
}

#[test]
fn two_pipes_take_positions_before_they_append() {
    let story = || async {
        let world = world().await;
        let mut stream = world.start().await;
        sleep(SECOND).await;
        world.machine.prints(0, "first\n").await;
        world.machine.prints(0, "a\n").await;
        world.machine.prints_on(0, 1, b"b\n").await;
        sleep(SECOND).await;
        world.machine.exits(0, Exit::Code(0)).await;
        rest(&mut stream).await
    };
    let good = "1 first, 2 a, 3! b, 4 Exited(0), Clean";
    let bad = "1 first, 3! b, 4 Exited(0), Clean";
    compare("IdBeforeLock", story, good, bad);
}

/// Prints between the replay of the past and the first live output.
async fn prints_during_the_handoff() -> String {
    let world = world().await;
    started(&world).await;
    world.machine.prints(0, "a\n").await;
    let mut stream = world.resume(0, None).await;
    assert_eq!(stream.next().await.unwrap().position, Some(1));
    world.machine.prints(0, "b\n").await;
    sleep(SECOND).await;
    world.machine.prints(0, "c\n").await;
    rest(&mut stream).await
}

#[test]
fn events_during_the_handoff_are_lost_or_come_twice() {
    let good = "2 b, 3 c, Open";
    compare("SnapshotThenAttach", prints_during_the_handoff, good, "3 c, Open");
    compare("AttachThenFlush", prints_during_the_handoff, good, "2 b, 2 b, 3 c, Open");
}

#[test]
fn a_command_that_ends_during_the_replay_loses_its_rest() {
    let story = || async {
        let limits = ServerLimits { batch_bytes: 1, write_buffer: 0, ..Default::default() };
        let world = World::new(limits).await;
        started(&world).await;
        let line = format!("{}\n", "x".repeat(9_999));
        for _ in 0..40 {
            world.machine.prints(0, &line).await;
        }
        // The reader does not read yet, so the replay is not complete.
        let mut stream = world.resume(0, None).await;
        world.machine.prints(0, "rest\n").await;
        world.machine.exits(0, Exit::Code(0)).await;
        let (seen, end) = stream.read().await;
        format!("{} events, {end:?}", seen.len())
    };
    compare("EndedMeansReplayed", story, "42 events, Clean", "40 events, Clean");
}

#[test]
fn the_log_is_dropped_one_second_after_the_ending() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        world.machine.exits(0, Exit::Code(0)).await;
        sleep(2 * SECOND).await;
        status(world.resume(0, None).await).await
    };
    compare("LogGoneAfterASecond", story, "200", "COMMAND_EXPIRED");
}

#[test]
fn lost_events_are_not_reported() {
    let story = || async {
        let world = World::new(ServerLimits { retained_events: 1, ..Default::default() }).await;
        started(&world).await;
        world.machine.prints(0, "a\nb\n").await;
        rest(&mut world.resume(0, None).await).await
    };
    compare("OverflowIsSilent", story, "gap 1..=1, 2 b, Open", "2 b, Open");
}

#[test]
fn a_gap_covers_an_event_that_is_there() {
    let story = || async {
        let world = World::new(ServerLimits { retained_events: 2, ..Default::default() }).await;
        started(&world).await;
        world.machine.prints(0, "a\nb\nc\n").await;
        rest(&mut world.resume(0, None).await).await
    };
    compare("GapTooLong", story, "gap 1..=1, 2 b, 3 c, Open", "gap 1..=2, 3 c, Open");
}

#[test]
fn the_cursor_of_logs_skips_what_did_not_fit() {
    let story = || async {
        let world = World::new(ServerLimits { logs_bytes: 1, ..Default::default() }).await;
        let background = r#"{"operation_id":"c","command":"run","background":true}"#;
        world.send("POST /command", &[], background).await.read().await;
        sleep(SECOND).await;
        world.machine.prints(0, "a\nb\n").await;
        let logs = world.send("GET /command/c/logs", &[], "").await;
        logs.header("execd-commands-tail-cursor").to_owned()
    };
    compare("LogsSkipTheRest", story, "1", "2");
}

#[test]
fn output_before_the_first_stream_cannot_be_replayed() {
    let story = || async {
        let world = world().await;
        // The handler of the start is held while the process prints.
        let prints = async {
            sleep(SECOND / 200).await;
            world.machine.prints(0, "a\n").await;
        };
        let (mut first, ()) = tokio::join!(biased; world.start(), prints);
        let seen = rest(&mut first).await;
        first.close();
        sleep(SECOND).await;
        format!("{seen}; {}", rest(&mut world.resume(0, None).await).await)
    };
    compare("OutputBeforeStreamUnlogged", story, "1 a, Open; 1 a, Open", "1 a, Open; Open");
}

#[test]
fn the_end_of_a_connection_ends_the_command() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        format!("{:?}", world.machine.signals(0))
    };
    compare("CommandDiesWithConnection", story, "[]", "[15]");
}

#[test]
fn a_stream_without_progress_is_never_replaced() {
    let story = || async {
        let world = World::new(ServerLimits { write_deadline: 99 * SECOND, ..Default::default() });
        let world = world.await;
        let _stream = world.start().await;
        sleep(SECOND).await;
        world.net.set(1, Fate::Frozen);
        sleep(30 * SECOND).await;
        status(world.resume(0, None).await).await
    };
    compare("StuckStreamStays", story, "200", "STREAM_ACTIVE");
}

/// A connection takes no bytes for an hour.
async fn blocked_connections() -> String {
    let world = world().await;
    let _stream = world.start().await;
    sleep(SECOND).await;
    world.net.set(1, Fate::Frozen);
    sleep(3600 * SECOND).await;
    world.resources.counts().connections.to_string()
}

#[test]
fn a_connection_is_blocked_for_ever() {
    compare("NoWriteDeadline", blocked_connections, "0", "1");
}

#[test]
fn a_slow_reader_delays_its_command() {
    let story = || async {
        let world = World::new(ServerLimits { write_buffer: 0, ..Default::default() }).await;
        let _stuck = world.start().await;
        sleep(SECOND).await;
        world.net.set(1, Fate::Frozen);
        let line = format!("{}\n", "x".repeat(9_999));
        for _ in 0..5 {
            world.machine.prints(0, &line).await;
        }
        world.last("c").await.to_string()
    };
    compare("SlowReaderHoldsCommand", story, "5", "2");
}

/// A client loses its connection while its command prints 1 MB, more than the log retains, and returns
/// after a second. Returns what it misses.
async fn missed_over_a_loss() -> String {
    let (hold, retained_bytes, in_flight) = (5 * SECOND, 400_000, 200_000);
    let limits = ServerLimits { hold, retained_bytes, in_flight, ..Default::default() };
    let world = World::new(limits).await;
    let mut first = world.start().await;
    sleep(SECOND).await;
    let machine = world.machine.clone();
    let lines = format!("{}\n", "x".repeat(999)).repeat(1000);
    let printing = tokio::spawn(async move {
        machine.prints(0, &lines).await;
        machine.exits(0, Exit::Code(0)).await;
    });
    while first.next().await.unwrap().position != Some(3) {}
    sleep(SECOND).await;
    first.close();
    sleep(SECOND).await;
    let seen = world.resume(3, None).await.read().await.0;
    printing.await.unwrap();
    assert_eq!(seen.last().unwrap(), "1001 Exited(0)");
    let gaps = seen.iter().filter(|event| event.starts_with("gap")).count();
    format!("{gaps} gaps")
}

#[test]
fn a_command_that_waits_for_its_reader_goes_on_when_the_connection_is_lost() {
    compare("LossEndsHold", missed_over_a_loss, "0 gaps", "1 gaps");
}

#[test]
fn bytes_in_the_buffers_of_a_connection_count_as_received() {
    compare("BuffersCountAsRead", missed_over_a_loss, "0 gaps", "1 gaps");
}

#[test]
fn a_resumed_stream_sends_no_sign_of_life() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        let mut stream = world.resume(0, None).await;
        let alive = tokio::time::timeout(60 * SECOND, stream.next()).await;
        alive.is_ok().to_string()
    };
    compare("NoHeartbeatAfterResume", story, "true", "false");
}

#[test]
fn a_stream_that_is_replaced_ends_like_a_complete_one() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        let mut old = world.resume(0, Some("me.1")).await;
        let _new = world.resume(0, Some("me.2")).await;
        rest(&mut old).await
    };
    compare("LoserEndsCleanly", story, "Broken", "Clean");
}

#[test]
fn two_clients_take_the_stream_from_each_other() {
    let story = || async {
        let world = world().await;
        let _stream = world.start().await;
        status(world.resume(0, None).await).await
    };
    compare("NewestAlwaysWins", story, "STREAM_ACTIVE", "200");
}

#[test]
fn the_late_end_of_an_old_connection_ends_the_new_stream() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        let _old = world.resume(0, Some("me.1")).await;
        let mut new = world.resume(0, Some("me.2")).await;
        sleep(SECOND).await;
        world.machine.prints(0, "a\n").await;
        rest(&mut new).await
    };
    compare("StaleCloseDetaches", story, "1 a, Open", "Broken");
}

#[test]
fn a_forgotten_log_stays_in_memory() {
    let story = || async {
        let limits = ServerLimits::default();
        let world = World::new(limits).await;
        started(&world).await;
        world.machine.exits(0, Exit::Code(0)).await;
        sleep(limits.ended_retention + SECOND).await;
        let counts = world.resources.counts();
        format!("{} bytes, left behind: {}", counts.log_bytes, !world.machine.is_dropped(0))
    };
    let (good, bad) = ("0 bytes, left behind: false", "64 bytes, left behind: true");
    compare("ForgottenLogLeaks", story, good, bad);
}

#[test]
fn wrong_cursors_are_accepted() {
    for (bug, cursor, good, bad) in [
        ("GarbageCursorIsZero", "x", "CURSOR_MALFORMED", "200"),
        ("FutureCursorAccepted", "9", "CURSOR_FUTURE", "200"),
        ("EpochIgnored", "0000000000000001-0", "CURSOR_FOREIGN", "200"),
    ] {
        let story = || async move {
            let world = world().await;
            started(&world).await;
            let uri = format!("GET /command/c/resume?after_eid={cursor}");
            status(world.send(&uri, &[], "").await).await
        };
        compare(bug, story, good, bad);
    }
}

#[test]
fn the_address_counts_more_than_the_header() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        let uri = "GET /command/c/resume?after_eid=0";
        status(world.send(uri, &[("last-event-id", "x")], "").await).await
    };
    compare("ParameterBeforeHeader", story, "CURSOR_MALFORMED", "200");
}

#[test]
fn a_command_waits_although_its_client_has_all_events() {
    let story = || async {
        let (hold, retained_bytes, in_flight) = (60 * SECOND, 400_000, 400_000);
        let line_bytes = 100_000;
        let limits =
            ServerLimits { hold, retained_bytes, in_flight, line_bytes, ..Default::default() };
        let world = World::new(limits).await;
        let mut first = world.start().await;
        sleep(SECOND).await;
        let machine = world.machine.clone();
        let line = format!("{}\n", "x".repeat(999));
        machine.prints(0, &line.repeat(375)).await;
        while first.next().await.unwrap().position != Some(375) {}
        first.close();
        sleep(SECOND).await;
        let more = format!("{}\n", "y".repeat(29_999));
        machine.prints(0, &more).await;
        sleep(SECOND).await;
        let mut second = world.resume(375, None).await;
        let arrives = async { while second.next().await.unwrap().position != Some(376) {} };
        tokio::time::timeout(SECOND, arrives).await.is_ok().to_string()
    };
    compare("CursorFreesNothing", story, "true", "false");
}

#[test]
fn events_that_are_sent_together_have_one_id() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        world.machine.prints(0, "a\nb\n").await;
        world.machine.exits(0, Exit::Code(0)).await;
        let accept = [("accept", "text/event-stream")];
        let answer = world.send("GET /command/c/resume?after_eid=0", &accept, "").await;
        answer.text().await.contains("-1\ndata: {\"eid\":1,").to_string()
    };
    compare("BatchSharesAnId", story, "true", "false");
}

#[test]
fn the_late_end_of_an_old_stream_ends_the_hold() {
    let story = || async {
        let bounds = reknit_resume::Bounds { items: 1, weight: usize::MAX };
        let now = Instant::now();
        let log = super::super::log::CommandLog::new(crate::wire::Epoch(7), bounds);
        let mut command = super::super::command::Command::new(log, None, 0, now);
        let mut attach = |owner: &str| {
            let link = Arc::new(Link::new(reknit_seams::net::ConnId(1), now));
            let (id, start) = ("c".parse().unwrap(), crate::wire::Cursor::START);
            let owner = Some(owner.parse().unwrap());
            let attached = command.attach(&id, start, owner, link, now, SECOND);
            attached.unwrap().generation
        };
        let (old, new) = (attach("me.1"), attach("me.2"));
        command.output(0, crate::wire::OutputStream::Stdout, "a".into());
        command.detach(new);
        command.detach(old);
        command.waits(1, SECOND, 0).is_some().to_string()
    };
    compare("OldEndForgetsTheLoss", story, "true", "false");
}

#[test]
fn a_log_is_kept_until_the_newest_log_goes() {
    let story = || async {
        let limits = ServerLimits { ended_retention: 10 * SECOND, ..Default::default() };
        let world = World::new(limits).await;
        started(&world).await;
        let _stream = world.start_other().await;
        world.machine.exits(0, Exit::Code(0)).await;
        sleep(5 * SECOND).await;
        world.machine.exits(1, Exit::Code(0)).await;
        sleep(7 * SECOND).await;
        status(world.resume(0, None).await).await
    };
    compare("SweepsWithTheLast", story, "COMMAND_EXPIRED", "200");
}

#[test]
fn a_stream_shows_life_only_once() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        let mut stream = world.resume(0, None).await;
        let mut alive = true;
        for _ in 0..3 {
            alive &= tokio::time::timeout(20 * SECOND, stream.next()).await.is_ok();
        }
        alive.to_string()
    };
    compare("HeartbeatOnlyOnce", story, "true", "false");
}

#[test]
fn output_waits_for_a_client_that_never_returns() {
    let story = || async {
        let (hold, retained_bytes, in_flight) = (5 * SECOND, 400_000, 200_000);
        let limits = ServerLimits { hold, retained_bytes, in_flight, ..Default::default() };
        let world = World::new(limits).await;
        let first = world.start().await;
        sleep(SECOND).await;
        let machine = world.machine.clone();
        let lines = format!("{}\n", "x".repeat(999)).repeat(1000);
        let printing = tokio::spawn(async move { machine.prints(0, &lines).await });
        sleep(SECOND).await;
        first.close();
        sleep(60 * SECOND).await;
        printing.is_finished().to_string()
    };
    compare("HoldNeverEnds", story, "true", "false");
}

/// Every bug of the code is in the table, and every row of the table is in the code and here.
#[test]
fn the_table_of_bugs_is_complete() {
    let table: Vec<_> = (include_str!("../mod.rs").lines())
        .filter_map(|line| line.strip_prefix("//! | ")?.split('`').nth(1))
        .collect();
    let code = [
        include_str!("../command.rs"),
        include_str!("../connection.rs"),
        include_str!("../defects/command.rs"),
        include_str!("../defects/stream.rs"),
        include_str!("../lines.rs"),
        include_str!("../link.rs"),
        include_str!("../process.rs"),
        include_str!("../registry.rs"),
        include_str!("../requests.rs"),
        include_str!("../route.rs"),
        include_str!("../session_requests.rs"),
        include_str!("../sessions.rs"),
        include_str!("../shared.rs"),
        include_str!("../stream.rs"),
        include_str!("../../wire/status.rs"),
    ]
    .concat();
    let used: std::collections::BTreeSet<_> =
        code.split("defect!(").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let tested = [
        include_str!("defects.rs"),
        include_str!("defects/answers.rs"),
        include_str!("defects/processes.rs"),
        include_str!("defects/sessions.rs"),
        include_str!("defects/starts.rs"),
        include_str!("defects/streams.rs"),
    ]
    .concat();
    assert_eq!(table.iter().copied().collect::<std::collections::BTreeSet<_>>(), used);
    for bug in table {
        assert!(tested.contains(&format!("\"{bug}\"")), "{bug} has no test");
    }
}
