//! Tests of `reads_are_true`: a read leaves out nothing that the server retains.

use super::super::reads::reads_are_true;
use super::{read, start, started, violations};
use crate::history::{Answer, Class};
use crate::property::scripted::ScriptedRun;
use crate::schedule::LimitValue;
use crate::subjects::exec::answers::{NotRetained, Read};

/// Call 2 reads after an event. Returns the violations.
fn found(run: ScriptedRun, after: u64, chunks: Option<(u64, u64)>, next: u64) -> Vec<String> {
    let answer = Read { chunks, next, ..Read::default() };
    violations(&read(run, 2_000, after).answered(2, 2_040, answer), reads_are_true)
}

#[test]
fn a_read_leaves_out_at_most_the_exit_and_the_close() {
    let count = |after, chunks, next| found(started(), after, chunks, next).len();
    assert_eq!(count(0, Some((1, 3)), 4), 0);
    assert_eq!(count(0, Some((2, 3)), 5), 0, "the first event is the exit");
    assert_eq!(count(4, Some((6, 7)), 10), 0, "the next ones are the exit and the close");
    assert_eq!([count(4, Some((7, 7)), 8), count(4, Some((5, 7)), 11)], [1, 1]);
    assert_eq!([count(0, None, 3), count(0, None, 4)], [0, 1]);
    assert_eq!(count(9, None, 4), 0, "there are not so many events");
    assert_eq!(
        found(started(), 0, Some((3, 3)), 4),
        [
            "call 2: the answer leaves out events after event 0, although the server must still have them (at 2.040 s)"
        ]
    );
}

#[test]
fn a_read_of_all_pages_is_complete_while_all_output_is_retained() {
    let asked = |run: ScriptedRun| {
        let read = run.asked_as(2, 2_000, Class::Durable, "read-all", r#"{"process":"p1"}"#);
        violations(&read.answered(2, 2_040, Answer::refused(NotRetained(2))), reads_are_true)
    };
    assert_eq!(
        asked(started()),
        ["call 2: 2 chunks were gone, although the server must still have them (at 2.040 s)"]
    );
    let limited = |lines: u64| {
        let mut run =
            (0..lines).fold(started(), |run, line| run.produced("p1/stdout", 1_100 + line, "a"));
        run.plan.limits.set("server.retained-chunks", LimitValue::Count(3));
        asked(run).len()
    };
    assert_eq!([limited(2), limited(3)], [1, 0], "the server retains three chunks");
}

#[test]
fn a_second_process_of_the_name_or_a_death_excuses_a_read() {
    let again = started().asked_as(3, 1_500, Class::InFlight, "start", r#"{"process":"p1"}"#);
    assert_eq!(found(again, 0, None, 4).len(), 0);
    let by_another = started().by("client2");
    let by_another = by_another.asked_as(3, 1_500, Class::InFlight, "start", r#"{"process":"p1"}"#);
    assert_eq!(found(by_another.by("client"), 0, None, 4).len(), 1);
    assert_eq!(found(started().died("server", 1_500), 0, None, 4).len(), 0);
    assert_eq!(found(start(1, 100), 0, None, 4).len(), 1, "nothing was printed");
}
