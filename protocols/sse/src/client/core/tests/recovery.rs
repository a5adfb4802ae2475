//! Losses, pauses, and the budget.

use super::*;
use crate::client::Refused;

#[test]
fn pauses_grow_and_the_budget_ends_them() {
    let mut play = Play::follow();
    play.step();
    let mut pauses = Vec::new();
    let failure = loop {
        play.lost();
        match play.until_step() {
            (pause, step) if step.starts_with("resume") => pauses.push(pause.as_millis()),
            (_, failure) => break failure,
        }
    };
    // Without randomness, a pause is half of the longest one.
    assert_eq!(pauses[..8], [0, 50, 100, 200, 400, 800, 1600, 2500]);
    assert_eq!(failure, "failed: no progress for too long; the last attempt: the connection broke");
    assert_eq!(pauses.len(), 29, "60 s of pauses");
}

#[test]
fn progress_fills_the_budget_and_shortens_the_pauses() {
    let mut play = Play::follow();
    for position in 1..50 {
        play.streams();
        assert_eq!(play.prints(position), position.to_string());
        play.sleep(SECOND);
        play.lost();
        let (pause, _) = play.until_step();
        assert_eq!(pause, Duration::ZERO);
        play.core.lost(Loss::NotConnected, play.now);
        play.sleep(3 * SECOND);
    }
}

#[test]
fn signs_of_life_fill_the_budget_and_a_head_does_not() {
    let mut play = Play::follow();
    for _ in 0..100 {
        play.streams();
        assert_eq!(play.event(0, Event::Ping), "wait");
        play.sleep(SECOND);
        play.lost();
    }
    let failure = loop {
        match play.until_step().1 {
            step if step.starts_with("resume") => {
                play.core.opened(Some(EPOCH), play.now);
                play.core.lost(Loss::EndedEarly, play.now);
            }
            failure => break failure,
        }
    };
    assert_eq!(
        failure,
        "failed: no progress for too long; the last attempt: the stream ended early"
    );
}

#[test]
fn an_attempt_and_a_silent_stream_are_given_up() {
    let mut play = Play::follow();
    let limits = ClientLimits::default();
    play.step();
    assert_eq!(play.until_step(), (limits.open_timeout, "resume c 0".into()));
    play.core.opened(Some(EPOCH), play.now);
    play.prints(1);
    play.sleep(limits.silence - SECOND);
    assert_eq!(play.event(0, Event::Ping), "wait");
    let (time, step) = play.until_step();
    assert_eq!((time, step), (limits.silence, "resume c 0000000000000007-1".into()));
}

#[test]
fn a_slow_user_does_not_make_the_connection_silent() {
    let mut play = Play::follow();
    play.streams().prints(1);
    play.now += 3600 * SECOND;
    play.core.user_returned(play.now);
    assert_eq!(play.step(), "wait");
    play.core.wake(play.now);
    assert_eq!(play.prints(2), "2");
}

#[test]
fn a_stream_without_any_event_does_not_outlive_the_budget_and_its_own_silence() {
    let mut play = Play::follow();
    let ClientLimits { budget, silence, .. } = ClientLimits::default();
    let (start, mut opened) = (play.now, play.now);
    loop {
        match play.until_step().1 {
            step if step.starts_with("resume") => {
                opened = play.now;
                play.core.opened(Some(EPOCH), play.now);
            }
            step => break assert!(step.starts_with("failed: no progress"), "{step}"),
        }
    }
    assert!(opened - start < budget);
    assert_eq!(play.now, (start + budget).max(opened + silence));
}

#[test]
fn a_stream_that_begins_at_the_end_of_the_budget_may_show_that_it_lives() {
    let mut play = Play::follow();
    let ClientLimits { budget, silence, .. } = ClientLimits::default();
    play.step();
    play.refuses(409, "STREAM_ACTIVE", Some((budget - SECOND).as_millis() as u64));
    assert_eq!(play.until_step(), (budget - SECOND, "resume c 0".to_owned()));
    play.core.opened(Some(EPOCH), play.now);
    play.sleep(silence - SECOND);
    assert_eq!(play.event(0, Event::Ping), "wait");
    play.sleep(silence - SECOND);
    assert_eq!(play.prints(1), "1");
}

#[test]
fn a_repeated_start_says_when_the_first_one_may_have_arrived() {
    let mut play = Play::start(Dialect::Reknit);
    let mut repeats = Vec::new();
    let refused = |no_effect| {
        let (code, message) = ("SERVICE_UNAVAILABLE".to_owned(), String::new());
        Loss::Refused(Refused { status: 503, code, message, no_effect })
    };
    for loss in [Loss::NotConnected, refused(true), refused(false), Loss::Broken] {
        let order = loop {
            match play.core.step(play.now) {
                Step::Open(order) => break order,
                _ => play.sleep(SECOND),
            }
        };
        repeats.push(order.repeats);
        play.sleep(SECOND);
        play.core.lost(loss, play.now);
    }
    let first_sent = repeats[3].expect("a proxy may have passed the third attempt on");
    assert_eq!(repeats, [None, None, None, Some(first_sent)]);
    assert!(first_sent < play.now);
}

#[test]
fn nothing_follows_only_the_cursor_of_a_user_who_began_with_the_ending() {
    let complete = |after, prints| {
        let mut play = Play::of(Dialect::Reknit, known(), Cursor::new(EPOCH, after));
        if prints {
            play.streams().prints(after + 1);
            play.lost();
        }
        play.until_step();
        play.core.complete();
        play.step()
    };
    assert_eq!(complete(3, false), "over");
    let without_ending = "failed: the server ends a command without an ending";
    assert_eq!(complete(0, false), without_ending);
    assert_eq!(complete(3, true), without_ending, "the user has events, but not the ending");
}
