//! Tests of `takeover_is_due`, `pauses_grow` and `streams_stay`.

use super::super::followers::{pauses_grow, streams_stay};
use super::*;
use reknit_sse::wire::OutputStream;

/// A stream of client2 replaces one of client that was attached at 1 s.
fn taken(started: ScriptedRun, ms: u64) -> ScriptedRun {
    attached(started.conn(1, 100, None), ms)
}

/// The same, over the connection that is there.
fn attached(connected: ScriptedRun, ms: u64) -> ScriptedRun {
    let conns = connected.by("client2").conn(1, 200, None).by("client");
    let first = milestone(conns, 1_000, "sse.server.attached", &[("conn", 1)]);
    let second = milestone(first, ms, "sse.server.attached", &[("conn", 2)]);
    milestone(second, ms, "sse.server.fenced", &[("conn", 2), ("old", 1)])
}

#[test]
fn a_stream_is_taken_over_late() {
    let taken = |ms| taken(started().kills(1_500, 1_600), ms);
    let early = "a stream of client2 replaced one of client that was attached at 1.000 s (";
    breaks(&taken(2_000), server::takeover_is_due, early);
    breaks(&taken(10_999), server::takeover_is_due, early);
    holds(&taken(11_001), server::takeover_is_due);
}

#[test]
fn a_stream_that_makes_progress_is_not_taken_over() {
    let judged = server::takeover_is_due;
    breaks(&taken(started(), 11_001), judged, "attached at 1.000 s and made progress");
    breaks(&taken(started().kills(11_002, 12_000), 11_001), judged, "and made progress");
    holds(&taken(started().kills(11_001, 12_000), 11_001), judged);
    // Its user may read slowly, or not at all.
    let fields = r#"{"process":"p1","reads":{"pause":"1s","every":"64B"}}"#;
    let slow = started().asked_as(2, 500, Class::Durable, "follow", fields);
    holds(&taken(slow, 11_001), judged);
    holds(&attached(started().conn_labelled("request", 1, 100, None), 11_001), judged);
    // Without output, a sign of life is all that it takes.
    let mut rare = taken(started(), 11_001);
    rare.plan.limits.set("server.heartbeat", LimitValue::Duration(Duration::from_secs(10)));
    holds(&rare, judged);
}

#[test]
fn an_item_after_a_gap_shortens_the_pauses() {
    let attempts = (0..9).fold(started(), |run, n| {
        milestone(run, 2_000 + 100 * n, "sse.client.attempt", &[("attempt", n), ("after", 1)])
    });
    breaks(&attempts, pauses_grow, "began 9 attempts since");
    let bytes = "b\n".to_owned().into();
    let item = SseNote::Output { position: 3, pipe: OutputStream::Stdout, bytes };
    holds(&notes(attempts, 2_050, item), pauses_grow);
}

#[test]
fn a_follower_tries_again_at_once_after_progress() {
    let tries = |first: ScriptedRun, next| {
        let fields = [("attempt", 2), ("after", 1)];
        milestone(first.conn(2, next, None), next, "sse.client.attempt", &fields)
    };
    let first = || started().conn(1, 115, Some(2_000));
    let progress = || first().heard(1_100).delivered("p1/stdout", 1_100, "a\n");
    let at_once = "had no connection since 2.000 s, and its pause is at most 0.000 s";
    holds(&tries(progress(), 2_020), pauses_grow);
    breaks(&tries(progress(), 2_021), pauses_grow, at_once);
    holds(&tries(progress().slows(1_500, 3_900), 4_000), pauses_grow);
    // Without an answer, a pause may be as long as the longest one.
    holds(&tries(first(), 7_020), pauses_grow);
    breaks(&tries(first(), 7_021), pauses_grow, "its pause is at most 5.000 s");
    // A refusal may name a longer time.
    holds(&tries(first().heard(1_900), 9_000), pauses_grow);
    // The connections of two followers have the same name.
    let fields = r#"{"process":"p2"}"#;
    let two = progress().asked_as(2, 500, Class::Durable, "run", fields);
    holds(&tries(two, 2_500), pauses_grow);
}

#[test]
fn a_request_that_is_refused_takes_no_stream() {
    let lost = |run: ScriptedRun| {
        let fields = [("why", MilestoneValue::Text("the connection broke".to_owned()))];
        let name = "sse.client.lost";
        run.user(3_000, EventKind::Milestone { name, fields: fields.into() })
    };
    let asked = |answer: Answer| {
        let fields = r#"{"process":"p1","of":"client","cursor":"99999"}"#;
        let run = started().by("client2").asked_as(2, 2_000, Class::InFlight, "ask", fields);
        lost(run.answered(2, 2_100, answer).by("client"))
    };
    let nothing_in_its_way = "a follower lost its connection (the connection broke)";
    breaks(&lost(started()), streams_stay, nothing_in_its_way);
    holds(&asked(Answer::queued("a stream")), streams_stay);
    let refused = SeenRefusal { status: 400, code: "CURSOR_FUTURE".to_owned() };
    breaks(&asked(Answer::Refused(refused.into())), streams_stay, nothing_in_its_way);
}
