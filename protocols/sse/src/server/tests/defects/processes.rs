//! Bugs of the processes of commands: their output, their endings, and their signals.

use super::*;

#[test]
fn a_command_that_counts_as_finished_loses_its_ending() {
    let story = || async {
        let world = world().await;
        let mut stream = world.start().await;
        sleep(SECOND).await;
        world.machine.exits(0, Exit::Code(3)).await;
        rest(&mut stream).await
    };
    compare("FinishedBeforeEnding", story, "1 Exited(3), Clean", "Clean");
}

#[test]
fn a_killed_command_counts_as_a_success() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        world.machine.exits(0, Exit::Signal(9)).await;
        format!("{:?}", world.status("c").await.ending.unwrap())
    };
    compare("KilledIsSuccess", story, "Killed(9)", "Exited(0)");
}

#[test]
fn a_killed_command_has_no_code() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        world.machine.exits(0, Exit::Signal(9)).await;
        format!("{:?}", world.status("c").await.exit_code)
    };
    compare("KilledHasNoCode", story, "Some(-1)", "None");
}

#[test]
fn the_time_that_a_command_took_is_in_seconds() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        sleep(SECOND * 2).await;
        world.machine.exits(0, Exit::Code(0)).await;
        let answer = world.send("GET /command/c/resume?after_eid=0", &[], "").await;
        answer.text().await.contains("\"execution_time\":4,").to_string()
    };
    compare("TookIsInSeconds", story, "false", "true");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the wall clock of the system has to move on")]
fn an_ended_command_ended_when_it_started() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        std::thread::sleep(Duration::from_millis(2));
        world.machine.exits(0, Exit::Code(0)).await;
        let status = world.status("c").await;
        (status.finished_at.unwrap() == status.started_at).to_string()
    };
    compare("EndIsTheStart", story, "false", "true");
}

#[test]
fn empty_lines_are_not_sent() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        world.machine.prints(0, "a\n\nb\n").await;
        world.last("c").await.to_string()
    };
    compare("BlankLinesDropped", story, "3", "2");
}

#[test]
fn the_ending_comes_before_the_last_output() {
    let story = || async {
        let world = world().await;
        let mut stream = world.start().await;
        sleep(SECOND).await;
        let (prints, exits) = (
            world.machine.prints(0, "a\nb"),
            world.machine.exits_with_open_pipes(0, Exit::Code(0)),
        );
        tokio::join!(biased; prints, exits);
        rest(&mut stream).await
    };
    let (good, bad) = ("1 a, 2 b, 3 Exited(0), Clean", "1 a, 2 Exited(0), Clean");
    compare("EndingBeforeOutput", story, good, bad);
}

#[test]
fn an_error_without_an_end_is_lost_in_an_open_pipe() {
    let story = || async {
        let world = world().await;
        let mut stream = world.start().await;
        sleep(SECOND).await;
        world.machine.prints_on(0, 1, b"a").await;
        world.machine.exits_with_open_pipes(0, Exit::Code(0)).await;
        rest(&mut stream).await
    };
    compare("OpenErrorsAreLost", story, "1! a, 2 Exited(0), Clean", "1 Exited(0), Clean");
}

#[test]
fn an_interrupt_waits_for_output() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        world.send("DELETE /command?id=c", &[], "").await;
        sleep(SECOND).await;
        format!("{:?}", world.machine.signals(0))
    };
    compare("InterruptWakesNoTask", story, "[15]", "[]");
}

#[test]
fn lines_that_arrive_together_are_one_event() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        world.machine.prints(0, "a\nb\n").await;
        world.last("c").await.to_string()
    };
    compare("LinesAreJoined", story, "2", "1");
}

#[test]
fn a_kill_after_the_grace_counts_as_timed_out() {
    let story = || async {
        let world = world().await;
        started(&world).await;
        world.send("DELETE /command?id=c", &[], "").await;
        sleep(10 * SECOND).await;
        assert_eq!(world.machine.signals(0), [15, 9]);
        world.machine.exits(0, Exit::Signal(9)).await;
        format!("{:?}", world.status("c").await.ending.unwrap())
    };
    compare("GraceIsATimeLimit", story, "Killed(9)", "TimedOut");
}

#[test]
fn a_time_limit_delays_the_kill_after_the_grace() {
    let story = || async {
        let world = world().await;
        let body = r#"{"operation_id":"c","command":"run","timeout":60000}"#;
        let _stream = world.send("POST /command", &[], body).await;
        sleep(SECOND).await;
        world.send("DELETE /command?id=c", &[], "").await;
        sleep(10 * SECOND).await;
        format!("{:?}", world.machine.signals(0))
    };
    compare("TimeLimitDelaysTheKill", story, "[15, 9]", "[15]");
}

#[test]
fn an_interrupt_during_the_launch_is_lost() {
    let story = || async {
        let world = world().await;
        let _other = world.send("POST /command", &[], r#"{"command":"other"}"#).await;
        // The task of the second process is held after the launch.
        let interrupts = async {
            sleep(SECOND / 200).await;
            world.send("DELETE /command?id=c", &[], "").await.status.as_u16()
        };
        let (_stream, status) = tokio::join!(biased; world.start(), interrupts);
        sleep(SECOND).await;
        format!("{status} {:?}", world.machine.signals(1))
    };
    compare("EarlyInterruptLost", story, "200 [15]", "200 []");
}

#[test]
fn a_long_line_is_split_inside_a_character() {
    let story = || async {
        let world = World::new(ServerLimits { line_bytes: 4, ..Default::default() }).await;
        started(&world).await;
        world.machine.prints(0, "123é\n").await;
        world.machine.exits(0, Exit::Code(0)).await;
        rest(&mut world.resume(0, None).await).await
    };
    let good = "1 123, 2 é, 3 Exited(0), Clean";
    compare("SplitsCharacters", story, good, "1 123\u{fffd}, 2 \u{fffd}, 3 Exited(0), Clean");
}
