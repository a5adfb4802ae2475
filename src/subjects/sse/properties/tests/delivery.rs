//! Tests of `output_is_prompt`.

use super::super::delivery::output_is_prompt;
use super::*;

/// The user received the line of 1 s at this time.
fn received(ms: u64) -> ScriptedRun {
    let mut run = started().conn(1, 115, None).delivered("p1/stdout", ms, "a\n");
    run.plan.latency = (Duration::from_millis(5), Duration::from_millis(5));
    run
}

#[test]
fn output_reaches_its_reader_at_once() {
    holds(&received(1_240), output_is_prompt);
    let late = "client received line 1, which was printed at 1.000 s";
    breaks(&received(1_241), output_is_prompt, late);
    breaks(&received(1_241).kills(1_242, 2_000), output_is_prompt, late);
}

#[test]
fn output_that_has_something_in_its_way_may_be_late() {
    holds(&received(2_000).kills(1_500, 1_600), output_is_prompt);
    holds(&received(2_000).conn(2, 900, None), output_is_prompt);
    let follow = r#"{"process":"p1","of":"client"}"#;
    let other = received(2_000).by("client2");
    let other = other.asked_as(2, 500, Class::Durable, "follow", follow).by("client");
    holds(&other, output_is_prompt);
    let fields = r#"{"process":"p1","wait":"1s"}"#;
    let stuck = received(2_000).asked_as(2, 500, Class::InFlight, "stick", fields);
    holds(&stuck, output_is_prompt);
    let mut waits = received(2_000);
    waits.plan.limits.set("server.hold", LimitValue::Duration(Duration::from_secs(5)));
    holds(&waits, output_is_prompt);
    let much = "x".repeat(32 << 10) + "\n";
    holds(&received(2_000).produced("p1/stdout", 1_001, &much), output_is_prompt);
}
