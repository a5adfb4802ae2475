//! Bugs of streams and of what waits for them, and of the times of a command.

use super::*;

#[test]
fn a_time_limit_counts_from_the_end_of_the_launch() {
    let story = || async {
        let world = world().await;
        let _other = world.send("POST /command", &[], r#"{"command":"other"}"#).await;
        // The task of the second process is held for 10 ms after the launch.
        let body = r#"{"operation_id":"c","command":"run","timeout":15}"#;
        let _stream = world.send("POST /command", &[], body).await;
        sleep(SECOND / 50).await;
        format!("{:?}", world.machine.signals(1))
    };
    compare("LimitCountsFromTheLaunch", story, "[9]", "[]");
}

#[test]
fn each_write_moves_the_deadline_of_a_blocked_connection() {
    let story = || async {
        let world = world().await;
        let _stream = world.start().await;
        sleep(SECOND).await;
        world.net.set(1, Fate::Frozen);
        sleep(60 * SECOND).await;
        world.resources.counts().connections.to_string()
    };
    compare("EachWriteBlocksAnew", story, "0", "1");
}

#[test]
fn a_lost_stream_has_all_that_it_took() {
    let story = || async {
        let (hold, retained_events) = (5 * SECOND, 1);
        let limits = ServerLimits { hold, retained_events, ..Default::default() };
        let world = World::new(limits).await;
        let stream = world.start().await;
        sleep(SECOND).await;
        world.machine.prints(0, "a\n").await;
        stream.close();
        sleep(SECOND).await;
        world.machine.prints(0, "b\n").await;
        rest(&mut world.resume(0, None).await).await
    };
    let (good, bad) = ("1 a, 2 b, Open", "gap 1..=1, 2 b, Open");
    compare("LostStreamHasAll", story, good, bad);
}

#[test]
fn a_replaced_connection_stays_open() {
    let story = || async {
        let write_deadline = 99 * SECOND;
        let limits = ServerLimits { write_deadline, write_buffer: 0, ..Default::default() };
        let world = World::new(limits).await;
        let _stream = world.start().await;
        sleep(SECOND).await;
        world.net.set(1, Fate::Frozen);
        // The buffer of the connection is full, so it does not ask its stream for more.
        let line = format!("{}\n", "x".repeat(9_999));
        world.machine.prints(0, &line.repeat(3)).await;
        sleep(30 * SECOND).await;
        let _second = world.resume(0, None).await;
        sleep(SECOND).await;
        world.resources.counts().connections.to_string()
    };
    compare("ReplacedStaysOpen", story, "1", "2");
}

/// The log has room for one of two lines: the second one waits until the stream takes the first one. With the
/// defect, it goes on waiting.
fn compare_line_that_waits(defect: &'static str) {
    let story = || async {
        let (hold, retained_events) = (60 * SECOND, 1);
        let limits = ServerLimits { hold, retained_events, ..Default::default() };
        let world = World::new(limits).await;
        let mut stream = world.start().await;
        stream.next().await.unwrap();
        world.machine.prints(0, "a\nb\n").await;
        rest(&mut stream).await
    };
    compare(defect, story, "1 a, 2 b, Open", "1 a, Open");
}

#[test]
fn a_command_waits_although_its_stream_has_taken_all() {
    compare_line_that_waits("ReadsWakeNoTask");
}

#[test]
fn a_read_between_check_and_wait_wakes_no_task() {
    // The task that waits is held for 10 ms after its check.
    compare_line_that_waits("HoldLostWakeUp");
}

#[test]
fn an_event_between_check_and_wait_wakes_no_stream() {
    let story = || async {
        let world = world().await;
        let mut stream = world.start().await;
        stream.next().await.unwrap();
        // The task of the stream is held for 10 ms after its check.
        sleep(SECOND / 200).await;
        world.machine.prints(0, "a\n").await;
        tokio::time::timeout(SECOND, stream.next()).await.is_ok().to_string()
    };
    compare("PullLostWakeUp", story, "true", "false");
}

#[test]
fn the_end_of_a_command_starts_no_retention() {
    let story = || async {
        let limits = ServerLimits { ended_retention: SECOND, ..Default::default() };
        let world = World::new(limits).await;
        started(&world).await;
        world.machine.exits(0, Exit::Code(0)).await;
        sleep(5 * SECOND).await;
        world.resources.counts().commands.to_string()
    };
    compare("EndWakesNoSweep", story, "0", "1");
}

#[test]
fn all_logs_go_with_the_one_for_which_there_is_no_room() {
    let story = || async {
        let world = World::new(ServerLimits { ended_commands: 1, ..Default::default() }).await;
        started(&world).await;
        let _stream = world.start_other().await;
        world.machine.exits(0, Exit::Code(0)).await;
        sleep(SECOND).await;
        world.machine.exits(1, Exit::Code(0)).await;
        sleep(SECOND).await;
        world.resources.counts().commands.to_string()
    };
    compare("CrowdingCountsOnce", story, "1", "0");
}

#[test]
fn earlier_output_counts_toward_that_after_the_exit() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        let line = format!("{}\n", "x".repeat(9_999));
        for _ in 0..120 {
            world.machine.prints(0, &line).await;
        }
        let rest = line.repeat(4);
        let (prints, exits) =
            (world.machine.prints(0, &rest), world.machine.exits_with_open_pipes(0, Exit::Code(0)));
        tokio::join!(biased; prints, exits);
        world.last("c").await.to_string()
    };
    compare("AllOutputIsLate", story, "125", "123");
}

#[test]
fn a_position_with_other_characters_is_ignored() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        let resume = "GET /command/c/resume?after_eid=0";
        status(world.send(resume, &[("last-event-id", "\u{e9}")], "").await).await
    };
    compare("StrangeHeaderIsNone", story, "CURSOR_MALFORMED", "200");
}

#[test]
fn the_oldest_event_is_always_the_first() {
    let story = || async {
        let world = World::new(ServerLimits { retained_events: 1, ..Default::default() }).await;
        started(&world).await;
        world.machine.prints(0, "a\nb\n").await;
        world.resume(0, None).await.header("x-reknit-oldest").to_owned()
    };
    compare("OldestIsTheFirst", story, "2", "1");
}

#[test]
fn the_grace_is_over_before_the_signal() {
    let story = || async {
        let limits = ServerLimits { interrupt_grace: SECOND / 200, ..Default::default() };
        let world = World::new(limits).await;
        let _other = world.send("POST /command", &[], r#"{"command":"other"}"#).await;
        // The task of the second process is held for 10 ms after the launch.
        let interrupts = async {
            sleep(SECOND / 500).await;
            world.send("DELETE /command?id=c", &[], "").await;
            sleep(SECOND / 100).await;
            format!("{:?}", world.machine.signals(1))
        };
        tokio::join!(biased; world.start(), interrupts).1
    };
    compare("GraceCountsFromTheRequest", story, "[15]", "[15, 9]");
}

#[test]
fn a_return_at_the_limit_of_an_event_waits() {
    let story = || async {
        let world = World::new(ServerLimits { line_bytes: 4, ..Default::default() }).await;
        started(&world).await;
        world.machine.prints(0, "abc\rd\n").await;
        world.last("c").await.to_string()
    };
    compare("ReturnAtTheLimitWaits", story, "2", "0");
}

#[test]
fn a_running_command_takes_the_room_of_ended_ones() {
    let story = || async {
        let world = World::new(ServerLimits { ended_bytes: 500, ..Default::default() }).await;
        started(&world).await;
        let _stream = world.start_other().await;
        sleep(SECOND).await;
        world.machine.prints(1, &"x\n".repeat(20)).await;
        world.machine.exits(0, Exit::Code(0)).await;
        sleep(SECOND).await;
        status(world.resume(0, None).await).await
    };
    compare("RunningLogsCrowd", story, "200", "COMMAND_EXPIRED");
}

#[test]
fn a_command_ends_with_the_processes_that_it_left_behind() {
    let story = || async {
        let world = world().await;
        let mut stream = world.start().await;
        sleep(SECOND).await;
        world.machine.exits_with_open_pipes(0, Exit::Code(0)).await;
        rest(&mut stream).await
    };
    compare("WaitsForThePipes", story, "1 Exited(0), Clean", "Open");
}

#[test]
fn output_that_may_wait_has_no_overhead() {
    let story = || async {
        let (hold, retained_bytes) = (5 * SECOND, 200);
        let limits = ServerLimits { hold, retained_bytes, ..Default::default() };
        let world = World::new(limits).await;
        let stream = world.start().await;
        sleep(SECOND).await;
        stream.close();
        sleep(SECOND).await;
        world.machine.prints(0, "a\nb\nc\nd\n").await;
        rest(&mut world.resume(0, None).await).await
    };
    let (good, bad) = ("1 a, 2 b, 3 c, 4 d, Open", "gap 1..=1, 2 b, 3 c, 4 d, Open");
    compare("OverheadIsFree", story, good, bad);
}

#[test]
fn a_stream_is_taken_from_a_client_that_reads() {
    let story = || async {
        let world = world().await;
        let _stream = world.start().await;
        sleep(11 * SECOND).await;
        status(world.resume(0, None).await).await
    };
    compare("TakeoverCountsFromTheAttachment", story, "STREAM_ACTIVE", "200");
}

#[test]
fn a_refused_cursor_ends_the_stream_that_is_there() {
    let story = || async {
        let world = world().await;
        let mut stream = world.start().await;
        sleep(SECOND).await;
        let refused = status(world.resume(9, None).await).await;
        world.machine.prints(0, "a\n").await;
        format!("{refused}; {}", rest(&mut stream).await)
    };
    let (good, bad) = ("CURSOR_FUTURE; 1 a, Open", "CURSOR_FUTURE; Broken");
    compare("WrongCursorEndsTheStream", story, good, bad);
}

#[test]
fn a_client_is_refused_for_good_while_another_one_has_the_stream() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        let _stream = world.resume(0, Some("me.1")).await;
        status(world.resume(0, Some("you.1")).await).await
    };
    compare("OthersAreSuperseded", story, "STREAM_ACTIVE", "STREAM_SUPERSEDED");
}

#[test]
fn the_newest_log_goes_for_lack_of_room() {
    let story = || async {
        let world = World::new(ServerLimits { ended_commands: 1, ..Default::default() }).await;
        started(&world).await;
        let _stream = world.start_other().await;
        sleep(SECOND).await;
        world.machine.exits(1, Exit::Code(0)).await;
        sleep(SECOND).await;
        world.machine.exits(0, Exit::Code(0)).await;
        sleep(SECOND).await;
        status(world.resume(0, None).await).await
    };
    compare("NewestLogGoes", story, "200", "COMMAND_EXPIRED");
}

#[test]
fn logs_after_a_gap_leave_out_an_event() {
    let story = || async {
        let world = World::new(ServerLimits { retained_events: 2, ..Default::default() }).await;
        let background = r#"{"operation_id":"c","command":"run","background":true}"#;
        world.send("POST /command", &[], background).await.read().await;
        sleep(SECOND).await;
        world.machine.prints(0, "a\nb\nc\n").await;
        sleep(SECOND).await;
        world.send("GET /command/c/logs", &[], "").await.text().await
    };
    compare("LogsSkipAfterGaps", story, "b\nc\n", "c\n");
}

#[test]
fn an_interrupted_command_has_no_time_to_end() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        world.send("DELETE /command?id=c", &[], "").await;
        sleep(SECOND).await;
        format!("{:?}", world.machine.signals(0))
    };
    compare("InterruptHasNoGrace", story, "[15]", "[15, 9]");
}

/// Output comes a second after the end of a stream that made progress until then: it waits for the next stream. With
/// the defect, the hold is over.
fn compare_lost_after_progress(defect: &'static str) {
    let story = || async {
        let (hold, retained_events) = (5 * SECOND, 1);
        let limits = ServerLimits { hold, retained_events, ..Default::default() };
        let world = World::new(limits).await;
        let stream = world.start().await;
        // The signs of life of the stream are progress.
        sleep(10 * SECOND).await;
        stream.close();
        sleep(SECOND).await;
        world.machine.prints(0, "a\nb\n").await;
        rest(&mut world.resume(0, None).await).await
    };
    let (good, bad) = ("1 a, 2 b, Open", "gap 1..=1, 2 b, Open");
    compare(defect, story, good, bad);
}

#[test]
fn output_waits_for_a_time_from_the_start() {
    compare_lost_after_progress("HoldCountsFromTheStart");
}

#[test]
fn output_comes_with_the_next_sign_of_life() {
    let story = || async {
        let world = world().await;
        let mut stream = world.start().await;
        stream.next().await.unwrap();
        sleep(SECOND).await;
        world.machine.prints(0, "a\n").await;
        tokio::time::timeout(SECOND, stream.next()).await.is_ok().to_string()
    };
    compare("OutputWakesNoStream", story, "true", "false");
}

#[test]
fn the_state_of_a_command_stays_as_its_stream_saw_it() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        world.machine.prints(0, "a\n").await;
        sleep(SECOND).await;
        world.last("c").await.to_string()
    };
    compare("StateStaysWithTheStream", story, "1", "0");
}

#[test]
fn the_ending_has_no_room_in_the_log() {
    let story = || async {
        let (hold, retained_events) = (5 * SECOND, 2);
        let limits = ServerLimits { hold, retained_events, ..Default::default() };
        let world = World::new(limits).await;
        started(&world).await;
        world.machine.prints(0, "a\nb\n").await;
        world.machine.exits(0, Exit::Code(0)).await;
        rest(&mut world.resume(0, None).await).await
    };
    let good = "1 a, 2 b, 3 Exited(0), Clean";
    compare("EndingHasNoRoom", story, good, "gap 1..=1, 2 b, 3 Exited(0), Clean");
}

#[test]
fn output_waits_for_a_time_from_the_beginning_of_its_stream() {
    compare_lost_after_progress("HoldCountsFromTheAttachment");
}

#[test]
fn logs_wait_until_they_fill_an_answer() {
    let story = || async {
        let world = world().await;
        let background = r#"{"operation_id":"c","command":"run","background":true}"#;
        world.send("POST /command", &[], background).await.read().await;
        sleep(SECOND).await;
        world.machine.prints(0, "a\n").await;
        let running = world.send("GET /command/c/logs", &[], "").await.text().await;
        world.machine.exits(0, Exit::Code(0)).await;
        let ended = world.send("GET /command/c/logs", &[], "").await.text().await;
        format!("{running:?} {ended:?}")
    };
    compare("LogsWaitForMore", story, r#""a\n" "a\n""#, r#""" "a\n""#);
}

#[test]
fn a_connection_counts_as_blocked_since_it_was_blocked_once() {
    let story = || async {
        let world = world().await;
        let _stream = world.start().await;
        sleep(SECOND).await;
        world.net.set(1, Fate::Frozen);
        // A sign of life is blocked meanwhile.
        sleep(5 * SECOND).await;
        world.net.set(1, Fate::Flows);
        sleep(40 * SECOND).await;
        world.resources.counts().connections.to_string()
    };
    compare("FirstBlockCounts", story, "1", "0");
}

#[test]
fn the_next_stream_has_all_that_the_lost_one_took() {
    let story = || async {
        let limits = ServerLimits {
            hold: 60 * SECOND,
            retained_events: 30,
            batch_bytes: 1,
            write_buffer: 0,
            ..Default::default()
        };
        let world = World::new(limits).await;
        let mut first = world.start().await;
        let line = format!("{}\n", "x".repeat(9_999));
        world.machine.prints(0, &line.repeat(28)).await;
        rest(&mut first).await;
        first.close();
        sleep(SECOND).await;
        // The buffers of its connection hold only a part of the log.
        let mut second = world.resume(0, None).await;
        let reads = async {
            sleep(SECOND).await;
            rest(&mut second).await
        };
        let text = line.repeat(40);
        let (_, seen) = tokio::join!(biased; world.machine.prints(0, &text), reads);
        seen.contains("gap").to_string()
    };
    compare("NextStreamHasIt", story, "false", "true");
}
