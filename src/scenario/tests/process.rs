//! Processes and their expectations.

use super::expect::{HistoryBuilder, unmet};
use crate::history::ProcessOutcome;

const NOTHING: [&str; 0] = [];

/// A process that prints `a` in generation 1 and `b` in generation 2, and exits with 7 at 50 ms. A
/// grandchild holds its standard output until 4 s. Its standard error is empty. The user sees the
/// exit at 60 ms, and the end of both output streams at 4.01 s.
fn good() -> HistoryBuilder {
    let begun = HistoryBuilder::default()
        .connected(0, 1)
        .opened(2)
        .of("p1/stdout")
        .opened(2)
        .of("p1/stderr")
        .opened(2);
    let printed = begun
        .of("p1/stdout")
        .produced(10, "a")
        .delivered(15, "a", 1)
        .connected(30, 2)
        .produced(40, "b");
    let exited = printed
        .delivered(45, "b", 2)
        .of("p1")
        .really_ended(50)
        .completed(60, ProcessOutcome::Exit(7));
    let closed = exited.of("p1/stderr").closed(50).of("p1/stdout").closed(4000);
    closed
        .completed(4010, ProcessOutcome::Closed)
        .of("p1/stderr")
        .completed(4010, ProcessOutcome::Closed)
        .of("p1/stdin")
        .produced(4020, "unread")
}

/// A process that prints two bytes. Only one is delivered, the user never learns of the end, and
/// the process fails.
fn failed() -> HistoryBuilder {
    let opened = HistoryBuilder::default()
        .connected(0, 1)
        .opened(2)
        .of("p1/stdout")
        .opened(2)
        .of("p1/stderr")
        .opened(2);
    let printed = opened.of("p1/stdout").produced(10, "ab").delivered(15, "a", 1);
    let gone =
        printed.of("p1").failed(900, "session lost").of("p1/stdout").failed(900, "session lost");
    gone.of("p1/stderr").failed(900, "session lost: really")
}

fn of(keys: &str, scripted: &HistoryBuilder) -> Vec<String> {
    unmet(&format!("[expect.process.p1]\n{keys}"), scripted)
}

#[test]
fn a_good_run_meets_all_expectations() {
    let all = "ends = \"closed\"\nexit = 7\noutput = \"all\"\nwithin = \"10ms\"\nlive-from = 2";
    assert_eq!(of(all, &good()), NOTHING);
    assert_eq!(of("ends = \"failed\"\nreason = \"lost\"\noutput = \"prefix\"", &failed()), NOTHING);
    let silent = HistoryBuilder::default().opened(1).of("p1/pty").opened(1);
    assert_eq!(of("ends = \"open\"\noutput = \"none\"", &silent), NOTHING);
}

#[test]
fn every_part_must_end_as_the_process_does() {
    assert_eq!(
        of("ends = \"failed\"", &good()),
        [
            "p1: it must fail, but it completed at 0.060 s with `exit 7`",
            "p1/stderr: it must fail, but it completed at 4.010 s with `closed`",
            "p1/stdout: it must fail, but it completed at 4.010 s with `closed`",
        ]
    );
    let half = HistoryBuilder::default()
        .opened(1)
        .completed(5, ProcessOutcome::Exit(7))
        .of("p1/stdout")
        .opened(1);
    assert_eq!(
        of("ends = \"closed\"", &half),
        ["p1/stdout: it must complete, but it is still open"]
    );
    let odd = half.completed(9, "gone");
    assert_eq!(
        of("ends = \"closed\"", &odd),
        ["p1/stdout: it completed at 0.009 s with `gone`, and must end with `closed`"]
    );
    assert_eq!(
        of("ends = \"failed\"\nreason = \"really\"", &failed()).len(),
        2,
        "two of three have no such reason"
    );
}

#[test]
fn the_exit_must_match() {
    let exit = |exit: &str, outcome: ProcessOutcome| {
        of(
            &format!("ends = \"closed\"\nexit = {exit}"),
            &HistoryBuilder::default().opened(1).completed(9, outcome),
        )
    };
    assert_eq!(exit("7", ProcessOutcome::Exit(7)), NOTHING);
    assert_eq!(
        exit("0", ProcessOutcome::Exit(7)),
        ["p1: it completed at 0.009 s with `exit 7`, and must end with `exit 0`"]
    );
    assert_eq!(
        (
            exit("\"signal\"", ProcessOutcome::Signal(9)).len(),
            exit("\"signal\"", ProcessOutcome::Signal(15)).len()
        ),
        (0, 0)
    );
    assert_eq!(
        exit("\"signal\"", ProcessOutcome::Exit(9)),
        ["p1: it completed at 0.009 s with `exit 9`, and must end with a signal"]
    );
    assert_eq!(exit("9", ProcessOutcome::Signal(9)).len(), 1);
}

#[test]
fn a_stream_that_was_never_opened_shows_nothing() {
    let truth =
        || HistoryBuilder::default().of("p1/stdout").produced(1, "a").of("p1/stdin").opened(2);
    assert_eq!(
        of("output = \"prefix\"", &truth()),
        ["p1: it was never opened"],
        "what it reads is not a part of it"
    );
    let part =
        truth().of("p1/stdout").opened(3).delivered(4, "a", 1).completed(5, ProcessOutcome::Closed);
    assert_eq!(of("ends = \"closed\"\noutput = \"all\"", &part), NOTHING, "a part alone is judged");
    assert_eq!(
        of("ends = \"closed\"\nexit = 7", &part),
        ["p1: it was never opened"],
        "but has no exit"
    );
    let whole = truth().of("p1").opened(3);
    assert_eq!(of("output = \"prefix\"", &whole), NOTHING);
    assert_eq!(
        of("output = \"all\"", &whole),
        ["p1: no part of it was opened, but all its output must be delivered"]
    );
}

#[test]
fn the_output_of_each_part_must_match() {
    assert_eq!(
        of("output = \"all\"", &failed()),
        ["p1/stdout: 1 of 2 bytes were delivered, but all must be"]
    );
    assert_eq!(
        of("output = \"none\"", &failed()),
        ["p1/stdout: 1 of 2 bytes were delivered, but none may be"]
    );
}

#[test]
fn its_end_is_the_end_of_the_process_and_of_all_its_pipes() {
    assert_eq!(of("within = \"10ms\"", &good()), NOTHING, "the pipe was held until 4 s");
    assert_eq!(
        of("within = \"9ms\"", &good()),
        ["p1: it ended at 4.010 s, 10ms after its real end at 4.000 s; the limit is 9ms"]
    );
    let held = HistoryBuilder::default()
        .opened(1)
        .of("p1/stdout")
        .opened(1)
        .produced(2, "a")
        .of("p1")
        .really_ended(3)
        .completed(4, ProcessOutcome::Exit(0));
    assert_eq!(
        of("within = \"1s\"", &held),
        ["p1: it is still open, but must end within 1s of its real end"]
    );
    let early = held.of("p1/stdout").failed(9, "x");
    assert_eq!(
        of("within = \"1s\"", &early),
        ["p1: it has no real end, but must end within 1s of it"]
    );
}

#[test]
fn one_part_that_is_live_is_enough() {
    assert_eq!(of("live-from = 2", &good()), NOTHING, "its standard error has nothing to say");
    assert_eq!(
        of("live-from = 3", &good()),
        ["p1: nothing was delivered live over generation 3 or a later one"]
    );
}

#[test]
fn a_name_may_have_a_prefix_and_a_number() {
    let keys = |scripted: &HistoryBuilder| {
        unmet("[expect.process.\"client2/p1.2\"]\nends = \"closed\"\noutput = \"all\"", scripted)
    };
    let scripted = HistoryBuilder::default()
        .of("client2/p1.2")
        .opened(1)
        .completed(9, ProcessOutcome::Exit(0))
        .of("client2/p1.2/pty")
        .opened(1);
    assert_eq!(keys(&scripted), ["client2/p1.2/pty: it must complete, but it is still open"]);
    assert_eq!(keys(&scripted.completed(9, ProcessOutcome::Closed)), NOTHING);
    assert_eq!(keys(&good()), ["client2/p1.2: it was never opened"]);
}

#[test]
fn the_real_end_has_its_time() {
    let of = |range: &str| of(&format!("really-ends = \"{range}\""), &good());
    assert_eq!(of("50ms..60ms"), NOTHING);
    assert_eq!(of("40ms..50ms"), NOTHING);
    assert_eq!(of("51ms..60ms").len(), 1);
    let open = HistoryBuilder::default().connected(0, 1).of("p1").opened(2);
    assert_eq!(
        unmet("[expect.process.p1]\nreally-ends = \"1s..2s\"", &open),
        ["p1: it did not really end, but must end between 1.000 s and 2.000 s"]
    );
}
