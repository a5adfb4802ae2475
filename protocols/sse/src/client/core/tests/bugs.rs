//! Each seeded bug has the effect that the table of the client describes, and the client without it
//! has not.

use std::rc::Rc;

use reknit_seams::probe::{self, Hold, Prober};

use super::*;

/// One bug is on.
struct OneBug(&'static str);

impl Prober for OneBug {
    fn point(&self, _: &'static str, _: &[(&'static str, u64)]) -> Option<Hold> {
        None
    }

    fn defect(&self, name: &'static str) -> bool {
        name == self.0
    }
}

/// Runs a story without and with a bug.
fn compare(bug: &'static str, story: fn(&mut Play) -> String, good: &str, bad: &str) {
    compare_with(bug, Play::follow, story, good, bad);
}

fn compare_with(
    bug: &'static str,
    play: fn() -> Play,
    story: fn(&mut Play) -> String,
    good: &str,
    bad: &str,
) {
    let run = |name: &'static str| {
        let _attached = probe::attach(Rc::new(OneBug(name)));
        story(&mut play())
    };
    assert_eq!(run(""), good, "without {bug}");
    assert_eq!(run(bug), bad, "with {bug}");
}

#[test]
fn a_stream_that_ends_early_counts_as_complete() {
    let story = |play: &mut Play| {
        play.streams().prints(1);
        play.core.lost(Loss::EndedEarly, play.now);
        play.until_step().1
    };
    compare("EndOfStreamIsSuccess", story, "resume c 0000000000000007-1", "over");
}

#[test]
fn a_lost_command_counts_as_complete() {
    let story = |play: &mut Play| {
        play.step();
        play.refuses(404, "COMMAND_NOT_FOUND", None).step()
    };
    let good = "failed: the server does not have the command any more";
    compare("NotFoundIsSuccess", story, good, "over");
}

#[test]
fn the_cursor_moves_before_the_user_has_the_event() {
    let story = |play: &mut Play| {
        play.streams();
        let line = Event::Output(OutputStream::Stdout, Bytes::from_static(b"x"));
        let record = Record { position: Some(1), timestamp: 0, event: line };
        play.core.arrived(std::iter::once(record), play.now);
        play.core.cursor().to_string()
    };
    compare("CursorBeforeDelivery", story, "0000000000000007-0", "0000000000000007-1");
}

#[test]
fn two_losses_without_an_event_forget_the_cursor() {
    let story = |play: &mut Play| {
        play.streams().prints(1);
        play.lost().streams().lost();
        play.until_step().1
    };
    let (good, bad) = ("resume c 0000000000000007-1", "resume c 0000000000000007-0");
    compare("CursorForgottenWithoutEvents", story, good, bad);
}

#[test]
fn a_left_out_position_is_not_noticed() {
    let story = |play: &mut Play| play.streams().prints(2);
    compare("HolesIgnored", story, "resume c 0000000000000007-0", "2");
}

#[test]
fn a_repeated_event_is_returned_again() {
    let story = |play: &mut Play| {
        play.streams().prints(1);
        play.prints(1)
    };
    compare("DuplicatesDelivered", story, "wait", "1");
}

#[test]
fn a_gap_is_not_returned() {
    let story = |play: &mut Play| play.streams().event(0, Event::Gap(Gap { first: 1, last: 2 }));
    compare("GapNotReturned", story, "gap 1..=2", "wait");
}

#[test]
fn another_run_continues_the_stream() {
    let story = |play: &mut Play| {
        play.streams().prints(1);
        play.lost().until_step();
        play.core.opened(Some(Epoch(8)), play.now);
        play.prints(2)
    };
    compare("RunNotChecked", story, "failed: the server has another run of the command", "2");
}

#[test]
fn the_budget_counts_all_losses() {
    let story = |play: &mut Play| {
        play.streams().prints(1);
        play.now += 61 * SECOND;
        play.core.user_returned(play.now);
        play.core.wake(play.now);
        play.prints(2)
    };
    let bad = "failed: no progress for too long; the last attempt: the connection was silent";
    compare("BudgetNeverRefilled", story, "2", bad);
}

#[test]
fn a_server_that_accepts_and_closes_is_tried_for_ever() {
    let story = |play: &mut Play| {
        for _ in 0..100 {
            if !play.until_step().1.starts_with("resume") {
                return "gives up".to_owned();
            }
            play.core.opened(Some(EPOCH), play.now);
            play.core.lost(Loss::EndedEarly, play.now);
        }
        "tries on".to_owned()
    };
    compare("BudgetRefilledByConnecting", story, "gives up", "tries on");
}

#[test]
fn the_attempts_follow_each_other_at_once() {
    let story = |play: &mut Play| {
        play.step();
        (0..20).for_each(|_| _ = play.lost().until_step());
        let start = play.now;
        play.lost().until_step();
        format!("{:?}", play.now - start)
    };
    compare("NoPauses", story, "2.5s", "0ns");
}

#[test]
fn a_conflict_is_a_failure() {
    let story = |play: &mut Play| {
        play.step();
        play.refuses(409, "STREAM_ACTIVE", Some(1)).until_step().1
    };
    let bad = "failed: the server refuses the request: 409 STREAM_ACTIVE: no";
    compare("ConflictIsFatal", story, "resume c 0", bad);
}

#[test]
fn a_dead_connection_is_never_given_up() {
    let story = |play: &mut Play| {
        play.streams().prints(1);
        play.sleep(3600 * SECOND);
        play.step()
    };
    compare("SilenceIsTolerated", story, "resume c 0000000000000007-1", "wait");
}

#[test]
fn a_repeated_start_has_no_id() {
    let story = |play: &mut Play| {
        play.step();
        play.lost().until_step().1
    };
    let start = || Play::start(Dialect::Reknit);
    compare_with("StartWithoutId", start, story, r#"start Some("c")"#, "start None");
}

#[test]
fn the_attempts_have_the_same_number() {
    let story = |play: &mut Play| {
        play.step();
        play.lost();
        let Step::Open(order) = play.core.step(play.now) else { return "wait".to_owned() };
        order.owner.map_or_else(String::new, |owner| owner.to_string())
    };
    compare("AttemptsNotNumbered", story, "me.2", "me.1");
}

/// A proxy does not know whether the server received the start.
#[test]
fn a_start_that_a_proxy_refuses_did_not_run() {
    let story = |play: &mut Play| {
        play.step();
        play.refuses(503, "SERVICE_UNAVAILABLE", None).sleep(SECOND);
        let Step::Open(order) = play.core.step(play.now) else { return "wait".to_owned() };
        order.repeats.map_or("is new", |_| "is repeated").to_owned()
    };
    let start = || Play::start(Dialect::Reknit);
    compare_with("ProxyRefusalsHaveNoEffect", start, story, "is repeated", "is new");
}

#[test]
fn the_budget_counts_from_the_last_byte() {
    let story = |play: &mut Play| {
        play.streams().prints(1);
        play.sleep(10 * SECOND);
        let lost = play.now;
        while play.until_step().1.starts_with("resume") {
            play.core.lost(Loss::NotConnected, play.now);
        }
        format!("{:?}", play.now - lost)
    };
    compare("BudgetCountsFromTheLastByte", story, "60s", "50s");
}

#[test]
fn a_dead_connection_has_twice_its_time() {
    let story = |play: &mut Play| {
        play.streams().prints(1);
        play.sleep(10 * SECOND);
        play.step()
    };
    compare("SilenceLastsTwice", story, "resume c 0000000000000007-1", "wait");
}

#[test]
fn progress_does_not_shorten_the_pauses() {
    let story = |play: &mut Play| {
        for position in 1..=3 {
            play.streams().prints(position);
            play.lost();
        }
        format!("{:?}", play.until_step().0)
    };
    compare("PausesOutliveProgress", story, "0ns", "100ms");
}

#[test]
fn a_start_without_an_answer_in_time_did_not_run() {
    let story = |play: &mut Play| {
        play.step();
        play.core.lost(Loss::OpenTimeout, play.now);
        play.sleep(SECOND);
        let Step::Open(order) = play.core.step(play.now) else { return "wait".to_owned() };
        order.repeats.map_or("is new", |_| "is repeated").to_owned()
    };
    let start = || Play::start(Dialect::Reknit);
    compare_with("UnansweredStartsDidNotRun", start, story, "is repeated", "is new");
}

#[test]
fn a_start_that_a_full_server_refused_may_have_run() {
    let story = |play: &mut Play| {
        play.step();
        let (status, code) = (503, "SERVICE_UNAVAILABLE".to_owned());
        let body = RefusalBody { code, no_effect: true, ..RefusalBody::default() };
        play.core.refused(status, body, play.now);
        play.sleep(SECOND);
        let Step::Open(order) = play.core.step(play.now) else { return "wait".to_owned() };
        order.repeats.map_or("is new", |_| "is repeated").to_owned()
    };
    let start = || Play::start(Dialect::Reknit);
    compare_with("RefusedStartsAge", start, story, "is new", "is repeated");
}
