//! Tests of `deadlines_hold`.

use super::super::deadlines::deadlines_hold;
use super::*;

fn without_progress() -> SseFailure {
    SseFailure(Failure::NoProgress(Loss::Silent))
}

/// The user of `p1` received a line over a connection that its client lost at 11 s.
fn gave_up(ms: u64) -> ScriptedRun {
    let run = started().conn(1, 115, Some(11_000)).heard(1_100);
    run.delivered("p1/stdout", 1_100, "a\n").failed_stream("p1", ms, without_progress())
}

#[test]
fn a_follower_tries_for_its_whole_budget() {
    let from_the_loss = "its budget of 60.000 s began at 11.000 s or later";
    breaks(&gave_up(70_949), deadlines_hold, from_the_loss);
    holds(&gave_up(70_950), deadlines_hold);
    // A client that is held may notice the loss before it closes its connection.
    let held = |ms| gave_up(ms).slows(5_000, 6_000);
    holds(&held(60_050), deadlines_hold);
    breaks(&held(60_049), deadlines_hold, "began at 0.100 s or later");
    // The connections of two followers have the same name.
    let fields = r#"{"process":"p2"}"#;
    let two = |ms| gave_up(ms).asked_as(2, 500, Class::Durable, "run", fields);
    holds(&two(60_050), deadlines_hold);
    breaks(&two(60_049), deadlines_hold, "began at 0.100 s or later");
    let other = started().failed_stream("p1", 1_200, SseFailure(Failure::NotFound));
    holds(&other, deadlines_hold);
}

#[test]
fn a_follower_tries_to_begin_for_its_whole_budget() {
    let asked = || history().asked_as(1, 100, Class::Durable, "run", r#"{"process":"p1"}"#);
    holds(&asked().failed(1, 60_050, without_progress()), deadlines_hold);
    let failed = asked().failed(1, 60_049, without_progress());
    breaks(&failed, deadlines_hold, "began at 0.100 s or later");
    let conflict = |ms| {
        let why = refused(409, "STREAM_ACTIVE");
        asked().answered(1, ms, Answer::Refused(why.into()))
    };
    holds(&conflict(60_050), deadlines_hold);
    breaks(&conflict(60_049), deadlines_hold, "began at 0.100 s or later");
}

#[test]
fn a_connection_without_a_byte_is_given_up_in_time() {
    let heard = |over| started().conn(1, 115, over).heard(5_000);
    let silent = "although no byte came since 5.000 s";
    holds(&heard(Some(15_050)), deadlines_hold);
    breaks(&heard(Some(15_051)), deadlines_hold, silent);
    breaks(&heard(None), deadlines_hold, silent);
    holds(&heard(None).slows(15_000, 15_500), deadlines_hold);
    let fields = r#"{"process":"p1","reads":{"pause":"1s","every":"64B"}}"#;
    let slow = heard(None).asked_as(2, 500, Class::Durable, "follow", fields);
    holds(&slow, deadlines_hold);
    // An attempt.
    holds(&started().conn(1, 200, Some(10_250)), deadlines_hold);
    let attempt = started().conn(1, 200, Some(10_251));
    breaks(&attempt, deadlines_hold, "although no byte came since 0.200 s");
    // A single request has another time.
    holds(&started().conn_labelled("request", 1, 200, None), deadlines_hold);
}

#[test]
fn a_single_request_has_the_time_of_an_attempt() {
    let status = || asks(started(), 2_000, "status");
    let failed = |ms| status().failed(2, ms, "no answer in time");
    let late = "the user still waited for the answer, but a request has only 10.000 s";
    holds(&failed(12_050), deadlines_hold);
    breaks(&failed(12_051), deadlines_hold, late);
    breaks(&status(), deadlines_hold, late);
    holds(&failed(12_051).slows(12_000, 12_040), deadlines_hold);
    // The logs are many requests.
    let fields = r#"{"process":"p1","wait":"20s"}"#;
    let logs = started().asked_as(2, 2_000, Class::InFlight, "logs", fields);
    holds(&logs.failed(2, 30_000, "no answer in time"), deadlines_hold);
}
