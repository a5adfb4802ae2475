//! Tests of `hold_is_lossless`, for output that a command printed while its client was away.

use super::super::gaps::hold_is_lossless;
use super::*;
use reknit_sse::wire::OutputStream;

/// The client has event 1, which was printed at 1 s. Its connection was over at 2 s, and the next one brought
/// a gap at 3.1 s. The others were printed at these times.
fn away(last: u64, printed: &[u64]) -> ScriptedRun {
    let first = started().conn(1, 115, Some(2_000)).delivered("p1/stdout", 1_100, "a\n");
    let lines = printed.iter().fold(first, |run, ms| run.produced("p1/stdout", *ms, "b\n"));
    let gap = SseNote::Gap { after: 1, gap: Gap { first: 2, last } };
    let mut run = notes(lines.conn(2, 3_000, None), 3_100, gap);
    run.plan.limits.set("server.hold", LimitValue::Duration(Duration::from_secs(5)));
    run
}

#[test]
fn a_command_keeps_what_it_prints_while_its_client_is_away() {
    let lost = "lost the event that was printed at 2.101 s, after its stream was over at 2.000 s";
    breaks(&away(2, &[2_101, 2_900]), hold_is_lossless, lost);
    holds(&away(2, &[2_100, 2_900]), hold_is_lossless);
}

#[test]
fn the_ending_does_not_wait_and_has_room() {
    let ended = |last| away(last, &[2_101, 2_900]).ended("p1", 3_000, ProcessOutcome::Exit(0));
    let lost = "lost the event that was printed at 2.101 s";
    breaks(&ended(2), hold_is_lossless, lost);
    breaks(&ended(3), hold_is_lossless, "lost the event that was printed at 2.900 s");
    let limited = |last, limit: &'static str, value: LimitValue| {
        let mut run = ended(last);
        run.plan.limits.set(limit, value);
        run
    };
    // A log of one event has no room for output and the ending.
    let of_one = |last| limited(last, "server.retained-events", LimitValue::Count(1));
    holds(&of_one(2), hold_is_lossless);
    breaks(&of_one(3), hold_is_lossless, lost);
    // An event weighs 64 bytes, and its output.
    let of_bytes = |bytes| limited(2, "server.retained-bytes", LimitValue::Bytes(bytes));
    holds(&of_bytes(129), hold_is_lossless);
    breaks(&of_bytes(130), hold_is_lossless, lost);
}

#[test]
fn a_command_keeps_its_output_only_for_the_hold() {
    let hold = |ms| {
        let mut run = away(2, &[2_500]);
        let hold = LimitValue::Duration(Duration::from_millis(ms));
        run.plan.limits.set("server.hold", hold);
        run
    };
    breaks(&hold(2_201), hold_is_lossless, "lost the event that was printed at 2.500 s");
    holds(&hold(2_200), hold_is_lossless);
    holds(&hold(0), hold_is_lossless);
}

#[test]
fn another_stream_may_have_taken_what_is_lost() {
    let fields = r#"{"process":"p1","wait":"1s"}"#;
    let stuck = away(2, &[2_500]).asked_as(2, 1_500, Class::InFlight, "stick", fields);
    holds(&stuck, hold_is_lossless);
    let restarted = away(2, &[2_500]).died("server", 2_200).started("server", 2_300);
    holds(&restarted, hold_is_lossless);
    // The positions of two pipes are not known.
    let of_two = away(2, &[2_500]).produced("p1/stderr", 1_200, "c\n");
    holds(&of_two, hold_is_lossless);
}

/// The client receives a line at each of these times over one connection, which brings a gap at 8 s.
fn in_progress(received: &[u64]) -> ScriptedRun {
    let first = started().conn(1, 115, None);
    let lines = received.iter().fold(first, |run, ms| run.delivered("p1/stdout", *ms, "a\n"));
    in_progress_until_a_gap(lines)
}

/// The connection brings a gap at 8 s, and the command waits for 5 s.
fn in_progress_until_a_gap(lines: ScriptedRun) -> ScriptedRun {
    let gap = SseNote::Gap { after: 4, gap: Gap { first: 5, last: 6 } };
    let mut run = notes(lines, 8_000, gap);
    let limits = &mut run.plan.limits;
    limits.set("server.hold", LimitValue::Duration(Duration::from_secs(5)));
    limits.set("server.heartbeat", LimitValue::Duration(Duration::from_secs(1)));
    run
}

#[test]
fn a_stream_that_makes_progress_loses_nothing() {
    let steady = || in_progress(&[1_100, 3_000, 5_000, 7_000]);
    let lost = "that was never without progress for longer than 2.000 s since 0.115 s";
    breaks(&steady(), hold_is_lossless, lost);
    holds(&in_progress(&[1_100, 3_000, 7_000]), hold_is_lossless);
    holds(&in_progress(&[1_100, 3_000]), hold_is_lossless);
    // A gap before the first event may be older than the stream.
    let mut new = in_progress(&[]);
    new.plan.limits.set("server.hold", LimitValue::Duration(Duration::from_secs(20)));
    holds(&new, hold_is_lossless);
    // A narrow link acknowledges what it brings. With a longer way, the acknowledgements stay away for a moment.
    breaks(&steady().narrowed(2_000, 9_000), hold_is_lossless, lost);
    holds(&steady().delayed(2_000, Some(9_000), 100), hold_is_lossless);
    // Without a sign of life, a stream that has taken all events makes no progress.
    let mut rare = steady();
    rare.plan.limits.set("server.heartbeat", LimitValue::Duration(Duration::from_secs(3)));
    holds(&rare, hold_is_lossless);
}

#[test]
fn a_stream_that_began_with_a_gap_loses_nothing_more() {
    let noted = |received: &[u64]| {
        let older = SseNote::Gap { after: 0, gap: Gap { first: 1, last: 2 } };
        let first = notes(started().conn(1, 115, None), 1_050, older);
        in_progress_until_a_gap(received.iter().fold(first, |run, ms| {
            let (pipe, bytes) = (OutputStream::Stdout, "a\n".to_owned().into());
            notes(run, *ms, SseNote::Output { position: 3, pipe, bytes })
        }))
    };
    let lost = "that was never without progress for longer than 2.000 s since 0.115 s";
    breaks(&noted(&[1_100, 3_000, 5_000, 7_000]), hold_is_lossless, lost);
    holds(&noted(&[1_100, 3_000, 7_000]), hold_is_lossless);
    holds(&noted(&[]), hold_is_lossless);
}
