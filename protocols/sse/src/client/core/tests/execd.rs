//! Tests of the core against the behaviour of an original execd.

use super::*;

const ENDED_EARLY: &str = "the stream ended early";

fn init() -> Event {
    Event::Init { command: "c".into(), epoch: None }
}

/// A start that execd has answered.
fn started() -> Play {
    let mut play = Play::start(Dialect::Execd);
    assert_eq!(play.until_step().1, "start None");
    play.core.opened(None, play.now);
    assert_eq!(play.event(0, init()), "wait");
    play
}

#[test]
fn a_start_that_may_have_arrived_is_not_repeated() {
    let mut play = Play::start(Dialect::Execd);
    play.step();
    play.core.lost(Loss::NotConnected, play.now);
    assert_eq!(play.until_step().1, "start None");
    play.core.opened(None, play.now);
    play.core.lost(Loss::EndedEarly, play.now);
    assert_eq!(
        play.step(),
        format!("failed: the answer to the start is lost ({ENDED_EARLY}): the command may run")
    );
}

#[test]
fn a_stream_resumes_with_the_id_of_its_first_event() {
    let mut play = started();
    assert_eq!(play.prints(1), "1");
    play.core.lost(Loss::EndedEarly, play.now);
    assert_eq!(play.until_step().1, "resume c 1");
    play.refuses(409, "", None);
    assert_eq!(play.until_step().1, "resume c 1");
    play.refuses(404, "", None);
    assert_eq!(play.step(), "failed: the server does not have the command any more");
}

#[test]
fn events_that_execd_lost_are_a_gap_after_a_second_request() {
    let mut play = started();
    assert_eq!(play.prints(3), "resume c 0");
    play.core.opened(None, play.now);
    assert_eq!((play.prints(3), play.step()), ("gap 1..=2".into(), "3".into()));
}

#[test]
fn events_without_positions_end_at_a_loss() {
    let mut play = started();
    assert_eq!(play.prints(0), "0");
    play.core.lost(Loss::EndedEarly, play.now);
    let failure =
        format!("failed: the stream cannot continue ({ENDED_EARLY}): its events have no positions");
    assert_eq!(play.step(), failure);
}

#[test]
fn a_complete_stream_without_positions_is_complete() {
    let mut play = started();
    play.prints(0);
    assert_eq!((play.event(0, Event::Detached), play.step()), ("Exited(0)".into(), "over".into()));
}

#[test]
fn a_quiet_command_is_followed_for_ever() {
    let mut play = started();
    for _ in 0..100 {
        let (_, step) = play.until_step();
        assert_eq!(step, "resume c 0");
        play.core.opened(None, play.now);
    }
}
