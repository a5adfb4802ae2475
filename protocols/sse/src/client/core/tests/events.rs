//! Tests of the core with the events of a stream.

use super::*;

#[test]
fn the_user_receives_the_log_once_and_then_its_ending() {
    let mut play = Play::start(Dialect::Reknit);
    play.streams();
    let init = Event::Init { command: "c".into(), epoch: Some(EPOCH) };
    assert_eq!(play.event(0, init), "wait");
    assert_eq!(play.prints(1), "1");
    play.lost();
    assert_eq!(play.until_step().1, "resume c 0000000000000007-1");
    play.core.opened(Some(EPOCH), play.now);
    assert_eq!(play.prints(1), "wait", "a repeated event is dropped");
    assert_eq!((play.prints(2), play.ends(3)), ("2".into(), "Exited(0)".into()));
    assert_eq!((play.step(), play.step()), ("over".into(), "over".into()));
    assert!(!play.core.has_connection());
}

#[test]
fn nothing_follows_the_ending() {
    let mut play = Play::follow();
    play.streams().ends(1);
    assert_eq!(play.prints(2), "over");
    play.lost();
    assert_eq!((play.step(), play.core.due()), ("over".into(), None));
}

#[test]
fn a_gap_is_returned_with_its_range_before_the_events_that_follow() {
    let mut play = Play::follow();
    play.streams().prints(1);
    assert_eq!(play.event(0, Event::Gap(Gap { first: 2, last: 5 })), "gap 2..=5");
    assert_eq!(play.core.cursor(), Cursor::new(EPOCH, 5));
    assert_eq!(play.prints(6), "6");
    assert_eq!(play.event(0, Event::Gap(Gap { first: 2, last: 6 })), "wait", "it has these");
    assert_eq!(play.event(0, Event::Gap(Gap { first: 1, last: 8 })), "gap 7..=8");
    let endless = Event::Gap(Gap { first: 9, last: u64::MAX });
    assert_eq!(play.event(0, endless), format!("gap 9..={}", u64::MAX));
    assert_eq!(play.prints(u64::MAX), "wait");
}

#[test]
fn a_left_out_position_is_requested_again_and_then_a_failure() {
    let mut play = Play::follow();
    play.streams().prints(1);
    assert_eq!(play.prints(3), "resume c 0000000000000007-1");
    play.core.opened(Some(EPOCH), play.now);
    assert_eq!((play.prints(2), play.prints(3)), ("2".into(), "3".into()));
    assert_eq!(play.prints(5), "resume c 0000000000000007-3");
    play.core.opened(Some(EPOCH), play.now);
    let failure =
        "failed: the server does not send all events: events 4 to 4 are no longer available";
    assert_eq!(play.prints(5), failure);
}

#[test]
fn a_gap_after_a_hole_is_not_believed() {
    let mut play = Play::follow();
    play.streams();
    let gap = Event::Gap(Gap { first: 3, last: 5 });
    assert_eq!(play.event(0, gap), "resume c 0000000000000007-0");
}

#[test]
fn the_cursor_moves_when_the_user_has_the_event() {
    let mut play = Play::follow();
    play.streams();
    let line = |position| Record {
        position: Some(position),
        timestamp: 0,
        event: Event::Output(OutputStream::Stderr, Bytes::from_static(b"x")),
    };
    play.core.arrived([line(1), line(2)].into_iter(), play.now);
    assert_eq!(play.core.cursor().after, 0);
    play.step();
    assert_eq!(play.core.cursor().after, 1);
}

#[test]
fn events_before_unreadable_bytes_count() {
    let mut play = Play::follow();
    play.streams();
    let line = Event::Output(OutputStream::Stdout, Bytes::from_static(b"x"));
    let record = Record { position: Some(1), timestamp: 0, event: line };
    play.core.arrived(std::iter::once(record), play.now);
    play.core.unreadable();
    assert_eq!(play.step(), "x");
    assert_eq!(play.step(), "resume c 0000000000000007-1");
}

#[test]
fn a_background_command_is_followed_after_its_start() {
    let request =
        RunCommand { operation_id: Some("c".into()), background: true, ..RunCommand::shell("run") };
    let mut play = Play::of(Dialect::Reknit, Target::Start(Box::new(request)), Cursor::START);
    play.streams();
    assert_eq!(play.event(0, Event::Detached), "resume c 0000000000000007-0");
    play.core.opened(Some(EPOCH), play.now);
    assert_eq!(play.prints(1), "1");
    let failure = "failed: the server ends a command without an ending";
    assert_eq!(play.event(0, Event::Detached), failure);
}

#[test]
fn events_that_break_the_protocol_are_failures() {
    let init = |command: &str| Event::Init { command: command.into(), epoch: None };
    let line = Event::Output(OutputStream::Stdout, Bytes::from_static(b"x"));
    for (event, why) in [
        (init("d"), "failed: the server sends the events of another command"),
        (init("a b"), "failed: the server names a command in a way that is not an id"),
        (line, "failed: the server sends events without positions"),
        (
            Event::Ended { ending: Ending::Exited(0), took: 0 },
            "failed: the server sends events without positions",
        ),
    ] {
        let mut play = Play::follow();
        assert_eq!(play.streams().event(0, event), why);
    }
}
